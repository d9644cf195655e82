/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing the text of a tuple into packed bytes. The syntax is in keel/tuple.h, printing in
 * tuple_text.c.
 *
 * A parser over text of a given length, without recursion and without memory: elements are written
 * (tuple.c) as they are read, and nested tuples need no more than their depth. Words (null, inf,
 * uuid, …) are runs of letters; numbers are scanned here and handed to strtod with the point of the
 * locale, which is found by printing a half.
 *
 * Invariants:
 *   1. position <= length; every character is read behind a comparison with length: the text
 *      needs no NUL.
 *   2. After an error, position is where the text stops making sense.
 *
 * Any thread; no state.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tuple_private.h"

enum {
    NUMBER_MAX = 1200, /* characters of a floating point number; exact doubles have up to 1,080 */
    WORD_MAX = 16
};

typedef struct tuple_parser {
    const char *text;
    size_t length;
    size_t position;
    tuple_writer writer;
    size_t depth; /* of open parentheses, the outermost included */
} tuple_parser;

/* --- Characters --- */

static int peek_at(const tuple_parser *parser, size_t ahead) {
    if (ahead >= parser->length - parser->position)
        return -1;
    return (unsigned char)parser->text[parser->position + ahead];
}

static int peek(const tuple_parser *parser) {
    return peek_at(parser, 0);
}

