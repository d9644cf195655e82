/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points on a database in memory: what they add to the transactions below them, which is
 * futures, ownership and answers to misuse. What transactions mean is the conformance suite's part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/export.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/thread.h"
#include "util/error.h"
#include "util/memory.h"

#undef fdb_create_cluster
#undef fdb_cluster_destroy
#undef fdb_cluster_set_option
#undef fdb_cluster_create_database
#undef fdb_future_get_cluster
#undef fdb_future_get_database
#undef fdb_future_get_version
FDBFuture *fdb_create_cluster(const char *cluster_file_path);
void fdb_cluster_destroy(FDBCluster *cluster);
fdb_error_t fdb_cluster_set_option(FDBCluster *cluster, FDBClusterOption option,
                                   uint8_t const *value, int value_length);
FDBFuture *fdb_cluster_create_database(FDBCluster *cluster, uint8_t const *name, int length);
fdb_error_t fdb_future_get_cluster(FDBFuture *future, FDBCluster **out_cluster);
fdb_error_t fdb_future_get_database(FDBFuture *future, FDBDatabase **out_database);
fdb_error_t fdb_future_get_version(FDBFuture *future, int64_t *out_version);

static os_thread network;
static FDBDatabase *database;

static void *run(void *argument) {
    (void)!fdb_run_network();
    return argument;
}

static int start(void **state) {
    (void)state;
    if (fdb_select_api_version_impl(740, 740) || fdb_setup_network())
        return -1;
    if (os_thread_start(&network, "network", run, NULL))
        return -1;
    return fdb_create_database(":memory:", &database);
}

static int stop(void **state) {
    (void)state;
    fdb_database_destroy(database);
    (void)!fdb_stop_network();
    os_thread_join(network);
    return 0;
}

#define KEY(text) (const uint8_t *)(text), (int)sizeof(text) - 1

static FDBTransaction *begin(void) {
    FDBTransaction *tr = NULL;
    assert_int_equal(fdb_database_create_transaction(database, &tr), 0);
    return tr;
}

/* Blocks, destroys the future and returns its error. */
static fdb_error_t finish(FDBFuture *future) {
    assert_non_null(future);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

static void write_key(const char *key, const char *value) {
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, (const uint8_t *)key, (int)strlen(key), (const uint8_t *)value,
                        (int)strlen(value));
    assert_int_equal(finish(fdb_transaction_commit(tr)), 0);
    fdb_transaction_destroy(tr);
}

/* ---- Futures over transactions ---- */

static void a_result_outlives_its_transaction(void **state) {
    (void)state;
    write_key("outlive", "value");
    FDBTransaction *tr = begin();
    FDBFuture *value = fdb_transaction_get(tr, KEY("outlive"), 0);
    FDBFuture *key = fdb_transaction_get_key(tr, KEY("outlive"), 0, 1, 0);
    FDBFuture *rows = fdb_transaction_get_range(
        tr, (const uint8_t *)"outlive", 7, 0, 1, (const uint8_t *)"outlivf", 7, 0, 1, 0, 0,
        FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    FDBFuture *version = fdb_transaction_get_read_version(tr);
    fdb_transaction_destroy(tr);

    fdb_bool_t present, more;
    const uint8_t *bytes;
    int length, count;
    const FDBKeyValue *array;
    int64_t number;
    assert_int_equal(fdb_future_get_value(value, &present, &bytes, &length), 0);
    assert_int_equal(present, 1);
    assert_int_equal(length, 5);
    assert_memory_equal(bytes, "value", 5);
    assert_int_equal(fdb_future_get_key(key, &bytes, &length), 0);
    assert_memory_equal(bytes, "outlive", 7);
    assert_int_equal(fdb_future_get_keyvalue_array(rows, &array, &count, &more), 0);
    assert_int_equal(count, 1);
    assert_int_equal(more, 0);
    assert_memory_equal(array[0].value, "value", 5);
    assert_int_equal(fdb_future_get_int64(version, &number), 0);
    assert_int_equal(fdb_future_get_version(version, &number), 0);
    assert_true(number > 0);
    fdb_future_destroy(value);
    fdb_future_destroy(key);
    fdb_future_destroy(rows);
    fdb_future_destroy(version);
}

static void a_commit_outlives_its_transaction(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        FDBTransaction *tr = begin();
        fdb_transaction_set(tr, KEY("late"), KEY("x"));
        FDBFuture *commit = fdb_transaction_commit(tr);
        fdb_transaction_destroy(tr);
        fdb_error_t error = finish(commit);
        assert_true(error == 0 || error == ERROR_TRANSACTION_CANCELLED ||
                    error == ERROR_OPERATION_CANCELLED);
    }
}

