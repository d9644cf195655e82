/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A priority queue: the smallest or the largest first, in the order of insertion where equal.
 *
 *     error = keel_pqueue_push(tr, &pqueue, 5, KEEL_BYTES("job", 3));
 *     …
 *     int64_t priority;
 *     uint8_t *value;
 *     size_t length;
 *     error = keel_pqueue_pop_min(tr, &pqueue, &priority, &value, &length);
 *     if (!error && value) { …; free(value); }
 *
 * Keys, those of the Python and Java recipes:
 *
 *     pqueue + (priority, count, random) = value     count: one above the last of the priority
 *                                                    random: 20 bytes, no two keys are the same
 *
 * The values are plain bytes, as in Python; the Java recipe packs a tuple of one element into them.
 *
 * Conflicts: pushes conflict with no push, and with a pop or peek only where they change its
 * answer. Pops from the same end conflict with each other, those from different ends when one item
 * is left.
 *
 * All functions work inside the caller's transaction, commit nothing, and may be called again after
 * any error. Errors besides those of the reads: key_too_large (2102) if the subspace leaves no
 * room, STORED_FORMAT if a key in it is not a priority queue's, 1501 without memory. What is too
 * wrong to be written is refused before anything is.
 */
#ifndef KEEL_PQUEUE_H
#define KEEL_PQUEUE_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Adds a value of up to 100,000 bytes (value_too_large, 2103; ARGUMENT for NULL with a length). The
 * same value may be there any number of times. Reads one row, as a snapshot; pushes of one
 * transaction keep their order, concurrent ones of the same priority may come in any.
 */
fdb_error_t keel_pqueue_push(FDBTransaction *tr, const keel_subspace *pqueue, int64_t priority,
                             keel_bytes value);

/*
 * The same with any element of a tuple as the priority: a double, a string, a nested tuple; the
 * order is that of the tuple layer, and one queue may mix them. Errors of keel_tuple_pack.
 */
fdb_error_t keel_pqueue_push_element(FDBTransaction *tr, const keel_subspace *pqueue,
                                     keel_element priority, keel_bytes value);

/*
 * Removes the oldest item of the smallest, or of the largest, priority. *value is the caller's to
 * free(); NULL if the queue is empty (an item without bytes is not NULL). *priority is set where
 * there is an item; pass NULL if it is not wanted, and where priorities are not all integers of 64
 * bits (TUPLE_TYPE, INTEGER_TOO_LARGE). pop_min reads one row, pop_max two.
 */
fdb_error_t keel_pqueue_pop_min(FDBTransaction *tr, const keel_subspace *pqueue, int64_t *priority,
                                uint8_t **value, size_t *length);
fdb_error_t keel_pqueue_pop_max(FDBTransaction *tr, const keel_subspace *pqueue, int64_t *priority,
                                uint8_t **value, size_t *length);

/* The same without removing it. */
fdb_error_t keel_pqueue_peek_min(FDBTransaction *tr, const keel_subspace *pqueue, int64_t *priority,
                                 uint8_t **value, size_t *length);
fdb_error_t keel_pqueue_peek_max(FDBTransaction *tr, const keel_subspace *pqueue, int64_t *priority,
                                 uint8_t **value, size_t *length);

/*
 * The very last item: the newest of the largest priority, which is what pop_max and peek_max of the
 * Python and Java recipes give. One row, but every push of that priority conflicts with it.
 */
fdb_error_t keel_pqueue_pop_last(FDBTransaction *tr, const keel_subspace *pqueue, int64_t *priority,
                                 uint8_t **value, size_t *length);
fdb_error_t keel_pqueue_peek_last(FDBTransaction *tr, const keel_subspace *pqueue,
                                  int64_t *priority, uint8_t **value, size_t *length);

/* Reads one row. */
fdb_error_t keel_pqueue_empty(FDBTransaction *tr, const keel_subspace *pqueue, bool *empty);

/* The number of items. Reads all of them, as a snapshot: nothing conflicts. */
fdb_error_t keel_pqueue_size(FDBTransaction *tr, const keel_subspace *pqueue, int64_t *size);

/* Removes all items. Reads nothing; what is pushed at the same time may stay. */
fdb_error_t keel_pqueue_clear(FDBTransaction *tr, const keel_subspace *pqueue);

#ifdef __cplusplus
}
#endif

#endif
