/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of recipes: one database in memory, transactions in one line, threads that all run the
 * same function, and whether a transaction was left unchanged. Include it after nothing: it brings
 * cmocka and what that needs.
 */
#ifndef RECIPES_FIXTURE_H
#define RECIPES_FIXTURE_H

#include <keel/keel.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../open_database.h"

static keel_db *fixture_db;

static int fixture_open(void **state) {
    (void)state;
    return test_open(&fixture_db);
}

static int fixture_close(void **state) {
    (void)state;
    return test_close(fixture_db);
}

static inline FDBTransaction *begin(void) {
    FDBTransaction *tr = NULL;
    assert_int_equal(fdb_database_create_transaction(keel_fdb(fixture_db), &tr), 0);
    return tr;
}

static inline fdb_error_t try_commit(FDBTransaction *tr) {
    fdb_error_t error = keel_wait_destroy(fdb_transaction_commit(tr));
    fdb_transaction_destroy(tr);
    return error;
}

static inline void commit(FDBTransaction *tr) {
    assert_int_equal(try_commit(tr), 0);
}

/* Bytes of mutations and conflict ranges so far: equal before and after means unchanged. */
static inline int64_t weight(FDBTransaction *tr) {
    int64_t size = -1;
    FDBFuture *future = fdb_transaction_get_approximate_size(tr);
    assert_int_equal(keel_wait(future), 0);
    assert_int_equal(fdb_future_get_int64(future, &size), 0);
    fdb_future_destroy(future);
    return size;
}

/* The call fails with this error and leaves the transaction as it was. */
#define assert_refused(tr, call, code)                                                             \
    do {                                                                                           \
        int64_t weight_before = weight(tr);                                                        \
        assert_int_equal((call), (code));                                                          \
        assert_int_equal(weight(tr), weight_before);                                               \
    } while (0)

/* Rows under a subspace. */
static inline int count_rows(FDBTransaction *tr, const keel_subspace *subspace) {
    keel_range range;
    const FDBKeyValue *rows;
    int count = 0;
    fdb_bool_t more = 0;
    assert_int_equal(keel_subspace_range(subspace, KEEL_TUPLE(), &range), 0);
    FDBFuture *future = fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.begin, (int)range.begin_length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 1000000, 0,
        FDB_STREAMING_MODE_EXACT, 1, 0, 0); /* the only mode that promises all of it at once */
    assert_int_equal(keel_wait(future), 0);
    assert_int_equal(fdb_future_get_keyvalue_array(future, &rows, &count, &more), 0);
    assert_false(more);
    fdb_future_destroy(future);
    return count;
}

static inline keel_bytes text(const char *string) {
    return keel_bytes_of_string(string);
}

/* A small generator: the same numbers on every run. */
static inline uint32_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

struct fixture_thread {
    pthread_t thread;
    int number;
    void *context;
    fdb_error_t error;
    fdb_error_t (*work)(int number, void *context);
};

static void *fixture_main(void *argument) {
    struct fixture_thread *thread = argument;
    thread->error = thread->work(thread->number, thread->context);
    return NULL;
}

/* Runs `work` in `count` threads at once; all must return 0. */
static inline void in_threads(int count, fdb_error_t (*work)(int, void *), void *context) {
    struct fixture_thread threads[64];
    assert_true(count <= 64);
    for (int i = 0; i < count; i++) {
        threads[i].number = i;
        threads[i].context = context;
        threads[i].work = work;
        assert_int_equal(pthread_create(&threads[i].thread, NULL, fixture_main, &threads[i]), 0);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].thread, NULL);
        assert_int_equal(threads[i].error, 0);
    }
}

#endif
