/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the directory layer share: a database in memory for each test, and calls that
 * must succeed.
 */
#ifndef KEEL_TESTS_DIRECTORY_SUPPORT_H
#define KEEL_TESTS_DIRECTORY_SUPPORT_H

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

#include <keel/directory.h>
#include <keel/run.h>

#include "../open_database.h"

static keel_db *db;

/* ---- Support ---- */

static inline FDBTransaction *begin(void) {
    FDBTransaction *tr;
    assert_int_equal(fdb_database_create_transaction(keel_fdb(db), &tr), 0);
    return tr;
}

static inline void commit(FDBTransaction *tr) {
    assert_int_equal(keel_wait_destroy(fdb_transaction_commit(tr)), 0);
    fdb_transaction_destroy(tr);
}

static inline int setup(void **state) {
    (void)state;
    return test_open(&db);
}

static inline int teardown(void **state) {
    (void)state;
    int failed = test_close(db);
    db = NULL;
    return failed;
}

static inline void assert_bytes(keel_bytes bytes, const void *expected, size_t length) {
    assert_int_equal(bytes.length, length);
    if (length > 0)
        assert_memory_equal(bytes.data, expected, length);
}

static inline void assert_text(keel_bytes bytes, const char *expected) {
    assert_bytes(bytes, expected, strlen(expected));
}

static inline void assert_path(const keel_directory *directory, keel_path expected) {
    keel_path path = keel_directory_path(directory);
    assert_int_equal(path.count, expected.count);
    for (size_t i = 0; i < path.count; i++)
        assert_bytes(path.names[i], expected.names[i].data, expected.names[i].length);
}

static inline keel_bytes prefix_of(const keel_directory *directory) {
    keel_bytes prefix = {NULL, 0};
    assert_int_equal(keel_directory_prefix(directory, &prefix), 0);
    return prefix;
}

static inline keel_directory *make(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                                   const char *layer) {
    keel_directory *directory = NULL;
    assert_int_equal(keel_directory_create_or_open(tr, parent, path, KEEL_LAYER(layer), &directory),
                     0);
    assert_non_null(directory);
    return directory;
}

static inline void make_closed(FDBTransaction *tr, const keel_directory *parent, keel_path path,
                               const char *layer) {
    assert_int_equal(keel_directory_create_or_open(tr, parent, path, KEEL_LAYER(layer), NULL), 0);
}

static inline int exists(FDBTransaction *tr, const keel_directory *parent, keel_path path) {
    int result = -1;
    assert_int_equal(keel_directory_exists(tr, parent, path, &result), 0);
    return result;
}

static inline fdb_error_t join_name(void *context, keel_bytes name) {
    char *text = context;
    snprintf(text + strlen(text), 1000 - strlen(text), "%.*s ", (int)name.length,
             (const char *)name.data);
    return 0;
}

/* The names in a directory, each followed by a space. */
static inline const char *list(FDBTransaction *tr, const keel_directory *parent, keel_path path) {
    static char text[1000];
    text[0] = 0;
    assert_int_equal(keel_directory_list(tr, parent, path, join_name, text), 0);
    return text;
}

static inline void set(FDBTransaction *tr, keel_bytes key, const char *value) {
    fdb_transaction_set(tr, key.data, (int)key.length, (const uint8_t *)value, (int)strlen(value));
}

/* The value of a key, copied; length -1 where there is none. */
static inline int get(FDBTransaction *tr, keel_bytes key, uint8_t *value, int capacity) {
    fdb_bool_t present;
    const uint8_t *data;
    int length;
    FDBFuture *future = fdb_transaction_get(tr, key.data, (int)key.length, 0);
    assert_int_equal(keel_wait(future), 0);
    assert_int_equal(fdb_future_get_value(future, &present, &data, &length), 0);
    assert_true(!present || length <= capacity);
    if (present)
        memcpy(value, data, (size_t)length);
    fdb_future_destroy(future);
    return present ? length : -1;
}

/* How many keys there are in [begin, end). */
static inline int count_keys(FDBTransaction *tr, keel_bytes first, keel_bytes end) {
    const FDBKeyValue *pairs;
    int count;
    fdb_bool_t more;
    FDBFuture *future = fdb_transaction_get_range(
        tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(first.data, (int)first.length),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end.data, (int)end.length), 0, 0,
        FDB_STREAMING_MODE_WANT_ALL, 1, 0, 0);
    assert_int_equal(keel_wait(future), 0);
    assert_int_equal(fdb_future_get_keyvalue_array(future, &pairs, &count, &more), 0);
    assert_false(more);
    fdb_future_destroy(future);
    return count;
}

/* "a/b" as a path in `space`; "" is the root. */
static inline keel_path split(const char *text, keel_bytes space[8]) {
    size_t count = 0;
    while (*text) {
        size_t length = strcspn(text, "/");
        space[count++] = keel_bytes_of(text, length);
        text += length + (text[length] == '/');
    }
    return (keel_path){space, count};
}

struct move_case {
    const char *from, *to;
    fdb_error_t error;
};

/* Moves that must all be refused. */
static inline void refuse_moves(FDBTransaction *tr, const keel_directory *parent,
                                const struct move_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        keel_bytes from[8], to[8];
        keel_directory *moved = NULL;
        assert_int_equal(keel_directory_move(tr, parent, split(cases[i].from, from),
                                             split(cases[i].to, to), &moved),
                         cases[i].error);
        assert_null(moved);
    }
}

#define BYTES(text) keel_bytes_of("" text, sizeof(text) - 1)

static inline fdb_error_t count_name(void *context, keel_bytes name) {
    (void)name;
    ++*(int *)context;
    return 0;
}

#endif
