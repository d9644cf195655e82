/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures: readiness, callbacks, cancelling, memory, many waiters. A watch on a key nobody writes
 * is the future that stays unready for as long as a test wants.
 */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

static FDBFuture *unready(const char *suffix) {
    FDBTransaction *tr = begin();
    FDBFuture *future = fdb_transaction_watch(tr, key(suffix).data, key(suffix).size);
    commit(tr);
    fdb_transaction_destroy(tr);
    return future;
}

struct probe {
    atomic_int calls;
    atomic_int inside_error;
    pthread_t thread;
    FDBFuture *future;
};

static void count_call(FDBFuture *future, void *parameter) {
    struct probe *probe = parameter;
    probe->thread = pthread_self();
    probe->future = future;
    probe->inside_error = fdb_future_get_error(future);
    probe->calls++;
}

static void wait_for_calls(struct probe *probe, int calls) {
    for (int tries = 0; tries < 6000 && probe->calls < calls; tries++) {
        sleep_milliseconds(5);
    }
    assert_int_equal(probe->calls, calls);
}

static void unready_futures_say_so(void **state) {
    (void)state;
    FDBFuture *future = unready("a");
    assert_false(fdb_future_is_ready(future));
    assert_int_equal(fdb_future_get_error(future), ERROR_FUTURE_NOT_SET);
    store_text("a", "1");
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    assert_true(fdb_future_is_ready(future));
    assert_int_equal(fdb_future_get_error(future), 0);
    fdb_future_destroy(future);
}

