/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked lists: nodes with an id of their own, joined by keys that name the next.
 *
 *     keel_subspace playlist;
 *     error = keel_subspace_tuple(KEEL_TUPLE("node"), &playlist);
 *     error = keel_list_insert_after(tr, &playlist, KEEL_LIST_ONE_WAY, KEEL_LIST_HEAD,
 *                                    keel_bytes_of_string("song-17"), keel_bytes_of_string("..."));
 *     error = keel_list_walk(tr, &playlist, KEEL_LIST_HEAD, 0, print, NULL);
 *
 * Keys, with ids as byte strings:
 *
 *     (subspace, id, "next") = id of the next node, or nothing at the end
 *     (subspace, id, "value") = value
 *     (subspace, id, "previous") = id of the node before, in lists of two ways
 *
 * The head is the node with the empty id, KEEL_LIST_HEAD: its next is the first node, its previous
 * the last. It has no value and is never removed. Inserting, removing and moving change links, not
 * places: an id stays good until its node is removed, whatever happens around it.
 *
 * One way or two. KEEL_LIST_ONE_WAY is the layout of the data modelling document. To insert before
 * a node, at the end, or to remove a node by its id, such a list has to be walked from its head.
 * With KEEL_LIST_TWO_WAY these touch the neighbours only, for one more key a node. A list is of one
 * kind for all its life, for all its writers; what others remove from a two-way list with one-way
 * code breaks it.
 *
 * Ids: any bytes but none at all, at most KEEL_LIST_ID_BYTES_MAX; one node each. keel_list_new_id
 * makes random ones.
 *
 * Errors. NOT_FOUND where a node that is named is not in the list, DUPLICATE if the new id is,
 * EMPTY_NAME for an empty id where a node is meant, ARGUMENT for NULL where something is needed and
 * for ids that are too long, value_too_large (2103), STORED_FORMAT where links lead nowhere or are
 * missing. A function that fails has written nothing. Errors of the database come back as they are.
 *
 * Conflicts. Changes conflict with others of the same links, that is, of neighbours; elsewhere in
 * the list they go on side by side. What commits always leaves one chain from head to end. A walk
 * sees the list of one moment, and conflicts, if its transaction also writes, with every change of
 * the nodes it has seen.
 *
 * Nothing here commits. Threads: as the transaction.
 */
#ifndef KEEL_LIST_H
#define KEEL_LIST_H

#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KEEL_LIST_ID_BYTES_MAX = 1000, KEEL_LIST_NEW_ID_BYTES = 16 };

#define KEEL_LIST_HEAD keel_bytes_of(NULL, 0)

typedef enum keel_list_links { KEEL_LIST_ONE_WAY, KEEL_LIST_TWO_WAY } keel_list_links;

/* A random id that nobody else gets. 1501 if the system has no randomness. */
fdb_error_t keel_list_new_id(uint8_t id[KEEL_LIST_NEW_ID_BYTES]);

/* ---- Changing ---- */

/* Inserts a node behind `after`; KEEL_LIST_HEAD: as the first. Two rows, read together. */
fdb_error_t keel_list_insert_after(FDBTransaction *tr, const keel_subspace *list,
                                   keel_list_links links, keel_bytes after, keel_bytes id,
                                   keel_bytes value);

/* Inserts a node in front of `before`; KEEL_LIST_HEAD: as the last. Two rows, read together; with
   one way, all nodes before it. */
fdb_error_t keel_list_insert_before(FDBTransaction *tr, const keel_subspace *list,
                                    keel_list_links links, keel_bytes before, keel_bytes id,
                                    keel_bytes value);

/* Removes the node behind `after`. *removed (may be NULL): whether there was one. Two rows. */
fdb_error_t keel_list_remove_after(FDBTransaction *tr, const keel_subspace *list,
                                   keel_list_links links, keel_bytes after, bool *removed);

/* Removes a node. Two rows, read together; with one way, all nodes before it. */
fdb_error_t keel_list_remove(FDBTransaction *tr, const keel_subspace *list, keel_list_links links,
                             keel_bytes id);

/* Gives a node another value. */
fdb_error_t keel_list_set(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                          keel_bytes value);

/* Removes all nodes. Reads nothing. */
fdb_error_t keel_list_clear(FDBTransaction *tr, const keel_subspace *list);

/* ---- Looking ---- */

/* The value of a node, malloc'ed with a NUL behind: free() it. A node without a value has "". */
fdb_error_t keel_list_get(FDBTransaction *tr, const keel_subspace *list, keel_bytes id,
                          uint8_t **value, size_t *length);

/*
 * Called for each node in turn; both are valid during the call. Anything but 0 ends the walk and is
 * what it returns (100000 and up are free for programs).
 */
typedef fdb_error_t (*keel_list_visitor)(void *context, keel_bytes id, keel_bytes value);

/*
 * Visits the nodes behind `after` in order, at most `limit` of them, 0 for all. To go on in another
 * transaction, start behind the last node that was visited. One read a node, each after the other,
 * since only a node knows the next.
 */
fdb_error_t keel_list_walk(FDBTransaction *tr, const keel_subspace *list, keel_bytes after,
                           size_t limit, keel_list_visitor visit, void *context);

/* The same backwards, from the node in front of `before`; KEEL_LIST_HEAD: from the last. Two-way
   lists only (STORED_FORMAT). */
fdb_error_t keel_list_walk_back(FDBTransaction *tr, const keel_subspace *list, keel_bytes before,
                                size_t limit, keel_list_visitor visit, void *context);

#ifdef __cplusplus
}
#endif

#endif
