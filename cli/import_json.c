/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON lines: one object a line. Lines of nothing but blanks are passed over.
 *
 * A row of records needs its members, and is parsed here. A document is only handed on as text: the document recipe parses it when it makes the rows, and
 * nothing is parsed twice unless it is wrong, to tell where.
 */
#include "import.h"

#include <string.h>

static bool is_blank(keel_bytes line) {
    for (size_t i = 0; i < line.length; i++)
        if (!memchr(" \t\r\n", line.data[i], 4))
            return false;
    return true;
}

void json_explain(keel_bytes text, struct row_problem *problem) {
    json_error_t wrong;
    json_t *json = json_loadb((const char *)text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &wrong);
    keel_bytes none = keel_bytes_of(NULL, 0);
    if (!bytes_are_utf8(text))
        problem_set(problem, REASON_UTF8, none, "the line is not valid UTF-8");
    else if (json && !json_is_object(json))
        problem_set(problem, REASON_JSON, none, "the line is JSON, but not an object");
    else if (json)
        problem_set(problem, REASON_JSON, none, "more levels inside each other than are allowed");
    else
        problem_set(problem, REASON_JSON, none, "not JSON, at character %d: %s", wrong.column, wrong.text);
    json_decref(json);
}

enum row_result json_reader_next(struct json_reader *reader, struct row *row, struct row_problem *problem) {
    keel_bytes line;
    json_error_t wrong;
    json_decref(reader->object);
    reader->object = row->object = NULL;
    for (;;) {
        enum input_result result = input_line(reader->input, &line);
        if (result == INPUT_FAILED || result == INPUT_END)
            return result == INPUT_END ? ROW_END : ROW_FAILED;
        problem->line = reader->input->row_line;
        if (result == INPUT_TOO_LONG) {
            problem_set(problem, REASON_TOO_LARGE, keel_bytes_of(NULL, 0), "the line is longer than 16 MB");
            return input_row_first_line(reader->input) ? ROW_BAD : ROW_FAILED;
        }
        if (!is_blank(line))
            break;
        input_row_done(reader->input);
    }
    while (line.length && (line.data[line.length - 1] == '\n' || line.data[line.length - 1] == '\r'))
        line.length--;
    row->text = line;
    if (!reader->parse)
        return ROW_OK;
    row->object = reader->object = json_loadb((const char *)line.data, line.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &wrong);
    if (json_is_object(row->object))
        return ROW_OK;
    json_explain(line, problem);
    return ROW_BAD;
}

void json_reader_close(struct json_reader *reader) {
    json_decref(reader->object);
    reader->object = NULL;
}
