/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked lists by indirection: values that are the ids of other nodes.
 *
 *     ("", next) = a      (a, next) = b      (b, next) = ""         one way
 *     ("", previous) = b  (b, previous) = a  (a, previous) = ""     and back
 *
 * The empty id stands for the head where it is a node and for the end where it is a link: the list
 * is a ring through the head, and inserting first, last or between is all the same.
 *
 * Invariants:
 *   1. A node is in the list if and only if it has a `next`. (The head has none while nothing was
 *      ever inserted; that means "".)
 *   2. Two ways: next(x) = y if and only if previous(y) = x.
 *   3. Whoever changes a link has read one of the two that describe the same neighbourhood, and
 *      writes both. So of two concurrent changes at one place one reads what the other writes, and
 *      conflicts; that keeps 2. With one way there is only one link, which is read and written.
 *
 * Reads that do not need each other's result are started together. Failure: arguments, then reads,
 * then writes; writes cannot fail (ids are short enough for any subspace).
 */
#include <keel/list.h>

#include "support.h"

#include <stdlib.h>
#include <sys/random.h>

enum { VALUE_TOO_LARGE = 2103, LARGE_ALLOC_FAILED = 1501 };

static const char NEXT[] = "next", PREVIOUS[] = "previous", VALUE[] = "value";

/* ---- Arguments, ids, keys ---- */

static fdb_error_t check_place(keel_bytes id) {
    return (!id.data && id.length) || id.length > KEEL_LIST_ID_BYTES_MAX ? KEEL_ERROR_ARGUMENT : 0;
}

static fdb_error_t check_id(keel_bytes id) {
    return id.length == 0 ? KEEL_ERROR_EMPTY_NAME : check_place(id);
}

static fdb_error_t check_value(keel_bytes value) {
    if (!value.data && value.length)
        return KEEL_ERROR_ARGUMENT;
    return value.length > RECIPE_VALUE_MAX ? VALUE_TOO_LARGE : 0;
}

static bool is_head(keel_bytes id) {
    return id.length == 0;
}

/* An id that was read, and is kept while others are read. */
struct node_id {
    size_t length;
    uint8_t data[KEEL_LIST_ID_BYTES_MAX];
};

static keel_bytes id_bytes(const struct node_id *id) {
    return keel_bytes_of(id->data, id->length);
}

static fdb_error_t keep_id(keel_bytes bytes, struct node_id *id) {
    if (bytes.length > KEEL_LIST_ID_BYTES_MAX)
        return KEEL_ERROR_STORED_FORMAT;
    if (bytes.length)
        memcpy(id->data, bytes.data, bytes.length);
    id->length = bytes.length;
    return 0;
}

static fdb_error_t pack_part(const keel_subspace *list, keel_bytes id, const char *part,
                             struct recipe_key *key) {
    const keel_element elements[2] = {keel_element_of_bytes(id), keel_element_of_string(part)};
    return recipe_pack(list, keel_tuple_of(elements, 2), key);
}

static fdb_error_t set_part(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                            const char *part, keel_bytes value) {
    struct recipe_key key;
    fdb_error_t error = pack_part(list, id, part, &key);
    if (!error)
        recipe_set(tr, &key, value);
    return error;
}

static FDBFuture *start_part(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                             const char *part, bool snapshot, fdb_error_t *error) {
    struct recipe_key key;
    *error = pack_part(list, id, part, &key);
    return *error ? NULL : recipe_get_start(tr, &key, snapshot);
}

/* ---- Links ---- */

/* Waits for a link of `of` and destroys the future. Without it: the head's is the end, any other
   node is not in the list (`missing`). */
