/* SPDX-License-Identifier: Apache-2.0 */
/* Options by number: which exist, what value each takes, what is refused. */
#include "support.h"

#include <stdlib.h>

/* Transaction options that take nothing; 1101 is left out, it needs a client setting. */
static const int options_since_700[] = {303, 304, 504, 505, 507, 508, 509, 510, 511, 714, 900, 1000, 1101, 1102, 2000, 4000, 4001};
static const int database_options_since_700[] = {506, 701, 702, 800, 900};

static bool among(int option, const int *options, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (options[i] == option) {
            return true;
        }
    }
    return false;
}

/* Whether there must be such an option. */
static bool is_there(int option) {
    size_t count = sizeof options_since_700 / sizeof options_since_700[0];
    return run_is_since(700) || !among(option, options_since_700, count);
}

static bool database_has(int option) {
    size_t count = sizeof database_options_since_700 / sizeof database_options_since_700[0];
    return run_is_since(700) || !among(option, database_options_since_700, count);
}

static const int plain_options[] = {10,  20,  21,  23,  30,  40,  50,  51,  52,  110, 120,
                                    130, 200, 201, 300, 301, 302, 303, 304, 400, 406, 505,
                                    507, 508, 509, 510, 511, 600, 601, 700, 701, 702, 710,
                                    711, 712, 713, 714, 1000, 1100, 1102, 4000};

static void every_plain_option_is_known(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plain_options / sizeof plain_options[0]; i++) {
        FDBTransaction *tr = begin();
        fdb_error_t error = fdb_transaction_set_option(
            tr, (FDBTransactionOption)plain_options[i], NULL, 0);
        if (error && is_there(plain_options[i])) {
            fail_msg("transaction option %d: %d", plain_options[i], error);
        }
        fdb_transaction_destroy(tr);
    }
}

static void options_that_take_nothing_refuse_a_value(void **state) {
    (void)state;
    /* Those that the official client checks. */
    static const int checked[] = {10, 20, 23, 30, 51, 52, 200, 201, 301, 302, 600, 601, 700, 701,
                                  702, 712, 713, 714, 1000, 1100};
    for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++) {
        if (!is_there(checked[i])) {
            continue;
        }
        fdb_error_t error = option_error((FDBTransactionOption)checked[i], "x", 1);
        if (error != ERROR_INVALID_OPTION_VALUE) {
            fail_msg("transaction option %d with a value: %d", checked[i], error);
        }
        assert_int_equal(option_error((FDBTransactionOption)checked[i], "", 0), 0);
    }
}

static void number_options_take_eight_bytes(void **state) {
    (void)state;
    static const int options[] = {405, 500, 501, 502, 503, 4001};
    struct bytes number = little_endian(100000, 8);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        FDBTransactionOption option = (FDBTransactionOption)options[i];
        if (!is_there(option)) {
            continue;
        }
        assert_int_equal(option_error(option, number.data, 8), 0);
        assert_int_equal(option_error(option, number.data, 4), ERROR_INVALID_OPTION_VALUE);
        assert_int_equal(option_error(option, number.data, 7), ERROR_INVALID_OPTION_VALUE);
        assert_int_equal(option_error(option, "", 0), ERROR_INVALID_OPTION_VALUE);
        assert_int_equal(option_error(option, NULL, 0), ERROR_INVALID_OPTION_VALUE);
    }
}

static void check_bounds(FDBTransactionOption option, int64_t lowest, int64_t highest) {
    const int64_t legal[] = {lowest, lowest + 1, highest - 1, highest};
    const int64_t illegal[] = {lowest - 1, highest + 1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        FDBTransaction *tr = begin();
        set_option_int(tr, option, legal[i]);
        fdb_transaction_destroy(tr);
        struct bytes encoded = little_endian((uint64_t)illegal[i], 8);
        fdb_error_t error = option_error(option, encoded.data, 8);
        if (error != ERROR_INVALID_OPTION_VALUE) {
            fail_msg("option %d with %lld: %d", option, (long long)illegal[i], error);
        }
    }
}

static void numbers_have_bounds(void **state) {
    (void)state;
    check_bounds(FDB_TR_OPTION_TIMEOUT, 0, INT32_MAX);
    check_bounds(FDB_TR_OPTION_RETRY_LIMIT, -1, INT32_MAX);
    check_bounds(FDB_TR_OPTION_MAX_RETRY_DELAY, 0, INT32_MAX);
    check_bounds(FDB_TR_OPTION_SIZE_LIMIT, 32, TRANSACTION_BYTES_MAX);
}

