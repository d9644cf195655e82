/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keel_bulk object: pairs become rows, rows become batches, and batches go to the database, several at once.
 *
 *     keel_bulk_set ──► row ── keel_bulk_row ──► the batch being filled ── cut ──► batches in flight ──► done
 *                                     └──► compared, where an earlier run has loaded the row (`kept`)
 *
 * Batches are committed in any order, but leave the ring in the order of their rows: what is `done` has no gap.
 *
 * Duplicates. A key of a new row can be, with a smaller row number, in the database or in a batch that is not known to be
 * committed yet. The second are all in memory, with tables of their keys: they are looked at here. For the first the batch
 * asks (bulk_batch.c), at a read version taken after the row was added: whatever was committed by then is seen, the rest was
 * in memory. So a duplicate is found at the second of the two rows, whatever the order of commits. Most keys need neither: one
 * behind the largest so far (`largest`), as in sorted input, cannot be a duplicate, nor can one that the filter does not have.
 *
 * KEEL_BULK_SKIP leaves rows out whole, so whether a row counts can depend on whether an earlier one did. A hit on a row that
 * may yet be left out (it waits for the answer of the database) therefore has that one decided first: what is left out
 * depends on the input alone, not on where batches were cut.
 *
 * Invariants:
 * 1. Rows of the ring, batch by batch, and of the one being filled follow each other, with kept ones in between.
 * 2. done.rows <= rows_added; everything between is in the ring, being filled, or kept and passed.
 * 3. At most options.in_flight batches are sent and not committed; each holds at most the larger of batch_bytes and one row.
 *    That, and the batch being filled, is all the memory there is.
 *
 * Failure: the first final error stays in `problem` and answers every later call.
 */
#include "bulk_private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLL_ROWS = 128, READS_AT_ONCE = 32 };

static const fdb_error_t TRANSACTION_TOO_LARGE = 2101, KEY_TOO_LARGE = 2102;

/* ---- Failing ---- */

/* Ends the load in this process. The problem's bytes are copied. */
static fdb_error_t fail(struct keel_bulk *bulk, keel_bulk_problem problem) {
    uint8_t *memory = malloc(problem.key.length + problem.bookmark.length + 1);
    if (!memory)
        problem.key.length = problem.bookmark.length = 0;
    if (problem.key.length)
        memcpy(memory, problem.key.data, problem.key.length);
    if (problem.bookmark.length)
        memcpy(memory + problem.key.length, problem.bookmark.data, problem.bookmark.length);
    problem.key.data = memory;
    problem.bookmark.data = memory ? memory + problem.key.length : NULL;
    free(bulk->problem_memory);
    bulk->problem_memory = memory;
    bulk->problem = problem;
    return problem.error;
}

static fdb_error_t fail_with(struct keel_bulk *bulk, fdb_error_t error) {
    keel_bulk_problem problem = {.error = error};
    return fail(bulk, problem);
}

/* ---- The ring ---- */

static struct bulk_batch *batch_at(struct keel_bulk *bulk, int index) {
    return &bulk->batches[(bulk->head + index) % (bulk->options.in_flight + 1)];
}

static struct bulk_batch *filling(struct keel_bulk *bulk) {
    return batch_at(bulk, bulk->count);
}

/* Adds to what is done whatever follows it without a gap. */
static void settle(struct keel_bulk *bulk) {
    for (;;) {
        struct bulk_batch *head = batch_at(bulk, 0);
        if (bulk->count > 0 && head->state == BATCH_DONE && head->first == bulk->done.rows) {
            bulk_progress_add(&bulk->done, &head->progress);
            if (head->carried_rows > bulk->done_stored_rows)
                bulk->done_stored_rows = head->carried_rows;
            bulk_batch_clear(head, 0);
            bulk->head = (bulk->head + 1) % (bulk->options.in_flight + 1);
            bulk->count--;
        } else if (bulk->kept_done < bulk->kept_passed && bulk->kept[bulk->kept_done].first == bulk->done.rows) {
            bulk_progress_add(&bulk->done, &bulk->kept[bulk->kept_done++].progress);
        } else {
            break;
        }
    }
}

static fdb_error_t step(struct keel_bulk *bulk, struct bulk_batch *batch, bool block) {
    keel_bulk_problem problem = {.error = 0};
    fdb_error_t error = bulk_batch_step(bulk, batch, block, &problem);
    if (!error)
        return 0;
    problem.error = error;
    return fail(bulk, problem);
}

