/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table: sparse tables of rows and columns, one table a directory (keel/table.h). A table keeps its cells by rows and by columns, so that either is read
 * alone; with --by-rows it is one that keeps them by rows only, as some programs write it. The two lay out their keys differently, so
 * the option has to be given every time to such a table.
 *
 * Whole rows go in as a JSON object, a member a column. A string is the bytes of its text; numbers, booleans and null become packed tuples of one
 * element, as keel_table_set_element writes them; {"hex": "00ff"} is any bytes, so that what --json prints can be read back. Names are
 * read as on the command line: "7" is the number.
 *
 * Threads: one. Failure: reported with directory, row and column; a row is replaced as a whole or not at all.
 */
#include "recipes.h"

#include <stdlib.h>
#include <string.h>

struct cells {
    struct call *call;
    bool by_rows;
    struct name first, second; /* row and column, or the one of them that is asked for */
    bool along_row;            /* a row, otherwise a column */
    struct buffer value;
    bool found;

    struct name *names; /* of the cells to set */
    struct buffer *values;
    keel_table_entry *entries;
    size_t count;

    struct results results;
    json_t *members;        /* of the row or column that is being listed */
    struct name row;        /* ls: the row that is being listed */
    bool has_row;
};

/* ---- The frame ---- */

static int cells_begin(struct cells *cells, struct call *call, int count, int extra) {
    const char *by_rows = NULL;
    const struct option_spec specs[] = {{"by-rows", 0, false, &by_rows}, {0}};
    cells->call = call;
    int code = call_begin(call, specs, count + extra, count + extra);
    if (code)
        return code;
    cells->by_rows = by_rows != NULL;
    if ((count > 0 && !call_name(call, call->argv[0], &cells->first)) || (count > 1 && !call_name(call, call->argv[1], &cells->second)))
        return EXIT_USAGE;
    return EXIT_OK;
}

static void cells_free(struct cells *cells) {
    for (size_t i = 0; i < cells->count; i++) {
        name_free(&cells->names[i]);
        buffer_free(&cells->values[i]);
    }
    free(cells->names);
    free(cells->values);
    free(cells->entries);
    name_free(&cells->first);
    name_free(&cells->second);
    name_free(&cells->row);
    buffer_free(&cells->value);
    results_free(&cells->results);
    json_decref(cells->members);
}

static fdb_error_t cells_table(struct cells *cells, FDBTransaction *tr, bool create, keel_table *table) {
    keel_subspace space;
    fdb_error_t error = create ? call_create(cells->call, tr, &space) : call_open(cells->call, tr, &space);
    if (error)
        return error;
    return cells->by_rows ? keel_table_rows(&space, table) : keel_table_both(&space, table);
}

static int cells_report(struct cells *cells, fdb_error_t error) {
    struct call *call = cells->call;
    char what[300];
    if (error == KEEL_ERROR_STORED_FORMAT)
        return report("%s: %s: The directory holds keys that are no cells of such a table; is it kept %s, or no table?", call->command.name,
                      call->directory, cells->by_rows ? "by columns too (then without --by-rows)" : "by rows only (--by-rows)");
    if (call->argc == 0)
        return call_report(call, NULL, error);
    snprintf(what, sizeof what, "%s%s%s", call->argv[0], cells->second.bytes.data ? " " : "", cells->second.bytes.data ? call->argv[1] : "");
    return call_report(call, what, error);
}

/* The coordinates of the cell that is asked for. */
#define CELL(cells) KEEL_TUPLE((cells)->first.element, (cells)->second.element)

static void cells_answer(const struct cells *cells, const char *done) {
    json_t *object = json_object();
    json_object_set_new(object, cells->along_row ? "row" : "column", name_json(&cells->first.element));
    if (cells->second.bytes.data)
        json_object_set_new(object, "column", name_json(&cells->second.element));
    json_object_set_new(object, done, json_true());
    answer_write(cells->call->session, object);
}

/* A write, its answer and its report. */
static int cells_write(struct cells *cells, keel_function function, const char *done) {
    fdb_error_t error = session_write(cells->call->session, function, cells);
    if (error)
        return cells_report(cells, error);
    cells_answer(cells, done);
    return EXIT_OK;
}

/* ---- One cell ---- */

