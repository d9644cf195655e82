/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doc: JSON documents in a directory (keel/document.h). Each document has an id; what lies in it is reached by a path, one argument a step: names of
 * members, indexes of elements. With --hierarchy the directory holds one tree without an id.
 *
 * JSON goes in as an argument, from a file (@FILE) or from stdin (-), and comes out as the library made it, doubles to the last bit: for people it is
 * only laid out on lines here, never read and written again.
 *
 * Threads: one. Failure: what the library refuses is reported with directory, id and path, and nothing is written.
 */
#include "recipes.h"

#include <stdlib.h>
#include <string.h>

enum { IDS_AT_ONCE = 1000, VALUES_AT_ONCE = 100 };

struct document {
    struct call *call;
    bool hierarchy;
    struct name *names; /* of the arguments: the id, unless it is a hierarchy, and the path */
    keel_element *elements;
    size_t count;
    struct buffer json;
    char what[400]; /* id and path, for messages */

    char *result; /* of get */
    size_t result_length;
    int64_t new_id; /* of insert; -1: not set */
    int exists;
};

static keel_element document_id(const struct document *document) {
    return document->elements[0];
}

static keel_tuple document_path(const struct document *document) {
    size_t skipped = document->hierarchy ? 0 : 1;
    return keel_tuple_of(document->elements + skipped, document->count - skipped);
}

static void document_free(struct document *document) {
    for (size_t i = 0; document->names && i < document->count; i++)
        name_free(&document->names[i]);
    free(document->names);
    free(document->elements);
    buffer_free(&document->json);
    free(document->result);
}

/* The id and the path from the arguments; a step of the path is a name or an index. */
static bool read_names(struct document *document, int count) {
    struct call *call = document->call;
    document->count = (size_t)count;
    document->names = calloc((size_t)count + 1, sizeof *document->names);
    document->elements = calloc((size_t)count + 1, sizeof *document->elements);
    if (!document->names || !document->elements) {
        report("out of memory");
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!call_name(call, call->argv[i], &document->names[i]))
            return false;
        document->elements[i] = document->names[i].element;
        bool is_step = document->hierarchy || i > 0;
        if (is_step && document->elements[i].type != KEEL_TYPE_STRING && document->elements[i].type != KEEL_TYPE_INT) {
            usage_error(&call->command, "%s: A step of a path is the name of a member or the index of an element", call->argv[i]);
            return false;
        }
        size_t used = strlen(document->what);
        snprintf(document->what + used, sizeof document->what - used, "%s%s", i > 0 ? " " : "", call->argv[i]);
    }
    return true;
}

/*
 * What all begin with: options, id and path, and, if the sub-command takes it, the JSON, which is the last argument.
 */
static int document_begin(struct document *document, struct call *call, bool takes_json, bool takes_id) {
    const char *hierarchy = NULL;
    const struct option_spec specs[] = {{"hierarchy", 'H', false, &hierarchy}, {0}};
    document->call = call;
    int code = call_begin(call, specs, takes_json, takes_id ? -1 : takes_json);
    if (code)
        return code;
    document->hierarchy = hierarchy != NULL;
    int names = call->argc - takes_json;
    if (takes_id && !hierarchy && names < 1)
        return usage_error(&call->command, takes_json ? "The id of the document, or the JSON, is missing" : "The id of the document is missing");
    if (!read_names(document, names))
        return EXIT_USAGE;
    if (takes_json && !call_text(call, call->argv[names], &document->json))
        return EXIT_USAGE;
    return EXIT_OK;
}

/* Where the JSON is wrong, which the library does not tell. */
static int document_report(struct document *document, fdb_error_t error) {
    struct call *call = document->call;
    json_error_t position;
    if (error == KEEL_ERROR_JSON) {
        json_t *json = json_loadb((const char *)document->json.data, document->json.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &position);
        json_decref(json);
        report("%s: The text is not valid JSON (line %d, column %d: %s); text stands in quotes: \"ann\", names of members too: {\"name\": 1}",
               call->command.name, json ? 1 : position.line, json ? 1 : position.column, json ? "a name with a NUL" : position.text);
        return EXIT_USAGE;
    }
    return call_report(call, document->what[0] ? document->what : NULL, error);
}

