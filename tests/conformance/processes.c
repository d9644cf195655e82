/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens once in a process: choosing the API version, setting up, running and stopping the
 * network, options from the environment. Each test runs this program again as a child.
 */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Children ---- */

static int child_selection(void) {
    int newest = fdb_get_max_api_version();
    int version = run_version();
    assert_true(newest >= version);
    assert_non_null(fdb_get_error(1020));
    assert_int_equal(fdb_select_api_version_impl(version, version - 10), ERROR_API_VERSION_INVALID);
    assert_int_equal(fdb_select_api_version_impl(newest + 1, newest + 1),
                     ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(version, newest + 1),
                     ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(12, version), ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(0, version), ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(version, version), 0);
    assert_int_equal(fdb_select_api_version_impl(version, version), ERROR_API_VERSION_ALREADY_SET);
    assert_int_equal(fdb_select_api_version_impl(510, version), ERROR_API_VERSION_ALREADY_SET);
    return 0;
}

static int child_capped_selection(void) {
    assert_int_equal(fdb_select_api_version_capped(run_version()), 0);
    return 0;
}

static atomic_int hook_calls;
static int hook_order[4];
static pthread_t hook_thread;

static void note_hook(void *number) {
    hook_order[hook_calls++] = *(int *)number;
    hook_thread = pthread_self();
}

static int child_before_setup(void) {
    assert_int_equal(fdb_select_api_version_impl(run_version(), run_version()), 0);
    FDBDatabase *database = NULL;
    assert_int_equal(fdb_run_network(), ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_stop_network(), ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_add_network_thread_completion_hook(note_hook, NULL),
                     ERROR_NETWORK_NOT_SETUP);
    assert_int_equal(fdb_create_database(NULL, &database), ERROR_NETWORK_NOT_SETUP);
    assert_null(database);
    assert_int_equal(fdb_setup_network(), 0);
    assert_int_equal(fdb_setup_network(), ERROR_NETWORK_ALREADY_SETUP);
    return 0;
}

static void add_hook_in_callback(FDBFuture *future, void *number) {
    (void)future;
    assert_int_equal(fdb_add_network_thread_completion_hook(note_hook, number), 0);
}

static void write_something(void) {
    store(key("a"), text("1"));
    assert_value(load(key("a")), text("1"));
}

static int child_hooks(void) {
    static int numbers[] = {0, 1, 2};
    run_begin_at(740, 740);
    assert_int_equal(fdb_add_network_thread_completion_hook(note_hook, &numbers[0]), 0);
    assert_int_equal(fdb_add_network_thread_completion_hook(note_hook, &numbers[1]), 0);
    write_something();
    FDBTransaction *tr = begin();
    FDBFuture *future = fdb_transaction_watch(tr, key("w").data, key("w").size);
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_int_equal(fdb_future_set_callback(future, add_hook_in_callback, &numbers[2]), 0);
    store(key("w"), text("1"));
    assert_true(becomes_ready(future));
    sleep_milliseconds(50);
    fdb_future_destroy(future);
    assert_int_equal(hook_calls, 0);
    run_end();
    assert_int_equal(hook_calls, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hook_order[i], i);
    }
    assert_false(pthread_equal(hook_thread, pthread_self()));
    assert_int_equal(fdb_run_network(), ERROR_NETWORK_CANNOT_BE_RESTARTED);
    assert_int_equal(fdb_setup_network(), ERROR_NETWORK_ALREADY_SETUP);
    return 0;
}

/* Ends without stopping anything; what it leaves is static, so that no leak checker minds. */
static int child_exit_while_running(void) {
    static FDBTransaction *volatile tr; /* volatile: a checker of leaks sees them */
    static FDBFuture *volatile watch;
    run_begin_at(740, 740);
    write_something();
    tr = begin();
    watch = fdb_transaction_watch(tr, key("w").data, key("w").size);
    assert_non_null(watch);
    remove_key(key("a"));
    run_clean_up();
    return 0;
}

static int child_close_and_stop(void) {
    run_begin_at(740, 740);
    write_something();
    remove_key(key("a"));
    fdb_database_destroy(test_database);
    run_stop_network();
    run_clean_up();
    return 0;
}

static fdb_error_t network_option(FDBNetworkOption option, const char *value) {
    return fdb_network_set_option(option, (const uint8_t *)value, value ? (int)strlen(value) : 0);
}

static fdb_error_t network_number(FDBNetworkOption option, int64_t value) {
    uint8_t encoded[8];
    for (int i = 0; i < 8; i++) {
        encoded[i] = (uint8_t)((uint64_t)value >> (8 * i));
    }
    return fdb_network_set_option(option, encoded, 8);
}

