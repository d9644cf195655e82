/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base in memory, for `:memory:` and for tests of what stands above it: a B+-tree that is
 * never changed once it can be seen. The checkpoint builds the next tree beside the current one,
 * sharing everything it does not touch, and publishes it with one store; a snapshot is the tree it
 * found. So readers take no lock, see no half-made change, and an abort only has to forget.
 *
 *     published ─► tree 7 ─► root ─┬─► leaf ─► row row row
 *                                  ├─► leaf' ─► row row' row      the writer copied the way from the
 *     a snapshot ─► tree 6 ─► root ┴─► leaf ─► …                  root to leaf', and kept the rest
 *
 *   1. A node holds 1 to NODE_SLOTS_MAX items in key order (the root of an empty tree: none).
 *      Leaves hold rows; branches hold children, and beside each child but the first a separator:
 *      no key left of it is at or above it, no key right of it below.
 *   2. All leaves are at the same depth.
 *   3. A piece (node, row, separator or tree) made by the write transaction under way bears its
 *      number and may be changed by it. Every other piece is seen by readers and never changes.
 *   4. A piece that the new tree no longer uses is retired: it joins the list of the tree it was
 *      part of last. That list is freed when every live snapshot is newer than that tree.
 *
 * Epochs. A tree's number is its epoch. Renewing a snapshot stores the current epoch in its slot,
 * then loads the published tree; the writer stores the new tree, then advances the epoch, then
 * reads the slots. In the single order of these sequentially consistent operations either the
 * reader finds the new tree or the writer finds the reader's slot.
 *
 * Threads: any number of readers, each with its snapshots; one writer. Failure: only memory can
 * run out, always before anything that a reader can see has changed. write_commit allocates
 * nothing: write_begin has made the new tree's head.
 */
#include "engine/base.h"

#include <assert.h>
#include <stdatomic.h>

#include "engine/base_estimate.h"
#include "util/coding.h"
#include "util/memory.h"

enum {
    NODE_SLOTS_MAX = 64,
    NODE_SLOTS_FEW =
        NODE_SLOTS_MAX / 4, /* a node with fewer is joined with a neighbour if both fit into one */
    DEPTH_MAX = 24,
    KEY_BYTES_MAX = 30000,
};

/* What every piece of memory begins with. */
struct piece {
    struct piece *next; /* in the list of pieces made by the transaction, or retired with a tree */
    uint64_t made_by;   /* number of the tree it was made for; 0: dropped again before commit */
    size_t size;
};

/* A row of a leaf, or a separator: that has no value. */
struct row {
    struct piece piece;
    uint32_t key_length;
    uint32_t value_length;
    uint8_t data[]; /* key, value */
};

struct node {
    struct piece piece;
    uint16_t count;
    bool is_leaf;
    uint64_t heads[NODE_SLOTS_MAX]; /* each key's first eight bytes as a number: decide mostly */
    struct row *rows[NODE_SLOTS_MAX]; /* rows or separators; a branch's first is NULL */
    struct node *children[];          /* of a branch: NODE_SLOTS_MAX */
};

struct tree {
    struct piece piece;
    uint64_t number;
    int64_t version;
    struct node *root;
    struct piece *retired; /* pieces that were part of this tree and not of the next */
    struct tree *next;     /* towards newer ones, while it waits to be freed */
};

struct memory_snapshot {
    _Alignas(64) struct base_snapshot snapshot;
    _Atomic uint64_t epoch; /* 0: pins nothing */
    _Atomic bool taken;
    struct memory_base *owner;
    const struct tree *tree;
    unsigned depth; /* of the cursor: index of the leaf in the path */
    struct step {
        const struct node *node;
        unsigned slot;
    } path[DEPTH_MAX];
};

struct memory_base {
    struct base base;
    _Atomic(struct tree *) published;
    _Atomic uint64_t epoch; /* number of the published tree, or of the one before for a moment */
    _Atomic uint64_t bytes;
    _Atomic int64_t version;
    unsigned slots; /* how many snapshots there can be */
    struct memory_snapshot *snapshots;
    struct tree *oldest; /* of the trees not yet freed, towards `published` */

