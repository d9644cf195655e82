/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues and the log when the database fails: every call is made with its first, its second, …
 * answer failing, until it comes through. Each time the error must come back as it is and results
 * must be untouched; under the address sanitizer nothing may leak.
 *
 * This program has its own fdb_future_get_error, which keel_wait asks, in front of the library's.
 */
#define _GNU_SOURCE
#include <keel/log.h>
#include <keel/pqueue.h>
#include <keel/queue.h>
#include <keel/taskqueue.h>

#include "queues.h"

#include <dlfcn.h>

enum { PLANTED = 2000, UNTOUCHED = 77 }; /* client_invalid_operation: no retry helps */

static fdb_error_t (*real_get_error)(FDBFuture *);
static int countdown = -1;

static __attribute__((constructor)) void find_the_library(void) {
    *(void **)&real_get_error = dlsym(RTLD_NEXT, "fdb_future_get_error");
}

fdb_error_t fdb_future_get_error(FDBFuture *future) {
    return countdown >= 0 && countdown-- == 0 ? PLANTED : real_get_error(future);
}

static keel_subspace queue, requests, pqueue, events, tasks;
static keel_queue_ticket ticket;
static keel_task leased;
static keel_dead_task dead;

/* What calls put out; checked to be as it was after each failure. */
static struct outputs {
    uint8_t *value;
    size_t length;
    int64_t number;
    bool flag;
    int count;
    keel_queue_answer answer;
    keel_log_position position;
    keel_taskqueue_counts counts;
    keel_task task;
} out, untouched;

typedef fdb_error_t (*operation)(FDBTransaction *tr);

#define OPERATION(name, call)                                                                      \
    static fdb_error_t name(FDBTransaction *tr) {                                                  \
        return call;                                                                               \
    }
OPERATION(enqueue, keel_queue_enqueue(tr, &queue, text("x")))
OPERATION(dequeue, keel_queue_dequeue(tr, &queue, &out.value, &out.length))
OPERATION(peek, keel_queue_peek(tr, &queue, &out.value, &out.length))
OPERATION(empty, keel_queue_empty(tr, &queue, &out.flag))
OPERATION(size, keel_queue_size(tr, &queue, &out.number))
OPERATION(request, keel_queue_request(tr, &requests, &ticket))
OPERATION(serve, keel_queue_serve(tr, &queue, &requests, 10, &out.count))
OPERATION(collect, keel_queue_collect(tr, &requests, &ticket, &out.answer, &out.value, &out.length))
OPERATION(withdraw,
          keel_queue_withdraw(tr, &requests, &ticket, &out.answer, &out.value, &out.length))
OPERATION(push, keel_pqueue_push(tr, &pqueue, 1, text("x")))
OPERATION(pop_min, keel_pqueue_pop_min(tr, &pqueue, &out.number, &out.value, &out.length))
OPERATION(pop_max, keel_pqueue_pop_max(tr, &pqueue, &out.number, &out.value, &out.length))
OPERATION(pop_last, keel_pqueue_pop_last(tr, &pqueue, &out.number, &out.value, &out.length))
OPERATION(pqueue_empty, keel_pqueue_empty(tr, &pqueue, &out.flag))
OPERATION(pqueue_size, keel_pqueue_size(tr, &pqueue, &out.number))

static fdb_error_t ignore(void *context, const keel_log_position *position, keel_bytes entry) {
    (void)context;
    (void)position;
    (void)entry;
    return 0;
}
OPERATION(scan, keel_log_scan(tr, &events, NULL, 0, ignore, NULL))
OPERATION(tail, keel_log_tail(tr, &events, 2, ignore, NULL))
OPERATION(last, keel_log_last(tr, &events, &out.position))
OPERATION(log_count, keel_log_count(tr, &events, NULL, &out.number))

static fdb_error_t keep_dead(void *context, const keel_dead_task *found) {
    (void)context;
    dead = *found;
    return 0;
}
OPERATION(claim, keel_taskqueue_claim(tr, &tasks, 5000, 10, 4, &out.flag, &out.task))
OPERATION(complete, keel_taskqueue_complete(tr, &tasks, &leased))
OPERATION(extend, keel_taskqueue_extend(tr, &tasks, 20, &leased, 10, &out.number))
OPERATION(give_back, keel_taskqueue_give_back(tr, &tasks, 20, &leased, 10))
OPERATION(fail_task, keel_taskqueue_fail(tr, &tasks, 20, &leased, 10, text("reason")))
OPERATION(next, keel_taskqueue_next(tr, &tasks, &out.number))
OPERATION(count, keel_taskqueue_count(tr, &tasks, 20, &out.counts))
OPERATION(visit_dead, keel_taskqueue_dead(tr, &tasks, 0, keep_dead, NULL))
OPERATION(dead_retry, keel_taskqueue_dead_retry(tr, &tasks, 20, &dead))
OPERATION(dead_remove, keel_taskqueue_dead_remove(tr, &tasks, &dead))
OPERATION(payload, keel_taskqueue_payload(tr, &tasks, leased.id, &out.value, &out.length))

