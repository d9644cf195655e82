/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packed tuple that grows, for keys whose shape is not known when the program is compiled.
 *
 * Representation: packed bytes in `space`, or on the heap once they outgrow it (`heap` not NULL).
 * Nested tuples need no stack: their code is written when they begin, their terminator when they
 * end, and `depth` tells whether null is 00 or 00 ff.
 *
 * Invariants:
 *   1. length <= capacity; capacity is that of `space` or of the heap block.
 *   2. An append is whole or not at all: it is tried in the room there is, and once more after
 *      growing, since the writer (tuple.c) knows what it needs.
 *   3. After an error nothing changes but by clear, free or init.
 *
 * A builder belongs to one thread at a time. Failure: the caller's values, or memory (1501),
 * reported by finish.
 */
#include <stdlib.h>

#include "tuple_private.h"

enum { ERROR_LARGE_ALLOC_FAILED = 1501 };

/* --- Life --- */

KEEL_EXPORT void keel_tuple_builder_init(keel_tuple_builder *builder) {
    builder->heap = NULL;
    builder->capacity = sizeof builder->space;
    keel_tuple_builder_clear(builder);
}

KEEL_EXPORT void keel_tuple_builder_clear(keel_tuple_builder *builder) {
    builder->length = 0;
    builder->prefix_length = 0;
    builder->stamp_position = 0;
    builder->stamp_count = 0;
    builder->depth = 0;
    builder->error = 0;
}

KEEL_EXPORT void keel_tuple_builder_free(keel_tuple_builder *builder) {
    free(builder->heap);
    keel_tuple_builder_init(builder);
}

/* --- Room --- */

static uint8_t *bytes_of(keel_tuple_builder *builder) {
    return builder->heap ? builder->heap : builder->space;
}

static bool reserve(keel_tuple_builder *builder, size_t needed) {
    if (needed <= builder->capacity)
        return true;
    size_t capacity = needed > SIZE_MAX / 2 ? needed : needed * 2;
    uint8_t *grown = realloc(builder->heap, capacity);
    if (!grown) {
        builder->error = ERROR_LARGE_ALLOC_FAILED;
        return false;
    }
    if (!builder->heap)
        memcpy(grown, builder->space, builder->length);
    builder->heap = grown;
    builder->capacity = capacity;
    return true;
}

static tuple_writer writer_of(keel_tuple_builder *builder) {
    tuple_writer writer = {.data = bytes_of(builder),
                           .capacity = builder->capacity,
                           .length = builder->length,
                           .stamp_position = builder->stamp_position,
                           .stamp_count = builder->stamp_count};
    return writer;
}

/*
 * Keeps what was written. False if there was too little room for it: then there is enough now, and
 * it has to be written again.
 */
static bool keep(keel_tuple_builder *builder, const tuple_writer *writer, fdb_error_t error) {
    if (error) {
        builder->error = error;
        return true;
    }
    if (writer->length > builder->capacity)
        return !reserve(builder, writer->length);
    builder->length = writer->length;
    builder->stamp_position = writer->stamp_position;
    builder->stamp_count = writer->stamp_count;
    return true;
}

/* --- Appending --- */

KEEL_EXPORT void keel_tuple_append(keel_tuple_builder *builder, keel_element element) {
    tuple_writer writer;
    fdb_error_t error;
    if (builder->error)
        return;
    do {
        writer = writer_of(builder);
        error = tuple_put_element(&writer, &element, builder->depth > 0);
    } while (!keep(builder, &writer, error));
}

KEEL_EXPORT void keel_tuple_append_all(keel_tuple_builder *builder, keel_tuple tuple) {
    for (size_t i = 0; i < tuple.count; i++)
        keel_tuple_append(builder, tuple.elements[i]);
}

KEEL_EXPORT void keel_tuple_append_packed(keel_tuple_builder *builder, keel_bytes packed) {
    tuple_writer writer;
    fdb_error_t error;
    if (builder->error)
        return;
    do {
        writer = writer_of(builder);
        error = 0;
        keel_tuple_iterator iterator = keel_tuple_iterate(packed);
        keel_element element;
        while (!error && !(error = keel_tuple_next(&iterator, &element)))
            error = tuple_put_element(&writer, &element, builder->depth > 0);
        if (error == KEEL_ERROR_TUPLE_END)
            error = 0;
    } while (!keep(builder, &writer, error));
}

static void append_raw(keel_tuple_builder *builder, keel_bytes bytes) {
    if (builder->error || !reserve(builder, builder->length + bytes.length))
        return;
    if (bytes.length > 0)
        memcpy(bytes_of(builder) + builder->length, bytes.data, bytes.length);
    builder->length += bytes.length;
}

KEEL_EXPORT void keel_tuple_append_prefix(keel_tuple_builder *builder, keel_bytes prefix) {
    if (builder->error)
        return;
    if (builder->length != builder->prefix_length) {
        builder->error = KEEL_ERROR_ARGUMENT;
        return;
    }
    append_raw(builder, prefix);
    builder->prefix_length = builder->length;
}

