/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function that is handed on, called: what the conformance suite leaves out because a real
 * cluster would do something about it. The stub leads to an embedded database, which has its own
 * answer to each, and counts the calls; an older library has no function to call, and nothing may
 * crash for that.
 */
#include "cluster.h"

#define K (const uint8_t *)"a", 1
#define RANGE (const uint8_t *)"a", 1, (const uint8_t *)"b", 1
#define SELECTORS FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"a", 1), FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"b", 1)
#define REFUSED(call) CHECK_EQUAL(error_of(call), ERROR_UNSUPPORTED_OPERATION)

static void the_care_of_machines(FDBDatabase *db) {
    REFUSED(fdb_database_reboot_worker(db, K, 0, 0));
    REFUSED(fdb_database_force_recovery_with_data_loss(db, K));
    REFUSED(fdb_database_create_snapshot(db, K, K));
    REFUSED(fdb_database_purge_blob_granules(db, RANGE, 1, 0));
    REFUSED(fdb_database_wait_purge_granules_complete(db, K));
    REFUSED(fdb_database_blobbify_range(db, RANGE));
    REFUSED(fdb_database_blobbify_range_blocking(db, RANGE));
    REFUSED(fdb_database_unblobbify_range(db, RANGE));
    REFUSED(fdb_database_list_blobbified_ranges(db, RANGE, 10));
    REFUSED(fdb_database_verify_blob_range(db, RANGE, -2));
    REFUSED(fdb_database_flush_blob_range(db, RANGE, 0, -2));
}

static void a_tenant(FDBTenant *tenant) {
    CHECK_EQUAL(error_of(fdb_tenant_get_id(tenant)), ERROR_TENANTS_DISABLED);
    REFUSED(fdb_tenant_purge_blob_granules(tenant, RANGE, 1, 0));
    REFUSED(fdb_tenant_wait_purge_granules_complete(tenant, K));
    REFUSED(fdb_tenant_blobbify_range(tenant, RANGE));
    REFUSED(fdb_tenant_blobbify_range_blocking(tenant, RANGE));
    REFUSED(fdb_tenant_unblobbify_range(tenant, RANGE));
    REFUSED(fdb_tenant_list_blobbified_ranges(tenant, RANGE, 10));
    REFUSED(fdb_tenant_verify_blob_range(tenant, RANGE, -2));
    REFUSED(fdb_tenant_flush_blob_range(tenant, RANGE, 0, -2));
    FDBTransaction *tr = NULL;
    CHECK_EQUAL(fdb_tenant_create_transaction(tenant, &tr), 0);
    CHECK_EQUAL(error_of(get(tr, "a")), ERROR_TENANTS_DISABLED);
    fdb_transaction_destroy(tr);
    fdb_tenant_destroy(tenant);
}

static void results(FDBTransaction *tr) {
    FDBBGTenantPrefix prefix = {0};
    FDBBGEncryptionCtx encryption = {0};
    FDBReadBlobGranuleContext context = {0};
    const FDBKeyValue *rows;
    const FDBBGMutation *mutations;
    int count;
    fdb_bool_t more;
    FDBResult *result = fdb_transaction_read_blob_granules(tr, RANGE, 0, -2, context);
    CHECK_EQUAL(fdb_result_get_keyvalue_array(result, &rows, &count, &more), ERROR_UNSUPPORTED_OPERATION);
    fdb_result_destroy(result);
    result = fdb_readbg_parse_snapshot_file(K, &prefix, &encryption);
    CHECK_EQUAL(fdb_result_get_keyvalue_array(result, &rows, &count, &more), ERROR_UNSUPPORTED_OPERATION);
    fdb_result_destroy(result);
    result = fdb_readbg_parse_delta_file(K, &prefix, &encryption);
    CHECK_EQUAL(fdb_result_get_bg_mutations_array(result, &mutations, &count), ERROR_UNSUPPORTED_OPERATION);
    fdb_result_destroy(result);
}

/* Each getter on a future that holds an error says that error, so each was asked. */
static void getters(FDBTransaction *tr, fdb_error_t expected) {
    FDBFuture *f = fdb_transaction_get_mapped_range(tr, SELECTORS, K, 0, 0, FDB_STREAMING_MODE_WANT_ALL, 0, 0, 0);
    CHECK_EQUAL(fdb_future_block_until_ready(f), 0);
    union {
        fdb_bool_t boolean;
        int64_t number;
        uint64_t natural;
        double real;
    } out;
    const uint8_t *bytes;
    const FDBKeyValue *rows;
    const FDBMappedKeyValue *mapped;
    const FDBKey *keys;
    const char **strings;
    const FDBKeyRange *ranges;
    const FDBGranuleSummary *summaries;
    FDBBGFileDescription *descriptions;
    int count;
    fdb_bool_t flag;
    CHECK_EQUAL(fdb_future_get_bool(f, &out.boolean), expected);
    CHECK_EQUAL(fdb_future_get_int64(f, &out.number), expected);
    CHECK_EQUAL(fdb_future_get_uint64(f, &out.natural), expected);
    CHECK_EQUAL(fdb_future_get_double(f, &out.real), expected);
    CHECK_EQUAL(fdb_future_get_key(f, &bytes, &count), expected);
    CHECK_EQUAL(fdb_future_get_value(f, &flag, &bytes, &count), expected);
    CHECK_EQUAL(fdb_future_get_keyvalue_array(f, &rows, &count, &flag), expected);
    CHECK_EQUAL(fdb_future_get_mappedkeyvalue_array(f, &mapped, &count, &flag), expected);
    CHECK_EQUAL(fdb_future_get_key_array(f, &keys, &count), expected);
    CHECK_EQUAL(fdb_future_get_string_array(f, &strings, &count), expected);
    CHECK_EQUAL(fdb_future_get_keyrange_array(f, &ranges, &count), expected);
    CHECK_EQUAL(fdb_future_get_granule_summary_array(f, &summaries, &count), expected);
    CHECK_EQUAL(fdb_future_readbg_get_descriptions(f, &descriptions, &count), expected);
    CHECK_EQUAL(fdb_future_get_error(f), expected);
    fdb_future_destroy(f);
}

