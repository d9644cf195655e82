/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking: an iterator over the bytes of a key, which it trusts in nothing.
 *
 * Keys come from the database and may have been written by anyone. decode reads one element that is
 * not a nested tuple; tuple_step adds the brackets of nested tuples, counting their depth instead
 * of recursing, so that a key of nothing but brackets costs no stack; keel_tuple_next runs through
 * a nested tuple to its end and returns it whole. The format is described in tuple.c.
 *
 * Invariants:
 *   1. No byte at or beyond iterator.length is read, whatever the bytes are: every read is
 *      preceded by a comparison with what is left.
 *   2. position <= length. After an error it is the byte that is wrong, or length if bytes are
 *      missing, and `error` makes that last.
 *   3. An element that is returned is well-formed to its depths: others (packing, comparing,
 *      printing) may take its escapes for granted only so far as they cannot read too much if it
 *      was forged.
 *
 * Any thread; one at a time for one iterator.
 */
#include "tuple_private.h"

KEEL_EXPORT keel_tuple_iterator keel_tuple_iterate(keel_bytes packed) {
    keel_tuple_iterator iterator = {.data = packed.data, .length = packed.length};
    return iterator;
}

KEEL_EXPORT keel_tuple_iterator keel_tuple_iterate_behind(keel_bytes key, size_t prefix_length) {
    keel_tuple_iterator iterator = keel_tuple_iterate(key);
    iterator.position = prefix_length < key.length ? prefix_length : key.length;
    return iterator;
}

KEEL_EXPORT bool keel_tuple_at_end(const keel_tuple_iterator *iterator) {
    return !iterator->error && iterator->position == iterator->length;
}

static fdb_error_t malformed(keel_tuple_iterator *iterator, size_t position) {
    iterator->position = position;
    iterator->error = KEEL_ERROR_TUPLE_MALFORMED;
    return iterator->error;
}

/* --- One element that is not a nested tuple. position is behind its code. --- */

/* Takes `count` bytes, or NULL if there are not that many. */
static const uint8_t *take(keel_tuple_iterator *iterator, size_t count) {
    if (count > iterator->length - iterator->position) {
        malformed(iterator, iterator->length);
        return NULL;
    }
    const uint8_t *bytes = iterator->data + iterator->position;
    iterator->position += count;
    return bytes;
}

static fdb_error_t decode_bytes(keel_tuple_iterator *iterator, keel_type type,
                                keel_element *element) {
    size_t begin = iterator->position, search = begin;
    const uint8_t *data = iterator->data;
    *element = keel_element_of_type_(type);
    element->packed = 1;
    for (;;) {
        size_t left = iterator->length - search;
        const uint8_t *zero = left > 0 ? memchr(data + search, 0, left) : NULL;
        if (!zero)
            return malformed(iterator, iterator->length);
        size_t end = (size_t)(zero - data);
        if (end + 1 < iterator->length && data[end + 1] == CODE_ESCAPE) {
            element->escaped = 1;
            search = end + 2;
            continue;
        }
        element->value.as_bytes = keel_bytes_of(data + begin, end - begin);
        iterator->position = end + 1;
        return 0;
    }
}

static uint64_t big_endian(const uint8_t *bytes, size_t length, uint8_t mask) {
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++)
        value = value << 8 | (bytes[i] ^ mask);
    return value;
}

/* An integer of `length` bytes of magnitude, as the smallest type that holds it. */
static fdb_error_t decode_integer(keel_tuple_iterator *iterator, size_t length, bool negative,
                                  keel_element *element) {
    const uint8_t *bytes = take(iterator, length);
    uint8_t mask = negative ? 0xff : 0;
    if (!bytes)
        return iterator->error;
    while (length > 0 && bytes[0] == mask) {
        bytes++;
        length--;
    }
    uint64_t magnitude = length <= 8 ? big_endian(bytes, length, mask) : UINT64_MAX;
    if (length <= 8 && magnitude <= (uint64_t)INT64_MAX) {
        *element = keel_element_of_int(negative ? -(int64_t)magnitude : (int64_t)magnitude);
    } else if (length <= 8 && negative && magnitude == (uint64_t)INT64_MAX + 1) {
        *element = keel_element_of_int(INT64_MIN);
    } else if (length <= 8 && !negative) {
        *element = keel_element_of_uint(magnitude);
    } else {
        *element = keel_element_of_big(bytes, length, negative);
        element->packed = 1;
        element->escaped = negative;
    }
    return 0;
}

static fdb_error_t decode_big_integer(keel_tuple_iterator *iterator, bool negative,
                                      keel_element *element) {
    const uint8_t *length = take(iterator, 1);
    if (!length)
        return iterator->error;
    return decode_integer(iterator, (size_t)(*length ^ (negative ? 0xff : 0)), negative, element);
}

