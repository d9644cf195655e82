/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a change to a document: conflicts, clears and sets, collected while anything can
 * still go wrong and carried out when nothing can. document.c has the layout and the invariants.
 *
 * The operations lie one after the other in one block: a header, then the bytes of key and value,
 * or of begin and end. They are carried out in the order in which they were planned, so a clear
 * never takes away what is set for later. The sum of their bytes is held below the limit of a
 * transaction.
 *
 * A tree's key is the path at which something is planned; functions that go deeper take their steps
 * off again.
 */
#include "document_private.h"

#include <stdlib.h>
#include <string.h>

enum { PLAN_BYTES_MAX = 10000000 };

/* ---- The plan: what is to be done once nothing can fail any more ---- */

struct operation_header { /* followed by the bytes of both */
    enum document_operation operation;
    size_t first_length, second_length; /* key and value, or begin and end */
};

static fdb_error_t plan_reserve(struct document_plan *plan, size_t bytes) {
    if (plan->capacity - plan->length >= bytes)
        return 0;
    size_t capacity = plan->capacity * 2 + bytes + 4096;
    uint8_t *data = realloc(plan->data, capacity);
    if (!data)
        return NO_MEMORY;
    plan->data = data;
    plan->capacity = capacity;
    return 0;
}

/* Adds an operation and gives the places for its bytes, to be filled before the next is added. */
fdb_error_t document_plan_add(struct document_plan *plan, enum document_operation operation,
                              size_t first_length,
                            size_t second_length, uint8_t **first, uint8_t **second) {
    struct operation_header header = {operation, first_length, second_length};
    size_t bytes = first_length + second_length;
    if (plan->row_bytes + bytes > PLAN_BYTES_MAX)
        return TRANSACTION_TOO_LARGE;
    fdb_error_t error = plan_reserve(plan, sizeof header + bytes);
    if (error)
        return error;
    memcpy(plan->data + plan->length, &header, sizeof header);
    *first = plan->data + plan->length + sizeof header;
    *second = *first + first_length;
    plan->length += sizeof header + bytes;
    plan->row_bytes += bytes;
    return 0;
}

fdb_error_t document_plan_visit(const struct document_plan *plan, keel_document_row visit, void *context) {
    struct operation_header header;
    fdb_error_t error = 0;
    for (size_t position = 0; !error && position < plan->length;) {
        memcpy(&header, plan->data + position, sizeof header);
        const uint8_t *first = plan->data + position + sizeof header;
        if (header.operation == OPERATION_SET)
            error = visit(context, keel_bytes_of(first, header.first_length),
                          keel_bytes_of(first + header.first_length, header.second_length));
        position += sizeof header + header.first_length + header.second_length;
    }
    return error;
}

void document_plan_carry_out(const struct document_plan *plan, FDBTransaction *tr) {
    struct operation_header header;
    for (size_t position = 0; position < plan->length;) {
        memcpy(&header, plan->data + position, sizeof header);
        const uint8_t *first = plan->data + position + sizeof header;
        const uint8_t *second = first + header.first_length;
        int first_length = (int)header.first_length, second_length = (int)header.second_length;
        if (header.operation == OPERATION_SET)
            fdb_transaction_set(tr, first, first_length, second, second_length);
        else if (header.operation == OPERATION_CLEAR)
            fdb_transaction_clear_range(tr, first, first_length, second, second_length);
        else /* cannot fail: begin is below end, both are keys we could write */
            (void)fdb_transaction_add_conflict_range(tr, first, first_length, second, second_length,
                                                     FDB_CONFLICT_RANGE_TYPE_READ);
        position += sizeof header + header.first_length + header.second_length;
    }
}

/* ---- Paths: a key that grows and shrinks by an element ---- */

fdb_error_t document_push(struct recipe_key *key, keel_element element) {
    size_t length = 0;
    fdb_error_t error = keel_tuple_pack(keel_tuple_of(&element, 1), key->data + key->length,
                                        RECIPE_KEY_MAX - key->length, &length);
    if (!error)
        key->length += length;
    return error == KEEL_ERROR_BUFFER_TOO_SMALL ? KEY_TOO_LARGE : error;
}

