/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a transfer into a database. A restore or a copy takes many transactions; between the first and the last the database is neither what
 * it was nor what it will be. While that is so, two keys say it, outside of the keys that programs use:
 *
 *     \xff\x02/keel/transfer/job       = (1, kind, source, token, merge, into, begun)    begun in milliseconds since 1970
 *     \xff\x02/keel/transfer/progress  = (through, rows)                                 all rows up to the key `through` are in
 *
 *     (nothing) ── job_begin ──► under way ── job_end ──► (nothing)
 *                                  │    ▲
 *                          killed  ▼    │ job_begin of the same kind and source
 *                               unfinished ── job_begin with force: cleared, begun anew
 *
 *   1. Whoever writes rows of the transfer reads the job in the same transaction. The token in it is drawn by job_begin: one that takes a transfer over thereby ends the
 *      process that had it (TRANSFER_LOST), wherever that stands.
 *   2. What progress says is true: it is written with or after the rows it counts.
 *
 * The keys lie under \xff\x02, which on a cluster is stored like data, is not part of what backups and copies carry, and needs the option
 * access_system_keys.
 */
#define _GNU_SOURCE /* asprintf */
#include "transfer.h"

#include <keel/options.h>
#include <stdlib.h>
#include <time.h>

#include "os/file.h"

#define LITERAL(text) {(const uint8_t *)(text), sizeof(text) - 1}
static const keel_bytes job_key = LITERAL("\xff\x02/keel/transfer/job");
static const keel_bytes progress_key = LITERAL("\xff\x02/keel/transfer/progress");

enum { RECORD_FORMAT = 1, TEXT_BYTES = 4096 };

/* ---- Records ---- */

/* What a stored record says; texts point into it. */
struct record {
    char kind[16];
    char source[TEXT_BYTES];
    bool merge;
    uint8_t into[10000];
    size_t into_length;
    int64_t begun_ms;
};

static fdb_error_t pack_record(struct job *job) {
    keel_tuple_builder builder;
    keel_bytes packed;
    keel_tuple_builder_init(&builder);
    keel_tuple_append_int(&builder, RECORD_FORMAT);
    keel_tuple_append_string(&builder, job->kind);
    keel_tuple_append_bytes(&builder, keel_bytes_of_string(job->source));
    keel_tuple_append_bytes(&builder, keel_bytes_of(job->token, sizeof job->token));
    keel_tuple_append_bool(&builder, job->merge);
    keel_tuple_append_bytes(&builder, job->into);
    keel_tuple_append_int(&builder, (int64_t)time(NULL) * 1000);
    fdb_error_t error = keel_tuple_builder_finish(&builder, &packed);
    job->record.length = 0;
    if (!error && !buffer_append(&job->record, packed.data, packed.length))
        error = ERROR_LARGE_ALLOC_FAILED;
    keel_tuple_builder_free(&builder);
    return error;
}

static fdb_error_t unpack_record(keel_bytes packed, struct record *record) {
    keel_tuple_iterator at = keel_tuple_iterate(packed);
    int64_t format;
    size_t length;
    uint8_t token[64];
    fdb_error_t error = keel_tuple_next_int(&at, &format);
    if (!error && format != RECORD_FORMAT)
        return KEEL_ERROR_STORED_FORMAT;
    if (!error)
        error = keel_tuple_next_string(&at, record->kind, sizeof record->kind, &length);
    if (!error && !(error = keel_tuple_next_bytes(&at, (uint8_t *)record->source, sizeof record->source - 1, &length)))
        record->source[length] = 0;
    if (!error)
        error = keel_tuple_next_bytes(&at, token, sizeof token, &length);
    if (!error)
        error = keel_tuple_next_bool(&at, &record->merge);
    if (!error)
        error = keel_tuple_next_bytes(&at, record->into, sizeof record->into, &record->into_length);
    return error ? error : keel_tuple_next_int(&at, &record->begun_ms);
}

static fdb_error_t use_system_keys(FDBTransaction *tr) { return fdb_transaction_set_option(tr, FDB_TR_OPTION_ACCESS_SYSTEM_KEYS, NULL, 0); }

