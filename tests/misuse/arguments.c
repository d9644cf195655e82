/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments nobody should pass: null pointers, negative lengths, options and mutation types by
 * number, sizes at and beyond the limits, API versions of the past and the future.
 */
#include "misuse.h"

#include <sys/wait.h>

static FDBDatabase *database;

static void open_memory(void) {
    network_start();
    database = database_open(":memory:");
}

static void close_memory(void) {
    fdb_database_destroy(database);
    network_stop();
}

/* ---- Null pointers and negative lengths ---- */

static void null_futures(void) {
    fdb_bool_t truth;
    int64_t number;
    uint64_t large;
    double real;
    const uint8_t *bytes;
    int count;
    const FDBKeyValue *rows;
    const FDBMappedKeyValue *mapped;
    const FDBKey *keys;
    const char **strings;
    const FDBKeyRange *ranges;
    const FDBGranuleSummary *summaries;
    FDBBGFileDescription *descriptions;
    const FDBBGMutation *mutations;
    fdb_future_cancel(NULL);
    fdb_future_release_memory(NULL);
    fdb_future_destroy(NULL);
    fdb_result_destroy(NULL);
    CHECK_EQUAL(fdb_future_is_ready(NULL), 0);
    CHECK_EQUAL(fdb_future_block_until_ready(NULL), 2000);
    CHECK_EQUAL(fdb_future_set_callback(NULL, NULL, NULL), 2000);
    CHECK_EQUAL(fdb_future_get_error(NULL), 2000);
    CHECK_EQUAL(fdb_future_get_bool(NULL, &truth), 2000);
    CHECK_EQUAL(fdb_future_get_int64(NULL, &number), 2000);
    CHECK_EQUAL(fdb_future_get_uint64(NULL, &large), 2000);
    CHECK_EQUAL(fdb_future_get_double(NULL, &real), 2000);
    CHECK_EQUAL(fdb_future_get_key(NULL, &bytes, &count), 2000);
    CHECK_EQUAL(fdb_future_get_value(NULL, &truth, &bytes, &count), 2000);
    CHECK_EQUAL(fdb_future_get_keyvalue_array(NULL, &rows, &count, &truth), 2000);
    CHECK_EQUAL(fdb_future_get_mappedkeyvalue_array(NULL, &mapped, &count, &truth), 2000);
    CHECK_EQUAL(fdb_future_get_key_array(NULL, &keys, &count), 2000);
    CHECK_EQUAL(fdb_future_get_string_array(NULL, &strings, &count), 2000);
    CHECK_EQUAL(fdb_future_get_keyrange_array(NULL, &ranges, &count), 2000);
    CHECK_EQUAL(fdb_future_get_granule_summary_array(NULL, &summaries, &count), 2000);
    CHECK_EQUAL(fdb_future_readbg_get_descriptions(NULL, &descriptions, &count), 2000);
    CHECK_EQUAL(fdb_result_get_keyvalue_array(NULL, &rows, &count, &truth), 2000);
    CHECK_EQUAL(fdb_result_get_bg_mutations_array(NULL, &mutations, &count), 2000);
}

