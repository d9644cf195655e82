/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generation: the changes of some span of versions, as one ordered map. On the path of a transaction it is where a commit's changes
 * land after they are in the log, where reads look first, and what the checkpoint later carries to the base.
 *
 * The map is a skip list. A node stands for a boundary in the key space and has two chains of states, newest first:
 *
 *        head ------ "b" ----------- "f" ------ "k" ----->
 *                   point   gap     point  gap  point gap
 *                   5:v1    -       9:clear 9:clear  -   -        [f, k) was cleared at 9
 *                                   3:v0    -                     "f" had been set at 3
 *
 * `point` tells the states of the node's key, `gap` those of the open interval from it to the next node: only clears. What a key was at a
 * version is the first entry at or below that version, in the point chain of its node or, without a node, in the gap chain of the
 * last node before it. No such entry: the generation is silent, and an older one or the base knows.
 *
 * A change adds in front of chains and adds nodes; nothing is ever taken away or altered:
 *
 *   set          finds or makes the node, then adds to its point chain.
 *   clear range  makes nodes at both ends, then adds to both chains of every node from the first to before the last. A range
 *                that holds one key (its end is the successor of its begin) is a point clear and needs no second node.
 *   a new node   takes over the gap chain of its predecessor as both of its chains: they are shared, not copied. So cutting a gap in
 *                two changes no answer at any version.
 *
 * Two economies. A clear where the newest state is a clear already is not recorded: every version reads the same without it, so chains cost at most one
 * clear for each set and each node, however often a range is cleared. And an entry replaces one of its own version, so a key set
 * many times in a batch has one state more, not many.
 *
 * Beside the list stands a hash table from key to node, because most reads are of single keys: a get costs one probe where the list
 * would cost a search, and for a key that is not there it costs that probe alone as long as no range was ever cleared in
 * the generation. It grows by doubling; outgrown tables are kept until the generation goes, as a reader may stand in one.
 *
 * A node is one piece of memory: links, tower, key, and a zero byte, so that the key's successor can be handed out as a view. The height of
 * its tower comes from the hash of its key, which makes the memory for a change known before it is applied.
 *
 * Invariants (generation_check):
 *   1. Keys ascend strictly along every level; a level holds the nodes of the level below that are tall enough; `previous` mirrors level 0.
 *   2. Versions descend strictly along a chain and lie between first_version and last_version.
 *   3. Gap chains hold clears only. No chain has a clear directly on top of a clear.
 *   4. The head has no states, and the last node's gap is silent: every clear has an end.
 *   5. Every node is in the newest hash table.
 *
 * Threads: one writer, any number of readers, no locks. The writer fills a piece of memory before it stores the pointer to it (release);
 * readers load pointers with acquire. A reader asks only at versions below those being written, and to those every step of the writer is
 * invisible: a fresh entry is passed over, a fresh node answers like its predecessor's gap. By the time a version is published, and with it
 * readers that must see it, all its stores lie before the publication. What a cursor has found out about its place therefore never
 * goes out of date.
 *
 * Failure: only generation_create and generation_reserve take memory; the rest is assured by the latter.
 */
#include "engine/generation.h"

#include <assert.h>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/memory.h"

enum { TABLE_SLOTS_MIN = 16 };

_Static_assert(offsetof(struct entry, value) == 20, "values lie right behind the length");

/* --- Sizes and memory --- */

static size_t aligned(size_t size) {
    return (size + 7) & ~(size_t)7;
}

static size_t node_bytes(unsigned height, size_t key_length) {
    return aligned(sizeof(struct node) + height * sizeof(struct node *) + key_length + 1);
}

static size_t entry_bytes(size_t value_length) {
    return aligned(offsetof(struct entry, value) + value_length);
}

uint64_t generation_hash(struct bytes key) {
    return checksum(key, 0);
}

static unsigned hash_height(uint64_t hash) {
    unsigned height = 1 + (unsigned)__builtin_clzll(hash | 1) / 2;
    return height < NODE_HEIGHT_MAX ? height : NODE_HEIGHT_MAX;
}

static size_t node_bytes_for(struct bytes key) {
    return node_bytes(hash_height(generation_hash(key)), key.length);
}

