/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UNIT_TESTS: what a script cannot say. Options, watches, cancellation, retry limits, timeouts,
 * size limits. A broken promise ends the process; the conformance suite has the whole of it, this
 * is what the specification of the stack machine asks for.
 *
 * It leaves the keys under "unit_tests" behind, cleared, and the options of the database at their
 * defaults.
 */
#include "machine.h"

#include <stdio.h>

static const char KEY[] = "unit_tests";
enum { KEY_LENGTH = sizeof KEY - 1 };

enum {
    NOT_COMMITTED = 1020,
    TRANSACTION_CANCELLED = 1025,
    TRANSACTION_TIMED_OUT = 1031,
    TRANSACTION_TOO_LARGE = 2101
};

static void expect(fdb_error_t found, fdb_error_t expected, const char *what) {
    if (found != expected)
        fail("UNIT_TESTS: %s: %d (%s), not %d", what, found, keel_error_text(found), expected);
}

static FDBTransaction *create(FDBDatabase *database) {
    FDBTransaction *transaction;
    must(fdb_database_create_transaction(database, &transaction), "a transaction");
    return transaction;
}

static void set_int(FDBTransaction *transaction, FDBTransactionOption option, int64_t number) {
    must(fdb_transaction_set_option(transaction, option, (const uint8_t *)&number, sizeof number),
         "an option");
}

static void set_database_int(FDBDatabase *database, FDBDatabaseOption option, int64_t number) {
    must(fdb_database_set_option(database, option, (const uint8_t *)&number, sizeof number),
         "an option of the database");
}

static fdb_error_t get(FDBTransaction *transaction) {
    return keel_wait_destroy(fdb_transaction_get(transaction, (const uint8_t *)KEY, KEY_LENGTH, 0));
}

static fdb_error_t on_error(FDBTransaction *transaction, fdb_error_t code) {
    return keel_wait_destroy(fdb_transaction_on_error(transaction, code));
}

/* Sets the key to the text, or clears it. */
static fdb_error_t write_text(FDBTransaction *transaction, void *text) {
    if (text)
        fdb_transaction_set(transaction, (const uint8_t *)KEY, KEY_LENGTH, text, (int)strlen(text));
    else
        fdb_transaction_clear(transaction, (const uint8_t *)KEY, KEY_LENGTH);
    return 0;
}

static void test_options(FDBDatabase *database) {
    static const FDBTransactionOption flags[] = {
        FDB_TR_OPTION_PRIORITY_SYSTEM_IMMEDIATE, FDB_TR_OPTION_PRIORITY_BATCH,
        FDB_TR_OPTION_CAUSAL_READ_RISKY,         FDB_TR_OPTION_CAUSAL_WRITE_RISKY,
        FDB_TR_OPTION_READ_SYSTEM_KEYS,          FDB_TR_OPTION_ACCESS_SYSTEM_KEYS,
        FDB_TR_OPTION_READ_LOCK_AWARE,           FDB_TR_OPTION_LOCK_AWARE,
        FDB_TR_OPTION_INCLUDE_PORT_IN_ADDRESS,
    };
    set_database_int(database, FDB_DB_OPTION_LOCATION_CACHE_SIZE, 100001);
    set_database_int(database, FDB_DB_OPTION_MAX_WATCHES, 100001);
    set_database_int(database, FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT, 10);
    set_database_int(database, FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT, -1);
    set_database_int(database, FDB_DB_OPTION_TRANSACTION_TIMEOUT, 100000);
    set_database_int(database, FDB_DB_OPTION_TRANSACTION_TIMEOUT, 0);
    FDBTransaction *transaction = create(database);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        must(fdb_transaction_set_option(transaction, flags[i], NULL, 0), "an option");
    set_int(transaction, FDB_TR_OPTION_TIMEOUT, 60 * 1000);
    set_int(transaction, FDB_TR_OPTION_RETRY_LIMIT, 50);
    set_int(transaction, FDB_TR_OPTION_MAX_RETRY_DELAY, 100);
    must(keel_wait_destroy(fdb_transaction_get(transaction, (const uint8_t *)"\xff", 1, 0)),
         "reading a system key");
    fdb_transaction_destroy(transaction);
}

