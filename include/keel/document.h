/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents: JSON in and out, whole or by path. Each leaf of the tree is a key of its own, so one
 * field is read or changed without the rest.
 *
 *     static const char text[] = "{\"name\": \"alice\", \"tags\": [\"dev\", \"ops\"]}";
 *     error = keel_document_set(tr, &space, KEEL_ELEMENT(7), KEEL_TUPLE(), text, strlen(text));
 *     error = keel_document_get(tr, &space, KEEL_ELEMENT(7), KEEL_TUPLE("tags", 0), &json, NULL);
 *
 * Keys: prefix + (id, name or index, …) = packed (leaf,)
 *
 *     (7, "name")    = ("alice",)          strings, integers, doubles, booleans, null
 *     (7, "tags", 0) = ("dev",)            array elements by index, without gaps
 *     (7, "x", -2)   = (null,)             "x" is {}
 *     (7, "y", -1)   = (null,)             "y" is []
 *
 * A hierarchy (keel_hierarchy_…) is one tree in a subspace, with the leaf in the key as well:
 * prefix + (name or index, …, leaf) = "". It finds by value in order, but a leaf must fit in a key.
 * Both layouts are those of FoundationDB's documents; their Python code works on the same data.
 *
 * Every function takes a transaction, never commits, blocks until it has read what it needs (not on
 * the network thread) and writes nothing unless it returns 0.
 *
 * JSON: integers of 64 bits stay integers, doubles keep every bit, strings hold any Unicode, NUL
 * too; member names hold no NUL. Of members with the same name the last counts. Members come back
 * in the order of their bytes, not in the order they were given. Texts are compact, UTF-8.
 *
 * Errors of all: ARGUMENT (NULL; an id that is a tuple or an incomplete versionstamp; a path
 * element that is neither a string nor an integer), INDEX_RANGE (negative), NOT_UTF8, 1501 without
 * memory, the errors of the reads. Of calls that take JSON: JSON, INTEGER_TOO_LARGE (a
 * number beyond 64-bit integers or doubles), DOCUMENT_DEPTH, key_too_large (2102) for a path that
 * does not fit in a key, value_too_large (2103) for a string beyond 100,000 bytes packed,
 * transaction_too_large (2101) for more than 10,000,000 bytes of rows. Of calls that return JSON:
 * STORED_FORMAT for rows that are no document (names and indexes at one place, NaN, text that is
 * not UTF-8), INTEGER_TOO_LARGE for integers beyond 64 bits, which Python may have written. Where
 * the documents' inserts, which clear nothing, have left several values at one place, the first in
 * key order is read, as their code does.
 *
 * Threads: any; what a transaction allows is the library's to say.
 */
#ifndef KEEL_DOCUMENT_H
#define KEEL_DOCUMENT_H

#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Objects and arrays inside each other, path included. Beyond what Python's code can recurse to. */
enum { KEEL_DOCUMENT_DEPTH_MAX = 1000 };

/* ---- Documents, each with an id ----
 *
 * `id` is one element of any scalar type, an integer or a string most of the time. `path` leads
 * from the root of the document down, strings for members and integers for array elements;
 * KEEL_TUPLE() is the whole document. `length` counts the bytes of `json`, which needs no NUL.
 */

/*
 * Stores a new document, an object (ARGUMENT otherwise), as the documents' insert_doc does: its id
 * is its member "doc_id", an integer or a string; if it has none, it gets one that no document
 * has, from 0 to 2^53. A document that was there is replaced. *id (may be NULL) is set if the id is
 * an integer. Reads one row if it has to find an id.
 */
fdb_error_t keel_document_insert(FDBTransaction *tr, const keel_subspace *space, const char *json,
                                 size_t length, int64_t *id);

/*
 * Replaces what is at the path by any JSON value, or puts it there. Missing parents become objects
 * or arrays as the path wants them. DOCUMENT_PATH if the path leads through a scalar, by a name
 * into an array or by an index into an object; INDEX_RANGE for an index beyond the end of its array
 * (the end itself appends).
 *
 * The whole document: no reads. A path: a row for each of its elements, two for an index, all read
 * at once. Conflicts with whoever replaces or deletes the value at the path or one of its parents,
 * or makes an array of a missing parent that becomes an object here, and the other way round;
 * two that set different members of one object do not conflict, two that append to one array do.
 */
