/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue, and the dequeue for many consumers.
 *
 * Representation (keel/queue.h): (index, random) = value. There is no pointer to either end: the
 * first and the last key of the range are the ends, found by a range read of one row.
 *
 * An enqueue finds the last index with a snapshot read, so that it conflicts with nothing, and the
 * 20 random bytes keep two that found the same index apart. A dequeue reads the first row for real:
 * the range from the beginning of the queue to that row becomes its read conflict range, and
 * exactly one of many gets it.
 *
 * keel_queue_pop, by transactions:
 *
 *     first ──► nobody waits: dequeue ──► committed: done
 *                 │ conflict, or others wait
 *                 ▼
 *               request: ("request", index, id)
 *                 ▼
 *     step  ──► answer there: clear it ──► committed: done
 *           ──► request gone, no answer: the queue was empty, done
 *           ──► request there: serve SERVED_MAX requests, ours among them unless so many are older;
 *               committed or in conflict, the next step looks again
 *     error ──► the request is withdrawn; if there is an answer by then, it is a success after all
 *
 * Invariants:
 * 1. A transaction that clears an item has a read conflict on its key: each is taken once.
 * 2. A transaction that clears a request has a read conflict on its key: each is served once.
 * 3. An answer is cleared by the holder of its ticket alone. So if a step has seen it, its commit's
 *    outcome was unknown and the answer is gone, then the step did take effect.
 * 4. A ticket is drawn once a pop. A request that may already have been left (the outcome of that
 *    commit was unknown) is left again only where no answer is.
 *
 * Progress: of the transactions that serve at the same time one commits, and it serves the oldest
 * requests, whosoever they are. Threads: any. Failure: the transaction is as it was before the
 * call, except after an error of a read in the midst of serving, when it must not be committed.
 */
#include <keel/queue.h>

#include "support.h"

#include <stdlib.h>

enum { RANDOM_LENGTH = 20, SERVED_MAX = 64, SERVED_LIMIT = 1000 };

/* ---- The ends of a range of keys ---- */

/* Finishes a scan of one row of (…, index, random) keys: the index behind `skip` elements, or 0. */
static fdb_error_t finish_last_index(struct recipe_scan *scan, const keel_subspace *subspace,
                                     size_t skip, int64_t *index) {
    keel_bytes key, value;
    bool found;
    int64_t last = 0;
    fdb_error_t error = recipe_scan_next(scan, &key, &value, &found);
    if (!error && found) {
        keel_tuple_iterator iterator;
        error = keel_subspace_unpack(subspace, key, &iterator);
        if (!error)
            error = keel_tuple_skip(&iterator, skip);
        if (!error)
            error = keel_tuple_next_int(&iterator, &last);
        if (error || last == INT64_MAX)
            error = KEEL_ERROR_STORED_FORMAT;
    }
    if (!error)
        *index = last;
    return error;
}

/* The last index under subspace + tuple, 0 if there is none. A snapshot. */
static fdb_error_t last_index(FDBTransaction *tr, const keel_subspace *subspace, keel_tuple tuple,
                              int64_t *index) {
    struct recipe_span span;
    struct recipe_scan scan;
    fdb_error_t error = recipe_span_of(subspace, tuple, &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 1, true, true);
    error = finish_last_index(&scan, subspace, tuple.count, index);
    recipe_scan_close(&scan);
    return error;
}

/* Copies the first item, and clears it if `take`. Nothing: *value is NULL. */
static fdb_error_t finish_first(FDBTransaction *tr, struct recipe_scan *scan, bool take,
                                uint8_t **value, size_t *length) {
    keel_bytes key, found_value;
    bool found;
    fdb_error_t error = recipe_scan_next(scan, &key, &found_value, &found);
    if (error)
        return error;
    if (!found) {
        *value = NULL;
        *length = 0;
        return 0;
    }
    error = recipe_copy(found_value, value, length);
    if (!error && take)
        fdb_transaction_clear(tr, key.data, (int)key.length);
    return error;
}

static fdb_error_t first_item(FDBTransaction *tr, const keel_subspace *queue, bool take,
                              uint8_t **value, size_t *length) {
    struct recipe_span span;
    struct recipe_scan scan;
    fdb_error_t error = recipe_span_of(queue, KEEL_TUPLE(), &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 1, false, false);
    error = finish_first(tr, &scan, take, value, length);
    recipe_scan_close(&scan);
    return error;
}

/* ---- The simple queue ---- */

