/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write map: a transaction's own writes as an ordered map of boundaries, so that reads can be
 * merged with them and the commit can send them in their shortest form.
 *
 *     set b, clear [d, f), add g            ""      b       b\0    d        f      g        g\0      \xff\xff
 *                                           |-------|=======|------|xxxxxxxx|------|=======|---------|
 *                                           unmod.  set     unmod. cleared  unmod. add      unmodified
 *
 * A node stands at "", b, d, f and g. The stretch after b's operation belongs to b's node, so a set
 * costs one node; a range clear costs up to two. The nodes hang in a skip list of height up to 12,
 * linked backwards at the bottom.
 *
 *   1. `head` has the empty key and is there as soon as the map is not empty; keys grow strictly
 *      along next[0].
 *   2. Every node's key is followed by a zero byte in memory, so the key after it needs no copy.
 *   3. A stretch that is cleared is not unreadable. An operation inside one came after the clear,
 *      hence depends on nothing.
 *   4. Operations on a readable key are merged as far as they can be: a set swallows what was
 *      before; an atomic operation on a set (or on a cleared key) becomes a set; two of the same
 *      kind become one where that gives the same result for every present value. On an unreadable
 *      key they are only queued.
 *   5. A conflict, once added to a key, stays until the transaction ends, whatever is written later
 *      without one.
 *
 * Removed nodes stay in the arena until the transaction is reset: what a transaction can waste is
 * bounded by what it was asked to do.
 */
#include "txn/write_map.h"

#include <assert.h>

static const struct bytes KEYS_END = {(const uint8_t *)"\xff\xff", 2};

/* --- The skip list --- */

static uint64_t prefix_of(struct bytes key) {
    uint8_t first[8] = {0};
    if (key.length)
        memcpy(first, key.data, key.length < 8 ? key.length : 8);
    uint64_t prefix;
    memcpy(&prefix, first, 8);
    return __builtin_bswap64(prefix);
}

static int compare_node(const struct write_node *node, struct bytes key, uint64_t prefix) {
    if (node->prefix != prefix)
        return node->prefix < prefix ? -1 : 1;
    return bytes_compare(node->key, key);
}

static struct write_node *new_node(struct write_map *map, struct bytes key, int height) {
    struct write_node *node = arena_allocate(map->arena, sizeof *node
                                             + (size_t)height * sizeof node->next[0]);
    uint8_t *copy = node ? arena_allocate_bytes(map->arena, key.length + 1) : NULL;
    if (!copy)
        return NULL;
    if (key.length)
        memcpy(copy, key.data, key.length);
    copy[key.length] = 0;
    memset(node, 0, sizeof *node + (size_t)height * sizeof node->next[0]);
    node->key = bytes_make(copy, key.length);
    node->prefix = prefix_of(key);
    node->height = (uint8_t)height;
    return node;
}

static bool ensure_head(struct write_map *map) {
    if (map->head)
        return true;
    struct write_node *head = new_node(map, BYTES_LITERAL(""), WRITE_MAP_HEIGHT_MAX);
    if (!head)
        return false;
    map->head = head;
    map->height = 1;
    map->random = 0x9e3779b97f4a7c15u;
    map->node_count = 1;
    return true;
}

static int random_height(struct write_map *map) {
    uint64_t x = map->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    map->random = x;
    int height = 1;
    while (height < WRITE_MAP_HEIGHT_MAX && (x & 3) == 0) {
        height++;
        x >>= 2;
    }
    return height;
}

/*
 * Fills path[] with the last node before `key` on every level; returns the node at `key` or else
 * path[0].
 */
static struct write_node *locate(const struct write_map *map, struct bytes key,
                                 struct write_node **path) {
    struct write_node *at = map->head;
    uint64_t prefix = prefix_of(key);
    for (int level = map->height - 1; level >= 0; level--) {
        while (at->next[level] && compare_node(at->next[level], key, prefix) < 0)
            at = at->next[level];
        if (path)
            path[level] = at;
    }
    struct write_node *next = at->next[0];
    if (next && key.length && compare_node(next, key, prefix) == 0)
        return next;
    return at;
}

static void link_node(struct write_map *map, struct write_node *node, struct write_node **path) {
    for (int level = map->height; level < node->height; level++)
        path[level] = map->head;
    if (node->height > map->height)
        map->height = node->height;
    for (int level = 0; level < node->height; level++) {
        node->next[level] = path[level]->next[level];
        path[level]->next[level] = node;
    }
    node->previous = path[0];
    if (node->next[0])
        node->next[0]->previous = node;
    map->node_count++;
}

