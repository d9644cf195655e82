/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fields of a file become in the database, and back: one row of a table a type, four directions.
 *
 *     type        in CSV                            in JSON lines             element
 *     text        as it stands                      string                    string
 *     int         -12                               -12                       integer, 64 bits
 *     float       1.5, 2e10                         number                    double, finite
 *     bool        true false t f yes no 1 0         true false                boolean
 *     hex         00ff                              string of the same        bytes
 *     base64      AP8=                              string of the same        bytes
 *     date        2026-11-30                        string of the same        string, checked
 *     timestamp   2026-11-30T12:00:00[.5][Z|+01:00] string of the same        integer: microseconds since 1970, UTC
 *     uuid        00112233-4455-…                   string of the same        UUID
 *     json        any JSON                          any JSON                  string, the JSON
 *     any         (JSON lines only)                 scalars as they are       string, integer, double, boolean
 *
 * null is null everywhere: an empty field without quotes in CSV. What is written reads back as the same element. Locales have no influence.
 */
#define _GNU_SOURCE /* strtod_l */
#include "import.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const names[TYPE_COUNT] = {"text", "int", "float", "bool", "hex", "base64", "date", "timestamp", "uuid", "json", "any"};

const char *type_name(enum column_type type) {
    return names[type];
}

bool type_of_name(keel_bytes name, enum column_type *type) {
    if (name.length == 5 && memcmp(name.data, "bytes", 5) == 0) {
        *type = TYPE_HEX;
        return true;
    }
    for (int i = 0; i < TYPE_COUNT; i++)
        if (strlen(names[i]) == name.length && memcmp(names[i], name.data, name.length) == 0) {
            *type = (enum column_type)i;
            return true;
        }
    return false;
}

/* ---- Bytes ---- */