static void unready_results_leave_outputs_alone(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *future = fdb_transaction_get_versionstamp(tr);
    const uint8_t *data = (const uint8_t *)"untouched";
    int size = 99;
    assert_int_equal(fdb_future_get_key(future, &data, &size), ERROR_FUTURE_NOT_SET);
    assert_int_equal(size, 99);
    assert_string_equal((const char *)data, "untouched");
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void blocking_succeeds_even_for_an_error(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *future = get(tr, LITERAL("\xff/x"));
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    assert_int_equal(fdb_future_get_error(future), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void callback_of_a_ready_future_runs_at_once(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *future = get(tr, key("a"));
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    struct probe probe = {.calls = 0};
    assert_int_equal(fdb_future_set_callback(future, count_call, &probe), 0);
    assert_int_equal(probe.calls, 1);
    assert_true(pthread_equal(probe.thread, pthread_self()));
    assert_ptr_equal(probe.future, future);
    assert_int_equal(probe.inside_error, 0);
    fdb_future_destroy(future);
    assert_int_equal(probe.calls, 1);
    fdb_transaction_destroy(tr);
}

static void callback_of_an_unready_future_runs_elsewhere_once(void **state) {
    (void)state;
    FDBFuture *future = unready("a");
    struct probe probe = {.calls = 0};
    assert_int_equal(fdb_future_set_callback(future, count_call, &probe), 0);
    assert_int_equal(probe.calls, 0);
    store_text("a", "1");
    wait_for_calls(&probe, 1);
    assert_false(pthread_equal(probe.thread, pthread_self()));
    assert_int_equal(probe.inside_error, 0);
    store_text("a", "2");
    fdb_future_destroy(future);
    sleep_milliseconds(20);
    assert_int_equal(probe.calls, 1);
}

static void callbacks_of_many_commits_each_run_once(void **state) {
    (void)state;
    enum { COUNT = 100 };
    static struct probe probes[COUNT];
    FDBTransaction *tr[COUNT];
    FDBFuture *commits[COUNT];
    for (int i = 0; i < COUNT; i++) {
        probes[i].calls = 0;
        tr[i] = begin();
        put(tr[i], key_bytes(repeat((uint8_t)i, 1)), text("x"));
        commits[i] = fdb_transaction_commit(tr[i]);
        assert_int_equal(fdb_future_set_callback(commits[i], count_call, &probes[i]), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        wait_for_calls(&probes[i], 1);
        assert_int_equal(probes[i].inside_error, 0);
        assert_ready(commits[i]);
        fdb_transaction_destroy(tr[i]);
    }
    sleep_milliseconds(20);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(probes[i].calls, 1);
    }
}

static void cancel_makes_ready_and_calls_back(void **state) {
    (void)state;
    FDBFuture *future = unready("a");
    struct probe probe = {.calls = 0};
    assert_int_equal(fdb_future_set_callback(future, count_call, &probe), 0);
    fdb_future_cancel(future);
    wait_for_calls(&probe, 1);
    assert_int_equal(probe.inside_error, ERROR_OPERATION_CANCELLED);
    fdb_future_cancel(future);
    assert_int_equal(probe.calls, 1);
    assert_fails(future, ERROR_OPERATION_CANCELLED);
}

static void cancel_of_a_ready_future_changes_nothing(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    FDBFuture *future = get(tr, key("a"));
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    fdb_future_cancel(future);
    assert_value(future_value(future), text("1"));
    fdb_transaction_destroy(tr);
}

static void a_read_may_be_cancelled(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    for (int i = 0; i < 50; i++) {
        FDBFuture *future = get(tr, key("a"));
        fdb_future_cancel(future);
        fdb_error_t error = future_error(future);
        assert_true(error == 0 || error == ERROR_OPERATION_CANCELLED);
    }
    assert_ready(get(tr, key("a")));
    fdb_transaction_destroy(tr);
}

static void destroy_in_callback(FDBFuture *future, void *parameter) {
    struct probe *probe = parameter;
    probe->inside_error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    probe->calls++;
}

static void a_callback_may_destroy_its_future(void **state) {
    (void)state;
    struct probe probe = {.calls = 0};
    FDBFuture *future = unready("a");
    assert_int_equal(fdb_future_set_callback(future, destroy_in_callback, &probe), 0);
    store_text("a", "1");
    wait_for_calls(&probe, 1);
    FDBTransaction *tr = begin();
    future = get(tr, key("a"));
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    assert_int_equal(fdb_future_set_callback(future, destroy_in_callback, &probe), 0);
    assert_int_equal(probe.calls, 2);
    fdb_transaction_destroy(tr);
}

static void released_memory_is_gone(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    FDBFuture *future = get(tr, key("a"));
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    fdb_bool_t present = 0;
    const uint8_t *data = NULL;
    int size = 0;
    assert_int_equal(fdb_future_get_value(future, &present, &data, &size), 0);
    fdb_future_release_memory(future);
    assert_int_equal(fdb_future_get_value(future, &present, &data, &size), ERROR_FUTURE_RELEASED);
    assert_true(fdb_future_is_ready(future));
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void results_can_be_taken_again(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    FDBFuture *future = get(tr, key("a"));
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    fdb_transaction_destroy(tr);
    for (int i = 0; i < 3; i++) {
        fdb_bool_t present = 0;
        const uint8_t *data = NULL;
        int size = 0;
        assert_int_equal(fdb_future_get_value(future, &present, &data, &size), 0);
        assert_true(present);
        assert_bytes(raw(data, size), text("1"));
    }
    fdb_future_destroy(future);
}

static void *block_on(void *future) {
    return fdb_future_block_until_ready(future) ? future : NULL;
}

static void many_threads_wait_for_one_future(void **state) {
    (void)state;
    enum { COUNT = 8 };
    FDBFuture *future = unready("a");
    struct probe probe = {.calls = 0};
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, block_on, future), 0);
    }
    assert_int_equal(fdb_future_set_callback(future, count_call, &probe), 0);
    sleep_milliseconds(20);
    store_text("a", "1");
    for (int i = 0; i < COUNT; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    wait_for_calls(&probe, 1);
    fdb_future_destroy(future);
}

struct network_probe {
    atomic_int done;
    atomic_int unready_error;
    atomic_int ready_error;
    FDBFuture *unready;
    FDBFuture *ready;
};

static void block_in_callback(FDBFuture *future, void *parameter) {
    (void)future;
    struct network_probe *probe = parameter;
    probe->unready_error = fdb_future_block_until_ready(probe->unready);
    probe->ready_error = fdb_future_block_until_ready(probe->ready);
    probe->done = 1;
}

static void blocking_on_the_network_thread_is_refused(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct network_probe probe = {.done = 0, .unready = unready("never"), .ready = get(tr, key("a"))};
    assert_int_equal(fdb_future_block_until_ready(probe.ready), 0);
    FDBFuture *trigger = unready("trigger");
    assert_int_equal(fdb_future_set_callback(trigger, block_in_callback, &probe), 0);
    store_text("trigger", "1");
    for (int tries = 0; tries < 6000 && !probe.done; tries++) {
        sleep_milliseconds(5);
    }
    assert_int_equal(probe.done, 1);
    assert_int_equal(probe.unready_error, ERROR_BLOCKED_FROM_NETWORK_THREAD);
    assert_int_equal(probe.ready_error, 0);
    fdb_future_destroy(probe.unready);
    fdb_future_destroy(probe.ready);
    fdb_future_destroy(trigger);
    fdb_transaction_destroy(tr);
}

struct chain {
    FDBTransaction *tr;
    struct bytes key;
    atomic_int steps;
    atomic_int error;
};

/* Read, write, commit, each started in the callback of the one before. */
static void next_step(FDBFuture *future, void *parameter) {
    struct chain *chain = parameter;
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    int step = chain->steps;
    if (!error && step == 0) {
        fdb_transaction_set(chain->tr, chain->key.data, chain->key.size, (const uint8_t *)"2", 1);
        chain->steps = 1;
        error = fdb_future_set_callback(fdb_transaction_commit(chain->tr), next_step, chain);
    } else {
        chain->error = error;
        chain->steps = 2;
    }
}

static void operations_may_be_chained_through_callbacks(void **state) {
    (void)state;
    store_text("a", "1");
    struct chain chain = {.tr = begin(), .key = key("a"), .steps = 0, .error = 0};
    FDBFuture *first = get(chain.tr, key("a"));
    assert_int_equal(fdb_future_set_callback(first, next_step, &chain), 0);
    for (int tries = 0; tries < 6000 && chain.steps < 2; tries++) {
        sleep_milliseconds(5);
    }
    assert_int_equal(chain.steps, 2);
    assert_int_equal(chain.error, 0);
    fdb_transaction_destroy(chain.tr);
    assert_value(load(key("a")), text("2"));
}

int group_futures(void) {
    const struct CMUnitTest tests[] = {
        TEST(unready_futures_say_so),
        TEST(unready_results_leave_outputs_alone),
        TEST(blocking_succeeds_even_for_an_error),
        TEST(callback_of_a_ready_future_runs_at_once),
        TEST(callback_of_an_unready_future_runs_elsewhere_once),
        TEST(callbacks_of_many_commits_each_run_once),
        TEST(cancel_makes_ready_and_calls_back),
        TEST(cancel_of_a_ready_future_changes_nothing),
        TEST(a_read_may_be_cancelled),
        TEST(a_callback_may_destroy_its_future),
        TEST(released_memory_is_gone),
        TEST(results_can_be_taken_again),
        TEST(many_threads_wait_for_one_future),
        TEST(blocking_on_the_network_thread_is_refused),
        TEST(operations_may_be_chained_through_callbacks),
    };
    return cmocka_run_group_tests_name("futures", tests, NULL, NULL);
}