    /* The write transaction; `writing` is NULL between them. */
    struct tree *writing;
    struct piece *made;
    struct piece *retired;
};

static struct memory_base *base_of(struct base *base) {
    return (struct memory_base *)base;
}

static struct memory_snapshot *snapshot_of(struct base_snapshot *snapshot) {
    return (struct memory_snapshot *)snapshot;
}

/* ---- Pieces ---- */

static void piece_free(struct memory_base *b, struct piece *piece) {
    atomic_fetch_sub_explicit(&b->bytes, piece->size, memory_order_relaxed);
    memory_free(piece);
}

static void pieces_free(struct memory_base *b, struct piece *list) {
    while (list) {
        struct piece *next = list->next;
        piece_free(b, list);
        list = next;
    }
}

/* A new piece of the transaction under way, or NULL. */
static void *piece_make(struct memory_base *b, size_t size) {
    struct piece *piece = memory_allocate(size);
    if (!piece)
        return NULL;
    piece->size = size;
    piece->made_by = b->writing->number;
    piece->next = b->made;
    b->made = piece;
    atomic_fetch_add_explicit(&b->bytes, size, memory_order_relaxed);
    return piece;
}

static bool piece_is_ours(const struct memory_base *b, const struct piece *piece) {
    return piece->made_by == b->writing->number;
}

/* The tree being made does without this piece from now on. */
static void piece_drop(struct memory_base *b, struct piece *piece) {
    if (piece_is_ours(b, piece)) {
        piece->made_by = 0; /* no reader knows it: goes with the commit */
        return;
    }
    piece->next = b->retired;
    b->retired = piece;
}

/* ---- Rows and nodes ---- */

static struct bytes row_key(const struct row *row) {
    return bytes_make(row->data, row->key_length);
}

static struct bytes row_value(const struct row *row) {
    return bytes_make(row->data + row->key_length, row->value_length);
}

static struct row *row_make(struct memory_base *b, struct bytes key, struct bytes value) {
    struct row *row = piece_make(b, sizeof *row + key.length + value.length);
    if (!row)
        return NULL;
    row->key_length = (uint32_t)key.length;
    row->value_length = (uint32_t)value.length;
    if (key.length)
        memcpy(row->data, key.data, key.length);
    if (value.length)
        memcpy(row->data + key.length, value.data, value.length);
    return row;
}

static uint64_t head_of(struct bytes key) {
    if (key.length >= 8)
        return coding_get_u64_big(key.data);
    uint8_t buffer[8] = {0};
    if (key.length)
        memcpy(buffer, key.data, key.length);
    return coding_get_u64_big(buffer);
}

static size_t node_bytes(bool is_leaf) {
    return sizeof(struct node) + (is_leaf ? 0 : NODE_SLOTS_MAX * sizeof(struct node *));
}

static struct node *node_make(struct memory_base *b, bool is_leaf) {
    struct node *node = piece_make(b, node_bytes(is_leaf));
    if (!node)
        return NULL;
    node->count = 0;
    node->is_leaf = is_leaf;
    return node;
}

/* Makes *at a node that the transaction may change: itself or a copy. NULL when memory is out. */
static struct node *node_own(struct memory_base *b, struct node **at) {
    struct node *node = *at;
    if (piece_is_ours(b, &node->piece))
        return node;
    struct node *copy = node_make(b, node->is_leaf);
    if (!copy)
        return NULL;
    memcpy((uint8_t *)copy + sizeof(struct piece), (const uint8_t *)node + sizeof(struct piece),
           node_bytes(node->is_leaf) - sizeof(struct piece));
    piece_drop(b, &node->piece);
    *at = copy;
    return copy;
}

/* Moves `count` items from one node's slot to another's; overlapping in one node is fine. */
static void slots_move(struct node *to, unsigned to_slot, const struct node *from,
                       unsigned from_slot, unsigned count) {
    memmove(&to->heads[to_slot], &from->heads[from_slot], count * sizeof *to->heads);
    memmove(&to->rows[to_slot], &from->rows[from_slot], count * sizeof *to->rows);
    if (!to->is_leaf)
        memmove(&to->children[to_slot], &from->children[from_slot], count * sizeof *to->children);
}

