/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking into elements, whether a program made them or an iterator found them.
 *
 * An element that an iterator found points into the key (`packed`). Two kinds of it need a
 * transformation to be read: bytes and strings with 00 ff for 00, and big negative integers, whose
 * bits are flipped (`escaped`). Integers come in three types; tuple_integer makes one of them:
 * sign, and the shortest magnitude under a mask that undoes the flipping, so that nothing is copied
 * to compare or to pack.
 *
 * No state, any thread. Wrong types are errors, never assertions: elements are the caller's.
 */
#include "tuple_private.h"

/* --- Floating point order --- */

uint32_t tuple_float_to_ordered(uint32_t bits) {
    return bits >> 31 ? ~bits : bits | UINT32_C(0x80000000);
}

uint32_t tuple_float_from_ordered(uint32_t ordered) {
    return ordered >> 31 ? ordered & UINT32_C(0x7fffffff) : ~ordered;
}

uint64_t tuple_double_to_ordered(uint64_t bits) {
    return bits >> 63 ? ~bits : bits | UINT64_C(0x8000000000000000);
}

uint64_t tuple_double_from_ordered(uint64_t ordered) {
    return ordered >> 63 ? ordered & UINT64_C(0x7fffffffffffffff) : ~ordered;
}

/* --- Integers --- */

static void integer_of_64(tuple_integer *integer, uint64_t magnitude, bool negative) {
    for (size_t i = 0; i < 8; i++)
        integer->space[i] = (uint8_t)(magnitude >> (8 * (7 - i)));
    integer->mask = 0;
    integer->bytes = integer->space;
    integer->length = sizeof integer->space;
    integer->sign = negative ? -1 : 1;
}

