/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a range read: rows in order, with the memory that holds them. Its array is what
 * fdb_future_get_keyvalue_array hands out, so a range travels from the base to the caller with one copy.
 */
#ifndef KEEL_UTIL_ROWS_H
#define KEEL_UTIL_ROWS_H

#include "foundationdb/fdb_c.h"
#include "util/arena.h"

/* All zero is valid and empty. One thread at a time. */
struct rows {
    FDBKeyValue *array; /* `count` rows whose keys and values lie in `arena` */
    int count;
    int capacity;
    size_t bytes; /* the sum of key and value lengths */
    struct arena arena;
};

/* Appends a copy; false when memory is out (rows unchanged). */
bool rows_append(struct rows *rows, struct bytes key, struct bytes value);

/* Empties the rows and keeps the memory for the next use. */
void rows_clear(struct rows *rows);
void rows_free(struct rows *rows);

static inline struct bytes rows_key(const struct rows *rows, int index) {
    const FDBKeyValue *row = &rows->array[index];
    return bytes_make(row->key, (size_t)row->key_length);
}

static inline struct bytes rows_value(const struct rows *rows, int index) {
    const FDBKeyValue *row = &rows->array[index];
    return bytes_make(row->value, (size_t)row->value_length);
}

#endif