static void null_outputs(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    FDBFuture *number = fdb_transaction_get_read_version(tr);
    FDBFuture *value = fdb_transaction_get(tr, KEY("k"), 0);
    FDBFuture *key = fdb_transaction_get_key(tr, KEY("k"), 0, 1, 0);
    FDBFuture *rows = fdb_transaction_get_range(tr, KEY(""), 0, 1, KEY("\xff"), 0, 1, 0, 0, -2, 0,
                                                0, 0);
    const uint8_t *bytes;
    const FDBKeyValue *array;
    int count;
    fdb_bool_t truth;
    CHECK_EQUAL(fdb_future_get_int64(number, NULL), 2000);
    CHECK_EQUAL(fdb_future_get_key(key, NULL, &count), 2000);
    CHECK_EQUAL(fdb_future_get_key(key, &bytes, NULL), 2000);
    CHECK_EQUAL(fdb_future_get_value(value, NULL, &bytes, &count), 2000);
    CHECK_EQUAL(fdb_future_get_value(value, &truth, NULL, &count), 2000);
    CHECK_EQUAL(fdb_future_get_value(value, &truth, &bytes, NULL), 2000);
    CHECK_EQUAL(fdb_future_get_keyvalue_array(rows, NULL, &count, &truth), 2000);
    CHECK_EQUAL(fdb_future_get_keyvalue_array(rows, &array, NULL, &truth), 2000);
    CHECK_EQUAL(fdb_future_get_keyvalue_array(rows, &array, &count, NULL), 2000);
    CHECK_EQUAL(fdb_future_set_callback(rows, NULL, NULL), 2000);
    CHECK_EQUAL(fdb_transaction_get_committed_version(tr, NULL), 2000);
    CHECK_EQUAL(fdb_database_create_transaction(database, NULL), 2000);
    CHECK_EQUAL(fdb_database_open_tenant(database, KEY("t"), NULL), 2000);
    CHECK_EQUAL(fdb_create_database(":memory:", NULL), 2000);
    CHECK_EQUAL(fdb_create_database_from_connection_string("a:b@127.0.0.1:1", NULL), 2000);
    FDBDatabase *other = NULL;
    CHECK_EQUAL(fdb_create_database_from_connection_string(NULL, &other), 2000);
    CHECK_EQUAL(fdb_add_network_thread_completion_hook(NULL, NULL), 2000);
    CHECK(!other);
    fdb_future_destroy(number);
    fdb_future_destroy(value);
    fdb_future_destroy(key);
    fdb_future_destroy(rows);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void null_databases(void) {
    FDBTransaction *tr = NULL;
    FDBTenant *tenant = NULL;
    network_start();
    fdb_database_destroy(NULL);
    fdb_tenant_destroy(NULL);
    CHECK_EQUAL(fdb_database_set_option(NULL, FDB_DB_OPTION_MAX_WATCHES, option_number(1), 8),
                2000);
    CHECK_EQUAL(fdb_database_create_transaction(NULL, &tr), 2000);
    CHECK_EQUAL(fdb_tenant_create_transaction(NULL, &tr), 2000);
    CHECK_EQUAL(fdb_database_open_tenant(NULL, KEY("t"), &tenant), 2000);
    CHECK(fdb_database_get_main_thread_busyness(NULL) >= 0);
    CHECK_EQUAL(finish(fdb_database_get_server_protocol(NULL, 0)), 2000);
    CHECK_EQUAL(finish(fdb_database_get_client_status(NULL)), 2000);
    CHECK(finish(fdb_database_reboot_worker(NULL, NULL, -1, 0, 0)));
    CHECK(finish(fdb_database_force_recovery_with_data_loss(NULL, NULL, -1)));
    CHECK(finish(fdb_database_create_snapshot(NULL, NULL, -1, NULL, -1)));
    CHECK(finish(fdb_database_purge_blob_granules(NULL, NULL, -1, NULL, -1, -1, 0)));
    CHECK(finish(fdb_database_wait_purge_granules_complete(NULL, NULL, -1)));
    CHECK(finish(fdb_database_blobbify_range(NULL, NULL, -1, NULL, -1)));
    CHECK(finish(fdb_database_blobbify_range_blocking(NULL, NULL, -1, NULL, -1)));
    CHECK(finish(fdb_database_unblobbify_range(NULL, NULL, -1, NULL, -1)));
    CHECK(finish(fdb_database_list_blobbified_ranges(NULL, NULL, -1, NULL, -1, -1)));
    CHECK(finish(fdb_database_verify_blob_range(NULL, NULL, -1, NULL, -1, -1)));
    CHECK(finish(fdb_database_flush_blob_range(NULL, NULL, -1, NULL, -1, 0, -1)));
    CHECK(finish(fdb_tenant_get_id(NULL)));
    CHECK(finish(fdb_tenant_purge_blob_granules(NULL, NULL, -1, NULL, -1, -1, 0)));
    CHECK(finish(fdb_tenant_wait_purge_granules_complete(NULL, NULL, -1)));
    CHECK(finish(fdb_tenant_blobbify_range(NULL, NULL, -1, NULL, -1)));
    CHECK(finish(fdb_tenant_blobbify_range_blocking(NULL, NULL, -1, NULL, -1)));
    CHECK(finish(fdb_tenant_unblobbify_range(NULL, NULL, -1, NULL, -1)));
    CHECK(finish(fdb_tenant_list_blobbified_ranges(NULL, NULL, -1, NULL, -1, -1)));
    CHECK(finish(fdb_tenant_verify_blob_range(NULL, NULL, -1, NULL, -1, -1)));
    CHECK(finish(fdb_tenant_flush_blob_range(NULL, NULL, -1, NULL, -1, 0, -1)));
    CHECK(!tr && !tenant);
    network_stop();
}

/* Every call that answers with a future, on one transaction, key and length. */
static void check_reads(FDBTransaction *tr, const uint8_t *key, int length, fdb_error_t expected) {
    CHECK_EQUAL(finish(fdb_transaction_get(tr, key, length, 0)), expected);
    CHECK_EQUAL(finish(fdb_transaction_get_key(tr, key, length, 1, 5, 0)), expected);
    CHECK_EQUAL(finish(fdb_transaction_get_addresses_for_key(tr, key, length)), expected);
    CHECK_EQUAL(finish(fdb_transaction_get_range(tr, key, length, 0, 1, KEY("\xff"), 0, 1, 0, 0, -2,
                                                  0, 0, 0)),
                expected);
    CHECK_EQUAL(finish(fdb_transaction_get_range(tr, KEY(""), 0, 1, key, length, 1, 1, 0, 0, -2, 0,
                                                 0, 1)),
                expected);
    CHECK_EQUAL(finish(fdb_transaction_get_estimated_range_size_bytes(tr, KEY(""), key, length)),
                expected);
    CHECK_EQUAL(finish(fdb_transaction_get_range_split_points(tr, key, length, KEY("\xff"), 1000)),
                expected);
    CHECK_EQUAL(finish(fdb_transaction_get_range_split_points_with_limit(tr, KEY(""), key, length,
                                                                         1000, 1)),
                expected);
    FDBFuture *watch = fdb_transaction_watch(tr, key, length);
    if (expected)
        CHECK_EQUAL(finish(watch), expected);
    else
        fdb_future_destroy(watch);
}

static void check_unsupported(FDBTransaction *tr, const uint8_t *key, int length) {
    FDBReadBlobGranuleContext context = {0};
    CHECK(finish(fdb_transaction_get_mapped_range(tr, key, length, 0, 1, key, length, 0, 1, key,
                                                  length, 0, 0, -1, 1, 0, 0)));
    CHECK(finish(fdb_transaction_get_blob_granule_ranges(tr, key, length, key, length, -1)));
    CHECK(finish(fdb_transaction_summarize_blob_granules(tr, key, length, key, length, -1, -1)));
    CHECK(finish(fdb_transaction_read_blob_granules_description(tr, key, length, key, length, -1,
                                                                -1, NULL)));
    const FDBKeyValue *rows = NULL;
    int count = 7;
    fdb_bool_t more = 7;
    FDBResult *results[] = {
        fdb_transaction_read_blob_granules(tr, key, length, key, length, 0, -2, context),
        fdb_readbg_parse_snapshot_file(NULL, length, NULL, NULL),
        fdb_readbg_parse_delta_file(NULL, length, NULL, NULL)};
    for (int i = 0; i < 3; i++) {
        CHECK(results[i]);
        CHECK(fdb_result_get_keyvalue_array(results[i], &rows, &count, &more));
        CHECK(fdb_result_get_bg_mutations_array(results[i], NULL, NULL));
        fdb_result_destroy(results[i]);
    }
    CHECK(!rows && count == 7 && more == 7);
}

static void null_transactions(void) {
    int64_t version = 7;
    network_start();
    fdb_transaction_destroy(NULL);
    fdb_transaction_cancel(NULL);
    fdb_transaction_reset(NULL);
    fdb_transaction_set_read_version(NULL, 1);
    fdb_transaction_set(NULL, KEY("k"), KEY("v"));
    fdb_transaction_atomic_op(NULL, KEY("k"), KEY("v"), FDB_MUTATION_TYPE_ADD);
    fdb_transaction_clear(NULL, KEY("k"));
    fdb_transaction_clear_range(NULL, KEY("a"), KEY("b"));
    CHECK_EQUAL(fdb_transaction_set_option(NULL, FDB_TR_OPTION_TIMEOUT, option_number(1), 8), 2000);
    CHECK_EQUAL(fdb_transaction_add_conflict_range(NULL, KEY("a"), KEY("b"), 0), 2000);
    CHECK_EQUAL(fdb_transaction_get_committed_version(NULL, &version), 2000);
    CHECK_EQUAL(version, 7);
    check_reads(NULL, KEY("k"), 2000);
    check_unsupported(NULL, NULL, -1);
    CHECK_EQUAL(finish(fdb_transaction_get_read_version(NULL)), 2000);
    CHECK_EQUAL(finish(fdb_transaction_commit(NULL)), 2000);
    CHECK_EQUAL(finish(fdb_transaction_get_versionstamp(NULL)), 2000);
    CHECK_EQUAL(finish(fdb_transaction_on_error(NULL, 1020)), 2000);
    CHECK_EQUAL(finish(fdb_transaction_get_approximate_size(NULL)), 2000);
    CHECK_EQUAL(finish(fdb_transaction_get_tag_throttled_duration(NULL)), 2000);
    CHECK_EQUAL(finish(fdb_transaction_get_total_cost(NULL)), 2000);
    network_stop();
}

static void bad_lengths_in_reads(void) {
    static const int lengths[] = {-1, -2, INT_MIN};
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int i = 0; i < 3; i++) {
        check_reads(tr, (const uint8_t *)"k", lengths[i], 2000);
        check_reads(tr, NULL, lengths[i], 2000);
        check_unsupported(tr, (const uint8_t *)"k", lengths[i]);
    }
    check_reads(tr, NULL, 1, 2000);
    check_reads(tr, NULL, INT_MAX, 2000);
    check_reads(tr, NULL, 0, 0); /* the empty key is a key */
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
    close_memory();
}