/* Moves on whatever can be without waiting; then, if asked to, waits for the oldest. */
static fdb_error_t step_all(struct keel_bulk *bulk, bool block) {
    fdb_error_t error = 0;
    for (int i = 0; i < bulk->count && !error; i++)
        error = step(bulk, batch_at(bulk, i), false);
    if (!error && block && bulk->count > 0)
        error = step(bulk, batch_at(bulk, 0), true);
    settle(bulk);
    return error;
}

static fdb_error_t drain(struct keel_bulk *bulk, int count) {
    fdb_error_t error = 0;
    while (!error && bulk->count > count)
        error = step_all(bulk, true);
    return error;
}

/* Sends the batch that is being filled. */
static fdb_error_t send(struct keel_bulk *bulk) {
    struct bulk_batch *batch = filling(bulk);
    if (batch->row_count == 0)
        return 0;
    fdb_error_t error = drain(bulk, bulk->options.in_flight - 1);
    if (error)
        return error;
    bulk->count++;
    error = bulk_batch_send(bulk, batch);
    return error ? fail_with(bulk, error) : step_all(bulk, false);
}

/* ---- Duplicates ---- */

/* Until it is known which of its rows it writes. */
static fdb_error_t decide_batch(struct keel_bulk *bulk, struct bulk_batch *batch) {
    fdb_error_t error = 0;
    while (!error && !batch->decided && batch->state != BATCH_DONE)
        error = step(bulk, batch, true);
    return error;
}

struct row_question {
    struct keel_bulk *bulk;
    struct bulk_batch *batch;
    uint32_t row;
    const struct bulk_pair *found; /* a pair that is there already, or NULL */
};

/* The pairs of the row from `*next` on, as many as are asked for at once. */
static fdb_error_t ask_for_some(FDBTransaction *tr, struct row_question *question, uint32_t *next) {
    struct bulk_batch *batch = question->batch;
    struct recipe_key key;
    FDBFuture *reads[READS_AT_ONCE];
    const struct bulk_pair *pairs[READS_AT_ONCE];
    int count = 0;
    fdb_error_t error = 0;
    for (; *next < batch->pairs.count && batch->pairs.pairs[*next].row == question->row && count < READS_AT_ONCE; ++*next) {
        const struct bulk_pair *pair = &batch->pairs.pairs[*next];
        if (!pair->check)
            continue;
        error = bulk_batch_key(question->bulk, batch, pair, &key);
        if (error)
            break;
        pairs[count] = pair;
        reads[count++] = recipe_get_start(tr, &key, true);
    }
    for (int i = 0; i < count; i++) {
        bool present = false;
        keel_bytes value;
        if (!error && !question->found)
            error = recipe_get_finish(reads[i], &present, &value);
        if (!error && present)
            question->found = pairs[i];
        fdb_future_destroy(reads[i]);
    }
    return error;
}

static fdb_error_t ask_for_row(FDBTransaction *tr, void *context) {
    struct row_question *question = context;
    const struct bulk_pairs *pairs = &question->batch->pairs;
    uint32_t next = bulk_batch_first_pair(question->batch, question->row);
    fdb_error_t error = 0;
    question->found = NULL;
    while (!error && !question->found && next < pairs->count && pairs->pairs[next].row == question->row)
        error = ask_for_some(tr, question, &next);
    return error;
}

static void tell_skipped(const struct keel_bulk *bulk, const keel_bulk_problem *problem) {
    if (bulk->options.skip)
        bulk->options.skip(bulk->options.skip_context, problem);
}

/* A row of the batch that is being filled: whether it counts. */
static fdb_error_t decide_row(struct keel_bulk *bulk, struct bulk_batch *batch, uint32_t row) {
    struct row_question question = {bulk, batch, row, NULL};
    fdb_error_t error = keel_run_read(bulk->database, ask_for_row, &question);
    if (error)
        return fail_with(bulk, error);
    if (question.found) {
        keel_bulk_problem problem = bulk_batch_problem(batch, question.found, KEEL_ERROR_DUPLICATE);
        bulk_batch_drop(batch, row);
        tell_skipped(bulk, &problem);
        return 0;
    }
    batch->rows[row].certain = true;
    for (uint32_t i = bulk_batch_first_pair(batch, row); i < batch->pairs.count && batch->pairs.pairs[i].row == row; i++)
        batch->pairs.pairs[i].check = false;
    return 0;
}