struct called {
    _Atomic int count, error, on_network;
};

static void note_call(FDBFuture *future, void *parameter) {
    struct called *called = parameter;
    called->error = fdb_future_get_error(future);
    called->on_network = loop_is_self();
    fdb_future_destroy(future);
    called->count++;
}

static void commits_by_callback(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct called called = {.error = -1};
        FDBTransaction *tr = begin();
        fdb_transaction_set(tr, KEY("callback"), KEY("x"));
        FDBFuture *commit = fdb_transaction_commit(tr);
        assert_int_equal(fdb_future_set_callback(commit, note_call, &called), 0);
        while (!called.count)
            os_sleep_us(20);
        assert_int_equal(called.error, 0);
        fdb_transaction_destroy(tr);
    }
}

static void commits_by_polling(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, KEY("poll"), KEY("x"));
    FDBFuture *commit = fdb_transaction_commit(tr);
    while (!fdb_future_is_ready(commit))
        os_sleep_us(20);
    assert_int_equal(finish(commit), 0);
    fdb_transaction_destroy(tr);
}

static void a_versionstamp_comes_with_the_commit(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, KEY("stamp"), KEY("x"));
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    assert_int_equal(fdb_future_is_ready(stamp), 0);
    assert_int_equal(finish(fdb_transaction_commit(tr)), 0);
    const uint8_t *bytes;
    int length;
    int64_t version, from_stamp = 0;
    assert_int_equal(fdb_future_block_until_ready(stamp), 0);
    assert_int_equal(fdb_future_get_key(stamp, &bytes, &length), 0);
    assert_int_equal(length, 10);
    assert_int_equal(fdb_transaction_get_committed_version(tr, &version), 0);
    for (int i = 0; i < 8; i++)
        from_stamp = from_stamp << 8 | bytes[i];
    assert_int_equal(from_stamp, version);
    fdb_transaction_destroy(tr);
    fdb_future_destroy(stamp);
}

static void a_watch_is_cancelled_or_fires(void **state) {
    (void)state;
    write_key("watched", "1");
    FDBTransaction *tr = begin();
    FDBFuture *kept = fdb_transaction_watch(tr, KEY("watched"));
    FDBFuture *dropped = fdb_transaction_watch(tr, KEY("watched"));
    assert_int_equal(finish(fdb_transaction_commit(tr)), 0);
    fdb_transaction_destroy(tr);
    struct called called = {.error = -1};
    assert_int_equal(fdb_future_set_callback(dropped, note_call, &called), 0);
    fdb_future_cancel(dropped);
    while (!called.count)
        os_sleep_us(20);
    assert_int_equal(called.error, ERROR_OPERATION_CANCELLED);
    assert_int_equal(called.on_network, 1);
    assert_int_equal(fdb_future_is_ready(kept), 0);
    write_key("watched", "2");
    assert_int_equal(finish(kept), 0);
}

