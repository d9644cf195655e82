/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the columns of a load are called and what they hold, which of them make the key and the indexes. Made from the command line and the header of the
 * file, stored with the rows, so that an export needs nothing but the directory, and a resumed import knows whether it was begun in the same way.
 *
 *     {"keel": 1, "as": "records", "from": "csv", "columns": [["id", "int"], …], "key": ["id"], "indexes": [["country", "city"]]}
 *
 * "key": [] numbers the rows. Documents from JSON lines may have any members: "open": true, and the columns are only those that key and indexes name.
 * The text is cut into pieces of SCHEMA_PIECE_BYTES, as a file may have many columns: P ff (0, n) = piece n.
 */
#define _GNU_SOURCE /* memrchr */
#include "import.h"

#include <stdlib.h>
#include <string.h>

/* ---- Columns ---- */

static bool no_memory(void) {
    report("no memory");
    return false;
}

bool schema_find(const struct schema *schema, keel_bytes name, size_t *column) {
    for (size_t i = 0; i < schema->column_count; i++)
        if (schema->columns[i].name_length == name.length && memcmp(schema->columns[i].name, name.data, name.length) == 0) {
            *column = i;
            return true;
        }
    return false;
}

bool schema_add_column(struct schema *schema, keel_bytes name, enum column_type type) {
    size_t earlier;
    int shown = (int)(name.length < 60 ? name.length : 60);
    if (schema->column_count == IMPORT_COLUMNS_MAX)
        return report("there are more than %d columns", IMPORT_COLUMNS_MAX), false;
    if (name.length == 0)
        return report("column %zu has no name", schema->column_count + 1), false;
    if (!bytes_are_utf8(name) || memchr(name.data, 0, name.length))
        return report("the name of column %zu is not valid UTF-8", schema->column_count + 1), false;
    if (schema_find(schema, name, &earlier))
        return report("columns %zu and %zu have the same name, %.*s", earlier + 1, schema->column_count + 1, shown, (const char *)name.data), false;
    struct column *columns = realloc(schema->columns, (schema->column_count + 1) * sizeof *columns);
    char *copy = malloc(name.length + 1);
    if (columns)
        schema->columns = columns;
    if (!columns || !copy) {
        free(copy);
        return no_memory();
    }
    memcpy(copy, name.data, name.length);
    copy[name.length] = 0;
    columns[schema->column_count++] = (struct column){copy, name.length, type, false};
    return true;
}

/* ---- Lists of the command line ---- */

/* The next name of "a,b,c"; *list moves behind it. */
static bool next_name(const char **list, keel_bytes *name) {
    if (!*list)
        return false;
    const char *comma = strchr(*list, ',');
    *name = keel_bytes_of(*list, comma ? (size_t)(comma - *list) : strlen(*list));
    *list = comma ? comma + 1 : NULL;
    return true;
}

bool schema_set_columns(struct schema *schema, const char *list, enum column_type type) {
    keel_bytes name;
    while (next_name(&list, &name))
        if (!schema_add_column(schema, name, type))
            return false;
    return true;
}

/* The column with this name; an open schema gets it. */
static bool column_named(struct schema *schema, const char *option, keel_bytes name, size_t *column) {
    if (schema_find(schema, name, column))
        return true;
    if (schema->open) {
        *column = schema->column_count;
        return schema_add_column(schema, name, TYPE_ANY);
    }
    report("%s: there is no column %.*s; the first is %s", option, (int)name.length, (const char *)name.data,
           schema->column_count ? schema->columns[0].name : "missing too");
    return false;
}

bool schema_set_types(struct schema *schema, const char *list) {
    keel_bytes item;
    size_t column;
    while (next_name(&list, &item)) {
        const uint8_t *colon = item.length ? memrchr(item.data, ':', item.length) : NULL;
        size_t length = colon ? (size_t)(colon - item.data) : 0;
        if (!colon)
            return report("--types: %.*s is not COLUMN:TYPE", (int)item.length, (const char *)item.data), false;
        if (!column_named(schema, "--types", keel_bytes_of(item.data, length), &column))
            return false;
        if (!type_of_name(keel_bytes_of(colon + 1, item.length - length - 1), &schema->columns[column].type)) {
            report("--types: %.*s is no type; there are text, int, float, bool, hex, base64, date, timestamp, uuid and json",
                   (int)(item.length - length - 1), (const char *)colon + 1);
            return false;
        }
    }
    return true;
}

