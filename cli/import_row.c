/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of a file as pairs of the load, relative to the load's prefix; import.h has the layout.
 *
 *     records     fields ─ type_from_text ─► elements ─► (id) = (columns but the key's)
 *     documents   the JSON line, or one made of the fields ─ keel_document_rows ─► (id, path…) = (leaf,)
 *     both        ff (index, values…, id) = ''
 *
 * Records have an entry in each index, null where the column is null. A document has one where all members that the index names are scalars. The rows
 * of a document go by here one after the other; those of the indexed members are remembered in `seen`, packed as they are.
 *
 * Nothing is allocated for a row once buffers have grown to the largest. Failure: the row's problem, naming the column where one is to blame.
 */
#include "import.h"

#include <stdlib.h>
#include <string.h>

enum { ERROR_KEY_TOO_LARGE = 2102, ERROR_VALUE_TOO_LARGE = 2103, ERROR_ROW_TOO_LARGE = 2101 };

struct seen { /* the value of an indexed member, packed */
    size_t offset, length;
    bool there;
};

struct mapper {
    const struct schema *schema;
    pair_sink sink;
    void *context;
    keel_element *elements; /* one a column */
    keel_element *others;   /* those that are not of the key, or are */
    struct buffer scratch, json, values;
    struct seen *seen; /* one a column; documents */
    uint8_t *value;    /* IMPORT_VALUE_BYTES_MAX */
    size_t id_length;
    uint8_t id[IMPORT_KEY_BYTES_MAX], key[IMPORT_KEY_BYTES_MAX];
    const struct row *row;
};

struct mapper *mapper_open(const struct schema *schema, pair_sink sink, void *context) {
    struct mapper *mapper = calloc(1, sizeof *mapper);
    size_t columns = schema->column_count + 1;
    if (!mapper)
        return NULL;
    mapper->schema = schema;
    mapper->sink = sink;
    mapper->context = context;
    mapper->elements = calloc(columns, sizeof *mapper->elements);
    mapper->others = calloc(columns, sizeof *mapper->others);
    mapper->seen = calloc(columns, sizeof *mapper->seen);
    mapper->value = malloc(IMPORT_VALUE_BYTES_MAX);
    if (mapper->elements && mapper->others && mapper->seen && mapper->value)
        return mapper;
    mapper_close(mapper);
    return NULL;
}

void mapper_close(struct mapper *mapper) {
    if (!mapper)
        return;
    free(mapper->elements);
    free(mapper->others);
    free(mapper->seen);
    free(mapper->value);
    buffer_free(&mapper->scratch);
    buffer_free(&mapper->json);
    buffer_free(&mapper->values);
    free(mapper);
}

keel_bytes mapper_id(const struct mapper *mapper) {
    return keel_bytes_of(mapper->id, mapper->id_length);
}

/* ---- Problems ---- */

static const keel_bytes no_column = {NULL, 0};

static keel_bytes name_of(const struct mapper *mapper, size_t column) {
    return keel_bytes_of(mapper->schema->columns[column].name, mapper->schema->columns[column].name_length);
}

static keel_bytes key_name(const struct mapper *mapper) {
    return mapper->schema->key_count ? name_of(mapper, mapper->schema->key[0]) : no_column;
}

/* The column with the most bytes: what is to blame for a row that is too large. */
static keel_bytes largest(const struct mapper *mapper) {
    size_t found = 0, bytes = 0;
    for (size_t i = 0; i < mapper->schema->column_count; i++) {
        const keel_element *element = &mapper->elements[i];
        bool text = element->type == KEEL_TYPE_STRING || element->type == KEEL_TYPE_BYTES;
        if (text && element->value.as_bytes.length > bytes) {
            bytes = element->value.as_bytes.length;
            found = i;
        }
    }
    return bytes ? name_of(mapper, found) : no_column;
}

/* The column whose text is not UTF-8, as packing has found one. */
static bool not_utf8(const struct mapper *mapper, struct row_problem *problem) {
    for (size_t i = 0; i < mapper->schema->column_count; i++) {
        const keel_element *element = &mapper->elements[i];
        if (element->type == KEEL_TYPE_STRING && !bytes_are_utf8(element->value.as_bytes))
            return problem_set(problem, REASON_UTF8, name_of(mapper, i), "not valid UTF-8");
    }
    return problem_set(problem, REASON_UTF8, no_column, "not valid UTF-8");
}

static bool record_failed(const struct mapper *mapper, fdb_error_t error, struct row_problem *problem) {
    switch (error) {
    case KEEL_ERROR_NOT_UTF8:
        return not_utf8(mapper, problem);
    case ERROR_VALUE_TOO_LARGE:
        return problem_set(problem, REASON_TOO_LARGE, largest(mapper),
                           "the record is larger than %d bytes; documents may have so much in each member", IMPORT_VALUE_BYTES_MAX);
    case ERROR_KEY_TOO_LARGE:
        return problem_set(problem, REASON_TOO_LARGE, key_name(mapper), "the key is larger than %d bytes", IMPORT_KEY_BYTES_MAX);
    case ERROR_ROW_TOO_LARGE:
        return problem_set(problem, REASON_TOO_LARGE, largest(mapper), "the row is larger than %d bytes", KEEL_BULK_ROW_BYTES_MAX);
    case KEEL_ERROR_DUPLICATE:
        return problem_set(problem, REASON_DUPLICATE, key_name(mapper), "the row has one key twice");
    default:
        return problem_set(problem, REASON_TYPE, no_column, "%s (%d)", keel_error_text(error), error);
    }
}

/* ---- Fields and members to elements ---- */

static bool check_field_count(const struct mapper *mapper, const struct row *row, struct row_problem *problem) {
    size_t wanted = mapper->schema->column_count;
    if (row->field_count == wanted)
        return true;
    if (row->field_count < wanted)
        return problem_set(problem, REASON_FIELDS, name_of(mapper, row->field_count), "the row ends here: %zu fields of %zu", row->field_count,
                           wanted);
    return problem_set(problem, REASON_FIELDS, no_column, "%zu fields, but there are %zu columns", row->field_count, wanted);
}

static bool take_fields(struct mapper *mapper, const struct row *row, struct row_problem *problem) {
    size_t bytes = 0;
    if (!check_field_count(mapper, row, problem))
        return false;
    for (size_t i = 0; i < row->field_count; i++)
        bytes += row->fields[i].length;
    mapper->scratch.length = 0;
    if (!buffer_reserve(&mapper->scratch, bytes + 64))
        return problem_set(problem, REASON_TOO_LARGE, no_column, "no memory");
    for (size_t i = 0; i < row->field_count; i++) {
        const struct field *field = &row->fields[i];
        const char *message = NULL;
        if (field->null)
            mapper->elements[i] = keel_element_null();
        else if (!type_from_text(mapper->schema->columns[i].type, keel_bytes_of(field->data, field->length), &mapper->scratch, &mapper->elements[i],
                                 &message))
            return problem_set(problem, REASON_TYPE, name_of(mapper, i), "%.*s%s: %s", (int)(field->length < 40 ? field->length : 40), field->data,
                               field->length > 40 ? "…" : "", message);
    }
    return true;
}

static bool find_stranger(const struct mapper *mapper, json_t *object, struct row_problem *problem) {
    void *at;
    size_t column;
    for (at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        keel_bytes name = keel_bytes_of(json_object_iter_key(at), json_object_iter_key_len(at));
        if (!schema_find(mapper->schema, name, &column))
            return problem_set(problem, REASON_FIELDS, name, "there is no such column: --columns names them all, --as documents takes any");
    }
    return true;
}

static bool take_members(struct mapper *mapper, const struct row *row, struct row_problem *problem) {
    size_t found = 0;
    mapper->scratch.length = 0;
    if (!buffer_reserve(&mapper->scratch, row->text.length * 6 + 64)) /* an escape is the longest that text becomes */
        return problem_set(problem, REASON_TOO_LARGE, no_column, "no memory");
    for (size_t i = 0; i < mapper->schema->column_count; i++) {
        const char *message = NULL;
        keel_bytes name = name_of(mapper, i);
        json_t *member = json_object_getn(row->object, (const char *)name.data, name.length);
        found += member != NULL;
        if (!type_from_json(mapper->schema->columns[i].type, member, &mapper->scratch, &mapper->elements[i], &message))
            return problem_set(problem, REASON_TYPE, name, "%s", message);
    }
    return found == json_object_size(row->object) || find_stranger(mapper, row->object, problem);
}

/* ---- Records ---- */

static bool pack_id(struct mapper *mapper, const struct row *row, struct row_problem *problem) {
    const struct schema *schema = mapper->schema;
    keel_element id = keel_element_of_uint(row->ordinal);
    for (size_t i = 0; i < schema->key_count; i++) {
        mapper->others[i] = mapper->elements[schema->key[i]];
        if (mapper->others[i].type == KEEL_TYPE_NULL)
            return problem_set(problem, REASON_KEY, name_of(mapper, schema->key[i]), "the key is empty");
    }
    if (schema->key_count)
        id = schema->key_count == 1 ? mapper->others[0] : keel_element_of_tuple(keel_tuple_of(mapper->others, schema->key_count));
    fdb_error_t error = keel_tuple_pack(keel_tuple_of(&id, 1), mapper->id, sizeof mapper->id, &mapper->id_length);
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL)
        error = ERROR_KEY_TOO_LARGE;
    return !error || record_failed(mapper, error, problem);
}