struct search_key search_key_make(struct bytes key) {
    uint8_t padded[8] = {0};
    if (key.length >= 8)
        return (struct search_key){key, coding_get_u64_big(key.data)};
    if (key.length)
        memcpy(padded, key.data, key.length);
    return (struct search_key){key, coding_get_u64_big(padded)};
}

static bool is_successor(struct bytes after, struct bytes key) {
    return after.length == key.length + 1 && after.data[key.length] == 0 && bytes_starts_with(after, key);
}

static bool is_clear(const struct entry *entry) {
    return entry && entry->length == ENTRY_CLEARED;
}

static void *take(struct generation *generation, size_t size) {
    void *piece = arena_allocate(&generation->arena, size);
    assert(piece);
    return piece;
}

static void count_bytes(struct generation *generation) {
    uint64_t bytes = sizeof *generation + generation->arena.bytes_held + generation->table_bytes;
    atomic_store_explicit(&generation->bytes, bytes, memory_order_relaxed);
}

/* --- Life --- */

fdb_error_t generation_create(struct generation **generation) {
    struct generation *made = memory_allocate_zeroed(sizeof *made);
    if (!made)
        return ERROR_LARGE_ALLOC_FAILED;
    made->head = arena_allocate(&made->arena, node_bytes(NODE_HEIGHT_MAX, 0));
    if (!made->head) {
        memory_free(made);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    memset(made->head, 0, node_bytes(NODE_HEIGHT_MAX, 0));
    made->head->height = NODE_HEIGHT_MAX;
    made->first_version = made->last_version = -1;
    atomic_init(&made->references, 1);
    atomic_init(&made->height, 1);
    count_bytes(made);
    *generation = made;
    return 0;
}

void generation_retain(struct generation *generation) {
    atomic_fetch_add_explicit(&generation->references, 1, memory_order_relaxed);
}

void generation_release(struct generation *generation) {
    if (atomic_fetch_sub_explicit(&generation->references, 1, memory_order_acq_rel) != 1)
        return;
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_relaxed);
    while (table) {
        struct index_table *older = table->older;
        memory_free(table);
        table = older;
    }
    arena_free(&generation->arena);
    memory_free(generation);
}

int64_t generation_last_version(struct generation *generation) {
    return generation->last_version;
}

/* --- The hash table --- */

static void table_insert(struct index_table *table, uint64_t hash, struct node *node) {
    uint64_t place = hash & table->mask;
    while (atomic_load_explicit(&table->slots[place].node, memory_order_relaxed))
        place = (place + 1) & table->mask;
    atomic_store_explicit(&table->slots[place].hash, hash, memory_order_relaxed);
    atomic_store_explicit(&table->slots[place].node, node, memory_order_release);
}

static struct node *table_find(struct index_table *table, const struct search_key *key, uint64_t hash) {
    for (uint64_t place = hash & table->mask;; place = (place + 1) & table->mask) {
        struct index_slot *slot = &table->slots[place];
        struct node *node = atomic_load_explicit(&slot->node, memory_order_acquire);
        if (!node)
            return NULL;
        if (atomic_load_explicit(&slot->hash, memory_order_relaxed) == hash && node_compare(node, key) == 0)
            return node;
    }
}

/* At most five eighths of the slots are used: then a search for what is not there ends after four on average. */
static bool table_has_room(const struct index_table *table, size_t count) {
    return table && count <= (table->mask + 1) / 8 * 5;
}

static fdb_error_t table_reserve(struct generation *generation, size_t count) {
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_relaxed);
    if (table_has_room(table, count))
        return 0;
    uint64_t slots = table ? (table->mask + 1) * 2 : TABLE_SLOTS_MIN;
    while (slots / 8 * 5 < count)
        slots *= 2;
    size_t bytes = sizeof *table + slots * sizeof table->slots[0];
    struct index_table *larger = memory_allocate_zeroed(bytes);
    if (!larger)
        return ERROR_LARGE_ALLOC_FAILED;
    larger->older = table;
    larger->mask = slots - 1;
    for (uint64_t place = 0; table && place <= table->mask; place++) {
        struct node *node = atomic_load_explicit(&table->slots[place].node, memory_order_relaxed);
        if (node)
            table_insert(larger, atomic_load_explicit(&table->slots[place].hash, memory_order_relaxed), node);
    }
    atomic_store_explicit(&generation->table, larger, memory_order_release);
    generation->table_bytes += bytes;
    return 0;
}

