/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database of a test of layers or recipes: one in memory for each test, or, where
 * KEEL_TEST_CLUSTER names one (a cluster file), that one, which must be empty: the directory layer
 * allocates prefixes in all of it, and tests look at all there is. It is left empty. What is in it at
 * the beginning is erased only if KEEL_TEST_ERASE is 1.
 */
#ifndef KEEL_TESTS_OPEN_DATABASE_H
#define KEEL_TESTS_OPEN_DATABASE_H

#include <keel/error.h>
#include <keel/run.h>

#include <stdio.h>
#include <stdlib.h>

static inline const char *test_cluster(void) {
    const char *path = getenv("KEEL_TEST_CLUSTER");
    return path && *path ? path : NULL;
}

static inline fdb_error_t test_erase(FDBTransaction *tr, void *unused) {
    (void)unused;
    fdb_transaction_clear_range(tr, (const uint8_t *)"", 0, (const uint8_t *)"\xff", 1);
    return 0;
}

static inline fdb_error_t test_count(FDBTransaction *tr, void *count) {
    const FDBKeyValue *rows;
    fdb_bool_t more;
    FDBFuture *future = fdb_transaction_get_range(tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"", 0),
                                                  FDB_KEYSEL_FIRST_GREATER_OR_EQUAL((const uint8_t *)"\xff", 1), 1, 0,
                                                  FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, count, &more);
    fdb_future_destroy(future);
    return error;
}

/* Empty, or about to be. Once a process: what tests leave behind is theirs. */
static inline fdb_error_t test_make_empty(keel_db *db) {
    static int is_ours;
    int count = 0;
    const char *erase = getenv("KEEL_TEST_ERASE");
    fdb_error_t error = is_ours ? 0 : keel_run(keel_fdb(db), test_count, &count);
    if (error)
        return error;
    if (count > 0 && !(erase && *erase == '1')) {
        fprintf(stderr, "%s is not empty: the tests need a database of their own (ERASE=1 erases this one)\n", test_cluster());
        exit(2);
    }
    is_ours = 1;
    return keel_run(keel_fdb(db), test_erase, NULL);
}

static inline int test_open(keel_db **db) {
    if (!test_cluster())
        return keel_open(":memory:", db);
    fdb_error_t error = keel_open(test_cluster(), db);
    if (!error)
        error = test_make_empty(*db);
    if (error)
        fprintf(stderr, "%s: %s (%d)\n", test_cluster(), keel_error_text(error), error);
    return error;
}

static inline int test_close(keel_db *db) {
    fdb_error_t error = db && test_cluster() ? keel_run(keel_fdb(db), test_erase, NULL) : 0;
    keel_close(db);
    return error;
}

#endif