static void test_watches(FDBDatabase *database) {
    must(keel_run(database, write_text, "0"), "writing a watched key");
    FDBTransaction *transaction = create(database);
    FDBFuture *watch = fdb_transaction_watch(transaction, (const uint8_t *)KEY, KEY_LENGTH);
    must(keel_wait_destroy(fdb_transaction_commit(transaction)), "committing a watch");
    must(keel_run(database, write_text, "0"), "writing the same value");
    if (fdb_future_is_ready(watch))
        fail("UNIT_TESTS: the watch was triggered by nothing");
    must(keel_run(database, write_text, "1"), "writing another value");
    expect(keel_wait_destroy(watch), 0, "the watch");
    fdb_transaction_destroy(transaction);
}

static void test_cancellation(FDBDatabase *database) {
    FDBTransaction *transaction = create(database);
    fdb_transaction_cancel(transaction);
    expect(get(transaction), TRANSACTION_CANCELLED, "a read after a cancel");
    expect(on_error(transaction, NOT_COMMITTED), TRANSACTION_CANCELLED, "on_error after a cancel");
    expect(keel_wait_destroy(fdb_transaction_commit(transaction)), TRANSACTION_CANCELLED,
           "a commit after a cancel");
    fdb_transaction_reset(transaction);
    expect(get(transaction), 0, "a read after a reset");
    fdb_transaction_destroy(transaction);
}

static void test_retry_limits(FDBDatabase *database) {
    FDBTransaction *transaction = create(database);
    set_int(transaction, FDB_TR_OPTION_RETRY_LIMIT, 1);
    expect(on_error(transaction, NOT_COMMITTED), 0, "the first retry");
    expect(on_error(transaction, NOT_COMMITTED), NOT_COMMITTED, "the second retry of one");
    fdb_transaction_destroy(transaction);
}

/* Returns not_committed for ever. */
static fdb_error_t never_commit(FDBTransaction *transaction, void *context) {
    int *calls = context;
    set_int(transaction, FDB_TR_OPTION_RETRY_LIMIT, 2);
    ++*calls;
    return NOT_COMMITTED;
}

static void test_retry_loop(FDBDatabase *database) {
    int calls = 0;
    expect(keel_run(database, never_commit, &calls), NOT_COMMITTED, "a loop with a retry limit");
    expect(calls, 3, "calls of a loop with two retries");
}

static void test_timeouts(FDBDatabase *database) {
    FDBTransaction *transaction = create(database);
    set_int(transaction, FDB_TR_OPTION_TIMEOUT, 1);
    fdb_error_t error;
    do
        error = get(transaction);
    while (!error);
    expect(error, TRANSACTION_TIMED_OUT, "a read after the timeout");
    expect(on_error(transaction, NOT_COMMITTED), TRANSACTION_TIMED_OUT,
           "on_error after the timeout");
    fdb_transaction_reset(transaction);
    expect(get(transaction), 0, "a read after a reset");
    fdb_transaction_destroy(transaction);
}

static void test_sizes(FDBDatabase *database) {
    char text[200];
    int64_t size = 0;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    FDBTransaction *transaction = create(database);
    must(write_text(transaction, text), "a write");
    must(wait_int64(fdb_transaction_get_approximate_size(transaction), &size), "the size");
    if (size < (int64_t)sizeof text)
        fail("UNIT_TESTS: the size of %zu bytes is %lld", sizeof text, (long long)size);
    set_int(transaction, FDB_TR_OPTION_SIZE_LIMIT, 100);
    expect(keel_wait_destroy(fdb_transaction_commit(transaction)), TRANSACTION_TOO_LARGE,
           "a commit beyond its size limit");
    fdb_transaction_destroy(transaction);
}

void run_unit_tests(FDBDatabase *database) {
    test_options(database);
    test_watches(database);
    test_cancellation(database);
    test_retry_limits(database);
    test_retry_loop(database);
    test_timeouts(database);
    test_sizes(database);
    must(keel_run(database, write_text, NULL), "clearing the key");
}