static int child_network_options(void) {
    assert_int_equal(fdb_select_api_version_impl(run_version(), run_version()), 0);
    assert_int_equal(network_option((FDBNetworkOption)9999, NULL), ERROR_INVALID_OPTION);
    assert_int_equal(network_option((FDBNetworkOption)44, NULL), ERROR_INVALID_OPTION);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_FORMAT, "json"), 0);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_FORMAT, "xml"), 0);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_FORMAT, "yaml"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_FORMAT, NULL), ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_CLOCK_SOURCE, "realtime"), 0);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_CLOCK_SOURCE, "sundial"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_FILE_IDENTIFIER, "name_1"), 0);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_FILE_IDENTIFIER, "no/slash"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_number(FDB_NET_OPTION_TRACE_ROLL_SIZE, 1000000), 0);
    assert_int_equal(network_number(FDB_NET_OPTION_TRACE_ROLL_SIZE, -1),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_option(FDB_NET_OPTION_TRACE_MAX_LOGS_SIZE, "1000"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_option(FDB_NET_OPTION_KNOB, "without equals"),
                     ERROR_INVALID_OPTION_VALUE);
    if (fdb_get_max_api_version() >= 700) {
        assert_int_equal(network_option(FDB_NET_OPTION_DISTRIBUTED_CLIENT_TRACER, "loud"),
                         ERROR_INVALID_OPTION_VALUE);
        assert_int_equal(network_option(FDB_NET_OPTION_DISTRIBUTED_CLIENT_TRACER, "none"), 0);
    }
    assert_int_equal(network_option(FDB_NET_OPTION_TLS_PLUGIN, NULL), ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_option(FDB_NET_OPTION_DISABLE_CLIENT_STATISTICS_LOGGING, NULL), 0);
    assert_int_equal(network_option(FDB_NET_OPTION_DISABLE_CLIENT_STATISTICS_LOGGING, "x"),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_number(FDB_NET_OPTION_CLIENT_BUGGIFY_SECTION_FIRED_PROBABILITY, 101),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_number(FDB_NET_OPTION_CLIENT_THREADS_PER_VERSION, 0),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(network_number(FDB_NET_OPTION_CLIENT_THREADS_PER_VERSION, 1), 0);
    return 0;
}

/* Deprecated and effect-free ones are accepted, and the database works afterwards. */
static int child_harmless_network_options(void) {
    static const struct {
        FDBNetworkOption option;
        const char *value;
    } options[] = {
        {FDB_NET_OPTION_LOCAL_ADDRESS, "127.0.0.1:0"},
        {FDB_NET_OPTION_CLUSTER_FILE, "unused"},
        {FDB_NET_OPTION_TRACE_LOG_GROUP, "group"},
        {FDB_NET_OPTION_TRACE_PARTIAL_FILE_SUFFIX, ".tmp"},
        {FDB_NET_OPTION_KNOB, "no_such_knob=1"},
        {FDB_NET_OPTION_TLS_PLUGIN, "plugin"},
        {FDB_NET_OPTION_TLS_PASSWORD, "secret"},
        {FDB_NET_OPTION_BUGGIFY_DISABLE, NULL},
        {FDB_NET_OPTION_CLIENT_BUGGIFY_DISABLE, NULL},
        {FDB_NET_OPTION_DISABLE_MULTI_VERSION_CLIENT_API, NULL},
        /* since 7 */
        {FDB_NET_OPTION_TRACE_SHARE_AMONG_CLIENT_THREADS, NULL},
        {FDB_NET_OPTION_IGNORE_EXTERNAL_CLIENT_FAILURES, NULL},
        {FDB_NET_OPTION_RETAIN_CLIENT_LIBRARY_COPIES, NULL},
        {FDB_NET_OPTION_CLIENT_TMP_DIR, "/tmp"},
    };
    run_prepare();
    assert_int_equal(fdb_select_api_version_impl(run_version(), run_version()), 0);
    size_t count = sizeof options / sizeof options[0] - (run_is_since(700) ? 0 : 4);
    for (size_t i = 0; i < count; i++) {
        fdb_error_t error = network_option(options[i].option, options[i].value);
        if (error) {
            fail_msg("network option %d: %d", options[i].option, error);
        }
    }
    assert_int_equal(fdb_setup_network(), 0);
    run_start_network();
    assert_int_equal(fdb_create_database(run_database_path(), &test_database), 0);
    write_something();
    run_end();
    return 0;
}

static int child_good_environment(void) {
    run_begin_at(740, 740);
    write_something();
    run_end();
    return 0;
}

static int child_bad_environment(void) {
    assert_int_equal(fdb_select_api_version_impl(run_version(), run_version()), 0);
    assert_int_equal(fdb_setup_network(), ERROR_ENVIRONMENT_OPTION_FAILED);
    return 0;
}

/* "api-<version>": the daily work at that version. */
static int child_at_version(int version) {
    run_begin_at(version, 740);
    write_something();
    FDBTransaction *tr = begin();
    put(tr, key("b"), text("2"));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("c"), text("3"));
    assert_rows(read_range(tr, all()), "a=1 b=2 c=3");
    assert_bytes(resolve(tr, key("b"), false, 0), key("a"));
    commit(tr);
    assert_fails(get(tr, key("a")), ERROR_USED_DURING_COMMIT);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "a=1 b=2 c=3");
    erase_range(tr, key(""), key("~"));
    commit(tr);
    fdb_transaction_destroy(tr);
    run_end();
    return 0;
}

