/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of keel import, and what it makes of the beginning of the file: format, columns, types, key.
 *
 *     CSV          the header names the columns (--no-header: --columns does); text unless --types says otherwise; the first column is the key
 *     JSON lines   documents; with --as records the first object, or --columns, names the columns. --key must be given
 *
 * --types auto looks at the first rows of the file before the import begins: a column is int, float or bool if all its values there are.
 */
#include "import.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE_ROWS = 1000 };

/* ---- Options ---- */

/* Takes all --index out of the arguments: it may be there many times. */
static bool take_indexes(int *argc, char **argv, struct import_options *options) {
    int kept = 1;
    options->indexes = calloc((size_t)*argc + 1, sizeof *options->indexes);
    if (!options->indexes)
        return report("no memory"), false;
    for (int i = 1; i < *argc; i++) {
        if (strncmp(argv[i], "--index=", 8) == 0)
            options->indexes[options->index_count++] = argv[i] + 8;
        else if (strcmp(argv[i], "--index") == 0 && i + 1 < *argc)
            options->indexes[options->index_count++] = argv[++i];
        else
            argv[kept++] = argv[i];
    }
    argv[kept] = NULL;
    *argc = kept;
    return true;
}

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool format_of(const char *format, const char *file, bool *is_json) {
    static const char *const csv[] = {".csv", ".tsv", ".txt"}, *const json[] = {".jsonl", ".ndjson", ".json"};
    if (format) {
        *is_json = strcmp(format, "jsonl") == 0 || strcmp(format, "json") == 0 || strcmp(format, "ndjson") == 0;
        return *is_json || strcmp(format, "csv") == 0;
    }
    for (size_t i = 0; i < 3; i++) {
        *is_json = ends_in(file, json[i]);
        if (*is_json || ends_in(file, csv[i]))
            return true;
    }
    return false;
}

/* One byte, or "tab" and \t for one that is hard to type. */
static bool byte_of(const char *text, char *byte) {
    bool tab = strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0;
    *byte = tab ? '\t' : text[0];
    return tab || (strlen(text) == 1 && (unsigned char)text[0] < 0x80 && text[0] != '\n' && text[0] != '\r');
}

static bool choose_bytes(const struct command *command, struct import_options *options) {
    char quote = '"';
    options->delimiter_byte = ends_in(options->file, ".tsv") ? '\t' : ',';
    if (options->delimiter && !byte_of(options->delimiter, &options->delimiter_byte))
        return usage_error(command, "--delimiter: one character of ASCII, or tab"), false;
    bool none = options->quote && strcmp(options->quote, "none") == 0;
    if (options->quote && !none && !byte_of(options->quote, &quote))
        return usage_error(command, "--quote: one character of ASCII, or none"), false;
    options->quote_byte = none ? -1 : (unsigned char)quote;
    if (!none && quote == options->delimiter_byte)
        return usage_error(command, "the quote and the delimiter are the same"), false;
    return true;
}

static bool one_of(const struct command *command, const char *option, const char *value, const char *first, const char *second, bool *is_second) {
    if (value && strcmp(value, first) != 0 && strcmp(value, second) != 0)
        return usage_error(command, "--%s is %s or %s", option, first, second), false;
    if (value)
        *is_second = strcmp(value, second) == 0;
    return true;
}

static bool check_csv(const struct command *command, const struct import_options *options) {
    if (options->no_header && !options->columns)
        return usage_error(command, "--no-header needs --columns with the names"), false;
    if (options->columns && !options->no_header)
        return usage_error(command, "--columns is for a file without a header: add --no-header"), false;
    if (options->types && strcmp(options->types, "auto") == 0 && strcmp(options->file, "-") == 0)
        return usage_error(command, "--types auto reads the beginning twice, which standard input does not allow"), false;
    return true;
}

static bool check_json(const struct command *command, const struct import_options *options) {
    if (!options->key)
        return usage_error(command, "--key is needed for JSON lines: the member that is the key, or auto for the number of the line"), false;
    if (options->no_header || options->delimiter || options->quote)
        return usage_error(command, "--no-header, --delimiter and --quote are for CSV"), false;
    if (options->documents && (options->columns || options->types))
        return usage_error(command, "--columns and --types are for records: documents have any members, with the types they have in JSON"), false;
    if (options->types && strcmp(options->types, "auto") == 0)
        return usage_error(command, "--types auto is for CSV: JSON has types"), false;
    return true;
}