/* The node at `key`, made if need be in the state that holds there now. NULL when memory is out. */
static struct write_node *boundary(struct write_map *map, struct bytes key) {
    struct write_node *path[WRITE_MAP_HEIGHT_MAX];
    if (!ensure_head(map))
        return NULL;
    struct write_node *at = locate(map, key, path);
    if (bytes_equal(at->key, key))
        return at;
    struct write_node *node = new_node(map, key, random_height(map));
    if (!node)
        return NULL;
    node->cleared = at->cleared;
    node->following_conflict = at->following_conflict;
    node->following_unreadable = at->following_unreadable;
    link_node(map, node, path);
    return node;
}

/* Takes out every node in [begin, end). REQUIRES: begin is not empty. */
static void remove_nodes(struct write_map *map, struct bytes begin, struct bytes end) {
    struct write_node *path[WRITE_MAP_HEIGHT_MAX];
    uint64_t prefix = prefix_of(end);
    locate(map, begin, path);
    struct write_node *node = path[0]->next[0];
    for (; node && compare_node(node, end, prefix) < 0; node = node->next[0]) {
        map->node_count--;
        for (struct write_operation *op = node->first; op; op = op->next)
            map->operation_count--;
    }
    if (node)
        node->previous = path[0];
    for (int level = 0; level < map->height; level++) {
        struct write_node *next = path[level]->next[level];
        while (next && compare_node(next, end, prefix) < 0)
            next = next->next[level];
        path[level]->next[level] = next;
    }
}

/* --- Operations on one key --- */

static bool depends_on_database(enum mutation_type type) { return mutation_is_atomic(type); }

static bool is_versionstamped(enum mutation_type type) {
    return type == MUTATION_SET_VERSIONSTAMPED_KEY || type == MUTATION_SET_VERSIONSTAMPED_VALUE;
}

/* Kinds for which (a op b) op c and a op (b op c) may differ unless all are of one length. */
static bool needs_equal_lengths(enum mutation_type type) {
    return type == MUTATION_ADD || type == MUTATION_OR || type == MUTATION_XOR ||
           type == MUTATION_MAX ||
           type == MUTATION_MIN || type == MUTATION_MIN_V2;
}

static fdb_error_t queue(struct write_map *map, struct write_node *node, enum mutation_type type,
                         bool present,
                         struct bytes value) {
    struct write_operation *op = arena_allocate(map->arena, sizeof *op);
    if (!op)
        return ERROR_LARGE_ALLOC_FAILED;
    *op = (struct write_operation){type, present, value, NULL};
    if (node->last)
        node->last->next = op;
    else
        node->first = op;
    node->last = op;
    map->operation_count++;
    return 0;
}

/* Puts one operation in the place of all that were there. */
static fdb_error_t replace(struct write_map *map, struct write_node *node, enum mutation_type type,
                           bool present,
                           struct bytes value) {
    struct write_operation *op = node->first;
    if (!op)
        return queue(map, node, type, present, value);
    for (struct write_operation *later = op->next; later; later = later->next)
        map->operation_count--;
    *op = (struct write_operation){type, present, value, NULL};
    node->last = op;
    return 0;
}

/* Merges an atomic operation into the last one on the key, or queues it behind. */
static fdb_error_t merge(struct write_map *map, struct write_node *node, enum mutation_type type,
                         struct bytes value) {
    struct write_operation *top = node->last;
    if (top->type == MUTATION_SET) {
        bool cleared;
        struct bytes result;
        fdb_error_t error =
            mutation_apply(type, top->present ? &top->value : NULL, value, map->arena, &result,
                           &cleared);
        if (error)
            return error;
        top->present = !cleared;
        top->value = cleared ? BYTES_LITERAL("") : result;
        return 0;
    }
    bool joins = top->type == type && type != MUTATION_COMPARE_AND_CLEAR &&
                 type != MUTATION_APPEND_IF_FITS;
    if (!joins || (needs_equal_lengths(type) && top->value.length != value.length))
        return queue(map, node, type, true, value);
    bool cleared;
    return mutation_apply(type, &top->value, value, map->arena, &top->value, &cleared);
}

