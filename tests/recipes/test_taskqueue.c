/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The task queue, on a clock of its own: order, delays, leases that end, dead letters, bad input,
 * conflicts, and many workers of which some die.
 */
#define _GNU_SOURCE
#include <keel/taskqueue.h>

#include "queues.h"

enum { LEASE = 1000, LEASE_LOST = KEEL_ERROR_LEASE_LOST };

static void push_with(const keel_subspace *tasks, int64_t now, keel_task_options options,
                      const char *payload) {
    FDBTransaction *tr = begin();
    ok(keel_taskqueue_push(tr, tasks, now, &options, text(payload), NULL));
    ok(commit(tr));
}

static void push(const keel_subspace *tasks, int64_t now, const char *payload) {
    push_with(tasks, now, (keel_task_options){0, 0, 0}, payload);
}

/* NULL: there is nothing to claim. The payload is freed, the rest of the task is good. */
static keel_task claim(const keel_subspace *tasks, int64_t now, const char *payload) {
    FDBTransaction *tr = begin();
    keel_task task;
    bool found;
    memset(&task, 0, sizeof task);
    ok(keel_taskqueue_claim(tr, tasks, now, LEASE, 1, &found, &task));
    ok(commit(tr));
    assert_int_equal(found, payload != NULL);
    if (payload) {
        assert_int_equal(task.payload_length, strlen(payload));
        assert_memory_equal(task.payload, payload, task.payload_length);
        assert_int_equal(task.lease_until_ms, now + LEASE);
    }
    keel_task_free(&task);
    return task;
}

static fdb_error_t complete(const keel_subspace *tasks, const keel_task *task) {
    FDBTransaction *tr = begin();
    fdb_error_t error = keel_taskqueue_complete(tr, tasks, task);
    ok(commit(tr));
    return error;
}

static fdb_error_t fail_task(const keel_subspace *tasks, int64_t now, const keel_task *task,
                             int64_t delay, const char *reason) {
    FDBTransaction *tr = begin();
    fdb_error_t error = keel_taskqueue_fail(tr, tasks, now, task, delay, text(reason));
    ok(commit(tr));
    return error;
}

static fdb_error_t give_back(const keel_subspace *tasks, int64_t now, const keel_task *task,
                             int64_t delay) {
    FDBTransaction *tr = begin();
    fdb_error_t error = keel_taskqueue_give_back(tr, tasks, now, task, delay);
    ok(commit(tr));
    return error;
}

static void expect_counts(const keel_subspace *tasks, int64_t now, int ready, int delayed,
                          int leased, int dead) {
    FDBTransaction *tr = begin();
    keel_taskqueue_counts counts;
    ok(keel_taskqueue_count(tr, tasks, now, &counts));
    assert_int_equal(counts.ready, ready);
    assert_int_equal(counts.delayed, delayed);
    assert_int_equal(counts.leased, leased);
    assert_int_equal(counts.dead, dead);
    fdb_transaction_destroy(tr);
}

static int64_t next_time(const keel_subspace *tasks) {
    FDBTransaction *tr = begin();
    int64_t when = -1;
    ok(keel_taskqueue_next(tr, tasks, &when));
    fdb_transaction_destroy(tr);
    return when;
}