static fdb_error_t set_cell(FDBTransaction *tr, void *context) {
    struct cells *cells = context;
    keel_table table;
    fdb_error_t error = cells_table(cells, tr, true, &table);
    return error ? error : keel_table_set(tr, &table, CELL(cells), keel_bytes_of(cells->value.data, cells->value.length));
}

static int table_set(struct call *call) {
    struct cells cells = {.along_row = true};
    int code = cells_begin(&cells, call, 2, 1);
    if (!code && !call_value(call, call->argv[2], &cells.value))
        code = EXIT_USAGE;
    if (!code)
        code = cells_write(&cells, set_cell, "set");
    cells_free(&cells);
    return code;
}

static fdb_error_t get_cell(FDBTransaction *tr, void *context) {
    struct cells *cells = context;
    keel_table table;
    uint8_t *value = NULL;
    size_t length;
    fdb_error_t error = cells_table(cells, tr, false, &table);
    if (!error)
        error = keel_table_get(tr, &table, CELL(cells), &value, &length);
    if (error)
        return error;
    if (!value)
        return KEEL_ERROR_NOT_FOUND;
    cells->value.length = 0;
    if (!buffer_append(&cells->value, value, length))
        error = 1501;
    free(value);
    return error;
}

static int table_get(struct call *call) {
    struct cells cells = {.along_row = true};
    int code = cells_begin(&cells, call, 2, 0);
    if (!code) {
        fdb_error_t error = session_read(call->session, get_cell, &cells);
        keel_bytes value = keel_bytes_of(cells.value.data, cells.value.length);
        if (error) {
            code = cells_report(&cells, error);
        } else if (call->session->json) {
            output_json(json_pack("{s:o,s:o,s:o}", "row", name_json(&cells.first.element), "column", name_json(&cells.second.element), "value",
                                  output_json_bytes(NULL, value)));
        } else {
            results_value(&cells.results, value);
            results_format(&cells.results, "\n");
            results_print(&cells.results);
        }
    }
    cells_free(&cells);
    return code;
}

static fdb_error_t remove_cell(FDBTransaction *tr, void *context) {
    struct cells *cells = context;
    keel_table table;
    uint8_t *value = NULL;
    size_t length;
    fdb_error_t error = cells_table(cells, tr, false, &table);
    if (!error)
        error = keel_table_get(tr, &table, CELL(cells), &value, &length);
    if (error || !value)
        return error ? error : KEEL_ERROR_NOT_FOUND;
    free(value);
    return keel_table_delete(tr, &table, CELL(cells));
}

static int table_rm(struct call *call) {
    struct cells cells = {.along_row = true};
    int code = cells_begin(&cells, call, 2, 0);
    if (!code)
        code = cells_write(&cells, remove_cell, "removed");
    cells_free(&cells);
    return code;
}

/* ---- Rows and columns ---- */

/* A cell under its name: a member of the object, or a line. */
static void add_cell(struct cells *cells, const keel_element *name, keel_bytes value) {
    struct buffer text = {0};
    cells->found = true;
    if (cells->call->session->json) {
        name_print(name, &text);
        if (!cells->members)
            cells->members = json_object();
        json_object_setn_new(cells->members, (const char *)text.data, text.length, output_json_bytes(NULL, value));
    } else {
        results_name(&cells->results, name);
        results_format(&cells->results, "  ");
        results_value(&cells->results, value);
        results_format(&cells->results, "\n");
    }
    buffer_free(&text);
}

static fdb_error_t visit_line(const keel_table_cell *cell, void *context) {
    struct cells *cells = context;
    add_cell(cells, &cell->coordinates.elements[cells->along_row ? 1 : 0], cell->value);
    return 0;
}

static fdb_error_t get_line(FDBTransaction *tr, void *context) {
    struct cells *cells = context;
    keel_table table;
    results_clear(&cells->results);
    json_decref(cells->members);
    cells->members = NULL;
    cells->found = false;
    fdb_error_t error = cells_table(cells, tr, false, &table);
    if (!error)
        error = cells->along_row ? keel_table_row(tr, &table, cells->first.element, visit_line, cells)
                                 : keel_table_column(tr, &table, cells->first.element, visit_line, cells);
    return error ? error : cells->found ? 0 : KEEL_ERROR_NOT_FOUND;
}