static bool put_record(struct mapper *mapper, struct row_problem *problem) {
    const struct schema *schema = mapper->schema;
    size_t count = 0, length = 0;
    for (size_t i = 0; i < schema->column_count; i++)
        if (!schema->columns[i].in_key)
            mapper->others[count++] = mapper->elements[i];
    fdb_error_t error = keel_tuple_pack(keel_tuple_of(mapper->others, count), mapper->value, IMPORT_VALUE_BYTES_MAX, &length);
    if (error == KEEL_ERROR_BUFFER_TOO_SMALL)
        error = ERROR_VALUE_TOO_LARGE;
    if (!error)
        error = mapper->sink(mapper->context, mapper_id(mapper), keel_bytes_of(mapper->value, length));
    return !error || record_failed(mapper, error, problem);
}

/* ---- Indexes ---- */

/* ff and the name of the index. */
static size_t begin_entry(struct mapper *mapper, const struct schema_index *index) {
    size_t length = 0;
    keel_element name = keel_element_of_string(index->name);
    mapper->key[0] = 0xff;
    keel_tuple_pack(keel_tuple_of(&name, 1), mapper->key + 1, sizeof mapper->key - 1, &length);
    return length + 1;
}

/* The id behind it, and away. */
static fdb_error_t end_entry(struct mapper *mapper, size_t length) {
    if (length + mapper->id_length > sizeof mapper->key)
        return ERROR_KEY_TOO_LARGE;
    memcpy(mapper->key + length, mapper->id, mapper->id_length);
    return mapper->sink(mapper->context, keel_bytes_of(mapper->key, length + mapper->id_length), no_column);
}