static fdb_error_t decode_float(keel_tuple_iterator *iterator, keel_element *element) {
    const uint8_t *bytes = take(iterator, 4);
    if (!bytes)
        return iterator->error;
    uint32_t bits = tuple_float_from_ordered((uint32_t)big_endian(bytes, 4, 0));
    *element = keel_element_of_type_(KEEL_TYPE_FLOAT);
    memcpy(&element->value.as_float, &bits, sizeof bits);
    return 0;
}

static fdb_error_t decode_double(keel_tuple_iterator *iterator, keel_element *element) {
    const uint8_t *bytes = take(iterator, 8);
    if (!bytes)
        return iterator->error;
    uint64_t bits = tuple_double_from_ordered(big_endian(bytes, 8, 0));
    *element = keel_element_of_type_(KEEL_TYPE_DOUBLE);
    memcpy(&element->value.as_double, &bits, sizeof bits);
    return 0;
}

static fdb_error_t decode(keel_tuple_iterator *iterator, keel_element *element) {
    uint8_t code = iterator->data[iterator->position++];
    const uint8_t *bytes;
    if (code >= CODE_INT_ZERO && code <= CODE_INT_LAST)
        return decode_integer(iterator, (size_t)(code - CODE_INT_ZERO), false, element);
    if (code >= CODE_INT_FIRST && code < CODE_INT_ZERO)
        return decode_integer(iterator, (size_t)(CODE_INT_ZERO - code), true, element);
    switch (code) {
    case CODE_NULL:
        *element = keel_element_null();
        return 0;
    case CODE_BYTES:
        return decode_bytes(iterator, KEEL_TYPE_BYTES, element);
    case CODE_STRING:
        return decode_bytes(iterator, KEEL_TYPE_STRING, element);
    case CODE_BIG_NEGATIVE:
    case CODE_BIG_POSITIVE:
        return decode_big_integer(iterator, code == CODE_BIG_NEGATIVE, element);
    case CODE_FLOAT:
        return decode_float(iterator, element);
    case CODE_DOUBLE:
        return decode_double(iterator, element);
    case CODE_FALSE:
    case CODE_TRUE:
        *element = keel_element_of_bool(code == CODE_TRUE);
        return 0;
    case CODE_UUID:
        if ((bytes = take(iterator, KEEL_UUID_LENGTH)) != NULL)
            *element = keel_element_of_uuid(bytes);
        return iterator->error;
    case CODE_VERSIONSTAMP:
        if ((bytes = take(iterator, KEEL_VERSIONSTAMP_LENGTH)) != NULL)
            *element = keel_element_of_versionstamp(bytes);
        return iterator->error;
    default:
        return malformed(iterator, iterator->position - 1);
    }
}

/* --- Steps --- */