/* Nothing but the signal is left. */
static void expect_no_residue(const keel_subspace *tasks) {
    FDBTransaction *tr = begin();
    keel_range range;
    const FDBKeyValue *rows;
    int count;
    fdb_bool_t more;
    ok(keel_subspace_range(tasks, KEEL_TUPLE(), &range));
    FDBFuture *future = fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 0, 0,
        FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    ok(keel_wait(future));
    ok(fdb_future_get_keyvalue_array(future, &rows, &count, &more));
    assert_int_equal(count, 1);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void test_life(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("life");
    claim(&tasks, 0, NULL);
    assert_int_equal(next_time(&tasks), INT64_MAX);
    push(&tasks, 100, "a");
    assert_int_equal(next_time(&tasks), 0);
    expect_counts(&tasks, 100, 1, 0, 0, 0);
    keel_task task = claim(&tasks, 100, "a");
    assert_int_equal(task.attempts, 1);
    assert_int_equal(task.claim, 1);
    assert_int_equal(next_time(&tasks), 1100);
    expect_counts(&tasks, 100, 0, 0, 1, 0);
    claim(&tasks, 100, NULL); /* nobody else gets it */
    claim(&tasks, 1099, NULL);
    ok(complete(&tasks, &task));
    assert_int_equal(complete(&tasks, &task), LEASE_LOST); /* once */
    claim(&tasks, 100000, NULL);
    expect_no_residue(&tasks);
}

static void test_order(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("order");
    char name[16];
    for (int i = 0; i < 50; i++) { /* all in one millisecond */
        snprintf(name, sizeof name, "%d", i);
        push(&tasks, 7, name);
    }
    push_with(&tasks, 9, (keel_task_options){.priority = -5}, "urgent");
    push_with(&tasks, 8, (keel_task_options){.priority = 5}, "some time");
    push(&tasks, 6, "earlier");
    claim(&tasks, 10, "urgent");
    claim(&tasks, 10, "earlier");
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "%d", i);
        claim(&tasks, 10, name);
    }
    claim(&tasks, 10, "some time");
    claim(&tasks, 10, NULL);
}

static void test_delay(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("delay");
    push_with(&tasks, 0, (keel_task_options){.delay_ms = 500}, "later");
    push_with(&tasks, 0, (keel_task_options){.delay_ms = 300, .priority = 1}, "unimportant");
    assert_int_equal(next_time(&tasks), 300);
    claim(&tasks, 299, NULL);
    expect_counts(&tasks, 299, 0, 2, 0, 0);
    expect_counts(&tasks, 300, 1, 1, 0, 0);
    claim(&tasks, 500, "later"); /* both are due: by priority */
    claim(&tasks, 500, "unimportant");
}

/* More tasks are due than one claim promotes. */
static void test_many_due(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("many due");
    for (int i = 0; i < 100; i++)
        push_with(&tasks, 0, (keel_task_options){.delay_ms = 1 + i}, "x");
    for (int i = 0; i < 100; i++)
        claim(&tasks, 200, "x");
    claim(&tasks, 200, NULL);
}

static void test_worker_dies(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("dies");
    push(&tasks, 0, "a");
    keel_task first = claim(&tasks, 0, "a");
    claim(&tasks, LEASE - 1, NULL);
    keel_task second = claim(&tasks, LEASE, "a"); /* the lease has ended */
    assert_int_equal(second.attempts, 2);
    assert_true(second.claim > first.claim);
    assert_memory_equal(first.id, second.id, sizeof first.id);
    assert_int_equal(complete(&tasks, &first), LEASE_LOST); /* the first one is back */
    assert_int_equal(fail_task(&tasks, LEASE, &first, 0, ""), LEASE_LOST);
    assert_int_equal(give_back(&tasks, LEASE, &first, 0), LEASE_LOST);
    ok(complete(&tasks, &second));
    expect_no_residue(&tasks);
    push(&tasks, 0, "b");
    first = claim(&tasks, 0, "b");
    ok(complete(&tasks, &first)); /* late, but nobody has noticed */
    expect_no_residue(&tasks);
}

static void test_extend(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("extend");
    push(&tasks, 0, "a");
    keel_task task = claim(&tasks, 0, "a");
    int64_t until = 0;
    for (int i = 0; i < 3; i++) { /* the same handle again and again, as in a retry */
        FDBTransaction *tr = begin();
        ok(keel_taskqueue_extend(tr, &tasks, 900 + i, &task, 5000, &until));
        ok(commit(tr));
        assert_int_equal(until, 5900 + i);
    }
    claim(&tasks, 5901, NULL);
    expect_counts(&tasks, 5901, 0, 0, 1, 0);
    keel_task other = claim(&tasks, 5902, "a");
    FDBTransaction *tr = begin();
    assert_int_equal(keel_taskqueue_extend(tr, &tasks, 5903, &task, 5000, NULL), LEASE_LOST);
    fdb_transaction_destroy(tr);
    ok(complete(&tasks, &other));
    expect_no_residue(&tasks);
}