bool buffer_reserve(struct buffer *buffer, size_t more) {
    if (buffer->capacity - buffer->length >= more)
        return true;
    size_t capacity = buffer->capacity * 2 + more;
    uint8_t *data = realloc(buffer->data, capacity);
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool bytes_are_ascii(keel_bytes bytes) {
    const uint8_t *data = bytes.data, *end = data + bytes.length;
    uint64_t word;
    for (; end - data >= 8; data += 8) {
        memcpy(&word, data, 8);
        if (word & 0x8080808080808080ULL)
            return false;
    }
    for (; data < end; data++)
        if (*data & 0x80)
            return false;
    return true;
}

bool bytes_are_utf8(keel_bytes bytes) {
    keel_element element = keel_element_of_text((const char *)bytes.data, bytes.length);
    return bytes_are_ascii(bytes) || keel_element_is_utf8(&element);
}

/* ---- Text to elements ---- */

static bool wrong(const char **message, const char *text) {
    *message = text;
    return false;
}

static bool int_from(keel_bytes text, keel_element *element, const char **message) {
    const uint8_t *at = text.data, *end = at + text.length;
    bool negative = at < end && *at == '-';
    uint64_t number = 0;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return wrong(message, "not an integer");
    for (; at < end; at++) {
        unsigned digit = (unsigned)*at - '0';
        if (digit > 9)
            return wrong(message, "not an integer");
        if (__builtin_mul_overflow(number, 10u, &number) || __builtin_add_overflow(number, digit, &number) ||
            number > (uint64_t)INT64_MAX + negative)
            return wrong(message, "the integer does not fit in 64 bits");
    }
    *element = keel_element_of_int(negative ? (int64_t)(0 - number) : (int64_t)number);
    return true;
}

static locale_t c_locale(void) {
    static locale_t locale;
    if (!locale)
        locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return locale;
}

static bool float_from(keel_bytes text, keel_element *element, const char **message) {
    char digits[400], *end;
    if (text.length == 0 || text.length >= sizeof digits || memchr(text.data, 0, text.length))
        return wrong(message, "not a number");
    memcpy(digits, text.data, text.length);
    digits[text.length] = 0;
    if (strspn(digits, "0123456789+-.eE") != text.length)
        return wrong(message, "not a number");
    double number = strtod_l(digits, &end, c_locale());
    if (*end)
        return wrong(message, "not a number");
    if (!isfinite(number))
        return wrong(message, "the number does not fit in a double");
    *element = keel_element_of_double(number);
    return true;
}

static bool bool_from(keel_bytes text, keel_element *element, const char **message) {
    static const char *const words[] = {"false", "true", "f", "t", "no", "yes", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == text.length && strncasecmp(words[i], (const char *)text.data, text.length) == 0) {
            *element = keel_element_of_bool(i % 2);
            return true;
        }
    return wrong(message, "not a boolean (true, false, t, f, yes, no, 1, 0)");
}

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_into(keel_bytes text, uint8_t *out) {
    for (size_t i = 0; i + 1 < text.length; i += 2) {
        int high = hex_digit(text.data[i]), low = hex_digit(text.data[i + 1]);
        if (high < 0 || low < 0)
            return false;
        *out++ = (uint8_t)(high << 4 | low);
    }
    return text.length % 2 == 0;
}

static bool hex_from(keel_bytes text, struct buffer *scratch, keel_element *element, const char **message) {
    uint8_t *out = scratch->data + scratch->length;
    if (!hex_into(text, out))
        return wrong(message, "not bytes in hex: two digits each");
    *element = keel_element_of_bytes(keel_bytes_of(out, text.length / 2));
    scratch->length += text.length / 2;
    return true;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_digit(uint8_t c) {
    const char *at = c ? memchr(base64_digits, c == '-' ? '+' : c == '_' ? '/' : c, 64) : NULL;
    return at ? (int)(at - base64_digits) : -1;
}

static bool base64_from(keel_bytes text, struct buffer *scratch, keel_element *element, const char **message) {
    uint8_t *out = scratch->data + scratch->length, *begin = out;
    uint32_t bits = 0;
    size_t length = text.length;
    while (length && text.data[length - 1] == '=' && text.length - length < 2)
        length--;
    if ((length != text.length && text.length % 4) || length % 4 == 1)
        return wrong(message, "not base64: the length is wrong");
    for (size_t i = 0; i < length; i++) {
        int digit = base64_digit(text.data[i]);
        if (digit < 0)
            return wrong(message, "not base64");
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4)
            *out++ = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    *element = keel_element_of_bytes(keel_bytes_of(begin, (size_t)(out - begin)));
    scratch->length += (size_t)(out - begin);
    return true;
}

/* ---- Dates ---- */

static bool digits_at(keel_bytes text, size_t position, size_t count, int *number) {
    *number = 0;
    if (position + count > text.length)
        return false;
    for (size_t i = position; i < position + count; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        *number = *number * 10 + text.data[i] - '0';
    }
    return true;
}

static bool char_at(keel_bytes text, size_t position, const char *allowed) {
    return position < text.length && text.data[position] && strchr(allowed, text.data[position]);
}

struct date {
    int year, month, day;
};

static bool date_at(keel_bytes text, struct date *date) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (!digits_at(text, 0, 4, &date->year) || !char_at(text, 4, "-") || !digits_at(text, 5, 2, &date->month) || !char_at(text, 7, "-") ||
        !digits_at(text, 8, 2, &date->day) || date->month < 1 || date->month > 12)
        return false;
    bool leap = date->month == 2 && date->year % 4 == 0 && (date->year % 100 != 0 || date->year % 400 == 0);
    return date->day >= 1 && date->day <= lengths[date->month - 1] + leap;
}

/* Days since 1970-01-01, and back. Years begin in March here, so that the leap day is the last. */
static int64_t days_of(struct date date) {
    int64_t year = date.month <= 2 ? date.year - 1 : date.year, month = date.month <= 2 ? date.month + 9 : date.month - 3;
    return year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + date.day - 1 - 719468;
}

static struct date date_of(int64_t days) {
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, day = z - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    int64_t month = (5 * day + 2) / 153;
    int64_t civil = year + era * 400 + (month >= 10);
    return (struct date){(int)civil, (int)(month < 10 ? month + 3 : month - 9), (int)(day - (153 * month + 2) / 5 + 1)};
}

static bool date_from(keel_bytes text, keel_element *element, const char **message) {
    struct date date;
    if (text.length != 10 || !date_at(text, &date))
        return wrong(message, "not a date (2026-11-30)");
    *element = keel_element_of_text((const char *)text.data, text.length);
    return true;
}

/* Up to six digits behind the point; *position ends up behind them. */
static bool fraction_at(keel_bytes text, size_t *position, int64_t *microseconds) {
    int64_t unit = 100000;
    size_t at = *position + 1;
    for (*microseconds = 0; at < text.length && text.data[at] >= '0' && text.data[at] <= '9'; at++, unit /= 10) {
        if (unit == 0)
            return false;
        *microseconds += unit * (text.data[at] - '0');
    }
    bool any = at > *position + 1;
    *position = at;
    return any;
}

/* Nothing, Z or +hh:mm at the end. */
static bool zone_at(keel_bytes text, size_t position, int64_t *seconds) {
    int hours, minutes;
    *seconds = 0;
    if (position == text.length || (position + 1 == text.length && char_at(text, position, "Zz")))
        return true;
    if (!char_at(text, position, "+-") || !digits_at(text, position + 1, 2, &hours) || !char_at(text, position + 3, ":") ||
        !digits_at(text, position + 4, 2, &minutes) || position + 6 != text.length || hours > 23 || minutes > 59)
        return false;
    *seconds = (hours * 60 + minutes) * 60 * (text.data[position] == '-' ? -1 : 1);
    return true;
}

static bool timestamp_from(keel_bytes text, keel_element *element, const char **message) {
    struct date date;
    int hour, minute, second;
    int64_t zone = 0, fraction = 0;
    size_t position = 19;
    if (!date_at(text, &date) || !char_at(text, 10, "Tt ") || !digits_at(text, 11, 2, &hour) || !char_at(text, 13, ":") ||
        !digits_at(text, 14, 2, &minute) || !char_at(text, 16, ":") || !digits_at(text, 17, 2, &second) || hour > 23 || minute > 59 ||
        second > 59 || (char_at(text, 19, ".") && !fraction_at(text, &position, &fraction)) || !zone_at(text, position, &zone))
        return wrong(message, "not a timestamp (2026-11-30T12:00:00Z, up to six digits of a second)");
    int64_t seconds = days_of(date) * 86400 + hour * 3600 + minute * 60 + second - zone;
    *element = keel_element_of_int(seconds * 1000000 + fraction);
    return true;
}

static bool uuid_from(keel_bytes text, keel_element *element, const char **message) {
    char digits[32];
    uint8_t uuid[KEEL_UUID_LENGTH];
    size_t count = 0;
    for (size_t i = 0; i < text.length && count <= 32; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash && text.length == 36 && text.data[i] == '-')
            continue;
        if (count < 32)
            digits[count] = (char)text.data[i];
        count++;
    }
    if (count != 32 || (text.length != 36 && text.length != 32) || !hex_into(keel_bytes_of(digits, 32), uuid))
        return wrong(message, "not a UUID");
    *element = keel_element_of_uuid(uuid);
    return true;
}

