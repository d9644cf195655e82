/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the network, in the order in which a process goes through it: the tests share that
 * one life and run from top to bottom.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "foundationdb/fdb_c.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/thread.h"
#include "util/error.h"

static fdb_error_t set_text(int option, const char *text) {
    int length = text ? (int)strlen(text) : 0;
    return fdb_network_set_option((FDBNetworkOption)option, (const uint8_t *)text, length);
}

static fdb_error_t set_int(int option, int64_t number) {
    return fdb_network_set_option((FDBNetworkOption)option, (const uint8_t *)&number,
                                  sizeof number);
}

static void hook(void *parameter) {
    ++*(int *)parameter;
}

/* ---- Before a version is selected ---- */

static void nothing_works_without_a_version(void **state) {
    (void)state;
    FDBDatabase *database = NULL;
    int calls = 0;
    assert_int_equal(fdb_setup_network(), ERROR_API_VERSION_UNSET);
    assert_int_equal(fdb_run_network(), ERROR_API_VERSION_UNSET);
    assert_int_equal(fdb_stop_network(), ERROR_API_VERSION_UNSET);
    assert_int_equal(fdb_add_network_thread_completion_hook(hook, &calls), ERROR_API_VERSION_UNSET);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_ENABLE, NULL), ERROR_API_VERSION_UNSET);
    assert_int_equal(fdb_create_database(":memory:", &database), ERROR_API_VERSION_UNSET);
    assert_null(database);
    assert_int_equal(fdb_get_max_api_version(), 740);
    assert_non_null(strstr(fdb_get_client_version(), ",fdb00b07"));
    assert_string_equal(fdb_get_error(0), "Success");
    assert_int_equal(fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, 1020), 1);
}

static void versions_are_checked_and_selected_once(void **state) {
    (void)state;
    assert_int_equal(fdb_select_api_version_impl(740, 730), ERROR_API_VERSION_INVALID);
    assert_int_equal(fdb_select_api_version_impl(740, 741), ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(509, 740), ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(0, 740), ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(510, 740), 0);
    assert_int_equal(fdb_select_api_version_impl(510, 740), ERROR_API_VERSION_ALREADY_SET);
    assert_int_equal(fdb_select_api_version_impl(740, 740), ERROR_API_VERSION_ALREADY_SET);
}

/* ---- Before the setup ---- */

static void nothing_runs_before_the_setup(void **state) {
    (void)state;
    FDBDatabase *database = NULL;
    int calls = 0;
    assert_int_equal(fdb_run_network(), ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_stop_network(), ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_add_network_thread_completion_hook(hook, &calls), ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_create_database(":memory:", &database), ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_create_database_from_connection_string("a:b@127.0.0.1:4500", &database),
                     ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_create_database(":memory:", NULL), ERROR_CLIENT_INVALID_OPERATION);
}

static void a_bad_environment_is_2022_until_mended(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "12x"},
        {"FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "-1"},
        {"FDB_NETWORK_OPTION_TRACE_FORMAT", "yaml"},
        {"FDB_NETWORK_OPTION_KNOB", "a=1:b"},
        {"FDB_NETWORK_OPTION_KNOB", "a=\\1"},
        {"FDB_NETWORK_OPTION_DISABLE_LOCAL_CLIENT", "yes"},
        {"FDB_NETWORK_OPTION_EXTERNAL_CLIENT_LIBRARY", "/nowhere/libfdb_c.so"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv(bad[i][0], bad[i][1], 1);
        assert_int_equal(fdb_setup_network(), 2022);
        assert_int_equal(set_text(FDB_NET_OPTION_TRACE_ENABLE, NULL), 2022);
        unsetenv(bad[i][0]);
    }
    setenv("FDB_NETWORK_OPTION_KNOB", "a=1:b=\\:2", 1);
    setenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "1000", 1);
    setenv("FDB_NETWORK_OPTION_DISABLE_LOCAL_CLIENT", "", 1);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_ENABLE, NULL), 0);
    unsetenv("FDB_NETWORK_OPTION_KNOB");
    unsetenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE");
    unsetenv("FDB_NETWORK_OPTION_DISABLE_LOCAL_CLIENT");
}

static void options_are_known_by_number_and_type(void **state) {
    (void)state;
    static const int unknown[] = {-1, 0, 44, 56, 84, 999, 1003};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_int_equal(set_text(unknown[i], NULL), ERROR_INVALID_OPTION);
    static const int without_value[] =
        {37, 38, 48, 49, 55, 60, 61, 64, 67, 68, 69, 70, 71, 72, 80, 81, 1001};
    for (size_t i = 0; i < sizeof without_value / sizeof *without_value; i++) {
        assert_int_equal(set_text(without_value[i], NULL), 0);
        assert_int_equal(set_text(without_value[i], ""), 0);
        assert_int_equal(set_text(without_value[i], "x"), ERROR_INVALID_OPTION_VALUE);
    }
    static const int texts[] = {39, 41, 42, 43, 45, 46, 47, 52, 53, 54, 63, 91};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(set_text(texts[i], "text"), 0);
        assert_int_equal(set_text(texts[i], NULL), ERROR_INVALID_OPTION_VALUE);
    }
    static const int optional[] = {10, 20, 30, 33};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        assert_int_equal(set_text(optional[i], "text"), 0);
        assert_int_equal(set_text(optional[i], NULL), 0);
    }
}

