/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents by the many: their rows without a transaction, for bulk loads, and all of them in one
 * scan, for exports. document.c has the layout; the rows are made by the same plan, and put together
 * by the same builder, as everywhere else.
 *
 * In a scan a document ends where a key no longer begins with its id. Elements end themselves, with
 * one exception: behind the 00 that ends a string an ff means that the string goes on.
 */
#include <keel/document.h>

#include <stdlib.h>
#include <string.h>

#include "document_private.h"

/* ---- JSON to rows ---- */

static fdb_error_t member_id(json_t *json, const char *name, keel_element *id) {
    json_t *member = json_object_get(json, name);
    if (!member)
        return KEEL_ERROR_NOT_FOUND;
    if (json_is_null(member) || json_is_object(member) || json_is_array(member))
        return KEEL_ERROR_TUPLE_TYPE;
    *id = document_leaf_of(member);
    return 0;
}

KEEL_EXPORT fdb_error_t keel_document_rows(const keel_subspace *space, const keel_element *id,
                                           const char *id_member, const char *text, size_t length,
                                           keel_document_row visit, void *context) {
    struct document_tree tree;
    json_t *json = NULL;
    keel_element own;
    if (!space || !visit || (!id && !id_member))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = document_parse(text, length, 0, &json);
    if (!error && !id) {
        error = member_id(json, id_member, &own);
        id = &own;
    }
    if (!error) {
        error = document_tree_open_rows(&tree, space, id, keel_tuple_of(NULL, 0));
        if (!error)
            error = document_plan_value(&tree, json);
        if (!error)
            error = document_plan_visit(&tree.plan, visit, context);
        document_tree_close(&tree);
    }
    json_decref(json);
    return error;
}

/* ---- Rows to JSON ---- */

struct reading {
    struct document_build build;
    struct recipe_key id; /* of the document that is being put together: the key up to there */
    size_t prefix_length;
    int left; /* documents wanted, -1: all */
    keel_document_reader visit;
    void *context;
};

static bool same_document(const struct reading *reading, keel_bytes key) {
    size_t length = reading->id.length;
    return length && key.length >= length && memcmp(key.data, reading->id.data, length) == 0 &&
           (key.length == length || key.data[length] != 0xff);
}

/* Hands out the document that is complete, if there is one. */
static fdb_error_t hand_out(struct reading *reading) {
    char *text = NULL;
    size_t length = 0;
    keel_element id;
    if (!reading->id.length)
        return 0;
    keel_tuple_iterator it = keel_tuple_iterate_behind(
        keel_bytes_of(reading->id.data, reading->id.length), reading->prefix_length);
    json_t *json = json_array_get(reading->build.frames[0].container, 0);
    fdb_error_t error = !json || keel_tuple_next(&it, &id) ? KEEL_ERROR_STORED_FORMAT
                                                           : document_print(json, &text, &length);
    if (!error)
        error = reading->visit(reading->context, &id, text, length);
    free(text);
    if (reading->left > 0)
        reading->left--;
    return error;
}

/* The first row of a document. */
static fdb_error_t begin(struct reading *reading, keel_bytes key) {
    keel_element id;
    keel_tuple_iterator it = keel_tuple_iterate_behind(key, reading->prefix_length);
    if (keel_tuple_next(&it, &id))
        return KEEL_ERROR_STORED_FORMAT;
    memcpy(reading->id.data, key.data, it.position);
    reading->id.length = it.position;
    return document_build_again(&reading->build, it.position);
}

static fdb_error_t read_all(struct reading *reading, struct recipe_scan *scan) {
    keel_bytes key, value;
    bool found = true;
    fdb_error_t error = 0;
    while (!error && reading->left != 0) {
        error = recipe_scan_next(scan, &key, &value, &found);
        if (error || !found)
            return error ? error : hand_out(reading);
        if (!same_document(reading, key)) {
            error = hand_out(reading);
            if (!error && reading->left != 0)
                error = begin(reading, key);
        }
        if (!error && reading->left != 0)
            error = document_build_row(&reading->build, key, value);
    }
    return error;
}

KEEL_EXPORT fdb_error_t keel_document_scan(FDBTransaction *tr, const keel_subspace *space,
                                           const keel_element *after, int limit,
                                           keel_document_reader visit, void *context) {
    struct reading reading = {.left = limit ? limit : -1, .visit = visit, .context = context};
    struct document_tree tree = {.leaf_in_key = false};
    struct recipe_span span;
    struct recipe_scan scan;
    if (!tr || !space || !visit || limit < 0)
        return KEEL_ERROR_ARGUMENT;
    reading.prefix_length = space->length;
    fdb_error_t error = recipe_span_of(space, keel_tuple_of(NULL, 0), &span);
    if (!error && after) {
        span.begin.length = space->length;
        error = recipe_append(&span.begin, keel_tuple_of(after, 1));
        span.begin.data[span.begin.length++] = 0xff;
    }
    if (!error)
        error = document_build_open(&reading.build, &tree);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 0, false, true);
    error = read_all(&reading, &scan);
    recipe_scan_close(&scan);
    document_build_close(&reading.build);
    return error;
}
