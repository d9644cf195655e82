/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The priority queue.
 *
 * Representation (keel/pqueue.h): (priority, count, random) = value. The order of the keys is the
 * order of the queue, so both ends are range reads of one row.
 *
 *     smallest, oldest: the first key of the range
 *     largest, newest:  the last key of the range
 *     largest, oldest:  the first key with the priority of the last key
 *
 * The third takes two reads. The first only finds the priority, as a snapshot; what the answer
 * depends on is that there is no key above that priority and which is the first with it, and just
 * these become the read conflict ranges:
 *
 *     … | first of the priority, others of it | nothing …|
 *       [───────────────────────]             [──────────]
 *         read for real                        added by hand
 *
 * so a push of the same priority, which goes behind the others, does not conflict.
 *
 * Invariants: 1. a pop has a read conflict on the key it clears: each item is taken once. 2. count
 * grows within a priority; two pushes that found the same one differ in their random bytes.
 *
 * Threads: any. Failure: the transaction has been read from at most.
 */
#include <keel/pqueue.h>

#include "support.h"

#include <string.h>

enum { RANDOM_LENGTH = 20 };

enum end { FIRST, LARGEST, LAST };

/* ---- Push ---- */

/* One above the last count under the priority, whose keys begin with `span`'s beginning. */
static fdb_error_t next_count(FDBTransaction *tr, const struct recipe_span *span, int64_t *count) {
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found;
    int64_t last = -1;
    recipe_scan_open(&scan, tr, span, 1, true, true);
    fdb_error_t error = recipe_scan_next(&scan, &key, &value, &found);
    if (!error && found) {
        keel_tuple_iterator iterator = keel_tuple_iterate_behind(key, span->begin.length - 1);
        if (keel_tuple_next_int(&iterator, &last) || last == INT64_MAX)
            error = KEEL_ERROR_STORED_FORMAT;
    }
    recipe_scan_close(&scan);
    if (!error)
        *count = last + 1;
    return error;
}

KEEL_EXPORT fdb_error_t keel_pqueue_push_element(FDBTransaction *tr, const keel_subspace *pqueue,
                                                 keel_element priority, keel_bytes value) {
    struct recipe_span span;
    struct recipe_key key;
    uint8_t random[RANDOM_LENGTH];
    int64_t count = 0;
    fdb_error_t error = recipe_check_value(value);
    if (!error)
        error = recipe_span_of(pqueue, KEEL_TUPLE(priority), &span);
    if (error)
        return error;
    recipe_random(random, sizeof random);
    keel_bytes tail = keel_bytes_of(random, sizeof random);
    /* It fits at its widest, so it will fit. */
    error = recipe_pack(pqueue, KEEL_TUPLE(priority, INT64_MAX, tail), &key);
    if (!error)
        error = next_count(tr, &span, &count);
    if (!error)
        error = recipe_pack(pqueue, KEEL_TUPLE(priority, count, tail), &key);
    if (!error)
        recipe_set(tr, &key, value);
    return error;
}

KEEL_EXPORT fdb_error_t keel_pqueue_push(FDBTransaction *tr, const keel_subspace *pqueue,
                                         int64_t priority, keel_bytes value) {
    return keel_pqueue_push_element(tr, pqueue, keel_element_of_int(priority), value);
}

/* ---- Pop and peek ---- */

/* What a call wants, and where it goes. */
struct want {
    FDBTransaction *tr;
    const keel_subspace *pqueue;
    bool take;
    int64_t *priority; /* may be NULL */
    uint8_t **value;
    size_t *length;
};

/* Hands out a row, and clears it if it is to be taken. */
static fdb_error_t give(const struct want *want, keel_bytes key, keel_bytes value) {
    int64_t priority = 0;
    if (want->priority) {
        keel_tuple_iterator iterator;
        fdb_error_t error = keel_subspace_unpack(want->pqueue, key, &iterator);
        if (!error)
            error = keel_tuple_next_int(&iterator, &priority);
        if (error)
            return error;
    }
    fdb_error_t error = recipe_copy(value, want->value, want->length);
    if (error)
        return error;
    if (want->priority)
        *want->priority = priority;
    if (want->take)
        fdb_transaction_clear(want->tr, key.data, (int)key.length);
    return 0;
}

/* The first or last row of a range, read for real. */
static fdb_error_t give_edge(const struct want *want, const struct recipe_span *span,
                             bool reverse) {
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found;
    recipe_scan_open(&scan, want->tr, span, 1, reverse, false);
    fdb_error_t error = recipe_scan_next(&scan, &key, &value, &found);
    if (!error && found)
        error = give(want, key, value);
    if (!error && !found) {
        *want->value = NULL;
        *want->length = 0;
    }
    recipe_scan_close(&scan);
    return error;
}