static void granules_of_a_transaction(FDBTransaction *tr) {
    int64_t version = 0;
    REFUSED(fdb_transaction_get_blob_granule_ranges(tr, RANGE, 10));
    REFUSED(fdb_transaction_summarize_blob_granules(tr, RANGE, -2, 10));
    REFUSED(fdb_transaction_read_blob_granules_description(tr, RANGE, 0, -2, &version));
}

static void questions(FDBDatabase *db, FDBTransaction *tr) {
    CHECK_EQUAL(error_of(fdb_transaction_get_addresses_for_key(tr, K)), 0);
    CHECK_EQUAL(error_of(fdb_transaction_get_estimated_range_size_bytes(tr, RANGE)), 0);
    CHECK_EQUAL(error_of(fdb_transaction_get_range_split_points(tr, RANGE, 1000)), 0);
    CHECK_EQUAL(error_of(fdb_transaction_get_range_split_points_with_limit(tr, RANGE, 1000, 3)), 0);
    CHECK_EQUAL(error_of(fdb_transaction_get_approximate_size(tr)), 0);
    CHECK_EQUAL(error_of(fdb_transaction_get_total_cost(tr)), 0);
    CHECK_EQUAL(error_of(fdb_transaction_get_tag_throttled_duration(tr)), 0);
    CHECK_EQUAL(error_of(fdb_database_get_server_protocol(db, 0)), 0);
    CHECK_EQUAL(error_of(fdb_database_get_client_status(db)), 0);
    CHECK(fdb_database_get_main_thread_busyness(db) >= 0);
}

void scenario_everything(void) {
    network_begin(740);
    FDBDatabase *db = open_database(cluster_file());
    FDBTransaction *tr = begin(db);
    the_care_of_machines(db);
    FDBTenant *tenant = NULL;
    CHECK_EQUAL(fdb_database_open_tenant(db, K, &tenant), 0);
    if (tenant)
        a_tenant(tenant);
    granules_of_a_transaction(tr);
    results(tr);
    getters(tr, ERROR_UNSUPPORTED_OPERATION);
    questions(db, tr);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(db);
    network_end();
}

/* What the older library has works; what it has not is refused, on whatever object it is asked. */
static void what_is_old(FDBDatabase *db, bool has_int64) {
    FDBTransaction *tr = begin(db);
    int64_t version = 0;
    FDBFuture *future = fdb_transaction_get_read_version(tr);
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    CHECK_EQUAL(fdb_future_get_int64(future, &version), 0);
    CHECK(version > 0);
    double real;
    const FDBKey *keys;
    int count;
    CHECK_EQUAL(fdb_future_get_double(future, &real), ERROR_UNSUPPORTED_OPERATION);
    CHECK_EQUAL(fdb_future_get_key_array(future, &keys, &count), ERROR_UNSUPPORTED_OPERATION);
    fdb_future_destroy(future);
    CHECK_EQUAL(error_of(fdb_transaction_get_approximate_size(tr)), has_int64 ? 0 : ERROR_UNSUPPORTED_OPERATION);
    REFUSED(fdb_transaction_get_estimated_range_size_bytes(tr, RANGE));
    REFUSED(fdb_transaction_get_range_split_points(tr, RANGE, 1000));
    REFUSED(fdb_transaction_get_range_split_points_with_limit(tr, RANGE, 1000, -1));
    REFUSED(fdb_transaction_get_range_split_points_with_limit(tr, RANGE, 1000, 3));
    REFUSED(fdb_transaction_get_total_cost(tr));
    REFUSED(fdb_transaction_get_tag_throttled_duration(tr));
    granules_of_a_transaction(tr);
    results(tr);
    getters(tr, ERROR_UNSUPPORTED_OPERATION);
    fdb_transaction_destroy(tr);
}

static void old_library(int version, bool has_int64) {
    network_begin(version);
    FDBDatabase *db = open_database(cluster_file());
    CHECK_EQUAL(write_text(db, "a", "old"), 0);
    CHECK(strcmp(read_text(db, "a"), "old") == 0);
    what_is_old(db, has_int64);
    the_care_of_machines(db);
    FDBTenant *tenant = NULL;
    CHECK_EQUAL(fdb_database_open_tenant(db, K, &tenant), ERROR_UNSUPPORTED_OPERATION);
    CHECK(!tenant);
    REFUSED(fdb_database_get_server_protocol(db, 0));
    REFUSED(fdb_database_get_client_status(db));
    CHECK(fdb_database_get_main_thread_busyness(db) == 0);
    FDBDatabase *by_string = NULL;
    CHECK_EQUAL(fdb_create_database_from_connection_string("a:b@127.0.0.1:1", &by_string), 0);
    CHECK_EQUAL(first_error(by_string), ERROR_UNSUPPORTED_OPERATION);
    fdb_database_destroy(by_string);
    fdb_database_destroy(db);
    network_end();
}

/* FoundationDB 6.2. */
void scenario_old(void) {
    old_library(620, true);
    int header;
    int (*selected)(int *) = (int (*)(int *))stub_function("libfdb_stub_620.so", "stub_selected");
    CHECK_EQUAL(selected(&header), 620);
    CHECK_EQUAL(header, 620);
}

/* FoundationDB 6.0: databases are opened by clusters, numbers are versions. */
void scenario_ancient(void) {
    old_library(600, false);
}