static bool entry_failed(const struct mapper *mapper, const struct schema_index *index, fdb_error_t error, struct row_problem *problem) {
    if (error == ERROR_KEY_TOO_LARGE)
        return problem_set(problem, REASON_TOO_LARGE, name_of(mapper, index->columns[0]), "too large for an index: an entry has %d bytes at most",
                           IMPORT_KEY_BYTES_MAX);
    return record_failed(mapper, error, problem);
}

static bool put_entries(struct mapper *mapper, struct row_problem *problem) {
    for (size_t i = 0; i < mapper->schema->index_count; i++) {
        const struct schema_index *index = &mapper->schema->indexes[i];
        size_t length = begin_entry(mapper, index), values = 0;
        for (size_t k = 0; k < index->column_count; k++)
            mapper->others[k] = mapper->elements[index->columns[k]];
        fdb_error_t error =
            keel_tuple_pack(keel_tuple_of(mapper->others, index->column_count), mapper->key + length, sizeof mapper->key - length, &values);
        error = error == KEEL_ERROR_BUFFER_TOO_SMALL ? ERROR_KEY_TOO_LARGE : error ? error : end_entry(mapper, length + values);
        if (error)
            return entry_failed(mapper, index, error, problem);
    }
    return true;
}

/* ---- Documents ---- */

/* Remembers the value if the row is a member that an index names. */
static fdb_error_t look_at_row(struct mapper *mapper, keel_bytes key, keel_bytes value) {
    keel_element id, member;
    size_t column, length = 0;
    uint8_t name[1024];
    keel_tuple_iterator it = keel_tuple_iterate(key);
    if (keel_tuple_next(&it, &id))
        return KEEL_ERROR_STORED_FORMAT;
    if (!mapper->id_length) {
        memcpy(mapper->id, key.data, it.position);
        mapper->id_length = it.position;
    }
    if (!mapper->schema->index_count || keel_tuple_next(&it, &member) || !keel_tuple_at_end(&it) || member.type != KEEL_TYPE_STRING ||
        keel_element_copy(&member, name, sizeof name, &length) || !schema_find(mapper->schema, keel_bytes_of(name, length), &column))
        return 0;
    mapper->seen[column] = (struct seen){mapper->values.length, value.length, true};
    return buffer_append(&mapper->values, value.data, value.length) ? 0 : 1501;
}

static fdb_error_t put_document_row(void *context, keel_bytes key, keel_bytes value) {
    struct mapper *mapper = context;
    fdb_error_t error = look_at_row(mapper, key, value);
    return error ? error : mapper->sink(mapper->context, key, value);
}

static bool put_document_entries(struct mapper *mapper, struct row_problem *problem) {
    for (size_t i = 0; i < mapper->schema->index_count; i++) {
        const struct schema_index *index = &mapper->schema->indexes[i];
        size_t length = begin_entry(mapper, index);
        fdb_error_t error = 0;
        bool complete = true;
        for (size_t k = 0; k < index->column_count && complete && !error; k++) {
            struct seen *seen = &mapper->seen[index->columns[k]];
            complete = seen->there;
            if (complete && length + seen->length > sizeof mapper->key)
                error = ERROR_KEY_TOO_LARGE;
            if (complete && !error)
                memcpy(mapper->key + length, mapper->values.data + seen->offset, seen->length);
            length += complete ? seen->length : 0;
        }
        if (complete && !error)
            error = end_entry(mapper, length);
        if (error)
            return entry_failed(mapper, index, error, problem);
    }
    return true;
}