static void test_give_back(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("give back");
    push_with(&tasks, 0, (keel_task_options){.attempts_max = 1}, "a");
    keel_task task = claim(&tasks, 0, "a");
    ok(give_back(&tasks, 1, &task, 0));
    assert_int_equal(give_back(&tasks, 1, &task, 0), LEASE_LOST);
    task = claim(&tasks, 2, "a"); /* it did not count */
    assert_int_equal(task.attempts, 1);
    assert_int_equal(task.claim, 2);
    ok(give_back(&tasks, 3, &task, 100));
    claim(&tasks, 102, NULL);
    task = claim(&tasks, 103, "a");
    ok(complete(&tasks, &task));
    expect_no_residue(&tasks);
}

/* ---- Dead letters ---- */

static keel_dead_task the_dead;
static char the_reason[64];

static fdb_error_t note_dead(void *context, const keel_dead_task *dead) {
    the_dead = *dead;
    memcpy(the_reason, dead->reason.data, dead->reason.length);
    the_reason[dead->reason.length] = 0;
    ++*(int *)context;
    return 0;
}

static int visit_dead(const keel_subspace *tasks) {
    FDBTransaction *tr = begin();
    int count = 0;
    ok(keel_taskqueue_dead(tr, tasks, 0, note_dead, &count));
    fdb_transaction_destroy(tr);
    return count;
}

static void test_dead_letters(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("dead");
    push_with(&tasks, 0, (keel_task_options){.attempts_max = 2, .priority = 3}, "a");
    keel_task task = claim(&tasks, 0, "a");
    ok(fail_task(&tasks, 10, &task, 50, "no luck"));
    assert_int_equal(visit_dead(&tasks), 0);
    claim(&tasks, 59, NULL);
    task = claim(&tasks, 60, "a");
    assert_int_equal(task.attempts, 2);
    ok(fail_task(&tasks, 70, &task, 50, "no luck again"));
    expect_counts(&tasks, 1000000, 0, 0, 0, 1);
    claim(&tasks, 1000000, NULL);
    assert_int_equal(visit_dead(&tasks), 1);
    assert_string_equal(the_reason, "no luck again");
    assert_int_equal(the_dead.died_ms, 70);
    assert_int_equal(the_dead.attempts, 2);
    assert_int_equal(the_dead.priority, 3);
    FDBTransaction *tr = begin();
    uint8_t *payload;
    size_t length;
    ok(keel_taskqueue_payload(tr, &tasks, the_dead.id, &payload, &length));
    assert_memory_equal(payload, "a", 1);
    free(payload);
    ok(keel_taskqueue_dead_retry(tr, &tasks, 100, &the_dead));
    assert_int_equal(keel_taskqueue_dead_retry(tr, &tasks, 100, &the_dead), KEEL_ERROR_NOT_FOUND);
    ok(commit(tr));
    task = claim(&tasks, 100, "a");
    assert_int_equal(task.attempts, 1);
    ok(complete(&tasks, &task));
    expect_no_residue(&tasks);
}

/* Workers that die use up attempts as well. */
static void test_dead_by_lease(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("dead by lease");
    push_with(&tasks, 0, (keel_task_options){.attempts_max = 2}, "a");
    claim(&tasks, 0, "a");
    claim(&tasks, LEASE, "a");
    expect_counts(&tasks, 2 * LEASE, 0, 0, 0, 1);
    claim(&tasks, 2 * LEASE, NULL);
    assert_int_equal(visit_dead(&tasks), 1);
    assert_string_equal(the_reason, "");
    FDBTransaction *tr = begin();
    ok(keel_taskqueue_dead_remove(tr, &tasks, &the_dead));
    assert_int_equal(keel_taskqueue_dead_remove(tr, &tasks, &the_dead), KEEL_ERROR_NOT_FOUND);
    ok(commit(tr));
    expect_no_residue(&tasks);
}

/* A reason of NULs is twice as long in the tuple. */
static void test_long_reason(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("long reason");
    static uint8_t reason[KEEL_TASK_REASON_MAX + 1];
    push_with(&tasks, 0, (keel_task_options){.attempts_max = 1}, "a");
    keel_task task = claim(&tasks, 0, "a");
    FDBTransaction *tr = begin();
    keel_bytes longest = KEEL_BYTES(reason, KEEL_TASK_REASON_MAX);
    assert_int_equal(
        keel_taskqueue_fail(tr, &tasks, 0, &task, 0, KEEL_BYTES(reason, sizeof reason)), 2103);
    ok(keel_taskqueue_fail(tr, &tasks, 0, &task, 0, longest));
    ok(commit(tr));
    expect_counts(&tasks, 0, 0, 0, 0, 1);
}

