/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of rows on its way into the database, one transaction that is tried until it is committed.
 *
 *     FILLING ── send ──► READING ── all is well ──► COMMITTING ── committed ──► DONE
 *                          ▲  │  └─ its progress is there: an earlier try was committed ──► DONE
 *                          │  │                          │
 *                          │  └── retryable error ──┐    └── retryable error ──┐
 *                          └────── on_error ────── WAITING ◄───────────────────┘
 *
 * READING asks, all at once: for the load's record, which must have our owner and be preparing (LEASE_LOST); for the batch's
 * own progress; and, the first time, for the keys that may be there already, BULK_READS_MAX at a time. What these say decides
 * which rows are written, and is never asked again: until this batch is committed nobody else writes a key of it, since
 *
 *   - another process would be the owner, and the record would say so;
 *   - other batches in flight do not have the key, since bulk_load.c looked (except where nothing is checked).
 *
 * So the keys are read as a snapshot and written without conflict ranges. What makes a commit fail in time is the record,
 * which is read for real, and the batch's own progress: if a try whose result is unknown was committed after all, the next
 * one finds it and the rows are not judged as duplicates of themselves.
 *
 * With each batch goes what is `done` so far, with an atomic maximum: batches are committed in any order, and the one with
 * the most rows remains. Progress of batches that it covers is cleared.
 *
 * Threads: the one that has the keel_bulk. Futures are waited for or polled, nothing is called back.
 */
#include "bulk_private.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_COST = 32 };

/* ---- Rows ---- */

static fdb_error_t append_row(struct bulk_batch *batch, keel_bytes bookmark) {
    if (batch->row_count == batch->row_capacity) {
        uint32_t capacity = batch->row_capacity ? batch->row_capacity * 2 : 256;
        struct bulk_row *larger = realloc(batch->rows, capacity * sizeof *larger);
        if (!larger)
            return BULK_NO_MEMORY;
        batch->rows = larger;
        batch->row_capacity = capacity;
    }
    struct bulk_row *row = &batch->rows[batch->row_count];
    fdb_error_t error = bulk_pairs_keep(&batch->pairs, bookmark, &row->bookmark);
    if (error)
        return error;
    row->bookmark_length = (uint16_t)bookmark.length;
    row->skipped = false;
    row->certain = true;
    batch->pairs.cost += bookmark.length + ROW_COST;
    batch->row_count++;
    batch->progress.rows++;
    return 0;
}

fdb_error_t bulk_batch_append(struct bulk_batch *batch, const struct bulk_pairs *row, keel_bytes bookmark) {
    fdb_error_t error = append_row(batch, bookmark);
    for (uint32_t i = 0; i < row->count && !error; i++) {
        const struct bulk_pair *from = &row->pairs[i];
        struct bulk_pair *to = NULL;
        error = bulk_pairs_add(&batch->pairs, from->key_hash, from->hash, bulk_pair_key(row, from),
                               bulk_pair_value(row, from), &to);
        if (error)
            return error;
        to->row = batch->row_count - 1;
        to->check = from->check;
        batch->rows[to->row].certain &= !from->check;
        batch->progress.pairs++;
        batch->progress.bytes += (int64_t)from->key_length + from->value_length;
        batch->progress.checksum += from->hash;
        batch->progress.input += from->hash;
    }
    return error;
}

fdb_error_t bulk_batch_append_skipped(struct bulk_batch *batch, const struct bulk_pairs *row, keel_bytes bookmark) {
    fdb_error_t error = append_row(batch, bookmark);
    if (error)
        return error;
    batch->rows[batch->row_count - 1].skipped = true;
    batch->progress.skipped++;
    for (uint32_t i = 0; i < row->count; i++)
        batch->progress.input += row->pairs[i].hash;
    return 0;
}

