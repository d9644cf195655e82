/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of recipes: a database in memory, a subspace for each test, a dump of what is in a
 * subspace, transactions whose end a test looks at, and threads that start together.
 */
#ifndef RECIPES_TESTING_H
#define RECIPES_TESTING_H

#include <keel/run.h>
#include <keel/subspace.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../open_database.h"

static keel_db *testing_db;

/* The failing code comes with its text. */
#define ok(expression)                                                                             \
    do {                                                                                           \
        fdb_error_t ok_error_ = (expression);                                                      \
        if (ok_error_)                                                                             \
            fail_msg("%s: %s (%d)", #expression, keel_error_text(ok_error_), ok_error_);           \
    } while (0)

static inline int testing_open(void **state) {
    (void)state;
    return test_open(&testing_db);
}

static inline int testing_close(void **state) {
    (void)state;
    return test_close(testing_db);
}

static inline FDBDatabase *testing_database(void) {
    return keel_fdb(testing_db);
}

/* A subspace nobody else uses. */
static inline keel_subspace testing_subspace(const char *name) {
    static int number;
    keel_subspace subspace;
    ok(keel_subspace_tuple(KEEL_TUPLE("test", number++, name), &subspace));
    return subspace;
}

static inline FDBTransaction *testing_begin(void) {
    FDBTransaction *tr;
    ok(fdb_database_create_transaction(testing_database(), &tr));
    return tr;
}

static inline fdb_error_t testing_try_commit(FDBTransaction *tr) {
    fdb_error_t error = keel_wait_destroy(fdb_transaction_commit(tr));
    fdb_transaction_destroy(tr);
    return error;
}

static inline void testing_commit(FDBTransaction *tr) {
    ok(testing_try_commit(tr));
}

/*
 * The whole database as the transaction sees it: number of rows, and a sum over keys and values
 * that changes when any of them does. Equal before and after means that the transaction is
 * unchanged.
 */
struct testing_state {
    int rows;
    uint64_t sum;
};

static inline uint64_t testing_hash(uint64_t hash, const uint8_t *data, int length) {
    for (int i = 0; i < length; i++)
        hash = (hash ^ data[i]) * 1099511628211u;
    return (hash ^ 0x1f) * 1099511628211u;
}

static inline struct testing_state testing_look(FDBTransaction *tr, const keel_subspace *subspace) {
    keel_range range;
    struct testing_state state = {0, 14695981039346656037u};
    if (subspace)
        ok(keel_subspace_range(subspace, KEEL_TUPLE(), &range));
    else
        range = (keel_range){.begin = {0}, .end = {0xff}, .begin_length = 0, .end_length = 1};
    fdb_bool_t more = 1;
    uint8_t begin[10001];
    int begin_length = (int)range.begin_length;
    memcpy(begin, range.begin, range.begin_length);
    while (more) {
        const FDBKeyValue *rows;
        int count;
        FDBFuture *future = fdb_transaction_get_range(
            tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin, begin_length),
            FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(range.end, (int)range.end_length), 0, 0,
            FDB_STREAMING_MODE_WANT_ALL, 1, 1, 0);
        ok(keel_wait(future));
        ok(fdb_future_get_keyvalue_array(future, &rows, &count, &more));
        for (int i = 0; i < count; i++) {
            state.sum = testing_hash(state.sum, rows[i].key, rows[i].key_length);
            state.sum = testing_hash(state.sum, rows[i].value, rows[i].value_length);
            begin_length = rows[i].key_length + 1;
            memcpy(begin, rows[i].key, (size_t)rows[i].key_length);
            begin[begin_length - 1] = 0;
        }
        state.rows += count;
        fdb_future_destroy(future);
    }
    return state;
}

/* The expression fails with that code, and the transaction shows the same as before. */
#define refused(tr, code, expression)                                                              \
    do {                                                                                           \
        struct testing_state refused_before_ = testing_look(tr, NULL);                             \
        assert_int_equal((expression), (code));                                                    \
        struct testing_state refused_after_ = testing_look(tr, NULL);                              \
        assert_int_equal(refused_before_.rows, refused_after_.rows);                               \
        assert_true(refused_before_.sum == refused_after_.sum);                                    \
    } while (0)

static inline int testing_rows(const keel_subspace *subspace) {
    FDBTransaction *tr = testing_begin();
    int rows = testing_look(tr, subspace).rows;
    fdb_transaction_destroy(tr);
    return rows;
}

/* Runs `body` on so many threads, each with its number; waits for all of them. */
static inline void testing_threads(int count, void *(*body)(void *)) {
    pthread_t threads[64];
    for (intptr_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (void *)i), 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* A generator of its own for each thread. */
static inline uint32_t testing_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline int testing_rounds(int usual) {
    const char *rounds = getenv("KEEL_ROUNDS");
    int asked = rounds ? atoi(rounds) : usual;
    return asked > 0 && asked < usual ? asked : usual;
}

#endif
