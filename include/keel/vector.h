/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors: values by index, of one dimension or many, with holes that cost nothing.
 *
 *     keel_subspace temperatures;
 *     error = keel_subspace_tuple(KEEL_TUPLE("V"), &temperatures);
 *     error = keel_vector_push(tr, &temperatures, keel_bytes_of_string("21.5"), &index);
 *     error = keel_vector_get(tr, &temperatures, index, &value, &length);
 *     free(value);
 *
 * Keys: (subspace, index) = value, and (subspace, i, j, ...) = value with more dimensions. Nothing
 * else is stored: the size is one more than the last index that is there.
 *
 * Holes. An index below the size that was never set, or erased, is a hole. keel_vector_get says
 * NULL there; keel_vector_scan leaves it out, or gives a default in its place if it is told one.
 *
 * Errors. INDEX_RANGE for an index that is negative or above KEEL_VECTOR_INDEX_MAX, value_too_large
 * (2103) for a value beyond 100,000 bytes, key_too_large (2102), STORED_FORMAT where keys under the
 * subspace are no vector's; ARGUMENT for NULL where something is needed. Arguments are checked
 * before anything is read or written, and a function that fails has written nothing. Errors of the
 * database come back as they are, for the retry loop.
 *
 * Memory. Values that are returned are malloc'ed and have a NUL behind their length: free() them.
 * Outputs are untouched on failure.
 *
 * Conflicts. Reading and writing different indexes never conflicts. Whatever has to know the end
 * (size, push, pop, resize) conflicts with whatever moves it, so pushes are one after the other:
 * for many writers use a queue or a log. truncate and set read nothing.
 *
 * Nothing here commits. Threads: as the transaction.
 */
#ifndef KEEL_VECTOR_H
#define KEEL_VECTOR_H

#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The greatest index, so that a size is always an int64_t; and, as an end, "to the last". */
#define KEEL_VECTOR_INDEX_MAX (INT64_MAX - 1)
#define KEEL_VECTOR_END INT64_MAX

enum { KEEL_VECTOR_DIMENSIONS_MAX = 32 };

/* ---- One dimension ---- */

/* Sets an element; beyond the end too, which leaves holes before it. Reads nothing. */
fdb_error_t keel_vector_set(FDBTransaction *tr, const keel_subspace *vector, int64_t index,
                            keel_bytes value);

/* The element, or *value NULL and *length 0 for a hole and beyond the end. One row. */
fdb_error_t keel_vector_get(FDBTransaction *tr, const keel_subspace *vector, int64_t index,
                            uint8_t **value, size_t *length);

/* Makes a hole. If it was the last element, the vector ends with the one before. Reads nothing. */
fdb_error_t keel_vector_erase(FDBTransaction *tr, const keel_subspace *vector, int64_t index);

/* One more than the last index, 0 for an empty vector. One row, however long the vector. */
fdb_error_t keel_vector_size(FDBTransaction *tr, const keel_subspace *vector, int64_t *size);

/* Sets the element behind the last one. *index (may be NULL) is where it went. One row read. */
fdb_error_t keel_vector_push(FDBTransaction *tr, const keel_subspace *vector, keel_bytes value,
                             int64_t *index);

/*
 * Takes the last element away; *value is NULL if the vector was empty, and nothing changes. The
 * size falls by exactly one: if that makes a hole the last element, `hole` is stored there (no
 * bytes is fine). Two rows read.
 */
fdb_error_t keel_vector_pop(FDBTransaction *tr, const keel_subspace *vector, keel_bytes hole,
                            uint8_t **value, size_t *length);

/* Exchanges two elements; one that is a hole makes the other a hole. Two rows, read together. */
fdb_error_t keel_vector_swap(FDBTransaction *tr, const keel_subspace *vector, int64_t a, int64_t b);

/*
 * Called for each element in turn; `value` is valid during the call. Anything but 0 ends the scan
 * and is what it returns (100000 and up are free for programs). It may write to the transaction.
 */
typedef fdb_error_t (*keel_vector_visitor)(void *context, int64_t index, keel_bytes value);

/*
 * Visits the elements with begin <= index < end, in order; KEEL_VECTOR_END for all. With `hole`
 * NULL only those that are there; otherwise *hole is given for every hole below the size. Costs the
 * rows that are there, and one for the size where holes are wanted. INDEX_RANGE also if end <
 * begin.
 */
fdb_error_t keel_vector_scan(FDBTransaction *tr, const keel_subspace *vector, int64_t begin,
                             int64_t end, const keel_bytes *hole, keel_vector_visitor visit,
                             void *context);

/*
 * Removes all elements from `size` on. Reads nothing, so a hole before it becomes no element: the
 * vector then ends with the last one that is there. 0 removes everything.
 */
fdb_error_t keel_vector_truncate(FDBTransaction *tr, const keel_subspace *vector, int64_t size);

/*
 * Makes the size exactly `size`, shorter or longer: `hole` is stored as the last element where
 * there is none. One row read.
 */
fdb_error_t keel_vector_resize(FDBTransaction *tr, const keel_subspace *vector, int64_t size,
                               keel_bytes hole);

/* ---- Many dimensions ---- */

/*
 * `indexes` has `dimensions` of them, 1 to KEEL_VECTOR_DIMENSIONS_MAX (ARGUMENT), the most
 * significant first. All elements of a vector should have the same number.
 */
fdb_error_t keel_vector_set_at(FDBTransaction *tr, const keel_subspace *vector,
                               const int64_t *indexes, size_t dimensions, keel_bytes value);
fdb_error_t keel_vector_get_at(FDBTransaction *tr, const keel_subspace *vector,
                               const int64_t *indexes, size_t dimensions, uint8_t **value,
                               size_t *length);
fdb_error_t keel_vector_swap_at(FDBTransaction *tr, const keel_subspace *vector, const int64_t *a,
                                const int64_t *b, size_t dimensions);

typedef fdb_error_t (*keel_vector_visitor_at)(void *context, const int64_t *indexes,
                                              size_t dimensions, keel_bytes value);

/*
 * Visits all elements whose first indexes are the `dimensions` given ones (0: all elements), in the
 * order of their indexes; the visitor gets all indexes of each.
 */
fdb_error_t keel_vector_scan_at(FDBTransaction *tr, const keel_subspace *vector,
                                const int64_t *indexes, size_t dimensions,
                                keel_vector_visitor_at visit, void *context);

/* Removes the element with these indexes and all whose first ones they are. Reads nothing. */
fdb_error_t keel_vector_erase_at(FDBTransaction *tr, const keel_subspace *vector,
                                 const int64_t *indexes, size_t dimensions);

/*
 * What lies behind the first indexes as a vector of its own: row i of a matrix, to push to, to
 * scan, to take the size of. BUFFER_TOO_SMALL if its prefix becomes too long for a subspace. `row`
 * may be `vector`.
 */
fdb_error_t keel_vector_row(const keel_subspace *vector, const int64_t *indexes, size_t dimensions,
                            keel_subspace *row);

#ifdef __cplusplus
}
#endif

#endif
