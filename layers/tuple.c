/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing tuples: values to bytes whose order is the order of the values.
 *
 * A transaction's keys are made here, before any call of the fdb_c API; nothing here calls it.
 * Files of the tuple layer: this one writes into the caller's buffer, tuple_builder.c into a
 * growing one, tuple_iterator.c reads, tuple_element.c looks into elements, tuple_compare.c orders
 * them without packing, tuple_text.c and tuple_parse.c print and parse, tuple_utf8.c checks
 * strings.
 *
 * Format. A packed tuple is its elements one after the other, each a type code and what follows it:
 *
 *     00                    null; 00 ff inside a nested tuple
 *     01 bytes 00           bytes, each 00 among them written as 00 ff
 *     02 utf-8 00           a string, the same
 *     05 elements 00        a nested tuple
 *     0b ~n ~bytes          an integer below -(2^64-1): length and magnitude, all bits flipped
 *     0c..13 ~bytes         a negative integer of 8..1 bytes of magnitude, flipped
 *     14                    0
 *     15..1c bytes          a positive integer of 1..8 bytes, big-endian
 *     1d n bytes            an integer above 2^64-1
 *     20 4 bytes            a float, big-endian: sign bit flipped if positive, all bits if negative
 *     21 8 bytes            a double, the same
 *     26, 27                false, true
 *     30 16 bytes           a UUID
 *     33 12 bytes           a versionstamp; incomplete if the first ten bytes are ff
 *
 * Why it is ordered: codes order the types. A terminator 00 is below every code and every escaped
 * byte but 00 ff, and ff is no code: so a string or nested tuple sorts before its extensions, also
 * when other elements follow it.
 *
 * Invariants:
 *   1. Nothing is written at or beyond writer.capacity; writer.length is what a buffer without
 *      end would hold.
 *   2. Integers are written in their shortest form, whatever form they were given in.
 *   3. A string is written only if it is UTF-8, or came as `packed` from an iterator.
 *   4. stamp_count and stamp_position know every incomplete versionstamp written, at any depth.
 *
 * Threads: no state but the API version, an atomic. Failure: errors of the caller's values only;
 * the buffer's content is then undefined.
 */
#include <stdatomic.h>

#include "tuple_private.h"

enum { API_VERSION_DEFAULT = 740, API_VERSION_LONG_OFFSETS = 520 };

static atomic_int selected_api_version = API_VERSION_DEFAULT;

KEEL_EXPORT void keel_tuple_use_api_version(int api_version) {
    atomic_store_explicit(&selected_api_version, api_version, memory_order_relaxed);
}

/* --- The writer --- */

void tuple_put_escaped(tuple_writer *writer, keel_bytes bytes) {
    const uint8_t *next = bytes.data;
    size_t left = bytes.length;
    const uint8_t *zero;
    while (left > 0 && (zero = memchr(next, 0, left)) != NULL) {
        size_t chunk = (size_t)(zero - next) + 1;
        tuple_put(writer, next, chunk);
        tuple_put_byte(writer, CODE_ESCAPE);
        next += chunk;
        left -= chunk;
    }
    tuple_put(writer, next, left);
}

/* --- One element --- */

/* Bytes that an iterator found: they are written as they are, if they can have come from there. */
static fdb_error_t put_packed_bytes(tuple_writer *writer, keel_bytes bytes) {
    const uint8_t *next = bytes.data;
    size_t left = bytes.length;
    const uint8_t *zero;
    while (left > 0 && (zero = memchr(next, 0, left)) != NULL) {
        size_t chunk = (size_t)(zero - next) + 2;
        if (chunk > left || zero[1] != CODE_ESCAPE)
            return KEEL_ERROR_TUPLE_MALFORMED;
        next += chunk;
        left -= chunk;
    }
    tuple_put(writer, bytes.data, bytes.length);
    return 0;
}

static fdb_error_t put_bytes(tuple_writer *writer, const keel_element *element) {
    bool string = element->type == KEEL_TYPE_STRING;
    fdb_error_t error = 0;
    tuple_put_byte(writer, string ? CODE_STRING : CODE_BYTES);
    if (element->packed)
        error = put_packed_bytes(writer, element->value.as_bytes);
    else if (string && !tuple_utf8_valid(element->value.as_bytes))
        error = KEEL_ERROR_NOT_UTF8;
    else
        tuple_put_escaped(writer, element->value.as_bytes);
    tuple_put_byte(writer, 0);
    return error;
}

static void put_big_endian(tuple_writer *writer, uint64_t value, size_t length) {
    uint8_t bytes[8];
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(value >> (8 * (length - 1 - i)));
    tuple_put(writer, bytes, length);
}

static void put_small_integer(tuple_writer *writer, uint64_t magnitude, bool negative) {
    size_t length = 0;
    for (uint64_t rest = magnitude; rest; rest >>= 8)
        length++;
    tuple_put_byte(writer, (uint8_t)(negative ? CODE_INT_ZERO - length : CODE_INT_ZERO + length));
    put_big_endian(writer, negative ? ~magnitude : magnitude, length);
}

