/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Committing: turning the write map and the read conflicts into one commit_request, and taking the
 * answer.
 *
 *     transaction_commit ── nothing written ──────────────────► answered at once, version -1, versionstamp NO_COMMIT_VERSION
 *            │
 *            ├── a read failed, too large, read-only, ... ────► answered at once with the error
 *            │
 *            └── database_commit ── complete ──► version, stamp, conflicting ranges; then versionstamps, watches, the commit itself
 *
 * What is sent, in this order: mutations that left the write map early (see commit_flush), the
 * range clears, then the operations of each key in key order. Clears may come first because the
 * write map already took everything out that they hide.
 *
 * The attempt lies in the transaction's arena with all it points to. A reset while it is in flight
 * gives it the arenas (transaction.c); so does nobody else.
 *
 *   1. At most one attempt is in flight. `commit_started` stays true after the answer, until a
 *      reset: a transaction commits once.
 *   2. The completion in an attempt is NULL as soon as anyone has answered it: a cancel, a timeout,
 *      the user's fdb_future_cancel.
 *   3. No lock is held in database_commit, database_drive, and `done`.
 *
 * The size that is compared with the limit is the official one: bytes of keys and values, plus 44 a
 * mutation and 24 a conflict range.
 */
#include <stddef.h>

#include "txn/state.h"
#include "util/memory.h"

enum { MUTATION_COST = 44, RANGE_COST = 24, STAMP_BYTES = 10 };

static const struct key_range ALL_KEYS = {{(const uint8_t *)"", 0}, {(const uint8_t *)"\xff\xff",
                                                                     2}};

/* --- From the write map to lists --- */

/*
 * Calls for each cleared stretch of `range`: appends it to the mutations, or just counts. Stretches
 * that only own writes interrupt are one.
 */
static fdb_error_t flush_clears(struct transaction *transaction, struct key_range range,
                                bool count_only, size_t *count) {
    struct write_segment segment = write_map_find(&transaction->writes, range.begin);
    struct mutation clear = {MUTATION_CLEAR_RANGE, {NULL, 0}, {NULL, 0}};
    bool open = false;
    for (*count = 0;; segment = write_segment_next(segment)) {
        bool past = bytes_compare(write_segment_begin(segment), range.end) >= 0;
        bool cleared = !past && !segment.operation && segment.node->cleared;
        bool inside = !past && segment.operation && segment.node->cleared;
        if (open && !cleared && !inside) {
            ++*count;
            open = false;
            if (!count_only && !mutation_list_append(&transaction->mutations, &transaction->arena,
                                                     clear))
                return ERROR_LARGE_ALLOC_FAILED;
        }
        if (past)
            return 0;
        if (cleared) {
            if (!open)
                clear.key = bytes_max(range.begin, write_segment_begin(segment));
            clear.value = bytes_min(range.end, write_segment_end(segment));
            open = true;
        }
        if (write_segment_is_last(segment)) {
            *count += open;
            if (open && !count_only && !mutation_list_append(&transaction->mutations,
                                                             &transaction->arena, clear))
                return ERROR_LARGE_ALLOC_FAILED;
            return 0;
        }
    }
}

static fdb_error_t flush_operations(struct transaction *transaction,
                                    const struct write_node *node) {
    for (const struct write_operation *op = node->first; op; op = op->next) {
        struct mutation mutation = {op->type, node->key, op->value};
        if (op->type == MUTATION_SET && !op->present)
            mutation = (struct mutation){MUTATION_CLEAR_RANGE, node->key, write_node_after(node)};
        if (!mutation_list_append(&transaction->mutations, &transaction->arena, mutation))
            return ERROR_LARGE_ALLOC_FAILED;
    }
    return 0;
}