fdb_error_t keel_document_set(FDBTransaction *tr, const keel_subspace *space, keel_element id,
                              keel_tuple path, const char *json, size_t length);

/*
 * Merges JSON into what is at the path: objects member by member, anything else replaces what was
 * in its place, null too. Errors as keel_document_set. Reads a row for each object in the JSON, all
 * at once, and those of the path.
 */
fdb_error_t keel_document_merge(FDBTransaction *tr, const keel_subspace *space, keel_element id,
                                keel_tuple path, const char *json, size_t length);

/*
 * What is at the path, as JSON: malloc'ed, the caller's to free(), with a NUL behind it that
 * *length (may be NULL) does not count. NOT_FOUND. Reads its rows in one scan, and conflicts with
 * changes of them alone.
 */
fdb_error_t keel_document_get(FDBTransaction *tr, const keel_subspace *space, keel_element id,
                              keel_tuple path, char **json, size_t *length);

/*
 * Deletes what is at the path. NOT_FOUND. An object or array whose last element goes stays, empty;
 * elements behind a deleted one move up, which reads and writes all of them. Otherwise reads at
 * most three rows.
 */
fdb_error_t keel_document_delete(FDBTransaction *tr, const keel_subspace *space, keel_element id,
                                 keel_tuple path);

/* Whether there is something at the path. Reads one row. */
fdb_error_t keel_document_exists(FDBTransaction *tr, const keel_subspace *space, keel_element id,
                                 keel_tuple path, int *exists);

/*
 * Calls `visit` with the id of each document in order, beginning behind `after` (NULL: with the
 * first), at most `limit` (0: all). The id lasts until `visit` returns; its non-zero answer ends
 * the listing and comes back. Reads one row for each document, one after the other, by snapshot.
 */
typedef fdb_error_t (*keel_document_visitor)(void *context, const keel_element *id);
fdb_error_t keel_document_list(FDBTransaction *tr, const keel_subspace *space,
                               const keel_element *after, int limit, keel_document_visitor visit,
                               void *context);

/*
 * The same with the documents themselves, as JSON that lasts until `visit` returns: all rows in one
 * scan, by snapshot. Rows of an id that are no document are STORED_FORMAT.
 */
typedef fdb_error_t (*keel_document_reader)(void *context, const keel_element *id,
                                            const char *json, size_t length);
fdb_error_t keel_document_scan(FDBTransaction *tr, const keel_subspace *space,
                               const keel_element *after, int limit, keel_document_reader visit,
                               void *context);

/*
 * The rows that keel_document_set writes for a whole document, for who writes them by other means:
 * a bulk load (keel/bulk.h), a file. Calls `visit` with each, not in the order of keys; both views
 * last until it returns, its non-zero answer ends the walk and comes back. `id` NULL: the id is the
 * document's member `id_member`, NOT_FOUND if it has none, TUPLE_TYPE if that is null, an object or
 * an array; an integer, double, boolean or string will do. `id_member` is not looked at otherwise.
 * Errors come before the first row is visited.
 */
typedef fdb_error_t (*keel_document_row)(void *context, keel_bytes key, keel_bytes value);
fdb_error_t keel_document_rows(const keel_subspace *space, const keel_element *id,
                               const char *id_member, const char *json, size_t length,
                               keel_document_row visit, void *context);

/* ---- Hierarchies: one tree, leaves in the keys ----
 *
 * As the functions above, without an id. A leaf that does not fit in its key is key_too_large.
 * Where Python's insert_hier has left several leaves at one path, the first in key order is it.
 */

/* Merges, as different objects may tell about the same entities: the documents' insert_hier. */
fdb_error_t keel_hierarchy_insert(FDBTransaction *tr, const keel_subspace *space, const char *json,
                                  size_t length);
fdb_error_t keel_hierarchy_set(FDBTransaction *tr, const keel_subspace *space, keel_tuple path,
                               const char *json, size_t length);
fdb_error_t keel_hierarchy_get(FDBTransaction *tr, const keel_subspace *space, keel_tuple path,
                               char **json, size_t *length);
fdb_error_t keel_hierarchy_delete(FDBTransaction *tr, const keel_subspace *space, keel_tuple path);

#ifdef __cplusplus
}
#endif

#endif