fdb_error_t write_map_mutate(struct write_map *map, struct bytes key, enum mutation_type type,
                             struct bytes value,
                             bool add_conflict) {
    struct write_node *node = boundary(map, key);
    if (!node)
        return ERROR_LARGE_ALLOC_FAILED;
    bool had_operations = node->first != NULL;
    bool was_unreadable = had_operations ? node->unreadable : node->following_unreadable;
    bool was_conflict = had_operations ? node->conflict : node->following_conflict;
    bool unreadable = was_unreadable || is_versionstamped(type);
    fdb_error_t error = 0;
    if (!was_unreadable && (type == MUTATION_SET || type == MUTATION_SET_VERSIONSTAMPED_VALUE)) {
        error = replace(map, node, type, true, value);
    } else if (!had_operations && node->cleared && depends_on_database(type)) {
        error = queue(map, node, MUTATION_SET, false, BYTES_LITERAL(""));
        if (!error && (error = merge(map, node, type, value)) != 0) {
            node->first = node->last = NULL;
            map->operation_count--;
        }
    } else if (!unreadable && had_operations) {
        error = merge(map, node, type, value);
    } else {
        error = queue(map, node, type, true, value);
    }
    if (error)
        return error;
    node->conflict = was_conflict || add_conflict;
    node->unreadable = unreadable;
    return 0;
}

fdb_error_t write_map_clear_key(struct write_map *map, struct bytes key, bool add_conflict) {
    struct write_node *node = boundary(map, key);
    if (!node)
        return ERROR_LARGE_ALLOC_FAILED;
    bool was_conflict = node->first ? node->conflict : node->following_conflict;
    fdb_error_t error = replace(map, node, MUTATION_SET, false, BYTES_LITERAL(""));
    if (error)
        return error;
    node->conflict = was_conflict || add_conflict;
    node->unreadable = false;
    return 0;
}

/* --- Ranges --- */

static void drop_operations(struct write_map *map, struct write_node *node) {
    for (struct write_operation *op = node->first; op; op = op->next)
        map->operation_count--;
    node->first = node->last = NULL;
    node->conflict = node->unreadable = false;
}

/* Boundaries at both ends of a range; the stretch between them is then [*first, *last). */
static bool bounds(struct write_map *map, struct key_range range, struct write_node **first,
                   struct write_node **last) {
    *last = NULL;
    if (bytes_compare(range.end, KEYS_END) < 0 && !(*last = boundary(map, range.end)))
        return false;
    *first = boundary(map, range.begin);
    return *first != NULL;
}

/* Joins `node` to the stretch before it where both are in one state. */
static void join_backwards(struct write_map *map, struct write_node *node) {
    struct write_node *before = node->previous;
    if (!before || node->first || before->cleared != node->cleared ||
        before->following_conflict != node->following_conflict ||
        before->following_unreadable != node->following_unreadable)
        return;
    remove_nodes(map, node->key, write_node_after(node));
}

static fdb_error_t overwrite(struct write_map *map, struct key_range range, bool cleared,
                             bool conflict, bool unreadable) {
    struct write_node *first, *last;
    if (!bounds(map, range, &first, &last))
        return ERROR_LARGE_ALLOC_FAILED;
    remove_nodes(map, write_node_after(first), last ? last->key : KEYS_END);
    drop_operations(map, first);
    first->cleared = cleared;
    first->following_conflict = conflict;
    first->following_unreadable = unreadable;
    if (last)
        join_backwards(map, last);
    join_backwards(map, first);
    return 0;
}

/*
 * A clear that adds no conflict: what conflicted before must go on conflicting, so the stretch is
 * cut where that changes.
 */
static fdb_error_t clear_quietly(struct write_map *map, struct key_range range) {
    struct write_node *first, *last;
    if (!bounds(map, range, &first, &last))
        return ERROR_LARGE_ALLOC_FAILED;
    for (struct write_node *node = first; node != last; node = node->next[0]) {
        if (!node->first || node->conflict == node->following_conflict)
            continue;
        struct write_node *after = boundary(map, write_node_after(node));
        if (!after)
            return ERROR_LARGE_ALLOC_FAILED;
        node->following_conflict = node->conflict;
    }
    for (struct write_node *node = first; node != last; node = node->next[0]) {
        bool conflict = node->first ? node->conflict : node->following_conflict;
        drop_operations(map, node);
        node->cleared = true;
        node->following_conflict = conflict;
        node->following_unreadable = false;
    }
    for (struct write_node *node = first->next[0], *next; node && node != last; node = next) {
        next = node->next[0];
        join_backwards(map, node);
    }
    return 0;
}

fdb_error_t write_map_clear_range(struct write_map *map, struct key_range range,
                                  bool add_conflict) {
    return add_conflict ? overwrite(map, range, true, true, false) : clear_quietly(map, range);
}

fdb_error_t write_map_make_unreadable(struct write_map *map, struct key_range range) {
    return overwrite(map, range, false, false, true);
}

