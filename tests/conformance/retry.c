/* SPDX-License-Identifier: Apache-2.0 */
/* on_error: what it retries, what it keeps, what it forgets, and the limits on it. */
#include "support.h"

/* The last three came with 7. */
static const fdb_error_t retryable[] = {1007, 1009, 1020, 1021, 1037, 1038, 1039,
                                        1042, 1051, 1213, 1078, 1223, 1235};

static void every_retryable_error_is_retried(void **state) {
    (void)state;
    size_t count = sizeof retryable / sizeof retryable[0] - (run_is_since(700) ? 0 : 3);
    for (size_t i = 0; i < count; i++) {
        if (retryable[i] == 1039) {
            continue; /* the multi-version layer's own, see errors.c */
        }
        FDBTransaction *tr = begin();
        set_option_int(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 1);
        put(tr, key("a"), text("forgotten"));
        fdb_error_t error = future_error(fdb_transaction_on_error(tr, retryable[i]));
        if (error) {
            fail_msg("%d was not retried: %d", retryable[i], error);
        }
        assert_absent(future_value(get(tr, key("a"))));
        commit(tr);
        fdb_transaction_destroy(tr);
    }
    assert_absent(load(key("a")));
}

static void other_errors_come_back(void **state) {
    (void)state;
    static const fdb_error_t errors[] = {1004, 1025, 1031, 1032, 1036, 1101, 1500, 1510, 2000, 2002,
                                         2004, 2005, 2006, 2007, 2015, 2017, 2101, 2102, 2103, 4000,
                                         4100, 2108, 2210};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        FDBTransaction *tr = begin();
        assert_fails(fdb_transaction_on_error(tr, errors[i]), errors[i]);
        fdb_transaction_destroy(tr);
    }
}

static void success_is_not_an_error(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_fails(fdb_transaction_on_error(tr, 0), ERROR_CLIENT_INVALID_OPERATION);
    fdb_transaction_destroy(tr);
}

static void a_transaction_given_up_stays_so_until_reset(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_fails(fdb_transaction_on_error(tr, ERROR_TRANSACTION_TOO_LARGE),
                 ERROR_TRANSACTION_TOO_LARGE);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_CANCELLED);
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_CANCELLED);
    fdb_transaction_reset(tr);
    assert_ready(get(tr, key("a")));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void retry_takes_a_new_read_version(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    int64_t before = future_int64(fdb_transaction_get_read_version(tr));
    store_text("a", "1");
    assert_ready(fdb_transaction_on_error(tr, ERROR_NOT_COMMITTED));
    assert_true(future_int64(fdb_transaction_get_read_version(tr)) > before);
    assert_value(future_value(get(tr, key("a"))), text("1"));
    fdb_transaction_destroy(tr);
}

static void a_conflict_is_resolved_by_retrying(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    int tries = 0;
    fdb_error_t error;
    do {
        tries++;
        struct value value = future_value(get(tr, key("a")));
        if (tries == 1) {
            store_text("a", "2");
        }
        put(tr, key("copy"), value.bytes);
        error = commit_error(tr);
    } while (error && !future_error(fdb_transaction_on_error(tr, error)));
    assert_int_equal(tries, 2);
    fdb_transaction_destroy(tr);
    assert_value(load(key("copy")), text("2"));
}

static void retry_limit_is_kept(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 1);
    set_option_int(tr, FDB_TR_OPTION_RETRY_LIMIT, 2);
    assert_ready(fdb_transaction_on_error(tr, 1020));
    assert_ready(fdb_transaction_on_error(tr, 1007));
    assert_fails(fdb_transaction_on_error(tr, 1021), 1021);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_CANCELLED);
    fdb_transaction_reset(tr);
    for (int i = 0; i < 4; i++) {
        assert_ready(fdb_transaction_on_error(tr, 1020));
    }
    fdb_transaction_destroy(tr);
}

