/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver: decides whether a transaction that wants to commit has read something that changed
 * since. It is the first step of a commit batch: the pipeline checks each read conflict range of a
 * transaction (resolver_conflicts) and, if none was written after its read version, notes its write
 * conflict ranges at the batch's version (resolver_add), so that later transactions of the same
 * batch already see them.
 *
 * Representation. The key space is cut into pieces on which the last write version is the same.
 * Almost every write is of one key, [k, k\0), so an entry stands for two pieces at once:
 *
 *     point   the version that last wrote the entry's key itself
 *     gap     the version that last wrote the keys strictly between it and the next entry's key
 *
 * A write of one key is then one entry, with its predecessor's gap handed on; a write of a range is
 * an entry at its begin, one at its end, and none left between. The entries are the leaves of a B+
 * tree; an inner node keeps for each child its first key and the newest version below it, so a
 * check looks into at most two children a level and leaves a subtree alone that has nothing new.
 *
 *     inner   key     ["" ........ | "m" ........ ]     first key of the leaf at its left edge
 *             newest  [ 17         |  12          ]     maximum of point and gap below the child
 *                       |             |
 *     leaf    key     ["" "c" "e"]  ["m" "p"]
 *             point   [ 0  17  9 ]  [ 5   5 ]
 *             newest  [ 0   0  9 ]  [ 5  12 ]           in a leaf this is the gap
 *
 * Comparing keys through pointers would be a cache miss each, so a node keeps for each key its
 * `head`: the eight bytes after the first `skip`, as one integer. All keys of a node lie between
 * its first key and the first key to its right (its fences), so they share the prefix that those
 * two share; so does any key that is looked for there. `skip` is that length, known without a look
 * at the keys. Only equal heads need the keys themselves.
 *
 * Invariants (resolver_check):
 *   1. Keys ascend strictly through the leaves; the very first is the empty key and is never
 *      removed.
 *   2. The first key of a node is the same pointer as the key of its slot in the parent: hence a
 *      leaf's first entry is removed only when the leaf is merged into its left neighbour, and a
 *      key belongs to its leaf entry alone. Every key looked for has a predecessor in its leaf.
 *   3. `skip` is the length of the prefix shared by the fences, 0 without an upper fence; heads
 *      agree with the keys.
 *   4. `newest` in an inner node is the maximum below, except where both are at or below the
 *      forgotten version.
 *   5. All leaves are at the same depth; nodes may be thin (range writes cut them) but never empty.
 *   6. A gap is never newer than the point before it: a write that covers part of a gap and not the
 *      key before it makes an entry where it begins.
 *
 * Forgetting. Nobody asks below `forgotten` any more, so all versions up to it count as one. An
 * entry whose point and gap equal the gap before it says nothing and can go. A sweep walks round
 * the leaves, one with every eighth add and a few with every forget: it drops such entries and
 * merges thin neighbours. What a wide write covers is cut off as whole subtrees and freed a node at
 * a time. So no call does much work, and an endless workload holds about what the last five seconds
 * wrote.
 *
 * Threads: one at a time, the commit pipeline's. Failure: memory is taken before anything changes;
 * an add that fails has changed nothing.
 */
#include "engine/resolver.h"

#include <assert.h>

#include "util/memory.h"

enum {
    FANOUT = 64,
    CACHE_LINE_BYTES = 64,
    MERGE_COUNT_MAX = FANOUT * 3 / 4, /* two neighbours are merged if they hold no more than this */
    HEIGHT_MAX = 24,
    SPARE_COUNT_MAX = 128, /* free nodes kept for later */
    ADDS_PER_SWEEP = 8,
    SWEEPS_PER_FORGET = 2,
    BURIALS_PER_FORGET = 4,
};

static const int64_t VERSION_NEVER = INT64_MIN;

struct key {
    uint32_t length;
    uint8_t data[];
};

struct slot {
    struct key *key;
    int64_t newest; /* leaf: the gap */
    union {
        int64_t point;      /* leaf */
        struct node *child; /* inner node */
    };
};