/* --- Searching the list --- */

/*
 * The last node below the key (or at it, with or_equal), and with `path` the last such node of every level. While one level is tried, the
 * node that the level below would try is on its way to the cache.
 */
static inline struct node *search(struct generation *generation, const struct search_key *key, bool or_equal,
                                  struct node **path) {
    struct node *node = generation->head;
    struct node *beyond = NULL; /* a node known to lie behind the key: need not be compared again */
    unsigned level = atomic_load_explicit(&generation->height, memory_order_acquire);
    while (level-- > 0) {
        struct node *next;
        while ((next = node_next(node, level)) != beyond) {
            if (level > 0)
                __builtin_prefetch(atomic_load_explicit(&node->next[level - 1], memory_order_relaxed));
            if (!next)
                break;
            int order = node_compare(next, key);
            if (order > 0 || (order == 0 && !or_equal))
                break;
            node = next;
        }
        beyond = next;
        if (path)
            path[level] = node;
    }
    return node;
}

struct node *generation_floor(struct generation *generation, const struct search_key *key, bool or_equal) {
    return search(generation, key, or_equal, NULL);
}

void generation_prefetch(struct generation *generation, uint64_t hash) {
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_acquire);
    if (table)
        __builtin_prefetch(&table->slots[hash & table->mask]);
}

const struct entry *generation_find(struct generation *generation, const struct search_key *key, uint64_t hash,
                                    int64_t version) {
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_acquire);
    if (!table)
        return NULL;
    struct node *node = table_find(table, key, hash);
    if (node)
        return chain_find(&node->point, version);
    if (!atomic_load_explicit(&generation->has_gaps, memory_order_relaxed))
        return NULL;
    /* Should the key get a node just now, its predecessor still answers for the versions that can be asked for. */
    return chain_find(&search(generation, key, false, NULL)->gap, version);
}

/* --- Changing: nodes --- */

/* A node for `key` whose chains are those of the gap it lies in; not yet linked. */
static struct node *make_node(struct generation *generation, struct bytes key, unsigned height, const struct entry *gap) {
    struct node *node = take(generation, node_bytes(height, key.length));
    node->prefix = search_key_make(key).prefix;
    node->length = (uint32_t)key.length;
    node->height = (uint8_t)height;
    atomic_init(&node->point, gap);
    atomic_init(&node->gap, gap);
    uint8_t *copy = (uint8_t *)&node->next[height];
    if (key.length)
        memcpy(copy, key.data, key.length);
    copy[key.length] = 0;
    return node;
}

/* From level 0 upwards, so that a node met on a level is on all levels below. */
static void link_node(struct generation *generation, struct node *node, struct node **path, uint64_t hash) {
    unsigned height = atomic_load_explicit(&generation->height, memory_order_relaxed);
    for (unsigned level = height; level < node->height; level++)
        path[level] = generation->head;
    struct node *next = node_next(path[0], 0);
    atomic_init(&node->previous, path[0]);
    for (unsigned level = 0; level < node->height; level++) {
        atomic_init(&node->next[level], node_next(path[level], level));
        atomic_store_explicit(&path[level]->next[level], node, memory_order_release);
    }
    if (next)
        atomic_store_explicit(&next->previous, node, memory_order_release);
    if (node->height > height)
        atomic_store_explicit(&generation->height, node->height, memory_order_release);
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_relaxed);
    generation->nodes_count++;
    assert(table_has_room(table, generation->nodes_count));
    table_insert(table, hash, node);
}

/* --- Changing: chains --- */

/* What a fresh entry of `version` goes on top of: an entry of the same version is replaced, no reader can want it. */
static const struct entry *older_than(const struct entry *head, int64_t version) {
    return head && head->version == version ? head->older : head;
}

static struct entry *make_entry(struct generation *generation, int64_t version, const struct entry *older,
                                uint32_t length) {
    struct entry *entry = take(generation, entry_bytes(length == ENTRY_CLEARED ? 0 : length));
    entry->older = older;
    entry->version = version;
    entry->length = length;
    return entry;
}

/* Clears of one call: chains that continue with the same older entry share the fresh one. */
struct clearing {
    struct generation *generation;
    int64_t version;
    const struct entry *older;
    const struct entry *fresh;
};