/* Operations and write conflict ranges, both in key order; conflicts that touch are one. */
static fdb_error_t flush_keys(struct transaction *transaction, struct key_range range) {
    struct write_segment segment = write_map_find(&transaction->writes, range.begin);
    struct key_range conflict = {{NULL, 0}, {NULL, 0}};
    bool open = false, done = false;
    while (!done) {
        done = bytes_compare(write_segment_begin(segment), range.end) >= 0;
        bool conflicts = !done && write_segment_conflicts(segment);
        if (open && !conflicts) {
            open = false;
            if (!range_list_append(&transaction->write_conflicts, &transaction->arena, conflict))
                return ERROR_LARGE_ALLOC_FAILED;
        }
        if (done)
            break;
        if (conflicts) {
            if (!open)
                conflict.begin = bytes_max(range.begin, write_segment_begin(segment));
            conflict.end = bytes_min(range.end, write_segment_end(segment));
            open = true;
        }
        fdb_error_t error = segment.operation ? flush_operations(transaction, segment.node) : 0;
        if (error)
            return error;
        if (write_segment_is_last(segment))
            break;
        segment = write_segment_next(segment);
    }
    if (open && !range_list_append(&transaction->write_conflicts, &transaction->arena, conflict))
        return ERROR_LARGE_ALLOC_FAILED;
    return 0;
}

/* Appends what the write map holds in `range` to the lists; the map stays as it is. */
fdb_error_t commit_flush(struct transaction *transaction, struct key_range range) {
    struct write_map *map = &transaction->writes;
    if (write_map_is_empty(map))
        return 0;
    size_t clears;
    flush_clears(transaction, range, true, &clears);
    bool whole = range.begin.length == 0;
    if (whole && (!mutation_list_reserve(&transaction->mutations, &transaction->arena,
                                         map->operation_count + clears) ||
                  !range_list_reserve(&transaction->write_conflicts, &transaction->arena,
                                      map->node_count)))
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t error = clears ? flush_clears(transaction, range, false, &clears) : 0;
    return error ? error : flush_keys(transaction, range);
}

/*
 * The keys that a versionstamped key can become: with the first stamp after the read version, if
 * there is one, up to the last stamp of all, and no further than the transaction may read.
 */
fdb_error_t commit_stamp_range(struct transaction *transaction, struct bytes key,
                               struct arena *arena,
                               struct key_range *range) {
    struct bytes body;
    size_t offset;
    fdb_error_t error = mutation_stamp_position(key, &body, &offset);
    if (error)
        return error;
    uint8_t *first = arena_allocate_bytes(arena, body.length);
    uint8_t *last = arena_allocate_bytes(arena, body.length + 1);
    if (!first || !last)
        return ERROR_LARGE_ALLOC_FAILED;
    memcpy(first, body.data, body.length);
    memcpy(last, body.data, body.length);
    mutation_stamp_write(first + offset, transaction->has_version ? transaction->read_version + 1
                         : 0, 0);
    memset(last + offset, 0xff, STAMP_BYTES);
    last[body.length] = 0;
    range->begin = bytes_make(first, body.length);
    range->end = bytes_min(bytes_make(last, body.length + 1), key_max_read(transaction));
    return 0;
}

/* --- Building the request --- */

static size_t ranges_bytes(const struct key_range *ranges, size_t count) {
    size_t bytes = count * RANGE_COST;
    for (size_t i = 0; i < count; i++)
        bytes += ranges[i].begin.length + ranges[i].end.length;
    return bytes;
}

static size_t request_bytes(const struct commit_request *request) {
    size_t bytes = request->mutation_count * MUTATION_COST;
    for (size_t i = 0; i < request->mutation_count; i++)
        bytes += request->mutations[i].key.length + request->mutations[i].value.length;
    return bytes + ranges_bytes(request->read_conflicts, request->read_conflict_count) +
           ranges_bytes(request->write_conflicts, request->write_conflict_count);
}

static void complete(struct commit_request *request, fdb_error_t error);

static fdb_error_t fill(struct transaction *transaction, struct commit_request *request) {
    struct arena *arena = &transaction->arena;
    struct mutation *mutations;
    struct key_range *reads, *writes;
    if (!mutation_list_flatten(&transaction->mutations, arena, &mutations) ||
        !range_list_flatten(&transaction->write_conflicts, arena, &writes) ||
        !range_list_flatten(&transaction->read_conflicts, &transaction->read_arena, &reads))
        return ERROR_LARGE_ALLOC_FAILED;
    request->mutations = mutations;
    request->mutation_count = transaction->mutations.count;
    request->write_conflicts = writes;
    request->write_conflict_count = transaction->write_conflicts.count;
    request->read_conflicts = reads;
    request->read_conflict_count = key_ranges_merge(reads, transaction->read_conflicts.count);
    if (transaction->read_conflicts.first == transaction->read_conflicts.last &&
        transaction->read_conflicts.first) {
        /* it was merged in place */
        transaction->read_conflicts.first->count = request->read_conflict_count;
        transaction->read_conflicts.count = request->read_conflict_count;
    }
    request->size_bytes = request_bytes(request);
    request->report_conflicts = transaction->options.report_conflicting_keys;
    request->complete = complete;
    if (request->report_conflicts && request->read_conflict_count) {
        request->conflicting = arena_allocate(arena, request->read_conflict_count * sizeof(bool));
        if (!request->conflicting)
            return ERROR_LARGE_ALLOC_FAILED;
        memset(request->conflicting, 0, request->read_conflict_count * sizeof(bool));
    }
    return 0;
}

