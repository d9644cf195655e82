/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the document recipe share; document.c says how it all fits together. Private.
 */
#ifndef RECIPES_DOCUMENT_PRIVATE_H
#define RECIPES_DOCUMENT_PRIVATE_H

#include <keel/document.h>

#include <jansson.h>

#include "support.h"

enum { NO_MEMORY = 1501, TRANSACTION_TOO_LARGE = 2101, KEY_TOO_LARGE = 2102 };
enum { VALUE_TOO_LARGE = 2103 };
enum { EMPTY_OBJECT = -2, EMPTY_ARRAY = -1 }; /* the steps of the markers */
enum { DEPTH_MAX = KEEL_DOCUMENT_DEPTH_MAX };

/* ---- document_plan.c ---- */

enum document_operation { OPERATION_SET, OPERATION_CLEAR, OPERATION_CONFLICT };

/* What is to be done once nothing can fail any more. */
struct document_plan {
    uint8_t *data;
    size_t length, capacity;
    size_t row_bytes; /* keys and values alone */
};

/* A document or hierarchy, a path into it, and what is planned there. */
struct document_tree {
    FDBTransaction *tr;
    bool leaf_in_key;
    struct document_plan plan;
    keel_tuple steps;  /* the path asked for */
    size_t *lengths;   /* of `key` with the first i steps of it; steps.count + 1 */
    struct recipe_key key;
};

/* id NULL: a hierarchy. Close the tree whatever this returns. */
fdb_error_t document_tree_open(struct document_tree *tree, FDBTransaction *tr,
                               const keel_subspace *space, const keel_element *id, keel_tuple path);
/* The same where rows are made without a transaction. */
fdb_error_t document_tree_open_rows(struct document_tree *tree, const keel_subspace *space,
                                    const keel_element *id, keel_tuple path);
void document_tree_close(struct document_tree *tree);

/* Appends an element. key_too_large. */
fdb_error_t document_push(struct recipe_key *key, keel_element element);

/* The byte with which span(P) begins behind P, or -1 for none. */
int document_span_byte(const struct document_tree *tree);

/* Adds an operation and gives the places for its bytes, to be filled before the next is added. */
fdb_error_t document_plan_add(struct document_plan *plan, enum document_operation operation,
                              size_t first_length, size_t second_length, uint8_t **first,
                              uint8_t **second);
/* Plans an operation over [begin, end): each the first bytes of the key, with a byte behind; a
   negative byte is none. */
fdb_error_t document_plan_range(struct document_tree *tree, enum document_operation operation,
                                size_t begin_length, int begin_byte, size_t end_length,
                                int end_byte);
/* Each over the first `length` bytes of the key, P: clears all of span(P); depends on the kind of
   value at P (invariant 2); clears P's marker (invariant 3). */
fdb_error_t document_plan_clear_span(struct document_tree *tree, size_t length);
fdb_error_t document_plan_depend(struct document_tree *tree, size_t length);
fdb_error_t document_plan_clear_markers(struct document_tree *tree, size_t length);
/* Each at the key: the marker of an empty container; the rows of a value. */
fdb_error_t document_plan_marker(struct document_tree *tree, int marker);
fdb_error_t document_plan_value(struct document_tree *tree, json_t *json);
void document_plan_carry_out(const struct document_plan *plan, FDBTransaction *tr);
/* The rows that it sets. */
fdb_error_t document_plan_visit(const struct document_plan *plan, keel_document_row visit,
                                void *context);

/* The element of a scalar; it points into the scalar. */
keel_element document_leaf_of(const json_t *json);

/* ---- document_json.c ---- */

/* `steps`: how deep the value will lie. *json is the caller's. */
fdb_error_t document_parse(const char *text, size_t length, size_t steps, json_t **json);
/* *result is malloc'ed; length may be NULL. */
fdb_error_t document_print(json_t *json, char **result, size_t *length);

struct document_frame {
    json_t *container;  /* borrowed from its parent */
    size_t end;         /* of its path in the last row's key */
    int64_t last_index; /* that an array got */
};

/* Frame 0 is an array that holds the value itself; the frames are the containers that the last row
   went through. Rows come in key order, so a container that a row leaves never comes back. */
struct document_build {
    struct document_frame *frames;
    size_t top;
    bool leaf_in_key;
    struct recipe_key last;
};

/* On success, close it; frame 0 then has the value, if there were rows. */
fdb_error_t document_build_open(struct document_build *build, const struct document_tree *tree);
/* Begins with another value, whose path ends at this length of its rows' keys. */
fdb_error_t document_build_again(struct document_build *build, size_t path_length);
/* Rows in key order, all below the key of the tree. */
fdb_error_t document_build_row(struct document_build *build, keel_bytes key, keel_bytes value);
void document_build_close(struct document_build *build);

#endif