static void option_values_are_checked(void **state) {
    (void)state;
    static const struct {
        int option;
        int64_t least, most;
    } ranges[] = {{31, 0, INT64_MAX}, {32, 0, INT64_MAX}, {50, 0, 100}, {51, 0, 100},
                  {65, 1, 1024},      {82, 0, 100},       {83, 0, 100}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        assert_int_equal(set_int(ranges[i].option, ranges[i].least), 0);
        assert_int_equal(set_int(ranges[i].option, ranges[i].most), 0);
        assert_int_equal(set_int(ranges[i].option, ranges[i].least - 1),
                         ERROR_INVALID_OPTION_VALUE);
        if (ranges[i].most < INT64_MAX)
            assert_int_equal(set_int(ranges[i].option, ranges[i].most + 1),
                             ERROR_INVALID_OPTION_VALUE);
        assert_int_equal(set_text(ranges[i].option, "1234"), ERROR_INVALID_OPTION_VALUE);
        assert_int_equal(set_text(ranges[i].option, NULL), ERROR_INVALID_OPTION_VALUE);
    }
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_FORMAT, "json"), 0);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_FORMAT, "csv"), ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_CLOCK_SOURCE, "realtime"), 0);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_CLOCK_SOURCE, "sun"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_FILE_IDENTIFIER, "a_1"), 0);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_FILE_IDENTIFIER, "a-1"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(set_text(FDB_NET_OPTION_DISTRIBUTED_CLIENT_TRACER, "none"), 0);
    assert_int_equal(set_text(FDB_NET_OPTION_DISTRIBUTED_CLIENT_TRACER, "all"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(set_text(FDB_NET_OPTION_KNOB, "a=b"), 0);
    assert_int_equal(set_text(FDB_NET_OPTION_KNOB, "a"), ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(set_text(FDB_NET_OPTION_EXTERNAL_CLIENT_LIBRARY, "/nowhere/x.so"),
                     ERROR_FILE_NOT_FOUND);
    assert_int_equal(set_text(FDB_NET_OPTION_EXTERNAL_CLIENT_LIBRARY, ""),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(fdb_network_set_option(FDB_NET_OPTION_TRACE_ENABLE, (const uint8_t *)"x", -1),
                     ERROR_INVALID_OPTION_VALUE);
}

/* ---- Setup, run, stop ---- */

static void the_setup_happens_once(void **state) {
    (void)state;
    assert_int_equal(fdb_setup_network(), 0);
    assert_int_equal(fdb_setup_network(), ERROR_NETWORK_ALREADY_SETUP);
    assert_int_equal(set_text(FDB_NET_OPTION_CALLBACKS_ON_EXTERNAL_THREADS, NULL),
                     ERROR_INVALID_OPTION);
    assert_int_equal(set_text(FDB_NET_OPTION_TRACE_LOG_GROUP, "late"), 0);
}

static os_thread network;
static _Atomic int run_error = -1;
static _Atomic bool network_ended;
static int hooks_called, late_hooks_called;
static bool hook_on_network;

static void *run(void *argument) {
    run_error = fdb_run_network();
    network_ended = true;
    return argument;
}

static void first_hook(void *parameter) {
    assert_ptr_equal(parameter, &hooks_called);
    assert_int_equal(hooks_called++, 0);
    hook_on_network = os_thread_is_self(network);
    assert_int_equal(fdb_add_network_thread_completion_hook(hook, &late_hooks_called), 0);
}

static void second_hook(void *parameter) {
    (void)parameter;
    assert_int_equal(hooks_called++, 1);
}

static _Atomic bool task_ran;

static void task(struct loop_task *self) {
    (void)self;
    /* From inside the network thread. */
    if (fdb_add_network_thread_completion_hook(second_hook, NULL))
        abort();
    task_ran = true;
}

static void the_network_runs_until_stopped(void **state) {
    (void)state;
    struct loop_task posted = {task, NULL};
    assert_int_equal(fdb_add_network_thread_completion_hook(first_hook, &hooks_called), 0);
    assert_int_equal(fdb_add_network_thread_completion_hook(NULL, NULL),
                     ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(os_thread_start(&network, "network", run, NULL), 0);
    loop_post(&posted);
    while (!task_ran)
        os_sleep_us(50);
    assert_int_equal(fdb_run_network(), ERROR_NETWORK_CANNOT_BE_RESTARTED);
    assert_false(network_ended);
    assert_int_equal(hooks_called, 0);
    assert_int_equal(fdb_stop_network(), 0);
    os_thread_join(network);
    assert_int_equal(run_error, 0);
    assert_int_equal(hooks_called, 2);
    assert_int_equal(late_hooks_called, 1);
    assert_true(hook_on_network);
}

static void the_network_runs_once_only(void **state) {
    (void)state;
    assert_int_equal(fdb_run_network(), ERROR_NETWORK_CANNOT_BE_RESTARTED);
    assert_int_equal(fdb_setup_network(), ERROR_NETWORK_ALREADY_SETUP);
    assert_int_equal(fdb_stop_network(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_works_without_a_version),
        cmocka_unit_test(versions_are_checked_and_selected_once),
        cmocka_unit_test(nothing_runs_before_the_setup),
        cmocka_unit_test(a_bad_environment_is_2022_until_mended),
        cmocka_unit_test(options_are_known_by_number_and_type),
        cmocka_unit_test(option_values_are_checked),
        cmocka_unit_test(the_setup_happens_once),
        cmocka_unit_test(the_network_runs_until_stopped),
        cmocka_unit_test(the_network_runs_once_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