/* The write that is bad in way `which`; false when there are no more. */
static bool write_badly(FDBTransaction *tr, int which) {
    const uint8_t *k = (const uint8_t *)"k";
    switch (which) {
    case 0: fdb_transaction_set(tr, k, -1, k, 1); return true;
    case 1: fdb_transaction_set(tr, k, 1, k, -1); return true;
    case 2: fdb_transaction_set(tr, NULL, 1, k, 1); return true;
    case 3: fdb_transaction_set(tr, k, 1, NULL, 1); return true;
    case 4: fdb_transaction_set(tr, k, INT_MIN, k, INT_MIN); return true;
    case 5: fdb_transaction_atomic_op(tr, k, -1, k, 1, FDB_MUTATION_TYPE_ADD); return true;
    case 6: fdb_transaction_atomic_op(tr, k, 1, NULL, 9, FDB_MUTATION_TYPE_ADD); return true;
    case 7: fdb_transaction_clear(tr, k, -1); return true;
    case 8: fdb_transaction_clear(tr, NULL, 3); return true;
    case 9: fdb_transaction_clear_range(tr, k, -1, k, 1); return true;
    case 10: fdb_transaction_clear_range(tr, k, 1, NULL, 2); return true;
    default: return false;
    }
}

static void bad_lengths_in_writes_reach_the_commit(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int which = 0; write_badly(tr, which); which++) {
        set_text(tr, "other", "x");
        CHECK_EQUAL(finish(fdb_transaction_get(tr, KEY("k"), 0)), 2000);
        CHECK_EQUAL(commit(tr), 2000);
        fdb_transaction_reset(tr);
    }
    CHECK_EQUAL(fdb_transaction_add_conflict_range(tr, NULL, 1, KEY("b"), 0), 2000);
    CHECK_EQUAL(fdb_transaction_add_conflict_range(tr, KEY("a"), NULL, -1, 1), 2000);
    CHECK_EQUAL(fdb_transaction_add_conflict_range(tr, KEY("a"), KEY("b"), 2), 2000);
    CHECK_EQUAL(fdb_transaction_add_conflict_range(tr, KEY("b"), KEY("a"), 0), 2005);
    fdb_transaction_reset(tr);
    fdb_transaction_set(tr, NULL, 0, NULL, 0);
    fdb_transaction_atomic_op(tr, KEY("n"), NULL, 0, FDB_MUTATION_TYPE_ADD);
    fdb_transaction_atomic_op(tr, NULL, 0, NULL, 0, FDB_MUTATION_TYPE_APPEND_IF_FITS);
    fdb_transaction_clear_range(tr, NULL, 0, NULL, 0);
    CHECK_EQUAL(commit(tr), 0);
    CHECK(has_text(database, "", ""));
    CHECK(!has_text(database, "other", "x"));
    fdb_transaction_reset(tr);
    fdb_transaction_clear(tr, NULL, 0);
    CHECK_EQUAL(commit(tr), 0);
    CHECK(!has_text(database, "", ""));
    fdb_transaction_destroy(tr);
    close_memory();
}