fdb_error_t write_map_add_conflict(struct write_map *map, struct key_range range) {
    struct write_node *first, *last;
    if (!bounds(map, range, &first, &last))
        return ERROR_LARGE_ALLOC_FAILED;
    for (struct write_node *node = first; node != last; node = node->next[0])
        node->conflict = node->following_conflict = true;
    return 0;
}

/* --- Segments --- */

/* Whether the stretch after a node's operation holds any key. */
static bool has_stretch(const struct write_node *node) {
    return !node->first || !node->next[0] || !bytes_equal(node->next[0]->key,
                                                          write_node_after(node));
}

struct write_segment write_map_find(const struct write_map *map, struct bytes key) {
    if (!map->head)
        return (struct write_segment){NULL, false};
    struct write_node *node = locate(map, key, NULL);
    return (struct write_segment){node, node->first && bytes_equal(node->key, key)};
}

struct write_segment write_map_find_before(const struct write_map *map, struct bytes key) {
    if (!map->head)
        return (struct write_segment){NULL, false};
    struct write_node *node = locate(map, key, NULL);
    if (bytes_equal(node->key, key))
        node = node->previous;
    if (node->first && bytes_equal(key, write_node_after(node)))
        return (struct write_segment){node, true};
    return (struct write_segment){node, node->first != NULL && !has_stretch(node)};
}

bool write_segment_is_last(struct write_segment segment) {
    return !segment.node || (!segment.operation && !segment.node->next[0]);
}

struct write_segment write_segment_next(struct write_segment segment) {
    if (segment.operation && has_stretch(segment.node))
        return (struct write_segment){segment.node, false};
    struct write_node *next = segment.node->next[0];
    return (struct write_segment){next, next->first != NULL};
}

struct bytes write_segment_begin(struct write_segment segment) {
    if (!segment.node)
        return BYTES_LITERAL("");
    return !segment.operation && segment.node->first ? write_node_after(segment.node)
           : segment.node->key;
}

struct bytes write_segment_end(struct write_segment segment) {
    if (!segment.node)
        return KEYS_END;
    if (segment.operation)
        return write_node_after(segment.node);
    return segment.node->next[0] ? segment.node->next[0]->key : KEYS_END;
}

enum write_kind write_segment_kind(struct write_segment segment) {
    if (!segment.node)
        return WRITE_UNMODIFIED;
    if (!segment.operation)
        return segment.node->cleared ? WRITE_CLEARED : WRITE_UNMODIFIED;
    return depends_on_database(segment.node->first->type) && !segment.node->cleared
           ? WRITE_DEPENDENT : WRITE_INDEPENDENT;
}

bool write_segment_conflicts(struct write_segment segment) {
    return segment.node && (segment.operation ? segment.node->conflict
                            : segment.node->following_conflict);
}

bool write_segment_is_unreadable(struct write_segment segment) {
    return segment.node && (segment.operation ? segment.node->unreadable
                            : segment.node->following_unreadable);
}

fdb_error_t write_segment_apply(struct write_segment segment, const struct bytes *present,
                                struct arena *arena,
                                struct bytes *value, bool *exists) {
    assert(segment.node && segment.operation);
    struct bytes current = present ? *present : BYTES_LITERAL("");
    bool there = present != NULL, stamped = false;
    for (const struct write_operation *op = segment.node->first; op; op = op->next) {
        if (!mutation_is_atomic(op->type)) {
            current = op->value;
            there = op->present;
            stamped = op->type != MUTATION_SET;
            continue;
        }
        bool cleared;
        if (stamped)
            return ERROR_OPERATION_FAILED;
        fdb_error_t error = mutation_apply(op->type, there ? &current : NULL, op->value, arena,
                                           &current, &cleared);
        if (error)
            return error;
        there = !cleared;
    }
    *value = current;
    *exists = there;
    return 0;
}

void write_map_check(const struct write_map *map) {
    size_t nodes = 0, operations = 0;
    for (const struct write_node *node = map->head; node; node = node->next[0]) {
        nodes++;
        assert(node->key.data[node->key.length] == 0);
        assert(!node->next[0] || bytes_compare(node->key, node->next[0]->key) < 0);
        assert(!node->next[0] || node->next[0]->previous == node);
        assert(!(node->cleared && node->following_unreadable));
        assert((node->first == NULL) == (node->last == NULL));
        for (const struct write_operation *op = node->first; op; op = op->next)
            operations++;
    }
    assert(nodes == map->node_count && operations == map->operation_count);
    (void)nodes;
    (void)operations;
}