static bool check(const struct command *command, struct import_options *options) {
    if (!options->into || !*options->into)
        return usage_error(command, "--into DIR is missing: the directory that the rows go to"), false;
    if (!format_of(options->format, options->file, &options->is_json))
        return usage_error(command, options->format ? "--format is csv or jsonl" : "the name does not tell the format: add --format csv or jsonl"), false;
    options->documents = options->is_json;
    options->error_lines_max = 10;
    if (!one_of(command, "as", options->as, "records", "documents", &options->documents) ||
        !one_of(command, "on-error", options->on_error, "stop", "skip", &options->skip) || !choose_bytes(command, options))
        return false;
    if (options->error_lines && !options_number("error-lines", options->error_lines, 0, 1000000000, &options->error_lines_max))
        return false;
    if (options->dry_run && options->resume)
        return usage_error(command, "a dry run writes nothing, so there is nothing to resume"), false;
    return options->is_json ? check_json(command, options) : check_csv(command, options);
}

int import_options_parse(int argc, char **argv, struct import_options *options) {
    const struct command *command = command_find("import");
    const struct option_spec specs[] = {
        {"into", 'i', true, &options->into},           {"format", 'f', true, &options->format},
        {"as", 0, true, &options->as},                 {"key", 'k', true, &options->key},
        {"types", 't', true, &options->types},         {"columns", 'c', true, &options->columns},
        {"no-header", 0, false, &options->no_header},  {"delimiter", 'd', true, &options->delimiter},
        {"quote", 0, true, &options->quote},           {"on-error", 0, true, &options->on_error},
        {"errors-to", 0, true, &options->errors_to},   {"error-lines", 0, true, &options->error_lines},
        {"name", 0, true, &options->name},             {"resume", 0, false, &options->resume},
        {"no-activate", 0, false, &options->no_activate}, {"dry-run", 'n', false, &options->dry_run},
        {NULL, 0, false, NULL}};
    *options = (struct import_options){0};
    if (!take_indexes(&argc, argv, options))
        return EXIT_FAILED;
    if (!options_parse(command, &argc, argv, specs))
        return EXIT_USAGE;
    if (argc != 2)
        return usage_error(command, argc < 2 ? "the file is missing (- for standard input)" : "one file at a time");
    options->file = argv[1];
    return check(command, options) ? EXIT_OK : EXIT_USAGE;
}

void import_options_free(struct import_options *options) {
    free(options->indexes);
    options->indexes = NULL;
}

/* ---- The source ---- */

bool source_open(struct source *source, const struct import_options *options) {
    *source = (struct source){.is_json = options->is_json};
    if (!input_open(&source->input, options->file))
        return false;
    source->json = (struct json_reader){.input = &source->input, .parse = !options->documents};
    if (!options->is_json && !(source->csv = csv_reader_open(&source->input, options->delimiter_byte, options->quote_byte))) {
        report("no memory");
        input_close(&source->input);
        return false;
    }
    return true;
}

enum row_result source_next(struct source *source, struct row *row, struct row_problem *problem) {
    return source->is_json ? json_reader_next(&source->json, row, problem) : csv_reader_next(source->csv, row, problem);
}

void source_close(struct source *source) {
    csv_reader_close(source->csv);
    json_reader_close(&source->json);
    input_close(&source->input);
}

/* ---- Columns ---- */

static bool header_columns(struct source *source, struct schema *schema) {
    struct row row = {0};
    struct row_problem problem = {0};
    enum row_result result = source_next(source, &row, &problem);
    if (result == ROW_FAILED)
        return false;
    if (result == ROW_END)
        return report("%s is empty: there is no header", source->input.name), false;
    if (result == ROW_BAD)
        return report("%s: line %llu, the header, field %zu: %s", source->input.name, (unsigned long long)problem.line, problem.field, problem.message),
               false;
    for (size_t i = 0; i < row.field_count; i++)
        if (!schema_add_column(schema, keel_bytes_of(row.fields[i].data, row.fields[i].length), TYPE_TEXT))
            return report("%s: line %llu, the header: see above", source->input.name, (unsigned long long)source->input.row_line), false;
    input_row_done(&source->input);
    return true;
}

/* The members of the first object, which stays the first row. */
static bool object_columns(struct source *source, struct schema *schema) {
    struct row row = {0};
    struct row_problem problem = {0};
    enum row_result result = source_next(source, &row, &problem);
    if (result == ROW_FAILED || result == ROW_END)
        return result == ROW_END;
    if (result == ROW_BAD)
        return report("%s: line %llu tells no columns: %s. --columns names them", source->input.name, (unsigned long long)problem.line,
                      problem.message),
               false;
    void *at;
    for (at = json_object_iter(row.object); at; at = json_object_iter_next(row.object, at))
        if (!schema_add_column(schema, keel_bytes_of(json_object_iter_key(at), json_object_iter_key_len(at)), TYPE_ANY))
            return false;
    input_row_again(&source->input);
    return true;
}

/* ---- Guessing types ---- */

