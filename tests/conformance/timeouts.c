/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timeouts. Tests wait for a timeout to have passed, or give far more time than is needed. Where
 * something must be done within a timeout that is then waited for, a busy machine may be too slow
 * for it: those begin anew, with a longer one. None depends on how fast the machine is.
 */
#include "support.h"

enum { SHORT_MS = 40, LONG_ENOUGH_MS = 250, LONGEST_MS = 64000, NEVER_MS = 100000 };

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
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    assert_false(fdb_future_is_ready(stamp));
    set_option_int(tr, FDB_TR_OPTION_TIMEOUT, SHORT_MS);
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
    fdb_error_t error = ERROR_TRANSACTION_TIMED_OUT;
    for (int limit_ms = LONG_ENOUGH_MS; error && limit_ms < LONGEST_MS; limit_ms *= 4) {
        FDBTransaction *tr = begin();
        set_option_int(tr, FDB_TR_OPTION_TIMEOUT, limit_ms);
        set_option_int(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 0);
        error = future_error(fdb_transaction_on_error(tr, 1020));
        sleep_milliseconds(limit_ms * 2);
        assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TIMED_OUT);
        fdb_transaction_destroy(tr);
    }
    assert_int_equal(error, 0);
}

static void zero_turns_the_timeout_off(void **state) {
    (void)state;
    fdb_error_t error = ERROR_TRANSACTION_TIMED_OUT;
    for (int limit_ms = LONG_ENOUGH_MS; error && limit_ms < LONGEST_MS; limit_ms *= 4) {
        FDBTransaction *tr = begin();
        set_option_int(tr, FDB_TR_OPTION_TIMEOUT, limit_ms);
        set_option_int(tr, FDB_TR_OPTION_TIMEOUT, 0);
        sleep_milliseconds(limit_ms * 2);
        error = future_error(get(tr, key("a")));
        fdb_transaction_destroy(tr);
    }
    assert_int_equal(error, 0);
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
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void a_transactions_own_timeout_counts(void **state) {
    (void)state;
    static const int own_ms[] = {0, NEVER_MS};
    FDBDatabase *database = open_again();
    for (int i = 0; i < 2; i++) {
        fdb_error_t error = ERROR_TRANSACTION_TIMED_OUT;
        for (int limit_ms = SHORT_MS; error && limit_ms < LONGEST_MS; limit_ms *= 4) {
            set_database_option_int(database, FDB_DB_OPTION_TRANSACTION_TIMEOUT, limit_ms);
            FDBTransaction *tr = begin_on(database);
            set_option_int(tr, FDB_TR_OPTION_TIMEOUT, own_ms[i]);
            sleep_milliseconds(limit_ms * 4);
            error = future_error(get(tr, key("a")));
            fdb_transaction_destroy(tr);
        }
        assert_int_equal(error, 0);
    }
    fdb_database_destroy(database);
}

static void a_committed_watch_is_not_timed_out(void **state) {
    (void)state;
    fdb_error_t error = ERROR_TRANSACTION_TIMED_OUT;
    for (int limit_ms = LONG_ENOUGH_MS; error && limit_ms < LONGEST_MS; limit_ms *= 4) {
        FDBTransaction *tr = begin();
        set_option_int(tr, FDB_TR_OPTION_TIMEOUT, limit_ms);
        FDBFuture *watch = fdb_transaction_watch(tr, key("a").data, key("a").size);
        error = commit_error(tr);
        if (!error) {
            sleep_milliseconds(limit_ms * 2);
            assert_false(fdb_future_is_ready(watch));
            store_text("a", "x");
            assert_int_equal(future_error(watch), 0);
        } else {
            fdb_future_destroy(watch);
        }
        fdb_transaction_destroy(tr);
    }
    assert_int_equal(error, 0);
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
        TEST(a_transactions_own_timeout_counts),
        TEST(a_committed_watch_is_not_timed_out),
    };
    return cmocka_run_group_tests_name("timeouts", tests, NULL, NULL);
}
