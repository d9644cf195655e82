/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures without a database: pending ones are answered by the test itself. The network thread is a
 * thread in loop_run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/future.h"
#include "os/clock.h"
#include "os/thread.h"
#include "util/memory.h"

static os_thread network;

static void *run_loop(void *argument) {
    loop_run();
    return argument;
}

static int start_network(void **state) {
    (void)state;
    return os_thread_start(&network, "network", run_loop, NULL);
}

static int stop_network(void **state) {
    (void)state;
    loop_stop();
    os_thread_join(network);
    return 0;
}

/* ---- Ready futures ---- */

static FDBFuture *value_future(const char *text) {
    FDBFuture *future = future_create_ready(FUTURE_VALUE);
    assert_non_null(future);
    assert_true(arena_copy(&future->arena, bytes_make(text, strlen(text)), &future->result.bytes));
    future->present = true;
    return future;
}

static void ready_numbers(void **state) {
    (void)state;
    FDBFuture *future = future_create_ready(FUTURE_INT64);
    future->result.int64 = -5;
    int64_t number = 0;
    uint64_t other = 7;
    double real = 7;
    assert_int_equal(fdb_future_is_ready(future), 1);
    assert_int_equal(fdb_future_get_error(future), 0);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    assert_int_equal(fdb_future_get_int64(future, &number), 0);
    assert_int_equal(number, -5);
    assert_int_equal(fdb_future_get_uint64(future, &other), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(fdb_future_get_double(future, &real), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(fdb_future_get_int64(future, NULL), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(other, 7);
    fdb_future_destroy(future);
}

static void ready_value_and_key(void **state) {
    (void)state;
    FDBFuture *future = value_future("hello");
    fdb_bool_t present = 0;
    const uint8_t *bytes = NULL;
    int length = 0;
    assert_int_equal(fdb_future_get_value(future, &present, &bytes, &length), 0);
    assert_int_equal(present, 1);
    assert_int_equal(length, 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(fdb_future_get_key(future, &bytes, &length), ERROR_CLIENT_INVALID_OPERATION);
    fdb_future_destroy(future);

    future = future_create_ready(FUTURE_VALUE); /* a missing one: the outputs stay as they are */
    length = 42;
    assert_int_equal(fdb_future_get_value(future, &present, &bytes, &length), 0);
    assert_int_equal(present, 0);
    assert_int_equal(length, 42);
    fdb_future_destroy(future);
}

static void ready_rows_and_keys(void **state) {
    (void)state;
    FDBFuture *future = future_create_ready(FUTURE_ROWS);
    assert_true(rows_append(&future->result.rows, BYTES_LITERAL("a"), BYTES_LITERAL("1")));
    assert_true(rows_append(&future->result.rows, BYTES_LITERAL("b"), BYTES_LITERAL("22")));
    future->more = true;
    const FDBKeyValue *rows;
    int count;
    fdb_bool_t more;
    assert_int_equal(fdb_future_get_keyvalue_array(future, &rows, &count, &more), 0);
    assert_int_equal(count, 2);
    assert_int_equal(more, 1);
    assert_memory_equal(rows[1].value, "22", 2);
    fdb_future_destroy(future);

    future = future_create_ready(FUTURE_KEYS);
    for (uint8_t i = 0; i < 40; i++)
        assert_true(rows_append(&future->result.rows, bytes_make(&i, 1), bytes_make(NULL, 0)));
    future_keep_keys(future);
    const FDBKey *keys;
    assert_int_equal(fdb_future_get_key_array(future, &keys, &count), 0);
    assert_int_equal(count, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(keys[i].key_length, 1);
        assert_int_equal(keys[i].key[0], i);
    }
    fdb_future_destroy(future);
}

static void failed_future_gives_its_error(void **state) {
    (void)state;
    FDBFuture *future = future_create_failed(ERROR_TRANSACTION_TOO_OLD);
    int64_t number = 3;
    fdb_bool_t flag;
    assert_int_equal(fdb_future_get_error(future), 1007);
    assert_int_equal(fdb_future_get_int64(future, &number), 1007);
    assert_int_equal(fdb_future_get_bool(future, &flag), 1007);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    assert_int_equal(number, 3);
    fdb_future_cancel(future); /* ready: stays as it is */
    assert_int_equal(fdb_future_get_error(future), 1007);
    fdb_future_release_memory(future);
    assert_int_equal(fdb_future_get_error(future), 1007);
    fdb_future_destroy(future);
}

static void null_is_misuse_not_a_crash(void **state) {
    (void)state;
    assert_int_equal(fdb_future_get_error(NULL), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(fdb_future_block_until_ready(NULL), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(fdb_future_set_callback(NULL, NULL, NULL), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(fdb_future_is_ready(NULL), 0);
    fdb_future_cancel(NULL);
    fdb_future_release_memory(NULL);
    fdb_future_destroy(NULL);
}

/* As many releases as gets, then 1102. */
static void memory_is_released_by_count(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    FDBFuture *future = value_future(text); /* more than the future holds itself */
    fdb_bool_t present;
    const uint8_t *bytes;
    int length;
    fdb_future_release_memory(future); /* nothing handed out yet: nothing happens */
    assert_int_equal(fdb_future_get_value(future, &present, &bytes, &length), 0);
    assert_int_equal(fdb_future_get_value(future, &present, &bytes, &length), 0);
    fdb_future_release_memory(future);
    assert_int_equal(bytes[1998], 'x');
    assert_int_equal(fdb_future_get_error(future), 0);
    fdb_future_release_memory(future);
    assert_int_equal(fdb_future_get_value(future, &present, &bytes, &length),
                     ERROR_FUTURE_RELEASED);
    assert_int_equal(fdb_future_get_error(future), ERROR_FUTURE_RELEASED);
    assert_int_equal(fdb_future_is_ready(future), 1);
    fdb_future_release_memory(future);
    fdb_future_destroy(future);
}

static void a_small_value_needs_one_allocation(void **state) {
    (void)state;
    char text[300];
    memset(text, 'y', sizeof text);
    memory_fail_after(1);
    FDBFuture *future = future_create_ready(FUTURE_VALUE);
    struct bytes copy;
    bool copied = future && arena_copy(&future->arena, bytes_make(text, sizeof text), &copy);
    memory_fail_after(-1);
    assert_true(copied);
    fdb_future_destroy(future);
}

static void without_memory_there_is_still_a_future(void **state) {
    (void)state;
    memory_fail_after(0);
    FDBFuture *ready = future_create_ready(FUTURE_VALUE);
    FDBFuture *pending = future_create_pending(FUTURE_NOTHING, NULL);
    FDBFuture *failed = future_create_failed(ERROR_NOT_COMMITTED);
    memory_fail_after(-1);
    assert_null(ready);
    assert_null(pending);
    assert_ptr_equal(failed, future_out_of_memory());
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fdb_future_get_error(failed), ERROR_LARGE_ALLOC_FAILED);
        fdb_future_cancel(failed);
        fdb_future_release_memory(failed);
        fdb_future_destroy(failed);
    }
}

/* ---- Pending futures ---- */

struct called {
    _Atomic int count, on_network, error, order;
    bool destroys;
};

static _Atomic int call_order;

static void note_call(FDBFuture *future, void *parameter) {
    struct called *called = parameter;
    called->error = fdb_future_get_error(future);
    called->on_network = loop_is_self();
    called->order = ++call_order;
    if (called->destroys)
        fdb_future_destroy(future);
    called->count++; /* last: whoever sees it may go on */
}

static void wait_for_calls(struct called *called, int count) {
    while (called->count < count)
        os_sleep_us(50);
}

static void pending_is_not_ready(void **state) {
    (void)state;
    FDBFuture *future = future_create_pending(FUTURE_INT64, NULL);
    int64_t number;
    assert_int_equal(fdb_future_is_ready(future), 0);
    assert_int_equal(fdb_future_get_error(future), ERROR_FUTURE_NOT_SET);
    assert_int_equal(fdb_future_get_int64(future, &number), ERROR_FUTURE_NOT_SET);
    fdb_future_release_memory(future);
    future->result.int64 = 9;
    future_answer(future, 0);
    assert_int_equal(fdb_future_is_ready(future), 1);
    assert_int_equal(fdb_future_get_int64(future, &number), 0);
    assert_int_equal(number, 9);
    fdb_future_destroy(future);
}

static void cancel_answers_once(void **state) {
    (void)state;
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, NULL);
    fdb_future_cancel(future);
    assert_int_equal(fdb_future_get_error(future), ERROR_OPERATION_CANCELLED);
    fdb_future_cancel(future);
    fdb_future_destroy(future);
    /* Leaks nothing: see the sanitizers. */
    fdb_future_destroy(future_create_pending(FUTURE_NOTHING, NULL));
}

static void callback_of_a_ready_future_runs_inline(void **state) {
    (void)state;
    struct called called = {.destroys = true};
    FDBFuture *future = value_future("v");
    assert_int_equal(fdb_future_set_callback(future, note_call, &called), 0);
    assert_int_equal(called.count, 1);
    assert_int_equal(called.on_network, 0);
}

static void callback_of_a_pending_future_runs_on_the_network(void **state) {
    (void)state;
    struct called called[3] = {{.count = 0}};
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, NULL);
    call_order = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(fdb_future_set_callback(future, note_call, &called[i]), 0);
    assert_int_equal(called[0].count, 0);
    future_answer(future, ERROR_NOT_COMMITTED);
    for (int i = 0; i < 3; i++) {
        wait_for_calls(&called[i], 1);
        assert_int_equal(called[i].on_network, 1);
        assert_int_equal(called[i].error, ERROR_NOT_COMMITTED);
        assert_int_equal(called[i].order, i + 1);
    }
    fdb_future_destroy(future);
}

static void callback_may_destroy_its_future(void **state) {
    (void)state;
    struct called called = {.destroys = true};
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, NULL);
    assert_int_equal(fdb_future_set_callback(future, note_call, &called), 0);
    future_answer(future, 0);
    wait_for_calls(&called, 1);
}

static void destroying_a_pending_future_calls_back(void **state) {
    (void)state;
    struct called called = {.count = 0};
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, NULL);
    assert_int_equal(fdb_future_set_callback(future, note_call, &called), 0);
    fdb_future_destroy(future);
    wait_for_calls(&called, 1);
    assert_int_equal(called.error, ERROR_OPERATION_CANCELLED);
    assert_int_equal(called.on_network, 1);
}

static void a_second_callback_needs_memory(void **state) {
    (void)state;
    struct called called = {.count = 0};
    FDBFuture *future = future_create_pending(FUTURE_NOTHING, NULL);
    memory_fail_after(0);
    fdb_error_t first = fdb_future_set_callback(future, note_call, &called);
    fdb_error_t second = fdb_future_set_callback(future, note_call, &called);
    memory_fail_after(-1);
    assert_int_equal(first, 0);
    assert_int_equal(second, ERROR_LARGE_ALLOC_FAILED);
    future_answer(future, 0);
    wait_for_calls(&called, 1);
    fdb_future_destroy(future);
}

/* ---- Blocking ---- */

struct blocked_task {
    struct loop_task task;
    FDBFuture *future;
    _Atomic int error;
};

static void block_on_network(struct loop_task *task) {
    struct blocked_task *blocked = (struct blocked_task *)task;
    blocked->error = fdb_future_block_until_ready(blocked->future);
}

static void blocking_on_the_network_thread_is_refused(void **state) {
    (void)state;
    FDBFuture *pending = future_create_pending(FUTURE_NOTHING, NULL), *ready = value_future("v");
    struct blocked_task tasks[2] =
        {{{block_on_network, NULL}, pending, -1}, {{block_on_network, NULL}, ready, -1}};
    for (int i = 0; i < 2; i++) {
        loop_post(&tasks[i].task);
        while (tasks[i].error == -1)
            os_sleep_us(50);
    }
    assert_int_equal(tasks[0].error, ERROR_BLOCKED_FROM_NETWORK_THREAD);
    assert_int_equal(tasks[1].error, 0);
    fdb_future_destroy(pending);
    fdb_future_destroy(ready);
}

enum { WAITERS = 8 };

static void *block(void *future) {
    return (void *)(intptr_t)fdb_future_block_until_ready(future);
}

static void many_threads_block_on_one_future(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        FDBFuture *future = future_create_pending(FUTURE_NOTHING, NULL);
        os_thread threads[WAITERS];
        for (int i = 0; i < WAITERS; i++)
            assert_int_equal(os_thread_start(&threads[i], "waiter", block, future), 0);
        if (round % 2)
            os_sleep_us(300);
        future_answer(future, ERROR_NOT_COMMITTED);
        for (int i = 0; i < WAITERS; i++)
            os_thread_join(threads[i]);
        assert_int_equal(fdb_future_get_error(future), ERROR_NOT_COMMITTED);
        fdb_future_destroy(future);
    }
}

