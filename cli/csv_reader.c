/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CSV as RFC 4180 has it, by way of libcsv: rows of fields out of the lines of an input.
 *
 * libcsv is handed a line at a time, so that we know where in the file each row begins and ends: a row is over when the line that was handed in ended
 * one. Its strict mode refuses what cannot be meant: a quote in the middle of a field without quotes, something else than a delimiter behind a
 * closing quote. Blanks belong to the fields. Lines end in LF or CR LF; lines without anything in them are passed over.
 *
 *     field           a,"b ""c""",,""      →  a | b "c" | null | (empty text)
 *
 * What is bad costs as little of the file as possible: of a row that is broken only the first line is given up, as a quote that was never closed
 * would otherwise swallow what follows. Of a row that is whole but has the wrong fields, all of it is.
 *
 * Fields are copied to `text`, as libcsv uses its buffer for the next one; positions become pointers when the row is whole.
 */
#include "import.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

enum { NO_QUOTE = 0xff /* a byte that UTF-8 does not have */ };

struct csv_reader {
    struct csv_parser parser;
    struct input *input;
    unsigned char delimiter, quote;
    struct buffer text;
    struct field *fields; /* data is an offset into text until the row is whole */
    size_t field_count, field_capacity;
    size_t ended_at; /* fields when the row ended */
    bool row_ended, behind_end, no_memory;
};

static int no_spaces(unsigned char c) {
    (void)c;
    return 0;
}

static bool parser_open(struct csv_reader *reader) {
    if (csv_init(&reader->parser, CSV_STRICT | CSV_EMPTY_IS_NULL))
        return false;
    csv_set_delim(&reader->parser, reader->delimiter);
    csv_set_quote(&reader->parser, reader->quote);
    csv_set_space_func(&reader->parser, no_spaces);
    csv_set_blk_size(&reader->parser, 4096);
    return true;
}

struct csv_reader *csv_reader_open(struct input *input, char delimiter, int quote) {
    struct csv_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->input = input;
    reader->delimiter = (unsigned char)delimiter;
    reader->quote = quote < 0 ? NO_QUOTE : (unsigned char)quote;
    if (!parser_open(reader)) {
        free(reader);
        return NULL;
    }
    return reader;
}

void csv_reader_close(struct csv_reader *reader) {
    if (!reader)
        return;
    csv_free(&reader->parser);
    buffer_free(&reader->text);
    free(reader->fields);
    free(reader);
}

/* ---- What libcsv calls ---- */

static bool more_fields(struct csv_reader *reader) {
    size_t capacity = reader->field_capacity * 2 + 64;
    struct field *fields = realloc(reader->fields, capacity * sizeof *fields);
    if (!fields)
        return false;
    reader->fields = fields;
    reader->field_capacity = capacity;
    return true;
}

static void on_field(void *data, size_t length, void *context) {
    struct csv_reader *reader = context;
    reader->behind_end |= reader->row_ended;
    if ((reader->field_count == reader->field_capacity && !more_fields(reader)) || (length && !buffer_append(&reader->text, data, length))) {
        reader->no_memory = true;
        return;
    }
    size_t position = reader->text.length - length;
    reader->fields[reader->field_count++] = (struct field){(const char *)(uintptr_t)position, length, !data};
}

static void on_row(int terminator, void *context) {
    struct csv_reader *reader = context;
    (void)terminator;
    reader->behind_end |= reader->row_ended;
    if (!reader->row_ended)
        reader->ended_at = reader->field_count;
    reader->row_ended = true;
}

/* ---- Rows ---- */

static void begin_row(struct csv_reader *reader) {
    reader->field_count = 0;
    reader->text.length = 0;
    reader->row_ended = reader->behind_end = reader->no_memory = false;
}

/* Gives up the first line of a broken row. libcsv has no other way back to its first state than to begin anew. */
static enum row_result broken(struct csv_reader *reader, struct row_problem *problem, const char *message) {
    problem_set(problem, REASON_SYNTAX, keel_bytes_of(NULL, 0), "%s", message);
    problem->field = reader->behind_end ? reader->ended_at : reader->field_count + 1;
    problem->line = reader->input->row_line;
    csv_free(&reader->parser);
    if (!parser_open(reader)) {
        report("%s: no memory", reader->input->name);
        return ROW_FAILED;
    }
    return input_row_first_line(reader->input) ? ROW_BAD : ROW_FAILED;
}

static bool is_blank(keel_bytes line) {
    return line.length == 0 || line.data[0] == '\n' || (line.data[0] == '\r' && (line.length == 1 || line.data[1] == '\n'));
}

/* What strict mode did not like at `position` of the line. */
static const char *explain(const struct csv_reader *reader, keel_bytes line, size_t position) {
    if (position < line.length && line.data[position] == reader->quote && !reader->parser.quoted)
        return "a quote inside a field that does not begin with one; put the field in quotes and double those inside, or --quote none";
    return "something other than the delimiter follows the closing quote";
}

/* Feeds one line. NULL, or what is wrong with the row. */
static const char *feed(struct csv_reader *reader, keel_bytes line) {
    size_t done = csv_parse(&reader->parser, line.data, line.length, on_field, on_row, reader);
    if (done != line.length)
        return csv_error(&reader->parser) == CSV_EPARSE ? explain(reader, line, done) : "the field is too large for memory";
    if (line.data[line.length - 1] != '\n' && !reader->row_ended) /* the file ends without a newline */
        csv_parse(&reader->parser, "\n", 1, on_field, on_row, reader);
    if (reader->behind_end)
        return "a carriage return without a line feed; put the field in quotes, or convert the file to lines that end in LF";
    return reader->no_memory ? "no memory for the fields of the row" : NULL;
}

static void finish_row(struct csv_reader *reader, struct row *row) {
    const char *text = (const char *)reader->text.data;
    for (size_t i = 0; i < reader->field_count; i++)
        reader->fields[i].data = text ? text + (uintptr_t)reader->fields[i].data : "";
    row->fields = reader->fields;
    row->field_count = reader->field_count;
}

enum row_result csv_reader_next(struct csv_reader *reader, struct row *row, struct row_problem *problem) {
    keel_bytes line;
    const char *wrong;
    begin_row(reader);
    for (;;) {
        enum input_result result = input_line(reader->input, &line);
        if (result == INPUT_FAILED)
            return ROW_FAILED;
        if (result == INPUT_END)
            return reader->input->row_lines ? broken(reader, problem, "the quote that opens this field is never closed") : ROW_END;
        if (result == INPUT_TOO_LONG)
            return broken(reader, problem, "the row does not end within 16 MB; is a quote not closed?");
        if (reader->input->row_lines == 1 && is_blank(line)) {
            input_row_done(reader->input);
            continue;
        }
        if (reader->quote == NO_QUOTE && memchr(line.data, NO_QUOTE, line.length))
            return broken(reader, problem, "the line is not valid UTF-8");
        if ((wrong = feed(reader, line)))
            return broken(reader, problem, wrong);
        if (reader->row_ended)
            break;
    }
    finish_row(reader, row);
    return ROW_OK;
}
