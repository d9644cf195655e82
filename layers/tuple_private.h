/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the tuple layer share. layers/tuple.c explains the format. */
#ifndef LAYERS_TUPLE_PRIVATE_H
#define LAYERS_TUPLE_PRIVATE_H

#include <keel/tuple.h>

#include "export.h"

enum tuple_code {
    CODE_NULL = 0x00,
    CODE_BYTES = 0x01,
    CODE_STRING = 0x02,
    CODE_NESTED = 0x05,
    CODE_BIG_NEGATIVE = 0x0b,
    CODE_INT_FIRST = 0x0c, /* eight bytes, negative */
    CODE_INT_ZERO = 0x14,
    CODE_INT_LAST = 0x1c, /* eight bytes, positive */
    CODE_BIG_POSITIVE = 0x1d,
    CODE_FLOAT = 0x20,
    CODE_DOUBLE = 0x21,
    CODE_FALSE = 0x26,
    CODE_TRUE = 0x27,
    CODE_UUID = 0x30,
    CODE_VERSIONSTAMP = 0x33,
    CODE_ESCAPE = 0xff /* never a type */
};

/* --- tuple.c: writing --- */

/*
 * Counts what is written and keeps what fits. length > capacity says how much room was missing;
 * nothing is written from the first piece on that did not fit.
 */
typedef struct tuple_writer {
    uint8_t *data;
    size_t capacity;
    size_t length;
    size_t stamp_position; /* in data, of the last incomplete versionstamp */
    uint32_t stamp_count;
} tuple_writer;

static inline void tuple_put(tuple_writer *writer, const void *data, size_t length) {
    bool fits = writer->length <= writer->capacity && length <= writer->capacity - writer->length;
    if (fits && length > 0)
        memcpy(writer->data + writer->length, data, length);
    writer->length += length;
}

static inline void tuple_put_byte(tuple_writer *writer, uint8_t byte) {
    if (writer->length < writer->capacity)
        writer->data[writer->length] = byte;
    writer->length++;
}

/* Bytes with 00 ff for each 00, without code and terminator. */
void tuple_put_escaped(tuple_writer *writer, keel_bytes bytes);
/*
 * One element; `nested` is whether it stands inside a nested tuple. After an error the writer is of
 * no use.
 */
fdb_error_t tuple_put_element(tuple_writer *writer, const keel_element *element, bool nested);
/* The elements of packed bytes. */
fdb_error_t tuple_put_packed(tuple_writer *writer, keel_bytes packed, bool nested);

/* The position of the only incomplete versionstamp as the API version wants it. *length 2 or 4. */
fdb_error_t tuple_stamp_offset(uint32_t stamp_count, size_t stamp_position, uint8_t offset[4],
                               size_t *length);

/* --- tuple_iterator.c: reading --- */

typedef enum tuple_token {
    TOKEN_ELEMENT, /* any but a nested tuple */
    TOKEN_BEGIN,   /* of a nested tuple */
    TOKEN_END,     /* of a nested tuple */
    TOKEN_FINISH   /* of the bytes */
} tuple_token;

/*
 * The next piece of packed bytes, stepping into nested tuples; *depth counts those and begins at 0.
 * So a walk over any depth needs no recursion. Errors as keel_tuple_next.
 */
fdb_error_t tuple_step(keel_tuple_iterator *iterator, size_t *depth, tuple_token *token,
                       keel_element *element);

/* --- tuple_element.c: looking into elements --- */

/*
 * An integer of any type: sign and shortest magnitude, each byte to be taken ^ mask. `bytes` may
 * point into the struct itself.
 */
typedef struct tuple_integer {
    int sign;
    uint8_t mask;
    const uint8_t *bytes;
    size_t length;
    uint8_t space[8];
} tuple_integer;

/* False if the element is no integer. */
bool tuple_integer_of(const keel_element *element, tuple_integer *integer);

/* The bits of a float or double turned so that unsigned integers have their order, and back. */
uint32_t tuple_float_to_ordered(uint32_t bits);
uint32_t tuple_float_from_ordered(uint32_t ordered);
uint64_t tuple_double_to_ordered(uint64_t bits);
uint64_t tuple_double_from_ordered(uint64_t ordered);

/* --- tuple_utf8.c --- */

/* The length of the well-formed code point at the start of the bytes, 1 to 4, or 0. */
size_t tuple_utf8_next(const uint8_t *data, size_t length);
bool tuple_utf8_valid(keel_bytes bytes);

#endif