static void slot_put(struct node *node, unsigned slot, struct row *row, struct node *child) {
    node->heads[slot] = row ? head_of(row_key(row)) : 0;
    node->rows[slot] = row;
    if (!node->is_leaf)
        node->children[slot] = child;
}

/* How many items have a key below `key`, not counting those before `from`, which do. */
static unsigned slots_below(const struct node *node, unsigned from, struct bytes key) {
    uint64_t head = head_of(key);
    unsigned low = from, high = node->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        bool below = node->heads[middle] != head
                         ? node->heads[middle] < head
                         : bytes_compare(row_key(node->rows[middle]), key) < 0;
        if (below)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The slot of a leaf with the first key at or after `key`; may be its count. */
static unsigned leaf_slot(const struct node *leaf, struct bytes key) {
    return slots_below(leaf, 0, key);
}

static bool leaf_has(const struct node *leaf, unsigned slot, struct bytes key) {
    return slot < leaf->count && bytes_equal(row_key(leaf->rows[slot]), key);
}

/* The slot of the child that `key` belongs to: the last whose separator is not above it. */
static unsigned branch_slot(const struct node *branch, struct bytes key) {
    unsigned slot = slots_below(branch, 1, key);
    bool equal = slot < branch->count && bytes_equal(row_key(branch->rows[slot]), key);
    return equal ? slot : slot - 1;
}

/* ---- Reading ---- */

static fdb_error_t memory_snapshot_create(struct base *base, struct base_snapshot **snapshot) {
    struct memory_base *b = base_of(base);
    for (unsigned i = 0; i < b->slots; i++) {
        struct memory_snapshot *s = &b->snapshots[i];
        if (!atomic_load_explicit(&s->taken, memory_order_relaxed) &&
            !atomic_exchange(&s->taken, true)) {
            s->tree = NULL;
            *snapshot = &s->snapshot;
            return ERROR_SUCCESS;
        }
    }
    return ERROR_OPERATION_FAILED;
}

static void memory_snapshot_reset(struct base_snapshot *snapshot) {
    struct memory_snapshot *s = snapshot_of(snapshot);
    s->tree = NULL;
    atomic_store_explicit(&s->epoch, 0, memory_order_release);
}

static void memory_snapshot_destroy(struct base_snapshot *snapshot) {
    memory_snapshot_reset(snapshot);
    atomic_store_explicit(&snapshot_of(snapshot)->taken, false, memory_order_release);
}

static fdb_error_t memory_snapshot_renew(struct base_snapshot *snapshot, int64_t *version) {
    struct memory_snapshot *s = snapshot_of(snapshot);
    memory_snapshot_reset(snapshot);
    atomic_store(&s->epoch, atomic_load(&s->owner->epoch));
    s->tree = atomic_load(&s->owner->published);
    *version = s->tree->version;
    return ERROR_SUCCESS;
}

static fdb_error_t memory_get(struct base_snapshot *snapshot, struct bytes key, struct bytes *value,
                              bool *present) {
    const struct node *node = snapshot_of(snapshot)->tree->root;
    while (!node->is_leaf)
        node = node->children[branch_slot(node, key)];
    unsigned slot = leaf_slot(node, key);
    *present = leaf_has(node, slot, key);
    if (*present)
        *value = row_value(node->rows[slot]);
    return ERROR_SUCCESS;
}

/*
 * Down from the node at `depth` of the path along its first or last children; the path ends in a
 * leaf, at its first or last row.
 */
static void path_to_edge(struct memory_snapshot *s, unsigned depth, const struct node *node,
                         bool last) {
    for (;; node = node->children[s->path[depth++].slot]) {
        assert(depth < DEPTH_MAX);
        s->path[depth] = (struct step){node, last && node->count ? node->count - 1u : 0};
        if (node->is_leaf)
            break;
    }
    s->depth = depth;
}

/*
 * The path to the leaf that `key` belongs to, and the slot there of the first key at or after it,
 * which may be past the last.
 */
static struct step *path_to_key(struct memory_snapshot *s, struct bytes key) {
    const struct node *node = s->tree->root;
    unsigned depth = 0;
    for (; !node->is_leaf; depth++) {
        assert(depth < DEPTH_MAX);
        s->path[depth] = (struct step){node, branch_slot(node, key)};
        node = node->children[s->path[depth].slot];
    }
    s->path[depth] = (struct step){node, leaf_slot(node, key)};
    s->depth = depth;
    return &s->path[depth];
}

/* The path ends at the row the cursor stands on. */
static void row_take(struct memory_snapshot *s) {
    const struct step *step = &s->path[s->depth];
    const struct row *row = step->node->rows[step->slot];
    s->snapshot.key = row_key(row);
    s->snapshot.value = row_value(row);
}

/* To the first row of the leaf after the path's. */
static bool leaf_after(struct memory_snapshot *s) {
    for (unsigned depth = s->depth; depth-- > 0;) {
        struct step *step = &s->path[depth];
        if (step->slot + 1u < step->node->count) {
            step->slot++;
            path_to_edge(s, depth + 1, step->node->children[step->slot], false);
            return true;
        }
    }
    return false;
}

static bool leaf_before(struct memory_snapshot *s) {
    for (unsigned depth = s->depth; depth-- > 0;) {
        struct step *step = &s->path[depth];
        if (step->slot > 0) {
            step->slot--;
            path_to_edge(s, depth + 1, step->node->children[step->slot], true);
            return true;
        }
    }
    return false;
}

static fdb_error_t memory_seek(struct base_snapshot *snapshot, struct bytes key, bool *found) {
    struct memory_snapshot *s = snapshot_of(snapshot);
    struct step *step = path_to_key(s, key);
    *found = step->slot < step->node->count || leaf_after(s);
    if (*found)
        row_take(s);
    return ERROR_SUCCESS;
}

static fdb_error_t memory_next(struct base_snapshot *snapshot, bool *found) {
    struct memory_snapshot *s = snapshot_of(snapshot);
    struct step *step = &s->path[s->depth];
    *found = ++step->slot < step->node->count || leaf_after(s);
    if (*found)
        row_take(s);
    return ERROR_SUCCESS;
}

static fdb_error_t memory_previous(struct base_snapshot *snapshot, bool *found) {
    struct memory_snapshot *s = snapshot_of(snapshot);
    struct step *step = &s->path[s->depth];
    bool inside = step->slot > 0;
    if (inside)
        step->slot--;
    *found = inside || leaf_before(s);
    if (*found)
        row_take(s);
    return ERROR_SUCCESS;
}

static fdb_error_t memory_seek_before(struct base_snapshot *snapshot, struct bytes key,
                                      bool *found) {
    path_to_key(snapshot_of(snapshot), key);
    return memory_previous(snapshot, found);
}

/* ---- Writing: transactions ---- */

/* Frees old trees, oldest first, up to the first that a snapshot may still use. Writer only. */
static void collect(struct memory_base *b) {
    uint64_t pinned = UINT64_MAX;
    for (unsigned i = 0; i < b->slots; i++) {
        uint64_t epoch = atomic_load(&b->snapshots[i].epoch);
        if (epoch && epoch < pinned)
            pinned = epoch;
    }
    while (b->oldest->next && b->oldest->number < pinned) {
        struct tree *tree = b->oldest;
        b->oldest = tree->next;
        pieces_free(b, tree->retired);
        piece_free(b, &tree->piece);
    }
}

static fdb_error_t memory_write_begin(struct base *base) {
    struct memory_base *b = base_of(base);
    struct tree *current = atomic_load_explicit(&b->published, memory_order_relaxed);
    assert(!b->writing);
    collect(b);
    struct tree *tree = memory_allocate_zeroed(sizeof *tree);
    if (!tree)
        return ERROR_LARGE_ALLOC_FAILED;
    tree->piece.size = sizeof *tree;
    tree->number = current->number + 1;
    tree->root = current->root;
    b->writing = tree;
    b->made = b->retired = NULL;
    atomic_fetch_add_explicit(&b->bytes, sizeof *tree, memory_order_relaxed);
    return ERROR_SUCCESS;
}

static void memory_write_abort(struct base *base) {
    struct memory_base *b = base_of(base);
    if (!b->writing)
        return;
    pieces_free(b, b->made);
    piece_free(b, &b->writing->piece);
    b->writing = NULL;
}

static uint64_t memory_write_pages(struct base *base) {
    (void)base;
    return 0;
}

static fdb_error_t memory_write_commit(struct base *base, int64_t version) {
    struct memory_base *b = base_of(base);
    struct tree *current = atomic_load_explicit(&b->published, memory_order_relaxed);
    struct tree *tree = b->writing;
    assert(tree);
    while (b->made) { /* what was made and dropped again is not part of any tree */
        struct piece *next = b->made->next;
        if (b->made->made_by == 0)
            piece_free(b, b->made);
        b->made = next;
    }
    tree->version = version;
    current->retired = b->retired;
    current->next = tree;
    b->writing = NULL;
    atomic_store(&b->published, tree);
    atomic_store(&b->epoch, tree->number);
    atomic_store(&b->version, version);
    collect(b);
    return ERROR_SUCCESS;
}

/* ---- Writing: setting a key ---- */

/*
 * Splits a full node that is ours: its upper half goes to a new node, whose separator is returned
 * with it.
 */
static bool node_split(struct memory_base *b, struct node *node, struct row **separator,
                       struct node **right) {
    unsigned keep = node->count / 2u;
    struct node *made = node_make(b, node->is_leaf);
    if (!made)
        return false;
    struct row *between =
        node->rows[keep]; /* a branch's separator moves up; a leaf's first key is copied */
    if (node->is_leaf) {
        between = row_make(b, row_key(between), (struct bytes){0});
        if (!between)
            return false;
    }
    made->count = (uint16_t)(node->count - keep);
    slots_move(made, 0, node, keep, made->count);
    if (!made->is_leaf)
        slot_put(made, 0, NULL, made->children[0]);
    node->count = (uint16_t)keep;
    *separator = between;
    *right = made;
    return true;
}

static void slot_insert(struct node *node, unsigned slot, struct row *row, struct node *child) {
    slots_move(node, slot + 1, node, slot, node->count - slot);
    slot_put(node, slot, row, child);
    node->count++;
}

/*
 * Sets a row in the sub-tree at *at. Nodes on the way are split when they are full, before they
 * are entered, so that a split never climbs. The caller has made sure that the top one has room.
 */
static fdb_error_t node_set(struct memory_base *b, struct node **at, struct row *row) {
    struct bytes key = row_key(row);
    for (;;) {
        struct node *node = node_own(b, at);
        if (!node)
            return ERROR_LARGE_ALLOC_FAILED;
        if (node->is_leaf) {
            unsigned slot = leaf_slot(node, key);
            if (leaf_has(node, slot, key)) {
                piece_drop(b, &node->rows[slot]->piece);
                node->rows[slot] = row;
            } else {
                slot_insert(node, slot, row, NULL);
            }
            return ERROR_SUCCESS;
        }
        unsigned slot = branch_slot(node, key);
        if (node->children[slot]->count == NODE_SLOTS_MAX) {
            struct row *separator;
            struct node *right;
            struct node *child = node_own(b, &node->children[slot]);
            if (!child || !node_split(b, child, &separator, &right))
                return ERROR_LARGE_ALLOC_FAILED;
            slot_insert(node, slot + 1, separator, right);
            slot = branch_slot(node, key);
        }
        at = &node->children[slot];
    }
}

static fdb_error_t memory_write_set(struct base *base, struct bytes key, struct bytes value) {
    struct memory_base *b = base_of(base);
    assert(b->writing);
    struct row *row = row_make(b, key, value);
    if (!row)
        return ERROR_LARGE_ALLOC_FAILED;
    if (b->writing->root->count == NODE_SLOTS_MAX) { /* the tree grows at its root */
        struct row *separator;
        struct node *right, *old = node_own(b, &b->writing->root), *root = node_make(b, false);
        if (!old || !root || !node_split(b, old, &separator, &right))
            return ERROR_LARGE_ALLOC_FAILED;
        slot_insert(root, 0, NULL, old);
        slot_insert(root, 1, separator, right);
        b->writing->root = root;
    }
    return node_set(b, &b->writing->root, row);
}

/* ---- Writing: clearing ---- */

/* Drops everything in a sub-tree, the node itself included. */
static void subtree_drop(struct memory_base *b, struct node *node) {
    for (unsigned i = 0; i < node->count; i++) {
        if (node->rows[i])
            piece_drop(b, &node->rows[i]->piece);
        if (!node->is_leaf)
            subtree_drop(b, node->children[i]);
    }
    piece_drop(b, &node->piece);
}

/*
 * Takes the items from slot `from` to before `to` out of a node that is ours; what they held has
 * been dropped.
 */
static void slots_remove(struct node *node, unsigned from, unsigned to) {
    slots_move(node, from, node, to, node->count - to);
    node->count = (uint16_t)(node->count - (to - from));
}

/* The children in these slots go, with their separators. What then comes first has no separator. */
static void children_remove(struct memory_base *b, struct node *branch, unsigned from,
                            unsigned to) {
    for (unsigned i = from; i < to; i++) {
        if (branch->rows[i])
            piece_drop(b, &branch->rows[i]->piece);
    }
    slots_remove(branch, from, to);
    if (branch->count && branch->rows[0]) {
        piece_drop(b, &branch->rows[0]->piece);
        slot_put(branch, 0, NULL, branch->children[0]);
    }
}

/*
 * Joins the child in a slot with the one after it, if one of them has few items and both fit into
 * one.
 */
static fdb_error_t children_join(struct memory_base *b, struct node *branch, unsigned slot) {
    if (slot + 1 >= branch->count)
        return ERROR_SUCCESS;
    struct node *left = branch->children[slot], *right = branch->children[slot + 1];
    if ((left->count >= NODE_SLOTS_FEW && right->count >= NODE_SLOTS_FEW) ||
        left->count + right->count > NODE_SLOTS_MAX)
        return ERROR_SUCCESS;
    left = node_own(b, &branch->children[slot]);
    if (!left)
        return ERROR_LARGE_ALLOC_FAILED;
    struct row *separator = branch->rows[slot + 1];
    slots_move(left, left->count, right, 0, right->count);
    if (left->is_leaf)
        piece_drop(b, &separator->piece);
    else
        slot_put(left, left->count, separator, right->children[0]);
    left->count = (uint16_t)(left->count + right->count);
    piece_drop(b, &right->piece);
    slots_remove(branch, slot + 1, slot + 2);
    return ERROR_SUCCESS;
}

/* Are there rows in the range below this node? Then it has to be changed. */
static bool node_touches(const struct node *node, struct bytes begin, struct bytes end) {
    if (node->is_leaf)
        return leaf_slot(node, begin) < leaf_slot(node, end);
    unsigned from = branch_slot(node, begin), to = branch_slot(node, end);
    return to > from + 1 || node_touches(node->children[from], begin, end) ||
           (to > from && node_touches(node->children[to], begin, end));
}

/* Clears a range below *at; the node may be left with no items. REQUIRES: node_touches. */
static fdb_error_t node_clear(struct memory_base *b, struct node **at, struct bytes begin,
                              struct bytes end) {
    struct node *node = node_own(b, at);
    if (!node)
        return ERROR_LARGE_ALLOC_FAILED;
    if (node->is_leaf) {
        unsigned from = leaf_slot(node, begin), to = leaf_slot(node, end);
        for (unsigned i = from; i < to; i++)
            piece_drop(b, &node->rows[i]->piece);
        slots_remove(node, from, to);
        return ERROR_SUCCESS;
    }
    unsigned from = branch_slot(node, begin), to = branch_slot(node, end);
    fdb_error_t error = ERROR_SUCCESS;
    if (node_touches(node->children[from], begin, end))
        error = node_clear(b, &node->children[from], begin, end);
    if (!error && to > from && node_touches(node->children[to], begin, end))
        error = node_clear(b, &node->children[to], begin, end);
    if (error)
        return error;
    for (unsigned i = from + 1; i < to; i++)
        subtree_drop(b, node->children[i]);
    unsigned gone_from = from, gone_to = to > from ? to : from + 1;
    if (node->children[from]->count)
        gone_from = from + 1;
    else
        piece_drop(b, &node->children[from]->piece);
    if (to > from && node->children[to]->count == 0) {
        piece_drop(b, &node->children[to]->piece);
        gone_to = to + 1;
    }
    if (gone_from < gone_to)
        children_remove(b, node, gone_from, gone_to);
    error = children_join(b, node, gone_from);
    if (!error && gone_from > 0)
        error = children_join(b, node, gone_from - 1);
    return error;
}

static fdb_error_t memory_write_clear_range(struct base *base, struct bytes begin,
                                            struct bytes end) {
    struct memory_base *b = base_of(base);
    assert(b->writing);
    struct node **root = &b->writing->root;
    if (bytes_compare(begin, end) >= 0 || !node_touches(*root, begin, end))
        return ERROR_SUCCESS;
    fdb_error_t error = node_clear(b, root, begin, end);
    if (error)
        return error;
    while (!(*root)->is_leaf &&
           (*root)->count == 1) { /* a branch with one child is no use as a root */
        struct node *child = (*root)->children[0];
        piece_drop(b, &(*root)->piece);
        *root = child;
    }
    if ((*root)->is_leaf || (*root)->count)
        return ERROR_SUCCESS;
    struct node *empty = node_make(b, true);
    if (!empty)
        return ERROR_LARGE_ALLOC_FAILED;
    piece_drop(b, &(*root)->piece);
    *root = empty;
    return ERROR_SUCCESS;
}

static fdb_error_t memory_write_clear(struct base *base, struct bytes key) {
    uint8_t after[KEY_BYTES_MAX + 1];
    assert(key.length <= KEY_BYTES_MAX);
    if (key.length)
        memcpy(after, key.data, key.length);
    after[key.length] = 0;
    return memory_write_clear_range(base, key, bytes_make(after, key.length + 1));
}

/* ---- Checking ---- */

/*
 * Tests a sub-tree whose keys must lie in [low, high), NULL being no bound. Returns its height, or
 * 0 where an invariant is broken.
 */
static unsigned node_check(const struct node *node, const struct row *low, const struct row *high,
                           bool is_root) {
    if (node->count > NODE_SLOTS_MAX || (!node->count && !(is_root && node->is_leaf)))
        return 0;
    unsigned height = 0;
    for (unsigned i = 0; i < node->count; i++) {
        const struct row *row = node->rows[i];
        if (!row != (!node->is_leaf && i == 0))
            return 0;
        if (row) {
            struct bytes key = row_key(row);
            const struct row *before = i > 0 && node->rows[i - 1] ? node->rows[i - 1] : NULL;
            if (node->heads[i] != head_of(key) || (low && bytes_compare(row_key(low), key) > 0) ||
                (high && bytes_compare(key, row_key(high)) >= 0) ||
                (before && bytes_compare(row_key(before), key) >= 0))
                return 0;
        }
        if (!node->is_leaf) {
            const struct row *next = i + 1u < node->count ? node->rows[i + 1] : high;
            unsigned below = node_check(node->children[i], row ? row : low, next, false);
            if (!below || (height && below != height))
                return 0;
            height = below;
        }
    }
    return height + 1;
}

static fdb_error_t memory_check(struct base *base) {
    struct base_snapshot *snapshot;
    int64_t version;
    fdb_error_t error = memory_snapshot_create(base, &snapshot);
    if (error)
        return error;
    memory_snapshot_renew(snapshot, &version);
    unsigned height = node_check(snapshot_of(snapshot)->tree->root, NULL, NULL, true);
    memory_snapshot_destroy(snapshot);
    return height ? ERROR_SUCCESS : ERROR_DATABASE_DAMAGED;
}

/* ---- Opening and closing ---- */

static int64_t memory_version(struct base *base) {
    return atomic_load(&base_of(base)->version);
}

static uint64_t memory_bytes(struct base *base) {
    return atomic_load_explicit(&base_of(base)->bytes, memory_order_relaxed);
}

/* Frees a sub-tree that nobody reads any more. */
static void subtree_free(struct memory_base *b, struct node *node) {
    for (unsigned i = 0; i < node->count; i++) {
        if (node->rows[i])
            piece_free(b, &node->rows[i]->piece);
        if (!node->is_leaf)
            subtree_free(b, node->children[i]);
    }
    piece_free(b, &node->piece);
}

static void memory_close(struct base *base) {
    struct memory_base *b = base_of(base);
    memory_write_abort(base);
    for (unsigned i = 0; i < b->slots; i++)
        assert(!atomic_load(&b->snapshots[i].taken));
    collect(b); /* nothing is pinned: leaves the published tree */
    subtree_free(b, b->oldest->root);
    piece_free(b, &b->oldest->piece);
    assert(atomic_load(&b->bytes) == 0);
    memory_free(b->snapshots);
    memory_free(b);
}

/* A retired piece is freed, not kept. */
static uint64_t memory_free_bytes(struct base *base) {
    (void)base;
    return 0;
}

static const struct base_methods memory_methods = {
    .close = memory_close,
    .version = memory_version,
    .bytes = memory_bytes,
    .free_bytes = memory_free_bytes,
    .snapshot_create = memory_snapshot_create,
    .snapshot_destroy = memory_snapshot_destroy,
    .snapshot_renew = memory_snapshot_renew,
    .snapshot_reset = memory_snapshot_reset,
    .get = memory_get,
    .seek = memory_seek,
    .seek_before = memory_seek_before,
    .next = memory_next,
    .previous = memory_previous,
    .estimate_bytes = base_estimate,
    .write_begin = memory_write_begin,
    .write_set = memory_write_set,
    .write_clear = memory_write_clear,
    .write_clear_range = memory_write_clear_range,
    .write_commit = memory_write_commit,
    .write_abort = memory_write_abort,
    .write_pages = memory_write_pages,
    .check = memory_check,
};

/* The first tree, with an empty leaf. */
static bool tree_plant(struct memory_base *b) {
    struct tree *tree = memory_allocate_zeroed(sizeof *tree);
    struct node *root = memory_allocate_zeroed(node_bytes(true));
    if (!tree || !root) {
        memory_free(tree);
        memory_free(root);
        return false;
    }
    root->piece.size = node_bytes(true);
    root->is_leaf = true;
    tree->piece.size = sizeof *tree;
    tree->number = 1; /* zero is no epoch */
    tree->root = root;
    b->oldest = tree;
    atomic_init(&b->published, tree);
    atomic_init(&b->epoch, tree->number);
    atomic_init(&b->bytes, tree->piece.size + root->piece.size);
    return true;
}

fdb_error_t base_memory_open(const struct base_options *options, struct base **base) {
    struct memory_base *b = memory_allocate_zeroed(sizeof *b);
    if (!b)
        return ERROR_LARGE_ALLOC_FAILED;
    b->base.methods = &memory_methods;
    b->slots = options->snapshots_max + 1; /* one for memory_check */
    b->snapshots =
        memory_allocate_aligned(_Alignof(struct memory_snapshot), b->slots * sizeof *b->snapshots);
    if (!b->snapshots || !tree_plant(b)) {
        memory_free(b->snapshots);
        memory_free(b);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    memset(b->snapshots, 0, b->slots * sizeof *b->snapshots);
    for (unsigned i = 0; i < b->slots; i++) {
        b->snapshots[i].snapshot.methods = &memory_methods;
        b->snapshots[i].owner = b;
    }
    *base = &b->base;
    return ERROR_SUCCESS;
}