/* Reads a key into a buffer; *present false leaves it empty. */
static fdb_error_t read_key(FDBTransaction *tr, keel_bytes key, struct buffer *value, bool *present) {
    FDBFuture *future = fdb_transaction_get(tr, key.data, (int)key.length, 0);
    fdb_bool_t found = 0;
    const uint8_t *data = NULL;
    int length = 0;
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_value(future, &found, &data, &length);
    value->length = 0;
    if (!error && found && !buffer_append(value, data, (size_t)length))
        error = ERROR_LARGE_ALLOC_FAILED;
    if (!error)
        *present = found;
    fdb_future_destroy(future);
    return error;
}

/* The progress; none is as good as a beginning. */
static fdb_error_t read_progress(FDBTransaction *tr, struct buffer *through, uint64_t *rows) {
    struct buffer packed = {0};
    bool present;
    fdb_error_t error = read_key(tr, progress_key, &packed, &present);
    through->length = 0;
    *rows = 0;
    if (!error && present) {
        uint8_t key[10000];
        size_t length;
        keel_tuple_iterator at = keel_tuple_iterate(keel_bytes_of(packed.data, packed.length));
        error = keel_tuple_next_bytes(&at, key, sizeof key, &length);
        if (!error)
            error = keel_tuple_next_uint(&at, rows);
        if (!error && !buffer_append(through, key, length))
            error = ERROR_LARGE_ALLOC_FAILED;
    }
    buffer_free(&packed);
    return error;
}

static char *describe(const struct record *record, uint64_t rows) {
    char when[64], *text = NULL;
    time_t seconds = (time_t)(record->begun_ms / 1000);
    struct tm local;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", localtime_r(&seconds, &local));
    if (asprintf(&text, "an unfinished %s from %s, begun %s, %s rows in", record->kind, record->source, when, human_count(rows)) < 0)
        return NULL;
    return text;
}

/* ---- Beginning ---- */

struct beginning {
    struct job *job;
    bool force, into_merge;
    enum job_start start;
    char *found;
};

/* The keys the job writes to. */
static fdb_error_t target_range(const struct job *job, uint8_t *end, size_t capacity, size_t *length) {
    if (job->into.length > 0)
        return keel_strinc(job->into, end, capacity, length);
    end[0] = 0xff;
    *length = 1;
    return 0;
}

static fdb_error_t is_empty(FDBTransaction *tr, keel_bytes begin, keel_bytes end, bool *empty) {
    FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin.data, (int)begin.length),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end.data, (int)end.length), 1, 0, FDB_STREAMING_MODE_EXACT, 1, 0, 0);
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t more;
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    fdb_future_destroy(future);
    if (!error)
        *empty = count == 0;
    return error;
}

/* There is a record: take the transfer over, or say whose it is. */
static fdb_error_t meet_record(FDBTransaction *tr, struct beginning *beginning, keel_bytes packed) {
    struct job *job = beginning->job;
    struct record *record = calloc(1, sizeof *record);
    if (!record)
        return ERROR_LARGE_ALLOC_FAILED;
    uint64_t rows;
    fdb_error_t error = unpack_record(packed, record);
    if (!error)
        error = read_progress(tr, &job->through, &rows);
    if (!error) {
        bool same = strcmp(record->kind, job->kind) == 0 && strcmp(record->source, job->source) == 0 &&
                    keel_bytes_compare(keel_bytes_of(record->into, record->into_length), job->into) == 0;
        beginning->start = same ? JOB_RESUMED : JOB_UNFINISHED;
        if (same) {
            job->merge = record->merge;
            job->rows = rows;
            job->resumed = true;
        } else {
            free(beginning->found);
            beginning->found = describe(record, rows);
        }
    }
    free(record);
    return error;
}

/* There is none, or it does not matter. */
static fdb_error_t begin_anew(FDBTransaction *tr, struct beginning *beginning) {
    struct job *job = beginning->job;
    uint8_t end[10001];
    size_t length;
    bool empty = false;
    fdb_error_t error = target_range(job, end, sizeof end, &length);
    if (!error && !job->merge && !beginning->force)
        error = is_empty(tr, job->into, keel_bytes_of(end, length), &empty);
    if (error)
        return error;
    beginning->start = job->merge || beginning->force || empty ? JOB_STARTED : JOB_NOT_EMPTY;
    if (beginning->force)
        fdb_transaction_clear_range(tr, job->into.data, (int)job->into.length, end, (int)length);
    return 0;
}

