/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows out of a database at one version, and rows into one with many transactions in flight.
 *
 * Reading. A snapshot is a transaction with KEEL_TR_OPTION_LONG_READ: one version for as long as it takes. A cluster does not know the option (2007); there
 * a version lasts five seconds, and when it is too old the scan goes on behind the last row at a new one, and says so (snapshot.versions). A
 * scan keeps one read ahead of the caller, so that on a cluster the next rows travel while these are worked on. Memory: two reads of READ_BYTES.
 *
 * Writing. A loader has a ring of batches; each is a transaction of at most LOADER_BATCH_BYTES of changes:
 *
 *         first                       first + in_flight
 *           ▼                              ▼
 *     ┌───────────┬───────────┬───────────┬───────────┬─ ─ ─
 *     │ committing│ committing│ committing│  filling  │ free
 *     └───────────┴───────────┴───────────┴───────────┴─ ─ ─
 *
 *   1. A batch keeps its changes until its commit is known to have succeeded, so it can be made again after any retryable error. Sets and
 *      clears of single keys may be applied twice, so an unknown result is retried too.
 *   2. Batches in flight commit in any order, but are waited for in the order they were filled. `confirmed` is the last key of the last batch that
 *      was waited for: everything up to it is in.
 *   3. Every batch writes, with its changes, the progress that was confirmed when it was sent. An older batch that commits later sets it back, which
 *      costs work after an interruption but is never untrue.
 *   4. Every batch reads the job's record (transfer_job.c), with a conflict: if another process has taken the transfer over, it fails.
 *
 * Memory: LOADER_SLOTS batches. Threads: one. Failure: the first final error is returned; what is confirmed stays confirmed.
 */
#include "transfer.h"

#include <keel/options.h>
#include <stdlib.h>

#include "util/checksum.h"
#include "util/coding.h"

enum { READ_BYTES = 1 << 20, READ_ROWS = 20000 };

static bool buffer_set(struct buffer *buffer, keel_bytes bytes) {
    buffer->length = 0;
    return buffer_append(buffer, bytes.data, bytes.length);
}

static keel_bytes bytes_of(const struct buffer *buffer) { return keel_bytes_of(buffer->data, buffer->length); }

/* ---- Snapshots ---- */

static fdb_error_t begin_reading(struct snapshot *snapshot, bool bounded) {
    fdb_error_t error = fdb_database_create_transaction(snapshot->database, &snapshot->tr);
    if (error)
        return error;
    snapshot->held = !bounded;
    if (!bounded)
        error = fdb_transaction_set_option(snapshot->tr, KEEL_TR_OPTION_LONG_READ, NULL, 0);
    if (error == ERROR_INVALID_OPTION) {
        fdb_transaction_destroy(snapshot->tr); /* the refusal would come back with its first read */
        return begin_reading(snapshot, true);
    }
    return error;
}

fdb_error_t snapshot_open(FDBDatabase *database, bool bounded, bool one_version, struct snapshot *snapshot) {
    *snapshot = (struct snapshot){.database = database, .one_version = one_version, .versions = 1};
    fdb_error_t error = begin_reading(snapshot, bounded);
    while (!error) {
        FDBFuture *future = fdb_transaction_get_read_version(snapshot->tr);
        error = session_wait(future);
        if (!error)
            error = fdb_future_get_int64(future, &snapshot->version);
        fdb_future_destroy(future);
        if (!error)
            return 0;
        if (!fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error))
            break;
        FDBFuture *retry = fdb_transaction_on_error(snapshot->tr, error); /* takes the options back */
        error = session_wait(retry);
        fdb_future_destroy(retry);
        if (!error && snapshot->held)
            error = fdb_transaction_set_option(snapshot->tr, KEEL_TR_OPTION_LONG_READ, NULL, 0);
    }
    snapshot_close(snapshot);
    return error;
}

void snapshot_close(struct snapshot *snapshot) {
    if (snapshot->tr)
        fdb_transaction_destroy(snapshot->tr);
    snapshot->tr = NULL;
}

