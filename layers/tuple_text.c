/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing tuples as text that tuple_parse.c reads back into the same bytes. The syntax is in
 * keel/tuple.h.
 *
 * For people: the shell, logs, tests. Nothing here is on the path of a transaction, so it is
 * written to be short, not fast. A text is written like a packed tuple is (tuple_writer counts what
 * does not fit); packed bytes are walked without recursion.
 *
 * Floats are printed with the fewest significant digits that read back to the same bits, found by
 * trying. printf and strtod know the locale: the point is put in by hand here and taken out again
 * there. Big integers are divided by 10^9 until nothing is left.
 *
 * Invariant: the text holds no control characters and is UTF-8, whatever the bytes were. Any
 * thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tuple_private.h"

enum {
    DIGITS_MAX = 640,      /* of 2^2040: 615 */
    LIMBS = 64,            /* of 32 bits: 2048 */
    FLOAT_TEXT_MAX = 64,
    BILLION = 1000000000
};

static void put_text(tuple_writer *writer, const char *text) {
    tuple_put(writer, text, strlen(text));
}

static void put_hex(tuple_writer *writer, const uint8_t *bytes, size_t length) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        tuple_put_byte(writer, (uint8_t)digits[bytes[i] >> 4]);
        tuple_put_byte(writer, (uint8_t)digits[bytes[i] & 15]);
    }
}

/* --- Bytes and strings, unescaped on the way --- */

static void put_bytes(tuple_writer *writer, const keel_element *element) {
    keel_bytes bytes = element->value.as_bytes;
    put_text(writer, "0x");
    for (size_t i = 0; i < bytes.length; i++) {
        put_hex(writer, &bytes.data[i], 1);
        if (bytes.data[i] == 0 && element->escaped)
            i++;
    }
}

static void put_escape(tuple_writer *writer, uint8_t byte) {
    static const char named[] = {'\n', 'n', '\r', 'r', '\t', 't', '"', '"', '\\', '\\'};
    tuple_put_byte(writer, '\\');
    for (size_t i = 0; i < sizeof named; i += 2) {
        if (byte == (uint8_t)named[i]) {
            tuple_put_byte(writer, (uint8_t)named[i + 1]);
            return;
        }
    }
    tuple_put_byte(writer, 'x');
    put_hex(writer, &byte, 1);
}

/* Whether a well-formed code point is shown as it is. C1 controls are c2 80 to c2 9f. */
static bool is_shown(const uint8_t *data, size_t length) {
    if (length == 1)
        return data[0] >= 0x20 && data[0] != 0x7f && data[0] != '"' && data[0] != '\\';
    return !(data[0] == 0xc2 && data[1] < 0xa0);
}

static void put_string(tuple_writer *writer, const keel_element *element) {
    keel_bytes bytes = element->value.as_bytes;
    tuple_put_byte(writer, '"');
    for (size_t i = 0; i < bytes.length;) {
        const uint8_t *here = bytes.data + i;
        size_t length = tuple_utf8_next(here, bytes.length - i);
        if (length > 0 && is_shown(here, length)) {
            tuple_put(writer, here, length);
            i += length;
        } else {
            put_escape(writer, *here);
            i += *here == 0 && element->escaped ? 2 : 1;
        }
    }
    tuple_put_byte(writer, '"');
}

/* --- Integers --- */

static uint32_t divide_by_billion(uint32_t limbs[LIMBS]) {
    uint64_t rest = 0;
    for (size_t i = 0; i < LIMBS; i++) {
        uint64_t value = rest << 32 | limbs[i];
        limbs[i] = (uint32_t)(value / BILLION);
        rest = value % BILLION;
    }
    return (uint32_t)rest;
}

static bool is_zero(const uint32_t limbs[LIMBS]) {
    for (size_t i = 0; i < LIMBS; i++)
        if (limbs[i])
            return false;
    return true;
}