/* The batch in memory that has the key, in flight or being filled; NULL if none has. */
static struct bulk_batch *find_in_memory(struct keel_bulk *bulk, const struct bulk_pair *pair, struct bulk_pair **found) {
    keel_bytes key = bulk_pair_key(&bulk->row, pair);
    for (int i = bulk->count; i >= 0; i--) {
        struct bulk_batch *batch = batch_at(bulk, i);
        *found = batch->row_count ? bulk_pairs_find(&batch->pairs, pair->key_hash, key) : NULL;
        if (*found)
            return batch;
    }
    return NULL;
}

/* Whether a row in memory has the key and is sure to count. */
static fdb_error_t is_in_memory(struct keel_bulk *bulk, const struct bulk_pair *pair, bool *hit) {
    for (;;) {
        struct bulk_pair *found;
        struct bulk_batch *batch = find_in_memory(bulk, pair, &found);
        if (!batch || batch->decided || batch->rows[found->row].certain) {
            *hit = batch != NULL;
            return 0;
        }
        fdb_error_t error = batch == filling(bulk) ? decide_row(bulk, batch, found->row) : decide_batch(bulk, batch);
        if (error)
            return error;
    }
}

static bool is_behind_largest(const struct keel_bulk *bulk, keel_bytes key) {
    return !bulk->has_largest || keel_bytes_compare(key, keel_bytes_of(bulk->largest.data, bulk->largest.length)) > 0;
}

/* Whether the load may have the key, on its way or in the database. */
static bool may_be_there(const struct keel_bulk *bulk, const struct bulk_pair *pair) {
    return !is_behind_largest(bulk, bulk_pair_key(&bulk->row, pair)) && bulk_filter_may_have(&bulk->filter, pair->key_hash);
}

static void note_keys(struct keel_bulk *bulk) {
    for (uint32_t i = 0; i < bulk->row.count; i++) {
        keel_bytes key = bulk_pair_key(&bulk->row, &bulk->row.pairs[i]);
        bulk_filter_add(&bulk->filter, bulk->row.pairs[i].key_hash);
        if (!is_behind_largest(bulk, key))
            continue;
        if (key.length)
            memcpy(bulk->largest.data, key.data, key.length);
        bulk->largest.length = key.length;
        bulk->has_largest = true;
    }
}

/* The row has a key of a row in memory: what the policy wants. *skip: leave it out. */
static fdb_error_t meet_in_memory(struct keel_bulk *bulk, const struct bulk_pair *pair, keel_bytes bookmark, bool *skip) {
    keel_bulk_problem problem = {KEEL_ERROR_DUPLICATE, bulk->rows_added + 1, bulk_pair_key(&bulk->row, pair), bookmark};
    fdb_error_t error;
    switch (bulk->options.duplicates) {
    case KEEL_BULK_SKIP:
        *skip = true;
        tell_skipped(bulk, &problem);
        return 0;
    case KEEL_BULK_REPLACE:
        error = send(bulk);
        return error ? error : drain(bulk, 0);
    default:
        error = send(bulk); /* one with a smaller number comes first */
        if (!error)
            error = drain(bulk, 0);
        return error ? error : fail(bulk, problem);
    }
}

/* Marks the pairs of the row that the batch has to look for. */
static fdb_error_t check_row(struct keel_bulk *bulk, keel_bytes bookmark, bool *skip) {
    fdb_error_t error = 0;
    if (bulk->options.duplicates == KEEL_BULK_UNCHECKED)
        return 0;
    for (uint32_t i = 0; i < bulk->row.count && !error && !*skip; i++) {
        struct bulk_pair *pair = &bulk->row.pairs[i];
        bool hit = false;
        pair->check = may_be_there(bulk, pair);
        if (!pair->check)
            continue;
        if (bulk->options.duplicates == KEEL_BULK_SKIP) {
            error = is_in_memory(bulk, pair, &hit);
        } else {
            struct bulk_pair *found;
            hit = find_in_memory(bulk, pair, &found) != NULL;
        }
        if (!error && hit)
            error = meet_in_memory(bulk, pair, bookmark, skip);
    }
    return error;
}

