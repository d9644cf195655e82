/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a database says about itself: estimated sizes, split points, addresses, the metadata
 * version key, system keys, protocol and client status.
 */
#include "support.h"

#define METADATA_VERSION "\xff/metadataVersion"
#define SYSTEM_KEY "\xff/conformance"

static FDBFuture *estimate(FDBTransaction *tr, struct bytes first, struct bytes end) {
    return fdb_transaction_get_estimated_range_size_bytes(tr, first.data, first.size, end.data,
                                                          end.size);
}

static void estimated_size_of_a_range(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    assert_true(future_int64(estimate(tr, key(""), key("~"))) >= 0);
    assert_true(future_int64(estimate(tr, text(""), LITERAL("\xff"))) >= 0);
    if (run_is_embedded()) { /* the official client fails an assertion over an empty range: 4100 */
        assert_int_equal(future_int64(estimate(tr, key("a"), key("a"))), 0);
    }
    fdb_transaction_destroy(tr);
}

static void estimated_size_needs_an_ordered_range(void **state) {
    SINCE(630);
    if (fdb_get_max_api_version() < 700) {
        SKIP("6.3 by itself ends the process");
    }
    FDBTransaction *tr = begin();
    assert_fails(estimate(tr, key("b"), key("a")), ERROR_INVERTED_RANGE);
    fdb_transaction_destroy(tr);
}

static FDBFuture *split(FDBTransaction *tr, struct bytes first, struct bytes end, int64_t chunk) {
    return fdb_transaction_get_range_split_points(tr, first.data, first.size, end.data, end.size,
                                                  chunk);
}

static void split_points_include_both_ends(void **state) {
    SINCE(700);
    FDBTransaction *tr = begin();
    for (int i = 0; i < 200; i++) {
        put(tr, key_bytes(repeat((uint8_t)i, 1)), repeat('v', 5000));
    }
    commit(tr);
    fdb_transaction_reset(tr);
    FDBFuture *future = split(tr, key(""), prefix_end(), 100000);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    const FDBKey *points = NULL;
    int count = 0;
    assert_int_equal(fdb_future_get_key_array(future, &points, &count), 0);
    assert_true(count >= 2);
    assert_bytes(raw(points[0].key, points[0].key_length), key(""));
    assert_bytes(raw(points[count - 1].key, points[count - 1].key_length), prefix_end());
    for (int i = 1; i < count; i++) {
        int shorter = points[i - 1].key_length < points[i].key_length ? points[i - 1].key_length
                                                                      : points[i].key_length;
        int order = memcmp(points[i - 1].key, points[i].key, (size_t)shorter);
        assert_true(order < 0 || (order == 0 && points[i - 1].key_length < points[i].key_length));
    }
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void split_points_check_their_range(void **state) {
    SINCE(700);
    FDBTransaction *tr = begin();
    assert_fails(split(tr, key("b"), key("a"), 1000), ERROR_INVERTED_RANGE);
    assert_fails(split(tr, key("a"), LITERAL("\xff\x01"), 1000), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_destroy(tr);
}

static void a_key_has_addresses(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    FDBFuture *future =
        fdb_transaction_get_addresses_for_key(tr, key("a").data, key("a").size);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    const char **addresses = NULL;
    int count = 0;
    assert_int_equal(fdb_future_get_string_array(future, &addresses, &count), 0);
    assert_true(count >= 1);
    assert_true(strlen(addresses[0]) > 0);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void change_metadata_version(void) {
    FDBTransaction *tr = begin();
    fdb_error_t error;
    do {
        mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, LITERAL(METADATA_VERSION),
               repeat(0, 14));
        error = commit_error(tr);
    } while (error && !future_error(fdb_transaction_on_error(tr, error)));
    assert_int_equal(error, 0);
    fdb_transaction_destroy(tr);
}

static void metadata_version_changes_when_told(void **state) {
    (void)state;
    change_metadata_version();
    struct value before = load(LITERAL(METADATA_VERSION));
    assert_true(before.present);
    assert_int_equal(before.bytes.size, VERSIONSTAMP_BYTES);
    store_text("a", "1");
    assert_value(load(LITERAL(METADATA_VERSION)), before.bytes);
    change_metadata_version();
    struct value after = load(LITERAL(METADATA_VERSION));
    assert_int_equal(after.bytes.size, VERSIONSTAMP_BYTES);
    assert_true(memcmp(before.bytes.data, after.bytes.data, VERSIONSTAMP_BYTES) < 0);
}

static void metadata_version_takes_nothing_else(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, LITERAL(METADATA_VERSION), text("x"));
    assert_int_equal(commit_error(tr), ERROR_CLIENT_INVALID_OPERATION);
    fdb_transaction_reset(tr);
    mutate(tr, FDB_MUTATION_TYPE_ADD, LITERAL(METADATA_VERSION), repeat(0, 14));
    assert_int_equal(commit_error(tr), ERROR_CLIENT_INVALID_OPERATION);
    fdb_transaction_reset(tr);
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, LITERAL(METADATA_VERSION),
           repeat('x', 14));
    assert_int_equal(commit_error(tr), ERROR_CLIENT_INVALID_OPERATION);
    fdb_transaction_destroy(tr);
}