static bool json_from(keel_bytes text, keel_element *element, const char **message) {
    json_error_t problem;
    json_t *json = json_loadb((const char *)text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    if (!json)
        return wrong(message, "not JSON");
    json_decref(json);
    *element = keel_element_of_text((const char *)text.data, text.length);
    return true;
}

bool type_from_text(enum column_type type, keel_bytes text, struct buffer *scratch, keel_element *element, const char **message) {
    switch (type) {
    case TYPE_INT:
        return int_from(text, element, message);
    case TYPE_FLOAT:
        return float_from(text, element, message);
    case TYPE_BOOL:
        return bool_from(text, element, message);
    case TYPE_HEX:
        return hex_from(text, scratch, element, message);
    case TYPE_BASE64:
        return base64_from(text, scratch, element, message);
    case TYPE_DATE:
        return date_from(text, element, message);
    case TYPE_TIMESTAMP:
        return timestamp_from(text, element, message);
    case TYPE_UUID:
        return uuid_from(text, element, message);
    case TYPE_JSON:
        return json_from(text, element, message);
    default:
        *element = keel_element_of_text((const char *)text.data, text.length);
        return true;
    }
}

/* ---- JSON to elements ---- */

static int append_json(const char *data, size_t length, void *context) {
    return buffer_append(context, data, length) ? 0 : -1;
}

/* The JSON of a value as a string in scratch. */
static bool json_as_text(json_t *json, struct buffer *scratch, keel_element *element, const char **message) {
    size_t begin = scratch->length;
    if (json_dump_callback(json, append_json, scratch, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)))
        return wrong(message, "no memory");
    *element = keel_element_of_text((const char *)scratch->data + begin, scratch->length - begin);
    return true;
}