static bool looks_like_int(keel_bytes text) {
    const char *message;
    keel_element element;
    size_t sign = text.length && text.data[0] == '-';
    bool zero = text.length > sign + 1 && text.data[sign] == '0'; /* 007 is a name, not a number */
    return !zero && text.length && text.data[0] != '+' && type_from_text(TYPE_INT, text, NULL, &element, &message);
}

static bool looks_like(enum column_type type, keel_bytes text) {
    const char *message;
    keel_element element;
    size_t sign = text.length && text.data[0] == '-';
    bool leading = text.length > sign + 1 && text.data[sign] == '0' && text.data[sign + 1] >= '0' && text.data[sign + 1] <= '9';
    if (type == TYPE_INT)
        return looks_like_int(text);
    if (type == TYPE_BOOL)
        return (text.length == 4 && memcmp(text.data, "true", 4) == 0) || (text.length == 5 && memcmp(text.data, "false", 5) == 0);
    return !leading && text.length && text.data[0] != '+' && type_from_text(TYPE_FLOAT, text, NULL, &element, &message);
}

/* Narrows what the columns may be by one row: a bit a type. */
static void narrow(const struct row *row, uint8_t *possible, bool *seen, size_t columns) {
    static const enum column_type types[] = {TYPE_INT, TYPE_FLOAT, TYPE_BOOL};
    for (size_t i = 0; i < row->field_count && i < columns; i++) {
        if (row->fields[i].null)
            continue;
        seen[i] = true;
        for (size_t k = 0; k < 3; k++)
            if ((possible[i] & 1u << k) && !looks_like(types[k], keel_bytes_of(row->fields[i].data, row->fields[i].length)))
                possible[i] = (uint8_t)(possible[i] & ~(1u << k));
    }
}

static bool guess_types(const struct import_options *options, struct schema *schema) {
    struct source sample;
    struct row row = {0};
    struct row_problem problem;
    uint8_t *possible = malloc(schema->column_count);
    bool *seen = calloc(schema->column_count, 1);
    bool fine = possible && seen && source_open(&sample, options);
    if (fine) {
        memset(possible, 7, schema->column_count);
        enum row_result result = ROW_OK;
        for (int i = 0; i < SAMPLE_ROWS + !options->no_header && (result == ROW_OK || result == ROW_BAD); i++) {
            result = source_next(&sample, &row, &problem);
            if (result == ROW_OK && (i > 0 || options->no_header))
                narrow(&row, possible, seen, schema->column_count);
            input_row_done(&sample.input);
        }
        for (size_t i = 0; i < schema->column_count; i++)
            if (seen[i] && possible[i])
                schema->columns[i].type = possible[i] & 1 ? TYPE_INT : possible[i] & 2 ? TYPE_FLOAT : TYPE_BOOL;
        fine = result != ROW_FAILED;
        source_close(&sample);
    }
    free(possible);
    free(seen);
    return fine;
}

/* ---- The schema ---- */

static bool choose_types(const struct import_options *options, struct schema *schema) {
    if (!options->types)
        return true;
    if (strcmp(options->types, "auto") == 0)
        return guess_types(options, schema);
    if (!schema_set_types(schema, options->types))
        return false;
    for (size_t i = 0; schema->documents && i < schema->column_count; i++) {
        enum column_type type = schema->columns[i].type;
        if (type == TYPE_HEX || type == TYPE_BASE64 || type == TYPE_UUID || type == TYPE_TIMESTAMP)
            return report("--types: JSON has no %s, so documents cannot hold it: leave column %s text, or import records", type_name(type),
                          schema->columns[i].name),
                   false;
    }
    return true;
}

static bool choose_key(const struct import_options *options, struct schema *schema) {
    if (options->key)
        return schema_set_key(schema, options->key);
    schema->key = malloc(sizeof *schema->key);
    if (!schema->key)
        return report("no memory"), false;
    schema->key[0] = 0;
    schema->key_count = 1;
    schema->columns[0].in_key = true;
    return true;
}

bool import_schema_make(const struct import_options *options, struct source *source, struct schema *schema) {
    bool fine = true;
    *schema = (struct schema){.documents = options->documents, .json = options->is_json, .open = options->is_json && options->documents};
    if (!options->is_json && !options->no_header)
        fine = header_columns(source, schema);
    else if (options->columns)
        fine = schema_set_columns(schema, options->columns, options->is_json ? TYPE_ANY : TYPE_TEXT);
    else if (!schema->open)
        fine = object_columns(source, schema);
    fine = fine && choose_types(options, schema) && choose_key(options, schema);
    for (size_t i = 0; fine && i < options->index_count; i++)
        fine = schema_add_index(schema, options->indexes[i]);
    if (!fine)
        schema_free(schema);
    return fine;
}
