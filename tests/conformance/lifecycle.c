/* SPDX-License-Identifier: Apache-2.0 */
/* Cancel, reset, destroy, and using a transaction during or after its commit. */
#include "support.h"

static void cancel_fails_everything(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("x"));
    fdb_transaction_cancel(tr);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_CANCELLED);
    assert_fails(get_range(tr, all()), ERROR_TRANSACTION_CANCELLED);
    assert_fails(get_key(tr, key("a"), false, 1), ERROR_TRANSACTION_CANCELLED);
    assert_fails(fdb_transaction_get_read_version(tr), ERROR_TRANSACTION_CANCELLED);
    put(tr, key("b"), text("x"));
    erase(tr, key("b"));
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_CANCELLED);
    fdb_transaction_cancel(tr);
    fdb_transaction_destroy(tr);
    assert_absent(load(key("a")));
}

static void cancel_ends_what_is_outstanding(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    fdb_transaction_cancel(tr);
    assert_fails(stamp, ERROR_TRANSACTION_CANCELLED);
    fdb_transaction_destroy(tr);
}

static void reset_ends_what_is_outstanding(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    fdb_transaction_reset(tr);
    assert_true(becomes_ready(stamp));
    assert_int_not_equal(fdb_future_get_error(stamp), 0);
    fdb_future_destroy(stamp);
    fdb_transaction_destroy(tr);
}

static void destroy_ends_what_is_outstanding(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    fdb_transaction_destroy(tr);
    assert_true(becomes_ready(stamp));
    assert_int_not_equal(fdb_future_get_error(stamp), 0);
    fdb_future_destroy(stamp);
}

static void reset_revives_a_cancelled_transaction(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("lost"));
    fdb_transaction_cancel(tr);
    fdb_transaction_reset(tr);
    assert_absent(future_value(get(tr, key("a"))));
    put(tr, key("b"), text("kept"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_absent(load(key("a")));
    assert_value(load(key("b")), text("kept"));
}

static void reset_forgets_writes_reads_and_options(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_ACCESS_SYSTEM_KEYS);
    assert_ready(get(tr, key("a")));
    put(tr, key("b"), text("lost"));
    fdb_transaction_reset(tr);
    store_text("a", "2");
    put(tr, key("c"), text("kept"));
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "a=2 c=kept");
    assert_fails(get(tr, LITERAL("\xff/x")), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_destroy(tr);
}

static void after_a_commit_the_transaction_must_be_reset(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("1"));
    commit(tr);
    assert_fails(get(tr, key("a")), ERROR_USED_DURING_COMMIT);
    assert_fails(get_range(tr, all()), ERROR_USED_DURING_COMMIT);
    assert_fails(get_key(tr, key("a"), false, 1), ERROR_USED_DURING_COMMIT);
    assert_int_equal(commit_error(tr), ERROR_USED_DURING_COMMIT);
    fdb_transaction_reset(tr);
    assert_value(future_value(get(tr, key("a"))), text("1"));
    fdb_transaction_destroy(tr);
}

static void writes_after_a_commit_do_nothing(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("1"));
    commit(tr);
    put(tr, key("a"), text("2"));
    erase_range(tr, key(""), key("~"));
    assert_int_equal(commit_error(tr), ERROR_USED_DURING_COMMIT);
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), text("1"));
}

static void use_during_a_commit_is_refused(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("1"));
    FDBFuture *commit_future = fdb_transaction_commit(tr);
    assert_fails(get(tr, key("a")), ERROR_USED_DURING_COMMIT);
    /* The commit fails too, unless it was over already. */
    fdb_error_t error = future_error(commit_future);
    assert_true(error == 0 || error == ERROR_USED_DURING_COMMIT);
    fdb_transaction_destroy(tr);
}

static void protection_can_be_turned_off(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        FDBTransaction *tr = begin();
        set_option(tr, FDB_TR_OPTION_USED_DURING_COMMIT_PROTECTION_DISABLE);
        put(tr, key("a"), little_endian((uint64_t)i, 4));
        FDBFuture *commit_future = fdb_transaction_commit(tr);
        assert_fails(get(tr, key("a")), ERROR_USED_DURING_COMMIT);
        assert_ready(commit_future);
        fdb_transaction_destroy(tr);
        assert_value(load(key("a")), little_endian((uint64_t)i, 4));
    }
}