static void clear_chain(struct clearing *clearing, entry_chain *chain) {
    const struct entry *head = chain_head(chain);
    if (is_clear(head))
        return;
    const struct entry *older = older_than(head, clearing->version);
    const struct entry *fresh = older;
    if (!is_clear(older)) {
        if (!clearing->fresh || clearing->older != older) {
            clearing->older = older;
            clearing->fresh = make_entry(clearing->generation, clearing->version, older, ENTRY_CLEARED);
        }
        fresh = clearing->fresh;
    }
    atomic_store_explicit(chain, fresh, memory_order_release);
}

static void note_version(struct generation *generation, int64_t version) {
    assert(version >= generation->last_version);
    if (generation->first_version < 0)
        generation->first_version = version;
    generation->last_version = version;
}

/* --- Changing: the two operations --- */

void generation_set(struct generation *generation, int64_t version, struct bytes key, struct bytes value) {
    note_version(generation, version);
    struct search_key wanted = search_key_make(key);
    uint64_t hash = generation_hash(key);
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_relaxed);
    assert(table);
    struct node *node = table_find(table, &wanted, hash);
    struct node *path[NODE_HEIGHT_MAX];
    bool fresh = !node;
    if (fresh) {
        const struct entry *gap = chain_head(&search(generation, &wanted, false, path)->gap);
        node = make_node(generation, key, hash_height(hash), gap);
    }
    const struct entry *older = older_than(chain_head(&node->point), version);
    struct entry *entry = make_entry(generation, version, older, (uint32_t)value.length);
    if (value.length)
        memcpy(entry->value, value.data, value.length);
    atomic_store_explicit(&node->point, entry, memory_order_release);
    if (fresh)
        link_node(generation, node, path, hash);
}

/*
 * The first node at or after `key`, NULL past the last. The key itself gets a node, unless it lies in a gap whose newest state is a clear:
 * then clearing on either side of it needs no boundary.
 */
static struct node *boundary(struct generation *generation, struct bytes key) {
    struct search_key wanted = search_key_make(key);
    struct node *path[NODE_HEIGHT_MAX];
    struct node *before = search(generation, &wanted, false, path);
    struct node *next = node_next(before, 0);
    if (next && node_compare(next, &wanted) == 0)
        return next;
    const struct entry *gap = chain_head(&before->gap);
    if (is_clear(gap))
        return next;
    uint64_t hash = generation_hash(key);
    struct node *node = make_node(generation, key, hash_height(hash), gap);
    link_node(generation, node, path, hash);
    return node;
}

void generation_clear_range(struct generation *generation, int64_t version, struct bytes begin, struct bytes end) {
    if (bytes_compare(begin, end) >= 0)
        return;
    note_version(generation, version);
    struct clearing clearing = {.generation = generation, .version = version};
    if (is_successor(end, begin)) {
        struct node *node = boundary(generation, begin);
        if (node && bytes_equal(node_key(node), begin))
            clear_chain(&clearing, &node->point);
        return;
    }
    atomic_store_explicit(&generation->has_gaps, true, memory_order_relaxed);
    struct node *stop = boundary(generation, end);
    for (struct node *node = boundary(generation, begin); node != stop; node = node_next(node, 0)) {
        clear_chain(&clearing, &node->point);
        clear_chain(&clearing, &node->gap);
    }
}

/* --- Reserving --- */

/* How many chains of the nodes in a range would take a clear. */
static size_t count_clearable(struct generation *generation, struct bytes begin, struct bytes end) {
    struct search_key from = search_key_make(begin), to = search_key_make(end);
    struct node *stop = node_next(search(generation, &to, false, NULL), 0);
    struct node *node = node_next(search(generation, &from, false, NULL), 0);
    size_t count = 0;
    for (; node != stop; node = node_next(node, 0))
        count += (size_t)!is_clear(chain_head(&node->point)) + (size_t)!is_clear(chain_head(&node->gap));
    return count;
}

static bool is_range_clear(const struct change *change) {
    return change->clear && bytes_compare(change->key, change->value) < 0 && !is_successor(change->value, change->key);
}