int child_main(const char *name) {
    static const struct {
        const char *name;
        int (*run)(void);
    } children[] = {
        {"selection", child_selection},
        {"capped-selection", child_capped_selection},
        {"before-setup", child_before_setup},
        {"hooks", child_hooks},
        {"exit-while-running", child_exit_while_running},
        {"close-and-stop", child_close_and_stop},
        {"network-options", child_network_options},
        {"harmless-network-options", child_harmless_network_options},
        {"good-environment", child_good_environment},
        {"bad-environment", child_bad_environment},
    };
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        if (strcmp(name, children[i].name) == 0) {
            return children[i].run();
        }
    }
    if (strncmp(name, "api-", 4) == 0) {
        return child_at_version(atoi(name + 4));
    }
    return -1;
}

/* ---- Tests ---- */

static void api_version_is_checked(void **state) {
    (void)state;
    run_child("selection", NULL);
    run_child("capped-selection", NULL);
}

static void nothing_works_before_setup(void **state) {
    (void)state;
    run_child("before-setup", NULL);
}

static void hooks_run_when_the_network_stops(void **state) {
    (void)state;
    run_child("hooks", NULL);
}

static void a_process_may_end_while_the_network_runs(void **state) {
    (void)state;
    run_child("exit-while-running", NULL);
}

static void a_process_may_close_and_stop(void **state) {
    (void)state;
    run_child("close-and-stop", NULL);
}

static void network_options_are_checked(void **state) {
    (void)state;
    run_child("network-options", NULL);
    run_child("harmless-network-options", NULL);
}

static void options_come_from_the_environment(void **state) {
    (void)state;
    run_child("good-environment", "FDB_NETWORK_OPTION_TRACE_LOG_GROUP=alpha");
    run_child("good-environment", "FDB_NETWORK_OPTION_TRACE_LOG_GROUP=alpha:beta");
    if (run_is_since(700)) { /* 6.3 wants the number's eight bytes */
        run_child("good-environment", "FDB_NETWORK_OPTION_TRACE_ROLL_SIZE=1000000");
    }
    run_child("good-environment", "FDB_NETWORK_OPTION_KNOB=no_such_knob=1:no_other_knob=2");
    run_child("good-environment", "FDB_NETWORK_OPTION_NO_SUCH_OPTION=whatever");
}

static void bad_options_in_the_environment_are_reported(void **state) {
    (void)state;
    run_child("bad-environment", "FDB_NETWORK_OPTION_TRACE_FORMAT=yaml");
    run_child("bad-environment", "FDB_NETWORK_OPTION_TRACE_FORMAT=json:yaml");
    run_child("bad-environment", "FDB_NETWORK_OPTION_TRACE_ROLL_SIZE=many");
    run_child("bad-environment", "FDB_NETWORK_OPTION_TRACE_ROLL_SIZE=12x");
    run_child("bad-environment", "FDB_NETWORK_OPTION_TRACE_ROLL_SIZE=-5");
    run_child("bad-environment", "FDB_NETWORK_OPTION_KNOB=without equals");
    run_child("bad-environment", "FDB_NETWORK_OPTION_TRACE_LOG_GROUP=ends in a backslash\\");
}

static void every_api_version_works(void **state) {
    (void)state;
    static const int versions[] = {510, 520, 600, 610, 620, 630, 700, 710, 720, 730, 740};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "api-%d", versions[i]);
        run_child(name, NULL);
    }
}

static void clusters_before_610(void **state) {
    (void)state;
    run_child("legacy-cluster", NULL);
}

static void versionstamps_before_520(void **state) {
    (void)state;
    run_child("legacy-versionstamps", NULL);
}

static void errors_before_610(void **state) {
    (void)state;
    run_child("legacy-on-error", NULL);
}

static void special_keys_before_630(void **state) {
    (void)state;
    run_child("legacy-special-keys", NULL);
}

int group_processes(void) {
    const struct CMUnitTest tests[] = {
        TEST(api_version_is_checked),
        TEST(nothing_works_before_setup),
        TEST(hooks_run_when_the_network_stops),
        TEST(a_process_may_end_while_the_network_runs),
        TEST(a_process_may_close_and_stop),
        TEST(network_options_are_checked),
        TEST(options_come_from_the_environment),
        TEST(bad_options_in_the_environment_are_reported),
        TEST(every_api_version_works),
        TEST(clusters_before_610),
        TEST(versionstamps_before_520),
        TEST(errors_before_610),
        TEST(special_keys_before_630),
    };
    return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