/* {"id": …, "path": …} as an answer to a write; a hierarchy has no id. */
static void document_answer(const struct document *document, const char *done) {
    json_t *object = json_object(), *path = json_array();
    keel_tuple steps = document_path(document);
    if (!document->hierarchy) {
        keel_element id = document_id(document);
        json_object_set_new(object, "id", name_json(&id));
    }
    for (size_t i = 0; i < steps.count; i++)
        json_array_append_new(path, name_json(&steps.elements[i]));
    json_object_set_new(object, "path", path);
    json_object_set_new(object, done, json_true());
    answer_write(document->call->session, object);
}

/* ---- Writing ---- */

static fdb_error_t insert_document(FDBTransaction *tr, void *context) {
    struct document *document = context;
    keel_subspace space;
    const char *json = (const char *)document->json.data;
    document->new_id = -1;
    fdb_error_t error = call_create(document->call, tr, &space);
    if (error)
        return error;
    if (document->hierarchy)
        return keel_hierarchy_insert(tr, &space, json, document->json.length);
    return keel_document_insert(tr, &space, json, document->json.length, &document->new_id);
}

/* The id of a document that was just inserted: drawn, or its own member. */
static void print_new_id(const struct document *document) {
    json_t *json = json_loadb((const char *)document->json.data, document->json.length, JSON_ALLOW_NUL, NULL);
    json_t *own = json_object_get(json, "doc_id"), *id = own ? json_incref(own) : json_integer(document->new_id);
    struct buffer text = {0};
    if (!document->call->session->json) {
        keel_element element = json_is_string(id) ? keel_element_of_text(json_string_value(id), json_string_length(id))
                                                  : keel_element_of_int(json_integer_value(id));
        name_print(&element, &text);
        printf("%.*s\n", (int)text.length, (const char *)text.data);
    }
    answer_write(document->call->session, json_pack("{s:O}", "id", id));
    buffer_free(&text);
    json_decref(id);
    json_decref(json);
}

static int doc_insert(struct call *call) {
    struct document document = {0};
    int code = document_begin(&document, call, true, false);
    if (!code) {
        fdb_error_t error = session_write(call->session, insert_document, &document);
        if (error == KEEL_ERROR_ARGUMENT)
            code = report("doc insert: %s: A document is an object whose member \"doc_id\", if it has one, is an integer or text", call->directory);
        else if (error)
            code = document_report(&document, error);
        else if (document.hierarchy)
            document_answer(&document, "set");
        else
            print_new_id(&document);
    }
    document_free(&document);
    return code;
}

static fdb_error_t set_document(FDBTransaction *tr, void *context) {
    struct document *document = context;
    keel_subspace space;
    const char *json = (const char *)document->json.data;
    fdb_error_t error = call_create(document->call, tr, &space);
    if (error)
        return error;
    if (document->hierarchy)
        return keel_hierarchy_set(tr, &space, document_path(document), json, document->json.length);
    return keel_document_set(tr, &space, document_id(document), document_path(document), json, document->json.length);
}

static fdb_error_t merge_document(FDBTransaction *tr, void *context) {
    struct document *document = context;
    keel_subspace space;
    fdb_error_t error = call_create(document->call, tr, &space);
    if (error)
        return error;
    return keel_document_merge(tr, &space, document_id(document), document_path(document), (const char *)document->json.data, document->json.length);
}

static int write_document(struct call *call, keel_function function) {
    struct document document = {0};
    int code = document_begin(&document, call, true, true);
    if (!code && document.hierarchy && function == merge_document)
        code = usage_error(&call->command, "A hierarchy is merged with doc insert --hierarchy");
    if (!code) {
        fdb_error_t error = session_write(call->session, function, &document);
        if (error)
            code = document_report(&document, error);
        else
            document_answer(&document, "set");
    }
    document_free(&document);
    return code;
}