/*
 * An entry for a clear is taken only by a chain that does not begin with a clear. So all range clears together take at most one for each
 * such chain they cover now, for each set, and for each chain of a node made on the way.
 */
fdb_error_t generation_reserve(struct generation *generation, const struct change *changes, size_t count) {
    size_t ranges = 0, entries = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct change *change = &changes[i];
        bytes += node_bytes_for(change->key);
        if (is_range_clear(change)) {
            ranges++;
            bytes += node_bytes_for(change->value);
            entries += count_clearable(generation, change->key, change->value);
        } else {
            bytes += entry_bytes(change->clear ? 0 : change->value.length);
        }
    }
    if (ranges)
        entries += 2 * (count - ranges) + 4 * ranges;
    bytes += entries * entry_bytes(0);
    fdb_error_t error = table_reserve(generation, generation->nodes_count + count + ranges);
    if (!error && !arena_reserve(&generation->arena, bytes))
        error = ERROR_LARGE_ALLOC_FAILED;
    count_bytes(generation);
    return error;
}

/* --- Visiting --- */

/* A cleared range that is still growing; begin.data is NULL while there is none. */
static fdb_error_t emit_clear(const struct generation_visitor *visitor, struct bytes *begin, struct bytes end) {
    struct bytes from = *begin;
    begin->data = NULL;
    if (!from.data || bytes_equal(from, end))
        return 0;
    if (is_successor(end, from))
        return visitor->clear(visitor->context, from);
    return visitor->clear_range(visitor->context, from, end);
}

fdb_error_t generation_visit(struct generation *generation, const struct generation_visitor *visitor) {
    struct bytes cleared = {NULL, 0};
    fdb_error_t error = 0;
    for (struct node *node = node_next(generation->head, 0); node && !error; node = node_next(node, 0)) {
        const struct entry *point = chain_head(&node->point);
        const struct entry *gap = chain_head(&node->gap);
        if (!is_clear(point)) {
            error = emit_clear(visitor, &cleared, node_key(node));
            if (point && !error)
                error = visitor->set(visitor->context, node_key(node), bytes_make(point->value, point->length));
        } else if (!cleared.data) {
            cleared = node_key(node);
        }
        if (error)
            break;
        if (!is_clear(gap))
            error = emit_clear(visitor, &cleared, node_key_after(node));
        else if (!cleared.data)
            cleared = node_key_after(node);
    }
    assert(error || !cleared.data);
    return error;
}

/* --- Checking --- */

static void check_chain(struct generation *generation, const struct entry *entry, bool gap) {
    for (; entry; entry = entry->older) {
        assert(entry->version >= generation->first_version && entry->version <= generation->last_version);
        assert(!gap || is_clear(entry));
        if (entry->older) {
            assert(entry->older->version < entry->version);
            assert(!is_clear(entry) || !is_clear(entry->older));
        }
    }
}

static void check_node(struct generation *generation, struct node *node, struct node *previous) {
    assert(node_previous(node) == previous);
    assert(previous == generation->head || node_compare_nodes(previous, node) < 0);
    assert(bytes_compare(node_key(node), node_key_after(node)) < 0);
    assert(node->height >= 1 && node->height <= atomic_load(&generation->height));
    check_chain(generation, chain_head(&node->point), false);
    check_chain(generation, chain_head(&node->gap), true);
    struct search_key key = search_key_make(node_key(node));
    assert(key.prefix == node->prefix);
    assert(table_find(atomic_load(&generation->table), &key, generation_hash(key.bytes)) == node);
}

void generation_check(struct generation *generation) {
    struct node *last[NODE_HEIGHT_MAX];
    for (unsigned level = 0; level < NODE_HEIGHT_MAX; level++)
        last[level] = generation->head;
    assert(!chain_head(&generation->head->point) && !chain_head(&generation->head->gap));
    size_t count = 0;
    for (struct node *node = node_next(generation->head, 0); node; node = node_next(node, 0)) {
        check_node(generation, node, last[0]);
        for (unsigned level = 0; level < node->height; level++) {
            assert(node_next(last[level], level) == node);
            last[level] = node;
        }
        count++;
    }
    for (unsigned level = 0; level < NODE_HEIGHT_MAX; level++)
        assert(!node_next(last[level], level));
    assert(count == generation->nodes_count);
    assert(!chain_head(&last[0]->gap));
}
