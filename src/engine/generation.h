/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generation of the window: one ordered map from keys to their states since some version, with an arena that is given back whole. This
 * header is for window.c and window_cursor.c alone; generation.c explains the representation.
 */
#ifndef KEEL_ENGINE_GENERATION_H
#define KEEL_ENGINE_GENERATION_H

#include <stdatomic.h>

#include "engine/window.h"
#include "util/arena.h"

enum {
    NODE_HEIGHT_MAX = 12,         /* a quarter of the nodes of a level rise to the next: good for 16 million */
    ENTRY_CLEARED = UINT32_MAX,   /* as a length: not a value but a clear */
};

/* One state, unchanging once it hangs in a chain. */
struct entry {
    const struct entry *older;
    int64_t version;
    uint32_t length; /* of the value, or ENTRY_CLEARED */
    uint8_t value[];
};

typedef const struct entry *_Atomic entry_chain;

struct node {
    uint64_t prefix;    /* the first 8 bytes of the key as a number, zeros after its end */
    uint32_t length;    /* of the key */
    uint8_t height;     /* of the tower, at least 1 */
    entry_chain point;  /* states of the key itself, newest first */
    entry_chain gap;    /* clears of the open interval up to the next node, newest first */
    struct node *_Atomic previous; /* the head for the first node */
    struct node *_Atomic next[];   /* a tower of `height`; then the key, then a zero byte */
};

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
    _Atomic unsigned height;           /* of the tallest tower so far */
    size_t nodes_count;
    int64_t first_version, last_version; /* of the changes; -1 while there are none. The writer's, then the checkpoint's */
    struct arena arena;
    size_t table_bytes;
    _Atomic uint64_t bytes; /* held in all, for any thread */
    struct node *head;      /* before every key; never has a state */
};

/* A key made ready for searching. */
struct search_key {
    struct bytes bytes;
    uint64_t prefix;
};

/* One reference. LARGE_ALLOC_FAILED. */
fdb_error_t generation_create(struct generation **generation);
void generation_retain(struct generation *generation);
void generation_release(struct generation *generation);

/* As their namesakes of the window. */
fdb_error_t generation_reserve(struct generation *generation, const struct change *changes, size_t count);
void generation_set(struct generation *generation, int64_t version, struct bytes key, struct bytes value);
void generation_clear_range(struct generation *generation, int64_t version, struct bytes begin, struct bytes end);
void generation_check(struct generation *generation);

/* The hash that generation_find takes, and the start of loading what it will look at. */
uint64_t generation_hash(struct bytes key);
void generation_prefetch(struct generation *generation, uint64_t hash);

/* The newest state of a key at or below a version, or NULL: silent. */
const struct entry *generation_find(struct generation *generation, const struct search_key *key, uint64_t hash,
                                    int64_t version);

/* The last node whose key is below (or, with `or_equal`, at) the key; the head if there is none. */
struct node *generation_floor(struct generation *generation, const struct search_key *key, bool or_equal);

struct search_key search_key_make(struct bytes key);

static inline struct bytes node_key(const struct node *node) {
    return (struct bytes){(const uint8_t *)&node->next[node->height], node->length};
}

/* The key's successor in the order of keys. */
static inline struct bytes node_key_after(const struct node *node) {
    return (struct bytes){(const uint8_t *)&node->next[node->height], (size_t)node->length + 1};
}

static inline struct node *node_next(const struct node *node, unsigned level) {
    return atomic_load_explicit(&node->next[level], memory_order_acquire);
}

static inline struct node *node_previous(const struct node *node) {
    return atomic_load_explicit(&node->previous, memory_order_acquire);
}

static inline const struct entry *chain_head(const entry_chain *chain) {
    return atomic_load_explicit(chain, memory_order_acquire);
}

static inline const struct entry *chain_find(const entry_chain *chain, int64_t version) {
    const struct entry *entry = chain_head(chain);
    while (entry && entry->version > version)
        entry = entry->older;
    return entry;
}

/* Where prefixes agree, so do the first 8 bytes as far as both keys have them. */
static inline int node_compare_rest(const struct node *node, struct bytes key) {
    size_t shared = node->length < key.length ? node->length : key.length;
    if (shared > 8) {
        int order = memcmp(node_key(node).data + 8, key.data + 8, shared - 8);
        if (order)
            return order;
    }
    return (node->length > key.length) - (node->length < key.length);
}

static inline int node_compare(const struct node *node, const struct search_key *key) {
    if (node->prefix != key->prefix)
        return node->prefix < key->prefix ? -1 : 1;
    return node_compare_rest(node, key->bytes);
}

static inline int node_compare_nodes(const struct node *a, const struct node *b) {
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix ? -1 : 1;
    return node_compare_rest(a, node_key(b));
}

#endif