/* After an error of a read: 0 if the same read can be made again, at another version where that is allowed. */
static fdb_error_t read_again(struct snapshot *snapshot, fdb_error_t error) {
    if (snapshot->held || !fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error))
        return error;
    if (snapshot->one_version)
        return TRANSFER_CHANGED;
    FDBFuture *future = fdb_transaction_on_error(snapshot->tr, error);
    error = session_wait(future);
    fdb_future_destroy(future);
    snapshot->versions++;
    return error;
}

fdb_error_t snapshot_get(struct snapshot *snapshot, keel_bytes key, struct buffer *value, bool *present) {
    for (;;) {
        FDBFuture *future = fdb_transaction_get(snapshot->tr, key.data, (int)key.length, 1);
        fdb_bool_t found = 0;
        const uint8_t *data = NULL;
        int length = 0;
        fdb_error_t error = session_wait(future);
        if (!error)
            error = fdb_future_get_value(future, &found, &data, &length);
        value->length = 0;
        if (!error && found && !buffer_append(value, data, (size_t)length))
            error = ERROR_LARGE_ALLOC_FAILED;
        fdb_future_destroy(future);
        if (!error) {
            *present = found;
            return 0;
        }
        error = read_again(snapshot, error);
        if (error)
            return error;
    }
}

/* ---- Scans ---- */

static FDBFuture *start_read(const struct scan *scan) {
    const uint8_t *from = scan->last.data;
    int length = (int)scan->last.length;
    return fdb_transaction_get_range(scan->snapshot->tr, from, length, scan->started, 1,
                                     FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(scan->end.data, (int)scan->end.length), READ_ROWS, READ_BYTES,
                                     FDB_STREAMING_MODE_EXACT, 1, 1, 0);
}

static void drop(FDBFuture **future) {
    if (*future)
        fdb_future_destroy(*future);
    *future = NULL;
}