static void test_bad_input(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("bad");
    static uint8_t large[100001];
    keel_task_options late = {.delay_ms = -1}, few = {.attempts_max = -1},
                      never = {.delay_ms = INT64_MAX};
    keel_bytes a = text("a");
    enum { ARGUMENT = KEEL_ERROR_ARGUMENT };
    push(&tasks, 0, "a");
    keel_task task = claim(&tasks, 0, "a");
    FDBTransaction *tr = begin();
    bool found;
    int64_t before = size_of(tr);
    assert_int_equal(
        keel_taskqueue_push(tr, &tasks, 0, NULL, KEEL_BYTES(large, sizeof large), NULL), 2103);
    assert_int_equal(keel_taskqueue_push(tr, &tasks, -1, NULL, a, NULL), ARGUMENT);
    assert_int_equal(keel_taskqueue_push(tr, NULL, 0, NULL, a, NULL), ARGUMENT);
    assert_int_equal(keel_taskqueue_push(tr, &tasks, 0, &late, a, NULL), ARGUMENT);
    assert_int_equal(keel_taskqueue_push(tr, &tasks, 0, &few, a, NULL), ARGUMENT);
    assert_int_equal(keel_taskqueue_push(tr, &tasks, 1, &never, a, NULL), ARGUMENT);
    assert_int_equal(keel_taskqueue_claim(tr, &tasks, 0, 0, 1, &found, &task), ARGUMENT);
    assert_int_equal(keel_taskqueue_claim(tr, &tasks, -1, 1, 1, &found, &task), ARGUMENT);
    assert_int_equal(keel_taskqueue_claim(tr, &tasks, 0, 1, 0, &found, &task), ARGUMENT);
    assert_int_equal(keel_taskqueue_claim(tr, &tasks, 0, 1, 101, &found, &task), ARGUMENT);
    assert_int_equal(keel_taskqueue_extend(tr, &tasks, 0, &task, 0, NULL), ARGUMENT);
    assert_int_equal(keel_taskqueue_give_back(tr, &tasks, 0, &task, -1), ARGUMENT);
    assert_int_equal(keel_taskqueue_fail(tr, &tasks, 0, &task, -1, a), ARGUMENT);
    assert_int_equal(size_of(tr), before);
    fdb_transaction_destroy(tr);
    ok(complete(&tasks, &task));
}

/* Pushes conflict with nothing; two who claim one task, or end one lease, do. */
static void test_conflicts(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("conflicts");
    keel_task one, two;
    bool found;
    push(&tasks, 0, "a");
    FDBTransaction *a = begin(), *b = begin(), *c = begin();
    ok(keel_taskqueue_claim(a, &tasks, 0, LEASE, 1, &found, &one));
    ok(keel_taskqueue_claim(b, &tasks, 0, LEASE, 1, &found, &two));
    ok(keel_taskqueue_push(c, &tasks, 0, NULL, text("b"), NULL));
    ok(commit(c));
    ok(commit(a));
    assert_int_equal(commit(b), 1020);
    keel_task_free(&two);
    keel_task_free(&one);
    a = begin();
    b = begin();
    ok(keel_taskqueue_complete(a, &tasks, &one)); /* while somebody finds the lease has ended */
    ok(keel_taskqueue_claim(b, &tasks, LEASE, LEASE, 1, &found, &two));
    keel_task_free(&two);
    ok(commit(a));
    assert_int_equal(commit(b), 1020);
    claim(&tasks, LEASE, "b");
    claim(&tasks, LEASE, NULL);
}

static void test_watch(void **state) {
    (void)state;
    keel_subspace tasks = subspace_of("watch");
    FDBFuture *future;
    FDBTransaction *tr = begin();
    ok(keel_taskqueue_watch(tr, &tasks, &future));
    ok(commit(tr));
    assert_false(fdb_future_is_ready(future));
    push(&tasks, 0, "a");
    ok(keel_wait_destroy(future));
}