static fdb_error_t put_big_integer(tuple_writer *writer, const keel_element *element) {
    tuple_integer integer;
    tuple_integer_of(element, &integer);
    if (integer.length > KEEL_INTEGER_LENGTH_MAX)
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    if (integer.length <= 8) {
        uint64_t magnitude = 0;
        for (size_t i = 0; i < integer.length; i++)
            magnitude = magnitude << 8 | (integer.bytes[i] ^ integer.mask);
        put_small_integer(writer, magnitude, integer.sign < 0);
        return 0;
    }
    uint8_t flip = integer.sign < 0 ? 0xff : 0;
    tuple_put_byte(writer, integer.sign < 0 ? CODE_BIG_NEGATIVE : CODE_BIG_POSITIVE);
    tuple_put_byte(writer, (uint8_t)(integer.length ^ flip));
    for (size_t i = 0; i < integer.length; i++)
        tuple_put_byte(writer, integer.bytes[i] ^ integer.mask ^ flip);
    return 0;
}

static void put_float(tuple_writer *writer, const keel_element *element) {
    uint32_t bits;
    memcpy(&bits, &element->value.as_float, sizeof bits);
    tuple_put_byte(writer, CODE_FLOAT);
    put_big_endian(writer, tuple_float_to_ordered(bits), sizeof bits);
}

static void put_double(tuple_writer *writer, const keel_element *element) {
    uint64_t bits;
    memcpy(&bits, &element->value.as_double, sizeof bits);
    tuple_put_byte(writer, CODE_DOUBLE);
    put_big_endian(writer, tuple_double_to_ordered(bits), sizeof bits);
}

static void put_versionstamp(tuple_writer *writer, const keel_element *element) {
    tuple_put_byte(writer, CODE_VERSIONSTAMP);
    if (keel_element_is_incomplete(element)) {
        writer->stamp_count++;
        writer->stamp_position = writer->length;
    }
    tuple_put(writer, element->value.as_versionstamp, KEEL_VERSIONSTAMP_LENGTH);
}

static fdb_error_t put_elements(tuple_writer *writer, keel_tuple tuple, bool nested) {
    for (size_t i = 0; i < tuple.count; i++) {
        fdb_error_t error = tuple_put_element(writer, &tuple.elements[i], nested);
        if (error)
            return error;
    }
    return 0;
}

static fdb_error_t put_nested(tuple_writer *writer, const keel_element *element) {
    tuple_put_byte(writer, CODE_NESTED);
    fdb_error_t error = element->packed ? tuple_put_packed(writer, element->value.as_bytes, true)
                                        : put_elements(writer, element->value.as_tuple, true);
    tuple_put_byte(writer, 0);
    return error;
}

