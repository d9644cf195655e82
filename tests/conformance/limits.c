/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes: what is too large, when it is said, and that nothing of the transaction is applied. */
#include "support.h"

static struct bytes long_key(int size) {
    struct bytes start = key("long");
    return joined(start, repeat('k', size - start.size));
}

/* The first use after the write says the error, so does the commit, and nothing is written. */
static void check_refused(transaction_step step, fdb_error_t error) {
    FDBTransaction *tr = begin();
    put(tr, key("innocent"), text("x"));
    step(tr);
    put(tr, key("innocent too"), text("x"));
    assert_fails(get(tr, key("innocent")), error);
    assert_int_equal(commit_error(tr), error);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "");
    fdb_transaction_reset(tr);
    step(tr);
    assert_int_equal(commit_error(tr), error);
    assert_fails(fdb_transaction_on_error(tr, error), error);
    fdb_transaction_destroy(tr);
}

static void set_long_key(FDBTransaction *tr) {
    put(tr, long_key(KEY_BYTES_MAX + 1), text("x"));
}

static void add_to_long_key(FDBTransaction *tr) {
    mutate(tr, FDB_MUTATION_TYPE_ADD, long_key(KEY_BYTES_MAX + 1), text("x"));
}

static void set_huge_key(FDBTransaction *tr) {
    put(tr, long_key(1000000), text("x"));
}

static void keys_are_limited(void **state) {
    (void)state;
    check_refused(set_long_key, ERROR_KEY_TOO_LARGE);
    check_refused(add_to_long_key, ERROR_KEY_TOO_LARGE);
    check_refused(set_huge_key, ERROR_KEY_TOO_LARGE);
}

static void set_long_value(FDBTransaction *tr) {
    put(tr, key("a"), repeat('v', VALUE_BYTES_MAX + 1));
}

static void add_long_operand(FDBTransaction *tr) {
    mutate(tr, FDB_MUTATION_TYPE_BIT_OR, key("a"), repeat('v', VALUE_BYTES_MAX + 1));
}

static void values_are_limited(void **state) {
    (void)state;
    check_refused(set_long_value, ERROR_VALUE_TOO_LARGE);
    check_refused(add_long_operand, ERROR_VALUE_TOO_LARGE);
}

static void set_long_value_without_ryw(FDBTransaction *tr) {
    (void)tr;
    fdb_transaction_reset(tr);
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    put(tr, key("a"), repeat('v', VALUE_BYTES_MAX + 1));
}

static void limits_hold_without_ryw(void **state) {
    (void)state;
    check_refused(set_long_value_without_ryw, ERROR_VALUE_TOO_LARGE);
}

static void the_largest_of_each_is_allowed(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, long_key(KEY_BYTES_MAX), repeat('v', VALUE_BYTES_MAX));
    mutate(tr, FDB_MUTATION_TYPE_BIT_OR, key("a"), repeat('v', VALUE_BYTES_MAX));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(long_key(KEY_BYTES_MAX)), repeat('v', VALUE_BYTES_MAX));
}

static void clearing_impossible_keys_is_fine(void **state) {
    (void)state;
    store_text("a", "1");
    store_text("m", "1");
    FDBTransaction *tr = begin();
    erase(tr, long_key(KEY_BYTES_MAX + 100));
    erase_range(tr, key("b"), long_key(KEY_BYTES_MAX + 100));
    erase_range(tr, long_key(KEY_BYTES_MAX + 100), key("z"));
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "a=1");
    fdb_transaction_destroy(tr);
}

static void conflict_ranges_with_impossible_keys_are_fine(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    add_conflict(tr, key("b"), long_key(KEY_BYTES_MAX + 100), FDB_CONFLICT_RANGE_TYPE_READ);
    add_conflict(tr, key("b"), long_key(KEY_BYTES_MAX + 100), FDB_CONFLICT_RANGE_TYPE_WRITE);
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void fill_with(FDBTransaction *tr, int64_t bytes) {
    struct bytes value = repeat('v', VALUE_BYTES_MAX);
    for (int i = 0; bytes > 0; i++) {
        int size = bytes < VALUE_BYTES_MAX ? (int)bytes : VALUE_BYTES_MAX;
        put(tr, key_bytes(repeat((uint8_t)(i + 1), 2)), raw(value.data, size));
        bytes -= size;
    }
}

static void a_transaction_is_limited(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fill_with(tr, TRANSACTION_BYTES_MAX + 1);
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_TOO_LARGE);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "");
    fdb_transaction_destroy(tr);
}

static void a_large_transaction_commits_as_a_whole(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fill_with(tr, TRANSACTION_BYTES_MAX - 200000);
    commit(tr);
    fdb_transaction_reset(tr);
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_EXACT;
    range.limit = 1000;
    assert_int_equal(read_range(tr, range).count, 98);
    fdb_transaction_destroy(tr);
}

static void overwriting_counts_the_last_value_only(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    for (int i = 0; i < 150; i++) {
        put(tr, key("same"), repeat((uint8_t)i, VALUE_BYTES_MAX));
    }
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("same")), repeat(149, VALUE_BYTES_MAX));
}

static void size_limit_option(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_SIZE_LIMIT, 1000);
    put(tr, key("a"), repeat('v', 200));
    commit(tr);
    fdb_transaction_reset(tr);
    set_option_int(tr, FDB_TR_OPTION_SIZE_LIMIT, 1000);
    put(tr, key("b"), repeat('v', 1001));
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_TOO_LARGE);
    fdb_transaction_reset(tr);
    put(tr, key("c"), repeat('v', 2000));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_absent(load(key("b")));
}

static void size_limit_counts_conflict_ranges(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_SIZE_LIMIT, 2000);
    add_conflict(tr, long_key(1500), key_after(long_key(1500)), FDB_CONFLICT_RANGE_TYPE_READ);
    put(tr, key("a"), text("x"));
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_TOO_LARGE);
    fdb_transaction_destroy(tr);
}

static void size_limit_as_database_default(void **state) {
    (void)state;
    FDBDatabase *database = open_again();
    set_database_option_int(database, FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT, 1000);
    FDBTransaction *tr = begin_on(database);
    for (int round = 0; round < 2; round++) {
        put(tr, key("b"), repeat('v', 1001));
        assert_int_equal(commit_error(tr), ERROR_TRANSACTION_TOO_LARGE);
        fdb_transaction_reset(tr);
    }
    assert_ready(fdb_transaction_on_error(tr, 1020));
    put(tr, key("b"), repeat('v', 1001));
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_TOO_LARGE);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

int group_limits(void) {
    const struct CMUnitTest tests[] = {
        TEST(keys_are_limited),
        TEST(values_are_limited),
        TEST(limits_hold_without_ryw),
        TEST(the_largest_of_each_is_allowed),
        TEST(clearing_impossible_keys_is_fine),
        TEST(conflict_ranges_with_impossible_keys_are_fine),
        TEST(a_transaction_is_limited),
        TEST(a_large_transaction_commits_as_a_whole),
        TEST(overwriting_counts_the_last_value_only),
        TEST(size_limit_option),
        TEST(size_limit_counts_conflict_ranges),
        TEST(size_limit_as_database_default),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
