/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that is imported, as lines: the lowest part of keel import.
 *
 * A window over the file, `data`, holds the row that is being put together and what was read ahead:
 *
 *     data  [ …passed… | row: line line line | read ahead | room ]
 *                      row_begin             row_end      filled
 *
 * A reader takes lines into the row until it is whole, then passes it (input_row_done). Since the bytes of a row stay until then, a row that turns
 * out to be broken can be given up line by line, and be copied to the file of refused rows. The window grows to the longest row, at most
 * IMPORT_ROW_BYTES_MAX, so memory does not depend on the file's size.
 *
 * The chain. A resumed import must not go on in another file than it was begun with. So each line that is passed goes into a checksum,
 *
 *     chain(n) = XXH3(line n, seeded with chain(n - 1))
 *
 * which every bookmark carries and which takes one short hash a line. A resume hashes the file up to the bookmark's offset and compares; this works
 * for a pipe too, if it is fed the same bytes again. A line longer than the window is hashed in pieces of exactly the window's size.
 *
 * Failure: errors of the system are reported here, with the file's name. Threads: one.
 */
#include "import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { READ_BYTES = 1 << 18 };

/* ---- Reading ---- */

static bool grow(struct input *input, size_t capacity) {
    uint8_t *data = realloc(input->data, capacity);
    if (!data) {
        report("%s: no memory for a row of %zu bytes", input->name, capacity);
        return false;
    }
    input->data = data;
    input->capacity = capacity;
    return true;
}

/* Moves the row to the front, makes room and reads more. *again is false at the end of the file. */
static bool fill(struct input *input) {
    if (input->row_begin) {
        memmove(input->data, input->data + input->row_begin, input->filled - input->row_begin);
        input->filled -= input->row_begin;
        input->row_end -= input->row_begin;
        input->row_begin = 0;
    }
    if (input->capacity - input->filled < READ_BYTES && !grow(input, input->capacity * 2 + 2 * READ_BYTES))
        return false;
    for (;;) {
        ssize_t count = read(input->descriptor, input->data + input->filled, READ_BYTES);
        if (count < 0 && errno == EINTR) {
            if (session_interrupted())
                return false;
            continue;
        }
        if (count < 0) {
            report("%s: %s, at byte %llu", input->name, strerror(errno), (unsigned long long)(input->row_offset + input->filled));
            return false;
        }
        input->filled += (size_t)count;
        input->ended = count == 0;
        return true;
    }
}

enum input_result input_line(struct input *input, keel_bytes *line) {
    size_t searched = input->row_end - input->row_begin;
    for (;;) {
        const uint8_t *from = input->data + input->row_begin + searched;
        size_t length = input->filled - input->row_begin - searched;
        const uint8_t *newline = length ? memchr(from, '\n', length) : NULL;
        size_t row_bytes = newline ? (size_t)(newline + 1 - (input->data + input->row_begin)) : searched + length;
        if (row_bytes > IMPORT_ROW_BYTES_MAX)
            return INPUT_TOO_LONG;
        if (newline || (input->ended && input->row_begin + row_bytes > input->row_end)) {
            *line = keel_bytes_of(input->data + input->row_end, input->row_begin + row_bytes - input->row_end);
            input->row_end = input->row_begin + row_bytes;
            input->row_lines++;
            return INPUT_LINE;
        }
        if (input->ended)
            return INPUT_END;
        searched = row_bytes;
        if (!fill(input))
            return INPUT_FAILED;
    }
}

/* ---- Passing rows ---- */

static uint64_t chain_on(uint64_t chain, const uint8_t *data, size_t length) {
    return XXH3_64bits_withSeed(data, length, chain);
}

/* The chain over whole lines. */
static uint64_t chain_lines(uint64_t chain, const uint8_t *data, size_t length, size_t lines) {
    if (lines == 1)
        return chain_on(chain, data, length);
    while (length) {
        const uint8_t *newline = memchr(data, '\n', length);
        size_t line = newline ? (size_t)(newline + 1 - data) : length;
        chain = chain_on(chain, data, line);
        data += line;
        length -= line;
    }
    return chain;
}

void input_row_done(struct input *input) {
    size_t length = input->row_end - input->row_begin;
    if (length)
        input->chain = chain_lines(input->chain, input->data + input->row_begin, length, input->row_lines);
    input->row_offset += length;
    input->row_line += input->row_lines;
    input->row_begin = input->row_end;
    input->row_lines = 0;
}

void input_row_again(struct input *input) {
    input->row_end = input->row_begin;
    input->row_lines = 0;
}