KEEL_EXPORT fdb_error_t keel_queue_enqueue(FDBTransaction *tr, const keel_subspace *queue,
                                           keel_bytes value) {
    struct recipe_key key;
    uint8_t random[RANDOM_LENGTH];
    int64_t last = 0;
    fdb_error_t error = recipe_check_value(value);
    if (!error)
        error = last_index(tr, queue, KEEL_TUPLE(), &last);
    if (error)
        return error;
    recipe_random(random, sizeof random);
    error = recipe_pack(queue, KEEL_TUPLE(last + 1, KEEL_BYTES(random, sizeof random)), &key);
    if (!error)
        recipe_set(tr, &key, value);
    return error;
}

KEEL_EXPORT fdb_error_t keel_queue_dequeue(FDBTransaction *tr, const keel_subspace *queue,
                                           uint8_t **value, size_t *length) {
    return first_item(tr, queue, true, value, length);
}

KEEL_EXPORT fdb_error_t keel_queue_peek(FDBTransaction *tr, const keel_subspace *queue,
                                        uint8_t **value, size_t *length) {
    return first_item(tr, queue, false, value, length);
}

KEEL_EXPORT fdb_error_t keel_queue_empty(FDBTransaction *tr, const keel_subspace *queue,
                                         bool *empty) {
    return recipe_is_empty(tr, queue, empty);
}

KEEL_EXPORT fdb_error_t keel_queue_size(FDBTransaction *tr, const keel_subspace *queue,
                                        int64_t *size) {
    struct recipe_span span;
    fdb_error_t error = recipe_span_of(queue, KEEL_TUPLE(), &span);
    return error ? error : recipe_count(tr, &span, size);
}

KEEL_EXPORT fdb_error_t keel_queue_clear(FDBTransaction *tr, const keel_subspace *queue) {
    struct recipe_span span;
    fdb_error_t error = recipe_span_of(queue, KEEL_TUPLE(), &span);
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}

/* ---- Requests ---- */

static keel_bytes id_of(const keel_queue_ticket *ticket) {
    return keel_bytes_of(ticket->id, sizeof ticket->id);
}

static fdb_error_t pack_request(const keel_subspace *requests, const keel_queue_ticket *ticket,
                                struct recipe_key *key) {
    return recipe_pack(requests, KEEL_TUPLE("request", ticket->index, id_of(ticket)), key);
}

static fdb_error_t pack_answer(const keel_subspace *requests, keel_bytes id,
                               struct recipe_key *key) {
    return recipe_pack(requests, KEEL_TUPLE("answer", id), key);
}

KEEL_EXPORT fdb_error_t keel_queue_request(FDBTransaction *tr, const keel_subspace *requests,
                                           keel_queue_ticket *ticket) {
    struct recipe_key key;
    keel_queue_ticket drawn;
    fdb_error_t error = last_index(tr, requests, KEEL_TUPLE("request"), &drawn.index);
    if (error)
        return error;
    drawn.index++;
    recipe_random(drawn.id, sizeof drawn.id);
    error = pack_request(requests, &drawn, &key);
    if (error)
        return error;
    recipe_set(tr, &key, keel_bytes_of(NULL, 0));
    *ticket = drawn;
    return 0;
}

/* The id at the end of ("request", index, id). */
static fdb_error_t unpack_request(const keel_subspace *requests, keel_bytes key,
                                  uint8_t id[KEEL_QUEUE_TICKET_ID_LENGTH]) {
    keel_tuple_iterator iterator;
    size_t length = 0;
    fdb_error_t error = keel_subspace_unpack(requests, key, &iterator);
    if (!error)
        error = keel_tuple_skip(&iterator, 2);
    if (!error)
        error = keel_tuple_next_bytes(&iterator, id, KEEL_QUEUE_TICKET_ID_LENGTH, &length);
    return error || length != KEEL_QUEUE_TICKET_ID_LENGTH ? KEEL_ERROR_STORED_FORMAT : 0;
}

/* Clears what a snapshot has seen; if somebody else has too, this transaction conflicts. */
static fdb_error_t take_key(FDBTransaction *tr, keel_bytes key) {
    fdb_error_t error = recipe_read_conflict(tr, key);
    if (!error)
        fdb_transaction_clear(tr, key.data, (int)key.length);
    return error;
}

