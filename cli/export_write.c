/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and documents as lines of CSV or JSON. What is written here, keel import reads back as the same rows.
 *
 * CSV: a field is put in quotes where it has to be: a delimiter, quote, CR or LF in it, or nothing at all. So an empty text is "" and null is nothing, as
 * the reader has it. JSON: members in the order of the columns; documents are printed by their recipe, in the order of their names' bytes.
 */
#include "export.h"

#include <stdlib.h>
#include <string.h>

enum { IO_ERROR = 1510 };

/* ---- Opening ---- */

/* The columns of --columns. Those of open documents are not known before. */
static bool choose_columns(struct row_writer *writer, struct schema *schema, const char *list) {
    size_t count = 1;
    for (const char *c = list; *c; c++)
        count += *c == ',';
    writer->columns = calloc(count, sizeof *writer->columns);
    if (!writer->columns)
        return report("no memory"), false;
    while (list) {
        const char *comma = strchr(list, ',');
        keel_bytes name = keel_bytes_of(list, comma ? (size_t)(comma - list) : strlen(list));
        size_t column = schema->column_count;
        if (!schema_find(schema, name, &column) && (!schema->open || !schema_add_column(schema, name, TYPE_ANY)))
            return schema->open ? false : (report("--columns: there is no column %.*s", (int)name.length, (const char *)name.data), false);
        writer->columns[writer->column_count++] = column;
        list = comma ? comma + 1 : NULL;
    }
    writer->chosen = true;
    return true;
}

static bool all_columns(struct row_writer *writer, const struct schema *schema) {
    writer->columns = calloc(schema->column_count + 1, sizeof *writer->columns);
    if (!writer->columns)
        return report("no memory"), false;
    for (size_t i = 0; i < schema->column_count; i++)
        writer->columns[writer->column_count++] = i;
    return true;
}

bool row_writer_open(struct row_writer *writer, struct schema *schema, const char *list) {
    writer->schema = schema;
    writer->documents = schema->documents;
    bool fine = true;
    if (list)
        fine = choose_columns(writer, schema, list);
    else if (schema->documents && schema->open && !writer->json)
        fine = (report("documents have no columns of their own: name those of the CSV file with --columns, or use --format jsonl"), false);
    else if (!schema->documents || !writer->json)
        fine = all_columns(writer, schema);
    writer->elements = calloc(schema->column_count + 1, sizeof *writer->elements);
    if (fine && !writer->elements)
        fine = (report("no memory"), false);
    return fine;
}

void row_writer_close(struct row_writer *writer) {
    free(writer->columns);
    free(writer->elements);
    buffer_free(&writer->line);
}

/* ---- CSV ---- */

/* Puts what was appended since `begin` in quotes if it needs them. */
static bool quote_if_needed(struct row_writer *writer, size_t begin, bool null) {
    struct buffer *line = &writer->line;
    size_t length = line->length - begin, extra = 2;
    bool needed = length == 0 && !null;
    for (size_t i = begin; i < line->length; i++) {
        uint8_t c = line->data[i];
        needed |= c == '"' || c == '\n' || c == '\r' || c == (uint8_t)writer->delimiter;
        extra += c == '"';
    }
    needed |= begin == 0 && length >= 3 && memcmp(line->data, "\xef\xbb\xbf", 3) == 0; /* not a byte order mark, should it be the first line */
    if (!needed)
        return true;
    if (!buffer_reserve(line, extra))
        return false;
    uint8_t *to = line->data + line->length + extra, *from = line->data + line->length;
    line->length += extra;
    *--to = '"';
    while (from > line->data + begin) {
        *--to = *--from;
        if (*from == '"')
            *--to = '"';
    }
    *--to = '"';
    return true;
}

static bool begin_field(struct row_writer *writer, size_t number) {
    return number == 0 || buffer_append(&writer->line, &writer->delimiter, 1);
}

static fdb_error_t write_line(struct row_writer *writer) {
    if (!buffer_append(&writer->line, "\n", 1))
        return 1501;
    size_t written = fwrite(writer->line.data, 1, writer->line.length, writer->file);
    bool fine = written == writer->line.length;
    writer->line.length = 0;
    return fine ? 0 : IO_ERROR;
}

void row_writer_header(struct row_writer *writer) {
    for (size_t i = 0; i < writer->column_count; i++) {
        const struct column *column = &writer->schema->columns[writer->columns[i]];
        begin_field(writer, i);
        size_t begin = writer->line.length;
        buffer_append(&writer->line, column->name, column->name_length);
        quote_if_needed(writer, begin, false);
    }
    write_line(writer);
}

/* ---- Records ---- */