static fdb_error_t begin_job(FDBTransaction *tr, void *context) {
    struct beginning *beginning = context;
    struct job *job = beginning->job;
    struct buffer packed = {0};
    bool present = false;
    job->merge = beginning->into_merge;
    job->resumed = false;
    job->rows = 0;
    fdb_error_t error = use_system_keys(tr);
    if (!error)
        error = read_key(tr, job_key, &packed, &present);
    if (!error)
        error = present && !beginning->force ? meet_record(tr, beginning, keel_bytes_of(packed.data, packed.length)) : begin_anew(tr, beginning);
    if (!error)
        error = pack_record(job);
    if (!error && (beginning->start == JOB_STARTED || beginning->start == JOB_RESUMED))
        fdb_transaction_set(tr, job_key.data, (int)job_key.length, job->record.data, (int)job->record.length);
    if (!error && beginning->start == JOB_STARTED)
        fdb_transaction_clear(tr, progress_key.data, (int)progress_key.length);
    buffer_free(&packed);
    return error;
}

fdb_error_t job_begin(struct job *job, bool force, enum job_start *start, char **found) {
    struct beginning beginning = {.job = job, .force = force, .into_merge = job->merge};
    os_random(job->token, sizeof job->token);
    fdb_error_t error = keel_run(job->database, begin_job, &beginning);
    if (error) {
        free(beginning.found);
        return error;
    }
    *start = beginning.start;
    *found = beginning.found;
    return 0;
}

/* ---- Going on, and the end ---- */

static fdb_error_t check_ours(FDBTransaction *tr, const struct job *job) {
    struct buffer packed = {0};
    bool present = false;
    fdb_error_t error = use_system_keys(tr);
    if (!error)
        error = read_key(tr, job_key, &packed, &present);
    if (!error && (packed.length != job->record.length || memcmp(packed.data, job->record.data, packed.length) != 0))
        error = TRANSFER_LOST;
    buffer_free(&packed);
    return error;
}

fdb_error_t job_touch(FDBTransaction *tr, const struct job *job, const keel_bytes *through, uint64_t rows) {
    fdb_error_t error = check_ours(tr, job);
    if (error || !through)
        return error;
    keel_tuple_builder builder;
    keel_bytes packed;
    keel_tuple_builder_init(&builder);
    keel_tuple_append_bytes(&builder, *through);
    keel_tuple_append_uint(&builder, rows);
    error = keel_tuple_builder_finish(&builder, &packed);
    if (!error)
        fdb_transaction_set(tr, progress_key.data, (int)progress_key.length, packed.data, (int)packed.length);
    keel_tuple_builder_free(&builder);
    return error;
}

static fdb_error_t end_job(FDBTransaction *tr, void *context) {
    fdb_error_t error = check_ours(tr, context);
    if (error)
        return error;
    fdb_transaction_clear(tr, job_key.data, (int)job_key.length);
    fdb_transaction_clear(tr, progress_key.data, (int)progress_key.length);
    return 0;
}

fdb_error_t job_end(struct job *job) { return keel_run(job->database, end_job, job); }

void job_close(struct job *job) {
    buffer_free(&job->through);
    buffer_free(&job->record);
}

/* ---- Looking ---- */

static fdb_error_t look(FDBTransaction *tr, void *context) {
    char **found = context;
    struct buffer packed = {0}, through = {0};
    struct record *record = calloc(1, sizeof *record);
    bool present = false;
    uint64_t rows = 0;
    fdb_error_t error = record ? use_system_keys(tr) : ERROR_LARGE_ALLOC_FAILED;
    if (!error)
        error = read_key(tr, job_key, &packed, &present);
    if (!error && present)
        error = unpack_record(keel_bytes_of(packed.data, packed.length), record);
    if (!error && present)
        error = read_progress(tr, &through, &rows);
    free(*found);
    *found = !error && present ? describe(record, rows) : NULL;
    free(record);
    buffer_free(&packed);
    buffer_free(&through);
    return error;
}

fdb_error_t job_look(FDBDatabase *database, char **found) {
    char *text = NULL;
    fdb_error_t error = keel_run_read(database, look, &text);
    if (!error)
        *found = text;
    else
        free(text);
    return error;
}

int transfer_report(const char *doing, const char *what, fdb_error_t error) {
    if (error == TRANSFER_LOST)
        return report("%s: %s: another process has taken this %s over and goes on with it; this one has stopped", doing, what, doing);
    return report_error(doing, what, error);
}