static bool scalar_from_json(json_t *json, keel_element *element, const char **message) {
    switch (json_typeof(json)) {
    case JSON_STRING:
        *element = keel_element_of_text(json_string_value(json), json_string_length(json));
        return true;
    case JSON_INTEGER:
        *element = keel_element_of_int((int64_t)json_integer_value(json));
        return true;
    case JSON_REAL:
        *element = keel_element_of_double(json_real_value(json));
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        *element = keel_element_of_bool(json_is_true(json));
        return true;
    default:
        return wrong(message, "an object or array: declare the column as json (--types), or import --as documents");
    }
}

bool type_from_json(enum column_type type, json_t *json, struct buffer *scratch, keel_element *element, const char **message) {
    if (!json || json_is_null(json)) {
        *element = keel_element_null();
        return true;
    }
    switch (type) {
    case TYPE_ANY:
        return scalar_from_json(json, element, message);
    case TYPE_JSON:
        return json_as_text(json, scratch, element, message);
    case TYPE_INT:
        return json_is_integer(json) ? scalar_from_json(json, element, message) : wrong(message, "not an integer of 64 bits");
    case TYPE_FLOAT:
        *element = keel_element_of_double(json_number_value(json));
        return json_is_number(json) ? true : wrong(message, "not a number");
    case TYPE_BOOL:
        return json_is_boolean(json) ? scalar_from_json(json, element, message) : wrong(message, "not a boolean");
    default:
        if (!json_is_string(json))
            return wrong(message, "not a string");
        return type_from_text(type, keel_bytes_of(json_string_value(json), json_string_length(json)), scratch, element, message);
    }
}

/* ---- Elements to text ---- */

static bool append_format(struct buffer *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool append_format(struct buffer *text, const char *format, ...) {
    char line[96];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return buffer_append(text, line, (size_t)length);
}

static bool append_int(struct buffer *text, int64_t number) {
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    return buffer_append(text, at, (size_t)(digits + sizeof digits - at));
}

/* The shortest text that reads back exactly, with a point or an exponent, so that it stays a float. */
static bool append_float(struct buffer *text, const keel_element *element) {
    char digits[40];
    double number = element->type == KEEL_TYPE_FLOAT ? (double)element->value.as_float : element->value.as_double;
    if (!isfinite(number)) /* which no import stores */
        return append_format(text, "%s", "null");
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (precision == 17 || strtod_l(digits, NULL, c_locale()) == number)
            break;
    }
    return buffer_append(text, digits, strlen(digits)) && (strpbrk(digits, ".e") || buffer_append(text, ".0", 2));
}

static bool append_hex(struct buffer *text, keel_bytes bytes) {
    static const char digits[] = "0123456789abcdef";
    if (!buffer_reserve(text, 2 * bytes.length))
        return false;
    for (size_t i = 0; i < bytes.length; i++) {
        text->data[text->length++] = (uint8_t)digits[bytes.data[i] >> 4];
        text->data[text->length++] = (uint8_t)digits[bytes.data[i] & 15];
    }
    return true;
}