/* Serves the next request with the next item, or with EMPTY where there is none. */
static fdb_error_t serve_one(FDBTransaction *tr, const keel_subspace *requests,
                             struct recipe_scan *waiting, struct recipe_scan *items, bool *served) {
    keel_bytes request, item, value;
    uint8_t id[KEEL_QUEUE_TICKET_ID_LENGTH];
    struct recipe_key answer;
    bool found;
    fdb_error_t error = recipe_scan_next(waiting, &request, &value, served);
    if (error || !*served)
        return error;
    error = unpack_request(requests, request, id);
    if (!error)
        error = pack_answer(requests, keel_bytes_of(id, sizeof id), &answer);
    if (!error)
        error = take_key(tr, request);
    if (!error)
        error = recipe_scan_next(items, &item, &value, &found);
    if (error || !found)
        return error;
    recipe_set(tr, &answer, value);
    return take_key(tr, item);
}

KEEL_EXPORT fdb_error_t keel_queue_serve(FDBTransaction *tr, const keel_subspace *queue,
                                         const keel_subspace *requests, int limit, int *served) {
    struct recipe_span request_span, item_span;
    struct recipe_scan waiting, items;
    bool more = true;
    int count = 0;
    if (limit < 1 || limit > SERVED_LIMIT)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = recipe_span_of(requests, KEEL_TUPLE("request"), &request_span);
    if (!error)
        error = recipe_span_of(queue, KEEL_TUPLE(), &item_span);
    if (error)
        return error;
    recipe_scan_open(&waiting, tr, &request_span, limit, false, true);
    recipe_scan_open(&items, tr, &item_span, limit, false, true);
    while (!error && more) {
        error = serve_one(tr, requests, &waiting, &items, &more);
        count += !error && more;
    }
    recipe_scan_close(&items);
    recipe_scan_close(&waiting);
    if (!error)
        *served = count;
    return error;
}

/* Reads both keys of a ticket, together. The answer's bytes live until *future is destroyed. */
static fdb_error_t look_at(FDBTransaction *tr, const struct recipe_key *request,
                           const struct recipe_key *answer, bool *waiting, bool *answered,
                           keel_bytes *value, FDBFuture **future) {
    keel_bytes ignored;
    FDBFuture *request_future = recipe_get_start(tr, request, false);
    FDBFuture *answer_future = recipe_get_start(tr, answer, false);
    fdb_error_t error = recipe_get_finish(request_future, waiting, &ignored);
    if (!error)
        error = recipe_get_finish(answer_future, answered, value);
    fdb_future_destroy(request_future);
    *future = answer_future;
    return error;
}