static int doc_set(struct call *call) {
    return write_document(call, set_document);
}

static int doc_merge(struct call *call) {
    return write_document(call, merge_document);
}

static fdb_error_t delete_document(FDBTransaction *tr, void *context) {
    struct document *document = context;
    keel_subspace space;
    fdb_error_t error = call_open(document->call, tr, &space);
    if (error)
        return error;
    if (document->hierarchy)
        return keel_hierarchy_delete(tr, &space, document_path(document));
    return keel_document_delete(tr, &space, document_id(document), document_path(document));
}

static int doc_rm(struct call *call) {
    struct document document = {0};
    int code = document_begin(&document, call, false, true);
    if (!code) {
        fdb_error_t error = session_write(call->session, delete_document, &document);
        if (error)
            code = document_report(&document, error);
        else
            document_answer(&document, "removed");
    }
    document_free(&document);
    return code;
}

/* ---- Reading ---- */

static void print_line(int depth) {
    printf("\n%*s", depth * 2, "");
}

/* Compact JSON on lines: members and elements each on their own, empty objects and arrays as they are. */
static void print_indented(const char *json, size_t length) {
    bool quoted = false;
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        char c = json[i];
        if (quoted || !strchr("{}[],:", c)) {
            putchar(c);
            if (c == '\\' && quoted)
                putchar(json[++i]);
            else if (c == '"')
                quoted = !quoted;
        } else if ((c == '{' || c == '[') && (json[i + 1] == '}' || json[i + 1] == ']')) {
            putchar(c);
            putchar(json[++i]);
        } else if (c == '}' || c == ']') {
            print_line(--depth);
            putchar(c);
        } else {
            putchar(c);
            if (c == ':')
                putchar(' ');
            else
                print_line(c == ',' ? depth : ++depth);
        }
    }
    putchar('\n');
}

static fdb_error_t get_document(FDBTransaction *tr, void *context) {
    struct document *document = context;
    keel_subspace space;
    free(document->result);
    document->result = NULL;
    fdb_error_t error = call_open(document->call, tr, &space);
    if (error)
        return error;
    if (document->hierarchy)
        return keel_hierarchy_get(tr, &space, document_path(document), &document->result, &document->result_length);
    return keel_document_get(tr, &space, document_id(document), document_path(document), &document->result, &document->result_length);
}

static int doc_get(struct call *call) {
    struct document document = {0};
    int code = document_begin(&document, call, false, true);
    if (!code) {
        fdb_error_t error = read_bounded(call->session, get_document, &document);
        if (error) {
            code = document_report(&document, error);
        } else if (call->session->json) {
            fwrite(document.result, 1, document.result_length, stdout);
            putchar('\n');
        } else {
            print_indented(document.result, document.result_length);
        }
    }
    document_free(&document);
    return code;
}

static fdb_error_t document_exists(FDBTransaction *tr, void *context) {
    struct document *document = context;
    keel_subspace space;
    document->exists = 0;
    fdb_error_t error = call_open(document->call, tr, &space);
    if (error)
        return error == KEEL_ERROR_DIRECTORY_MISSING ? 0 : error;
    return keel_document_exists(tr, &space, document_id(document), document_path(document), &document->exists);
}

static int doc_exists(struct call *call) {
    struct document document = {0};
    int code = document_begin(&document, call, false, true);
    if (!code && document.hierarchy)
        code = usage_error(&call->command, "With --hierarchy say doc get, which ends with 3 where nothing is");
    if (!code) {
        fdb_error_t error = session_read(call->session, document_exists, &document);
        if (error)
            code = document_report(&document, error);
        else if (call->session->json)
            output_json(json_pack("{s:b}", "exists", document.exists));
        else
            puts(document.exists ? "yes" : "no");
        if (!error && !document.exists)
            code = EXIT_NOT_FOUND;
    }
    document_free(&document);
    return code;
}