static void the_first_error_is_the_one_reported(void) {
    open_memory();
    static uint8_t large[100001];
    FDBTransaction *tr = transaction_begin(database);
    fdb_transaction_set(tr, large, 10001, KEY("v"));
    fdb_transaction_set(tr, KEY("k"), large, 100001);
    fdb_transaction_clear_range(tr, KEY("b"), KEY("a"));
    CHECK_EQUAL(commit(tr), 2102);
    fdb_transaction_destroy(tr);
    close_memory();
}

/* ---- Options ---- */

struct option_value {
    const uint8_t *data;
    int length;
};

static const uint8_t option_bytes[64] = {255, 255, 255, 255, 255, 255, 255, 127, 1};

static const struct option_value option_values[] = {
    {NULL, 0},          {NULL, 8},           {NULL, -1},          {option_bytes, 0},
    {option_bytes, 1},  {option_bytes, 7},   {option_bytes, 8},   {option_bytes, 9},
    {option_bytes, 33}, {option_bytes, 64},  {option_bytes, -1},  {option_bytes, INT_MIN},
};

enum { OPTION_VALUES = sizeof option_values / sizeof *option_values };

static bool is_option_answer(fdb_error_t error) {
    return error == 0 || error == 2000 || error == 2006 || error == 2007 || error == 2109 ||
           error == 2110;
}

static const int unknown_options[] = {INT_MIN, -2, -1, 0, 1, 19, 999, 5000, INT_MAX};

