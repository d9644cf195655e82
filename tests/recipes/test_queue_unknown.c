/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel_queue_pop and the task queue when commits succeed but say that their result is unknown, and
 * when retries are limited: nothing is lost and nothing given twice.
 *
 * This program has its own fdb_transaction_commit and fdb_future_get_error, in front of the
 * library's: of the commits of a pop but the first (whose loss keel/queue.h admits) about every
 * third that succeeds is reported as commit_unknown_result.
 *
 *     KEEL_SEED=N test_queue_unknown
 */
#define _GNU_SOURCE
#include <keel/queue.h>
#include <keel/taskqueue.h>

#include "queues.h"

#include <dlfcn.h>

enum { THREADS = 12, EACH = 12, ITEMS = THREADS * EACH, COMMIT_UNKNOWN_RESULT = 1021 };

static _Thread_local int commits_to_spare; /* before the first that may be planted; -1: none is */
static _Thread_local unsigned seed;
static _Thread_local FDBFuture *planted;
static atomic_int planted_count;

static FDBFuture *(*real_commit)(FDBTransaction *);
static fdb_error_t (*real_get_error)(FDBFuture *);

static __attribute__((constructor)) void find_the_library(void) {
    *(void **)&real_commit = dlsym(RTLD_NEXT, "fdb_transaction_commit");
    *(void **)&real_get_error = dlsym(RTLD_NEXT, "fdb_future_get_error");
}

FDBFuture *fdb_transaction_commit(FDBTransaction *tr) {
    FDBFuture *future = real_commit(tr);
    if (commits_to_spare > 0)
        commits_to_spare--;
    else if (commits_to_spare == 0 && rand_r(&seed) % 3 == 0)
        planted = future;
    return future;
}

fdb_error_t fdb_future_get_error(FDBFuture *future) {
    fdb_error_t error = real_get_error(future);
    if (future != planted)
        return error;
    planted = NULL;
    if (!error)
        atomic_fetch_add(&planted_count, 1);
    return error ? error : COMMIT_UNKNOWN_RESULT;
}

static unsigned seed_of(int thread) {
    const char *text_of_seed = getenv("KEEL_SEED");
    return (unsigned)thread + 1000 * (text_of_seed ? (unsigned)atoi(text_of_seed) : 1);
}

static keel_subspace queue, requests;
static atomic_int taken[ITEMS], refused;

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int i = 0; i < ITEMS && !error; i++)
        error = keel_queue_enqueue(tr, &queue, KEEL_BYTES(&i, sizeof i));
    return error;
}

static int64_t size_now(const keel_subspace *subspace) {
    FDBTransaction *tr = begin();
    int64_t size = -1;
    ok(keel_queue_size(tr, subspace, &size));
    fdb_transaction_destroy(tr);
    return size;
}

/* Until the queue is empty. */
static void pop_all(bool limited) {
    for (;;) {
        uint8_t *value;
        size_t length;
        int number;
        commits_to_spare = limited ? -1 : 1;
        fdb_error_t error = keel_queue_pop(keel_fdb(db), &queue, &requests, &value, &length);
        if (error == 1020 && limited) {
            atomic_fetch_add(&refused, 1);
            continue;
        }
        must(error, "pop");
        if (!value)
            return;
        memcpy(&number, value, sizeof number);
        atomic_fetch_add(&taken[number], 1);
        free(value);
    }
}

static void *pop_unknown(void *context) {
    seed = seed_of((int)(intptr_t)context);
    pop_all(false);
    return NULL;
}

static void *pop_limited(void *context) {
    commits_to_spare = -1;
    pop_all(true);
    return context;
}

static void run_and_check(void *(*body)(void *)) {
    commits_to_spare = -1;
    ok(keel_run(keel_fdb(db), fill, NULL));
    run_threads(THREADS, body);
    commits_to_spare = -1;
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(taken[i], 1);
        taken[i] = 0;
    }
    assert_int_equal(size_now(&queue), 0);
    assert_int_equal(size_now(&requests), 0);
}

static void test_unknown_results(void **state) {
    (void)state;
    queue = subspace_of("queue");
    requests = subspace_of("requests");
    run_and_check(pop_unknown);
    printf("KEEL_SEED=%u: %d planted\n", seed_of(0) / 1000, (int)planted_count);
}

/* A pop that gives up withdraws its request. */
static void test_limited_retries(void **state) {
    (void)state;
    int64_t limit = 0;
    ok(fdb_database_set_option(keel_fdb(db), FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT,
                               (const uint8_t *)&limit, sizeof limit));
    run_and_check(pop_limited);
    limit = -1;
    ok(fdb_database_set_option(keel_fdb(db), FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT,
                               (const uint8_t *)&limit, sizeof limit));
    printf("%d pops gave up\n", (int)refused);
}

/* ---- The task queue ---- */

static keel_subspace tasks;
static atomic_int done_count, lost_count;
static atomic_llong shared_clock;

struct work {
    keel_task task;
    bool found;
};

static fdb_error_t push_one(FDBTransaction *tr, void *context) {
    return keel_taskqueue_push(tr, &tasks, 0, NULL, KEEL_BYTES(context, sizeof(int)), NULL);
}

static fdb_error_t claim(FDBTransaction *tr, void *context) {
    struct work *work = context;
    keel_task_free(&work->task);
    return keel_taskqueue_claim(tr, &tasks, atomic_load(&shared_clock), 1000, 16, &work->found,
                                &work->task);
}

static fdb_error_t complete(FDBTransaction *tr, void *context) {
    struct work *work = context;
    return keel_taskqueue_complete(tr, &tasks, &work->task);
}

static fdb_error_t count_all(FDBTransaction *tr, void *context) {
    return keel_taskqueue_count(tr, &tasks, 0, context);
}

/* Every task is worked on at least once, and all are gone in the end. */
static void *work(void *context) {
    seed = seed_of((int)(intptr_t)context);
    for (;;) {
        struct work work = {.found = false};
        keel_taskqueue_counts counts;
        int number;
        commits_to_spare = 0;
        must(keel_run(keel_fdb(db), claim, &work), "claim");
        if (!work.found) {
            atomic_fetch_add(&shared_clock, 100);
            must(keel_run_read(keel_fdb(db), count_all, &counts), "count");
            if (counts.ready + counts.delayed + counts.leased == 0)
                return NULL;
            continue;
        }
        memcpy(&number, work.task.payload, sizeof number);
        atomic_fetch_add(&taken[number], 1);
        fdb_error_t error = keel_run(keel_fdb(db), complete, &work);
        atomic_fetch_add(error == KEEL_ERROR_LEASE_LOST ? &lost_count : &done_count, 1);
        if (error != KEEL_ERROR_LEASE_LOST)
            must(error, "complete");
        keel_task_free(&work.task);
    }
}

static void test_tasks(void **state) {
    (void)state;
    tasks = subspace_of("tasks");
    commits_to_spare = -1;
    for (int i = 0; i < ITEMS; i++)
        ok(keel_run(keel_fdb(db), push_one, &i));
    run_threads(THREADS, work);
    for (int i = 0; i < ITEMS; i++)
        assert_true(taken[i] >= 1);
    printf("%d completed, %d told that the lease was lost\n", (int)done_count, (int)lost_count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_results),
        cmocka_unit_test(test_limited_retries),
        cmocka_unit_test(test_tasks),
    };
    return cmocka_run_group_tests(tests, open_on_disk, close_on_disk);
}
