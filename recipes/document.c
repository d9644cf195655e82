/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents and hierarchies: JSON trees as rows, one a leaf. Jansson parses and prints; this file
 * looks and decides, document_plan.c turns trees into rows, document_json.c rows into trees.
 *
 * The two layouts differ in where the leaf goes (`leaf_in_key`), all else is shared:
 *
 *     document     prefix (id, step, …)         = packed (leaf,)
 *     hierarchy    prefix (step, …, leaf)       = ""
 *
 * A step is a member's name (a string) or an element's index (an integer from 0). An empty
 * container has one row below it, the marker: step -2 for {} and -1 for [], with the leaf null.
 *
 * The value at a path P is the rows of span(P): [P, P ff) in a document, where P itself is the key
 * of a scalar, and [P 00, P ff) in a hierarchy.
 *
 * On the path of a transaction: a call that writes
 *
 *     1. parses the text and checks the path         (nothing has touched the transaction)
 *     2. starts all its reads, then waits for them
 *     3. collects conflicts, clears and sets in a plan, which knows the limits
 *     4. carries out the plan                         (cannot fail)
 *
 * Invariants, as long as only this file writes:
 *   1. Below P there is either one scalar, or names, or indexes 0 to n-1, or one marker.
 *   2. Whoever replaces or deletes the value at P clears all of span(P). Hence the first key of
 *      span(P) in the read conflicts is enough to depend on what kind of value P is, and the read
 *      itself can be a snapshot: members set side by side do not conflict.
 *   3. Whoever puts something below P clears P's marker without looking. Whoever writes a marker
 *      has read (conflicting) that nothing else is there.
 *   4. Whoever puts the first thing below P, where nothing was, conflicts with whoever makes P
 *      something of another kind: names with indexes, indexes with everything.
 *   5. Whoever deletes from an array clears from that index to the end of the array. Hence an
 *      append depends on the keys from its index to the end only.
 * Rows by other writers (Python's inserts clear nothing) are read the way the documents'
 * from_tuples reads them: what comes first in key order at a path is its value; markers beside
 * others are not seen.
 *
 * Depth: every recursion here and in Jansson is over containers inside each other, at most
 * KEEL_DOCUMENT_DEPTH_MAX: texts are measured before they are parsed, rows as they are read.
 *
 * Threads: no shared state but Jansson's hash seed, which it guards itself.
 */
#include <keel/document.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "document_private.h"

/* ---- Looking at what is there ---- */

enum kind { KIND_MISSING, KIND_SCALAR, KIND_OBJECT, KIND_ARRAY };

/* Starts reading the first row, or the last, of [begin, end): the key's first bytes with a byte
   behind, as in plan_range. */
static FDBFuture *start_row(struct document_tree *tree, size_t begin_length, int begin_byte,
                            size_t end_length, int end_byte, bool reverse, bool snapshot) {
    struct recipe_key begin, end;
    memcpy(begin.data, tree->key.data, begin_length);
    memcpy(end.data, tree->key.data, end_length);
    begin.data[begin_length] = (uint8_t)begin_byte;
    end.data[end_length] = (uint8_t)end_byte;
    int begin_total = (int)begin_length + (begin_byte >= 0);
    int end_total = (int)end_length + (end_byte >= 0);
    return fdb_transaction_get_range(
        tree->tr, FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(begin.data, begin_total),
        FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(end.data, end_total), 1, 0, FDB_STREAMING_MODE_EXACT, 0,
        snapshot, reverse);
}

static FDBFuture *start_span(struct document_tree *tree, size_t length, bool reverse,
                             bool snapshot) {
    return start_row(tree, length, document_span_byte(tree), length, 0xff, reverse, snapshot);
}

/* Waits. *key is valid until the future is destroyed; untouched if !*found. */
static fdb_error_t finish_row(FDBFuture *future, bool *found, keel_bytes *key) {
    const FDBKeyValue *rows = NULL;
    int count = 0;
    fdb_bool_t more = 0;
    fdb_error_t error = keel_wait(future);
    if (!error)
        error = fdb_future_get_keyvalue_array(future, &rows, &count, &more);
    if (error)
        return error;
    *found = count > 0;
    if (count)
        *key = keel_bytes_of(rows[0].key, (size_t)rows[0].key_length);
    return 0;
}

/* What a row of span(P) says about the value at P, which is `length` bytes long; *index is the
   row's index in an array, -1 for its marker. */
static fdb_error_t classify(const struct document_tree *tree, keel_bytes key, size_t length,
                            enum kind *kind,
                            int64_t *index) {
    keel_tuple_iterator it = keel_tuple_iterate_behind(key, length);
    keel_element step;
    *kind = KIND_SCALAR;
    if (keel_tuple_at_end(&it))
        return 0;
    if (keel_tuple_next(&it, &step))
        return KEEL_ERROR_STORED_FORMAT;
    if (tree->leaf_in_key && keel_tuple_at_end(&it))
        return 0;
    if (step.type == KEEL_TYPE_STRING || step.type == KEEL_TYPE_BYTES) {
        *kind = KIND_OBJECT;
        return 0;
    }
    if (keel_element_int(&step, index) || *index < EMPTY_OBJECT)
        return KEEL_ERROR_STORED_FORMAT;
    *kind = *index == EMPTY_OBJECT ? KIND_OBJECT : KIND_ARRAY;
    return 0;
}

static fdb_error_t finish_kind(const struct document_tree *tree, FDBFuture *future, size_t length,
                               enum kind *kind, int64_t *index) {
    bool found = false;
    keel_bytes key = {0};
    fdb_error_t error = finish_row(future, &found, &key);
    *kind = KIND_MISSING;
    *index = EMPTY_ARRAY;
    return error || !found ? error : classify(tree, key, length, kind, index);
}

/* ---- Ways down a path ---- */

struct probe { /* of the value behind the first i steps */
    FDBFuture *first, *last; /* last: where an index follows */
    enum kind kind;
    int64_t last_index;
};

static bool is_index(const struct document_tree *tree, size_t step) {
    return tree->steps.elements[step].type != KEEL_TYPE_STRING;
}

static void start_probes(struct document_tree *tree, struct probe *probes) {
    for (size_t i = 0; i <= tree->steps.count; i++) {
        bool index_follows = i < tree->steps.count && is_index(tree, i);
        if (i < tree->steps.count || is_index(tree, i - 1))
            probes[i].first = start_span(tree, tree->lengths[i], false, true);
        if (index_follows)
            probes[i].last = start_span(tree, tree->lengths[i], true, true);
    }
}

static fdb_error_t finish_probes(struct document_tree *tree, struct probe *probes) {
    fdb_error_t error = 0;
    for (size_t i = 0; i <= tree->steps.count; i++) {
        enum kind ignored;
        int64_t index;
        if (!error && probes[i].first)
            error = finish_kind(tree, probes[i].first, tree->lengths[i], &probes[i].kind, &index);
        if (!error && probes[i].last)
            error = finish_kind(tree, probes[i].last, tree->lengths[i], &ignored,
                                &probes[i].last_index);
        if (probes[i].first)
            fdb_future_destroy(probes[i].first);
        if (probes[i].last)
            fdb_future_destroy(probes[i].last);
    }
    return error;
}

/* Invariant 4. Indexes are the integers from 0 on; names side by side do not conflict. Planned
   before the clears, as what a transaction has cleared itself no longer conflicts. */
static fdb_error_t plan_first(struct document_tree *tree, size_t length, enum kind kind) {
    int begin = kind == KIND_OBJECT ? 0x14 : document_span_byte(tree);
    int end = kind == KIND_OBJECT ? 0x1e : 0xff;
    return document_plan_range(tree, OPERATION_CONFLICT, length, begin, length, end);
}

/* Whether step i may lead on from the value it starts at; plans what this depends on. */
static fdb_error_t plan_step(struct document_tree *tree, const struct probe *probes, size_t i) {
    enum kind kind = probes[i].kind, wanted = is_index(tree, i) ? KIND_ARRAY : KIND_OBJECT;
    int64_t index = 0;
    if (kind != KIND_MISSING && kind != wanted)
        return KEEL_ERROR_DOCUMENT_PATH;
    fdb_error_t error = document_plan_depend(tree, tree->lengths[i]);
    if (!error && kind == KIND_MISSING)
        error = plan_first(tree, tree->lengths[i], wanted);
    if (!error)
        error = document_plan_clear_markers(tree, tree->lengths[i]);
    if (error || wanted == KIND_OBJECT || probes[i + 1].kind != KIND_MISSING)
        return error;
    keel_element_int(&tree->steps.elements[i], &index);
    if (index != probes[i].last_index + 1)
        return KEEL_ERROR_INDEX_RANGE;
    return document_plan_range(tree, OPERATION_CONFLICT, tree->lengths[i + 1],
                               document_span_byte(tree),
                      tree->lengths[i], 0xff); /* invariant 5 */
}

/* Looks down the path, all reads at once, and plans that its parents will hold something. */
static fdb_error_t plan_way(struct document_tree *tree) {
    if (tree->steps.count == 0)
        return 0;
    struct probe *probes = calloc(tree->steps.count + 1, sizeof *probes);
    if (!probes)
        return NO_MEMORY;
    start_probes(tree, probes);
    fdb_error_t error = finish_probes(tree, probes);
    for (size_t i = 0; !error && i < tree->steps.count; i++)
        error = plan_step(tree, probes, i);
    free(probes);
    return error;
}

/* ---- Setting ---- */

static fdb_error_t plan_replace(struct document_tree *tree, json_t *json) {
    fdb_error_t error = document_plan_clear_span(tree, tree->key.length);
    return error ? error : document_plan_value(tree, json);
}

static fdb_error_t set(FDBTransaction *tr, const keel_subspace *space, const keel_element *id,
                       keel_tuple path, const char *text, size_t length) {
    struct document_tree tree;
    json_t *json = NULL;
    fdb_error_t error = document_tree_open(&tree, tr, space, id, path);
    if (!error)
        error = document_parse(text, length, path.count, &json);
    if (!error)
        error = plan_way(&tree);
    if (!error)
        error = plan_replace(&tree, json);
    if (!error)
        document_plan_carry_out(&tree.plan, tr);
    json_decref(json);
    document_tree_close(&tree);
    return error;
}

/* ---- Merging: each object of the text is looked at, all at once,
before anything is planned ---- */

struct looks {
    FDBFuture **futures; /* in the order in which the objects come */
    size_t count, capacity, next;
};

static fdb_error_t look(struct document_tree *tree, struct looks *looks) {
    if (looks->count == looks->capacity) {
        size_t capacity = looks->capacity * 2 + 16;
        FDBFuture **futures = realloc(looks->futures, capacity * sizeof(FDBFuture *));
        if (!futures)
            return NO_MEMORY;
        looks->futures = futures;
        looks->capacity = capacity;
    }
    looks->futures[looks->count++] = start_span(tree, tree->key.length, false, true);
    return 0;
}

static fdb_error_t look_at_objects(struct document_tree *tree, struct looks *looks,
                                   json_t *object) {
    const char *name;
    json_t *child;
    size_t length = tree->key.length;
    fdb_error_t error = look(tree, looks);
    json_object_foreach(object, name, child) {
        if (error || !json_is_object(child))
            continue;
        error = document_push(&tree->key, keel_element_of_string(name));
        if (!error)
            error = look_at_objects(tree, looks, child);
        tree->key.length = length;
    }
    return error;
}

/* {} changes nothing where there is an object already. */
static fdb_error_t plan_merge_empty(struct document_tree *tree, enum kind kind) {
    if (kind == KIND_OBJECT)
        return 0;
    size_t length = tree->key.length;
    fdb_error_t error =
        document_plan_range(tree, OPERATION_CONFLICT, length, document_span_byte(tree), length,
                            0xff);
    return error ? error : document_plan_marker(tree, EMPTY_OBJECT);
}

static fdb_error_t plan_merge(struct document_tree *tree, struct looks *looks, json_t *json) {
    if (!json_is_object(json))
        return plan_replace(tree, json);
    const char *name;
    json_t *child;
    size_t length = tree->key.length;
    enum kind kind;
    int64_t index;
    fdb_error_t error =
        finish_kind(tree, looks->futures[looks->next++], length, &kind, &index);
    if (!error)
        error = document_plan_depend(tree, length);
    if (!error && (kind == KIND_SCALAR || kind == KIND_ARRAY))
        error = document_plan_clear_span(tree, length);
    if (!error && json_object_size(json) == 0)
        return plan_merge_empty(tree, kind);
    if (!error && kind == KIND_MISSING)
        error = plan_first(tree, length, KIND_OBJECT);
    if (!error)
        error = document_plan_clear_markers(tree, length);
    json_object_foreach(json, name, child) {
        if (!error)
            error = document_push(&tree->key, keel_element_of_string(name));
        if (!error)
            error = plan_merge(tree, looks, child);
        tree->key.length = length;
    }
    return error;
}

static fdb_error_t merge(FDBTransaction *tr, const keel_subspace *space, const keel_element *id,
                         keel_tuple path, const char *text, size_t length) {
    struct document_tree tree;
    struct looks looks = {0};
    json_t *json = NULL;
    fdb_error_t error = document_tree_open(&tree, tr, space, id, path);
    if (!error)
        error = document_parse(text, length, path.count, &json);
    if (!error && json_is_object(json))
        error = look_at_objects(&tree, &looks, json);
    if (!error)
        error = plan_way(&tree);
    if (!error)
        error = plan_merge(&tree, &looks, json);
    if (!error)
        document_plan_carry_out(&tree.plan, tr);
    for (size_t i = 0; i < looks.count; i++)
        fdb_future_destroy(looks.futures[i]);
    free(looks.futures);
    json_decref(json);
    document_tree_close(&tree);
    return error;
}

/* ---- Getting ---- */

static void span_of(const struct document_tree *tree, struct recipe_span *span) {
    size_t length = tree->key.length;
    memcpy(span->begin.data, tree->key.data, length);
    memcpy(span->end.data, tree->key.data, length);
    span->begin.data[length] = 0;
    span->end.data[length] = 0xff;
    span->begin.length = length + tree->leaf_in_key;
    span->end.length = length + 1;
}

static fdb_error_t build_rows(struct document_tree *tree, struct document_build *build) {
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found = true;
    span_of(tree, &span);
    recipe_scan_open(&scan, tree->tr, &span, 0, false, false);
    fdb_error_t error = 0;
    while (!error && found) {
        error = recipe_scan_next(&scan, &key, &value, &found);
        if (!error && found)
            error = document_build_row(build, key, value);
    }
    recipe_scan_close(&scan);
    return error;
}

static fdb_error_t get(FDBTransaction *tr, const keel_subspace *space, const keel_element *id,
                       keel_tuple path, char **json, size_t *length) {
    struct document_tree tree;
    struct document_build build;
    fdb_error_t error = document_tree_open(&tree, tr, space, id, path);
    if (!error && !json)
        error = KEEL_ERROR_ARGUMENT;
    if (!error)
        error = document_build_open(&build, &tree);
    if (!error) {
        error = build_rows(&tree, &build);
        json_t *value = json_array_get(build.frames[0].container, 0);
        if (!error)
            error = value ? document_print(value, json, length) : KEEL_ERROR_NOT_FOUND;
        document_build_close(&build);
    }
    document_tree_close(&tree);
    return error;
}

/* ---- Deleting ---- */

/* Plans the rows of an array's element one index further down. */
static fdb_error_t plan_shift(struct document_tree *tree, size_t parent, keel_bytes key,
                              keel_bytes value) {
    keel_tuple_iterator it = keel_tuple_iterate_behind(key, parent);
    uint8_t *place = NULL, *value_place = NULL;
    int64_t index = 0;
    if (keel_tuple_next_int(&it, &index) || index <= 0)
        return KEEL_ERROR_STORED_FORMAT;
    tree->key.length = parent;
    fdb_error_t error = document_push(&tree->key, keel_element_of_int(index - 1));
    if (error)
        return error;
    size_t rest = key.length - it.position;
    error = document_plan_add(&tree->plan, OPERATION_SET, tree->key.length + rest, value.length,
                              &place,
                     &value_place);
    if (error)
        return error;
    memcpy(place, tree->key.data, tree->key.length);
    memcpy(place + tree->key.length, key.data + it.position, rest);
    if (value.length)
        memcpy(value_place, value.data, value.length);
    return 0;
}

/* Deletes an element; those behind it move up. *left: some are. The key ends up changed. */
static fdb_error_t plan_delete_element(struct document_tree *tree, size_t parent, bool *left) {
    struct recipe_span span;
    struct recipe_scan scan;
    keel_bytes key, value;
    bool found = true;
    span_of(tree, &span);
    fdb_error_t error = document_plan_range(tree, OPERATION_CLEAR, tree->key.length,
                                            document_span_byte(tree), parent,
                                   0xff); /* invariant 5 */
    memcpy(span.begin.data, span.end.data, span.end.length);
    span.begin.length = span.end.length;
    span.end.data[parent] = 0xff;
    span.end.length = parent + 1;
    recipe_scan_open(&scan, tree->tr, &span, 0, false, false);
    while (!error && found) {
        error = recipe_scan_next(&scan, &key, &value, &found);
        if (!error && found) {
            error = plan_shift(tree, parent, key, value);
            *left = true;
        }
    }
    recipe_scan_close(&scan);
    return error;
}

/* Deletes a member. *left: others are. */
static fdb_error_t plan_delete_member(struct document_tree *tree, size_t parent, bool *left) {
    size_t length = tree->key.length;
    bool before = false, behind = false;
    keel_bytes key;
    FDBFuture *first = start_row(tree, parent, 0, length, document_span_byte(tree), false, false);
    FDBFuture *second = start_row(tree, length, 0xff, parent, 0xff, false, false);
    fdb_error_t error = finish_row(first, &before, &key);
    if (!error)
        error = finish_row(second, &behind, &key);
    fdb_future_destroy(first);
    fdb_future_destroy(second);
    *left = before || behind;
    return error ? error : document_plan_clear_span(tree, length);
}

/* Deletes the value at the last step, and marks its parent if that leaves it empty. */
static fdb_error_t plan_delete(struct document_tree *tree) {
    size_t count = tree->steps.count;
    if (count == 0)
        return document_plan_clear_span(tree, tree->key.length);
    size_t parent = tree->lengths[count - 1];
    int64_t index = 0;
    bool left = false, array = is_index(tree, count - 1);
    if (array)
        keel_element_int(&tree->steps.elements[count - 1], &index);
    fdb_error_t error = array ? plan_delete_element(tree, parent, &left)
                              : plan_delete_member(tree, parent, &left);
    if (error || left || index > 0)
        return error;
    tree->key.length = parent;
    return document_plan_marker(tree, array ? EMPTY_ARRAY : EMPTY_OBJECT);
}

static fdb_error_t exists(struct document_tree *tree, bool *found) {
    keel_bytes key;
    FDBFuture *future = start_span(tree, tree->key.length, false, false);
    fdb_error_t error = finish_row(future, found, &key);
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t delete(FDBTransaction *tr, const keel_subspace *space, const keel_element *id,
                          keel_tuple path) {
    struct document_tree tree;
    bool found = false;
    fdb_error_t error = document_tree_open(&tree, tr, space, id, path);
    if (!error)
        error = exists(&tree, &found);
    if (!error && !found)
        error = KEEL_ERROR_NOT_FOUND;
    if (!error)
        error = plan_delete(&tree);
    if (!error)
        document_plan_carry_out(&tree.plan, tr);
    document_tree_close(&tree);
    return error;
}

/* ---- Inserting, with an id from the document or from chance ---- */

/* An id that no document has; reading so makes sure that no other transaction takes it too. */
static fdb_error_t draw_id(FDBTransaction *tr, const keel_subspace *space, keel_element *id) {
    bool taken = true;
    while (taken) {
        struct document_tree tree;
        struct timespec now;
        uint64_t bits = 0;
        if (getentropy(&bits, sizeof bits)) { /* any number will do: it is looked up */
            clock_gettime(CLOCK_MONOTONIC, &now);
            bits = ((uint64_t)now.tv_sec << 30 | (uint64_t)now.tv_nsec) * 0x9e3779b97f4a7c15ULL;
        }
        *id = keel_element_of_int((int64_t)(bits >> 11));
        fdb_error_t error = document_tree_open(&tree, tr, space, id, keel_tuple_of(NULL, 0));
        if (!error)
            error = exists(&tree, &taken);
        document_tree_close(&tree);
        if (error)
            return error;
    }
    return 0;
}

static fdb_error_t find_id(FDBTransaction *tr, const keel_subspace *space, json_t *json,
                           keel_element *id) {
    if (!json_is_object(json))
        return KEEL_ERROR_ARGUMENT;
    json_t *given = json_object_get(json, "doc_id");
    if (given) {
        *id = document_leaf_of(given);
        return json_is_integer(given) || json_is_string(given) ? 0 : KEEL_ERROR_ARGUMENT;
    }
    fdb_error_t error = draw_id(tr, space, id);
    if (error)
        return error;
    json_t *number = json_integer((json_int_t)id->value.as_int);
    return json_object_set_new(json, "doc_id", number) ? NO_MEMORY : 0;
}

KEEL_EXPORT fdb_error_t keel_document_insert(FDBTransaction *tr, const keel_subspace *space,
                                             const char *json, size_t length, int64_t *id) {
    struct document_tree tree;
    json_t *parsed = NULL;
    keel_element element;
    if (!tr || !space)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = document_parse(json, length, 0, &parsed);
    if (!error)
        error = find_id(tr, space, parsed, &element);
    if (!error) {
        error = document_tree_open(&tree, tr, space, &element, keel_tuple_of(NULL, 0));
        if (!error)
            error = plan_replace(&tree, parsed);
        if (!error)
            document_plan_carry_out(&tree.plan, tr);
        document_tree_close(&tree);
    }
    if (!error && id && element.type == KEEL_TYPE_INT)
        *id = element.value.as_int;
    json_decref(parsed);
    return error;
}

/* ---- The other calls ---- */

KEEL_EXPORT fdb_error_t keel_document_set(FDBTransaction *tr, const keel_subspace *space,
                                          keel_element id, keel_tuple path, const char *json,
                                          size_t length) {
    return set(tr, space, &id, path, json, length);
}

KEEL_EXPORT fdb_error_t keel_document_merge(FDBTransaction *tr, const keel_subspace *space,
                                            keel_element id, keel_tuple path, const char *json,
                                            size_t length) {
    return merge(tr, space, &id, path, json, length);
}

KEEL_EXPORT fdb_error_t keel_document_get(FDBTransaction *tr, const keel_subspace *space,
                                          keel_element id, keel_tuple path, char **json,
                                          size_t *length) {
    return get(tr, space, &id, path, json, length);
}

KEEL_EXPORT fdb_error_t keel_document_delete(FDBTransaction *tr, const keel_subspace *space,
                                             keel_element id, keel_tuple path) {
    return delete(tr, space, &id, path);
}

KEEL_EXPORT fdb_error_t keel_document_exists(FDBTransaction *tr, const keel_subspace *space,
                                             keel_element id, keel_tuple path, int *result) {
    struct document_tree tree;
    bool found = false;
    fdb_error_t error = document_tree_open(&tree, tr, space, &id, path);
    if (!error)
        error = result ? exists(&tree, &found) : KEEL_ERROR_ARGUMENT;
    if (!error)
        *result = found;
    document_tree_close(&tree);
    return error;
}

/* The id in a key, and in `next` the first key behind its document. */
static fdb_error_t take_id(size_t prefix, keel_bytes key, keel_element *id,
                           struct recipe_key *next) {
    keel_tuple_iterator it = keel_tuple_iterate_behind(key, prefix);
    if (keel_tuple_next(&it, id))
        return KEEL_ERROR_STORED_FORMAT;
    memcpy(next->data, key.data, it.position);
    next->data[it.position] = 0xff;
    next->length = it.position + 1;
    return 0;
}

/* One document further; *next is where it begins, and where the one after it may. */
static fdb_error_t list_next(FDBTransaction *tr, const keel_subspace *space,
                             struct recipe_span *span, bool *found, keel_document_visitor visit,
                             void *context) {
    struct recipe_scan scan;
    struct recipe_key next;
    keel_bytes key, value;
    keel_element id;
    recipe_scan_open(&scan, tr, span, 1, false, true);
    fdb_error_t error = recipe_scan_next(&scan, &key, &value, found);
    if (!error && *found)
        error = take_id(space->length, key, &id, &next);
    if (!error && *found) {
        error = visit(context, &id);
        memcpy(span->begin.data, next.data, next.length);
        span->begin.length = next.length;
    }
    recipe_scan_close(&scan);
    return error;
}

KEEL_EXPORT fdb_error_t keel_document_list(FDBTransaction *tr, const keel_subspace *space,
                                           const keel_element *after, int limit,
                                           keel_document_visitor visit, void *context) {
    struct recipe_span span;
    bool found = true;
    if (!tr || !space || !visit || limit < 0)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = recipe_span_of(space, keel_tuple_of(NULL, 0), &span);
    if (!error && after) {
        error = recipe_pack(space, keel_tuple_of(after, 1), &span.begin);
        span.begin.data[span.begin.length++] = 0xff;
    }
    for (int count = 0; !error && found && (limit == 0 || count < limit); count++)
        error = list_next(tr, space, &span, &found, visit, context);
    return error;
}

KEEL_EXPORT fdb_error_t keel_hierarchy_insert(FDBTransaction *tr, const keel_subspace *space,
                                              const char *json, size_t length) {
    return merge(tr, space, NULL, keel_tuple_of(NULL, 0), json, length);
}

KEEL_EXPORT fdb_error_t keel_hierarchy_set(FDBTransaction *tr, const keel_subspace *space,
                                           keel_tuple path, const char *json, size_t length) {
    return set(tr, space, NULL, path, json, length);
}

KEEL_EXPORT fdb_error_t keel_hierarchy_get(FDBTransaction *tr, const keel_subspace *space,
                                           keel_tuple path, char **json, size_t *length) {
    return get(tr, space, NULL, path, json, length);
}

KEEL_EXPORT fdb_error_t keel_hierarchy_delete(FDBTransaction *tr, const keel_subspace *space,
                                              keel_tuple path) {
    return delete(tr, space, NULL, path);
}
