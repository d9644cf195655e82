/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an embedded database does not have: every such function can be called and answers with an
 * error. Skipped on a real cluster, where some of these do something, and not always something nice.
 */
#include "support.h"

#define RANGE key("a").data, key("a").size, key("b").data, key("b").size

static void assert_refused_at(FDBFuture *future, const char *what) {
    assert_non_null(future);
    if (!becomes_ready(future)) {
        fail_msg("%s never answers", what);
    }
    if (!fdb_future_get_error(future)) {
        fail_msg("%s succeeds", what);
    }
    fdb_future_destroy(future);
}
#define assert_refused(call) assert_refused_at(call, #call)

static void cluster_administration(void **state) {
    (void)state;
    if (!run_is_embedded()) {
        SKIP("a cluster may have it");
    }
    FDBDatabase *db = test_database;
    assert_refused(fdb_database_reboot_worker(db, (const uint8_t *)"127.0.0.1:1", 11, 0, 0));
    assert_refused(fdb_database_force_recovery_with_data_loss(db, (const uint8_t *)"dc", 2));
    assert_refused(
        fdb_database_create_snapshot(db, (const uint8_t *)"uid", 3, (const uint8_t *)"cmd", 3));
}

static void blob_granules_of_a_database(void **state) {
    (void)state;
    if (!run_is_embedded()) {
        SKIP("a cluster may have it");
    }
    FDBDatabase *db = test_database;
    assert_refused(fdb_database_purge_blob_granules(db, RANGE, 1, 0));
    assert_refused(fdb_database_wait_purge_granules_complete(db, key("a").data, key("a").size));
    assert_refused(fdb_database_blobbify_range(db, RANGE));
    assert_refused(fdb_database_blobbify_range_blocking(db, RANGE));
    assert_refused(fdb_database_unblobbify_range(db, RANGE));
    assert_refused(fdb_database_list_blobbified_ranges(db, RANGE, 10));
    assert_refused(fdb_database_verify_blob_range(db, RANGE, -2));
    assert_refused(fdb_database_flush_blob_range(db, RANGE, 0, -2));
}

static int64_t start_load(const char *name, int length, int64_t offset, int64_t size, int64_t whole,
                          void *context) {
    (void)name, (void)length, (void)offset, (void)size, (void)whole, (void)context;
    return 0;
}

static uint8_t *get_load(int64_t id, void *context) {
    (void)id, (void)context;
    return NULL;
}

static void free_load(int64_t id, void *context) {
    (void)id, (void)context;
}

static void blob_granules_of_a_transaction(void **state) {
    (void)state;
    if (!run_is_embedded()) {
        SKIP("a cluster may have it");
    }
    FDBTransaction *tr = begin();
    int64_t version = 0;
    assert_refused(fdb_transaction_get_blob_granule_ranges(tr, RANGE, 10));
    assert_refused(fdb_transaction_summarize_blob_granules(tr, RANGE, -2, 10));
    assert_refused(fdb_transaction_read_blob_granules_description(tr, RANGE, 0, -2, &version));
    FDBReadBlobGranuleContext context = {NULL, start_load, get_load, free_load, 0, 1};
    FDBResult *result = fdb_transaction_read_blob_granules(tr, RANGE, 0, -2, context);
    assert_non_null(result);
    const FDBKeyValue *rows = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    assert_int_not_equal(fdb_result_get_keyvalue_array(result, &rows, &count, &more), 0);
    fdb_result_destroy(result);
    assert_ready(get(tr, key("a")));
    fdb_transaction_destroy(tr);
}

static void blob_granule_files(void **state) {
    (void)state;
    if (!run_is_embedded()) {
        SKIP("a cluster may have it");
    }
    FDBBGTenantPrefix prefix;
    FDBBGEncryptionCtx encryption;
    memset(&prefix, 0, sizeof prefix);
    memset(&encryption, 0, sizeof encryption);
    const uint8_t *file = (const uint8_t *)"not a granule file";
    FDBResult *result = fdb_readbg_parse_snapshot_file(file, 18, &prefix, &encryption);
    assert_non_null(result);
    const FDBKeyValue *rows = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    assert_int_not_equal(fdb_result_get_keyvalue_array(result, &rows, &count, &more), 0);
    fdb_result_destroy(result);
    result = fdb_readbg_parse_delta_file(file, 18, &prefix, &encryption);
    assert_non_null(result);
    const FDBBGMutation *mutations = NULL;
    assert_int_not_equal(fdb_result_get_bg_mutations_array(result, &mutations, &count), 0);
    fdb_result_destroy(result);
}

static void mapped_ranges(void **state) {
    (void)state;
    if (!run_is_embedded()) {
        SKIP("a cluster may have it");
    }
    FDBTransaction *tr = begin();
    struct bytes first = key("a");
    struct bytes end = key("b");
    FDBFuture *future = fdb_transaction_get_mapped_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(first.data, first.size),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end.data, end.size), (const uint8_t *)"\x02x\x00", 3, 10,
        0, FDB_STREAMING_MODE_WANT_ALL, 0, 0, 0);
    assert_true(becomes_ready(future));
    const FDBMappedKeyValue *rows = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    assert_int_not_equal(fdb_future_get_mappedkeyvalue_array(future, &rows, &count, &more), 0);
    fdb_future_destroy(future);
    assert_ready(get(tr, key("a")));
    fdb_transaction_destroy(tr);
}

/* Opening may be refused, or everything done with the tenant. */
static void tenants(void **state) {
    (void)state;
    if (!run_is_embedded()) {
        SKIP("a cluster may have it");
    }
    FDBTenant *tenant = NULL;
    if (fdb_database_open_tenant(test_database, (const uint8_t *)"tenant", 6, &tenant)) {
        assert_null(tenant);
        return;
    }
    assert_non_null(tenant);
    assert_refused(fdb_tenant_get_id(tenant));
    assert_refused(fdb_tenant_purge_blob_granules(tenant, RANGE, 1, 0));
    assert_refused(fdb_tenant_wait_purge_granules_complete(tenant, key("a").data, key("a").size));
    assert_refused(fdb_tenant_blobbify_range(tenant, RANGE));
    assert_refused(fdb_tenant_blobbify_range_blocking(tenant, RANGE));
    assert_refused(fdb_tenant_unblobbify_range(tenant, RANGE));
    assert_refused(fdb_tenant_list_blobbified_ranges(tenant, RANGE, 10));
    assert_refused(fdb_tenant_verify_blob_range(tenant, RANGE, -2));
    assert_refused(fdb_tenant_flush_blob_range(tenant, RANGE, 0, -2));
    FDBTransaction *tr = NULL;
    if (!fdb_tenant_create_transaction(tenant, &tr)) {
        assert_refused(get(tr, key("a")));
        fdb_transaction_destroy(tr);
    }
    fdb_tenant_destroy(tenant);
}

int group_unsupported(void) {
    const struct CMUnitTest tests[] = {
        TEST(cluster_administration),
        TEST(blob_granules_of_a_database),
        TEST(blob_granules_of_a_transaction),
        TEST(blob_granule_files),
        TEST(mapped_ranges),
        TEST(tenants),
    };
    return cmocka_run_group_tests_name("unsupported", tests, NULL, NULL);
}