static fdb_error_t put_integer(tuple_writer *writer, const keel_element *element) {
    tuple_integer integer;
    uint32_t limbs[LIMBS] = {0};
    char digits[DIGITS_MAX];
    size_t begin = sizeof digits;
    tuple_integer_of(element, &integer);
    if (integer.length > KEEL_INTEGER_LENGTH_MAX)
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    for (size_t i = 0; i < integer.length; i++) {
        size_t significance = integer.length - 1 - i; /* in bytes */
        uint32_t byte = integer.bytes[i] ^ integer.mask;
        limbs[LIMBS - 1 - significance / 4] |= byte << (8 * (significance % 4));
    }
    do {
        uint32_t nine = divide_by_billion(limbs);
        for (int i = 0; i < 9; i++, nine /= 10)
            digits[--begin] = (char)('0' + nine % 10);
    } while (!is_zero(limbs));
    while (begin < sizeof digits - 1 && digits[begin] == '0')
        begin++;
    if (integer.sign < 0)
        tuple_put_byte(writer, '-');
    tuple_put(writer, digits + begin, sizeof digits - begin);
    return 0;
}

/* --- Floating point --- */

/* Whether the text reads back to these bits. */
static bool reads_back(const char *text, const keel_element *element) {
    if (element->type == KEEL_TYPE_FLOAT) {
        float value = strtof(text, NULL);
        return memcmp(&value, &element->value.as_float, sizeof value) == 0;
    }
    double value = strtod(text, NULL);
    return memcmp(&value, &element->value.as_double, sizeof value) == 0;
}

static bool is_number_character(char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e';
}

/*
 * Writes a number of printf's, with a point for whatever the locale has, and .0 where nothing tells
 * it from an integer.
 */
static void put_number(tuple_writer *writer, const char *text) {
    bool is_plain = true;
    for (const char *c = text; *c; c++) {
        if (is_number_character(*c)) {
            tuple_put_byte(writer, (uint8_t)*c);
            is_plain = is_plain && *c != 'e';
        } else if (is_number_character(c[1])) { /* the locale's point may have several bytes */
            tuple_put_byte(writer, '.');
            is_plain = false;
        }
    }
    if (is_plain)
        put_text(writer, ".0");
}

static void put_finite(tuple_writer *writer, const keel_element *element) {
    bool is_float = element->type == KEEL_TYPE_FLOAT;
    double value = is_float ? (double)element->value.as_float : element->value.as_double;
    char text[FLOAT_TEXT_MAX];
    int precision = 0;
    do
        snprintf(text, sizeof text, "%.*g", ++precision, value);
    while (precision < 17 && !reads_back(text, element));
    put_number(writer, text);
}

/* An infinity or NaN by its bits; `quiet` is the mantissa that needs no mention. */
static void put_special(tuple_writer *writer, bool negative, uint64_t mantissa, uint64_t quiet,
                        bool is_float) {
    char text[FLOAT_TEXT_MAX];
    const char *suffix = is_float ? "f" : "";
    const char *sign = negative ? "-" : "";
    if (mantissa == 0)
        snprintf(text, sizeof text, "%sinf%s", sign, suffix);
    else if (mantissa == quiet)
        snprintf(text, sizeof text, "%snan%s", sign, suffix);
    else
        snprintf(text, sizeof text, "%snan%s(0x%llx)", sign, suffix, (unsigned long long)mantissa);
    put_text(writer, text);
}

static void put_float(tuple_writer *writer, const keel_element *element) {
    uint32_t bits;
    memcpy(&bits, &element->value.as_float, sizeof bits);
    if ((bits >> 23 & 0xff) == 0xff) {
        put_special(writer, bits >> 31, bits & 0x7fffff, 0x400000, true);
        return;
    }
    put_finite(writer, element);
    tuple_put_byte(writer, 'f');
}

static void put_double(tuple_writer *writer, const keel_element *element) {
    uint64_t bits;
    memcpy(&bits, &element->value.as_double, sizeof bits);
    if ((bits >> 52 & 0x7ff) == 0x7ff)
        put_special(writer, bits >> 63, bits & UINT64_C(0xfffffffffffff), UINT64_C(0x8000000000000),
                    false);
    else
        put_finite(writer, element);
}

/* --- Fixed sizes --- */

static void put_uuid(tuple_writer *writer, const uint8_t *uuid) {
    static const uint8_t ends[] = {4, 6, 8, 10, 16};
    put_text(writer, "uuid(");
    for (size_t i = 0, begin = 0; i < sizeof ends; begin = ends[i++]) {
        if (i > 0)
            tuple_put_byte(writer, '-');
        put_hex(writer, uuid + begin, ends[i] - begin);
    }
    tuple_put_byte(writer, ')');
}