struct node {
    uint32_t skip;
    uint16_t count;
    bool leaf;
    struct node *next; /* on the spare or the buried list */
    uint64_t heads[FANOUT];
    struct slot slots[FANOUT];
};

struct resolver {
    struct node *root;
    unsigned height; /* levels of nodes, leaves included */
    int64_t forgotten;
    uint64_t bytes;
    struct node *spare; /* ready for splits */
    unsigned spare_count;
    struct node *buried; /* cut off by range writes, their keys and children not yet freed */
    unsigned adds;       /* since the last sweep */
    uint8_t *cursor;     /* the first key of the leaf that is swept next */
    size_t cursor_length, cursor_capacity;
};

/*
 * The way from the root to a leaf: slot[i] is the entry of node[i] that was followed, in the leaf
 * the predecessor found.
 */
struct path {
    unsigned depth; /* nodes on it */
    struct node *node[HEIGHT_MAX];
    unsigned slot[HEIGHT_MAX];
    struct key *high[HEIGHT_MAX]; /* the node's upper fence; NULL for none */
};

/* --- Keys --- */

static struct bytes key_bytes(const struct key *key) {
    return bytes_make(key->data, key->length);
}

static size_t key_size(size_t length) {
    return sizeof(struct key) + length;
}

static struct key *key_create(struct resolver *resolver, struct bytes text) {
    struct key *key = memory_allocate(key_size(text.length));
    if (!key)
        return NULL;
    key->length = (uint32_t)text.length;
    if (text.length)
        memcpy(key->data, text.data, text.length);
    resolver->bytes += key_size(text.length);
    return key;
}

static void key_destroy(struct resolver *resolver, struct key *key) {
    resolver->bytes -= key_size(key->length);
    memory_free(key);
}

static uint64_t head_of(struct bytes key, size_t skip) {
    uint64_t head = 0;
    if (key.length >= skip + sizeof head) {
        memcpy(&head, key.data + skip, sizeof head);
        return __builtin_bswap64(head);
    }
    for (size_t i = 0; i < sizeof head; i++)
        head = head << 8 | (skip + i < key.length ? key.data[skip + i] : 0);
    return head;
}

/* Order of two keys that share their first `skip` bytes. */
static int compare_from(struct bytes a, struct bytes b, size_t skip) {
    if (!skip) /* an empty key may have no data to add to */
        return bytes_compare(a, b);
    return bytes_compare(bytes_make(a.data + skip, a.length - skip),
                         bytes_make(b.data + skip, b.length - skip));
}

static bool is_point(struct key_range range) {
    return range.end.length == range.begin.length + 1 && range.end.data[range.begin.length] == 0 &&
           bytes_starts_with(range.end, range.begin);
}

/* --- Nodes --- */

static void node_release(struct resolver *resolver, struct node *node) {
    if (resolver->spare_count >= SPARE_COUNT_MAX) {
        resolver->bytes -= sizeof *node;
        memory_free(node);
        return;
    }
    node->next = resolver->spare;
    resolver->spare = node;
    resolver->spare_count++;
}

/* Makes sure that `count` calls of node_take succeed. */
static bool node_reserve(struct resolver *resolver, unsigned count) {
    while (resolver->spare_count < count) {
        struct node *node = memory_allocate(sizeof *node);
        if (!node)
            return false;
        resolver->bytes += sizeof *node;
        node->next = resolver->spare;
        resolver->spare = node;
        resolver->spare_count++;
    }
    return true;
}

static struct node *node_take(struct resolver *resolver, bool leaf) {
    struct node *node = resolver->spare;
    assert(node);
    resolver->spare = node->next;
    resolver->spare_count--;
    node->skip = 0;
    node->count = 0;
    node->leaf = leaf;
    node->next = NULL;
    return node;
}

/*
 * Asks for the lines that a search in the node will look at, all at once rather than one after the
 * other.
 */