/* The member that is largest as JSON. */
static void blame_member(keel_bytes text, struct row_problem *problem, const char *message) {
    json_error_t wrong;
    json_t *object = json_loadb((const char *)text.data, text.length, JSON_ALLOW_NUL, &wrong), *member;
    const char *name, *found = "";
    size_t bytes = 0;
    json_object_foreach(object, name, member) {
        size_t size = json_dumpb(member, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
        found = size > bytes ? name : found;
        bytes = size > bytes ? size : bytes;
    }
    problem_set(problem, REASON_TOO_LARGE, keel_bytes_of_string(found), "%s", message);
    json_decref(object);
}

static bool document_failed(const struct mapper *mapper, keel_bytes text, fdb_error_t error, struct row_problem *problem) {
    switch (error) {
    case KEEL_ERROR_NOT_FOUND:
        if (text.length && text.data[0] == '{')
            return problem_set(problem, REASON_KEY, key_name(mapper), "the key is missing");
        break;
    case KEEL_ERROR_TUPLE_TYPE:
        return problem_set(problem, REASON_KEY, key_name(mapper), "the key is null, an object or an array");
    case KEEL_ERROR_INTEGER_TOO_LARGE:
        return problem_set(problem, REASON_TYPE, no_column, "a number does not fit in 64 bits or a double");
    case ERROR_KEY_TOO_LARGE:
        blame_member(text, problem, "the names that lead to a value, with the key, are longer than 10,000 bytes");
        return false;
    case ERROR_VALUE_TOO_LARGE:
        blame_member(text, problem, "a string is longer than 100,000 bytes");
        return false;
    case ERROR_ROW_TOO_LARGE:
        blame_member(text, problem, "the document is larger than 4,000,000 bytes");
        return false;
    case KEEL_ERROR_JSON:
    case KEEL_ERROR_DOCUMENT_DEPTH:
        break;
    default:
        return record_failed(mapper, error, problem);
    }
    json_explain(text, problem);
    return false;
}

static bool put_document(struct mapper *mapper, const struct row *row, keel_bytes text, struct row_problem *problem) {
    static const keel_subspace nothing = {0};
    const struct schema *schema = mapper->schema;
    keel_element number = keel_element_of_uint(row->ordinal);
    mapper->id_length = mapper->values.length = 0;
    for (size_t i = 0; i < schema->column_count; i++)
        mapper->seen[i].there = false;
    const char *member = schema->key_count ? schema->columns[schema->key[0]].name : NULL;
    while (text.length && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.length--;
    }
    fdb_error_t error = text.length && text.data[0] == '{' ? 0 : KEEL_ERROR_JSON;
    if (!error)
        error = keel_document_rows(&nothing, member ? NULL : &number, member, (const char *)text.data, text.length, put_document_row, mapper);
    return error ? document_failed(mapper, text, error, problem) : put_document_entries(mapper, problem);
}

/* The fields as an object. */
static bool document_of_fields(struct mapper *mapper, struct row_problem *problem) {
    struct buffer *text = &mapper->json;
    bool fine = true;
    text->length = 0;
    for (size_t i = 0; fine && i < mapper->schema->column_count; i++) {
        if (mapper->elements[i].type == KEEL_TYPE_STRING && !bytes_are_utf8(mapper->elements[i].value.as_bytes))
            return problem_set(problem, REASON_UTF8, name_of(mapper, i), "not valid UTF-8");
        buffer_append(text, i ? "," : "{", 1);
        json_append_string(text, name_of(mapper, i));
        fine = buffer_append(text, ":", 1) && type_to_json(mapper->schema->columns[i].type, &mapper->elements[i], text);
    }
    return (fine && buffer_append(text, "}", 1)) || problem_set(problem, REASON_TOO_LARGE, no_column, "no memory");
}

bool mapper_row(struct mapper *mapper, const struct row *row, struct row_problem *problem) {
    const struct schema *schema = mapper->schema;
    if (schema->documents && schema->json)
        return put_document(mapper, row, row->text, problem);
    if (schema->json ? !take_members(mapper, row, problem) : !take_fields(mapper, row, problem))
        return false;
    if (schema->documents)
        return document_of_fields(mapper, problem) && put_document(mapper, row, keel_bytes_of(mapper->json.data, mapper->json.length), problem);
    return pack_id(mapper, row, problem) && put_record(mapper, problem) && put_entries(mapper, problem);
}