static void committed_transaction_can_be_reused_many_times(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    for (int i = 0; i < 30; i++) {
        put(tr, key("a"), little_endian((uint64_t)i, 4));
        commit(tr);
        fdb_transaction_reset(tr);
        assert_value(future_value(get(tr, key("a"))), little_endian((uint64_t)i, 4));
    }
    fdb_transaction_destroy(tr);
}

static void commit_outlives_its_transaction(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        FDBTransaction *tr = begin();
        put(tr, key("a"), little_endian((uint64_t)i, 4));
        FDBFuture *commit_future = fdb_transaction_commit(tr);
        fdb_transaction_destroy(tr);
        /* It ends, one way or the other. */
        fdb_error_t error = future_error(commit_future);
        assert_true(error == 0 || error == ERROR_TRANSACTION_CANCELLED);
        if (!error) {
            assert_value(load(key("a")), little_endian((uint64_t)i, 4));
        }
    }
}

static void transactions_outlive_their_database_handle(void **state) {
    (void)state;
    FDBDatabase *database = open_again();
    FDBTransaction *tr = begin_on(database);
    fdb_database_destroy(database);
    put(tr, key("a"), text("1"));
    assert_value(future_value(get(tr, key("a"))), text("1"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), text("1"));
}

static void two_handles_are_one_database(void **state) {
    (void)state;
    FDBDatabase *database = open_again();
    store_text("a", "1");
    FDBTransaction *tr = begin_on(database);
    assert_value(future_value(get(tr, key("a"))), text("1"));
    put(tr, key("b"), text("2"));
    commit(tr);
    assert_value(load(key("b")), text("2"));
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void unused_transactions_cost_nothing(void **state) {
    (void)state;
    FDBTransaction *tr[500];
    for (int i = 0; i < 500; i++) {
        tr[i] = begin();
    }
    for (int i = 0; i < 500; i++) {
        fdb_transaction_destroy(tr[i]);
    }
}

static void approximate_size_follows_the_writes(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_int_equal(future_int64(fdb_transaction_get_approximate_size(tr)), 0);
    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        put(tr, key((char[]){(char)('a' + i), 0}), repeat('v', 1000));
        int64_t size = future_int64(fdb_transaction_get_approximate_size(tr));
        assert_true(size >= last + 1000 + key("a").size);
        assert_true(size <= last + 1000 + 3 * key("a").size + 300);
        last = size;
    }
    erase_range(tr, key("x"), key("y"));
    int64_t size = future_int64(fdb_transaction_get_approximate_size(tr));
    assert_true(size >= last + 2 * key("x").size);
    last = size;
    assert_ready(get(tr, key("z")));
    assert_true(future_int64(fdb_transaction_get_approximate_size(tr)) > last);
    fdb_transaction_reset(tr);
    assert_int_equal(future_int64(fdb_transaction_get_approximate_size(tr)), 0);
    fdb_transaction_destroy(tr);
}

static void cost_and_throttling_can_be_asked(void **state) {
    SINCE(730);
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("x"));
    assert_true(future_int64(fdb_transaction_get_total_cost(tr)) >= 0);
    FDBFuture *future = fdb_transaction_get_tag_throttled_duration(tr);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    double seconds = -1;
    assert_int_equal(fdb_future_get_double(future, &seconds), 0);
    assert_true(seconds >= 0);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

int group_lifecycle(void) {
    const struct CMUnitTest tests[] = {
        TEST(cancel_fails_everything),
        TEST(cancel_ends_what_is_outstanding),
        TEST(reset_ends_what_is_outstanding),
        TEST(destroy_ends_what_is_outstanding),
        TEST(reset_revives_a_cancelled_transaction),
        TEST(reset_forgets_writes_reads_and_options),
        TEST(after_a_commit_the_transaction_must_be_reset),
        TEST(writes_after_a_commit_do_nothing),
        TEST(use_during_a_commit_is_refused),
        TEST(protection_can_be_turned_off),
        TEST(committed_transaction_can_be_reused_many_times),
        TEST(commit_outlives_its_transaction),
        TEST(transactions_outlive_their_database_handle),
        TEST(two_handles_are_one_database),
        TEST(unused_transactions_cost_nothing),
        TEST(approximate_size_follows_the_writes),
        TEST(cost_and_throttling_can_be_asked),
    };
    return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