/* The pairs of a row lie together, and rows in order. */
uint32_t bulk_batch_first_pair(const struct bulk_batch *batch, uint32_t row) {
    uint32_t low = 0, high = batch->pairs.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (batch->pairs.pairs[middle].row < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void bulk_batch_drop(struct bulk_batch *batch, uint32_t row) {
    for (uint32_t i = bulk_batch_first_pair(batch, row); i < batch->pairs.count && batch->pairs.pairs[i].row == row; i++) {
        struct bulk_pair *pair = &batch->pairs.pairs[i];
        pair->dropped = true;
        pair->check &= batch->state != BATCH_FILLING; /* those that are asked for have their answer waited for */
        batch->progress.pairs--;
        batch->progress.bytes -= (int64_t)pair->key_length + pair->value_length;
        batch->progress.checksum -= pair->hash;
    }
    batch->rows[row].skipped = true;
    batch->progress.skipped++;
}

keel_bulk_problem bulk_batch_problem(const struct bulk_batch *batch, const struct bulk_pair *pair, fdb_error_t error) {
    const struct bulk_row *row = &batch->rows[pair->row];
    keel_bulk_problem problem = {error, batch->first + pair->row + 1, bulk_pair_key(&batch->pairs, pair),
                                 keel_bytes_of(batch->pairs.data + row->bookmark, row->bookmark_length)};
    return problem;
}

/* ---- Reading ---- */

static void stop_key_reads(struct bulk_batch *batch) {
    for (int i = 0; i < batch->reads_count; i++)
        fdb_future_destroy(batch->reads[i]);
    batch->reads_count = 0;
    batch->asked = batch->checked;
}

static void stop_reads(struct bulk_batch *batch) {
    stop_key_reads(batch);
    if (batch->owner_read)
        fdb_future_destroy(batch->owner_read);
    if (batch->own_read)
        fdb_future_destroy(batch->own_read);
    batch->owner_read = batch->own_read = NULL;
}

fdb_error_t bulk_batch_key(const struct keel_bulk *bulk, const struct bulk_batch *batch, const struct bulk_pair *pair,
                           struct recipe_key *key) {
    keel_bytes prefix = keel_subspace_prefix(&bulk->record.rows);
    key->length = 0;
    fdb_error_t error = recipe_append_bytes(key, prefix);
    return error ? error : recipe_append_bytes(key, bulk_pair_key(&batch->pairs, pair));
}

static fdb_error_t start_key_reads(struct keel_bulk *bulk, struct bulk_batch *batch) {
    struct recipe_key key;
    for (; batch->asked < batch->pairs.count && batch->reads_count < BULK_READS_MAX; batch->asked++) {
        const struct bulk_pair *pair = &batch->pairs.pairs[batch->asked];
        if (!pair->check)
            continue;
        fdb_error_t error = bulk_batch_key(bulk, batch, pair, &key);
        if (error)
            return error;
        batch->reads[batch->reads_count++] = recipe_get_start(batch->tr, &key, true);
    }
    return 0;
}

static fdb_error_t start(struct keel_bulk *bulk, struct bulk_batch *batch) {
    fdb_error_t error = fdb_transaction_set_option(batch->tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE, NULL, 0);
    batch->state = BATCH_READING;
    if (!error)
        batch->owner_read = bulk_get(batch->tr, &bulk->space, KEEL_TUPLE("load", bulk->name), &error);
    if (!error)
        batch->own_read = bulk_get(batch->tr, &bulk->space, KEEL_TUPLE("progress", bulk->name, batch->first), &error);
    if (!error && !batch->decided)
        error = start_key_reads(bulk, batch);
    return error;
}

fdb_error_t bulk_batch_send(struct keel_bulk *bulk, struct bulk_batch *batch) {
    const struct bulk_row *last = &batch->rows[batch->row_count - 1];
    batch->progress.bookmark_length = last->bookmark_length;
    memcpy(batch->progress.bookmark, batch->pairs.data + last->bookmark, last->bookmark_length);
    fdb_error_t error = fdb_database_create_transaction(bulk->database, &batch->tr);
    if (error) {
        batch->tr = NULL;
        return error;
    }
    return start(bulk, batch);
}

static bool reads_ready(const struct bulk_batch *batch) {
    for (int i = batch->reads_count; i > 0; i--)
        if (!fdb_future_is_ready(batch->reads[i - 1]))
            return false;
    return fdb_future_is_ready(batch->owner_read) && fdb_future_is_ready(batch->own_read);
}

/* ---- Deciding ---- */

static fdb_error_t check_owner(const struct keel_bulk *bulk, FDBFuture *owner_read) {
    struct bulk_record record;
    fdb_error_t error = bulk_record_finish(owner_read, &record);
    if (error == KEEL_ERROR_NOT_FOUND)
        return KEEL_ERROR_LEASE_LOST;
    if (!error && (record.state != KEEL_BULK_PREPARING || memcmp(record.owner, bulk->record.owner, BULK_OWNER_BYTES) != 0))
        return KEEL_ERROR_LEASE_LOST;
    return error;
}

/* The pair's value takes the place of another. */
static void replace(struct bulk_batch *batch, const struct bulk_pair *pair, keel_bytes old) {
    batch->progress.pairs--;
    batch->progress.bytes -= (int64_t)pair->key_length + (int64_t)old.length;
    batch->progress.checksum -= bulk_hash_value(pair->key_hash, old);
}

/* The database has the key of this pair. */
static fdb_error_t meet_duplicate(struct keel_bulk *bulk, struct bulk_batch *batch, const struct bulk_pair *pair,
                                  keel_bytes value, keel_bulk_problem *problem) {
    keel_bulk_problem found = bulk_batch_problem(batch, pair, KEEL_ERROR_DUPLICATE);
    switch (bulk->options.duplicates) {
    case KEEL_BULK_SKIP:
        bulk_batch_drop(batch, pair->row);
        if (bulk->options.skip)
            bulk->options.skip(bulk->options.skip_context, &found);
        return 0;
    case KEEL_BULK_REPLACE: replace(batch, pair, value); return 0;
    default: *problem = found; return KEEL_ERROR_DUPLICATE;
    }
}

/* An error of a read comes before anything is decided, so that the reads can be made again. */
static fdb_error_t wait_for_reads(struct bulk_batch *batch) {
    fdb_error_t error = 0;
    for (int i = 0; i < batch->reads_count && !error; i++)
        error = keel_wait(batch->reads[i]);
    return error;
}

/* Judges the pairs that were asked for, in the order of the input, and asks for the next. */
static fdb_error_t decide(struct keel_bulk *bulk, struct bulk_batch *batch, keel_bulk_problem *problem) {
    fdb_error_t error = wait_for_reads(batch);
    for (int next = 0; !error && batch->checked < batch->asked; batch->checked++) {
        const struct bulk_pair *pair = &batch->pairs.pairs[batch->checked];
        bool present = false;
        keel_bytes value = {NULL, 0};
        if (!pair->check)
            continue;
        error = recipe_get_finish(batch->reads[next++], &present, &value);
        if (!error && present && !pair->dropped)
            error = meet_duplicate(bulk, batch, pair, value, problem);
    }
    if (error)
        return error;
    stop_key_reads(batch);
    batch->decided = batch->checked == batch->pairs.count;
    return batch->decided ? 0 : start_key_reads(bulk, batch);
}

/* ---- Writing ---- */

static fdb_error_t write_rows(struct keel_bulk *bulk, struct bulk_batch *batch) {
    struct recipe_key key;
    fdb_error_t error = 0;
    for (uint32_t i = 0; i < batch->pairs.count && !error; i++) {
        const struct bulk_pair *pair = &batch->pairs.pairs[i];
        if (pair->dropped)
            continue;
        error = bulk_batch_key(bulk, batch, pair, &key);
        if (!error)
            error = fdb_transaction_set_option(batch->tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE, NULL, 0);
        if (!error)
            recipe_set(batch->tr, &key, bulk_pair_value(&batch->pairs, pair));
    }
    return error;
}

static fdb_error_t write_own_progress(struct keel_bulk *bulk, struct bulk_batch *batch) {
    struct recipe_key key;
    uint8_t value[BULK_PROGRESS_BYTES_MAX];
    size_t length;
    batch->progress.time_ms = bulk_now_ms();
    fdb_error_t error = recipe_pack(&bulk->space, KEEL_TUPLE("progress", bulk->name, batch->first), &key);
    if (!error)
        error = bulk_progress_pack(&batch->progress, true, value, &length);
    if (!error)
        recipe_set(batch->tr, &key, keel_bytes_of(value, length));
    return error;
}

/* What is done, and away with the progress of the batches in it. */
static fdb_error_t write_done(struct keel_bulk *bulk, struct bulk_batch *batch) {
    struct recipe_key key;
    struct recipe_span covered;
    uint8_t value[BULK_PROGRESS_BYTES_MAX];
    size_t length;
    batch->carried_rows = bulk->done.rows;
    if (bulk->done.rows == bulk->done_stored_rows)
        return 0;
    fdb_error_t error = recipe_pack(&bulk->space, KEEL_TUPLE("progress", bulk->name), &key);
    if (!error)
        error = bulk_progress_pack(&bulk->done, false, value, &length);
    if (!error)
        error = recipe_pack(&bulk->space, KEEL_TUPLE("progress", bulk->name, bulk->done_stored_rows), &covered.begin);
    if (!error)
        error = recipe_pack(&bulk->space, KEEL_TUPLE("progress", bulk->name, bulk->done.rows), &covered.end);
    if (error)
        return error;
    fdb_transaction_atomic_op(batch->tr, key.data, (int)key.length, value, (int)length, FDB_MUTATION_TYPE_BYTE_MAX);
    recipe_clear_span(batch->tr, &covered);
    return 0;
}

static fdb_error_t write_and_commit(struct keel_bulk *bulk, struct bulk_batch *batch) {
    fdb_error_t error = write_rows(bulk, batch);
    if (!error)
        error = write_own_progress(bulk, batch);
    if (!error)
        error = write_done(bulk, batch);
    if (error)
        return error;
    batch->future = fdb_transaction_commit(batch->tr);
    batch->state = BATCH_COMMITTING;
    return 0;
}

/* ---- Steps ---- */

static fdb_error_t step_reading(struct keel_bulk *bulk, struct bulk_batch *batch, keel_bulk_problem *problem) {
    bool applied = false;
    keel_bytes unused;
    fdb_error_t error = check_owner(bulk, batch->owner_read);
    if (!error)
        error = recipe_get_finish(batch->own_read, &applied, &unused);
    while (!error && !applied && !batch->decided) {
        error = decide(bulk, batch, problem);
        if (!error && !batch->decided && !reads_ready(batch))
            return 0; /* more keys are asked for */
    }
    stop_reads(batch);
    if (error)
        return error;
    if (!applied)
        return write_and_commit(bulk, batch);
    batch->state = BATCH_DONE;
    return 0;
}

/* The future of a commit or of a wait has its result. */
static fdb_error_t step_future(struct keel_bulk *bulk, struct bulk_batch *batch) {
    fdb_error_t error = keel_wait_destroy(batch->future);
    batch->future = NULL;
    if (error)
        return error;
    if (batch->state == BATCH_WAITING)
        return start(bulk, batch);
    batch->state = BATCH_DONE;
    return 0;
}

fdb_error_t bulk_batch_step(struct keel_bulk *bulk, struct bulk_batch *batch, bool block, keel_bulk_problem *problem) {
    if (batch->state == BATCH_DONE)
        return 0;
    bool ready = batch->state == BATCH_READING ? reads_ready(batch) : fdb_future_is_ready(batch->future);
    if (!ready && !block)
        return 0;
    bool waiting = batch->state == BATCH_WAITING;
    fdb_error_t error = batch->state == BATCH_READING ? step_reading(bulk, batch, problem) : step_future(bulk, batch);
    if (batch->state == BATCH_DONE)
        bulk_batch_stop(batch);
    if (!error || waiting || !fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error))
        return error;
    stop_reads(batch);
    batch->future = fdb_transaction_on_error(batch->tr, error);
    batch->state = BATCH_WAITING;
    return 0;
}

void bulk_batch_stop(struct bulk_batch *batch) {
    stop_reads(batch);
    if (batch->future) {
        fdb_future_cancel(batch->future);
        fdb_future_destroy(batch->future);
    }
    if (batch->tr)
        fdb_transaction_destroy(batch->tr);
    batch->future = NULL;
    batch->tr = NULL;
}

void bulk_batch_clear(struct bulk_batch *batch, uint64_t first) {
    bulk_batch_stop(batch);
    bulk_pairs_clear(&batch->pairs);
    memset(&batch->progress, 0, sizeof batch->progress);
    batch->state = BATCH_FILLING;
    batch->decided = false;
    batch->first = batch->progress.rows = first;
    batch->row_count = batch->checked = batch->asked = 0;
    batch->begun_ms = 0;
}

void bulk_batch_free(struct bulk_batch *batch) {
    bulk_batch_stop(batch);
    bulk_pairs_free(&batch->pairs);
    free(batch->rows);
    memset(batch, 0, sizeof *batch);
}