/* ---- Listing ---- */

struct document_list {
    struct call *call;
    struct results results;
    struct name after, last; /* where the listing goes on, if it has begun, and the last id of this transaction */
    bool begun, values;
    int limit;
};

static fdb_error_t list_value(void *context, const keel_element *id, const char *json, size_t length) {
    struct document_list *list = context;
    if (list->call->session->json) {
        json_t *row = json_pack("{s:o}", "id", name_json(id));
        if (json)
            json_object_set_new(row, "value", json_loadb(json, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
        results_json(&list->results, row);
    } else {
        results_name(&list->results, id);
        if (json) {
            results_format(&list->results, "  ");
            results_text(&list->results, keel_bytes_of(json, length));
        }
        results_format(&list->results, "\n");
        list->results.count++;
    }
    return name_copy(id, &list->last);
}

static fdb_error_t list_id(void *context, const keel_element *id) {
    return list_value(context, id, NULL, 0);
}

static fdb_error_t list_documents(FDBTransaction *tr, void *context) {
    struct document_list *list = context;
    const keel_element *after = list->begun ? &list->after.element : NULL;
    keel_subspace space;
    results_clear(&list->results);
    fdb_error_t error = call_open(list->call, tr, &space);
    if (error)
        return error;
    return list->values ? keel_document_scan(tr, &space, after, list->limit, list_value, list)
                        : keel_document_list(tr, &space, after, list->limit, list_id, list);
}

/* A bounded number of documents in a transaction; the next one begins behind the last. */
static int list_batches(struct document_list *list, int64_t wanted) {
    struct call *call = list->call;
    int64_t batch = list->values ? VALUES_AT_ONCE : IDS_AT_ONCE, found = batch;
    fdb_error_t error = 0;
    while (!error && wanted > 0 && found == batch) {
        list->limit = (int)(wanted < batch ? wanted : batch);
        if (!(error = session_read(call->session, list_documents, list))) {
            found = (int64_t)list->results.count;
            wanted -= found;
            results_print(&list->results);
            if (found > 0 && !(error = name_copy(&list->last.element, &list->after)))
                list->begun = true;
        }
    }
    return error ? call_report(call, NULL, error) : EXIT_OK;
}

static int doc_ls(struct call *call) {
    const char *after = NULL, *limit = NULL, *values = NULL;
    const struct option_spec specs[] = {{"after", 'a', true, &after}, {"limit", 'n', true, &limit}, {"values", 'v', false, &values}, {0}};
    struct document_list list = {.call = call};
    int64_t wanted = INT64_MAX;
    int code = call_begin(call, specs, 0, 0);
    if (!code && ((limit && !options_number("limit", limit, 1, INT64_MAX, &wanted)) || (after && !call_name(call, after, &list.after))))
        code = EXIT_USAGE;
    list.begun = after != NULL;
    list.values = values != NULL;
    if (!code)
        code = list_batches(&list, wanted);
    results_free(&list.results);
    name_free(&list.after);
    name_free(&list.last);
    return code;
}

static const struct subcommand doc_table[] = {
    {"insert", "[--hierarchy] DIRECTORY JSON", doc_insert, false},
    {"set", "[--hierarchy] DIRECTORY ID [STEP…] JSON", doc_set, false},
    {"merge", "DIRECTORY ID [STEP…] JSON", doc_merge, false},
    {"get", "[--hierarchy] DIRECTORY ID [STEP…]", doc_get, true},
    {"exists", "DIRECTORY ID [STEP…]", doc_exists, true},
    {"ls", "[--values] [--after ID] [--limit N] DIRECTORY", doc_ls, true},
    {"rm", "[--hierarchy] DIRECTORY ID [STEP…]", doc_rm, false},
    {0},
};

int run_doc(struct session *session, int argc, char **argv) {
    return subcommand_run("doc", doc_table, session, argc, argv);
}