/* ---- Many workers, of which some die ---- */

enum { WORKERS = 16, TASKS = 200 };
static keel_subspace shared, effects;
static atomic_llong shared_clock; /* advanced by those who find nothing */
static atomic_int done, deaths;

struct work {
    keel_task task;
    bool found;
};

static fdb_error_t claim_work(FDBTransaction *tr, void *context) {
    struct work *work = context;
    keel_task_free(&work->task); /* of a try that was not committed */
    work->found = false;
    return keel_taskqueue_claim(tr, &shared, atomic_load(&shared_clock), LEASE, 8, &work->found,
                                &work->task);
}

/* The effect and the complete in one transaction. */
static fdb_error_t finish_work(FDBTransaction *tr, void *context) {
    struct work *work = context;
    uint8_t key[64];
    static const uint8_t one[8] = {1};
    size_t length;
    fdb_error_t error = keel_taskqueue_complete(tr, &shared, &work->task);
    if (!error)
        error = keel_subspace_pack(
            &effects, KEEL_TUPLE(KEEL_BYTES(work->task.payload, work->task.payload_length)), key,
            sizeof key, &length);
    if (!error)
        fdb_transaction_atomic_op(tr, key, (int)length, one, 8, FDB_MUTATION_TYPE_ADD);
    return error;
}

static void *work(void *context) {
    unsigned seed = (unsigned)(intptr_t)context + 1;
    while (atomic_load(&done) < TASKS) {
        struct work work = {.found = false};
        must(keel_run(keel_fdb(db), claim_work, &work), "claim");
        if (!work.found) {
            atomic_fetch_add(&shared_clock, 100);
            continue;
        }
        if (rand_r(&seed) % 4 == 0) {
            atomic_fetch_add(&deaths, 1); /* never heard of again */
        } else {
            fdb_error_t error = keel_run(keel_fdb(db), finish_work, &work);
            if (!error)
                atomic_fetch_add(&done, 1);
            else if (error != LEASE_LOST)
                must(error, "complete");
        }
        keel_task_free(&work.task);
    }
    return NULL;
}

static fdb_error_t push_all(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int i = 0; i < TASKS && !error; i++) {
        keel_task_options options = {.priority = i % 3, .delay_ms = i % 5 ? 0 : i};
        error = keel_taskqueue_push(tr, &shared, 0, &options, KEEL_BYTES(&i, sizeof i), NULL);
    }
    return error;
}

static void test_many_workers(void **state) {
    (void)state;
    shared = subspace_of("shared");
    effects = subspace_of("effects");
    ok(keel_run(keel_fdb(db), push_all, NULL));
    run_threads(WORKERS, work);
    assert_int_equal(done, TASKS);
    assert_true(deaths > 0);
    expect_no_residue(&shared);
    FDBTransaction *tr = begin();
    for (int i = 0; i < TASKS; i++) { /* each exactly once */
        uint8_t key[64];
        size_t length;
        const uint8_t *value;
        int value_length;
        fdb_bool_t present;
        ok(keel_subspace_pack(&effects, KEEL_TUPLE(KEEL_BYTES(&i, sizeof i)), key, sizeof key,
                              &length));
        FDBFuture *future = fdb_transaction_get(tr, key, (int)length, 0);
        ok(keel_wait(future));
        ok(fdb_future_get_value(future, &present, &value, &value_length));
        assert_true(present);
        assert_int_equal(value[0], 1);
        fdb_future_destroy(future);
    }
    fdb_transaction_destroy(tr);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),         cmocka_unit_test(test_order),
        cmocka_unit_test(test_delay),        cmocka_unit_test(test_many_due),
        cmocka_unit_test(test_worker_dies),  cmocka_unit_test(test_extend),
        cmocka_unit_test(test_give_back),    cmocka_unit_test(test_dead_letters),
        cmocka_unit_test(test_dead_by_lease), cmocka_unit_test(test_long_reason),
        cmocka_unit_test(test_bad_input),    cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_watch),
    };
    const struct CMUnitTest crowded[] = {cmocka_unit_test(test_many_workers)};
    int failures = cmocka_run_group_tests(tests, open_database, close_database);
    return failures + cmocka_run_group_tests(crowded, open_on_disk, close_on_disk);
}