/*
 * The read version a commit is checked against. One that was given or is old is looked at even
 * where nothing was read.
 */
static fdb_error_t settle_version(struct transaction *transaction, struct commit_request *request) {
    if (transaction->has_version && (!transaction->version_checked ||
                                     !request->read_conflict_count)) {
        if (transaction->version_checked && transaction->options.causal_write_risky)
            return 0;
        fdb_error_t error = database_check_read_version(transaction->database,
                                                        transaction->read_version);
        if (error)
            return error;
        transaction->version_checked = true;
    }
    if (request->read_conflict_count &&
        !transaction->has_version) { /* explicit read conflict ranges only */
        fdb_error_t error = transaction_version(transaction);
        if (error)
            return error;
    }
    request->read_version = transaction->read_version;
    return 0;
}

/* Makes the attempt; *attempt stays NULL where there is nothing to commit. */
static fdb_error_t prepare(struct transaction *transaction, struct commit_attempt **attempt) {
    if (!transaction->options.ryw_disabled) {
        fdb_error_t error = commit_flush(transaction, ALL_KEYS);
        if (error)
            return error;
    }
    if (!transaction->mutations.count && !transaction->write_conflicts.count)
        return 0;
    if (transaction->options.read_only || transaction->options.long_read)
        return ERROR_TRANSACTION_READ_ONLY;
    struct commit_attempt *made = arena_allocate(&transaction->arena, sizeof *made);
    if (!made)
        return ERROR_LARGE_ALLOC_FAILED;
    memset(made, 0, sizeof *made);
    fdb_error_t error = fill(transaction, &made->request);
    if (error)
        return error;
    if (made->request.size_bytes > (size_t)transaction->options.size_limit_bytes)
        return ERROR_TRANSACTION_TOO_LARGE;
    if ((error = settle_version(transaction, &made->request)) != 0)
        return error;
    *attempt = made;
    return 0;
}

/* --- The answer --- */

static void end_stamps(struct transaction *transaction, fdb_error_t error, struct ended *ended) {
    for (struct completion *at = transaction->pending, *next; at; at = next) {
        next = at->next;
        if (at->kind != COMPLETION_STAMP)
            continue;
        if (!error)
            memcpy(((struct versionstamp_completion *)at)->stamp, transaction->stamp,
                   sizeof transaction->stamp);
        pending_end(transaction, at, error, ended);
    }
}

/* Keeps the ranges that another transaction wrote, beyond the next reset. */
static void keep_report(struct transaction *transaction, const struct commit_request *request) {
    memory_free(transaction->report);
    transaction->report = NULL;
    if (!request->report_conflicts)
        return;
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < request->read_conflict_count; i++) {
        if (!request->conflicting[i])
            continue;
        count++;
        bytes += request->read_conflicts[i].begin.length + request->read_conflicts[i].end.length;
    }
    struct conflict_report *report = memory_allocate(sizeof *report
                                                     + count * sizeof report->ranges[0] + bytes);
    if (!report)
        return;
    uint8_t *room = (uint8_t *)&report->ranges[count];
    report->count = 0;
    for (size_t i = 0; i < request->read_conflict_count; i++) {
        if (!request->conflicting[i])
            continue;
        const struct bytes source[2] = {request->read_conflicts[i].begin,
                                        request->read_conflicts[i].end};
        struct bytes copy[2];
        for (int side = 0; side < 2; side++) {
            if (source[side].length)
                memcpy(room, source[side].data, source[side].length);
            copy[side] = bytes_make(room, source[side].length);
            room += source[side].length;
        }
        report->ranges[report->count++] = (struct key_range){copy[0], copy[1]};
    }
    transaction->report = report;
}