static void every_transaction_option(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int number = -3; number < 2400; number++) {
        for (int i = 0; i < OPTION_VALUES; i++) {
            fdb_error_t error = fdb_transaction_set_option(
                tr, (FDBTransactionOption)number, option_values[i].data, option_values[i].length);
            CHECK(is_option_answer(error));
            CHECK(error || option_values[i].length >= 0 || !option_values[i].data);
        }
        fdb_transaction_reset(tr);
    }
    for (size_t i = 0; i < sizeof unknown_options / sizeof *unknown_options; i++)
        CHECK_EQUAL(fdb_transaction_set_option(tr, (FDBTransactionOption)unknown_options[i], NULL,
                                               0),
                    2007);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void every_database_option(void) {
    network_start();
    for (int number = -3; number < 1200; number++) {
        database = database_open(":memory:");
        for (int i = 0; i < OPTION_VALUES; i++) {
            struct option_value value = option_values[i];
            fdb_error_t error = fdb_database_set_option(database, (FDBDatabaseOption)number,
                                                        value.data, value.length);
            CHECK(error == 0 || error == 2006 || error == 2007);
            CHECK(error || option_values[i].length >= 0 || !option_values[i].data);
        }
        fdb_database_destroy(database);
    }
    database = database_open(":memory:");
    for (size_t i = 0; i < sizeof unknown_options / sizeof *unknown_options; i++)
        CHECK_EQUAL(fdb_database_set_option(database, (FDBDatabaseOption)unknown_options[i], NULL,
                                            0),
                    2007);
    FDBTransaction *tr = transaction_begin(database);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void try_network_options(void) {
    for (int number = -3; number < 2400; number++)
        for (int i = 0; i < OPTION_VALUES; i++) {
            fdb_error_t error = fdb_network_set_option(
                (FDBNetworkOption)number, option_values[i].data, option_values[i].length);
            CHECK(error == 0 || error == 2006 || error == 2007 || error == 1511);
            CHECK(error || option_values[i].length >= 0 || !option_values[i].data);
        }
    static const int unknown[] = {INT_MIN, -1, 0, 1, 9, 11, 3000, INT_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        CHECK_EQUAL(fdb_network_set_option((FDBNetworkOption)unknown[i], NULL, 0), 2007);
}

static void every_network_option(void) {
    CHECK_EQUAL(fdb_network_set_option(FDB_NET_OPTION_TRACE_ENABLE, NULL, 0), 2200);
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    try_network_options();
    CHECK_EQUAL(fdb_setup_network(), 0);
    try_network_options();
    network_run();
    try_network_options();
    database = database_open(":memory:");
    FDBTransaction *tr = transaction_begin(database);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
    close_memory();
    try_network_options();
}

static void a_bad_option_value_reaches_the_commit(void) {
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    CHECK_EQUAL(fdb_transaction_set_option(tr, FDB_TR_OPTION_TIMEOUT, option_number(-1), 8), 2006);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 2006);
    fdb_transaction_reset(tr);
    CHECK_EQUAL(fdb_transaction_set_option(tr, (FDBTransactionOption)424242, NULL, 0), 2007);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void odd_environments(void) {
    setenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "99999999999999999999", 1);
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(fdb_network_set_option(FDB_NET_OPTION_TRACE_ENABLE, NULL, 0), 2022);
    setenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "", 1);
    CHECK_EQUAL(fdb_setup_network(), 2022);
    setenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "12:\\", 1);
    CHECK_EQUAL(fdb_setup_network(), 2022);
    CHECK_EQUAL(fdb_run_network(), 2008);
    setenv("FDB_NETWORK_OPTION_TRACE_ROLL_SIZE", "12:13", 1);
    CHECK_EQUAL(fdb_setup_network(), 0);
    CHECK_EQUAL(fdb_setup_network(), 2009);
    static const char *const names[] = {"KEEL_WINDOW_BYTES", "KEEL_SEGMENT_BYTES",
                                        "KEEL_LIFETIME_MS", "KEEL_DURABILITY"};
    static const char *const values[] = {"x", "-1", "99999999999999999999999", "1 ", "0x10"};
    network_run();
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 5; j++) {
            setenv(names[i], values[j], 1);
            database = database_open(":memory:");
            FDBTransaction *tr = transaction_begin(database);
            CHECK_EQUAL(finish(fdb_transaction_get_read_version(tr)), 2022);
            fdb_transaction_destroy(tr);
            fdb_database_destroy(database);
        }
        unsetenv(names[i]);
    }
    network_stop();
}

/* ---- Mutations ---- */

static bool is_mutation_type(int type) {
    static const int known[] = {2, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (type == known[i])
            return true;
    return false;
}

static void every_mutation_type(void) {
    static const uint8_t stamp[14];
    static const int lengths[] = {0, 1, 8, 14};
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int type = -2; type <= 258; type++) {
        for (int i = 0; i < 4; i++) {
            fdb_error_t expected = is_mutation_type(type) ? 0 : 2018;
            if (type == FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE && lengths[i] < 14)
                expected = 2000;
            fdb_transaction_atomic_op(tr, stamp, 14, stamp, lengths[i], (FDBMutationType)type);
            CHECK_EQUAL(commit(tr), expected);
            fdb_transaction_reset(tr);
        }
    }
    fdb_transaction_atomic_op(tr, KEY("k"), KEY("v"), (FDBMutationType)INT_MIN);
    CHECK_EQUAL(commit(tr), 2018);
    fdb_transaction_reset(tr);
    fdb_transaction_atomic_op(tr, KEY("k"), KEY("v"), (FDBMutationType)INT_MAX);
    CHECK_EQUAL(commit(tr), 2018);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void versionstamp_offsets(void) {
    static const uint32_t offsets[] = {0,          1,          2,          3,         10,
                                       0x7fffffff, 0x80000000, 0xfffffff6, 0xffffffff};
    uint8_t text[64] = {0};
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int length = 0; length <= 24; length++) {
        for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
            if (length >= 4)
                memcpy(text + length - 4, &offsets[i], 4);
            bool fits = length >= 4 && (int64_t)offsets[i] + 10 <= length - 4;
            for (int value = 0; value < 2; value++) {
                fdb_transaction_atomic_op(tr, value ? (const uint8_t *)"k" : text,
                                          value ? 1 : length,
                                          value ? text : (const uint8_t *)"v", value ? length : 1,
                                          value ? FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE
                                                : FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY);
                bool system = !value && length && text[0] == 0xff;
                CHECK_EQUAL(commit(tr), fits ? 0 : system ? 2004 : 2000);
                fdb_transaction_reset(tr);
            }
            memset(text, 0, sizeof text);
        }
    }
    fdb_transaction_destroy(tr);
    close_memory();
}

