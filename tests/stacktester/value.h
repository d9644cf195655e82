/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies on a tester's stack: growing buffers, tuple elements that own their bytes, and integers
 * of any size to subtract.
 *
 * The tester ends the process where memory or the script is bad (`fail`): it is a test, and a
 * tester that cannot go on must exit with a code other than zero.
 */
#ifndef STACKTESTER_VALUE_H
#define STACKTESTER_VALUE_H

#include <keel/tuple.h>

#include <stdbool.h>

/* Prints the message and exits with 1. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Fails if `error` is not 0. */
void must(fdb_error_t error, const char *what);
void *allocate(size_t bytes);
void *allocate_more(void *memory, size_t bytes);

/* Bytes that grow. {0} is the empty one. */
struct buffer {
    uint8_t *data;
    size_t length;
    size_t capacity;
};
void buffer_append(struct buffer *buffer, const void *data, size_t length);
void buffer_free(struct buffer *buffer);
keel_bytes buffer_bytes(const struct buffer *buffer);
bool bytes_equal(keel_bytes left, keel_bytes right);
bool bytes_begin_with(keel_bytes bytes, keel_bytes prefix);

/* Memory that is freed at once: everything an element points to lies in one. */
struct pool_block;
struct pool {
    struct pool_block *blocks;
};
void *pool_take(struct pool *pool, size_t bytes);
keel_bytes pool_copy(struct pool *pool, keel_bytes bytes);
void pool_free(struct pool *pool);

/* An immutable tuple element. Counted: DUP and the map of transactions share them; one thread at a
 * time. */
struct value {
    unsigned references;
    keel_element element; /* nested tuples as as_tuple, bytes without escapes */
    struct pool pool;
};
struct value *value_bytes(keel_bytes bytes);
struct value *value_text(const char *text); /* a byte string */
struct value *value_int(int64_t number);
struct value *value_element(const keel_element *element); /* copies it, and all it points to */
/* The packed tuple (b"ERROR", b"<code>"), as a byte string. */
struct value *value_error(fdb_error_t code);
struct value *value_retain(struct value *value);
void value_release(struct value *value);
/* The value as what the script says it is; anything else is a bad script. */
keel_bytes value_as_bytes(const struct value *value); /* byte string or unicode string */
int64_t value_as_int(const struct value *value);
bool value_is_null(const struct value *value);

/* left - right, for integers of any size. */
struct value *value_subtract(const struct value *left, const struct value *right);
struct value *value_concatenate(const struct value *left, const struct value *right);

/* All elements that are left, deep, in the pool. */
fdb_error_t tuple_decode(keel_tuple_iterator iterator, struct pool *pool, keel_tuple *tuple);
/* Appends the packed tuple to the buffer. With `versionstamp`, exactly one has to be incomplete,
 * and its offset is appended. */
fdb_error_t tuple_append(keel_tuple tuple, bool versionstamp, struct buffer *buffer);

#endif