/* Puts the elements of a record where its columns are. */
static fdb_error_t take_record(struct row_writer *writer, keel_bytes id, keel_bytes value) {
    const struct schema *schema = writer->schema;
    keel_tuple_iterator key = keel_tuple_iterate(id), rest = keel_tuple_iterate(value);
    keel_element element;
    fdb_error_t error = keel_tuple_next(&key, &element);
    if (error || !keel_tuple_at_end(&key))
        return KEEL_ERROR_STORED_FORMAT;
    if (schema->key_count == 1)
        writer->elements[schema->key[0]] = element;
    if (schema->key_count > 1)
        error = keel_element_iterate(&element, &key);
    for (size_t i = 0; !error && schema->key_count > 1 && i < schema->key_count; i++)
        error = keel_tuple_next(&key, &writer->elements[schema->key[i]]);
    for (size_t i = 0; !error && i < schema->column_count; i++)
        if (!schema->columns[i].in_key)
            error = keel_tuple_next(&rest, &writer->elements[i]);
    return error ? KEEL_ERROR_STORED_FORMAT : 0;
}

static bool append_csv(struct row_writer *writer) {
    bool fine = true;
    for (size_t i = 0; fine && i < writer->column_count; i++) {
        size_t column = writer->columns[i];
        const keel_element *element = &writer->elements[column];
        fine = begin_field(writer, i);
        size_t begin = writer->line.length;
        fine = fine && type_to_text(writer->schema->columns[column].type, element, &writer->line) &&
               quote_if_needed(writer, begin, element->type == KEEL_TYPE_NULL);
    }
    return fine;
}

static bool append_json(struct row_writer *writer) {
    struct buffer *line = &writer->line;
    bool fine = buffer_append(line, "{", 1);
    for (size_t i = 0; fine && i < writer->column_count; i++) {
        const struct column *column = &writer->schema->columns[writer->columns[i]];
        if (i)
            buffer_append(line, ",", 1);
        json_append_string(line, keel_bytes_of(column->name, column->name_length));
        fine = buffer_append(line, ":", 1) && type_to_json(column->type, &writer->elements[writer->columns[i]], line);
    }
    return fine && buffer_append(line, "}", 1);
}

fdb_error_t row_writer_record(struct row_writer *writer, keel_bytes id, keel_bytes value) {
    fdb_error_t error = take_record(writer, id, value);
    if (error)
        return error;
    writer->rows++;
    return (writer->json ? append_json(writer) : append_csv(writer)) ? write_line(writer) : 1501;
}

/* ---- Documents ---- */

static int append_text(const char *data, size_t length, void *context) {
    return buffer_append(context, data, length) ? 0 : -1;
}

static bool append_member(struct row_writer *writer, json_t *member) {
    if (!member || json_is_null(member))
        return true;
    size_t begin = writer->line.length;
    bool fine = json_is_string(member) ? buffer_append(&writer->line, json_string_value(member), json_string_length(member))
                                       : json_dump_callback(member, append_text, &writer->line, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) == 0;
    return fine && quote_if_needed(writer, begin, false);
}

/* A member that no column takes would be lost. */
static bool find_stranger(const struct row_writer *writer, json_t *object) {
    const char *name;
    json_t *member;
    size_t column;
    json_object_foreach(object, name, member) {
        if (!schema_find(writer->schema, keel_bytes_of_string(name), &column)) {
            report("a document has a member %s, and there is no such column: --columns says which to write, --format jsonl writes all", name);
            return true;
        }
    }
    return false;
}

/* The chosen members alone, as CSV or as JSON. */
static fdb_error_t take_members(struct row_writer *writer, json_t *object) {
    json_t *part = json_object();
    bool fine = part != NULL;
    if (!writer->chosen && find_stranger(writer, object)) {
        json_decref(part);
        return ERROR_REPORTED;
    }
    for (size_t i = 0; fine && i < writer->column_count; i++) {
        const char *name = writer->schema->columns[writer->columns[i]].name;
        json_t *member = json_object_get(object, name);
        if (writer->json)
            fine = json_object_set(part, name, member ? member : json_null()) == 0;
        else
            fine = begin_field(writer, i) && append_member(writer, member);
    }
    if (fine && writer->json)
        fine = json_dump_callback(part, append_text, &writer->line, JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0;
    json_decref(part);
    return fine ? write_line(writer) : 1501;
}

fdb_error_t row_writer_document(struct row_writer *writer, const char *json, size_t length) {
    json_error_t problem;
    writer->rows++;
    if (!writer->column_count)
        return buffer_append(&writer->line, json, length) ? write_line(writer) : 1501;
    json_t *object = json_loadb(json, length, JSON_ALLOW_NUL, &problem);
    fdb_error_t error = json_is_object(object) ? take_members(writer, object) : KEEL_ERROR_STORED_FORMAT;
    json_decref(object);
    return error;
}