static void string_options(void **state) {
    (void)state;
    assert_int_equal(option_error(FDB_TR_OPTION_DEBUG_RETRY_LOGGING, "name", 4), 0);
    assert_int_equal(option_error(FDB_TR_OPTION_DEBUG_RETRY_LOGGING, NULL, 0), 0);
    assert_int_equal(option_error(FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER, "name", 4), 0);
    struct bytes hundred = repeat('n', 101);
    assert_int_equal(
        option_error(FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER, hundred.data, 100), 0);
    assert_int_equal(option_error(FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER, hundred.data, 101),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(option_error(FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER, "", 0),
                     ERROR_INVALID_OPTION_VALUE);
    if (!run_is_since(700)) {
        return;
    }
    assert_int_equal(option_error(FDB_TR_OPTION_AUTHORIZATION_TOKEN, "token", 5), 0);
    struct bytes parent = joined(LITERAL("\x00\x00\x00\x73\xb0\x00\xdb\x0f"), repeat(1, 25));
    assert_int_equal(option_error(FDB_TR_OPTION_SPAN_PARENT, parent.data, 32),
                     ERROR_INVALID_OPTION_VALUE);
}

static void logging_needs_an_identifier(void **state) {
    (void)state;
    assert_int_equal(option_error(FDB_TR_OPTION_LOG_TRANSACTION, NULL, 0),
                     ERROR_CLIENT_INVALID_OPERATION);
    FDBTransaction *tr = begin();
    assert_int_equal(fdb_transaction_set_option(tr, FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER,
                                                (const uint8_t *)"name", 4),
                     0);
    set_option(tr, FDB_TR_OPTION_LOG_TRANSACTION);
    assert_ready(fdb_transaction_get_read_version(tr));
    fdb_transaction_destroy(tr);
}

static void tags_are_limited(void **state) {
    (void)state;
    const char *sixteen = "0123456789abcdef";
    assert_int_equal(option_error(FDB_TR_OPTION_TAG, sixteen, 16), 0);
    assert_int_equal(option_error(FDB_TR_OPTION_AUTO_THROTTLE_TAG, sixteen, 16), 0);
    assert_int_equal(option_error(FDB_TR_OPTION_TAG, "0123456789abcdefg", 17), ERROR_TAG_TOO_LONG);
    FDBTransaction *tr = begin();
    for (int i = 0; i < 5; i++) {
        uint8_t tag = (uint8_t)('a' + i);
        assert_int_equal(fdb_transaction_set_option(tr, FDB_TR_OPTION_TAG, &tag, 1), 0);
    }
    fdb_error_t error = fdb_transaction_set_option(tr, FDB_TR_OPTION_TAG, (const uint8_t *)"f", 1);
    if (!error) {
        error = future_error(fdb_transaction_get_read_version(tr));
    }
    assert_int_equal(error, ERROR_TOO_MANY_TAGS);
    fdb_transaction_destroy(tr);
}

static void idempotency_id_has_a_length(void **state) {
    (void)state;
    if (!run_is_since(700)) {
        SKIP("the option came with 7");
    }
    struct bytes id = repeat('i', 256);
    assert_int_equal(option_error(FDB_TR_OPTION_IDEMPOTENCY_ID, id.data, 15), ERROR_INVALID_OPTION);
    assert_int_equal(option_error(FDB_TR_OPTION_IDEMPOTENCY_ID, id.data, 16), 0);
    assert_int_equal(option_error(FDB_TR_OPTION_IDEMPOTENCY_ID, id.data, 255), 0);
    assert_int_equal(option_error(FDB_TR_OPTION_IDEMPOTENCY_ID, id.data, 256),
                     ERROR_INVALID_OPTION);
}

static void unknown_transaction_options_are_refused(void **state) {
    (void)state;
    static const int unknown[] = {0, 1, -1, 9, 11, 22, 31, 53, 100, 305, 407, 499, 506, 512,
                                  602, 703, 715, 802, 901, 1001, 1999, 2001, 3999, 4002, 99999};
    FDBTransaction *tr = begin();
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        fdb_error_t error =
            fdb_transaction_set_option(tr, (FDBTransactionOption)unknown[i], NULL, 0);
        if (error != ERROR_INVALID_OPTION) {
            fail_msg("transaction option %d: %d", unknown[i], error);
        }
    }
    assert_ready(fdb_transaction_get_read_version(tr));
    fdb_transaction_destroy(tr);
}