/* ---- Rows ---- */

static int64_t monotonic_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* With the prefix that each key gets. */
static size_t cost_of(const struct keel_bulk *bulk, const struct bulk_pairs *pairs) {
    return pairs->cost + pairs->count * keel_subspace_prefix(&bulk->record.rows).length;
}

static bool is_at_kept(const struct keel_bulk *bulk) {
    return bulk->kept_passed < bulk->kept_count && bulk->rows_added >= bulk->kept[bulk->kept_passed].first;
}

static bool is_time_to_send(struct keel_bulk *bulk, const struct bulk_batch *batch, int64_t now_ms) {
    return cost_of(bulk, &batch->pairs) >= bulk->options.batch_bytes || now_ms - batch->begun_ms >= bulk->options.batch_ms ||
           is_at_kept(bulk);
}

static fdb_error_t append_row(struct keel_bulk *bulk, keel_bytes bookmark, bool skip, int64_t now_ms) {
    struct bulk_batch *batch = filling(bulk);
    if (batch->row_count == 0) {
        bulk_batch_clear(batch, bulk->rows_added);
        batch->begun_ms = now_ms;
    }
    fdb_error_t error = skip ? bulk_batch_append_skipped(batch, &bulk->row, bookmark)
                             : bulk_batch_append(batch, &bulk->row, bookmark);
    if (error)
        return fail_with(bulk, error);
    if (!skip)
        note_keys(bulk);
    bulk->rows_added++;
    return 0;
}

static fdb_error_t add_row(struct keel_bulk *bulk, keel_bytes bookmark) {
    bool skip = false;
    int64_t now_ms = monotonic_ms();
    fdb_error_t error = check_row(bulk, bookmark, &skip);
    if (!error && cost_of(bulk, &filling(bulk)->pairs) + cost_of(bulk, &bulk->row) > bulk->options.batch_bytes)
        error = send(bulk);
    if (!error)
        error = append_row(bulk, bookmark, skip, now_ms);
    if (!error && is_time_to_send(bulk, filling(bulk), now_ms))
        return send(bulk);
    if (!error && bulk->rows_added % POLL_ROWS == 0)
        error = step_all(bulk, false);
    return error;
}

/* A row that an earlier run has loaded. */
static fdb_error_t pass_kept_row(struct keel_bulk *bulk, keel_bytes bookmark) {
    const struct bulk_kept *kept = &bulk->kept[bulk->kept_passed];
    for (uint32_t i = 0; i < bulk->row.count; i++)
        bulk->kept_input += bulk->row.pairs[i].hash;
    bulk->rows_added++;
    if (bulk->rows_added < kept->progress.rows)
        return 0;
    if (bulk->kept_input != kept->progress.input) {
        keel_bulk_problem problem = {.error = KEEL_ERROR_BULK_INPUT, .row = bulk->rows_added, .bookmark = bookmark};
        return fail(bulk, problem);
    }
    bulk->kept_input = 0;
    bulk->kept_passed++;
    settle(bulk);
    return 0;
}

static fdb_error_t check_open(const struct keel_bulk *bulk) {
    if (bulk->problem.error)
        return bulk->problem.error;
    return bulk->finished ? KEEL_ERROR_BULK_STATE : 0;
}

KEEL_EXPORT fdb_error_t keel_bulk_set(keel_bulk *bulk, keel_bytes key, keel_bytes value) {
    struct bulk_pair *added;
    if (!bulk || (!key.data && key.length))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_open(bulk);
    if (!error)
        error = recipe_check_value(value);
    if (error)
        return error;
    size_t prefix = keel_subspace_prefix(&bulk->record.rows).length;
    if (key.length > RECIPE_KEY_MAX - prefix)
        return KEY_TOO_LARGE;
    if (cost_of(bulk, &bulk->row) + prefix + key.length + value.length > KEEL_BULK_ROW_BYTES_MAX)
        return TRANSACTION_TOO_LARGE;
    uint64_t key_hash = bulk_hash_key(key);
    if (bulk_pairs_find(&bulk->row, key_hash, key))
        return KEEL_ERROR_DUPLICATE;
    return bulk_pairs_add(&bulk->row, key_hash, bulk_hash_value(key_hash, value), key, value, &added);
}