static void put_versionstamp(tuple_writer *writer, const keel_element *element) {
    const uint8_t *stamp = element->value.as_versionstamp;
    char user[8];
    snprintf(user, sizeof user, "%d)", stamp[10] << 8 | stamp[11]);
    if (keel_element_is_incomplete(element)) {
        put_text(writer, "incomplete(");
    } else {
        put_text(writer, "versionstamp(0x");
        put_hex(writer, stamp, KEEL_TRANSACTION_VERSION_LENGTH);
        put_text(writer, ", ");
    }
    put_text(writer, user);
}

/* --- Elements and tuples --- */

static fdb_error_t put_scalar(tuple_writer *writer, const keel_element *element) {
    switch (element->type) {
    case KEEL_TYPE_NULL:
        put_text(writer, "null");
        return 0;
    case KEEL_TYPE_BYTES:
        put_bytes(writer, element);
        return 0;
    case KEEL_TYPE_STRING:
        put_string(writer, element);
        return 0;
    case KEEL_TYPE_INT:
    case KEEL_TYPE_UINT:
    case KEEL_TYPE_BIG_INT:
        return put_integer(writer, element);
    case KEEL_TYPE_FLOAT:
        put_float(writer, element);
        return 0;
    case KEEL_TYPE_DOUBLE:
        put_double(writer, element);
        return 0;
    case KEEL_TYPE_BOOL:
        put_text(writer, element->value.as_bool ? "true" : "false");
        return 0;
    case KEEL_TYPE_UUID:
        put_uuid(writer, element->value.as_uuid);
        return 0;
    case KEEL_TYPE_VERSIONSTAMP:
        put_versionstamp(writer, element);
        return 0;
    case KEEL_TYPE_NESTED: /* is the callers' */
        break;
    }
    return KEEL_ERROR_ARGUMENT;
}

static fdb_error_t put_packed(tuple_writer *writer, keel_tuple_iterator iterator) {
    keel_element element;
    tuple_token token;
    size_t depth = 0;
    bool first = true;
    tuple_put_byte(writer, '(');
    for (;;) {
        fdb_error_t error = tuple_step(&iterator, &depth, &token, &element);
        if (error)
            return error;
        if (!first && (token == TOKEN_ELEMENT || token == TOKEN_BEGIN))
            put_text(writer, ", ");
        first = token == TOKEN_BEGIN;
        if (token == TOKEN_ELEMENT)
            error = put_scalar(writer, &element);
        else
            tuple_put_byte(writer, token == TOKEN_BEGIN ? '(' : ')');
        if (error || token == TOKEN_FINISH)
            return error;
    }
}

static fdb_error_t put_element(tuple_writer *writer, const keel_element *element) {
    keel_tuple_iterator iterator;
    keel_tuple tuple = element->value.as_tuple;
    fdb_error_t error = 0;
    if (element->type != KEEL_TYPE_NESTED)
        return put_scalar(writer, element);
    if (keel_element_iterate(element, &iterator) == 0)
        return put_packed(writer, iterator);
    tuple_put_byte(writer, '(');
    for (size_t i = 0; i < tuple.count && !error; i++) {
        if (i > 0)
            put_text(writer, ", ");
        error = put_element(writer, &tuple.elements[i]);
    }
    tuple_put_byte(writer, ')');
    return error;
}

/* Adds the NUL, which is not counted. */
static fdb_error_t deliver(tuple_writer *writer, size_t *length) {
    *length = writer->length;
    tuple_put_byte(writer, '\0');
    return writer->length > writer->capacity ? KEEL_ERROR_BUFFER_TOO_SMALL : 0;
}

KEEL_EXPORT fdb_error_t keel_tuple_print(keel_bytes packed, char *buffer, size_t capacity,
                                         size_t *length) {
    tuple_writer writer = {.data = (uint8_t *)buffer, .capacity = capacity};
    fdb_error_t error = put_packed(&writer, keel_tuple_iterate(packed));
    return error ? error : deliver(&writer, length);
}

KEEL_EXPORT fdb_error_t keel_element_print(const keel_element *element, char *buffer,
                                           size_t capacity, size_t *length) {
    tuple_writer writer = {.data = (uint8_t *)buffer, .capacity = capacity};
    fdb_error_t error = put_element(&writer, element);
    return error ? error : deliver(&writer, length);
}