static void unknown_database_options_are_refused(void **state) {
    (void)state;
    static const int unknown[] = {0, 1, -1, 11, 19, 23, 28, 404, 406, 499, 507, 699, 703, 801, 901};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        fdb_error_t error =
            fdb_database_set_option(test_database, (FDBDatabaseOption)unknown[i], NULL, 0);
        if (error != ERROR_INVALID_OPTION) {
            fail_msg("database option %d: %d", unknown[i], error);
        }
    }
    store_text("a", "still working");
}

static void every_database_option_is_known(void **state) {
    (void)state;
    static const int plain[] = {26, 27, 504, 505, 506, 700, 701, 702};
    static const int numbers[] = {10, 20, 405, 500, 501, 502, 503};
    FDBDatabase *database = open_again();
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        fdb_error_t error = fdb_database_set_option(database, (FDBDatabaseOption)plain[i], NULL, 0);
        assert_true(!error || !database_has(plain[i]));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        set_database_option_int(database, (FDBDatabaseOption)numbers[i], 100000);
    }
    if (database_has(FDB_DB_OPTION_TEST_CAUSAL_READ_RISKY)) {
        set_database_option_int(database, FDB_DB_OPTION_TEST_CAUSAL_READ_RISKY, 50);
    }
    assert_int_equal(fdb_database_set_option(database, FDB_DB_OPTION_MACHINE_ID,
                                             (const uint8_t *)"0a", 2),
                     0);
    assert_int_equal(fdb_database_set_option(database, FDB_DB_OPTION_DATACENTER_ID,
                                             (const uint8_t *)"dc", 2),
                     0);
    FDBTransaction *tr = begin_on(database);
    put(tr, key("a"), text("x"));
    commit(tr);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

/* From the call, or from the next use of the database. */
static fdb_error_t database_option_error(FDBDatabaseOption option, struct bytes value) {
    FDBDatabase *database = open_again();
    fdb_error_t error = fdb_database_set_option(database, option, value.data, value.size);
    if (!error) {
        FDBTransaction *tr = begin_on(database);
        error = future_error(fdb_transaction_get_read_version(tr));
        fdb_transaction_destroy(tr);
    }
    fdb_database_destroy(database);
    return error;
}

static void database_numbers_are_checked(void **state) {
    (void)state;
    assert_int_equal(database_option_error(FDB_DB_OPTION_MAX_WATCHES, little_endian(1000001, 8)),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(
        database_option_error(FDB_DB_OPTION_MAX_WATCHES, little_endian((uint64_t)-1, 8)),
        ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(database_option_error(FDB_DB_OPTION_MAX_WATCHES, little_endian(5, 4)),
                     ERROR_INVALID_OPTION_VALUE);
    assert_int_equal(database_option_error(FDB_DB_OPTION_LOCATION_CACHE_SIZE, text("x")),
                     ERROR_INVALID_OPTION_VALUE);
    if (database_has(FDB_DB_OPTION_TEST_CAUSAL_READ_RISKY)) {
        assert_int_equal(
            database_option_error(FDB_DB_OPTION_TEST_CAUSAL_READ_RISKY, little_endian(101, 8)),
            ERROR_INVALID_OPTION_VALUE);
    }
    assert_int_equal(database_option_error(FDB_DB_OPTION_MAX_WATCHES, little_endian(5, 8)), 0);
}

static void network_options_after_the_start(void **state) {
    (void)state;
    assert_int_equal(fdb_network_set_option((FDBNetworkOption)9999, NULL, 0),
                     ERROR_INVALID_OPTION);
    assert_int_equal(fdb_network_set_option((FDBNetworkOption)0, NULL, 0), ERROR_INVALID_OPTION);
    assert_int_equal(fdb_network_set_option((FDBNetworkOption)-7, NULL, 0), ERROR_INVALID_OPTION);
    assert_int_equal(fdb_network_set_option(FDB_NET_OPTION_TRACE_LOG_GROUP,
                                            (const uint8_t *)"group", 5),
                     0);
}

int group_options(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_plain_option_is_known),
        TEST(options_that_take_nothing_refuse_a_value),
        TEST(number_options_take_eight_bytes),
        TEST(numbers_have_bounds),
        TEST(string_options),
        TEST(logging_needs_an_identifier),
        TEST(tags_are_limited),
        TEST(idempotency_id_has_a_length),
        TEST(unknown_transaction_options_are_refused),
        TEST(unknown_database_options_are_refused),
        TEST(every_database_option_is_known),
        TEST(database_numbers_are_checked),
        TEST(network_options_after_the_start),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