fdb_error_t scan_open(struct snapshot *snapshot, keel_bytes begin, keel_bytes end, struct scan *scan) {
    *scan = (struct scan){.snapshot = snapshot};
    if (!buffer_set(&scan->last, begin) || !buffer_set(&scan->end, end)) {
        scan_close(scan);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    return 0;
}

/* Waits for the read that is ahead, and makes it again where that helps. */
static fdb_error_t take_ahead(struct scan *scan, const FDBKeyValue **rows, int *count, fdb_bool_t *more) {
    for (;;) {
        if (!scan->ahead)
            scan->ahead = start_read(scan);
        fdb_error_t error = session_wait(scan->ahead);
        if (!error)
            error = fdb_future_get_keyvalue_array(scan->ahead, rows, count, more);
        if (!error && session_interrupted())
            error = ERROR_OPERATION_CANCELLED;
        if (!error)
            return 0;
        drop(&scan->ahead);
        error = read_again(scan->snapshot, error);
        if (error)
            return error;
    }
}

fdb_error_t scan_next(struct scan *scan, const FDBKeyValue **rows, int *count) {
    *count = 0;
    drop(&scan->current);
    if (scan->done)
        return 0;
    fdb_bool_t more = 0;
    fdb_error_t error = take_ahead(scan, rows, count, &more);
    if (error)
        return error;
    scan->current = scan->ahead;
    scan->ahead = NULL;
    scan->done = !more || *count == 0;
    if (*count > 0) {
        const FDBKeyValue *last = &(*rows)[*count - 1];
        if (!buffer_set(&scan->last, keel_bytes_of(last->key, (size_t)last->key_length)))
            return ERROR_LARGE_ALLOC_FAILED;
        scan->started = true;
    }
    if (!scan->done)
        scan->ahead = start_read(scan);
    return 0;
}

void scan_close(struct scan *scan) {
    drop(&scan->current);
    drop(&scan->ahead);
    buffer_free(&scan->last);
    buffer_free(&scan->end);
}

fdb_error_t cursor_open(struct snapshot *snapshot, keel_bytes begin, keel_bytes end, struct cursor *cursor) {
    *cursor = (struct cursor){.count = 0};
    return scan_open(snapshot, begin, end, &cursor->scan);
}

fdb_error_t cursor_next(struct cursor *cursor, struct row *row, bool *present) {
    if (cursor->at == cursor->count) {
        cursor->at = 0;
        fdb_error_t error = scan_next(&cursor->scan, &cursor->rows, &cursor->count);
        if (error)
            return error;
    }
    *present = cursor->at < cursor->count;
    if (*present) {
        const FDBKeyValue *found = &cursor->rows[cursor->at++];
        *row = (struct row){keel_bytes_of(found->key, (size_t)found->key_length), keel_bytes_of(found->value, (size_t)found->value_length)};
    }
    return 0;
}

void cursor_close(struct cursor *cursor) { scan_close(&cursor->scan); }

/* ---- Tallies ---- */

void tally_add(struct tally *tally, keel_bytes key, keel_bytes value) {
    uint64_t sum = checksum(bytes_make(key.data, key.length), tally->checksum + key.length);
    tally->checksum = checksum(bytes_make(value.data, value.length), sum + value.length);
    tally->rows++;
    tally->bytes += key.length + value.length;
}

bool tally_equal(const struct tally *a, const struct tally *b) {
    return a->rows == b->rows && a->bytes == b->bytes && a->checksum == b->checksum;
}

/* ---- The loader ---- */

enum { CHANGE_HEADER_BYTES = 9, CHANGE_SET = 0, CHANGE_CLEAR = 1 };

void loader_open(FDBDatabase *database, const struct job *job, struct loader *loader) {
    *loader = (struct loader){.database = database, .job = job};
    if (job && job->resumed && job->through.length > 0) {
        loader->any_confirmed = buffer_set(&loader->confirmed, bytes_of(&job->through));
        loader->rows = loader->rows_confirmed = job->rows;
    }
}

static struct loader_batch *batch_at(struct loader *loader, size_t index) {
    return &loader->batches[(loader->first + index) % LOADER_SLOTS];
}

static void apply_changes(const struct loader_batch *batch) {
    const uint8_t *at = batch->changes.data, *end = at + batch->changes.length;
    while (at < end) {
        uint32_t key_length = coding_get_u32(at + 1), value_length = coding_get_u32(at + 5);
        const uint8_t *key = at + CHANGE_HEADER_BYTES;
        if (at[0] == CHANGE_SET)
            fdb_transaction_set(batch->tr, key, (int)key_length, key + key_length, (int)value_length);
        else
            fdb_transaction_clear(batch->tr, key, (int)key_length);
        at = key + key_length + value_length;
    }
}

/* Fills the transaction and starts its commit. */
static fdb_error_t send(struct loader *loader, struct loader_batch *batch) {
    keel_bytes through = bytes_of(&loader->confirmed);
    fdb_error_t error = 0;
    if (loader->job)
        error = job_touch(batch->tr, loader->job, loader->any_confirmed ? &through : NULL, loader->rows_confirmed);
    if (error)
        return error;
    apply_changes(batch);
    batch->commit = fdb_transaction_commit(batch->tr);
    return 0;
}

/* Sends, and after retryable errors of what it reads sends again. */
static fdb_error_t send_until_sent(struct loader *loader, struct loader_batch *batch) {
    for (;;) {
        fdb_error_t error = send(loader, batch);
        if (!error || !fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error))
            return error;
        FDBFuture *retry = fdb_transaction_on_error(batch->tr, error);
        error = session_wait(retry);
        fdb_future_destroy(retry);
        if (error)
            return error;
    }
}

static fdb_error_t commit_first(struct loader *loader, struct loader_batch *batch) {
    for (;;) {
        fdb_error_t error = session_wait(batch->commit);
        drop(&batch->commit);
        if (!error)
            return 0;
        FDBFuture *retry = fdb_transaction_on_error(batch->tr, error);
        error = session_wait(retry);
        fdb_future_destroy(retry);
        if (!error)
            error = send_until_sent(loader, batch);
        if (error)
            return error;
    }
}

static void batch_reset(struct loader_batch *batch) {
    drop(&batch->commit);
    if (batch->tr)
        fdb_transaction_destroy(batch->tr);
    batch->tr = NULL;
    batch->changes.length = batch->last_key.length = 0;
    batch->count = 0;
}