/* ---- Sizes ---- */

static fdb_error_t set_of_size(int key_length, int value_length) {
    static uint8_t bytes[200000];
    FDBTransaction *tr = transaction_begin(database);
    bytes[0] = 'k';
    fdb_transaction_set(tr, bytes, key_length, bytes, value_length);
    fdb_error_t error = commit(tr);
    fdb_transaction_destroy(tr);
    return error;
}

static void keys_and_values_at_their_limits(void) {
    network_start();
    database = database_open(scratch_path("db"));
    CHECK_EQUAL(set_of_size(9999, 1), 0);
    CHECK_EQUAL(set_of_size(10000, 1), 0);
    CHECK_EQUAL(set_of_size(10001, 1), 2102);
    CHECK_EQUAL(set_of_size(1, 99999), 0);
    CHECK_EQUAL(set_of_size(1, 100000), 0);
    CHECK_EQUAL(set_of_size(1, 100001), 2103);
    CHECK_EQUAL(set_of_size(10000, 100000), 0);
    CHECK_EQUAL(set_of_size(10001, 100001), 2102);
    CHECK_EQUAL(set_of_size(200000, 200000), 2102);
    close_memory();
}

/* Commits a transaction of exactly this many bytes as the limit counts them. */
static fdb_error_t commit_of_size(int64_t limit, int64_t size) {
    enum { KEY_BYTES = 4, FIXED = 44 + KEY_BYTES + 24 + 2 * KEY_BYTES + 1, FULL = 100000 };
    static uint8_t value[FULL];
    FDBTransaction *tr = transaction_begin(database);
    if (limit)
        set_transaction_number(tr, FDB_TR_OPTION_SIZE_LIMIT, limit);
    for (int i = 0; size > 0; i++) {
        int64_t length = size - FIXED < FULL ? size - FIXED : FULL;
        if (size - FIXED - length > 0 && size - FIXED - length < FIXED)
            length -= FIXED; /* what is left must hold another row */
        uint8_t key[KEY_BYTES] = {(uint8_t)(i >> 8), (uint8_t)i, 1, 1};
        fdb_transaction_set(tr, key, KEY_BYTES, value, (int)length);
        size -= FIXED + length;
    }
    fdb_error_t error = commit(tr);
    fdb_transaction_destroy(tr);
    return error;
}

static void transactions_at_their_limit(void) {
    open_memory();
    CHECK_EQUAL(commit_of_size(0, 9999999), 0);
    CHECK_EQUAL(commit_of_size(0, 10000000), 0);
    CHECK_EQUAL(commit_of_size(0, 10000001), 2101);
    CHECK_EQUAL(commit_of_size(1000, 999), 0);
    CHECK_EQUAL(commit_of_size(1000, 1000), 0);
    CHECK_EQUAL(commit_of_size(1000, 1001), 2101);
    close_memory();
}

static void keys_of_a_megabyte(void) {
    enum { MEGABYTE = 1 << 20 };
    open_memory();
    uint8_t *key = malloc(MEGABYTE);
    CHECK(key);
    memset(key, 'k', MEGABYTE);
    FDBTransaction *tr = transaction_begin(database);
    CHECK_EQUAL(finish(fdb_transaction_get(tr, key, MEGABYTE, 0)), 0);
    CHECK_EQUAL(finish(fdb_transaction_get_key(tr, key, MEGABYTE, 1, -3, 0)), 0);
    CHECK_EQUAL(finish(fdb_transaction_get_range(tr, key, MEGABYTE, 1, 3, KEY("z"), 1, 3, 0, 0, -2,
                                                  0, 0, 0)), 0);
    CHECK_EQUAL(finish(fdb_transaction_watch(tr, key, MEGABYTE)), 2102);
    CHECK_EQUAL(fdb_transaction_add_conflict_range(tr, key, MEGABYTE, KEY("l"), 0), 0);
    CHECK_EQUAL(fdb_transaction_add_conflict_range(tr, key, MEGABYTE, KEY("l"), 1), 0);
    fdb_transaction_clear(tr, key, MEGABYTE);
    fdb_transaction_clear_range(tr, key, MEGABYTE, KEY("l"));
    CHECK_EQUAL(commit(tr), 0);
    key[0] = key[1] = 0xff; /* a special key */
    fdb_transaction_reset(tr);
    fdb_error_t error = finish(fdb_transaction_get(tr, key, MEGABYTE, 0));
    CHECK(error == 0 || error == 2113);
    fdb_transaction_destroy(tr);
    free(key);
    close_memory();
}

/* ---- Numbers ---- */

