/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue: first in, first out, shared by any number of clients.
 *
 *     error = keel_queue_enqueue(tr, &queue, KEEL_BYTES("job", 3));
 *     …
 *     uint8_t *value;
 *     size_t length;
 *     error = keel_queue_dequeue(tr, &queue, &value, &length);
 *     if (!error && value) { …; free(value); }
 *
 * Keys, those of the Python and Java recipes:
 *
 *     queue + (index, random) = value      index: an integer, one above the last when enqueued
 *                                          random: 20 bytes, so that no two keys are the same
 *
 * The values are plain bytes, as in Python; the Java recipe packs a tuple of one element into them.
 *
 * Order: what was enqueued by a transaction that had committed before another one started comes out
 * before what the other enqueued. Concurrent ones may get the same index; then chance decides.
 *
 * Conflicts: enqueues conflict with nothing. Two simple dequeues at once want the same item, and
 * one of them is retried; with many consumers use keel_queue_pop, which does not degrade.
 *
 * Delivery: a dequeue takes the item away, so a consumer that dies after its commit takes it along
 * to the grave. Where that may not be, keel/taskqueue.h has leases.
 *
 * All functions but keel_queue_pop work inside the caller's transaction, commit nothing, and may be
 * called again after any error. Errors besides those of the reads: key_too_large (2102) if the
 * subspace leaves no room, STORED_FORMAT if a key in it is not a queue's, 1501 without memory.
 * What is too wrong to be written is refused before anything is.
 */
#ifndef KEEL_QUEUE_H
#define KEEL_QUEUE_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Appends a value of up to 100,000 bytes (value_too_large, 2103; ARGUMENT for NULL with a length).
 * Reads one row, as a snapshot. Many in one transaction keep their order.
 */
fdb_error_t keel_queue_enqueue(FDBTransaction *tr, const keel_subspace *queue, keel_bytes value);

/*
 * Removes the first item. *value is the caller's to free(); NULL if the queue is empty (an item
 * without bytes is not NULL). Reads one row and conflicts with whoever takes it or, if the queue is
 * empty, with whoever enqueues.
 */
fdb_error_t keel_queue_dequeue(FDBTransaction *tr, const keel_subspace *queue, uint8_t **value,
                               size_t *length);

/* The same without removing it. */
fdb_error_t keel_queue_peek(FDBTransaction *tr, const keel_subspace *queue, uint8_t **value,
                            size_t *length);

/* Reads one row. */
fdb_error_t keel_queue_empty(FDBTransaction *tr, const keel_subspace *queue, bool *empty);

/*
 * The number of items at the transaction's read version. Reads all of them, as a snapshot: nothing
 * conflicts, but a long queue takes its time. A program that needs it often adds to a counter
 * (keel/counter.h) in the transactions that enqueue and dequeue.
 */
fdb_error_t keel_queue_size(FDBTransaction *tr, const keel_subspace *queue, int64_t *size);

/* Removes all items. Reads nothing; what is enqueued at the same time may stay. */
fdb_error_t keel_queue_clear(FDBTransaction *tr, const keel_subspace *queue);

/* ---- Many consumers ----
 *
 * A consumer that finds others at the head of the queue leaves a request, and whoever gets through
 * serves the oldest requests of all, many in one transaction. Losing a race then costs nothing: the
 * winner has done the loser's work. Requests are served in the order in which they came, so nobody
 * starves. The items are those of the same queue, and simple dequeues may go on beside it.
 *
 * Requests and answers need a subspace of their own, not inside `queue`:
 *
 *     requests + ("request", index, id) = ""       waiting, in the order of index
 *     requests + ("answer", id)         = value    served, not yet collected
 */

/*
 * Dequeues in as many transactions of its own as it takes. *value as from keel_queue_dequeue; NULL
 * if the queue was empty at some time during the call.
 *
 * Blocks. Errors that are not retryable end it, and so do the limits that the database's options
 * set; its request is then withdrawn. An item is given to no one twice; it is lost if the caller
 * dies during the call, or if the outcome of the very first commit is unknown
 * (commit_unknown_result) and it took effect.
 */
fdb_error_t keel_queue_pop(FDBDatabase *database, const keel_subspace *queue,
                           const keel_subspace *requests, uint8_t **value, size_t *length);

/* The steps of which keel_queue_pop consists, for loops of another kind, such as with callbacks. */

enum { KEEL_QUEUE_TICKET_ID_LENGTH = 16 };

/* Names one request. A plain value; may be kept and passed on. */
typedef struct keel_queue_ticket {
    int64_t index;
    uint8_t id[KEEL_QUEUE_TICKET_ID_LENGTH];
} keel_queue_ticket;

typedef enum keel_queue_answer {
    KEEL_QUEUE_WAITING, /* not yet served */
    KEEL_QUEUE_EMPTY,   /* served when there was nothing */
    KEEL_QUEUE_ITEM     /* served with an item */
} keel_queue_answer;

/*
 * Leaves a request and draws its ticket, which is good once the transaction has committed. Every
 * ticket must be collected or withdrawn in the end: an answer that nobody collects is an item lost.
 * Reads one row as a snapshot; conflicts with nothing.
 */
fdb_error_t keel_queue_request(FDBTransaction *tr, const keel_subspace *requests,
                               keel_queue_ticket *ticket);

/*
 * Serves the `limit` (1 to 1000, else ARGUMENT) oldest requests with the first items, and those for
 * which there is none with EMPTY. *served is how many. Conflicts with whoever serves or dequeues at
 * the same time. A transaction holds 10,000,000 bytes: choose the limit by the size of the values.
 */
fdb_error_t keel_queue_serve(FDBTransaction *tr, const keel_subspace *queue,
                             const keel_subspace *requests, int limit, int *served);

/*
 * What became of a request; an answer is removed with this. *value is the caller's to free(), NULL
 * unless *answer is ITEM. Once the answer was collected, or for a ticket that never was, EMPTY.
 */
fdb_error_t keel_queue_collect(FDBTransaction *tr, const keel_subspace *requests,
                               const keel_queue_ticket *ticket, keel_queue_answer *answer,
                               uint8_t **value, size_t *length);

/* The same, and a request that is still waiting is taken back. */
fdb_error_t keel_queue_withdraw(FDBTransaction *tr, const keel_subspace *requests,
                                const keel_queue_ticket *ticket, keel_queue_answer *answer,
                                uint8_t **value, size_t *length);

#ifdef __cplusplus
}
#endif

#endif