static fdb_error_t finish_link(FDBFuture *future, keel_bytes of, fdb_error_t missing,
                               struct node_id *link) {
    bool present = false;
    keel_bytes value;
    fdb_error_t error = recipe_get_finish(future, &present, &value);
    if (!error && present)
        error = keep_id(value, link);
    else if (!error && is_head(of))
        link->length = 0;
    else if (!error)
        error = missing;
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t read_link(FDBTransaction *tr, const keel_subspace *list, keel_bytes of,
                             const char *part, fdb_error_t missing, struct node_id *link) {
    fdb_error_t error;
    FDBFuture *future = start_part(tr, list, of, part, false, &error);
    return error ? error : finish_link(future, of, missing, link);
}

/* Reads a link of `of`, and at the same time that there is no node `id` yet. */
static fdb_error_t read_for_insert(FDBTransaction *tr, const keel_subspace *list, keel_bytes of,
                                   const char *part, keel_bytes id, struct node_id *link) {
    fdb_error_t error, error_other;
    bool present = false;
    keel_bytes value;
    FDBFuture *taken = start_part(tr, list, id, NEXT, false, &error);
    if (error)
        return error;
    error = read_link(tr, list, of, part, KEEL_ERROR_NOT_FOUND, link);
    error_other = recipe_get_finish(taken, &present, &value);
    if (!error)
        error = error_other;
    if (!error && present)
        error = KEEL_ERROR_DUPLICATE;
    fdb_future_destroy(taken);
    return error;
}

/* Joins two neighbours. */
static fdb_error_t join(FDBTransaction *tr, const keel_subspace *list, keel_list_links links,
                        keel_bytes left, keel_bytes right) {
    fdb_error_t error = set_part(tr, list, left, NEXT, right);
    if (!error && links == KEEL_LIST_TWO_WAY)
        error = set_part(tr, list, right, PREVIOUS, left);
    return error;
}

static fdb_error_t insert_between(FDBTransaction *tr, const keel_subspace *list,
                                  keel_list_links links, keel_bytes left, keel_bytes right,
                                  keel_bytes id, keel_bytes value) {
    fdb_error_t error = join(tr, list, links, left, id);
    if (!error)
        error = join(tr, list, links, id, right);
    return error ? error : set_part(tr, list, id, VALUE, value);
}

static fdb_error_t remove_between(FDBTransaction *tr, const keel_subspace *list,
                                  keel_list_links links, keel_bytes left, keel_bytes id,
                                  keel_bytes right) {
    struct recipe_span span;
    keel_element element = keel_element_of_bytes(id);
    fdb_error_t error = recipe_span_of(list, keel_tuple_of(&element, 1), &span);
    if (error)
        return error;
    recipe_clear_span(tr, &span);
    return join(tr, list, links, left, right);
}

/* The node before `id` (the head's is the last), found by walking. */
static fdb_error_t find_before(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                               struct node_id *before) {
    struct node_id next;
    before->length = 0;
    for (;;) {
        bool first = before->length == 0;
        fdb_error_t error =
            read_link(tr, list, id_bytes(before), NEXT, KEEL_ERROR_STORED_FORMAT, &next);
        if (error)
            return error;
        if (keel_bytes_compare(id_bytes(&next), id) == 0)
            return 0;
        if (next.length == 0)
            return KEEL_ERROR_NOT_FOUND;
        if (!first && keel_bytes_compare(id_bytes(&next), id_bytes(before)) == 0)
            return KEEL_ERROR_STORED_FORMAT; /* a node that follows itself */
        *before = next;
    }
}

/* ---- Changing ---- */

KEEL_EXPORT fdb_error_t keel_list_new_id(uint8_t id[KEEL_LIST_NEW_ID_BYTES]) {
    uint8_t bytes[KEEL_LIST_NEW_ID_BYTES];
    if (!id)
        return KEEL_ERROR_ARGUMENT;
    if (getentropy(bytes, sizeof bytes) != 0)
        return LARGE_ALLOC_FAILED;
    memcpy(id, bytes, sizeof bytes);
    return 0;
}

static fdb_error_t check_insert(FDBTransaction *tr, const keel_subspace *list,
                                keel_list_links links, keel_bytes place, keel_bytes id,
                                keel_bytes value) {
    if (!tr || !list || (links != KEEL_LIST_ONE_WAY && links != KEEL_LIST_TWO_WAY))
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_place(place);
    if (!error)
        error = check_id(id);
    return error ? error : check_value(value);
}

KEEL_EXPORT fdb_error_t keel_list_insert_after(FDBTransaction *tr, const keel_subspace *list,
                                               keel_list_links links, keel_bytes after,
                                               keel_bytes id, keel_bytes value) {
    struct node_id next;
    fdb_error_t error = check_insert(tr, list, links, after, id, value);
    if (!error)
        error = read_for_insert(tr, list, after, NEXT, id, &next);
    return error ? error : insert_between(tr, list, links, after, id_bytes(&next), id, value);
}

KEEL_EXPORT fdb_error_t keel_list_insert_before(FDBTransaction *tr, const keel_subspace *list,
                                                keel_list_links links, keel_bytes before,
                                                keel_bytes id, keel_bytes value) {
    struct node_id left, unused;
    fdb_error_t error = check_insert(tr, list, links, before, id, value);
    if (error)
        return error;
    if (links == KEEL_LIST_TWO_WAY) {
        error = read_for_insert(tr, list, before, PREVIOUS, id, &left);
    } else {
        error = read_for_insert(tr, list, before, NEXT, id, &unused);
        if (!error)
            error = find_before(tr, list, before, &left);
    }
    return error ? error : insert_between(tr, list, links, id_bytes(&left), before, id, value);
}

KEEL_EXPORT fdb_error_t keel_list_remove_after(FDBTransaction *tr, const keel_subspace *list,
                                               keel_list_links links, keel_bytes after,
                                               bool *removed) {
    struct node_id id, next;
    fdb_error_t error = check_insert(tr, list, links, after, keel_bytes_of("x", 1), after);
    if (!error)
        error = read_link(tr, list, after, NEXT, KEEL_ERROR_NOT_FOUND, &id);
    if (!error && id.length) {
        error = read_link(tr, list, id_bytes(&id), NEXT, KEEL_ERROR_STORED_FORMAT, &next);
        if (!error)
            error = remove_between(tr, list, links, after, id_bytes(&id), id_bytes(&next));
    }
    if (!error && removed)
        *removed = id.length != 0;
    return error;
}

/* Both links of a node of a two-way list, read together. */
static fdb_error_t read_neighbours(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                                   struct node_id *left, struct node_id *right) {
    fdb_error_t error;
    FDBFuture *next = start_part(tr, list, id, NEXT, false, &error);
    if (error)
        return error;
    fdb_error_t error_left =
        read_link(tr, list, id, PREVIOUS, KEEL_ERROR_STORED_FORMAT, left);
    error = finish_link(next, id, KEEL_ERROR_NOT_FOUND, right);
    return error ? error : error_left;
}

KEEL_EXPORT fdb_error_t keel_list_remove(FDBTransaction *tr, const keel_subspace *list,
                                         keel_list_links links, keel_bytes id) {
    struct node_id left, right;
    fdb_error_t error = check_insert(tr, list, links, id, id, keel_bytes_of(NULL, 0));
    if (error)
        return error;
    if (links == KEEL_LIST_TWO_WAY) {
        error = read_neighbours(tr, list, id, &left, &right);
    } else {
        error = read_link(tr, list, id, NEXT, KEEL_ERROR_NOT_FOUND, &right);
        if (!error)
            error = find_before(tr, list, id, &left);
    }
    return error ? error
                 : remove_between(tr, list, links, id_bytes(&left), id, id_bytes(&right));
}

/* That the node is there is seen in a snapshot of its link, which others may change meanwhile; that
   it is not removed, by a conflict on its value. */
KEEL_EXPORT fdb_error_t keel_list_set(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                                      keel_bytes value) {
    struct recipe_key key;
    struct node_id next;
    fdb_error_t error = check_insert(tr, list, KEEL_LIST_ONE_WAY, id, id, value);
    if (error)
        return error;
    FDBFuture *future = start_part(tr, list, id, NEXT, true, &error);
    if (!error)
        error = finish_link(future, id, KEEL_ERROR_NOT_FOUND, &next);
    if (!error)
        error = pack_part(list, id, VALUE, &key);
    if (!error)
        error = recipe_read_conflict(tr, keel_bytes_of(key.data, key.length));
    if (!error)
        recipe_set(tr, &key, value);
    return error;
}

KEEL_EXPORT fdb_error_t keel_list_clear(FDBTransaction *tr, const keel_subspace *list) {
    struct recipe_span span;
    if (!tr || !list)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = recipe_span_of(list, keel_tuple_of(NULL, 0), &span);
    if (error)
        return error;
    recipe_clear_span(tr, &span);
    /* The head stays, as a node with nothing behind it: code that knows no absent head reads it. */
    return set_part(tr, list, KEEL_LIST_HEAD, NEXT, keel_bytes_of(NULL, 0));
}

/* ---- Looking ---- */

static fdb_error_t copy_value(keel_bytes value, uint8_t **copy) {
    uint8_t *memory = malloc(value.length + 1);
    if (!memory)
        return LARGE_ALLOC_FAILED;
    if (value.length)
        memcpy(memory, value.data, value.length);
    memory[value.length] = 0;
    *copy = memory;
    return 0;
}

/* A node as it was read; its value lives as long as the future. */
struct node {
    FDBFuture *link_future, *value_future;
    struct node_id link;
    keel_bytes value;
};

static void close_node(struct node *node) {
    if (node->link_future)
        fdb_future_destroy(node->link_future);
    if (node->value_future)
        fdb_future_destroy(node->value_future);
}

/* Reads a link and the value of a node, together. Close it in any case. */
static fdb_error_t read_node(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                             const char *part, fdb_error_t missing, struct node *node) {
    fdb_error_t error;
    bool present = false;
    keel_bytes link;
    memset(node, 0, offsetof(struct node, link));
    node->value = keel_bytes_of(NULL, 0);
    node->link_future = start_part(tr, list, id, part, false, &error);
    if (!error)
        node->value_future = start_part(tr, list, id, VALUE, false, &error);
    if (!error)
        error = recipe_get_finish(node->link_future, &present, &link);
    if (!error)
        error = present ? keep_id(link, &node->link) : missing;
    return error ? error : recipe_get_finish(node->value_future, &present, &node->value);
}

KEEL_EXPORT fdb_error_t keel_list_get(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                                      uint8_t **value, size_t *length) {
    struct node node;
    if (!tr || !list || !value || !length)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_id(id);
    if (error)
        return error;
    error = read_node(tr, list, id, NEXT, KEEL_ERROR_NOT_FOUND, &node);
    if (!error)
        error = copy_value(node.value, value);
    if (!error)
        *length = node.value.length;
    close_node(&node);
    return error;
}

static fdb_error_t walk(FDBTransaction *tr, const keel_subspace *list, keel_bytes from,
                        const char *part, size_t limit, keel_list_visitor visit, void *context) {
    struct node_id id;
    struct node node;
    if (!tr || !list || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = check_place(from);
    if (!error)
        error = read_link(tr, list, from, part, KEEL_ERROR_NOT_FOUND, &id);
    for (size_t visited = 0; !error && id.length && (!limit || visited < limit); visited++) {
        error = read_node(tr, list, id_bytes(&id), part, KEEL_ERROR_STORED_FORMAT, &node);
        if (!error)
            error = visit(context, id_bytes(&id), node.value);
        if (!error)
            id = node.link;
        close_node(&node);
    }
    return error;
}

KEEL_EXPORT fdb_error_t keel_list_walk(FDBTransaction *tr, const keel_subspace *list,
                                       keel_bytes after, size_t limit, keel_list_visitor visit,
                                       void *context) {
    return walk(tr, list, after, NEXT, limit, visit, context);
}

/* The head of a one-way list has no `previous` though there is a next. */
static fdb_error_t check_two_way(FDBTransaction *tr, const keel_subspace *list) {
    struct node_id first, last;
    fdb_error_t error = read_neighbours(tr, list, KEEL_LIST_HEAD, &last, &first);
    return !error && first.length && !last.length ? KEEL_ERROR_STORED_FORMAT : error;
}

KEEL_EXPORT fdb_error_t keel_list_walk_back(FDBTransaction *tr, const keel_subspace *list,
                                            keel_bytes before, size_t limit,
                                            keel_list_visitor visit, void *context) {
    if (!tr || !list || !visit)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = is_head(before) ? check_two_way(tr, list) : 0;
    return error ? error : walk(tr, list, before, PREVIOUS, limit, visit, context);
}