static void odd_error_codes(void) {
    static const int predicates[] = {INT_MIN, -1, 0, 1, 50000, 50001, 50002, 50003, INT_MAX};
    for (int code = -100000; code <= 100000; code++) {
        CHECK(fdb_get_error(code) && *fdb_get_error(code));
        for (size_t i = 0; i < sizeof predicates / sizeof *predicates; i++) {
            fdb_bool_t answer = fdb_error_predicate(predicates[i], code);
            bool known = predicates[i] >= 50000 && predicates[i] <= 50002;
            CHECK(answer == 0 || (answer == 1 && known && ((code > 1000 && code < 3000) || code == 20021)));
        }
    }
    CHECK(fdb_get_error(INT_MIN) && fdb_get_error(INT_MAX));
    CHECK_EQUAL(fdb_error_predicate(50000, INT_MIN), 0);
    CHECK_EQUAL(fdb_error_predicate(50000, INT_MAX), 0);
}

static void odd_codes_for_on_error(void) {
    static const int codes[] = {INT_MIN, -1, 0, 1, 999, 2000, 1101, 1025, 4100, 20001, INT_MAX};
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        CHECK_EQUAL(finish(fdb_transaction_on_error(tr, codes[i])), codes[i] ? codes[i] : 2000);
        CHECK_EQUAL(finish(fdb_transaction_get_read_version(tr)), 1025);
        CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), 1025);
        fdb_transaction_reset(tr);
    }
    fdb_transaction_destroy(tr);
    close_memory();
}

static void odd_read_versions(void) {
    static const struct {
        int64_t version;
        fdb_error_t error;
    } cases[] = {{INT64_MIN, 2011}, {-1, 2011}, {0, 2011}, {1, 1007}, {INT64_MAX, 1009}};
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fdb_transaction_set_read_version(tr, cases[i].version);
        CHECK_EQUAL(finish(fdb_transaction_get(tr, KEY("k"), 0)), cases[i].error);
        set_text(tr, "k", "v");
        CHECK_EQUAL(commit(tr), cases[i].error);
        fdb_transaction_reset(tr);
    }
    CHECK_EQUAL(finish(fdb_transaction_get_read_version(tr)), 0);
    fdb_transaction_set_read_version(tr, 5);
    CHECK_EQUAL(commit(tr), 2010);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void odd_timeouts_and_retries(void) {
    static const int64_t good[] = {0, 1, INT_MAX};
    static const int64_t bad[] = {INT64_MIN, -2, (int64_t)INT_MAX + 1, INT64_MAX};
    static const FDBTransactionOption options[] = {
        FDB_TR_OPTION_TIMEOUT, FDB_TR_OPTION_RETRY_LIMIT, FDB_TR_OPTION_MAX_RETRY_DELAY};
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) {
            CHECK_EQUAL(fdb_transaction_set_option(tr, options[i], option_number(bad[j]), 8), 2006);
            fdb_transaction_reset(tr);
        }
        for (int j = 0; j < 3; j++) {
            CHECK_EQUAL(fdb_transaction_set_option(tr, options[i], option_number(good[j]), 8), 0);
            fdb_transaction_reset(tr);
        }
    }
    CHECK_EQUAL(fdb_transaction_set_option(tr, FDB_TR_OPTION_RETRY_LIMIT, option_number(-1), 8), 0);
    set_transaction_number(tr, FDB_TR_OPTION_RETRY_LIMIT, 0);
    CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), 1020);
    fdb_transaction_reset(tr);
    set_transaction_number(tr, FDB_TR_OPTION_RETRY_LIMIT, INT_MAX);
    set_transaction_number(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQUAL(finish(fdb_transaction_on_error(tr, i % 2 ? 1020 : 1007)), 0);
    set_transaction_number(tr, FDB_TR_OPTION_TIMEOUT, INT_MAX);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_reset(tr);
    set_transaction_number(tr, FDB_TR_OPTION_TIMEOUT, 1);
    usleep(3000);
    CHECK_EQUAL(commit(tr), 1031);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void odd_chunk_sizes(void) {
    static const int64_t sizes[] = {INT64_MIN, -1, 0, 1, 100, INT64_MAX};
    static const int limits[] = {INT_MIN, -1, 0, 1, 2, INT_MAX};
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    for (int i = 0; i < 30; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%02d", i);
        set_text(tr, key, "0123456789");
    }
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_reset(tr);
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            FDBFuture *future = fdb_transaction_get_range_split_points_with_limit(
                tr, KEY("a"), KEY("z"), sizes[i], limits[j]);
            const FDBKey *keys = NULL;
            int count = -1;
            fdb_error_t error = fdb_future_get_key_array(future, &keys, &count);
            CHECK_EQUAL(error, sizes[i] <= 0 ? 2000 : 0);
            CHECK(error || count >= 2);
            CHECK(error || limits[j] < 0 || limits[j] == INT_MAX || count <= limits[j] + 2);
            CHECK(error || (keys[0].key_length == 1 && keys[count - 1].key[0] == 'z'));
            fdb_future_destroy(future);
        }
    }
    CHECK_EQUAL(finish(fdb_transaction_get_range_split_points(tr, KEY("b"), KEY("a"), 10)), 2005);
    CHECK_EQUAL(finish(fdb_transaction_get_estimated_range_size_bytes(tr, KEY("b"), KEY("a"))),
                2005);
    fdb_transaction_destroy(tr);
    close_memory();
}