static int read_line(struct call *call, bool along_row) {
    struct cells cells = {.along_row = along_row};
    int code = cells_begin(&cells, call, 1, 0);
    if (!code) {
        fdb_error_t error = read_bounded(call->session, get_line, &cells);
        if (error)
            code = cells_report(&cells, error);
        else if (call->session->json)
            output_json(json_pack("{s:o,s:O}", along_row ? "row" : "column", name_json(&cells.first.element), along_row ? "columns" : "rows",
                                  cells.members));
        else
            results_print(&cells.results);
    }
    cells_free(&cells);
    return code;
}

static int table_row(struct call *call) {
    return read_line(call, true);
}

static int table_column(struct call *call) {
    return read_line(call, false);
}

static fdb_error_t remove_line(FDBTransaction *tr, void *context) {
    struct cells *cells = context;
    keel_table table;
    fdb_error_t error = get_line(tr, cells);
    if (!error)
        error = cells_table(cells, tr, false, &table);
    if (error)
        return error;
    return cells->along_row ? keel_table_delete_row(tr, &table, cells->first.element) : keel_table_delete_column(tr, &table, cells->first.element);
}

static int delete_line(struct call *call, bool along_row) {
    struct cells cells = {.along_row = along_row};
    int code = cells_begin(&cells, call, 1, 0);
    if (!code)
        code = cells_write(&cells, remove_line, "removed");
    cells_free(&cells);
    return code;
}

static int table_rmrow(struct call *call) {
    return delete_line(call, true);
}

static int table_rmcolumn(struct call *call) {
    return delete_line(call, false);
}

/* ---- Rows and columns from JSON ---- */

static bool bytes_from_hex(const char *hex, struct buffer *bytes) {
    size_t length = strlen(hex);
    for (size_t i = 0; i + 1 < length; i += 2) {
        char pair[3] = {hex[i], hex[i + 1], 0}, *end;
        uint8_t byte = (uint8_t)strtoul(pair, &end, 16);
        if (*end || pair[0] == '-' || pair[0] == '+' || pair[0] == ' ')
            return false;
        buffer_append(bytes, &byte, 1);
    }
    return length % 2 == 0;
}

static bool pack_element(keel_element element, struct buffer *value) {
    uint8_t packed[16];
    size_t length;
    if (keel_tuple_pack(keel_tuple_of(&element, 1), packed, sizeof packed, &length))
        return false;
    return buffer_append(value, packed, length);
}

/* The bytes of a cell. */
static bool value_from_json(const json_t *json, struct buffer *value) {
    const json_t *hex = json_object_get(json, "hex");
    if (json_is_string(json))
        return buffer_append(value, json_string_value(json), json_string_length(json));
    if (json_is_integer(json))
        return pack_element(keel_element_of_int(json_integer_value(json)), value);
    if (json_is_real(json))
        return pack_element(keel_element_of_double(json_real_value(json)), value);
    if (json_is_boolean(json))
        return pack_element(keel_element_of_bool(json_is_true(json)), value);
    if (json_is_null(json))
        return pack_element(keel_element_null(), value);
    return json_is_string(hex) && bytes_from_hex(json_string_value(hex), value);
}

static int read_entries(struct cells *cells, json_t *object) {
    struct call *call = cells->call;
    size_t count = json_object_size(object);
    const char *name;
    json_t *value;
    cells->names = calloc(count + 1, sizeof *cells->names);
    cells->values = calloc(count + 1, sizeof *cells->values);
    cells->entries = calloc(count + 1, sizeof *cells->entries);
    if (!cells->names || !cells->values || !cells->entries)
        return report("out of memory");
    json_object_foreach(object, name, value) {
        size_t i = cells->count;
        if (!call_name(call, name, &cells->names[i]))
            return EXIT_USAGE;
        cells->count++;
        if (!value_from_json(value, &cells->values[i]))
            return usage_error(&call->command, "%s: A value is text, a number, true, false, null or {\"hex\": \"00ff\"}", name);
        cells->entries[i] = (keel_table_entry){cells->names[i].element, keel_bytes_of(cells->values[i].data, cells->values[i].length)};
    }
    return EXIT_OK;
}

static fdb_error_t set_line(FDBTransaction *tr, void *context) {
    struct cells *cells = context;
    keel_table table;
    fdb_error_t error = cells_table(cells, tr, true, &table);
    if (error)
        return error;
    return cells->along_row ? keel_table_set_row(tr, &table, cells->first.element, cells->entries, cells->count)
                            : keel_table_set_column(tr, &table, cells->first.element, cells->entries, cells->count);
}

