/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writes of one transaction, in key order: what its reads must see and its commit must send.
 * One thread at a time (the transaction's mutex). All memory comes from the arena given at the
 * start; bytes passed in must lie in that arena already, except keys, which are copied.
 */
#ifndef KEEL_TXN_WRITE_MAP_H
#define KEEL_TXN_WRITE_MAP_H

#include "database/mutation.h"

/* One operation on a key. A set that is not present stands for a clear of the one key. */
struct write_operation {
    enum mutation_type type;
    bool present;
    struct bytes value;
    struct write_operation *next; /* the one done after it */
};

enum { WRITE_MAP_HEIGHT_MAX = 12 };

/*
 * A boundary: the operations on its key, if any, and the state of the keys after it up to the next
 * boundary. Where there are no operations the state covers the key itself too.
 */
struct write_node {
    struct bytes key;       /* followed in memory by a zero byte: see write_node_after */
    uint64_t prefix;        /* first eight bytes of the key, big-endian, to compare quickly */
    struct write_operation *first, *last; /* NULL: no operations */
    bool conflict, unreadable;            /* of the key, where it has operations */
    bool cleared, following_conflict, following_unreadable; /* of what follows */
    uint8_t height;
    struct write_node *previous;
    struct write_node *next[];
};

/* All zero but `arena` is an empty map. */
struct write_map {
    struct arena *arena;
    struct write_node *head; /* the boundary at the empty key; NULL until the first write */
    uint64_t random;
    int height;
    size_t node_count;
    size_t operation_count;
};

/*
 * A part of the key space in which one rule holds: one key with operations, or a stretch that is
 * unmodified or cleared. Every key up to \xff\xff lies in exactly one segment.
 */
struct write_segment {
    struct write_node *node; /* NULL: the map is empty and the segment is everything */
    bool operation;
};

enum write_kind { WRITE_UNMODIFIED, WRITE_CLEARED, WRITE_INDEPENDENT, WRITE_DEPENDENT };

static inline bool write_map_is_empty(const struct write_map *map) { return map->head == NULL; }

/* The first key after a node's key. */
static inline struct bytes write_node_after(const struct write_node *node) {
    return bytes_make(node->key.data, node->key.length + 1);
}

/*
 * Adds an operation on `key`. LARGE_ALLOC_FAILED: nothing has changed. OPERATION_FAILED: it cannot
 * follow what is there.
 */
fdb_error_t write_map_mutate(struct write_map *map, struct bytes key, enum mutation_type type,
                             struct bytes value,
                             bool add_conflict);

/*
 * Clears one key, or a range that is not empty. Without add_conflict, earlier conflicts stay and
 * none is added.
 */
fdb_error_t write_map_clear_key(struct write_map *map, struct bytes key, bool add_conflict);
fdb_error_t write_map_clear_range(struct write_map *map, struct key_range range, bool add_conflict);

/*
 * Makes a range unreadable, without writes or conflicts: a versionstamped key may land anywhere in
 * it.
 */
fdb_error_t write_map_make_unreadable(struct write_map *map, struct key_range range);

/* Adds a write conflict range without a write. */
fdb_error_t write_map_add_conflict(struct write_map *map, struct key_range range);

/*
 * The segment that holds `key`, the one that ends at or begins before `key` (REQUIRES: key not
 * empty), and the neighbours of a segment.
 */
struct write_segment write_map_find(const struct write_map *map, struct bytes key);
struct write_segment write_map_find_before(const struct write_map *map, struct bytes key);
bool write_segment_is_last(struct write_segment segment);
struct write_segment write_segment_next(struct write_segment segment); /* REQUIRES: not the last */

struct bytes write_segment_begin(struct write_segment segment);
struct bytes write_segment_end(struct write_segment segment);
enum write_kind write_segment_kind(struct write_segment segment);
bool write_segment_conflicts(struct write_segment segment);
bool write_segment_is_unreadable(struct write_segment segment);

/*
 * What the operations of a segment make of the database's value, which is NULL where the key is
 * missing (or need not be known: an independent segment). Results lie in memory of the map,
 * *present or `arena`. OPERATION_FAILED where a versionstamp, read as it stands, is the base of
 * another operation.
 */
fdb_error_t write_segment_apply(struct write_segment segment, const struct bytes *present,
                                struct arena *arena,
                                struct bytes *value, bool *exists);

/* Asserts the invariants; for tests. */
void write_map_check(const struct write_map *map);

#endif