static void metadata_version_is_unreadable_once_changed(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, LITERAL(METADATA_VERSION),
           repeat(0, 14));
    assert_fails(get(tr, LITERAL(METADATA_VERSION)), ERROR_ACCESSED_UNREADABLE);
    fdb_transaction_destroy(tr);
}

static void metadata_version_conflicts(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_ready(get(tr, LITERAL(METADATA_VERSION)));
    change_metadata_version();
    put(tr, key("a"), text("x"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(tr);
}

static fdb_error_t system_write_error(FDBTransactionOption option) {
    FDBTransaction *tr = begin();
    if (option) {
        set_option(tr, option);
    }
    put(tr, LITERAL(SYSTEM_KEY), text("x"));
    fdb_error_t error = commit_error(tr);
    fdb_transaction_destroy(tr);
    return error;
}

static void system_keys_are_written_with_the_option_only(void **state) {
    (void)state;
    assert_int_equal(system_write_error((FDBTransactionOption)0), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_int_equal(system_write_error(FDB_TR_OPTION_READ_SYSTEM_KEYS),
                     ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_ACCESS_SYSTEM_KEYS);
    put(tr, LITERAL(SYSTEM_KEY), text("x"));
    assert_value(future_value(get(tr, LITERAL(SYSTEM_KEY))), text("x"));
    commit(tr);
    fdb_transaction_reset(tr);
    set_option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS);
    assert_value(future_value(get(tr, LITERAL(SYSTEM_KEY))), text("x"));
    struct rows rows = read_range(tr, span(LITERAL(SYSTEM_KEY), LITERAL(SYSTEM_KEY "\x01")));
    assert_int_equal(rows.count, 1);
    fdb_transaction_reset(tr);
    set_option(tr, FDB_TR_OPTION_ACCESS_SYSTEM_KEYS);
    erase(tr, LITERAL(SYSTEM_KEY));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void every_kind_of_write_checks_system_keys(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    erase(tr, LITERAL(SYSTEM_KEY));
    assert_int_equal(commit_error(tr), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_reset(tr);
    erase_range(tr, key("a"), LITERAL("\xff\x01"));
    assert_int_equal(commit_error(tr), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_reset(tr);
    mutate(tr, FDB_MUTATION_TYPE_ADD, LITERAL(SYSTEM_KEY), text("x"));
    assert_int_equal(commit_error(tr), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_reset(tr);
    erase_range(tr, key("a"), key("b"));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void ranges_end_before_the_system_keys(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct range range = span(LITERAL("\xfe\xff\xff\xff"), LITERAL("\xff"));
    assert_int_equal(read_range(tr, range).count, 0);
    range.end = (struct selector){LITERAL("\xff"), true, 10};
    assert_int_equal(read_range(tr, range).count, 0);
    fdb_transaction_destroy(tr);
}

static void busyness_and_protocol_can_be_asked(void **state) {
    SINCE(700);
    assert_true(fdb_database_get_main_thread_busyness(test_database) >= 0);
    FDBFuture *future = fdb_database_get_server_protocol(test_database, 0);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    uint64_t protocol = 0;
    assert_int_equal(fdb_future_get_uint64(future, &protocol), 0);
    assert_true(protocol != 0);
    fdb_future_destroy(future);
}

static void client_status_is_json(void **state) {
    (void)state;
    if (fdb_get_max_api_version() < 730) {
        SKIP("the function came with 7.3");
    }
    FDBFuture *future = fdb_database_get_client_status(test_database);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    const uint8_t *data = NULL;
    int size = 0;
    fdb_error_t error = fdb_future_get_key(future, &data, &size);
    /* The official library has it only behind its multi-version layer. */
    if (!error) {
        assert_true(size >= 2);
        assert_int_equal(data[0], '{');
    }
    fdb_future_destroy(future);
}

int group_metadata(void) {
    const struct CMUnitTest tests[] = {
        TEST(estimated_size_of_a_range),
        TEST(estimated_size_needs_an_ordered_range),
        TEST(split_points_include_both_ends),
        TEST(split_points_check_their_range),
        TEST(a_key_has_addresses),
        TEST(metadata_version_changes_when_told),
        TEST(metadata_version_takes_nothing_else),
        TEST(metadata_version_is_unreadable_once_changed),
        TEST(metadata_version_conflicts),
        TEST(system_keys_are_written_with_the_option_only),
        TEST(every_kind_of_write_checks_system_keys),
        TEST(ranges_end_before_the_system_keys),
        TEST(busyness_and_protocol_can_be_asked),
        TEST(client_status_is_json),
    };
    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