fdb_error_t tuple_put_element(tuple_writer *writer, const keel_element *element, bool nested) {
    int64_t value = element->value.as_int;
    switch (element->type) {
    case KEEL_TYPE_NULL:
        tuple_put(writer, "\x00\xff", nested ? 2 : 1);
        return 0;
    case KEEL_TYPE_BYTES:
    case KEEL_TYPE_STRING:
        return put_bytes(writer, element);
    case KEEL_TYPE_NESTED:
        return put_nested(writer, element);
    case KEEL_TYPE_INT:
        put_small_integer(writer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
        return 0;
    case KEEL_TYPE_UINT:
        put_small_integer(writer, element->value.as_uint, false);
        return 0;
    case KEEL_TYPE_BIG_INT:
        return put_big_integer(writer, element);
    case KEEL_TYPE_FLOAT:
        put_float(writer, element);
        return 0;
    case KEEL_TYPE_DOUBLE:
        put_double(writer, element);
        return 0;
    case KEEL_TYPE_BOOL:
        tuple_put_byte(writer, element->value.as_bool ? CODE_TRUE : CODE_FALSE);
        return 0;
    case KEEL_TYPE_UUID:
        tuple_put_byte(writer, CODE_UUID);
        tuple_put(writer, element->value.as_uuid, KEEL_UUID_LENGTH);
        return 0;
    case KEEL_TYPE_VERSIONSTAMP:
        put_versionstamp(writer, element);
        return 0;
    }
    return KEEL_ERROR_ARGUMENT;
}

fdb_error_t tuple_put_packed(tuple_writer *writer, keel_bytes packed, bool nested) {
    keel_tuple_iterator iterator = keel_tuple_iterate(packed);
    keel_element element;
    tuple_token token;
    size_t depth = 0;
    iterator.nested = nested;
    for (;;) {
        fdb_error_t error = tuple_step(&iterator, &depth, &token, &element);
        if (!error && token == TOKEN_ELEMENT)
            error = tuple_put_element(writer, &element, nested || depth > 0);
        else if (!error && token != TOKEN_FINISH)
            tuple_put_byte(writer, token == TOKEN_BEGIN ? CODE_NESTED : 0);
        if (error || token == TOKEN_FINISH)
            return error;
    }
}

/* --- Whole tuples --- */

static fdb_error_t put_tuple(tuple_writer *writer, keel_bytes prefix, keel_tuple tuple) {
    tuple_put(writer, prefix.data, prefix.length);
    return put_elements(writer, tuple, false);
}

static fdb_error_t deliver(const tuple_writer *writer, size_t *length) {
    *length = writer->length;
    return writer->length > writer->capacity ? KEEL_ERROR_BUFFER_TOO_SMALL : 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_pack(keel_tuple tuple, uint8_t *buffer, size_t capacity,
                                        size_t *length) {
    return keel_tuple_pack_prefix(keel_bytes_of(NULL, 0), tuple, buffer, capacity, length);
}

KEEL_EXPORT fdb_error_t keel_tuple_pack_prefix(keel_bytes prefix, keel_tuple tuple, uint8_t *buffer,
                                               size_t capacity, size_t *length) {
    tuple_writer writer = {.data = buffer, .capacity = capacity};
    fdb_error_t error = put_tuple(&writer, prefix, tuple);
    if (error)
        return error;
    if (writer.stamp_count > 0)
        return KEEL_ERROR_INCOMPLETE_VERSIONSTAMP;
    return deliver(&writer, length);
}

KEEL_EXPORT fdb_error_t keel_tuple_pack_versionstamp(keel_tuple tuple, uint8_t *buffer,
                                                     size_t capacity, size_t *length) {
    return keel_tuple_pack_versionstamp_prefix(keel_bytes_of(NULL, 0), tuple, buffer, capacity,
                                               length);
}

KEEL_EXPORT fdb_error_t keel_tuple_pack_versionstamp_prefix(keel_bytes prefix, keel_tuple tuple,
                                                            uint8_t *buffer, size_t capacity,
                                                            size_t *length) {
    tuple_writer writer = {.data = buffer, .capacity = capacity};
    uint8_t offset[4];
    size_t offset_length;
    fdb_error_t error = put_tuple(&writer, prefix, tuple);
    if (!error)
        error = tuple_stamp_offset(writer.stamp_count, writer.stamp_position, offset,
                                   &offset_length);
    if (error)
        return error;
    tuple_put(&writer, offset, offset_length);
    return deliver(&writer, length);
}

fdb_error_t tuple_stamp_offset(uint32_t stamp_count, size_t stamp_position, uint8_t offset[4],
                               size_t *length) {
    int api_version = atomic_load_explicit(&selected_api_version, memory_order_relaxed);
    bool four = api_version >= API_VERSION_LONG_OFFSETS;
    if (stamp_count != 1)
        return stamp_count ? KEEL_ERROR_MANY_VERSIONSTAMPS : KEEL_ERROR_NO_VERSIONSTAMP;
    if (stamp_position > (four ? UINT32_MAX : UINT16_MAX))
        return KEEL_ERROR_ARGUMENT;
    for (int i = 0; i < 4; i++) /* little-endian */
        offset[i] = (uint8_t)(stamp_position >> (8 * i));
    *length = four ? 4 : 2;
    return 0;
}

/* --- Ranges --- */

KEEL_EXPORT fdb_error_t keel_tuple_range(keel_tuple tuple, uint8_t *begin, uint8_t *end,
                                         size_t capacity, size_t *length) {
    return keel_tuple_range_prefix(keel_bytes_of(NULL, 0), tuple, begin, end, capacity, length);
}

KEEL_EXPORT fdb_error_t keel_tuple_range_prefix(keel_bytes prefix, keel_tuple tuple, uint8_t *begin,
                                                uint8_t *end, size_t capacity, size_t *length) {
    size_t packed_length;
    fdb_error_t error = keel_tuple_pack_prefix(prefix, tuple, begin, capacity, &packed_length);
    if (error && error != KEEL_ERROR_BUFFER_TOO_SMALL)
        return error;
    *length = packed_length + 1;
    if (packed_length >= capacity)
        return KEEL_ERROR_BUFFER_TOO_SMALL;
    memcpy(end, begin, packed_length);
    begin[packed_length] = 0x00;
    end[packed_length] = 0xff;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_strinc(keel_bytes prefix, uint8_t *buffer, size_t capacity,
                                    size_t *length) {
    size_t kept = prefix.length;
    while (kept > 0 && prefix.data[kept - 1] == 0xff)
        kept--;
    if (kept == 0)
        return KEEL_ERROR_NO_SUCCESSOR;
    *length = kept;
    if (kept > capacity)
        return KEEL_ERROR_BUFFER_TOO_SMALL;
    memmove(buffer, prefix.data, kept);
    buffer[kept - 1]++;
    return 0;
}