/* One of everything, so that every call has something to read. */
static void fill_all(void) {
    FDBTransaction *tr = begin();
    bool found;
    keel_task doomed;
    keel_task_options once = {.attempts_max = 1};
    for (int i = 0; i < 3; i++) {
        ok(keel_queue_enqueue(tr, &queue, text("x")));
        ok(keel_pqueue_push(tr, &pqueue, i / 2, text("x")));
        ok(keel_log_append(tr, &events, (uint16_t)i, text("x")));
    }
    ok(keel_queue_request(tr, &requests, &ticket));
    ok(keel_queue_request(tr, &requests, &ticket));
    ok(keel_taskqueue_push(tr, &tasks, 0, &once, text("x"), NULL));
    ok(keel_taskqueue_claim(tr, &tasks, 0, 10, 1, &found, &doomed));
    ok(keel_taskqueue_fail(tr, &tasks, 1, &doomed, 0, text("reason")));
    keel_task_free(&doomed);
    for (int i = 0; i < 3; i++)
        ok(keel_taskqueue_push(tr, &tasks, 0, NULL, text("x"), NULL));
    ok(keel_taskqueue_claim(tr, &tasks, 0, 1000, 1, &found, &leased));
    keel_task_free(&leased);
    ok(commit(tr));
}

/* Until the call comes through; its writes are dropped. Returns how many answers it waited for. */
static int fail_at_every_answer(operation call) {
    for (int n = 0;; n++) {
        FDBTransaction *tr = begin();
        out = untouched;
        countdown = n;
        fdb_error_t error = call(tr);
        bool reached = countdown < 0;
        countdown = -1;
        fdb_transaction_destroy(tr);
        if (!reached) {
            ok(error);
            if (out.value != untouched.value)
                free(out.value);
            if (out.task.payload != untouched.task.payload)
                keel_task_free(&out.task);
            return n;
        }
        assert_int_equal(error, PLANTED);
        assert_memory_equal(&out, &untouched, sizeof out);
    }
}

static void test_every_call(void **state) {
    (void)state;
    static const operation operations[] = {
        enqueue,  dequeue,    peek,        empty,   size,         request,     serve,
        collect,  withdraw,   push,        pop_min, pop_max,      pop_last,    pqueue_empty,
        scan,     tail,       last,        claim,   pqueue_size,  log_count,   complete,
        extend,   give_back,  fail_task,   next,    count,        visit_dead,  dead_retry,
        payload,  dead_remove};
    queue = subspace_of("queue");
    requests = subspace_of("requests");
    pqueue = subspace_of("pqueue");
    events = subspace_of("log");
    tasks = subspace_of("tasks");
    memset(&untouched, UNTOUCHED, sizeof untouched);
    memset(&untouched.flag, 0, sizeof untouched.flag);
    fill_all();
    FDBTransaction *tr = begin();
    ok(visit_dead(tr)); /* finds the one of dead_retry */
    fdb_transaction_destroy(tr);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        assert_true(fail_at_every_answer(operations[i]) > 0);
}

/* A pop that fails for good leaves no request behind, wherever it failed. */
static void test_pop(void **state) {
    (void)state;
    for (int n = 0;; n++) {
        uint8_t *value = NULL;
        size_t length;
        fdb_error_t error;
        FDBTransaction *tr = begin();
        ok(keel_queue_clear(tr, &requests));
        ok(keel_queue_enqueue(tr, &queue, text("x")));
        ok(keel_queue_enqueue(tr, &queue, text("x")));
        ok(keel_queue_request(tr, &requests, &ticket)); /* so that the pop has to leave one too */
        ok(commit(tr));
        int64_t before = 0, after = 0;
        tr = begin();
        ok(keel_queue_size(tr, &queue, &before));
        fdb_transaction_destroy(tr);
        countdown = n;
        error = keel_queue_pop(keel_fdb(db), &queue, &requests, &value, &length);
        bool reached = countdown < 0;
        countdown = -1;
        assert_true(error == 0 || error == PLANTED);
        free(error ? NULL : value);
        tr = begin();
        keel_queue_answer answer;
        uint8_t *other;
        ok(keel_queue_withdraw(tr, &requests, &ticket, &answer, &other, &length));
        ok(keel_queue_size(tr, &requests, &after));
        assert_int_equal(after, 0); /* nothing but the other's */
        ok(keel_queue_size(tr, &queue, &after));
        assert_int_equal(before, after + (answer == KEEL_QUEUE_ITEM) + (error == 0));
        free(other);
        ok(commit(tr));
        if (!reached)
            return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call),
        cmocka_unit_test(test_pop),
    };
    return cmocka_run_group_tests(tests, open_database, close_database);
}