static void split_points_are_limited(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *future = fdb_transaction_get_range_split_points_with_limit(
        tr, KEY("a"), KEY("b"), 1000, 0);
    const FDBKey *keys;
    int count;
    assert_int_equal(fdb_future_get_key_array(future, &keys, &count), 0);
    assert_int_equal(count, 2);
    assert_memory_equal(keys[0].key, "a", 1);
    assert_memory_equal(keys[1].key, "b", 1);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void numbers_that_are_always_zero(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    double seconds = 1;
    int64_t cost = 1;
    FDBFuture *duration = fdb_transaction_get_tag_throttled_duration(tr);
    FDBFuture *total = fdb_transaction_get_total_cost(tr);
    assert_int_equal(fdb_future_get_double(duration, &seconds), 0);
    assert_int_equal(fdb_future_get_int64(total, &cost), 0);
    assert_true(seconds <= 0 && seconds >= 0);
    assert_int_equal(cost, 0);
    fdb_future_destroy(duration);
    fdb_future_destroy(total);
    fdb_transaction_destroy(tr);
}

/* ---- Misuse ---- */

static void misuse_is_an_error(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_int_equal(fdb_database_create_transaction(NULL, &tr), 2000);
    assert_int_equal(fdb_database_create_transaction(database, NULL), 2000);
    assert_int_equal(finish(fdb_transaction_get(NULL, KEY("a"), 0)), 2000);
    assert_int_equal(finish(fdb_transaction_get(tr, NULL, 3, 0)), 2000);
    assert_int_equal(finish(fdb_transaction_get(tr, (const uint8_t *)"a", -1, 0)), 2000);
    assert_int_equal(finish(fdb_transaction_commit(NULL)), 2000);
    assert_int_equal(finish(fdb_transaction_watch(tr, NULL, 1)), 2000);
    assert_int_equal(finish(fdb_transaction_on_error(NULL, 1020)), 2000);
    assert_int_equal(fdb_transaction_get_committed_version(tr, NULL), 2000);
    assert_int_equal(fdb_transaction_set_option(NULL, FDB_TR_OPTION_TIMEOUT, NULL, 0), 2000);
    assert_int_equal(
        fdb_transaction_add_conflict_range(tr, NULL, 1, KEY("b"), FDB_CONFLICT_RANGE_TYPE_READ),
        2000);
    fdb_transaction_set(NULL, KEY("a"), KEY("b"));
    fdb_transaction_destroy(NULL);
    fdb_transaction_reset(NULL);
    fdb_transaction_cancel(NULL);
    fdb_database_destroy(NULL);
    fdb_transaction_destroy(tr);
}

static void a_bad_write_fails_the_commit(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, KEY("fine"), KEY("x"));
    fdb_transaction_set(tr, (const uint8_t *)"bad", -3, KEY("x"));
    assert_int_equal(finish(fdb_transaction_commit(tr)), ERROR_CLIENT_INVALID_OPERATION);
    fdb_transaction_reset(tr);
    assert_int_equal(finish(fdb_transaction_commit(tr)), 0);
    fdb_transaction_destroy(tr);
}

static void without_memory_a_read_still_answers(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_int_equal(finish(fdb_transaction_get(tr, KEY("a"), 0)), 0);
    memory_fail_after(0);
    FDBFuture *read = fdb_transaction_get(tr, KEY("a"), 0);
    FDBFuture *commit = fdb_transaction_commit(tr);
    memory_fail_after(-1);
    assert_int_equal(fdb_future_get_error(read), ERROR_LARGE_ALLOC_FAILED);
    assert_int_equal(fdb_future_get_error(commit), ERROR_LARGE_ALLOC_FAILED);
    fdb_future_destroy(read);
    fdb_future_destroy(commit);
    fdb_transaction_destroy(tr);
}

static void a_point_read_is_one_allocation(void **state) {
    (void)state;
    char value[200];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    write_key("counted", value);
    FDBTransaction *tr = begin();
    assert_int_equal(finish(fdb_transaction_get(tr, KEY("counted"), 1)), 0);
    memory_fail_after(1);
    FDBFuture *read = fdb_transaction_get(tr, KEY("counted"), 1);
    memory_fail_after(-1);
    fdb_bool_t present = 0;
    const uint8_t *bytes;
    int length = 0;
    assert_int_equal(fdb_future_get_value(read, &present, &bytes, &length), 0);
    assert_int_equal(length, 199);
    fdb_future_destroy(read);
    fdb_transaction_destroy(tr);
}