static bool append_base64(struct buffer *text, keel_bytes bytes) {
    if (!buffer_reserve(text, bytes.length * 4 / 3 + 4))
        return false;
    for (size_t i = 0; i < bytes.length; i += 3) {
        size_t left = bytes.length - i;
        uint32_t bits = (uint32_t)bytes.data[i] << 16 | (left > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0) | (left > 2 ? bytes.data[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            text->data[text->length++] = k <= left ? (uint8_t)base64_digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    return true;
}

static bool append_timestamp(struct buffer *text, int64_t microseconds) {
    int64_t seconds = microseconds / 1000000, fraction = microseconds % 1000000;
    if (fraction < 0) {
        fraction += 1000000;
        seconds--;
    }
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    struct date date = date_of(days);
    if (!append_format(text, "%04d-%02d-%02dT%02d:%02d:%02d", date.year, date.month, date.day, (int)(rest / 3600), (int)(rest / 60 % 60),
                       (int)(rest % 60)))
        return false;
    return (!fraction || append_format(text, ".%06d", (int)fraction)) && buffer_append(text, "Z", 1);
}

static bool append_uuid(struct buffer *text, const uint8_t *uuid) {
    static const size_t groups[] = {4, 2, 2, 2, 6};
    bool fine = true;
    for (size_t i = 0; i < 5; uuid += groups[i], i++)
        fine = fine && (i == 0 || buffer_append(text, "-", 1)) && append_hex(text, keel_bytes_of(uuid, groups[i]));
    return fine;
}

/* The value of a string or of bytes, which the database has escaped where it has a NUL. */
static bool append_value(struct buffer *text, const keel_element *element) {
    size_t length = 0, room = element->value.as_bytes.length;
    if (!element->escaped)
        return buffer_append(text, element->value.as_bytes.data, room);
    if (!buffer_reserve(text, room + 1) || keel_element_copy(element, text->data + text->length, room + 1, &length))
        return false;
    text->length += length;
    return true;
}

static bool append_bytes(enum column_type type, struct buffer *text, const keel_element *element) {
    struct buffer plain = {0};
    bool fine = append_value(&plain, element);
    keel_bytes bytes = keel_bytes_of(plain.data, plain.length);
    fine = fine && (type == TYPE_BASE64 ? append_base64(text, bytes) : append_hex(text, bytes));
    buffer_free(&plain);
    return fine;
}

bool type_to_text(enum column_type type, const keel_element *element, struct buffer *text) {
    switch (element->type) {
    case KEEL_TYPE_NULL:
        return true;
    case KEEL_TYPE_STRING:
        return append_value(text, element);
    case KEEL_TYPE_BYTES:
        return append_bytes(type, text, element);
    case KEEL_TYPE_INT:
        return type == TYPE_TIMESTAMP ? append_timestamp(text, element->value.as_int) : append_int(text, element->value.as_int);
    case KEEL_TYPE_FLOAT:
    case KEEL_TYPE_DOUBLE:
        return append_float(text, element);
    case KEEL_TYPE_BOOL:
        return append_format(text, "%s", element->value.as_bool ? "true" : "false");
    case KEEL_TYPE_UUID:
        return append_uuid(text, element->value.as_uuid);
    default: { /* nothing that an import writes */
        char shown[1000];
        size_t length = 0;
        return keel_element_print(element, shown, sizeof shown, &length) == 0 && buffer_append(text, shown, length);
    }
    }
}

void json_append_string(struct buffer *text, keel_bytes string) {
    size_t begin = 0;
    buffer_append(text, "\"", 1);
    for (size_t i = 0; i < string.length; i++) {
        uint8_t c = string.data[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buffer_append(text, string.data + begin, i - begin);
        begin = i + 1;
        if (c == '"' || c == '\\')
            append_format(text, "\\%c", c);
        else
            append_format(text, "\\u%04x", c);
    }
    buffer_append(text, string.data + begin, string.length - begin);
    buffer_append(text, "\"", 1);
}

bool type_to_json(enum column_type type, const keel_element *element, struct buffer *text) {
    bool bare = element->type == KEEL_TYPE_BOOL || element->type == KEEL_TYPE_DOUBLE || element->type == KEEL_TYPE_FLOAT ||
                (element->type == KEEL_TYPE_INT && type != TYPE_TIMESTAMP) || (type == TYPE_JSON && element->type == KEEL_TYPE_STRING);
    if (element->type == KEEL_TYPE_NULL)
        return buffer_append(text, "null", 4);
    if (bare) {
        size_t begin = text->length;
        bool appended = type_to_text(type, element, text);
        for (size_t i = begin; type == TYPE_JSON && i < text->length; i++) /* between tokens: strings have none */
            if (text->data[i] == '\n' || text->data[i] == '\r')
                text->data[i] = ' ';
        return appended;
    }
    if (element->type == KEEL_TYPE_STRING && !element->escaped) {
        json_append_string(text, element->value.as_bytes);
        return true;
    }
    struct buffer plain = {0};
    bool fine = type_to_text(type, element, &plain);
    json_append_string(text, keel_bytes_of(plain.data, plain.length));
    buffer_free(&plain);
    return fine;
}