fdb_error_t tuple_step(keel_tuple_iterator *iterator, size_t *depth, tuple_token *token,
                       keel_element *element) {
    size_t position = iterator->position;
    if (iterator->error)
        return iterator->error;
    if (position == iterator->length) {
        if (*depth > 0)
            return malformed(iterator, position);
        *token = TOKEN_FINISH;
        return 0;
    }
    uint8_t code = iterator->data[position];
    *token = TOKEN_ELEMENT;
    if (code == CODE_NESTED) {
        *token = TOKEN_BEGIN;
        (*depth)++;
        iterator->position++;
        return 0;
    }
    if (code != CODE_NULL || (*depth == 0 && !iterator->nested))
        return decode(iterator, element);
    if (position + 1 < iterator->length && iterator->data[position + 1] == CODE_ESCAPE) {
        *element = keel_element_null();
        iterator->position += 2;
        return 0;
    }
    if (*depth == 0)
        return malformed(iterator, position);
    *token = TOKEN_END;
    (*depth)--;
    iterator->position++;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_next(keel_tuple_iterator *iterator, keel_element *element) {
    keel_element found, inner;
    tuple_token token;
    size_t depth = 0;
    fdb_error_t error = tuple_step(iterator, &depth, &token, &found);
    if (error)
        return error;
    if (token == TOKEN_FINISH)
        return KEEL_ERROR_TUPLE_END;
    if (token == TOKEN_BEGIN) {
        size_t begin = iterator->position;
        while (depth > 0)
            if ((error = tuple_step(iterator, &depth, &token, &inner)))
                return error;
        found = keel_element_of_type_(KEEL_TYPE_NESTED);
        found.packed = 1;
        found.value.as_bytes = keel_bytes_of(iterator->data + begin,
                                             iterator->position - 1 - begin);
    }
    *element = found;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_skip(keel_tuple_iterator *iterator, size_t count) {
    keel_element element;
    fdb_error_t error = 0;
    while (count-- > 0 && !error)
        error = keel_tuple_next(iterator, &element);
    return error;
}

/* --- The next element as a C value --- */

/* The next element on a copy of the iterator, which the caller takes over once it has its value. */
static fdb_error_t peek(keel_tuple_iterator *iterator, keel_tuple_iterator *ahead,
                        keel_element *element) {
    *ahead = *iterator;
    fdb_error_t error = keel_tuple_next(ahead, element);
    if (error)
        *iterator = *ahead; /* remembers the error */
    return error;
}

static fdb_error_t peek_type(keel_tuple_iterator *iterator, keel_type type,
                             keel_tuple_iterator *ahead, keel_element *element) {
    fdb_error_t error = peek(iterator, ahead, element);
    if (!error && element->type != type)
        error = KEEL_ERROR_TUPLE_TYPE;
    return error;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_null(keel_tuple_iterator *iterator) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_NULL, &ahead, &element);
    if (!error)
        *iterator = ahead;
    return error;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_int(keel_tuple_iterator *iterator, int64_t *value) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek(iterator, &ahead, &element);
    if (!error)
        error = keel_element_int(&element, value);
    if (!error)
        *iterator = ahead;
    return error;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_uint(keel_tuple_iterator *iterator, uint64_t *value) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek(iterator, &ahead, &element);
    if (!error)
        error = keel_element_uint(&element, value);
    if (!error)
        *iterator = ahead;
    return error;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_float(keel_tuple_iterator *iterator, float *value) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_FLOAT, &ahead, &element);
    if (error)
        return error;
    memcpy(value, &element.value.as_float, sizeof *value);
    *iterator = ahead;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_double(keel_tuple_iterator *iterator, double *value) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_DOUBLE, &ahead, &element);
    if (error)
        return error;
    memcpy(value, &element.value.as_double, sizeof *value);
    *iterator = ahead;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_bool(keel_tuple_iterator *iterator, bool *value) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_BOOL, &ahead, &element);
    if (error)
        return error;
    *value = element.value.as_bool;
    *iterator = ahead;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_uuid(keel_tuple_iterator *iterator,
                                             uint8_t uuid[KEEL_UUID_LENGTH]) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_UUID, &ahead, &element);
    if (error)
        return error;
    memcpy(uuid, element.value.as_uuid, KEEL_UUID_LENGTH);
    *iterator = ahead;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_versionstamp(
    keel_tuple_iterator *iterator, uint8_t versionstamp[KEEL_VERSIONSTAMP_LENGTH]) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_VERSIONSTAMP, &ahead, &element);
    if (error)
        return error;
    memcpy(versionstamp, element.value.as_versionstamp, KEEL_VERSIONSTAMP_LENGTH);
    *iterator = ahead;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_bytes(keel_tuple_iterator *iterator, uint8_t *buffer,
                                              size_t capacity, size_t *length) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_BYTES, &ahead, &element);
    if (!error)
        error = keel_element_copy(&element, buffer, capacity, length);
    if (!error)
        *iterator = ahead;
    return error;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_string(keel_tuple_iterator *iterator, char *buffer,
                                               size_t capacity, size_t *length) {
    keel_tuple_iterator ahead;
    keel_element element;
    size_t room = capacity > 0 ? capacity - 1 : 0;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_STRING, &ahead, &element);
    if (!error)
        error = keel_element_copy(&element, (uint8_t *)buffer, room, length);
    if (!error && capacity == 0)
        error = KEEL_ERROR_BUFFER_TOO_SMALL;
    if (error)
        return error;
    buffer[*length] = '\0';
    *iterator = ahead;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_next_nested(keel_tuple_iterator *iterator,
                                               keel_tuple_iterator *nested) {
    keel_tuple_iterator ahead;
    keel_element element;
    fdb_error_t error = peek_type(iterator, KEEL_TYPE_NESTED, &ahead, &element);
    if (error)
        return error;
    *iterator = ahead;
    return keel_element_iterate(&element, nested);
}

/* --- Whole tuples --- */

KEEL_EXPORT fdb_error_t keel_tuple_check(keel_bytes packed, size_t *offset) {
    keel_tuple_iterator iterator = keel_tuple_iterate(packed);
    keel_element element;
    tuple_token token = TOKEN_ELEMENT;
    size_t depth = 0;
    fdb_error_t error = 0;
    while (!error && token != TOKEN_FINISH)
        error = tuple_step(&iterator, &depth, &token, &element);
    if (error && offset)
        *offset = iterator.position;
    return error;
}

KEEL_EXPORT fdb_error_t keel_tuple_unpack(keel_bytes packed, keel_element *elements,
                                          size_t capacity, size_t *count, size_t *offset) {
    keel_tuple_iterator iterator = keel_tuple_iterate(packed);
    keel_element element;
    size_t found = 0;
    fdb_error_t error;
    while (!(error = keel_tuple_next(&iterator, &element))) {
        if (found < capacity)
            elements[found] = element;
        found++;
    }
    if (error != KEEL_ERROR_TUPLE_END) {
        if (offset)
            *offset = iterator.position;
        return error;
    }
    *count = found;
    return found > capacity ? KEEL_ERROR_BUFFER_TOO_SMALL : 0;
}