KEEL_EXPORT void keel_bulk_row_discard(keel_bulk *bulk) {
    if (bulk)
        bulk_pairs_clear(&bulk->row);
}

KEEL_EXPORT fdb_error_t keel_bulk_row(keel_bulk *bulk, keel_bytes bookmark) {
    if (!bulk || (!bookmark.data && bookmark.length) || bookmark.length > KEEL_BULK_BOOKMARK_MAX)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_open(bulk);
    if (error)
        return error;
    error = is_at_kept(bulk) ? pass_kept_row(bulk, bookmark) : add_row(bulk, bookmark);
    bulk_pairs_clear(&bulk->row);
    return error;
}

/* ---- The end ---- */

KEEL_EXPORT fdb_error_t keel_bulk_flush(keel_bulk *bulk) {
    if (!bulk)
        return KEEL_ERROR_ARGUMENT;
    if (bulk->problem.error || bulk->finished)
        return bulk->problem.error;
    fdb_error_t error = send(bulk);
    return error ? error : drain(bulk, 0);
}

static fdb_error_t finish(FDBTransaction *tr, void *context) {
    struct keel_bulk *bulk = context;
    struct bulk_record record;
    struct recipe_key key;
    struct recipe_span progress;
    uint8_t value[BULK_PROGRESS_BYTES_MAX];
    size_t length;
    fdb_error_t error = bulk_record_read(tr, &bulk->space, bulk->name, &record);
    if (error == KEEL_ERROR_NOT_FOUND)
        return KEEL_ERROR_LEASE_LOST;
    if (error)
        return error;
    if (memcmp(record.owner, bulk->record.owner, BULK_OWNER_BYTES) != 0 || record.state > KEEL_BULK_ACTIVE)
        return KEEL_ERROR_LEASE_LOST;
    if (record.state != KEEL_BULK_PREPARING) /* an earlier try was committed */
        return 0;
    record.state = KEEL_BULK_READY;
    record.changed_ms = bulk_now_ms();
    error = bulk_record_write(tr, &bulk->space, bulk->name, &record);
    if (!error)
        error = recipe_pack(&bulk->space, KEEL_TUPLE("progress", bulk->name), &key);
    if (!error)
        error = bulk_progress_pack(&bulk->done, false, value, &length);
    if (error)
        return error;
    recipe_span_with(&key, &progress);
    recipe_clear_span(tr, &progress);
    recipe_set(tr, &key, keel_bytes_of(value, length));
    return 0;
}

KEEL_EXPORT fdb_error_t keel_bulk_finish(keel_bulk *bulk) {
    fdb_error_t error = keel_bulk_flush(bulk);
    if (error || bulk->finished)
        return error;
    if (bulk->row.count || bulk->kept_passed < bulk->kept_count) {
        keel_bulk_problem problem = {.error = KEEL_ERROR_BULK_INPUT, .row = bulk->rows_added};
        return fail(bulk, problem);
    }
    error = keel_run(bulk->database, finish, bulk);
    if (error)
        return fail_with(bulk, error);
    bulk->finished = true;
    return 0;
}

KEEL_EXPORT void keel_bulk_close(keel_bulk *bulk) {
    if (!bulk)
        return;
    for (int i = 0; i <= KEEL_BULK_IN_FLIGHT_MAX; i++)
        bulk_batch_free(&bulk->batches[i]);
    bulk_pairs_free(&bulk->row);
    bulk_filter_free(&bulk->filter);
    free(bulk->kept);
    free(bulk->problem_memory);
    free(bulk);
}

/* ---- Looking ---- */

KEEL_EXPORT const char *keel_bulk_name(const keel_bulk *bulk) {
    return bulk->name;
}

KEEL_EXPORT keel_bulk_place keel_bulk_position(const keel_bulk *bulk) {
    keel_bulk_place place = {.rows = bulk->done.rows,
                             .pairs = bulk->done.pairs,
                             .bytes = (uint64_t)bulk->done.bytes,
                             .skipped = bulk->done.skipped,
                             .rows_added = bulk->rows_added,
                             .bookmark = keel_bytes_of(bulk->done.bookmark, bulk->done.bookmark_length),
                             .finished = bulk->finished};
    return place;
}

KEEL_EXPORT keel_bulk_problem keel_bulk_problem_of(const keel_bulk *bulk) {
    return bulk->problem;
}