/* Remembers which keys an error came from. */
static void note_failure(struct loader *loader, const struct loader_batch *batch) {
    if (batch->changes.length && !loader->failed_key.length)
        (void)buffer_set(&loader->failed_key, keel_bytes_of(batch->changes.data + CHANGE_HEADER_BYTES, coding_get_u32(batch->changes.data + 1)));
}

/* Waits for the oldest batch in flight. */
static fdb_error_t retire(struct loader *loader) {
    struct loader_batch *batch = batch_at(loader, 0);
    fdb_error_t error = commit_first(loader, batch);
    if (error) {
        note_failure(loader, batch);
        return error;
    }
    if (batch->last_key.length) {
        if (!buffer_set(&loader->confirmed, bytes_of(&batch->last_key)))
            return ERROR_LARGE_ALLOC_FAILED;
        loader->any_confirmed = true;
        loader->rows_confirmed = batch->rows_through;
    }
    batch_reset(batch);
    loader->first = (loader->first + 1) % LOADER_SLOTS;
    loader->in_flight--;
    return 0;
}

/* Sends the batch that is being filled, and makes room for the next. */
static fdb_error_t flush(struct loader *loader) {
    struct loader_batch *batch = batch_at(loader, loader->in_flight);
    if (batch->count == 0)
        return 0;
    fdb_error_t error = fdb_database_create_transaction(loader->database, &batch->tr);
    if (!error)
        error = send_until_sent(loader, batch);
    if (error) {
        note_failure(loader, batch);
        return error;
    }
    loader->in_flight++;
    return loader->in_flight == LOADER_SLOTS ? retire(loader) : 0;
}

static fdb_error_t add_change(struct loader *loader, uint8_t kind, keel_bytes key, keel_bytes value) {
    struct loader_batch *batch = batch_at(loader, loader->in_flight);
    size_t bytes = CHANGE_HEADER_BYTES + key.length + value.length;
    if (batch->count > 0 && (batch->changes.length + bytes > LOADER_BATCH_BYTES || batch->count == LOADER_BATCH_CHANGES)) {
        fdb_error_t error = flush(loader);
        if (error)
            return error;
        batch = batch_at(loader, loader->in_flight);
    }
    uint8_t header[CHANGE_HEADER_BYTES] = {kind};
    coding_put_u32(header + 1, (uint32_t)key.length);
    coding_put_u32(header + 5, (uint32_t)value.length);
    if (!buffer_append(&batch->changes, header, sizeof header) || !buffer_append(&batch->changes, key.data, key.length) ||
        !buffer_append(&batch->changes, value.data, value.length))
        return ERROR_LARGE_ALLOC_FAILED;
    batch->count++;
    return session_interrupted() ? ERROR_OPERATION_CANCELLED : 0;
}

fdb_error_t loader_set(struct loader *loader, keel_bytes key, keel_bytes value) {
    fdb_error_t error = add_change(loader, CHANGE_SET, key, value);
    if (error)
        return error;
    struct loader_batch *batch = batch_at(loader, loader->in_flight);
    batch->rows_through = ++loader->rows;
    return buffer_set(&batch->last_key, key) ? 0 : ERROR_LARGE_ALLOC_FAILED;
}

fdb_error_t loader_repair_set(struct loader *loader, keel_bytes key, keel_bytes value) { return add_change(loader, CHANGE_SET, key, value); }

fdb_error_t loader_repair_clear(struct loader *loader, keel_bytes key) { return add_change(loader, CHANGE_CLEAR, key, keel_bytes_of(NULL, 0)); }

fdb_error_t loader_finish(struct loader *loader) {
    fdb_error_t error = flush(loader);
    while (!error && loader->in_flight > 0)
        error = retire(loader);
    return error;
}

void loader_close(struct loader *loader) {
    for (size_t i = 0; i < LOADER_SLOTS; i++) {
        batch_reset(&loader->batches[i]);
        buffer_free(&loader->batches[i].changes);
        buffer_free(&loader->batches[i].last_key);
    }
    buffer_free(&loader->confirmed);
    buffer_free(&loader->failed_key);
}
