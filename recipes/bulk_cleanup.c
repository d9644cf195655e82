/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing loads that were replaced or abandoned, in transactions of bounded size.
 *
 *     queue entry ──► mark: state removing, so that it cannot be activated any more
 *                 ──► pieces: PIECE_ROWS rows are cleared, from the first key to the last
 *                 ──► forget: the directory, the records and the queue entry, at once
 *
 * Each of these transactions reads the load's record and goes on only if it is still the load that was marked (its owner is
 * a random token). So any number of cleaners can be at work on one load: clearing twice harms nothing, and whoever comes
 * after the last transaction finds no record. A cleaner that dies leaves the queue entry, and the next one begins again
 * with the rows that are left.
 *
 * The end of a piece is found with a key selector: its offset is resolved where the data is, and no row travels.
 *
 * Failure: every state in between is one that the next call continues from.
 */
#include "bulk_private.h"

#include <string.h>

enum { PIECE_ROWS = 10000 };

struct cleaning {
    keel_subspace space;
    const keel_directory *target;
    struct recipe_span queue; /* what is left of it */
    bool found;
    int64_t queued_ms; /* the entry that is at hand */
    char name[KEEL_BULK_NAME_MAX + 1];
    struct bulk_record record; /* as it was marked */
    bool gone;                 /* somebody else was faster, or it is active again */
    struct recipe_span rows;   /* that are left */
    struct recipe_key next;    /* what they begin with once the piece is committed */
    bool at_end;
    keel_bulk_cleaning report;
};

/* ---- The queue ---- */

static fdb_error_t parse_entry(struct cleaning *cleaning, keel_bytes key) {
    keel_tuple_iterator iterator;
    size_t length;
    if (keel_subspace_unpack(&cleaning->space, key, &iterator) || keel_tuple_skip(&iterator, 1) ||
        keel_tuple_next_int(&iterator, &cleaning->queued_ms) ||
        keel_tuple_next_string(&iterator, cleaning->name, sizeof cleaning->name, &length))
        return KEEL_ERROR_STORED_FORMAT;
    return 0;
}

/* The next entry; the queue then begins behind it. */
static fdb_error_t next_entry(FDBTransaction *tr, void *context) {
    struct cleaning *cleaning = context;
    struct recipe_scan scan;
    keel_bytes key, value;
    recipe_scan_open(&scan, tr, &cleaning->queue, 1, false, true);
    fdb_error_t error = recipe_scan_next(&scan, &key, &value, &cleaning->found);
    if (!error && cleaning->found)
        error = parse_entry(cleaning, key);
    if (!error && cleaning->found) {
        memcpy(cleaning->queue.begin.data, key.data, key.length);
        cleaning->queue.begin.data[key.length] = 0;
        cleaning->queue.begin.length = key.length + 1;
    }
    recipe_scan_close(&scan);
    return error;
}

static fdb_error_t clear_entry(FDBTransaction *tr, const struct cleaning *cleaning) {
    struct recipe_key key;
    fdb_error_t error = recipe_pack(&cleaning->space, KEEL_TUPLE("cleanup", cleaning->queued_ms, (const char *)cleaning->name), &key);
    if (!error)
        recipe_clear(tr, &key);
    return error;
}

/* ---- One load ---- */

static fdb_error_t mark(FDBTransaction *tr, void *context) {
    struct cleaning *cleaning = context;
    struct bulk_record *record = &cleaning->record;
    fdb_error_t error = bulk_record_read(tr, &cleaning->space, cleaning->name, record);
    cleaning->gone = error == KEEL_ERROR_NOT_FOUND ||
                     (!error && (record->state < KEEL_BULK_REPLACED || record->changed_ms != cleaning->queued_ms));
    if (cleaning->gone)
        return 0;
    if (error || record->state == KEEL_BULK_REMOVING)
        return error;
    record->state = KEEL_BULK_REMOVING;
    return bulk_record_write(tr, &cleaning->space, cleaning->name, record);
}

/* Whether it is still the load that was marked. */
static fdb_error_t look_again(FDBTransaction *tr, struct cleaning *cleaning) {
    struct bulk_record record;
    fdb_error_t error = bulk_record_read(tr, &cleaning->space, cleaning->name, &record);
    cleaning->gone = error == KEEL_ERROR_NOT_FOUND ||
                     (!error && (record.state != KEEL_BULK_REMOVING ||
                                 memcmp(record.owner, cleaning->record.owner, BULK_OWNER_BYTES) != 0));
    return cleaning->gone ? 0 : error;
}

/* Where the piece ends: the key PIECE_ROWS further, or the end of the rows. */
static fdb_error_t piece_end(FDBFuture *future, const struct recipe_span *rows, struct recipe_key *end, bool *last) {
    const uint8_t *key;
    int length;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_key(future, &key, &length);
    if (error)
        return error;
    keel_bytes found = keel_bytes_of(key, (size_t)length), limit = keel_bytes_of(rows->end.data, rows->end.length);
    *last = keel_bytes_compare(found, limit) >= 0;
    if (*last)
        found = limit;
    end->length = 0;
    return recipe_append_bytes(end, found);
}

