/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values on the stack. A value is taken apart to its last element when it comes (tuple_decode) and
 * put together again by the layer when it goes (tuple_append), so that every instruction that moves
 * a tuple also tests both directions of the tuple layer.
 *
 * Invariants:
 *   1. Everything a value's element points to lies in the value's pool.
 *   2. An element in a pool is never `packed`: bytes have no escapes, nested tuples are arrays of
 * elements.
 *   3. Values do not change; who wants to keep one retains it. References are not atomic: a value
 * stays with one machine.
 */
#include "value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("keel-stacktester: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void must(fdb_error_t error, const char *what) {
    if (error)
        fail("%s: %s (%d)", what, keel_error_text(error), error);
}

void *allocate(size_t bytes) {
    return allocate_more(NULL, bytes);
}

void *allocate_more(void *memory, size_t bytes) {
    void *more = realloc(memory, bytes ? bytes : 1);
    if (!more)
        fail("out of memory");
    return more;
}

/* ---- Bytes ---- */

void buffer_append(struct buffer *buffer, const void *data, size_t length) {
    if (buffer->length + length > buffer->capacity) {
        buffer->capacity = (buffer->length + length) * 2;
        buffer->data = allocate_more(buffer->data, buffer->capacity);
    }
    if (length)
        memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}

keel_bytes buffer_bytes(const struct buffer *buffer) {
    return KEEL_BYTES(buffer->data, buffer->length);
}

bool bytes_equal(keel_bytes left, keel_bytes right) {
    return keel_bytes_compare(left, right) == 0;
}

bool bytes_begin_with(keel_bytes bytes, keel_bytes prefix) {
    return bytes.length >= prefix.length &&
           bytes_equal(KEEL_BYTES(bytes.data, prefix.length), prefix);
}

struct pool_block {
    struct pool_block *next;
    max_align_t memory[];
};

void *pool_take(struct pool *pool, size_t bytes) {
    struct pool_block *block = allocate(sizeof *block + bytes);
    block->next = pool->blocks;
    pool->blocks = block;
    return block->memory;
}

keel_bytes pool_copy(struct pool *pool, keel_bytes bytes) {
    if (!bytes.length)
        return KEEL_BYTES(NULL, 0);
    return KEEL_BYTES(memcpy(pool_take(pool, bytes.length), bytes.data, bytes.length),
                      bytes.length);
}

void pool_free(struct pool *pool) {
    while (pool->blocks) {
        struct pool_block *block = pool->blocks;
        pool->blocks = block->next;
        free(block);
    }
}

/* ---- Tuples ---- */

/* The bytes of an element without escapes, or its magnitude. */
static keel_bytes take_bytes(const keel_element *element, struct pool *pool) {
    size_t length = 0;
    fdb_error_t error = keel_element_copy(element, NULL, 0, &length);
    if (error != KEEL_ERROR_BUFFER_TOO_SMALL)
        must(error, "the length of an element");
    uint8_t *bytes = pool_take(pool, length);
    must(keel_element_copy(element, bytes, length, &length), "the bytes of an element");
    return KEEL_BYTES(bytes, length);
}

static fdb_error_t decode_element(const keel_element *source, struct pool *pool,
                                  keel_element *element) {
    keel_tuple_iterator nested;
    *element = *source;
    element->packed = 0;
    element->escaped = 0;
    switch (source->type) {
    case KEEL_TYPE_BYTES:
    case KEEL_TYPE_STRING:
        element->value.as_bytes = take_bytes(source, pool);
        return 0;
    case KEEL_TYPE_BIG_INT:
        element->value.as_big.negative = keel_element_sign(source) < 0;
        element->value.as_big.magnitude = take_bytes(source, pool);
        return 0;
    case KEEL_TYPE_NESTED:
        must(keel_element_iterate(source, &nested), "a nested tuple");
        return tuple_decode(nested, pool, &element->value.as_tuple);
    default:
        return 0;
    }
}

fdb_error_t tuple_decode(keel_tuple_iterator iterator, struct pool *pool, keel_tuple *tuple) {
    keel_element packed;
    keel_tuple_iterator counting = iterator;
    fdb_error_t error;
    size_t count = 0;
    while (!(error = keel_tuple_next(&counting, &packed)))
        count++;
    if (error != KEEL_ERROR_TUPLE_END)
        return error;
    keel_element *elements = pool_take(pool, count * sizeof *elements);
    for (size_t i = 0; i < count; i++) {
        error = keel_tuple_next(&iterator, &packed);
        if (!error)
            error = decode_element(&packed, pool, &elements[i]);
        if (error)
            return error;
    }
    *tuple = keel_tuple_of(elements, count);
    return 0;
}