bool tuple_integer_of(const keel_element *element, tuple_integer *integer) {
    int64_t value = element->value.as_int;
    switch (element->type) {
    case KEEL_TYPE_INT:
        integer_of_64(integer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
        break;
    case KEEL_TYPE_UINT:
        integer_of_64(integer, element->value.as_uint, false);
        break;
    case KEEL_TYPE_BIG_INT:
        integer->mask = element->escaped ? 0xff : 0;
        integer->bytes = element->value.as_big.magnitude.data;
        integer->length = element->value.as_big.magnitude.length;
        integer->sign = element->value.as_big.negative ? -1 : 1;
        break;
    default:
        return false;
    }
    while (integer->length > 0 && (integer->bytes[0] ^ integer->mask) == 0) {
        integer->bytes++;
        integer->length--;
    }
    if (integer->length == 0)
        integer->sign = 0;
    return true;
}

/* The magnitude in 64 bits. */
static fdb_error_t magnitude_of(const keel_element *element, uint64_t *magnitude, int *sign) {
    tuple_integer integer;
    if (!tuple_integer_of(element, &integer))
        return KEEL_ERROR_TUPLE_TYPE;
    if (integer.length > 8)
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    *magnitude = 0;
    for (size_t i = 0; i < integer.length; i++)
        *magnitude = *magnitude << 8 | (integer.bytes[i] ^ integer.mask);
    *sign = integer.sign;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_element_int(const keel_element *element, int64_t *value) {
    uint64_t magnitude;
    int sign;
    if (element->type == KEEL_TYPE_INT) {
        *value = element->value.as_int;
        return 0;
    }
    fdb_error_t error = magnitude_of(element, &magnitude, &sign);
    if (error)
        return error;
    if (magnitude > (uint64_t)INT64_MAX + (sign < 0))
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    *value = sign < 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_element_uint(const keel_element *element, uint64_t *value) {
    uint64_t magnitude;
    int sign;
    fdb_error_t error = magnitude_of(element, &magnitude, &sign);
    if (error)
        return error;
    if (sign < 0)
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    *value = magnitude;
    return 0;
}

KEEL_EXPORT int keel_element_sign(const keel_element *element) {
    tuple_integer integer;
    return tuple_integer_of(element, &integer) ? integer.sign : 0;
}

/* --- Bytes --- */

static bool has_bytes(const keel_element *element) {
    return element->type == KEEL_TYPE_BYTES || element->type == KEEL_TYPE_STRING;
}

static size_t unescaped_length(keel_bytes bytes) {
    size_t length = 0;
    for (size_t i = 0; i < bytes.length; i++, length++)
        if (bytes.data[i] == 0)
            i++;
    return length;
}

static fdb_error_t copy_bytes(const keel_element *element, uint8_t *buffer, size_t capacity,
                              size_t *length) {
    keel_bytes bytes = element->value.as_bytes;
    size_t needed = element->escaped ? unescaped_length(bytes) : bytes.length;
    *length = needed;
    if (needed > capacity)
        return KEEL_ERROR_BUFFER_TOO_SMALL;
    if (!element->escaped) {
        if (needed > 0)
            memcpy(buffer, bytes.data, needed);
        return 0;
    }
    for (size_t from = 0, to = 0; to < needed; from++) {
        buffer[to++] = bytes.data[from];
        if (bytes.data[from] == 0)
            from++;
    }
    return 0;
}

KEEL_EXPORT fdb_error_t keel_element_copy(const keel_element *element, uint8_t *buffer,
                                          size_t capacity, size_t *length) {
    tuple_integer integer;
    if (has_bytes(element))
        return copy_bytes(element, buffer, capacity, length);
    if (!tuple_integer_of(element, &integer))
        return KEEL_ERROR_TUPLE_TYPE;
    *length = integer.length;
    if (integer.length > capacity)
        return KEEL_ERROR_BUFFER_TOO_SMALL;
    for (size_t i = 0; i < integer.length; i++)
        buffer[i] = integer.bytes[i] ^ integer.mask;
    return 0;
}

/*
 * A NUL is never part of a longer code point: so the pieces between escapes are judged one by one.
 */
KEEL_EXPORT bool keel_element_is_utf8(const keel_element *element) {
    keel_bytes bytes = element->value.as_bytes;
    if (element->type != KEEL_TYPE_STRING)
        return false;
    if (!element->escaped)
        return tuple_utf8_valid(bytes);
    for (size_t begin = 0, end; begin < bytes.length; begin = end + 2) {
        const uint8_t *zero = memchr(bytes.data + begin, 0, bytes.length - begin);
        end = zero ? (size_t)(zero - bytes.data) : bytes.length;
        if (!tuple_utf8_valid(keel_bytes_of(bytes.data + begin, end - begin)))
            return false;
    }
    return true;
}

/* --- Versionstamps and nested tuples --- */

KEEL_EXPORT bool keel_element_is_incomplete(const keel_element *element) {
    if (element->type != KEEL_TYPE_VERSIONSTAMP)
        return false;
    for (size_t i = 0; i < KEEL_TRANSACTION_VERSION_LENGTH; i++)
        if (element->value.as_versionstamp[i] != 0xff)
            return false;
    return true;
}

static bool packed_has_incomplete(keel_bytes packed) {
    keel_tuple_iterator iterator = keel_tuple_iterate(packed);
    keel_element element;
    tuple_token token;
    size_t depth = 0;
    iterator.nested = true;
    while (!tuple_step(&iterator, &depth, &token, &element) && token != TOKEN_FINISH)
        if (token == TOKEN_ELEMENT && keel_element_is_incomplete(&element))
            return true;
    return false;
}

KEEL_EXPORT bool keel_tuple_has_incomplete(keel_tuple tuple) {
    for (size_t i = 0; i < tuple.count; i++) {
        const keel_element *element = &tuple.elements[i];
        bool nested = element->type == KEEL_TYPE_NESTED;
        if (keel_element_is_incomplete(element))
            return true;
        if (nested && element->packed && packed_has_incomplete(element->value.as_bytes))
            return true;
        if (nested && !element->packed && keel_tuple_has_incomplete(element->value.as_tuple))
            return true;
    }
    return false;
}

KEEL_EXPORT fdb_error_t keel_element_iterate(const keel_element *element,
                                             keel_tuple_iterator *nested) {
    if (element->type != KEEL_TYPE_NESTED || !element->packed)
        return KEEL_ERROR_TUPLE_TYPE;
    *nested = keel_tuple_iterate(element->value.as_bytes);
    nested->nested = true;
    return 0;
}
