/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: a growing array of FDBKeyValue over an arena; key and value of a row lie side by side. */
#include "util/rows.h"

#include "util/memory.h"

_Static_assert(sizeof(FDBKeyValue) == 24, "bindings read rows as 24 bytes each");

/* Many results have one row or a few; those that have more usually have about a hundred. */
enum { CAPACITY_FIRST = 4, CAPACITY_SECOND = 128, ARENA_BYTES_SECOND = 16 * 1024 };

static bool grow(struct rows *rows) {
    int capacity = rows->capacity >= CAPACITY_SECOND ? rows->capacity * 2
                   : rows->capacity                  ? CAPACITY_SECOND
                                                     : CAPACITY_FIRST;
    if (capacity == CAPACITY_SECOND && !arena_reserve(&rows->arena, ARENA_BYTES_SECOND))
        return false;
    FDBKeyValue *array = memory_resize(rows->array, (size_t)capacity * sizeof *array);
    if (!array)
        return false;
    rows->array = array;
    rows->capacity = capacity;
    return true;
}

bool rows_append(struct rows *rows, struct bytes key, struct bytes value) {
    if (rows->count == rows->capacity && !grow(rows))
        return false;
    uint8_t *copy = arena_allocate_bytes(&rows->arena, key.length + value.length);
    if (!copy)
        return false;
    if (key.length)
        memcpy(copy, key.data, key.length);
    if (value.length)
        memcpy(copy + key.length, value.data, value.length);
    FDBKeyValue *row = &rows->array[rows->count++];
    row->key = copy;
    row->key_length = (int)key.length;
    row->value = copy + key.length;
    row->value_length = (int)value.length;
    rows->bytes += key.length + value.length;
    return true;
}

void rows_clear(struct rows *rows) {
    rows->count = 0;
    rows->bytes = 0;
    arena_reset(&rows->arena);
}

void rows_free(struct rows *rows) {
    memory_free(rows->array);
    arena_free(&rows->arena);
    *rows = (struct rows){0};
}