/* ---- What is not supported ---- */

static void tenants_say_that_there_are_none(void **state) {
    (void)state;
    FDBTenant *tenant = NULL;
    FDBTransaction *tr = NULL;
    assert_int_equal(fdb_database_open_tenant(database, KEY("t"), &tenant), 0);
    assert_int_equal(fdb_tenant_create_transaction(tenant, &tr), 0);
    assert_int_equal(finish(fdb_tenant_get_id(tenant)), ERROR_TENANTS_DISABLED);
    assert_int_equal(finish(fdb_tenant_blobbify_range(tenant, KEY("a"), KEY("b"))), 2108);
    fdb_tenant_destroy(tenant);
    assert_int_equal(finish(fdb_transaction_get(tr, KEY("a"), 0)), ERROR_TENANTS_DISABLED);
    fdb_transaction_set(tr, KEY("a"), KEY("b"));
    assert_int_equal(finish(fdb_transaction_commit(tr)), ERROR_TENANTS_DISABLED);
    assert_int_equal(finish(fdb_transaction_on_error(tr, 2136)), ERROR_TENANTS_DISABLED);
    fdb_transaction_destroy(tr);
    fdb_tenant_destroy(NULL);
}

static void the_rest_is_2108(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBReadBlobGranuleContext context;
    memset(&context, 0, sizeof context);
    assert_int_equal(finish(fdb_database_reboot_worker(database, KEY("a"), 0, 0)), 2108);
    assert_int_equal(finish(fdb_database_force_recovery_with_data_loss(database, KEY("a"))), 2108);
    assert_int_equal(finish(fdb_database_create_snapshot(database, KEY("a"), KEY("b"))), 2108);
    assert_int_equal(finish(fdb_database_blobbify_range(database, KEY("a"), KEY("b"))), 2108);
    FDBFuture *mapped = fdb_transaction_get_mapped_range(
        tr, KEY("a"), 0, 1, KEY("b"), 0, 1, KEY("m"), 0, 0, FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    const FDBMappedKeyValue *rows;
    int count;
    fdb_bool_t more;
    assert_int_equal(fdb_future_get_mappedkeyvalue_array(mapped, &rows, &count, &more), 2108);
    fdb_future_destroy(mapped);
    FDBResult *result =
        fdb_transaction_read_blob_granules(tr, KEY("a"), KEY("b"), 0, -2, context);
    const FDBKeyValue *array;
    assert_int_equal(fdb_result_get_keyvalue_array(result, &array, &count, &more), 2108);
    fdb_result_destroy(result);
    fdb_transaction_destroy(tr);
}

static void questions_about_the_database(void **state) {
    (void)state;
    uint64_t protocol = 0;
    FDBFuture *future = fdb_database_get_server_protocol(database, 0);
    assert_int_equal(fdb_future_get_uint64(future, &protocol), 0);
    assert_true(protocol >> 48 == 0x0FDB);
    fdb_future_destroy(future);
    future = fdb_database_get_server_protocol(database, protocol); /* it never changes */
    assert_int_equal(fdb_future_is_ready(future), 0);
    fdb_future_cancel(future);
    assert_int_equal(finish(future), ERROR_OPERATION_CANCELLED);
    const uint8_t *json;
    int length;
    future = fdb_database_get_client_status(database);
    assert_int_equal(fdb_future_get_key(future, &json, &length), 0);
    assert_int_equal(json[0], '{');
    assert_int_equal(json[length - 1], '}');
    fdb_future_destroy(future);
    assert_true(fdb_database_get_main_thread_busyness(database) < 1);
}

/* ---- Opening ---- */

static void creating_succeeds_and_operations_fail(void **state) {
    (void)state;
    static const struct {
        const char *text;
        fdb_error_t error;
    } cases[] = {{"nonsense", ERROR_CONNECTION_STRING_INVALID},
                 {"d:i@127.0.0.1:4500", ERROR_CLUSTER_LIBRARY_MISSING}};
    for (int i = 0; i < 2; i++) {
        FDBDatabase *other = NULL;
        FDBTransaction *tr = NULL;
        assert_int_equal(fdb_create_database_from_connection_string(cases[i].text, &other), 0);
        int64_t limit = 5;
        assert_int_equal(fdb_database_set_option(other, FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT,
                                                 (const uint8_t *)&limit, 8), 0);
        assert_int_equal(fdb_database_create_transaction(other, &tr), 0);
        assert_int_equal(finish(fdb_transaction_get_read_version(tr)), cases[i].error);
        fdb_transaction_destroy(tr);
        fdb_database_destroy(other);
    }
    FDBDatabase *missing = NULL;
    FDBTransaction *tr = NULL;
    assert_int_equal(fdb_create_database("/nowhere/fdb.cluster", &missing), 0);
    assert_int_equal(fdb_database_create_transaction(missing, &tr), 0);
    fdb_database_destroy(missing); /* the transaction keeps it */
    assert_int_equal(finish(fdb_transaction_get(tr, KEY("a"), 0)), ERROR_NO_CLUSTER_FILE_FOUND);
    fdb_transaction_destroy(tr);
}

static void clusters_lead_to_databases(void **state) {
    (void)state;
    FDBFuture *future = fdb_create_cluster(":memory:");
    FDBCluster *cluster = NULL;
    assert_int_equal(fdb_future_get_cluster(future, &cluster), 0);
    fdb_future_destroy(future);
    fdb_future_destroy(fdb_create_cluster(NULL)); /* never asked for: nothing leaks */
    assert_int_equal(fdb_cluster_set_option(cluster, FDB_CLUSTER_OPTION_DUMMY_DO_NOT_USE, NULL, 0),
                     0);
    assert_int_equal(finish(fdb_cluster_create_database(cluster, KEY("other"))), 2013);
    future = fdb_cluster_create_database(cluster, KEY("DB"));
    FDBDatabase *first = NULL, *second = NULL;
    FDBTransaction *tr = NULL;
    assert_int_equal(fdb_future_get_database(future, &first), 0);
    assert_int_equal(fdb_future_get_database(future, &second), 0);
    fdb_future_destroy(future);
    fdb_cluster_destroy(cluster);
    fdb_database_destroy(first);
    assert_int_equal(fdb_database_create_transaction(second, &tr), 0);
    fdb_database_destroy(second);
    assert_int_equal(finish(fdb_transaction_get(tr, KEY("a"), 0)), 0);
    fdb_transaction_destroy(tr);
}

int main(void) {
    setenv("KEEL_FDB_LIBRARY", "/nowhere/libfdb_c.so", 1); /* whatever is installed */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_outlives_its_transaction),
        cmocka_unit_test(a_commit_outlives_its_transaction),
        cmocka_unit_test(commits_by_callback),
        cmocka_unit_test(commits_by_polling),
        cmocka_unit_test(a_versionstamp_comes_with_the_commit),
        cmocka_unit_test(a_watch_is_cancelled_or_fires),
        cmocka_unit_test(split_points_are_limited),
        cmocka_unit_test(numbers_that_are_always_zero),
        cmocka_unit_test(misuse_is_an_error),
        cmocka_unit_test(a_bad_write_fails_the_commit),
        cmocka_unit_test(without_memory_a_read_still_answers),
        cmocka_unit_test(a_point_read_is_one_allocation),
        cmocka_unit_test(tenants_say_that_there_are_none),
        cmocka_unit_test(the_rest_is_2108),
        cmocka_unit_test(questions_about_the_database),
        cmocka_unit_test(creating_succeeds_and_operations_fail),
        cmocka_unit_test(clusters_lead_to_databases),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
