/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generation of the window: one ordered map from keys to their states since some version, with an
 * arena that is given back whole. This header is for window.c and window_cursor.c alone;
 * generation.c explains the representation.
 */
#ifndef KEEL_ENGINE_GENERATION_H
#define KEEL_ENGINE_GENERATION_H

#include <stdatomic.h>

#include "engine/node_list.h"
#include "engine/window.h"

/* A hash table from key to node, beside the list: see generation.c. */
struct index_slot {
    _Atomic uint64_t hash;
    struct node *_Atomic node;
};
struct index_table {
    struct index_table *older; /* outgrown, kept for readers that may stand in it */
    uint64_t mask;
    struct index_slot slots[];
};

struct generation {
    _Atomic uint64_t references;
    struct index_table *_Atomic table; /* NULL while nothing was reserved */
    _Atomic bool has_gaps;             /* a gap chain somewhere is not empty */
    int64_t first_version, last_version; /* of the changes; -1 while there are none. The writer's, then the checkpoint's */
    struct arena arena;
    struct node_list list;
    size_t table_bytes;
    _Atomic uint64_t bytes; /* held in all, for any thread */
};

/* One reference. LARGE_ALLOC_FAILED. */
fdb_error_t generation_create(struct generation **generation);
void generation_retain(struct generation *generation);
void generation_release(struct generation *generation);

/* As their namesakes of the window. */
fdb_error_t generation_reserve(struct generation *generation, const struct change *changes, size_t count);
void generation_apply(struct generation *generation, int64_t version, const struct change *changes, size_t count);
void generation_check(struct generation *generation);

/* The hash that generation_find takes, and the start of loading what it will look at. */
uint64_t generation_hash(struct bytes key);
void generation_prefetch(struct generation *generation, uint64_t hash);

/* The newest state of a key at or below a version, or NULL: silent. */
const struct entry *generation_find(struct generation *generation, const struct search_key *key, uint64_t hash,
                                    int64_t version);

#endif