KEEL_EXPORT void keel_tuple_append_begin(keel_tuple_builder *builder) {
    static const uint8_t code = CODE_NESTED;
    if (builder->error)
        return;
    append_raw(builder, keel_bytes_of(&code, 1));
    builder->depth++;
}

KEEL_EXPORT void keel_tuple_append_end(keel_tuple_builder *builder) {
    static const uint8_t terminator = 0;
    if (builder->error)
        return;
    if (builder->depth == 0) {
        builder->error = KEEL_ERROR_ARGUMENT;
        return;
    }
    append_raw(builder, keel_bytes_of(&terminator, 1));
    builder->depth--;
}

KEEL_EXPORT void keel_tuple_append_null(keel_tuple_builder *builder) {
    keel_tuple_append(builder, keel_element_null());
}

KEEL_EXPORT void keel_tuple_append_bytes(keel_tuple_builder *builder, keel_bytes bytes) {
    keel_tuple_append(builder, keel_element_of_bytes(bytes));
}

KEEL_EXPORT void keel_tuple_append_string(keel_tuple_builder *builder, const char *string) {
    keel_tuple_append(builder, keel_element_of_string(string));
}

KEEL_EXPORT void keel_tuple_append_text(keel_tuple_builder *builder, const char *text,
                                        size_t length) {
    keel_tuple_append(builder, keel_element_of_text(text, length));
}

KEEL_EXPORT void keel_tuple_append_int(keel_tuple_builder *builder, int64_t value) {
    keel_tuple_append(builder, keel_element_of_int(value));
}

KEEL_EXPORT void keel_tuple_append_uint(keel_tuple_builder *builder, uint64_t value) {
    keel_tuple_append(builder, keel_element_of_uint(value));
}

KEEL_EXPORT void keel_tuple_append_big(keel_tuple_builder *builder, const uint8_t *magnitude,
                                       size_t length, bool negative) {
    keel_tuple_append(builder, keel_element_of_big(magnitude, length, negative));
}

KEEL_EXPORT void keel_tuple_append_float(keel_tuple_builder *builder, float value) {
    keel_tuple_append(builder, keel_element_of_float(value));
}

KEEL_EXPORT void keel_tuple_append_double(keel_tuple_builder *builder, double value) {
    keel_tuple_append(builder, keel_element_of_double(value));
}

KEEL_EXPORT void keel_tuple_append_bool(keel_tuple_builder *builder, bool value) {
    keel_tuple_append(builder, keel_element_of_bool(value));
}

KEEL_EXPORT void keel_tuple_append_uuid(keel_tuple_builder *builder, const uint8_t *uuid) {
    keel_tuple_append(builder, keel_element_of_uuid(uuid));
}

KEEL_EXPORT void keel_tuple_append_versionstamp(keel_tuple_builder *builder,
                                                const uint8_t *versionstamp) {
    keel_tuple_append(builder, keel_element_of_versionstamp(versionstamp));
}

KEEL_EXPORT void keel_tuple_append_incomplete(keel_tuple_builder *builder, uint16_t user_version) {
    keel_tuple_append(builder, keel_element_of_incomplete(user_version));
}

KEEL_EXPORT void keel_tuple_append_tuple(keel_tuple_builder *builder, keel_tuple tuple) {
    keel_tuple_append(builder, keel_element_of_tuple(tuple));
}

/* --- Finishing --- */

KEEL_EXPORT fdb_error_t keel_tuple_builder_finish_any(keel_tuple_builder *builder,
                                                      keel_bytes *packed) {
    if (builder->error)
        return builder->error;
    if (builder->depth > 0)
        return KEEL_ERROR_ARGUMENT;
    *packed = keel_bytes_of(bytes_of(builder), builder->length);
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_builder_finish(keel_tuple_builder *builder, keel_bytes *packed) {
    if (!builder->error && builder->depth == 0 && builder->stamp_count > 0)
        return KEEL_ERROR_INCOMPLETE_VERSIONSTAMP;
    return keel_tuple_builder_finish_any(builder, packed);
}

/* The position goes behind the bytes without becoming part of them. */
KEEL_EXPORT fdb_error_t keel_tuple_builder_finish_versionstamp(keel_tuple_builder *builder,
                                                               keel_bytes *packed) {
    uint8_t offset[4];
    size_t offset_length;
    keel_bytes tuple;
    fdb_error_t error = keel_tuple_builder_finish_any(builder, &tuple);
    if (!error)
        error = tuple_stamp_offset(builder->stamp_count, builder->stamp_position, offset,
                                   &offset_length);
    if (!error && !reserve(builder, builder->length + sizeof offset))
        error = builder->error;
    if (error)
        return error;
    memcpy(bytes_of(builder) + builder->length, offset, offset_length);
    *packed = keel_bytes_of(bytes_of(builder), builder->length + offset_length);
    return 0;
}
