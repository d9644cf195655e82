/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ordered list of a generation's nodes: searched, walked both ways, only ever added to. One
 * writer, readers without locks. Private to the window (generation.c, window_cursor.c); node_list.c
 * explains the representation.
 */
#ifndef KEEL_ENGINE_NODE_LIST_H
#define KEEL_ENGINE_NODE_LIST_H

#include <stdatomic.h>

#include "util/arena.h"
#include "util/bytes.h"

enum {
    NODE_LIST_LEVELS_MAX = 16,
    ENTRY_CLEARED = UINT32_MAX, /* as a length: not a value but a clear */
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
    uint64_t prefix;   /* the first 8 bytes of the key as a number, zeros after its end */
    entry_chain point; /* states of the key itself, newest first */
    entry_chain gap;   /* clears of the open interval up to the next node, newest first */
    uint32_t length;   /* of the key */
    uint8_t key[];     /* and a zero byte behind it, so that its successor can be handed out too */
};

/* A key made ready for searching. */
struct search_key {
    struct bytes bytes;
    uint64_t prefix;
};

struct page;
struct page_slots;

struct node_list {
    struct arena *arena;        /* of the owner: all memory comes from it */
    struct page *_Atomic root;
    struct page *first;         /* the first page of nodes */
    struct node *before;        /* stands for the place before all nodes; never has a state */
    size_t nodes_count;
    size_t pages_count[NODE_LIST_LEVELS_MAX];
    struct page *spare_pages;   /* reserved, linked by `next` */
    struct page_slots *spare_slots;
    size_t spare_pages_count, spare_slots_count;
};

/*
 * A place in the list: on a node, before the first, or behind the last. It holds a picture of one
 * page as it was when the place came there; nodes added since may be missing from it, which are of
 * versions that its reader does not ask for.
 */
struct node_place {
    const struct page *page; /* NULL: behind the last */
    const struct page_slots *slots;
    uint64_t order;
    int rank; /* -1: before the first */
};

/* Makes an empty list. False: memory is out. The arena frees everything. */
bool node_list_init(struct node_list *list, struct arena *arena);

/*
 * Takes the memory that adding `count` nodes may need. False: memory is out, nothing has changed.
 */
bool node_list_reserve(struct node_list *list, size_t count);

/*
 * The last node below the key (or at it, with or_equal); list->before if there is none. *place is
 * on it. The search starts from `from`, what node_list_locate found, or NULL. Any thread.
 */
struct node *node_list_floor(const struct node_list *list, const struct page *from, const struct search_key *key,
                             bool or_equal, struct node_place *place);

/*
 * Finds for each of the keys a page that node_list_floor may start from, now or later, whatever is
 * added meanwhile. Several at once take hardly longer than one. Any thread.
 */
void node_list_locate(const struct node_list *list, const struct search_key *keys, unsigned count,
                      const struct page **pages);

/* To the next node, NULL behind the last. REQUIRES: not behind the last. Any thread. */
struct node *node_place_next(struct node_place *place);

/*
 * To the node before, NULL (and place->rank == -1) before the first. REQUIRES: on a node. Any
 * thread.
 */
struct node *node_place_previous(struct node_place *place);

/*
 * Adds a node, complete but for its place. REQUIRES: the writer; reserved; *floor is what
 * node_list_floor gave for its key, strictly below, with nothing added since.
 */
void node_list_insert(struct node_list *list, const struct node_place *floor, struct node *node);

/* Before the first node. */
void node_list_start(const struct node_list *list, struct node_place *place);

/*
 * For tests: called after every store of the writer that leaves a change half done. What a reader
 * finds there can then be checked without waiting for two threads to meet in the right place. NULL
 * otherwise.
 */
extern void (*node_list_half_done)(void);

/* Checks every invariant; for tests. */
void node_list_check(const struct node_list *list);

struct search_key search_key_make(struct bytes key);

static inline struct bytes node_key(const struct node *node) {
    return (struct bytes){node->key, node->length};
}

/* The key's successor in the order of keys. */
static inline struct bytes node_key_after(const struct node *node) {
    return (struct bytes){node->key, (size_t)node->length + 1};
}

static inline bool is_successor(struct bytes after, struct bytes key) {
    return after.length == key.length + 1 && after.data[key.length] == 0 && bytes_starts_with(after, key);
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
        int order = memcmp(node->key + 8, key.data + 8, shared - 8);
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