static void retry_limit_of_zero_and_of_minus_one(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 1);
    set_option_int(tr, FDB_TR_OPTION_RETRY_LIMIT, 0);
    set_option_int(tr, FDB_TR_OPTION_RETRY_LIMIT, -1);
    assert_ready(fdb_transaction_on_error(tr, 1020));
    set_option_int(tr, FDB_TR_OPTION_RETRY_LIMIT, 0);
    assert_fails(fdb_transaction_on_error(tr, 1020), 1020);
    fdb_transaction_destroy(tr);
}

static void retry_limit_as_database_default(void **state) {
    (void)state;
    FDBDatabase *database = open_again();
    set_database_option_int(database, FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT, 1);
    set_database_option_int(database, FDB_DB_OPTION_TRANSACTION_MAX_RETRY_DELAY, 1);
    FDBTransaction *tr = begin_on(database);
    for (int round = 0; round < 2; round++) {
        assert_ready(fdb_transaction_on_error(tr, 1020));
        assert_fails(fdb_transaction_on_error(tr, 1020), 1020);
        fdb_transaction_reset(tr);
    }
    set_option_int(tr, FDB_TR_OPTION_RETRY_LIMIT, 3);
    for (int i = 0; i < 3; i++) {
        assert_ready(fdb_transaction_on_error(tr, 1020));
    }
    assert_fails(fdb_transaction_on_error(tr, 1020), 1020);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void a_short_maximum_delay_makes_many_retries_quick(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option_int(tr, FDB_TR_OPTION_MAX_RETRY_DELAY, 1);
    for (int i = 0; i < 200; i++) {
        assert_ready(fdb_transaction_on_error(tr, 1020));
    }
    fdb_transaction_destroy(tr);
}

static void retry_forgets_other_options(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS);
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE);
    set_option_int(tr, FDB_TR_OPTION_SIZE_LIMIT, 32);
    assert_ready(get(tr, LITERAL("\xff/x")));
    assert_ready(fdb_transaction_on_error(tr, 1020));
    assert_fails(get(tr, LITERAL("\xff/x")), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    put(tr, key("a"), text("a value that makes this larger than thirty-two bytes"));
    assert_true(future_value(get_snapshot(tr, key("a"))).present);
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void retry_clears_a_remembered_error(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), repeat('x', VALUE_BYTES_MAX + 1));
    assert_fails(get(tr, key("b")), ERROR_VALUE_TOO_LARGE);
    assert_ready(fdb_transaction_on_error(tr, 1020));
    assert_ready(get(tr, key("b")));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void on_error_of_a_cancelled_transaction(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fdb_transaction_cancel(tr);
    assert_fails(fdb_transaction_on_error(tr, 1020), ERROR_TRANSACTION_CANCELLED);
    fdb_transaction_destroy(tr);
}

static void outstanding_operations_end_with_a_retry(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    assert_ready(fdb_transaction_on_error(tr, 1020));
    assert_true(becomes_ready(stamp));
    assert_int_not_equal(fdb_future_get_error(stamp), 0);
    fdb_future_destroy(stamp);
    fdb_transaction_destroy(tr);
}

int group_retry(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_retryable_error_is_retried),
        TEST(other_errors_come_back),
        TEST(success_is_not_an_error),
        TEST(a_transaction_given_up_stays_so_until_reset),
        TEST(retry_takes_a_new_read_version),
        TEST(a_conflict_is_resolved_by_retrying),
        TEST(retry_limit_is_kept),
        TEST(retry_limit_of_zero_and_of_minus_one),
        TEST(retry_limit_as_database_default),
        TEST(a_short_maximum_delay_makes_many_retries_quick),
        TEST(retry_forgets_other_options),
        TEST(retry_clears_a_remembered_error),
        TEST(on_error_of_a_cancelled_transaction),
        TEST(outstanding_operations_end_with_a_retry),
    };
    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