/* The numbers of the columns in a list: free(*columns). */
static bool column_list(struct schema *schema, const char *option, const char *list, size_t **columns, size_t *count) {
    keel_bytes name;
    size_t capacity = 1, column;
    for (const char *c = list; *c; c++)
        capacity += *c == ',';
    size_t *numbers = malloc(capacity * sizeof *numbers);
    if (!numbers)
        return no_memory();
    for (*count = 0; next_name(&list, &name); numbers[(*count)++] = column) {
        bool found = column_named(schema, option, name, &column);
        for (size_t i = 0; found && i < *count; i++)
            if (numbers[i] == column) {
                report("%s: column %s is there twice", option, schema->columns[column].name);
                found = false;
            }
        if (!found) {
            free(numbers);
            return false;
        }
    }
    *columns = numbers;
    return true;
}

bool schema_set_key(struct schema *schema, const char *list) {
    if (strcmp(list, "auto") == 0)
        return true;
    if (!column_list(schema, "--key", list, &schema->key, &schema->key_count))
        return false;
    if (schema->documents && schema->key_count > 1)
        return report("--key: a document has one member as its key"), false;
    for (size_t i = 0; i < schema->key_count; i++)
        schema->columns[schema->key[i]].in_key = true;
    return true;
}

bool schema_add_index(struct schema *schema, const char *list) {
    struct schema_index index = {0}, *indexes;
    for (size_t i = 0; i < schema->index_count; i++)
        if (strcmp(schema->indexes[i].name, list) == 0)
            return report("--index %s is there twice", list), false;
    if (strlen(list) > 1000)
        return report("--index: the name of an index, its columns, is longer than 1,000 bytes"), false;
    if (!column_list(schema, "--index", list, &index.columns, &index.column_count))
        return false;
    index.name = strdup(list);
    indexes = realloc(schema->indexes, (schema->index_count + 1) * sizeof *indexes);
    if (indexes)
        schema->indexes = indexes;
    if (!indexes || !index.name) {
        free(index.name);
        free(index.columns);
        return no_memory();
    }
    schema->indexes[schema->index_count++] = index;
    return true;
}

void schema_free(struct schema *schema) {
    for (size_t i = 0; i < schema->column_count; i++)
        free(schema->columns[i].name);
    for (size_t i = 0; i < schema->index_count; i++) {
        free(schema->indexes[i].name);
        free(schema->indexes[i].columns);
    }
    free(schema->columns);
    free(schema->key);
    free(schema->indexes);
    *schema = (struct schema){0};
}

/* ---- JSON ---- */

static json_t *names_of(const struct schema *schema, const size_t *columns, size_t count) {
    json_t *names = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(names, json_stringn(schema->columns[columns[i]].name, schema->columns[columns[i]].name_length));
    return names;
}

char *schema_print(const struct schema *schema) {
    json_t *columns = json_array(), *indexes = json_array();
    for (size_t i = 0; i < schema->column_count; i++) {
        json_t *column = json_array();
        json_array_append_new(column, json_stringn(schema->columns[i].name, schema->columns[i].name_length));
        json_array_append_new(column, json_string(type_name(schema->columns[i].type)));
        json_array_append_new(columns, column);
    }
    for (size_t i = 0; i < schema->index_count; i++)
        json_array_append_new(indexes, names_of(schema, schema->indexes[i].columns, schema->indexes[i].column_count));
    json_t *object = json_pack("{si ss ss sb so so so}", "keel", 1, "as", schema->documents ? "documents" : "records", "from",
                               schema->json ? "jsonl" : "csv", "open", (int)schema->open, "columns", columns, "key",
                               names_of(schema, schema->key, schema->key_count), "indexes", indexes);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        no_memory();
    return text;
}

static keel_bytes bytes_of_json(const json_t *string) {
    return keel_bytes_of(json_string_value(string), json_string_length(string));
}

static bool parse_columns(const json_t *object, struct schema *schema) {
    size_t i;
    json_t *column;
    json_array_foreach(json_object_get(object, "columns"), i, column) {
        enum column_type type;
        json_t *name = json_array_get(column, 0), *kind = json_array_get(column, 1);
        if (!json_is_string(name) || !json_is_string(kind) || !type_of_name(bytes_of_json(kind), &type) ||
            !schema_add_column(schema, bytes_of_json(name), type))
            return false;
    }
    return true;
}

