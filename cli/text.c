/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and values as text, both ways.
 *
 *     hello\x00world          bytes: printable UTF-8 as it is, the rest as \xHH; \ before a punctuation mark is that mark, \n \r \t \0 as in C
 *     ("users", 42)           the packed tuple; the syntax is in keel/tuple.h
 *     /app/users("id", 7)     the prefix of a directory and a packed tuple behind it; /app/users() is the prefix alone
 *
 * What a text is, its first character says: ( begins a tuple; / with a ( somewhere behind it a directory path, in keys; anything else is bytes. So a
 * plain text that begins with ( is written \( and one that begins with / writes \( for its parentheses.
 *
 * Invariants:
 *   1. text_to_bytes(text_from_bytes(b)) == b for all bytes b, as long as the directories stay where they are. A tuple is shown as one only if its
 *      text reads back to the same bytes (integers that were packed longer than needed do not).
 *   2. What is printed is valid UTF-8 without control characters, whatever the bytes were: nothing in a database can drive the terminal.
 *
 * Looking like a tuple. Any bytes that unpack could be meant as one, but counters (8 bytes, little-endian) often unpack too: 01 00 00 00 00 00 00 00 is
 * (0x, null, null, null, null, null, null). So a tuple is not believed that is printable text as a whole ("0123456789abcdefg" is a UUID), or ends
 * in two nulls, or has nothing but nulls. In a directory everything that unpacks is believed.
 *
 * Memory: a buffer that cannot grow ends the program with a message; there is nothing useful a command could do. One thread.
 */
#include "core.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

static char message_text[512];
static fdb_error_t last_error;
static size_t tuple_position;

fdb_error_t text_error(void) {
    return last_error;
}

const char *text_message(void) {
    return message_text;
}

size_t text_tuple_position(void) {
    return tuple_position;
}

/* ---- Buffers ---- */

static _Noreturn void no_memory(void) {
    fflush(stdout);
    fputs("keel: out of memory\n", stderr);
    exit(EXIT_FAILED);
}

/* Keeps room for one byte more than is used: buffer_text's NUL. */
bool buffer_append(struct buffer *buffer, const void *data, size_t length) {
    if (buffer->capacity - buffer->length < length + 1 || !buffer->data) {
        size_t capacity = (buffer->length + length + 1) * 2;
        uint8_t *grown = capacity > length ? realloc(buffer->data, capacity) : NULL;
        if (!grown)
            no_memory();
        buffer->data = grown;
        buffer->capacity = capacity;
    }
    if (length > 0)
        memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
    return true;
}

bool buffer_append_text(struct buffer *buffer, const char *text) {
    return buffer_append(buffer, text, strlen(text));
}

const char *buffer_text(struct buffer *buffer) {
    buffer_append(buffer, "", 0);
    buffer->data[buffer->length] = '\0';
    return (const char *)buffer->data;
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}

/* ---- Reading ---- */

__attribute__((format(printf, 2, 3))) static bool wrong(const char **message, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message_text, sizeof message_text, format, arguments);
    va_end(arguments);
    last_error = 0;
    *message = message_text;
    return false;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The escape at *position, which stands on the backslash; moves behind it. False: none that we know. */
static bool read_escape(const char *text, size_t length, size_t *position, uint8_t *byte) {
    static const char named[] = {'n', '\n', 'r', '\r', 't', '\t', '0', '\0'};
    size_t at = *position + 1;
    if (at >= length)
        return false;
    if (text[at] == 'x') {
        int high = at + 1 < length ? hex_value(text[at + 1]) : -1, low = at + 2 < length ? hex_value(text[at + 2]) : -1;
        *byte = (uint8_t)(high * 16 + low);
        *position = at + 3;
        return high >= 0 && low >= 0;
    }
    *position = at + 1;
    *byte = (uint8_t)text[at];
    if (ispunct(*byte) || *byte == ' ')
        return true;
    for (size_t i = 0; i < sizeof named; i += 2) {
        if (text[at] == named[i]) {
            *byte = (uint8_t)named[i + 1];
            return true;
        }
    }
    return false;
}

static bool unescape(const char *text, size_t length, struct buffer *bytes, const char **message) {
    for (size_t i = 0; i < length;) {
        if (text[i] != '\\') {
            buffer_append(bytes, text + i++, 1);
            continue;
        }
        size_t begin = i;
        uint8_t byte;
        if (!read_escape(text, length, &i, &byte))
            return wrong(message, "\"%.*s\" at character %zu is no escape: write \\xHH for any byte, \\\\ for a backslash, also \\\" \\n \\r \\t \\0",
                         (int)(length - begin < 4 ? length - begin : 4), text + begin, begin + 1);
        buffer_append(bytes, &byte, 1);
    }
    return true;
}

/* A tuple's text, packed behind what `bytes` holds. */
static bool read_tuple(const char *text, size_t offset, struct buffer *bytes, const char **message) {
    const char *tuple = text + offset;
    size_t length = 0, at = 0;
    fdb_error_t error = keel_tuple_parse(tuple, strlen(tuple), NULL, 0, &length, &at);
    if (error && error != KEEL_ERROR_BUFFER_TOO_SMALL)
        return wrong(message,
                     "%s at character %zu, before \"%.20s\". A tuple is (\"text\", 42, 1.5, true, null, 0x00ff, …); for a plain text that begins "
                     "with a parenthesis write \\(",
                     error == KEEL_ERROR_INTEGER_TOO_LARGE ? "The integer is too large" : "The tuple makes no sense", offset + at + 1, tuple + at);
    size_t before = bytes->length;
    for (size_t i = 0; i < length; i++)
        buffer_append(bytes, "", 1);
    if (keel_tuple_parse(tuple, strlen(tuple), bytes->data + before, length, &length, NULL) != 0)
        return wrong(message, "The tuple makes no sense");
    tuple_position = before;
    return true;
}

/* Where the first ( stands that is not escaped; 0: nowhere. */
static size_t find_parenthesis(const char *text) {
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == '\\' && text[i + 1])
            i++;
        else if (text[i] == '(')
            return i;
    }
    return 0;
}

static bool directory_wrong(const char *path_text, size_t length, fdb_error_t error, const char **message) {
    int shown = length < 200 ? (int)length : 200;
    if (error == KEEL_ERROR_DIRECTORY_MISSING)
        wrong(message, "There is no directory %.*s. \"tree\" shows those there are; mkdir makes one", shown, path_text);
    else if (error == KEEL_ERROR_DIRECTORY_ROOT)
        wrong(message, "The root directory has no keys of its own: name a directory, /app(…)");
    else if (error == KEEL_ERROR_DIRECTORY_PARTITION_ROOT)
        wrong(message, "%.*s is a partition, which has no keys of its own: name a directory in it", shown, path_text);
    else
        wrong(message, "%.*s: %s (%d)", shown, path_text, keel_error_text(error), error);
    last_error = error;
    return false;
}

static bool read_directory(FDBTransaction *tr, const char *text, size_t length, struct buffer *bytes, const char **message) {
    struct text_path path;
    struct buffer path_text = {0};
    buffer_append(&path_text, text, length);
    bool good = text_to_path(buffer_text(&path_text), &path, message);
    if (good && path.path.count == 0) {
        good = directory_wrong("/", 1, KEEL_ERROR_DIRECTORY_ROOT, message);
    } else if (good) {
        keel_directory *directory = NULL;
        keel_bytes prefix;
        fdb_error_t error = keel_directory_open(tr, NULL, path.path, KEEL_NO_LAYER, &directory);
        if (!error)
            error = keel_directory_prefix(directory, &prefix);
        good = error ? directory_wrong(text, length, error, message) : buffer_append(bytes, prefix.data, prefix.length);
        keel_directory_close(directory);
    }
    text_path_free(&path);
    buffer_free(&path_text);
    return good;
}

bool text_to_value(const char *text, struct buffer *bytes, const char **message) {
    bytes->length = 0;
    tuple_position = SIZE_MAX;
    return *text == '(' ? read_tuple(text, 0, bytes, message) : unescape(text, strlen(text), bytes, message);
}

bool text_to_bytes(FDBTransaction *tr, const char *text, struct buffer *bytes, const char **message) {
    size_t parenthesis = *text == '/' ? find_parenthesis(text) : 0;
    if (parenthesis == 0)
        return text_to_value(text, bytes, message);
    if (!tr)
        return wrong(message, "A directory path cannot stand here");
    bytes->length = 0;
    return read_directory(tr, text, parenthesis, bytes, message) && read_tuple(text, parenthesis, bytes, message);
}

fdb_error_t text_to_key(FDBTransaction *tr, const char *text, struct buffer *key) {
    const char *message;
    if (text_to_bytes(tr, text, key, &message))
        return 0;
    bool retryable = last_error && fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, last_error);
    return retryable ? last_error : ERROR_TEXT;
}

/* ---- Writing ---- */

static size_t utf8_length(const uint8_t *data, size_t length) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t count = data[0] < 0x80 ? 1 : data[0] < 0xc2 ? 0 : data[0] < 0xe0 ? 2 : data[0] < 0xf0 ? 3 : data[0] < 0xf5 ? 4 : 0;
    if (count < 2 || count > length)
        return count <= length ? count : 0;
    uint32_t point = data[0] & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((data[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (data[i] & 0x3f);
    }
    return point < smallest[count] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? 0 : count;
}

/* C1 controls (c2 80 to c2 9f), and the marks that turn the direction of a line round (U+202A to U+202E, U+2066 to U+2069), are not printable. */
size_t text_printable(const uint8_t *data, size_t length) {
    size_t count = utf8_length(data, length);
    if (count == 1)
        return data[0] >= 0x20 && data[0] != 0x7f;
    if (count == 2 && data[0] == 0xc2 && data[1] < 0xa0)
        return 0;
    if (count == 3 && data[0] == 0xe2 && ((data[1] == 0x80 && data[2] >= 0xaa && data[2] <= 0xae) || (data[1] == 0x81 && data[2] >= 0xa6 && data[2] <= 0xa9)))
        return 0;
    return count;
}

static bool all_printable(keel_bytes bytes) {
    for (size_t i = 0; i < bytes.length;) {
        size_t count = text_printable(bytes.data + i, bytes.length - i);
        if (count == 0)
            return false;
        i += count;
    }
    return true;
}

/* `marks`: characters that get a backslash. */
static void append_escaped(keel_bytes bytes, const char *marks, struct buffer *text) {
    for (size_t i = 0; i < bytes.length;) {
        const uint8_t *here = bytes.data + i;
        size_t count = text_printable(here, bytes.length - i);
        if (count == 0) {
            char hex[5];
            snprintf(hex, sizeof hex, "\\x%02x", *here);
            buffer_append(text, hex, 4);
            count = 1;
        } else {
            if (count == 1 && *here && strchr(marks, *here))
                buffer_append(text, "\\", 1);
            buffer_append(text, here, count);
        }
        i += count;
    }
}

static bool looks_like_tuple(keel_bytes bytes) {
    if (bytes.length == 0 || all_printable(bytes))
        return false;
    keel_tuple_iterator iterator = keel_tuple_iterate(bytes);
    keel_element element;
    size_t nulls = 0, others = 0;
    while (keel_tuple_next(&iterator, &element) == 0) {
        bool is_null = element.type == KEEL_TYPE_NULL;
        nulls = is_null ? nulls + 1 : 0;
        others += !is_null;
    }
    return others > 0 && nulls < 2;
}

bool text_append_tuple(keel_bytes bytes, bool lenient, struct buffer *text) {
    if (keel_tuple_check(bytes, NULL) != 0 || (!lenient && !looks_like_tuple(bytes)))
        return false;
    size_t length = 0, packed_length = 0;
    keel_tuple_print(bytes, NULL, 0, &length);
    char *printed = malloc(length + 1);
    uint8_t *packed = malloc(bytes.length + 1);
    if (!printed || !packed)
        no_memory();
    bool good = keel_tuple_print(bytes, printed, length + 1, &length) == 0 &&
                keel_tuple_parse(printed, length, packed, bytes.length + 1, &packed_length, NULL) == 0 && packed_length == bytes.length &&
                (bytes.length == 0 || memcmp(packed, bytes.data, bytes.length) == 0);
    /* What the printer shows and we would not (direction marks) is better escaped as bytes. */
    good = good && all_printable(keel_bytes_of(printed, length));
    if (good)
        buffer_append(text, printed, length);
    free(printed);
    free(packed);
    return good;
}

static void append_plain(keel_bytes bytes, struct buffer *text) {
    uint8_t first = bytes.length > 0 ? bytes.data[0] : 0;
    bool like_option = first == '-' && bytes.length > 1 && !isdigit(bytes.data[1]);
    if (first == '(' || like_option)
        buffer_append(text, "\\", 1);
    append_escaped(bytes, first == '/' ? "\\\"(" : "\\\"", text);
}

/* True: as a tuple, perhaps behind a directory. False: as plain text. */
static bool show(const struct directory_names *names, keel_bytes bytes, struct buffer *text) {
    size_t prefix_length;
    const char *path = names ? directory_names_find(names, bytes, &prefix_length) : NULL;
    text->length = 0;
    if (path) {
        buffer_append_text(text, path);
        if (text_append_tuple(keel_bytes_of(bytes.data + prefix_length, bytes.length - prefix_length), true, text))
            return true;
        text->length = 0;
    } else if (text_append_tuple(bytes, false, text)) {
        return true;
    }
    append_plain(bytes, text);
    return false;
}

void text_from_bytes(const struct directory_names *names, keel_bytes bytes, struct buffer *text) {
    show(names, bytes, text);
    buffer_text(text);
}

/* Tuples and directories are words already: a space in a directory's name has a backslash. */
void text_word_from_bytes(const struct directory_names *names, keel_bytes bytes, struct buffer *text) {
    bool plain = !show(names, bytes, text);
    uint8_t first = text->length > 0 ? text->data[0] : '#';
    if (plain && (first == '\'' || first == '#' || memchr(text->data, ' ', text->length) || memchr(text->data, ';', text->length))) {
        struct buffer quoted = {0};
        buffer_append(&quoted, "\"", 1);
        buffer_append(&quoted, text->data, text->length);
        buffer_append(&quoted, "\"", 1);
        buffer_free(text);
        *text = quoted;
    }
    buffer_text(text);
}

/* ---- Paths ---- */

/* The names lie in path->bytes one behind the other; while that grows, path->names holds offsets in place of pointers. */
bool text_to_path(const char *text, struct text_path *path, const char **message) {
    *path = (struct text_path){0};
    size_t length = strlen(text), count = 0;
    path->names = calloc(length + 1, sizeof *path->names);
    size_t *ends = calloc(length + 1, sizeof *ends);
    if (!path->names || !ends)
        no_memory();
    bool good = true;
    for (size_t begin = *text == '/'; begin < length && good;) {
        size_t end = begin;
        while (end < length && text[end] != '/')
            end += text[end] == '\\' && end + 1 < length ? 2 : 1;
        if (end == begin)
            good = wrong(message, "There is an empty name in the path %.200s at character %zu", text, begin + 1);
        else
            good = unescape(text + begin, end - begin, &path->bytes, message);
        ends[count++] = path->bytes.length;
        begin = end + 1;
    }
    for (size_t i = 0, begin = 0; i < count && good; begin = ends[i++])
        path->names[i] = keel_bytes_of(path->bytes.data + begin, ends[i] - begin);
    path->path = (keel_path){path->names, good ? count : 0};
    free(ends);
    return good;
}

void text_path_free(struct text_path *path) {
    buffer_free(&path->bytes);
    free(path->names);
    *path = (struct text_path){0};
}

void text_from_path(keel_path path, struct buffer *text) {
    text->length = 0;
    if (path.count == 0)
        buffer_append(text, "/", 1);
    for (size_t i = 0; i < path.count; i++) {
        buffer_append(text, "/", 1);
        append_escaped(path.names[i], "\\\"/() ;", text);
    }
}