/* Passes a line that is longer than a row may be, piece by piece. */
static bool drop_long_line(struct input *input) {
    for (;;) {
        size_t length = input->filled - input->row_begin;
        if (length < IMPORT_ROW_BYTES_MAX && !input->ended) {
            if (!fill(input))
                return false;
            continue;
        }
        length = length < IMPORT_ROW_BYTES_MAX ? length : IMPORT_ROW_BYTES_MAX;
        const uint8_t *from = input->data + input->row_begin, *newline = length ? memchr(from, '\n', length) : NULL;
        length = newline ? (size_t)(newline + 1 - from) : length;
        input->row_end = input->row_begin + length;
        bool last = newline || (input->ended && input->row_end == input->filled);
        input->row_lines = 1;
        input_row_done(input);
        if (last)
            return true;
        input->row_line--; /* the same line goes on */
    }
}

bool input_row_first_line(struct input *input) {
    keel_bytes line;
    input_row_again(input);
    enum input_result result = input_line(input, &line);
    return result == INPUT_TOO_LONG ? drop_long_line(input) : result != INPUT_FAILED;
}

/* ---- Places ---- */

struct input_place input_place_of(const struct input *input) {
    size_t length = input->row_end - input->row_begin;
    return (struct input_place){
        .begin = input->row_offset,
        .end = input->row_offset + length,
        .line = input->row_line,
        .line_next = input->row_line + input->row_lines,
        .chain = chain_lines(input->chain, input->data + input->row_begin, length, input->row_lines),
    };
}

static void put_number(uint8_t *place, uint64_t number) {
    for (int i = 0; i < 8; i++)
        place[i] = (uint8_t)(number >> (56 - 8 * i));
}

static uint64_t get_number(const uint8_t *place) {
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | place[i];
    return number;
}

void input_place_write(const struct input_place *place, uint8_t bookmark[INPUT_BOOKMARK_BYTES]) {
    const uint64_t numbers[] = {place->begin, place->end, place->line, place->line_next, place->chain, place->ordinal, place->refused};
    _Static_assert(sizeof numbers == INPUT_BOOKMARK_BYTES, "a bookmark is these numbers");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_number(bookmark + 8 * i, numbers[i]);
}

bool input_place_read(keel_bytes bookmark, struct input_place *place) {
    if (bookmark.length != INPUT_BOOKMARK_BYTES)
        return false;
    const uint8_t *at = bookmark.data;
    *place = (struct input_place){get_number(at),      get_number(at + 8),  get_number(at + 16), get_number(at + 24),
                                  get_number(at + 32), get_number(at + 40), get_number(at + 48)};
    return true;
}

static bool another_file(const struct input *input) {
    report("%s is not the file that this load was begun with: its first part has changed. Import it anew (loads --abandon), or give the file as it was",
           input->name);
    return false;
}

bool input_go_on(struct input *input, const struct input_place *place) {
    while (input->row_offset < place->end) {
        if (session_interrupted() || !input_row_first_line(input))
            return false;
        input_row_done(input);
        if (input->ended && input->row_begin == input->filled)
            break;
    }
    if (input->row_offset != place->end || input->chain != place->chain)
        return another_file(input);
    input->row_line = place->line_next;
    return true;
}

/* ---- Opening and closing ---- */

static bool pass_byte_order_mark(struct input *input) {
    while (input->filled < 4 && !input->ended)
        if (!fill(input))
            return false;
    const uint8_t *data = input->data;
    if (input->filled >= 2 && ((data[0] == 0xff && data[1] == 0xfe) || (data[0] == 0xfe && data[1] == 0xff))) {
        report("%s is UTF-16: convert it first, for example with iconv -f UTF-16 -t UTF-8", input->name);
        return false;
    }
    if (input->filled >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        input->row_begin = input->row_end = 3;
        input->row_offset = 3;
    }
    return true;
}

bool input_open(struct input *input, const char *path) {
    struct stat status;
    bool standard = strcmp(path, "-") == 0;
    *input = (struct input){.name = standard ? "standard input" : path, .row_line = 1};
    input->descriptor = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (input->descriptor < 0 || fstat(input->descriptor, &status) != 0) {
        report("%s: %s", path, strerror(errno));
        return false;
    }
    if (S_ISDIR(status.st_mode)) {
        report("%s is a directory", path);
        input_close(input);
        return false;
    }
    input->regular = S_ISREG(status.st_mode);
    input->size = input->regular ? (uint64_t)status.st_size : 0;
    if (!pass_byte_order_mark(input)) {
        input_close(input);
        return false;
    }
    return true;
}

void input_close(struct input *input) {
    if (input->descriptor > STDIN_FILENO)
        close(input->descriptor);
    free(input->data);
    input->data = NULL;
    input->descriptor = -1;
}