/* ---- Everything at once: each callback exactly once, whatever comes first ---- */

struct race {
    FDBFuture *future;
    struct called called[2];
    _Atomic int ready;
    _Atomic bool go;
};

static void meet(struct race *race) {
    race->ready++;
    while (!race->go)
        os_thread_yield();
}

static void *race_callback(void *argument) {
    struct race *race = argument;
    meet(race);
    for (int i = 0; i < 2; i++)
        if (fdb_future_set_callback(race->future, note_call, &race->called[i]))
            abort();
    return NULL;
}

static void *race_cancel(void *argument) {
    struct race *race = argument;
    meet(race);
    fdb_future_cancel(race->future);
    return NULL;
}

static void *race_block(void *argument) {
    struct race *race = argument;
    meet(race);
    if (fdb_future_block_until_ready(race->future))
        abort();
    return NULL;
}

static void races_lose_nothing(void **state) {
    (void)state;
    void *(*const parts[])(void *) = {race_callback, race_cancel, race_block, race_cancel};
    for (int round = 0; round < 200; round++) {
        struct race race = {.future = future_create_pending(FUTURE_NOTHING, NULL)};
        os_thread threads[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(os_thread_start(&threads[i], "race", parts[i], &race), 0);
        while (race.ready < 4)
            os_thread_yield();
        race.go = true;
        for (int i = 0; i < 4; i++)
            os_thread_join(threads[i]);
        fdb_future_destroy(race.future);
        for (int i = 0; i < 2; i++) {
            wait_for_calls(&race.called[i], 1);
            assert_int_equal(race.called[i].count, 1);
            assert_int_equal(race.called[i].error, ERROR_OPERATION_CANCELLED);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_numbers),
        cmocka_unit_test(ready_value_and_key),
        cmocka_unit_test(ready_rows_and_keys),
        cmocka_unit_test(failed_future_gives_its_error),
        cmocka_unit_test(null_is_misuse_not_a_crash),
        cmocka_unit_test(memory_is_released_by_count),
        cmocka_unit_test(a_small_value_needs_one_allocation),
        cmocka_unit_test(without_memory_there_is_still_a_future),
        cmocka_unit_test(pending_is_not_ready),
        cmocka_unit_test(cancel_answers_once),
        cmocka_unit_test(callback_of_a_ready_future_runs_inline),
        cmocka_unit_test(callback_of_a_pending_future_runs_on_the_network),
        cmocka_unit_test(callback_may_destroy_its_future),
        cmocka_unit_test(destroying_a_pending_future_calls_back),
        cmocka_unit_test(a_second_callback_needs_memory),
        cmocka_unit_test(blocking_on_the_network_thread_is_refused),
        cmocka_unit_test(many_threads_block_on_one_future),
        cmocka_unit_test(races_lose_nothing),
    };
    return cmocka_run_group_tests(tests, start_network, stop_network);
}