static void watches_beyond_the_limit(void) {
    enum { MANY = 10001 };
    static FDBFuture *watches[MANY];
    open_memory();
    FDBTransaction *tr = transaction_begin(database);
    CHECK_EQUAL(fdb_database_set_option(database, FDB_DB_OPTION_MAX_WATCHES, option_number(0), 8),
                0);
    CHECK_EQUAL(finish(fdb_transaction_watch(tr, KEY("k"))), 1032);
    CHECK_EQUAL(fdb_database_set_option(database, FDB_DB_OPTION_MAX_WATCHES,
                                        option_number(1000001), 8), 2006);
    CHECK_EQUAL(fdb_database_set_option(database, FDB_DB_OPTION_MAX_WATCHES,
                                        option_number(MANY - 1), 8), 0);
    for (int i = 0; i < MANY - 1; i++)
        watches[i] = fdb_transaction_watch(tr, KEY("k"));
    CHECK_EQUAL(finish(fdb_transaction_watch(tr, KEY("k"))), 1032);
    fdb_future_destroy(watches[0]);
    watches[0] = fdb_transaction_watch(tr, KEY("k"));
    CHECK(!fdb_future_is_ready(watches[0]));
    CHECK_EQUAL(commit(tr), 0);
    FDBTransaction *writer = transaction_begin(database);
    set_text(writer, "k", "v");
    CHECK_EQUAL(commit(writer), 0);
    for (int i = 0; i < MANY - 1; i++)
        CHECK_EQUAL(finish(watches[i]), 0);
    fdb_transaction_reset(tr);
    fdb_future_destroy(fdb_transaction_watch(tr, KEY("k")));
    fdb_transaction_destroy(writer);
    fdb_transaction_destroy(tr);
    close_memory();
}

/* ---- API versions ---- */

static void select_in_child(int version) {
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQUAL(fdb_select_api_version_impl(version, 740), 0);
        CHECK_EQUAL(fdb_select_api_version_impl(version, 740), 2201);
        CHECK_EQUAL(fdb_setup_network(), 0);
        database = database_open(":memory:");
        FDBTransaction *tr = transaction_begin(database);
        set_text(tr, "k", "v");
        CHECK_EQUAL(commit(tr), 0);
        fdb_transaction_destroy(tr);
        fdb_database_destroy(database);
        _exit(0);
    }
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

static void every_api_version(void) {
    CHECK_EQUAL(fdb_setup_network(), 2200);
    CHECK_EQUAL(fdb_run_network(), 2200);
    CHECK_EQUAL(fdb_stop_network(), 2200);
    CHECK_EQUAL(fdb_create_database(":memory:", &database), 2200);
    for (int version = -1; version <= 2000; version++) {
        if (version >= 510 && version <= 740) {
            if (version % 10 == 0 || version == 519)
                select_in_child(version);
            continue;
        }
        CHECK_EQUAL(fdb_select_api_version_impl(version, version), 2203);
        CHECK_EQUAL(fdb_select_api_version_impl(version, 740), version > 740 ? 2202 : 2203);
    }
    CHECK_EQUAL(fdb_select_api_version_impl(INT_MIN, INT_MAX), 2203);
    CHECK_EQUAL(fdb_select_api_version_impl(INT_MAX, INT_MIN), 2202);
    CHECK_EQUAL(fdb_select_api_version_impl(740, 741), 2203);
    CHECK_EQUAL(fdb_get_max_api_version(), 740);
    CHECK(fdb_get_client_version());
}

const struct misuse_case argument_cases[] = {
    {"arguments: null futures", null_futures},
    {"arguments: null outputs", null_outputs},
    {"arguments: null databases and tenants", null_databases},
    {"arguments: null transactions", null_transactions},
    {"arguments: bad lengths in reads", bad_lengths_in_reads},
    {"arguments: bad lengths in writes reach the commit", bad_lengths_in_writes_reach_the_commit},
    {"arguments: the first error is the one reported", the_first_error_is_the_one_reported},
    {"options: every transaction option", every_transaction_option},
    {"options: every database option", every_database_option},
    {"options: every network option", every_network_option},
    {"options: a bad value reaches the commit", a_bad_option_value_reaches_the_commit},
    {"options: odd environments", odd_environments},
    {"mutations: every type", every_mutation_type},
    {"mutations: versionstamp offsets", versionstamp_offsets},
    {"sizes: keys and values at their limits", keys_and_values_at_their_limits},
    {"sizes: transactions at their limit", transactions_at_their_limit},
    {"sizes: keys of a megabyte", keys_of_a_megabyte},
    {"numbers: odd error codes", odd_error_codes},
    {"numbers: odd codes for on_error", odd_codes_for_on_error},
    {"numbers: odd read versions", odd_read_versions},
    {"numbers: odd timeouts and retries", odd_timeouts_and_retries},
    {"numbers: odd chunk sizes", odd_chunk_sizes},
    {"numbers: watches beyond the limit", watches_beyond_the_limit},
    {"numbers: every API version", every_api_version},
    {NULL, NULL},
};