static void prefetch(const struct node *node) {
    for (unsigned i = 0; i < FANOUT; i += CACHE_LINE_BYTES / sizeof *node->heads)
        __builtin_prefetch(node->heads + i);
}

/* How many of the node's heads are below `head`. */
static unsigned heads_below(const struct node *node, uint64_t head) {
    const uint64_t *base = node->heads;
    unsigned length = node->count;
    while (length > 1) {
        unsigned half = length / 2;
        base = base[half - 1] < head ? base + half : base;
        length -= half;
    }
    return (unsigned)(base - node->heads) + (length && *base < head);
}

/* How many of the node's keys are below `key`, or with `equal` at or below it. */
static unsigned keys_below(const struct node *node, struct bytes key, bool equal) {
    uint64_t head = head_of(key, node->skip);
    unsigned low = heads_below(node, head);
    if (low == node->count || node->heads[low] != head)
        return low;
    unsigned high = head == UINT64_MAX ? node->count : heads_below(node, head + 1);
    while (low < high) {
        unsigned middle = (low + high) / 2;
        int order = compare_from(key_bytes(node->slots[middle].key), key, node->skip);
        if (order < 0 || (equal && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * The last entry at or below `key`. REQUIRES: key at or above the lower fence, below the upper one.
 */
static unsigned find(const struct node *node, struct bytes key) {
    return keys_below(node, key, true) - 1;
}

/* The last entry below `key`. REQUIRES: key above the lower fence, at or below the upper one. */
static unsigned find_before(const struct node *node, struct bytes key) {
    return keys_below(node, key, false) - 1;
}

static bool slot_holds(const struct node *leaf, unsigned slot, struct bytes key) {
    return leaf->heads[slot] == head_of(key, leaf->skip) &&
           bytes_equal(key_bytes(leaf->slots[slot].key), key);
}

static struct key *slot_high(const struct node *node, unsigned slot, struct key *high) {
    return slot + 1 < node->count ? node->slots[slot + 1].key : high;
}

static int64_t node_newest(const struct node *node) {
    int64_t newest = VERSION_NEVER;
    for (unsigned i = 0; i < node->count; i++) {
        int64_t version = node->leaf ? node->slots[i].point : node->slots[i].newest;
        newest = version > newest ? version : newest;
    }
    return newest;
}

static uint32_t shared_prefix(const struct key *low, const struct key *high) {
    if (!high)
        return 0;
    uint32_t length = low->length < high->length ? low->length : high->length;
    uint32_t shared = 0;
    while (shared < length && low->data[shared] == high->data[shared])
        shared++;
    return shared;
}

static void set_heads(struct node *node, uint32_t skip) {
    node->skip = skip;
    for (unsigned i = 0; i < node->count; i++)
        node->heads[i] = head_of(key_bytes(node->slots[i].key), skip);
}

/* Brings `skip` and the heads in line with a changed fence. */
static void refresh(struct node *node, struct key *high) {
    uint32_t skip = shared_prefix(node->slots[0].key, high);
    if (skip != node->skip)
        set_heads(node, skip);
}

/* A subtree has a new upper fence, and so has the last node on each of its levels. */
static void refresh_spine(struct node *node, struct key *high) {
    for (;;) {
        refresh(node, high);
        if (node->leaf)
            return;
        node = node->slots[node->count - 1].child;
    }
}

/* Moves `count` slots; both may be the same node. */
static void move_slots(struct node *to, unsigned at, struct node *from, unsigned first,
                       unsigned count) {
    memmove(to->heads + at, from->heads + first, count * sizeof *to->heads);
    memmove(to->slots + at, from->slots + first, count * sizeof *to->slots);
}

static void remove_slots(struct node *node, unsigned first, unsigned end) {
    move_slots(node, first, node, end, node->count - end);
    node->count = (uint16_t)(node->count - (end - first));
}

/* --- Inserting --- */

static void path_find(struct resolver *resolver, struct bytes key, struct path *path) {
    struct node *node = resolver->root;
    struct key *high = NULL;
    for (path->depth = 0;; path->depth++) {
        unsigned slot = find(node, key);
        path->node[path->depth] = node;
        path->slot[path->depth] = slot;
        path->high[path->depth] = high;
        if (node->leaf)
            break;
        high = slot_high(node, slot, high);
        node = node->slots[slot].child;
        prefetch(node);
    }
    path->depth++;
}

/* All go down together, so that one waits for its node while the others' are on their way too. */
void resolver_prefetch(const struct resolver *resolver, const struct bytes *keys, unsigned count) {
    const struct node *nodes[RESOLVER_PREFETCH_MAX];
    for (unsigned i = 0; i < count; i++)
        nodes[i] = resolver->root;
    for (unsigned level = resolver->height; level > 0; level--) {
        for (unsigned i = 0; i < count; i++) {
            unsigned slot = find(nodes[i], keys[i]);
            __builtin_prefetch(&nodes[i]->slots[slot]);
            if (level == 1)
                continue;
            nodes[i] = nodes[i]->slots[slot].child;
            prefetch(nodes[i]);
        }
    }
}

static void open_slot(struct node *node, unsigned at, struct key *key, int64_t newest) {
    move_slots(node, at + 1, node, at, node->count - at);
    node->count++;
    node->heads[at] = head_of(key_bytes(key), node->skip);
    node->slots[at].key = key;
    node->slots[at].newest = newest;
}

/* Gives the tree a root above the old one, which is then the only child. */
static void grow(struct resolver *resolver) {
    struct node *root = node_take(resolver, false);
    open_slot(root, 0, resolver->root->slots[0].key, node_newest(resolver->root));
    root->slots[0].child = resolver->root;
    resolver->root = root;
    resolver->height++;
    assert(resolver->height < HEIGHT_MAX);
}

/*
 * Splits the full node at `level` of the path (where slot `at` is about to be opened) and puts the
 * right half in the parent, splitting that first if it is full. The path then leads to the half
 * that gets the slot. Returns the slot to open there.
 */
static unsigned split(struct resolver *resolver, struct path *path, unsigned level, unsigned at) {
    struct node *left = path->node[level];
    struct node *right = node_take(resolver, left->leaf);
    /* ascending keys leave full nodes behind */
    unsigned keep = at == FANOUT ? FANOUT - FANOUT / 8 : FANOUT / 2;
    right->count = (uint16_t)(FANOUT - keep);
    right->skip = left->skip;
    move_slots(right, 0, left, keep, FANOUT - keep);
    left->count = (uint16_t)keep;
    refresh(left, right->slots[0].key);
    refresh(right, path->high[level]);

    struct node *parent = path->node[level - 1];
    unsigned parent_at = path->slot[level - 1] + 1;
    if (parent->count == FANOUT) {
        parent_at = split(resolver, path, level - 1, parent_at);
        parent = path->node[level - 1];
    }
    open_slot(parent, parent_at, right->slots[0].key, node_newest(right));
    parent->slots[parent_at].child = right;
    parent->slots[parent_at - 1].newest = node_newest(left);
    if (at <= keep) {
        path->slot[level - 1] = parent_at - 1;
        path->high[level] = right->slots[0].key;
        return at;
    }
    path->slot[level - 1] = parent_at;
    path->node[level] = right;
    return at - keep;
}

/* Adds a root to the path, so that every full node on it has a parent. */
static void path_grow(struct resolver *resolver, struct path *path) {
    grow(resolver);
    memmove(path->node + 1, path->node, path->depth * sizeof *path->node);
    memmove(path->slot + 1, path->slot, path->depth * sizeof *path->slot);
    memmove(path->high + 1, path->high, path->depth * sizeof *path->high);
    path->node[0] = resolver->root;
    path->slot[0] = 0;
    path->high[0] = NULL;
    path->depth++;
}

static bool path_is_full(const struct path *path) {
    for (unsigned i = 0; i < path->depth; i++) {
        if (path->node[i]->count < FANOUT)
            return false;
    }
    return true;
}

/*
 * Puts a new entry behind the predecessor that the path leads to. Its gap is handed on. REQUIRES:
 * nodes are reserved.
 */
static void insert(struct resolver *resolver, struct path *path, struct key *key, int64_t point) {
    int64_t gap = path->node[path->depth - 1]->slots[path->slot[path->depth - 1]].newest;
    if (path_is_full(path))
        path_grow(resolver, path);
    unsigned level = path->depth - 1;
    unsigned at = path->slot[level] + 1;
    if (path->node[level]->count == FANOUT)
        at = split(resolver, path, level, at);
    open_slot(path->node[level], at, key, gap);
    path->node[level]->slots[at].point = point;
    path->slot[level] = at;
}

static void path_raise(struct path *path, int64_t version) {
    for (unsigned i = 0; i + 1 < path->depth; i++)
        path->node[i]->slots[path->slot[i]].newest = version;
}

/* --- Range writes --- */

/* Sets a subtree aside, to be freed bit by bit. */
static void bury(struct resolver *resolver, struct node *node) {
    node->next = resolver->buried;
    resolver->buried = node;
}

/* Frees one node that was set aside, and its keys, or sets its children aside in turn. */
static void bury_step(struct resolver *resolver) {
    struct node *node = resolver->buried;
    if (!node)
        return;
    resolver->buried = node->next;
    for (unsigned i = 0; i < node->count; i++) {
        if (node->leaf)
            key_destroy(resolver, node->slots[i].key);
        else
            bury(resolver, node->slots[i].child);
    }
    node_release(resolver, node);
}

static void cover_leaf(struct resolver *resolver, struct node *leaf, const struct bytes *begin,
                       const struct bytes *end, int64_t version) {
    unsigned first = begin ? find(leaf, *begin) : 0;
    unsigned last = end ? find_before(leaf, *end) + 1 : leaf->count;
    leaf->slots[first].point = version;
    leaf->slots[first].newest = version;
    for (unsigned i = first + 1; i < last; i++)
        key_destroy(resolver, leaf->slots[i].key);
    remove_slots(leaf, first + 1, last);
}

/*
 * Writes the entries of [begin, end) below `node` at `version` and removes all but the first of
 * each leaf that stays. No begin: from the node's first entry, no end: through its last. REQUIRES:
 * there is an entry at `begin`; one at least is covered.
 */
static void cover(struct resolver *resolver, struct node *node, struct key *high,
                  const struct bytes *begin, const struct bytes *end, int64_t version) {
    if (node->leaf) {
        cover_leaf(resolver, node, begin, end, version);
        return;
    }
    unsigned first = begin ? find(node, *begin) : 0;
    unsigned last = end ? find_before(node, *end) : node->count;
    if (first == last) {
        cover(resolver, node->slots[first].child, slot_high(node, first, high), begin, end,
              version);
        node->slots[first].newest = version;
        return;
    }
    cover(resolver, node->slots[first].child, slot_high(node, first, high), begin, NULL, version);
    node->slots[first].newest = version;
    if (last < node->count) {
        cover(resolver, node->slots[last].child, slot_high(node, last, high), NULL, end, version);
        node->slots[last].newest = version;
    }
    for (unsigned i = first + 1; i < last; i++)
        bury(resolver, node->slots[i].child);
    remove_slots(node, first + 1, last);
    refresh_spine(node->slots[first].child, slot_high(node, first, high));
}

/* --- The sweep --- */

static int64_t clamp(const struct resolver *resolver, int64_t version) {
    return version > resolver->forgotten ? version : resolver->forgotten;
}

/* Drops the entries of a leaf that say nothing, except the first. */
static void sweep_leaf(struct resolver *resolver, struct node *leaf) {
    unsigned kept = 0;
    for (unsigned i = 1; i < leaf->count; i++) {
        int64_t before = clamp(resolver, leaf->slots[kept].newest);
        if (clamp(resolver, leaf->slots[i].point) == before &&
            clamp(resolver, leaf->slots[i].newest) == before) {
            key_destroy(resolver, leaf->slots[i].key);
            continue;
        }
        kept++;
        if (kept != i) {
            leaf->heads[kept] = leaf->heads[i];
            leaf->slots[kept] = leaf->slots[i];
        }
    }
    leaf->count = (uint16_t)(kept + 1);
}

/* Merges the child behind `slot` into it if both are thin. */
static void merge(struct resolver *resolver, struct node *node, unsigned slot, struct key *high) {
    if (slot + 1 >= node->count)
        return;
    struct node *left = node->slots[slot].child, *right = node->slots[slot + 1].child;
    unsigned count = (unsigned)left->count + right->count;
    if (count > MERGE_COUNT_MAX)
        return;
    move_slots(left, left->count, right, 0, right->count);
    left->count = (uint16_t)count;
    if (node->slots[slot + 1].newest > node->slots[slot].newest)
        node->slots[slot].newest = node->slots[slot + 1].newest;
    remove_slots(node, slot + 1, slot + 2);
    set_heads(left, shared_prefix(left->slots[0].key, slot_high(node, slot, high)));
    node_release(resolver, right);
}

/*
 * Remembers where the sweep goes on: at `next`, or where there is none (or no memory) from the
 * start.
 */
static void cursor_set(struct resolver *resolver, const struct key *next) {
    resolver->cursor_length = 0;
    if (!next)
        return;
    if (next->length > resolver->cursor_capacity) {
        uint8_t *cursor = memory_resize(resolver->cursor, next->length);
        if (!cursor)
            return;
        resolver->bytes += next->length - resolver->cursor_capacity;
        resolver->cursor = cursor;
        resolver->cursor_capacity = next->length;
    }
    memcpy(resolver->cursor, next->data, next->length);
    resolver->cursor_length = next->length;
}

static void sweep_node(struct resolver *resolver, struct node *node, struct key *high) {
    if (node->leaf) {
        cursor_set(resolver, high);
        sweep_leaf(resolver, node);
        return;
    }
    unsigned slot = find(node, bytes_make(resolver->cursor, resolver->cursor_length));
    sweep_node(resolver, node->slots[slot].child, slot_high(node, slot, high));
    merge(resolver, node, slot, high);
    if (slot)
        merge(resolver, node, slot - 1, high);
}

/* Sweeps the leaf at the cursor and moves the cursor to the next. */
static void sweep(struct resolver *resolver) {
    sweep_node(resolver, resolver->root, NULL);
    while (!resolver->root->leaf && resolver->root->count == 1) {
        struct node *root = resolver->root;
        resolver->root = root->slots[0].child;
        resolver->height--;
        node_release(resolver, root);
    }
}

/* --- The interface --- */

fdb_error_t resolver_create(struct resolver **resolver) {
    struct resolver *created = memory_allocate_zeroed(sizeof *created);
    if (!created)
        return ERROR_LARGE_ALLOC_FAILED;
    created->bytes = sizeof *created;
    created->forgotten = VERSION_NEVER;
    created->height = 1;
    struct key *first = key_create(created, BYTES_LITERAL(""));
    if (!first || !node_reserve(created, 1)) {
        memory_free(first);
        memory_free(created);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    created->root = node_take(created, true);
    open_slot(created->root, 0, first, VERSION_NEVER);
    created->root->slots[0].point = VERSION_NEVER;
    *resolver = created;
    return 0;
}

void resolver_destroy(struct resolver *resolver) {
    if (!resolver)
        return;
    bury(resolver, resolver->root);
    while (resolver->buried)
        bury_step(resolver);
    while (resolver->spare) {
        struct node *node = resolver->spare;
        resolver->spare = node->next;
        memory_free(node);
    }
    memory_free(resolver->cursor);
    memory_free(resolver);
}

static bool point_conflicts(struct resolver *resolver, struct bytes key, int64_t version) {
    const struct node *node = resolver->root;
    while (!node->leaf) {
        unsigned slot = find(node, key);
        if (node->slots[slot].newest <= version)
            return false;
        node = node->slots[slot].child;
        prefetch(node);
    }
    unsigned slot = find(node, key);
    const struct slot *found = &node->slots[slot];
    return (slot_holds(node, slot, key) ? found->point : found->newest) > version;
}

/* By invariant 6 a gap matters only where the range begins inside it. */
static bool leaf_conflicts(const struct node *leaf, const struct bytes *begin,
                           const struct bytes *end, int64_t version) {
    unsigned first = begin ? find(leaf, *begin) : 0;
    unsigned last = end ? find_before(leaf, *end) : leaf->count - 1U;
    bool inside_gap = begin && !slot_holds(leaf, first, *begin);
    if ((inside_gap ? leaf->slots[first].newest : leaf->slots[first].point) > version)
        return true;
    for (unsigned i = first + 1; i <= last; i++) {
        if (leaf->slots[i].point > version)
            return true;
    }
    return false;
}

/* No begin: from the node's first entry; no end: through its last. */
static bool range_conflicts(const struct node *node, const struct bytes *begin,
                            const struct bytes *end, int64_t version) {
    while (!node->leaf) {
        unsigned first = begin ? find(node, *begin) : 0;
        unsigned last = end ? find_before(node, *end) : node->count - 1U;
        if (first == last) {
            if (node->slots[first].newest <= version)
                return false;
            node = node->slots[first].child;
            continue;
        }
        for (unsigned i = first + (begin != NULL); i < last + (end == NULL); i++) {
            if (node->slots[i].newest > version)
                return true;
        }
        return (begin && node->slots[first].newest > version &&
                range_conflicts(node->slots[first].child, begin, NULL, version)) ||
               (end && node->slots[last].newest > version &&
                range_conflicts(node->slots[last].child, NULL, end, version));
    }
    return leaf_conflicts(node, begin, end, version);
}

bool resolver_conflicts(struct resolver *resolver, struct key_range range, int64_t version) {
    if (bytes_compare(range.begin, range.end) >= 0)
        return false;
    assert(version >= resolver->forgotten);
    if (is_point(range))
        return point_conflicts(resolver, range.begin, version);
    return range_conflicts(resolver->root, &range.begin, &range.end, version);
}

/*
 * The most nodes that two insertions can take: one a level and a root each, the second in a tree
 * one higher.
 */
static bool reserve_for_add(struct resolver *resolver) {
    return node_reserve(resolver, 2 * resolver->height + 3);
}

static fdb_error_t add_point(struct resolver *resolver, struct bytes text, int64_t version) {
    struct path path;
    path_find(resolver, text, &path);
    struct node *leaf = path.node[path.depth - 1];
    unsigned slot = path.slot[path.depth - 1];
    if (slot_holds(leaf, slot, text)) {
        leaf->slots[slot].point = version;
    } else {
        struct key *key = reserve_for_add(resolver) ? key_create(resolver, text) : NULL;
        if (!key)
            return ERROR_LARGE_ALLOC_FAILED;
        insert(resolver, &path, key, version);
    }
    path_raise(&path, version);
    return 0;
}

/*
 * Makes sure that there is an entry at `text`, which changes no answer. Takes *key if it needs it.
 */
static void add_boundary(struct resolver *resolver, struct bytes text, struct key **key) {
    struct path path;
    path_find(resolver, text, &path);
    struct node *leaf = path.node[path.depth - 1];
    unsigned slot = path.slot[path.depth - 1];
    if (slot_holds(leaf, slot, text))
        return;
    insert(resolver, &path, *key, leaf->slots[slot].newest);
    *key = NULL;
}

static fdb_error_t add_range(struct resolver *resolver, struct key_range range, int64_t version) {
    if (!reserve_for_add(resolver))
        return ERROR_LARGE_ALLOC_FAILED;
    struct key *begin = key_create(resolver, range.begin);
    if (!begin)
        return ERROR_LARGE_ALLOC_FAILED;
    struct key *end = key_create(resolver, range.end);
    if (!end) {
        key_destroy(resolver, begin);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    add_boundary(resolver, range.end, &end);
    add_boundary(resolver, range.begin, &begin);
    if (begin)
        key_destroy(resolver, begin);
    if (end)
        key_destroy(resolver, end);
    cover(resolver, resolver->root, NULL, &range.begin, &range.end, version);
    return 0;
}

fdb_error_t resolver_add(struct resolver *resolver, struct key_range range, int64_t version) {
    if (bytes_compare(range.begin, range.end) >= 0)
        return 0;
    bool point = is_point(range);
    fdb_error_t error =
        point ? add_point(resolver, range.begin, version) : add_range(resolver, range, version);
    if (error)
        return error;
    bury_step(resolver);
    if (++resolver->adds >= ADDS_PER_SWEEP) {
        resolver->adds = 0;
        sweep(resolver);
    }
    return 0;
}

void resolver_forget(struct resolver *resolver, int64_t version) {
    if (version > resolver->forgotten)
        resolver->forgotten = version;
    for (int i = 0; i < BURIALS_PER_FORGET; i++)
        bury_step(resolver);
    for (int i = 0; i < SWEEPS_PER_FORGET; i++)
        sweep(resolver);
}

uint64_t resolver_bytes(struct resolver *resolver) {
    return resolver->bytes;
}

/* --- Checking --- */

struct check {
    const struct resolver *resolver;
    const struct key *previous; /* the last key seen, in order */
    uint64_t bytes;
};

static void check_entry(struct check *check, const struct node *leaf, unsigned slot) {
    const struct key *key = leaf->slots[slot].key;
    if (check->previous)
        assert(bytes_compare(key_bytes(check->previous), key_bytes(key)) < 0);
    else
        assert(key->length == 0);
    check->previous = key;
    check->bytes += key_size(key->length);
}

static void check_node(struct check *check, const struct node *node, struct key *high,
                       unsigned height) {
    assert(node->count > 0 && node->count <= FANOUT);
    assert(node->leaf == (height == 1));
    assert(node->skip == shared_prefix(node->slots[0].key, high));
    check->bytes += sizeof *node;
    for (unsigned i = 0; i < node->count; i++) {
        assert(node->heads[i] == head_of(key_bytes(node->slots[i].key), node->skip));
        if (node->leaf) {
            assert(node->slots[i].newest <= node->slots[i].point);
            check_entry(check, node, i);
            continue;
        }
        const struct node *child = node->slots[i].child;
        assert(child->slots[0].key == node->slots[i].key);
        check_node(check, child, slot_high(node, i, high), height - 1);
        assert(clamp(check->resolver, node->slots[i].newest) ==
               clamp(check->resolver, node_newest(child)));
    }
    if (high)
        assert(bytes_compare(key_bytes(check->previous), key_bytes(high)) < 0);
}

static uint64_t buried_bytes(const struct node *node) {
    uint64_t bytes = sizeof *node;
    for (unsigned i = 0; i < node->count; i++)
        bytes += node->leaf ? key_size(node->slots[i].key->length)
                            : buried_bytes(node->slots[i].child);
    return bytes;
}

void resolver_check(struct resolver *resolver) {
    struct check check = {resolver, NULL, sizeof *resolver + resolver->cursor_capacity};
    check_node(&check, resolver->root, NULL, resolver->height);
    unsigned spare_count = 0;
    for (const struct node *node = resolver->spare; node; node = node->next)
        spare_count++;
    assert(spare_count == resolver->spare_count);
    check.bytes += spare_count * sizeof(struct node);
    for (const struct node *node = resolver->buried; node; node = node->next)
        check.bytes += buried_bytes(node);
    assert(check.bytes == resolver->bytes);
}
