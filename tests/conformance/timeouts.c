/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timeouts. Tests wait for a timeout to have passed or give far more time than is needed; none
 * depends on how fast the machine is.
 */
#include "support.h"

enum { SHORT_MS = 40, LONG_ENOUGH_MS = 250, NEVER_MS = 100000 };

static void everything_fails_after_the_timeout(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, SHORT_MS);
    put(tr, key("a"), text("x"));
    sleep_milliseconds(LONG_ENOUGH_MS);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TIMED_OUT);
    assert_fails(get_range(tr, all()), ERROR_TRANSACTION_TIMED_OUT);
    assert_fails(get_key(tr, key("a"), false, 1), ERROR_TRANSACTION_TIMED_OUT);
    assert_fails(fdb_transaction_get_read_version(tr), ERROR_TRANSACTION_TIMED_OUT);
    assert_fails(fdb_transaction_watch(tr, key("a").data, key("a").size),
                 ERROR_TRANSACTION_TIMED_OUT);
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_TIMED_OUT);
    assert_fails(fdb_transaction_on_error(tr, 1020), ERROR_TRANSACTION_TIMED_OUT);
    fdb_transaction_destroy(tr);
    assert_absent(load(key("a")));
}

static void outstanding_operations_are_ended(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, SHORT_MS);
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    assert_false(fdb_future_is_ready(stamp));
    assert_fails(stamp, ERROR_TRANSACTION_TIMED_OUT);
    fdb_transaction_destroy(tr);
}

static void backoff_is_ended(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, LONG_ENOUGH_MS);
    fdb_error_t error = 0;
    while (!error) {
        error = future_error(fdb_transaction_on_error(tr, 1020));
    }
    assert_int_equal(error, ERROR_TRANSACTION_TIMED_OUT);
    fdb_transaction_destroy(tr);
}

static void reset_gives_the_transaction_back(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, SHORT_MS);
    sleep_milliseconds(LONG_ENOUGH_MS);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TIMED_OUT);
    fdb_transaction_reset(tr);
    sleep_milliseconds(LONG_ENOUGH_MS);
    assert_ready(get(tr, key("a")));
    fdb_transaction_destroy(tr);
}

static void timeout_goes_on_through_retries(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, LONG_ENOUGH_MS);
    set_option_int(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 0);
    assert_ready(fdb_transaction_on_error(tr, 1020));
    sleep_milliseconds(LONG_ENOUGH_MS * 2);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TIMED_OUT);
    fdb_transaction_destroy(tr);
}

static void zero_turns_the_timeout_off(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, LONG_ENOUGH_MS);
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, 0);
    sleep_milliseconds(LONG_ENOUGH_MS * 2);
    assert_ready(get(tr, key("a")));
    fdb_transaction_destroy(tr);
}

static void the_last_timeout_counts_from_the_start(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, NEVER_MS);
    assert_ready(get(tr, key("a")));
    sleep_milliseconds(LONG_ENOUGH_MS);
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, LONG_ENOUGH_MS / 2);
    sleep_milliseconds(LONG_ENOUGH_MS);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TIMED_OUT);
    fdb_transaction_destroy(tr);
}

static void database_default_applies_and_survives_reset(void **state) {
    (void)state;
    FDBDatabase *database = open_again();
    set_database_option_int(database, FDB_DB_OPTION_TRANSACTION_TIMEOUT, SHORT_MS);
    FDBTransaction *tr = begin_on(database);
    for (int round = 0; round < 2; round++) {
        sleep_milliseconds(LONG_ENOUGH_MS);
        assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TIMED_OUT);
        fdb_transaction_reset(tr);
    }
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, 0);
    sleep_milliseconds(LONG_ENOUGH_MS);
    assert_ready(get(tr, key("a")));
    fdb_transaction_destroy(tr);
    tr = begin_on(database);
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, NEVER_MS);
    sleep_milliseconds(LONG_ENOUGH_MS);
    assert_ready(get(tr, key("a")));
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void a_committed_watch_is_not_timed_out(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, LONG_ENOUGH_MS);
    FDBFuture *watch = fdb_transaction_watch(tr, key("a").data, key("a").size);
    commit(tr);
    sleep_milliseconds(LONG_ENOUGH_MS * 2);
    assert_false(fdb_future_is_ready(watch));
    store_text("a", "x");
    assert_ready(watch);
    fdb_transaction_destroy(tr);
}

int group_timeouts(void) {
    const struct CMUnitTest tests[] = {
        TEST(everything_fails_after_the_timeout),
        TEST(outstanding_operations_are_ended),
        TEST(backoff_is_ended),
        TEST(reset_gives_the_transaction_back),
        TEST(timeout_goes_on_through_retries),
        TEST(zero_turns_the_timeout_off),
        TEST(the_last_timeout_counts_from_the_start),
        TEST(database_default_applies_and_survives_reset),
        TEST(a_committed_watch_is_not_timed_out),
    };
    return cmocka_run_group_tests_name("timeouts", tests, NULL, NULL);
}
