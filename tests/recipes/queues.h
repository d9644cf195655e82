/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the queues and the log: a database in memory, transactions by hand, threads.
 * Needs _GNU_SOURCE defined before the first include.
 */
#ifndef TESTS_RECIPES_QUEUES_H
#define TESTS_RECIPES_QUEUES_H

#include <keel/keel.h>

#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../open_database.h"

#define ok(call) assert_int_equal((call), 0)

static keel_db *db;

static inline int open_database(void **state) {
    (void)state;
    return test_open(&db);
}

static inline int close_database(void **state) {
    (void)state;
    return test_close(db);
}

/* On disk commits take a while, so that threads really meet. */
static char scratch[4096];

static inline int open_on_disk(void **state) {
    (void)state;
    if (test_cluster())
        return test_open(&db);
    const char *place = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/queues-XXXXXX", place && *place ? place : "/tmp");
    return mkdtemp(scratch) ? keel_open(scratch, &db) : -1;
}

static inline int remove_one(const char *path, const struct stat *status, int type,
                             struct FTW *walk) {
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline int close_on_disk(void **state) {
    int failed = close_database(state);
    if (test_cluster())
        return failed;
    return nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline FDBTransaction *begin(void) {
    FDBTransaction *tr;
    ok(fdb_database_create_transaction(keel_fdb(db), &tr));
    return tr;
}

static inline fdb_error_t commit(FDBTransaction *tr) {
    fdb_error_t error = keel_wait_destroy(fdb_transaction_commit(tr));
    fdb_transaction_destroy(tr);
    return error;
}

/* What the transaction has read and written so far: bad input must not change it. */
static inline int64_t size_of(FDBTransaction *tr) {
    int64_t size = -1;
    FDBFuture *future = fdb_transaction_get_approximate_size(tr);
    ok(keel_wait(future));
    ok(fdb_future_get_int64(future, &size));
    fdb_future_destroy(future);
    return size;
}

static inline keel_subspace subspace_of(const char *name) {
    keel_subspace subspace;
    ok(keel_subspace_tuple(KEEL_TUPLE(name), &subspace));
    return subspace;
}

static inline keel_bytes text(const char *string) {
    return keel_bytes_of_string(string);
}

/* Runs `count` threads to their end; each gets its number. */
static inline void run_threads(int count, void *(*body)(void *)) {
    pthread_t threads[64];
    assert_true(count <= 64);
    for (int i = 0; i < count; i++)
        ok(pthread_create(&threads[i], NULL, body, (void *)(intptr_t)i));
    for (int i = 0; i < count; i++)
        ok(pthread_join(threads[i], NULL));
}

/* In threads: cmocka's assertions are for the main one. */
static inline void must(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "%s: %s (%d)\n", what, keel_error_text(error), error);
        abort();
    }
}

#endif