/* The range of the largest priority; all of the queue's where that is empty. A snapshot. */
static fdb_error_t largest_span(const struct want *want, const struct recipe_span *all,
                                struct recipe_span *span) {
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found;
    keel_tuple_iterator iterator;
    *span = *all;
    recipe_scan_open(&scan, want->tr, all, 1, true, true);
    fdb_error_t error = recipe_scan_next(&scan, &key, &value, &found);
    if (!error && found) {
        error = keel_subspace_unpack(want->pqueue, key, &iterator);
        if (!error && keel_tuple_skip(&iterator, 1))
            error = KEEL_ERROR_STORED_FORMAT;
        if (!error) {
            size_t length = iterator.position;
            memcpy(span->begin.data, key.data, length);
            memcpy(span->end.data, key.data, length);
            span->begin.data[length] = 0x00;
            span->end.data[length] = 0xff;
            span->begin.length = span->end.length = length + 1;
        }
    }
    recipe_scan_close(&scan);
    return error;
}

static fdb_error_t give_largest(const struct want *want, const struct recipe_span *all) {
    struct recipe_span span;
    fdb_error_t error = largest_span(want, all, &span);
    if (error)
        return error;
    keel_bytes from = keel_bytes_of(span.end.data, span.end.length);
    keel_bytes to = keel_bytes_of(all->end.data, all->end.length);
    if (keel_bytes_compare(from, to) < 0)
        error = fdb_transaction_add_conflict_range(want->tr, from.data, (int)from.length, to.data,
                                                   (int)to.length, FDB_CONFLICT_RANGE_TYPE_READ);
    return error ? error : give_edge(want, &span, false); /* last: it clears */
}

static fdb_error_t get_one(enum end end, struct want want) {
    struct recipe_span all;
    fdb_error_t error = recipe_span_of(want.pqueue, KEEL_TUPLE(), &all);
    if (error)
        return error;
    return end == LARGEST ? give_largest(&want, &all) : give_edge(&want, &all, end == LAST);
}

KEEL_EXPORT fdb_error_t keel_pqueue_pop_min(FDBTransaction *tr, const keel_subspace *pqueue,
                                            int64_t *priority, uint8_t **value, size_t *length) {
    return get_one(FIRST, (struct want){tr, pqueue, true, priority, value, length});
}

KEEL_EXPORT fdb_error_t keel_pqueue_pop_max(FDBTransaction *tr, const keel_subspace *pqueue,
                                            int64_t *priority, uint8_t **value, size_t *length) {
    return get_one(LARGEST, (struct want){tr, pqueue, true, priority, value, length});
}

KEEL_EXPORT fdb_error_t keel_pqueue_peek_min(FDBTransaction *tr, const keel_subspace *pqueue,
                                             int64_t *priority, uint8_t **value, size_t *length) {
    return get_one(FIRST, (struct want){tr, pqueue, false, priority, value, length});
}

KEEL_EXPORT fdb_error_t keel_pqueue_peek_max(FDBTransaction *tr, const keel_subspace *pqueue,
                                             int64_t *priority, uint8_t **value, size_t *length) {
    return get_one(LARGEST, (struct want){tr, pqueue, false, priority, value, length});
}

KEEL_EXPORT fdb_error_t keel_pqueue_pop_last(FDBTransaction *tr, const keel_subspace *pqueue,
                                             int64_t *priority, uint8_t **value, size_t *length) {
    return get_one(LAST, (struct want){tr, pqueue, true, priority, value, length});
}

KEEL_EXPORT fdb_error_t keel_pqueue_peek_last(FDBTransaction *tr, const keel_subspace *pqueue,
                                              int64_t *priority, uint8_t **value, size_t *length) {
    return get_one(LAST, (struct want){tr, pqueue, false, priority, value, length});
}

/* ---- The whole ---- */

KEEL_EXPORT fdb_error_t keel_pqueue_empty(FDBTransaction *tr, const keel_subspace *pqueue,
                                          bool *empty) {
    return recipe_is_empty(tr, pqueue, empty);
}

KEEL_EXPORT fdb_error_t keel_pqueue_size(FDBTransaction *tr, const keel_subspace *pqueue,
                                         int64_t *size) {
    struct recipe_span span;
    fdb_error_t error = recipe_span_of(pqueue, KEEL_TUPLE(), &span);
    return error ? error : recipe_count(tr, &span, size);
}

KEEL_EXPORT fdb_error_t keel_pqueue_clear(FDBTransaction *tr, const keel_subspace *pqueue) {
    struct recipe_span span;
    fdb_error_t error = recipe_span_of(pqueue, KEEL_TUPLE(), &span);
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}