static fdb_error_t check_step(const keel_element *step) {
    int64_t index = 0;
    if (step->type == KEEL_TYPE_STRING)
        return 0;
    if (keel_element_int(step, &index))
        return KEEL_ERROR_ARGUMENT;
    return index < 0 ? KEEL_ERROR_INDEX_RANGE : 0;
}

static fdb_error_t check_id(const keel_element *id) {
    bool container = id->type == KEEL_TYPE_NESTED;
    return container || keel_element_is_incomplete(id) ? KEEL_ERROR_ARGUMENT : 0;
}

static fdb_error_t push_steps(struct document_tree *tree) {
    tree->lengths[0] = tree->key.length;
    for (size_t i = 0; i < tree->steps.count; i++) {
        fdb_error_t error = check_step(&tree->steps.elements[i]);
        if (!error)
            error = document_push(&tree->key, tree->steps.elements[i]);
        if (error)
            return error;
        tree->lengths[i + 1] = tree->key.length;
    }
    return 0;
}

fdb_error_t document_tree_open_rows(struct document_tree *tree, const keel_subspace *space,
                                    const keel_element *id, keel_tuple path) {
    tree->tr = NULL;
    tree->leaf_in_key = !id;
    tree->plan = (struct document_plan){0};
    tree->steps = path;
    tree->lengths = NULL;
    if (!space || (path.count && !path.elements))
        return KEEL_ERROR_ARGUMENT;
    if (path.count > DEPTH_MAX)
        return KEEL_ERROR_DOCUMENT_DEPTH;
    tree->lengths = calloc(path.count + 1, sizeof *tree->lengths);
    if (!tree->lengths)
        return NO_MEMORY;
    memcpy(tree->key.data, space->prefix, space->length);
    tree->key.length = space->length;
    fdb_error_t error = id ? check_id(id) : 0;
    if (!error && id)
        error = document_push(&tree->key, *id);
    return error ? error : push_steps(tree);
}

/* Close the tree whatever this returns. id NULL: a hierarchy. */
fdb_error_t document_tree_open(struct document_tree *tree, FDBTransaction *tr,
                               const keel_subspace *space, const keel_element *id,
                               keel_tuple path) {
    fdb_error_t error = document_tree_open_rows(tree, space, id, path);
    tree->tr = tr;
    return error || tr ? error : KEEL_ERROR_ARGUMENT;
}

void document_tree_close(struct document_tree *tree) {
    free(tree->plan.data);
    free(tree->lengths);
}

/* ---- Planning over a part of the key ---- */

/* Plans an operation over [begin, end): each the first bytes of the key, with a byte behind; a
   negative byte is none. */
fdb_error_t document_plan_range(struct document_tree *tree, enum document_operation operation,
                                size_t begin_length,
                              int begin_byte, size_t end_length, int end_byte) {
    uint8_t *begin = NULL, *end = NULL;
    fdb_error_t error = document_plan_add(&tree->plan, operation, begin_length + (begin_byte >= 0),
                                 end_length + (end_byte >= 0), &begin, &end);
    if (error)
        return error;
    memcpy(begin, tree->key.data, begin_length);
    memcpy(end, tree->key.data, end_length);
    if (begin_byte >= 0)
        begin[begin_length] = (uint8_t)begin_byte;
    if (end_byte >= 0)
        end[end_length] = (uint8_t)end_byte;
    return 0;
}

/* The byte with which span(P) begins behind P. */
int document_span_byte(const struct document_tree *tree) {
    return tree->leaf_in_key ? 0 : -1;
}

fdb_error_t document_plan_clear_span(struct document_tree *tree, size_t length) {
    return document_plan_range(tree, OPERATION_CLEAR, length, document_span_byte(tree), length,
                               0xff);
}

/* Invariant 2: depends on what kind of value is at P. */
fdb_error_t document_plan_depend(struct document_tree *tree, size_t length) {
    if (tree->leaf_in_key)
        return document_plan_range(tree, OPERATION_CONFLICT, length, 0, length, 1);
    return document_plan_range(tree, OPERATION_CONFLICT, length, -1, length, 0);
}