/*
 * Ends everything that waited for the commit. The order of `ended` is turned round when it is
 * worked off.
 */
void commit_end(struct transaction *transaction, struct completion *completion, fdb_error_t error,
                fdb_error_t stamp_error, struct ended *ended) {
    if (completion)
        pending_end(transaction, completion, error, ended);
    end_stamps(transaction, stamp_error, ended);
    if (error)
        watches_end(transaction, error, ended);
    else
        watches_make_ready(transaction);
    transaction_unpin(transaction);
    if (transaction->api_version < 700)
        transaction->has_version = transaction->version_checked = false;
}

static void free_orphan(struct commit_attempt *attempt) {
    struct arena arena = attempt->arena, read_arena = attempt->read_arena;
    arena_free(&read_arena);
    arena_free(&arena); /* the attempt lies in it */
}

static void complete(struct commit_request *request, fdb_error_t error) {
    struct commit_attempt *attempt =
        (struct commit_attempt *)((char *)request - offsetof(struct commit_attempt, request));
    struct transaction *transaction = attempt->transaction;
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    if (attempt->orphaned) {
        os_mutex_unlock(&transaction->lock);
        free_orphan(attempt);
    } else {
        struct completion *completion = attempt->completion;
        transaction->attempt = NULL;
        if (!error) {
            transaction->committed_version = request->committed_version;
            mutation_stamp_write(transaction->stamp, request->committed_version,
                                 request->batch_order);
            transaction->stamp_known = true;
        } else if (error == ERROR_NOT_COMMITTED) {
            keep_report(transaction, request);
        }
        commit_end(transaction, completion, error, error ? ERROR_TRANSACTION_INVALID_VERSION : 0,
                   &ended);
        os_mutex_unlock(&transaction->lock);
        if (!error)
            watches_hand_over(transaction);
    }
    transaction_release(transaction); /* first, so that it is freed where it was made; the futures have their own references */
    finish_all(&ended);
}

void transaction_commit(struct transaction *transaction, struct completion *completion) {
    struct ended ended = {0};
    struct commit_attempt *attempt = NULL;
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    if (error) {
        os_mutex_unlock(&transaction->lock);
        finish_all(&ended);
        finish_one(completion, error);
        return;
    }
    transaction->commit_started = transaction->troubled = true;
    error = transaction->read_error ? transaction->read_error : prepare(transaction, &attempt);
    pending_add(transaction, completion, COMPLETION_COMMIT);
    if (attempt) {
        attempt->transaction = transaction;
        attempt->completion = completion;
        transaction->attempt = attempt;
        retain_memory(transaction);
        os_mutex_unlock(&transaction->lock);
        database_commit(transaction->database, &attempt->request);
        return;
    }
    if (!error)
        transaction->committed_version = -1;
    commit_end(transaction, completion, error, error ? ERROR_TRANSACTION_INVALID_VERSION
               : ERROR_NO_COMMIT_VERSION, &ended);
    os_mutex_unlock(&transaction->lock);
    if (!error)
        watches_hand_over(transaction);
    finish_all(&ended);
}

/* --- While it is on its way --- */

bool transaction_drive(struct transaction *transaction) {
    os_mutex_lock(&transaction->lock);
    bool in_flight = transaction->attempt != NULL;
    uint64_t ticket = in_flight ? atomic_load_explicit(&transaction->attempt->request.ticket, memory_order_relaxed) : 0;
    os_mutex_unlock(&transaction->lock);
    return in_flight && database_drive(transaction->database, ticket);
}

void transaction_hurry(struct transaction *transaction) { database_hurry(transaction->database); }

void transaction_get_versionstamp(struct transaction *transaction,
                                  struct versionstamp_completion *completion) {
    struct ended ended = {0};
    os_mutex_lock(&transaction->lock);
    fdb_error_t error = transaction_check(transaction, true, &ended);
    if (!error)
        pending_add(transaction, &completion->completion, COMPLETION_STAMP);
    os_mutex_unlock(&transaction->lock);
    finish_all(&ended);
    if (error)
        finish_one(&completion->completion, error);
}