static fdb_error_t clear_piece(FDBTransaction *tr, void *context) {
    struct cleaning *cleaning = context;
    struct recipe_span piece;
    bool last = false;
    piece.begin = cleaning->rows.begin;
    FDBFuture *future = fdb_transaction_get_key(tr, piece.begin.data, (int)piece.begin.length, 0, PIECE_ROWS + 1, 1);
    fdb_error_t error = look_again(tr, cleaning);
    if (!error && !cleaning->gone)
        error = piece_end(future, &cleaning->rows, &piece.end, &last);
    fdb_future_destroy(future);
    if (error || cleaning->gone)
        return error;
    recipe_clear_span(tr, &piece);
    cleaning->next = piece.end;
    cleaning->at_end = last;
    return 0;
}

static fdb_error_t forget(FDBTransaction *tr, void *context) {
    struct cleaning *cleaning = context;
    struct recipe_key load, note, progress;
    struct recipe_span span;
    struct bulk_path path;
    const char *name = cleaning->name;
    bulk_path_of(name, &path);
    fdb_error_t error = look_again(tr, cleaning);
    if (error || cleaning->gone)
        return error;
    error = recipe_pack(&cleaning->space, KEEL_TUPLE("load", name), &load);
    if (!error)
        error = recipe_pack(&cleaning->space, KEEL_TUPLE("note", name), &note);
    if (!error)
        error = recipe_pack(&cleaning->space, KEEL_TUPLE("progress", name), &progress);
    if (!error)
        error = keel_directory_remove_if_exists(tr, cleaning->target, path.path, NULL);
    if (!error)
        error = clear_entry(tr, cleaning);
    if (error)
        return error;
    recipe_clear(tr, &load);
    recipe_clear(tr, &note);
    recipe_span_with(&progress, &span);
    recipe_clear_span(tr, &span);
    return 0;
}

/* An entry whose load is gone or is used again: out of the queue, if that is still so. */
static fdb_error_t drop_entry(FDBTransaction *tr, void *context) {
    struct cleaning *cleaning = context;
    fdb_error_t error = mark(tr, cleaning);
    return error || !cleaning->gone ? error : clear_entry(tr, cleaning);
}

static fdb_error_t count_transaction(struct cleaning *cleaning, keel_bulk_cleaned callback, void *context) {
    cleaning->report.transactions++;
    memcpy(cleaning->report.name, cleaning->name, sizeof cleaning->name);
    return callback ? callback(context, &cleaning->report) : 0;
}

static fdb_error_t remove_load(FDBDatabase *database, struct cleaning *cleaning, keel_bulk_cleaned callback, void *context) {
    fdb_error_t error = keel_run(database, mark, cleaning);
    if (!error && cleaning->gone)
        return keel_run(database, drop_entry, cleaning);
    if (!error)
        error = bulk_rows_span(&cleaning->record.rows, &cleaning->rows);
    for (cleaning->at_end = false; !error && !cleaning->at_end && !cleaning->gone;) {
        error = keel_run(database, clear_piece, cleaning);
        cleaning->rows.begin = cleaning->next;
        if (!error && !cleaning->gone)
            error = count_transaction(cleaning, callback, context);
    }
    if (!error && !cleaning->gone)
        error = keel_run(database, forget, cleaning);
    if (error || cleaning->gone)
        return error;
    cleaning->report.loads++;
    return count_transaction(cleaning, callback, context);
}

/* The entries that are old enough. */
static fdb_error_t queue_span(struct cleaning *cleaning, int64_t age_ms) {
    fdb_error_t error = recipe_span_of(&cleaning->space, KEEL_TUPLE("cleanup"), &cleaning->queue);
    if (error || age_ms == 0)
        return error;
    return recipe_pack(&cleaning->space, KEEL_TUPLE("cleanup", bulk_now_ms() - age_ms + 1), &cleaning->queue.end);
}

KEEL_EXPORT fdb_error_t keel_bulk_cleanup(FDBDatabase *database, const keel_directory *target, int64_t age_ms,
                                          keel_bulk_cleaned callback, void *context, keel_bulk_cleaning *report) {
    struct cleaning cleaning = {.target = target};
    if (!database || age_ms < 0)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = bulk_space(target, &cleaning.space);
    if (!error)
        error = queue_span(&cleaning, age_ms);
    while (!error) {
        error = keel_run_read(database, next_entry, &cleaning);
        if (error || !cleaning.found)
            break;
        error = remove_load(database, &cleaning, callback, context);
    }
    if (!error && report)
        *report = cleaning.report;
    return error;
}