KEEL_EXPORT fdb_error_t keel_queue_collect(FDBTransaction *tr, const keel_subspace *requests,
                                           const keel_queue_ticket *ticket,
                                           keel_queue_answer *answer, uint8_t **value,
                                           size_t *length) {
    struct recipe_key request_key, answer_key;
    keel_bytes found = {NULL, 0};
    bool waiting = false, answered = false;
    FDBFuture *future;
    uint8_t *copy = NULL;
    size_t copy_length = 0;
    fdb_error_t error = pack_request(requests, ticket, &request_key);
    if (!error)
        error = pack_answer(requests, id_of(ticket), &answer_key);
    if (error)
        return error;
    error = look_at(tr, &request_key, &answer_key, &waiting, &answered, &found, &future);
    if (!error && answered)
        error = recipe_copy(found, &copy, &copy_length);
    fdb_future_destroy(future);
    if (error)
        return error;
    if (answered)
        recipe_clear(tr, &answer_key);
    *answer = answered ? KEEL_QUEUE_ITEM : waiting ? KEEL_QUEUE_WAITING : KEEL_QUEUE_EMPTY;
    *value = copy;
    *length = copy_length;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_queue_withdraw(FDBTransaction *tr, const keel_subspace *requests,
                                            const keel_queue_ticket *ticket,
                                            keel_queue_answer *answer, uint8_t **value,
                                            size_t *length) {
    struct recipe_key key;
    keel_queue_answer found;
    fdb_error_t error = pack_request(requests, ticket, &key);
    if (!error)
        error = keel_queue_collect(tr, requests, ticket, &found, value, length);
    if (error)
        return error;
    if (found == KEEL_QUEUE_WAITING)
        recipe_clear(tr, &key);
    *answer = found;
    return 0;
}

/* ---- Pop ---- */

struct pop {
    const keel_subspace *queue, *requests;
    bool tried;     /* the simple dequeue */
    bool has_drawn; /* the ticket */
    keel_queue_ticket ticket;
    keel_queue_answer answer;
    uint8_t *value; /* once seen; kept over retries by invariant 3 */
    size_t length;
};

/* Whether anybody waits; if not, the first item is taken. */
static fdb_error_t dequeue_unless_waited(FDBTransaction *tr, struct pop *pop, bool *others) {
    struct recipe_span request_span, item_span;
    struct recipe_scan waiting, items;
    keel_bytes key, value;
    fdb_error_t error = recipe_span_of(pop->requests, KEEL_TUPLE("request"), &request_span);
    if (!error)
        error = recipe_span_of(pop->queue, KEEL_TUPLE(), &item_span);
    if (error)
        return error;
    recipe_scan_open(&waiting, tr, &request_span, 1, false, true);
    recipe_scan_open(&items, tr, &item_span, 1, false, false);
    error = recipe_scan_next(&waiting, &key, &value, others);
    if (!error && !*others)
        error = finish_first(tr, &items, true, &pop->value, &pop->length);
    recipe_scan_close(&items);
    recipe_scan_close(&waiting);
    return error;
}

/* Leaves the ticket's request, unless an earlier try has and was answered. */
static fdb_error_t leave_request(FDBTransaction *tr, struct pop *pop) {
    struct recipe_key request_key, answer_key;
    bool waiting, answered = false;
    keel_bytes value;
    FDBFuture *future;
    pop->answer = KEEL_QUEUE_WAITING;
    if (!pop->has_drawn) {
        fdb_error_t error = keel_queue_request(tr, pop->requests, &pop->ticket);
        pop->has_drawn = !error;
        return error;
    }
    fdb_error_t error = pack_request(pop->requests, &pop->ticket, &request_key);
    if (!error)
        error = pack_answer(pop->requests, id_of(&pop->ticket), &answer_key);
    if (error)
        return error;
    error = look_at(tr, &request_key, &answer_key, &waiting, &answered, &value, &future);
    fdb_future_destroy(future);
    if (!error && !answered)
        recipe_set(tr, &request_key, keel_bytes_of(NULL, 0));
    return error;
}

static fdb_error_t pop_first(FDBTransaction *tr, void *context) {
    struct pop *pop = context;
    bool others = true;
    free(pop->value);
    pop->value = NULL;
    if (!pop->tried) {
        pop->tried = true;
        fdb_error_t error = dequeue_unless_waited(tr, pop, &others);
        pop->answer = pop->value ? KEEL_QUEUE_ITEM : KEEL_QUEUE_EMPTY;
        if (error || !others)
            return error;
    }
    return leave_request(tr, pop);
}

/* Keeps an item that was collected; one seen in an earlier try is the same (invariant 3). */
static void keep(struct pop *pop, uint8_t *value, size_t length) {
    if (!value)
        return;
    free(pop->value);
    pop->value = value;
    pop->length = length;
}

static fdb_error_t pop_step(FDBTransaction *tr, void *context) {
    struct pop *pop = context;
    uint8_t *value;
    size_t length;
    int served;
    fdb_error_t error =
        keel_queue_collect(tr, pop->requests, &pop->ticket, &pop->answer, &value, &length);
    if (error)
        return error;
    keep(pop, value, length);
    if (pop->answer != KEEL_QUEUE_WAITING)
        return 0;
    return keel_queue_serve(tr, pop->queue, pop->requests, SERVED_MAX, &served);
}

static fdb_error_t pop_withdraw(FDBTransaction *tr, void *context) {
    struct pop *pop = context;
    uint8_t *value;
    size_t length;
    fdb_error_t error =
        keel_queue_withdraw(tr, pop->requests, &pop->ticket, &pop->answer, &value, &length);
    if (!error)
        keep(pop, value, length);
    return error;
}

/* A limit of retries that has just ended the pop must not end its cleaning up. */
static fdb_error_t retry_always(FDBTransaction *tr, void *context) {
    int64_t no_limit = -1;
    (void)context;
    return fdb_transaction_set_option(tr, FDB_TR_OPTION_RETRY_LIMIT, (const uint8_t *)&no_limit,
                                      sizeof no_limit);
}

KEEL_EXPORT fdb_error_t keel_queue_pop(FDBDatabase *database, const keel_subspace *queue,
                                       const keel_subspace *requests, uint8_t **value,
                                       size_t *length) {
    struct pop pop = {.queue = queue, .requests = requests};
    fdb_error_t error = keel_run(database, pop_first, &pop);
    while (!error && pop.answer == KEEL_QUEUE_WAITING)
        error = keel_run(database, pop_step, &pop);
    if (error && pop.has_drawn) {
        fdb_error_t withdrawn = keel_run_with(database, retry_always, pop_withdraw, &pop);
        if (!withdrawn && pop.value)
            error = 0; /* it has been served after all */
    }
    if (error) {
        free(pop.value);
        return error;
    }
    *value = pop.value;
    *length = pop.value ? pop.length : 0;
    return 0;
}