static bool parse_key(const json_t *object, struct schema *schema) {
    size_t i;
    json_t *name, *key = json_object_get(object, "key");
    if (json_array_size(key) == 0)
        return true;
    schema->key = calloc(json_array_size(key), sizeof *schema->key);
    if (!schema->key)
        return false;
    json_array_foreach(key, i, name) {
        if (!json_is_string(name) || !schema_find(schema, bytes_of_json(name), &schema->key[i]))
            return false;
        schema->columns[schema->key[i]].in_key = true;
        schema->key_count++;
    }
    return true;
}

/* An export needs no indexes: they are left out. */
bool schema_parse(const char *text, size_t length, struct schema *schema) {
    json_error_t problem;
    json_t *object = json_loadb(text, length, 0, &problem);
    const char *as = json_string_value(json_object_get(object, "as")), *from = json_string_value(json_object_get(object, "from"));
    *schema = (struct schema){0};
    bool fine = object && json_integer_value(json_object_get(object, "keel")) == 1 && as && from;
    if (fine) {
        schema->documents = strcmp(as, "documents") == 0;
        schema->json = strcmp(from, "jsonl") == 0;
        schema->open = json_is_true(json_object_get(object, "open"));
        fine = parse_columns(object, schema) && parse_key(object, schema);
    }
    json_decref(object);
    if (!fine)
        schema_free(schema);
    return fine;
}

/* ---- In the database ---- */

enum { SCHEMA_PIECE_BYTES = 50000 };

static size_t schema_key(keel_bytes prefix, const keel_element *piece, uint8_t *key, size_t capacity) {
    size_t length = 0;
    uint8_t beside[KEEL_SUBSPACE_PREFIX_MAX + 1];
    keel_element elements[] = {keel_element_of_int(0), piece ? *piece : keel_element_null()};
    if (prefix.length)
        memcpy(beside, prefix.data, prefix.length);
    beside[prefix.length] = 0xff;
    keel_tuple_pack_prefix(keel_bytes_of(beside, prefix.length + 1), keel_tuple_of(elements, piece ? 2 : 1), key, capacity, &length);
    return length;
}

fdb_error_t mapper_schema(pair_sink sink, void *context, const char *text) {
    size_t length = strlen(text);
    fdb_error_t error = 0;
    for (size_t begin = 0, piece = 0; !error && begin < length; begin += SCHEMA_PIECE_BYTES, piece++) {
        uint8_t key[64];
        keel_element number = keel_element_of_uint(piece);
        size_t key_length = schema_key(keel_bytes_of(NULL, 0), &number, key, sizeof key);
        size_t bytes = length - begin < SCHEMA_PIECE_BYTES ? length - begin : SCHEMA_PIECE_BYTES;
        error = sink(context, keel_bytes_of(key, key_length), keel_bytes_of(text + begin, bytes));
    }
    return error;
}

/* The pieces behind those that are there: *more says whether there are others. */
static fdb_error_t read_pieces(FDBTransaction *tr, const uint8_t *begin, const uint8_t *end, size_t length, int *count, struct buffer *all, fdb_bool_t *more) {
    FDBFuture *future = fdb_transaction_get_range(tr, begin, (int)length, 0, 1 + *count, end, (int)length, 0, 1, 0, 0, FDB_STREAMING_MODE_WANT_ALL, 0, 1, 0);
    const FDBKeyValue *pairs = NULL;
    int found = 0;
    fdb_error_t error = session_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &pairs, &found, more);
    for (int i = 0; !error && i < found; i++)
        if (!buffer_append(all, pairs[i].value, (size_t)pairs[i].value_length))
            error = 1501;
    *count += found;
    fdb_future_destroy(future);
    return error;
}

fdb_error_t schema_load(FDBTransaction *tr, const keel_subspace *rows, char **text, size_t *length) {
    uint8_t begin[KEEL_SUBSPACE_PREFIX_MAX + 16], end[KEEL_SUBSPACE_PREFIX_MAX + 16];
    struct buffer all = {0};
    size_t key_length = schema_key(keel_subspace_prefix(rows), NULL, begin, sizeof begin - 1);
    fdb_bool_t more = 1;
    fdb_error_t error = 0;
    memcpy(end, begin, key_length);
    begin[key_length] = 0;
    end[key_length] = 0xff;
    for (int count = 0; !error && more;)
        error = read_pieces(tr, begin, end, key_length + 1, &count, &all, &more);
    if (!error && !all.length)
        error = KEEL_ERROR_NOT_FOUND;
    if (error) {
        buffer_free(&all);
        return error;
    }
    *text = (char *)all.data;
    *length = all.length;
    return 0;
}