fdb_error_t tuple_append(keel_tuple tuple, bool versionstamp, struct buffer *buffer) {
    keel_tuple_builder builder;
    keel_bytes packed;
    keel_tuple_builder_init(&builder);
    keel_tuple_append_prefix(&builder, buffer_bytes(buffer));
    keel_tuple_append_all(&builder, tuple);
    fdb_error_t error = versionstamp ? keel_tuple_builder_finish_versionstamp(&builder, &packed)
                                     : keel_tuple_builder_finish_any(&builder, &packed);
    if (!error) {
        buffer->length = 0;
        buffer_append(buffer, packed.data, packed.length);
    }
    keel_tuple_builder_free(&builder);
    return error;
}

/* ---- Values ---- */

static void copy_element(const keel_element *source, struct pool *pool, keel_element *element) {
    *element = *source;
    if (source->type == KEEL_TYPE_BYTES || source->type == KEEL_TYPE_STRING) {
        element->value.as_bytes = pool_copy(pool, source->value.as_bytes);
    } else if (source->type == KEEL_TYPE_BIG_INT) {
        element->value.as_big.magnitude = pool_copy(pool, source->value.as_big.magnitude);
    } else if (source->type == KEEL_TYPE_NESTED) {
        keel_tuple inner = source->value.as_tuple;
        keel_element *elements = pool_take(pool, inner.count * sizeof *elements);
        for (size_t i = 0; i < inner.count; i++)
            copy_element(&inner.elements[i], pool, &elements[i]);
        element->value.as_tuple = keel_tuple_of(elements, inner.count);
    }
}

struct value *value_element(const keel_element *element) {
    struct value *value = allocate(sizeof *value);
    *value = (struct value){.references = 1};
    copy_element(element, &value->pool, &value->element);
    return value;
}

struct value *value_bytes(keel_bytes bytes) {
    keel_element element = keel_element_of_bytes(bytes);
    return value_element(&element);
}

struct value *value_text(const char *text) {
    return value_bytes(keel_bytes_of_string(text));
}

struct value *value_int(int64_t number) {
    keel_element element = keel_element_of_int(number);
    return value_element(&element);
}

struct value *value_error(fdb_error_t code) {
    char digits[16];
    uint8_t packed[64];
    size_t length;
    int digit_count = snprintf(digits, sizeof digits, "%d", code);
    must(
        keel_tuple_pack(KEEL_TUPLE(KEEL_BYTES("ERROR", 5), KEEL_BYTES(digits, (size_t)digit_count)),
                        packed, sizeof packed, &length),
        "an error's tuple");
    return value_bytes(KEEL_BYTES(packed, length));
}

struct value *value_retain(struct value *value) {
    value->references++;
    return value;
}

void value_release(struct value *value) {
    if (value && --value->references == 0) {
        pool_free(&value->pool);
        free(value);
    }
}

keel_bytes value_as_bytes(const struct value *value) {
    if (value->element.type != KEEL_TYPE_BYTES && value->element.type != KEEL_TYPE_STRING)
        fail("a string was expected, not type %d", (int)value->element.type);
    return value->element.value.as_bytes;
}

int64_t value_as_int(const struct value *value) {
    int64_t number;
    if (value->element.type == KEEL_TYPE_BOOL)
        return value->element.value.as_bool;
    must(keel_element_int(&value->element, &number), "an integer was expected");
    return number;
}

bool value_is_null(const struct value *value) {
    return value->element.type == KEEL_TYPE_NULL;
}

struct value *value_concatenate(const struct value *left, const struct value *right) {
    struct buffer joined = {0};
    keel_bytes a = value_as_bytes(left), b = value_as_bytes(right);
    buffer_append(&joined, a.data, a.length);
    buffer_append(&joined, b.data, b.length);
    keel_element element = left->element;
    element.value.as_bytes = buffer_bytes(&joined);
    struct value *value = value_element(&element);
    buffer_free(&joined);
    return value;
}