/* Invariant 3. The markers' steps are 13 fd and 13 fe, and nothing lies between them. */
fdb_error_t document_plan_clear_markers(struct document_tree *tree, size_t length) {
    uint8_t *begin = NULL, *end = NULL;
    fdb_error_t error =
        document_plan_add(&tree->plan, OPERATION_CLEAR, length + 2, length + 3, &begin, &end);
    if (error)
        return error;
    memcpy(begin, tree->key.data, length);
    memcpy(begin + length, "\x13\xfd", 2);
    memcpy(end, tree->key.data, length);
    memcpy(end + length, "\x13\xfe\xff", 3);
    return 0;
}

/* Plans the row of a leaf at the key. */
static fdb_error_t plan_leaf(struct document_tree *tree, keel_element leaf) {
    uint8_t *key = NULL, *value = NULL;
    size_t length = 0;
    keel_tuple tuple = keel_tuple_of(&leaf, 1);
    fdb_error_t error = keel_tuple_pack(tuple, NULL, 0, &length);
    if (error && error != KEEL_ERROR_BUFFER_TOO_SMALL)
        return error;
    if (tree->leaf_in_key && tree->key.length + length > RECIPE_KEY_MAX)
        return KEY_TOO_LARGE;
    if (length > RECIPE_VALUE_MAX)
        return VALUE_TOO_LARGE;
    size_t key_length = tree->key.length + (tree->leaf_in_key ? length : 0);
    error = document_plan_add(&tree->plan, OPERATION_SET, key_length,
                              tree->leaf_in_key ? 0 : length, &key,
                     &value);
    if (error)
        return error;
    memcpy(key, tree->key.data, tree->key.length);
    uint8_t *place = tree->leaf_in_key ? key + tree->key.length : value;
    return keel_tuple_pack(tuple, place, length, &length);
}

fdb_error_t document_plan_marker(struct document_tree *tree, int marker) {
    size_t length = tree->key.length;
    fdb_error_t error = document_push(&tree->key, keel_element_of_int(marker));
    if (!error)
        error = plan_leaf(tree, keel_element_null());
    tree->key.length = length;
    return error;
}

/* ---- JSON to rows ---- */

keel_element document_leaf_of(const json_t *json) {
    switch (json_typeof(json)) {
    case JSON_STRING:
        return keel_element_of_text(json_string_value(json), json_string_length(json));
    case JSON_INTEGER:
        return keel_element_of_int((int64_t)json_integer_value(json));
    case JSON_REAL:
        return keel_element_of_double(json_real_value(json));
    case JSON_TRUE:
    case JSON_FALSE:
        return keel_element_of_bool(json_is_true(json));
    default:
        return keel_element_null();
    }
}

static fdb_error_t plan_child(struct document_tree *tree, keel_element step, json_t *json) {
    size_t length = tree->key.length;
    fdb_error_t error = document_push(&tree->key, step);
    if (!error)
        error = document_plan_value(tree, json);
    tree->key.length = length;
    return error;
}

/* Plans the rows of a value at the key, where nothing is left. */
fdb_error_t document_plan_value(struct document_tree *tree, json_t *json) {
    fdb_error_t error = 0;
    const char *name;
    json_t *child;
    if (json_is_object(json)) {
        if (json_object_size(json) == 0)
            return document_plan_marker(tree, EMPTY_OBJECT);
        json_object_foreach(json, name, child)
            if (!error)
                error = plan_child(tree, keel_element_of_string(name), child);
        return error;
    }
    if (json_is_array(json)) {
        if (json_array_size(json) == 0)
            return document_plan_marker(tree, EMPTY_ARRAY);
        for (size_t i = 0; !error && i < json_array_size(json); i++)
            error = plan_child(tree, keel_element_of_uint(i), json_array_get(json, i));
        return error;
    }
    return plan_leaf(tree, document_leaf_of(json));
}