static int write_line(struct call *call, bool along_row) {
    struct cells cells = {.along_row = along_row};
    struct buffer text = {0};
    json_error_t position;
    json_t *object = NULL;
    int code = cells_begin(&cells, call, 1, 1);
    if (!code && !call_text(call, call->argv[1], &text))
        code = EXIT_USAGE;
    if (!code) {
        object = json_loadb((const char *)text.data, text.length, JSON_REJECT_DUPLICATES, &position);
        if (!object)
            code = usage_error(&call->command, "The text is not valid JSON (line %d, column %d: %s)", position.line, position.column, position.text);
        else if (!json_is_object(object))
            code = usage_error(&call->command, "The cells are a JSON object, such as {\"chess\": 3}");
        else
            code = read_entries(&cells, object);
    }
    if (!code)
        code = cells_write(&cells, set_line, "set");
    json_decref(object);
    buffer_free(&text);
    cells_free(&cells);
    return code;
}

static int table_setrow(struct call *call) {
    return write_line(call, true);
}

static int table_setcolumn(struct call *call) {
    return write_line(call, false);
}

/* ---- ls ---- */

/* The row that was collected becomes a result. */
static void end_row(struct cells *cells) {
    if (cells->members)
        results_json(&cells->results, json_pack("{s:o,s:o}", "row", name_json(&cells->row.element), "columns", cells->members));
    cells->members = NULL;
}

static fdb_error_t visit_cell(const keel_table_cell *cell, void *context) {
    struct cells *cells = context;
    const keel_element *row = &cell->coordinates.elements[0];
    fdb_error_t error = 0;
    if (!cells->has_row || keel_element_compare(row, &cells->row.element) != 0) {
        end_row(cells);
        error = name_copy(row, &cells->row);
        cells->has_row = true;
    }
    if (!error && !cells->call->session->json) {
        results_name(&cells->results, row);
        results_format(&cells->results, "  ");
    }
    if (!error)
        add_cell(cells, &cell->coordinates.elements[1], cell->value);
    return error;
}

static fdb_error_t list_cells(FDBTransaction *tr, void *context) {
    struct cells *cells = context;
    keel_table table;
    results_clear(&cells->results);
    json_decref(cells->members);
    cells->members = NULL;
    cells->has_row = false;
    fdb_error_t error = cells_table(cells, tr, false, &table);
    if (!error)
        error = keel_table_slice(tr, &table, KEEL_TUPLE(KEEL_NIL, KEEL_NIL), 0, visit_cell, cells);
    if (!error)
        end_row(cells);
    return error;
}

static int table_ls(struct call *call) {
    struct cells cells = {.along_row = true};
    int code = cells_begin(&cells, call, 0, 0);
    if (!code) {
        fdb_error_t error = read_bounded(call->session, list_cells, &cells);
        if (error)
            code = cells_report(&cells, error);
        else
            results_print(&cells.results);
    }
    cells_free(&cells);
    return code;
}

static const struct subcommand table_table[] = {
    {"set", "[--by-rows] DIRECTORY ROW COLUMN VALUE|@FILE|-", table_set, false},
    {"get", "[--by-rows] DIRECTORY ROW COLUMN", table_get, true},
    {"rm", "[--by-rows] DIRECTORY ROW COLUMN", table_rm, false},
    {"row", "[--by-rows] DIRECTORY ROW", table_row, true},
    {"column", "[--by-rows] DIRECTORY COLUMN", table_column, true},
    {"setrow", "[--by-rows] DIRECTORY ROW JSON|@FILE|-", table_setrow, false},
    {"setcolumn", "[--by-rows] DIRECTORY COLUMN JSON|@FILE|-", table_setcolumn, false},
    {"rmrow", "[--by-rows] DIRECTORY ROW", table_rmrow, false},
    {"rmcolumn", "[--by-rows] DIRECTORY COLUMN", table_rmcolumn, false},
    {"ls", "[--by-rows] DIRECTORY", table_ls, true},
    {0},
};

int run_table(struct session *session, int argc, char **argv) {
    return subcommand_run("table", table_table, session, argc, argv);
}