static void skip_space(tuple_parser *parser) {
    int c;
    while ((c = peek(parser)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        parser->position++;
}

static bool accept(tuple_parser *parser, char c) {
    if (peek(parser) != (unsigned char)c)
        return false;
    parser->position++;
    return true;
}

/* The token c, with space before and after it. */
static fdb_error_t expect(tuple_parser *parser, char c) {
    skip_space(parser);
    if (!accept(parser, c))
        return KEEL_ERROR_TUPLE_TEXT;
    skip_space(parser);
    return 0;
}

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int hex_value(int c) {
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Two hex digits. */
static bool hex_byte(tuple_parser *parser, uint8_t *byte) {
    int high = hex_value(peek_at(parser, 0)), low = hex_value(peek_at(parser, 1));
    if (high < 0 || low < 0)
        return false;
    *byte = (uint8_t)(high << 4 | low);
    parser->position += 2;
    return true;
}

static fdb_error_t put_element(tuple_parser *parser, keel_element element) {
    return tuple_put_element(&parser->writer, &element, parser->depth > 1);
}

/* --- Bytes and strings --- */

static void put_escaped_byte(tuple_parser *parser, uint8_t byte) {
    tuple_put_escaped(&parser->writer, keel_bytes_of(&byte, 1));
}

static fdb_error_t parse_bytes(tuple_parser *parser) {
    uint8_t byte;
    parser->position += 2; /* 0x */
    tuple_put_byte(&parser->writer, CODE_BYTES);
    while (hex_byte(parser, &byte))
        put_escaped_byte(parser, byte);
    tuple_put_byte(&parser->writer, 0);
    return hex_value(peek(parser)) >= 0 ? KEEL_ERROR_TUPLE_TEXT : 0;
}

static void put_code_point(tuple_parser *parser, uint32_t point) {
    if (point < 0x80) {
        put_escaped_byte(parser, (uint8_t)point);
        return;
    }
    unsigned followers = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const uint8_t leads[] = {0, 0xc0, 0xe0, 0xf0};
    tuple_put_byte(&parser->writer, (uint8_t)(leads[followers] | point >> (6 * followers)));
    while (followers-- > 0)
        tuple_put_byte(&parser->writer, (uint8_t)(0x80 | (point >> (6 * followers) & 0x3f)));
}

/* {H…} behind \u. */
static fdb_error_t parse_code_point(tuple_parser *parser) {
    uint32_t point = 0;
    int digits = 0, value;
    if (!accept(parser, '{'))
        return KEEL_ERROR_TUPLE_TEXT;
    for (; digits < 6 && (value = hex_value(peek(parser))) >= 0; digits++) {
        point = point << 4 | (uint32_t)value;
        parser->position++;
    }
    if (digits == 0 || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ||
        !accept(parser, '}'))
        return KEEL_ERROR_TUPLE_TEXT;
    put_code_point(parser, point);
    return 0;
}

/* Behind a backslash. */
static fdb_error_t parse_escape(tuple_parser *parser) {
    static const char named[] = {'n', '\n', 'r', '\r', 't', '\t', '0', '\0', '"', '"', '\\', '\\'};
    uint8_t byte;
    for (size_t i = 0; i < sizeof named; i += 2) {
        if (accept(parser, named[i])) {
            put_escaped_byte(parser, (uint8_t)named[i + 1]);
            return 0;
        }
    }
    if (accept(parser, 'u'))
        return parse_code_point(parser);
    if (!accept(parser, 'x') || !hex_byte(parser, &byte))
        return KEEL_ERROR_TUPLE_TEXT;
    put_escaped_byte(parser, byte);
    return 0;
}

/* What is written as it is must be UTF-8; what is written as \xHH need not. */
static fdb_error_t parse_string(tuple_parser *parser) {
    fdb_error_t error = 0;
    parser->position++; /* " */
    tuple_put_byte(&parser->writer, CODE_STRING);
    while (!error && !accept(parser, '"')) {
        const uint8_t *here = (const uint8_t *)parser->text + parser->position;
        size_t length = tuple_utf8_next(here, parser->length - parser->position);
        if (length == 0)
            return KEEL_ERROR_TUPLE_TEXT;
        if (accept(parser, '\\')) {
            error = parse_escape(parser);
        } else {
            tuple_put_escaped(&parser->writer, keel_bytes_of(here, length));
            parser->position += length;
        }
    }
    tuple_put_byte(&parser->writer, 0);
    return error;
}

/* --- Numbers --- */

static size_t digits_at(const tuple_parser *parser, size_t ahead) {
    size_t count = 0;
    while (is_digit(peek_at(parser, ahead + count)))
        count++;
    return count;
}

/* magnitude = magnitude * 10 + digit, in `*length` bytes at the end of the array. */
static bool add_digit(uint8_t magnitude[KEEL_INTEGER_LENGTH_MAX], size_t *length, int digit) {
    unsigned carry = (unsigned)digit;
    for (size_t i = 0; i < *length; i++) {
        uint8_t *byte = &magnitude[KEEL_INTEGER_LENGTH_MAX - 1 - i];
        carry += *byte * 10u;
        *byte = (uint8_t)carry;
        carry >>= 8;
    }
    if (carry == 0)
        return true;
    if (*length == KEEL_INTEGER_LENGTH_MAX)
        return false;
    magnitude[KEEL_INTEGER_LENGTH_MAX - 1 - (*length)++] = (uint8_t)carry;
    return true;
}

static fdb_error_t parse_integer(tuple_parser *parser, size_t digits, bool negative) {
    uint8_t magnitude[KEEL_INTEGER_LENGTH_MAX];
    size_t length = 0;
    for (size_t i = 0; i < digits; i++)
        if (!add_digit(magnitude, &length, peek_at(parser, i) - '0'))
            return KEEL_ERROR_INTEGER_TOO_LARGE;
    parser->position += digits;
    return put_element(parser, keel_element_of_big(magnitude + sizeof magnitude - length, length,
                                                   negative));
}

/* The locale's decimal point: what stands between the digits of 0.5. */
static size_t decimal_point(char point[WORD_MAX]) {
    char half[WORD_MAX];
    int length = snprintf(half, sizeof half, "%.1f", 0.5);
    size_t point_length = length > 2 && length < WORD_MAX ? (size_t)length - 2 : 0;
    memcpy(point, half + 1, point_length);
    return point_length;
}

/* A copy for strtod, with the locale's point. */
static bool copy_number(const tuple_parser *parser, size_t length, bool negative,
                        char number[NUMBER_MAX]) {
    char point[WORD_MAX];
    size_t point_length = decimal_point(point), to = 0;
    if (length + point_length + 2 > NUMBER_MAX)
        return false;
    if (negative)
        number[to++] = '-';
    for (size_t i = 0; i < length; i++) {
        char c = parser->text[parser->position + i];
        if (c == '.') {
            memcpy(number + to, point, point_length);
            to += point_length;
        } else {
            number[to++] = c;
        }
    }
    number[to] = '\0';
    return true;
}

static fdb_error_t parse_floating(tuple_parser *parser, size_t length, bool negative) {
    char number[NUMBER_MAX];
    bool is_float = peek_at(parser, length) == 'f';
    if (!copy_number(parser, length, negative, number))
        return KEEL_ERROR_TUPLE_TEXT;
    float single = strtof(number, NULL);
    double value = strtod(number, NULL);
    if (is_float ? single - single != 0 : value - value != 0) /* beyond the largest */
        return KEEL_ERROR_TUPLE_TEXT;
    parser->position += length + is_float;
    return put_element(parser, is_float ? keel_element_of_float(single)
                       : keel_element_of_double(value));
}

/* digits [. digits] [e [sign] digits] [f]; with digits only, an integer. */
static fdb_error_t parse_number(tuple_parser *parser, bool negative) {
    size_t integral = digits_at(parser, 0), length = integral, more;
    if (peek_at(parser, length) == '.' && (more = digits_at(parser, length + 1)) > 0)
        length += 1 + more;
    int exponent = peek_at(parser, length);
    if (exponent == 'e' || exponent == 'E') {
        int sign = peek_at(parser, length + 1);
        size_t skipped = sign == '+' || sign == '-' ? 2 : 1;
        if ((more = digits_at(parser, length + skipped)) > 0)
            length += skipped + more;
    }
    if (length == integral && peek_at(parser, length) != 'f')
        return parse_integer(parser, integral, negative);
    return parse_floating(parser, length, negative);
}

/* --- Words --- */

static fdb_error_t put_float_bits(tuple_parser *parser, bool negative, uint64_t mantissa,
                                  bool is_float) {
    keel_element element = keel_element_of_type_(is_float ? KEEL_TYPE_FLOAT : KEEL_TYPE_DOUBLE);
    uint32_t single = (uint32_t)negative << 31 | UINT32_C(0xff) << 23 | (uint32_t)mantissa;
    uint64_t bits = (uint64_t)negative << 63 | UINT64_C(0x7ff) << 52 | mantissa;
    if (is_float)
        memcpy(&element.value.as_float, &single, sizeof single);
    else
        memcpy(&element.value.as_double, &bits, sizeof bits);
    return put_element(parser, element);
}

/* Behind nan or nanf: perhaps (0x…). */
static fdb_error_t parse_nan(tuple_parser *parser, bool negative, bool is_float) {
    uint64_t mantissa = is_float ? 0x400000 : UINT64_C(0x8000000000000);
    uint64_t largest = mantissa * 2 - 1;
    int value;
    if (accept(parser, '(')) {
        mantissa = 0;
        if (!accept(parser, '0') || !accept(parser, 'x'))
            return KEEL_ERROR_TUPLE_TEXT;
        for (; (value = hex_value(peek(parser))) >= 0; parser->position++)
            if ((mantissa = mantissa << 4 | (uint64_t)value) > largest)
                return KEEL_ERROR_TUPLE_TEXT;
        if (mantissa == 0 || !accept(parser, ')'))
            return KEEL_ERROR_TUPLE_TEXT;
    }
    return put_float_bits(parser, negative, mantissa, is_float);
}

static fdb_error_t parse_uuid(tuple_parser *parser) {
    uint8_t uuid[KEEL_UUID_LENGTH];
    fdb_error_t error = expect(parser, '(');
    for (size_t i = 0; i < sizeof uuid && !error; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        if ((dash && !accept(parser, '-')) || !hex_byte(parser, &uuid[i]))
            error = KEEL_ERROR_TUPLE_TEXT;
    }
    if (!error)
        error = expect(parser, ')');
    return error ? error : put_element(parser, keel_element_of_uuid(uuid));
}

/* The user version and the closing parenthesis. */
static fdb_error_t parse_user_version(tuple_parser *parser,
                                      uint8_t stamp[KEEL_VERSIONSTAMP_LENGTH]) {
    unsigned user = 0;
    if (!is_digit(peek(parser)))
        return KEEL_ERROR_TUPLE_TEXT;
    for (; is_digit(peek(parser)); parser->position++)
        if ((user = user * 10 + (unsigned)(peek(parser) - '0')) > UINT16_MAX)
            return KEEL_ERROR_TUPLE_TEXT;
    stamp[10] = (uint8_t)(user >> 8);
    stamp[11] = (uint8_t)user;
    fdb_error_t error = expect(parser, ')');
    return error ? error : put_element(parser, keel_element_of_versionstamp(stamp));
}

static fdb_error_t parse_incomplete(tuple_parser *parser) {
    uint8_t stamp[KEEL_VERSIONSTAMP_LENGTH];
    memset(stamp, 0xff, sizeof stamp);
    fdb_error_t error = expect(parser, '(');
    return error ? error : parse_user_version(parser, stamp);
}

static fdb_error_t parse_versionstamp(tuple_parser *parser) {
    uint8_t stamp[KEEL_VERSIONSTAMP_LENGTH];
    fdb_error_t error = expect(parser, '(');
    if (!error && (!accept(parser, '0') || !accept(parser, 'x')))
        error = KEEL_ERROR_TUPLE_TEXT;
    for (size_t i = 0; i < KEEL_TRANSACTION_VERSION_LENGTH && !error; i++)
        error = hex_byte(parser, &stamp[i]) ? 0 : KEEL_ERROR_TUPLE_TEXT;
    if (!error)
        error = expect(parser, ',');
    return error ? error : parse_user_version(parser, stamp);
}

/* Moves behind the word if it is this one. */
static bool accept_word(tuple_parser *parser, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i < length; i++)
        if (peek_at(parser, i) != (unsigned char)word[i])
            return false;
    if (is_letter(peek_at(parser, length)) || is_digit(peek_at(parser, length)))
        return false;
    parser->position += length;
    return true;
}

static fdb_error_t parse_word(tuple_parser *parser, bool negative) {
    if (accept_word(parser, "inf"))
        return put_float_bits(parser, negative, 0, false);
    if (accept_word(parser, "inff"))
        return put_float_bits(parser, negative, 0, true);
    if (accept_word(parser, "nan"))
        return parse_nan(parser, negative, false);
    if (accept_word(parser, "nanf"))
        return parse_nan(parser, negative, true);
    if (negative)
        return KEEL_ERROR_TUPLE_TEXT;
    if (accept_word(parser, "null"))
        return put_element(parser, keel_element_null());
    if (accept_word(parser, "true"))
        return put_element(parser, keel_element_of_bool(true));
    if (accept_word(parser, "false"))
        return put_element(parser, keel_element_of_bool(false));
    if (accept_word(parser, "uuid"))
        return parse_uuid(parser);
    if (accept_word(parser, "versionstamp"))
        return parse_versionstamp(parser);
    if (accept_word(parser, "incomplete"))
        return parse_incomplete(parser);
    return KEEL_ERROR_TUPLE_TEXT;
}

/* --- Elements and tuples --- */

static fdb_error_t parse_scalar(tuple_parser *parser) {
    if (peek(parser) == '"')
        return parse_string(parser);
    if (peek(parser) == '0' && peek_at(parser, 1) == 'x')
        return parse_bytes(parser);
    bool negative = accept(parser, '-');
    return is_digit(peek(parser)) ? parse_number(parser, negative) : parse_word(parser, negative);
}

/*
 * Parentheses that close, and the comma behind an element: then another element or a parenthesis
 * may follow.
 */
static fdb_error_t parse_after_element(tuple_parser *parser) {
    for (;;) {
        skip_space(parser);
        bool comma = accept(parser, ',');
        skip_space(parser);
        if (!accept(parser, ')'))
            return comma ? 0 : KEEL_ERROR_TUPLE_TEXT;
        if (--parser->depth == 0)
            return 0;
        tuple_put_byte(&parser->writer, 0);
    }
}

/* Everything behind the outermost opening parenthesis. */
static fdb_error_t parse_elements(tuple_parser *parser) {
    fdb_error_t error = 0;
    while (!error && parser->depth > 0) {
        skip_space(parser);
        if (accept(parser, '(')) {
            tuple_put_byte(&parser->writer, CODE_NESTED);
            parser->depth++;
            skip_space(parser);
            if (peek(parser) != ')')
                continue;
        } else {
            error = parse_scalar(parser);
        }
        if (!error)
            error = parse_after_element(parser);
    }
    return error;
}

static fdb_error_t parse_tuple(tuple_parser *parser) {
    fdb_error_t error = expect(parser, '(');
    if (error)
        return error;
    parser->depth = 1;
    if (accept(parser, ')'))
        parser->depth = 0;
    error = parse_elements(parser);
    skip_space(parser);
    return error || parser->position == parser->length ? error : KEEL_ERROR_TUPLE_TEXT;
}

KEEL_EXPORT fdb_error_t keel_tuple_parse(const char *text, size_t text_length, uint8_t *buffer,
                                         size_t capacity, size_t *length, size_t *offset) {
    tuple_parser parser = {.text = text, .length = text_length,
                           .writer = {.data = buffer, .capacity = capacity}};
    fdb_error_t error = parse_tuple(&parser);
    if (error) {
        if (offset)
            *offset = parser.position;
        return error;
    }
    *length = parser.writer.length;
    return parser.writer.length > capacity ? KEEL_ERROR_BUFFER_TOO_SMALL : 0;
}
