/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding of a batch. A change is
 *
 *   1 byte   0 set, 1 clear range
 *   4 bytes  length of the key (or begin)
 *   4 bytes  length of the value (or end)
 *   key, value
 *
 * one after the other, integers little-endian. The log adds length and checksum around the whole.
 */
#include "engine/batch.h"

#include "util/coding.h"
#include "util/memory.h"

enum { CHANGE_HEADER_BYTES = 9 };

static fdb_error_t make_room(struct batch *batch, size_t need) {
    if (batch->capacity - batch->length >= need)
        return ERROR_SUCCESS;
    size_t capacity = batch->capacity ? batch->capacity : 4096;
    while (capacity - batch->length < need)
        capacity *= 2;
    uint8_t *data = memory_resize(batch->data, capacity);
    if (!data)
        return ERROR_LARGE_ALLOC_FAILED;
    batch->data = data;
    batch->capacity = capacity;
    return ERROR_SUCCESS;
}

fdb_error_t batch_add(struct batch *batch, const struct change *change) {
    size_t need = CHANGE_HEADER_BYTES + change->key.length + change->value.length;
    fdb_error_t error = make_room(batch, need);
    if (error)
        return error;
    uint8_t *to = batch->data + batch->length;
    to[0] = change->clear;
    coding_put_u32(to + 1, (uint32_t)change->key.length);
    coding_put_u32(to + 5, (uint32_t)change->value.length);
    to += CHANGE_HEADER_BYTES;
    if (change->key.length)
        memcpy(to, change->key.data, change->key.length);
    if (change->value.length)
        memcpy(to + change->key.length, change->value.data, change->value.length);
    batch->length += need;
    batch->count++;
    return ERROR_SUCCESS;
}

void batch_truncate(struct batch *batch, size_t length, size_t count) {
    batch->length = length;
    batch->count = count;
}

void batch_free(struct batch *batch) {
    memory_free(batch->data);
    *batch = (struct batch){0};
}

bool batch_next(struct bytes payload, size_t *offset, struct change *change, fdb_error_t *error) {
    size_t left = payload.length - *offset;
    if (left == 0)
        return false;
    const uint8_t *from = payload.data + *offset;
    if (left < CHANGE_HEADER_BYTES || from[0] > 1)
        goto damaged;
    size_t key_length = coding_get_u32(from + 1);
    size_t value_length = coding_get_u32(from + 5);
    left -= CHANGE_HEADER_BYTES;
    if (key_length > left || value_length > left - key_length)
        goto damaged;
    from += CHANGE_HEADER_BYTES;
    change->clear = from[-CHANGE_HEADER_BYTES] == 1;
    change->key = bytes_make(from, key_length);
    change->value = bytes_make(from + key_length, value_length);
    *offset += CHANGE_HEADER_BYTES + key_length + value_length;
    return true;
damaged:
    *error = ERROR_DATABASE_DAMAGED;
    return false;
}
