/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A multimap: to each key a set of values, or a bag of them, where each is counted.
 *
 *     keel_multimap classes = {.subspace = subspace};
 *     error = keel_multimap_add(tr, &classes, KEEL_ELEMENT("ann"), KEEL_ELEMENT("chemistry"), 1);
 *     error = keel_multimap_get(tr, &classes, KEEL_ELEMENT("ann"), visit, context);
 *
 * Keys. Keys and values are elements of tuples:
 *
 *     (multimap, key, value)  = ''        a value is there or not
 *     (multimap, key, value)  = count     KEEL_MULTIMAP_COUNTED: how often, 8 bytes, little-endian
 *     (totals, key)           = count     KEEL_MULTIMAP_TOTALS: how many a key has in all
 *
 * Counts are changed by atomic operations. An entry '' that a program without counts has written
 * counts as one, until it is added to: do not mix the two.
 *
 * Conflicts. add conflicts with nothing, except in a map with totals that is not counted, where it
 * has to see whether the value is new. remove reads the entry unless there is nothing to know;
 * keel_multimap_subtract never reads. remove_key is blind. Reads conflict with changes to what they
 * saw; keel_multimap_total can be told not to.
 *
 * Every function takes the transaction, never commits it, and on an error has written nothing.
 * Errors of all: key_too_large (2102), errors of keel_tuple_pack, those of reads;
 * KEEL_ERROR_STORED_FORMAT if something is stored that is no entry. Any thread.
 */
#ifndef KEEL_MULTIMAP_H
#define KEEL_MULTIMAP_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KEEL_MULTIMAP_COUNTED = 1, KEEL_MULTIMAP_TOTALS = 2 };

/* A value: copy it freely. All who use one map must agree on it. */
typedef struct keel_multimap {
    keel_subspace subspace;
    unsigned flags;
    keel_subspace totals; /* of KEEL_MULTIMAP_TOTALS: outside of `subspace` */
} keel_multimap;

/*
 * Adds a value to a key, `times` times if it is counted. KEEL_ERROR_ARGUMENT if `times` is not
 * positive, or is not 1 in a map that is not counted. Nothing happens if the value is there and not
 * counted.
 */
fdb_error_t keel_multimap_add(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                              keel_element value, int64_t times);

/*
 * Removes a value, or one of its occurrences if it is counted. *removed (may be NULL) says whether
 * there was one.
 */
fdb_error_t keel_multimap_remove(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                                 keel_element value, bool *removed);

/*
 * Takes `times` occurrences away from a value that is counted, without a read, so that it conflicts
 * with no other change. The entry disappears when it reaches zero. For values that were added
 * before: one that falls below zero is not there either, but swallows the adds that follow.
 * KEEL_ERROR_ARGUMENT if the map is not counted or `times` not positive.
 */
fdb_error_t keel_multimap_subtract(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                                   keel_element value, int64_t times);

/* Removes all values of a key. */
fdb_error_t keel_multimap_remove_key(FDBTransaction *tr, const keel_multimap *map,
                                     keel_element key);

/* Whether the key has the value. */
fdb_error_t keel_multimap_contains(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                                   keel_element value, bool *contained);
/* How often it has it: 0 or 1 if it is not counted. */
fdb_error_t keel_multimap_count(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                                keel_element value, int64_t *count);
/*
 * How many values the key has, each as often as it is counted: one read with KEEL_MULTIMAP_TOTALS,
 * otherwise all of them. `snapshot`: without a conflict.
 */
fdb_error_t keel_multimap_total(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                                bool snapshot, int64_t *total);

/* The element lives as long as the call. Anything but 0 ends the walk and is returned by it. */
typedef fdb_error_t (*keel_multimap_visit)(const keel_element *element, int64_t count,
                                           void *context);

/* Visits the values of a key, in their order, each once, with its count. */
fdb_error_t keel_multimap_get(FDBTransaction *tr, const keel_multimap *map, keel_element key,
                              keel_multimap_visit visit, void *context);
/*
 * Visits the keys, in their order, with the count of their first value. Reads one row a key,
 * however many values it has.
 */
fdb_error_t keel_multimap_keys(FDBTransaction *tr, const keel_multimap *map,
                               keel_multimap_visit visit, void *context);

#ifdef __cplusplus
}
#endif

#endif
