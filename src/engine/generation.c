/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generation: the changes of some span of versions, as one ordered map. On the path of a
 * transaction it is where a commit's changes land after they are in the log, where reads look
 * first, and what the checkpoint later carries to the base.
 *
 * The map is an ordered list of nodes (node_list.c). A node stands for a boundary in the key space
 * and has two chains of states, newest first:
 *
 *        head ------ "b" ----------- "f" ------ "k" ----->
 *                   point   gap     point  gap  point gap
 *                   5:v1    -       9:clear 9:clear  -   -        [f, k) was cleared at 9
 *                                   3:v0    -                     "f" had been set at 3
 *
 * `point` tells the states of the node's key, `gap` those of the open interval from it to the next
 * node: only clears. What a key was at a version is the first entry at or below that version, in
 * the point chain of its node or, without a node, in the gap chain of the last node before it. No
 * such entry: the generation is silent, and an older one or the base knows.
 *
 * A change adds in front of chains and adds nodes; nothing is ever taken away or altered:
 *
 *   set          finds or makes the node, then adds to its point chain.
 *   clear range  makes nodes at both ends, then adds to both chains of every node from the first to
 *                before the last. A range that holds one key (its end is the successor of its
 *                begin) is a point clear and needs no second node.
 *   a new node   takes over the gap chain of its predecessor as both of its chains: they are
 *                shared, not copied. So cutting a gap in two changes no answer at any version.
 *
 * Two economies. A clear where the newest state is a clear already is not recorded: every version
 * reads the same without it, so chains cost at most one clear for each set and each node, however
 * often a range is cleared. And an entry replaces one of its own version, so a key set many times
 * in a batch has one state more, not many.
 *
 * Beside the list stands a hash table from key to node, because most reads are of single keys: a
 * get costs one probe where the list would cost a search, and for a key that is not there it costs
 * that probe alone as long as no range was ever cleared in the generation. It grows by doubling;
 * outgrown tables are kept until the generation goes, as a reader may stand in one.
 *
 * Invariants (generation_check):
 *   1. The list is sound (node_list_check).
 *   2. Versions descend strictly along a chain and lie between first_version and last_version.
 *   3. No chain has a clear directly on top of a clear. Gap chains hold clears only, hence at most
 *      one.
 *   4. The last node's gap is silent: every clear has an end.
 *   5. Every node is in the newest hash table.
 *
 * Threads: one writer, any number of readers, no locks. The writer fills a piece of memory before
 * it stores the pointer to it (release); readers load pointers with acquire. A reader asks only at
 * versions below those being written, and to those every step of the writer is invisible: a fresh
 * entry is passed over, a fresh node answers like its predecessor's gap. By the time a version is
 * published, and with it readers that must see it, all its stores lie before the publication. What
 * a cursor has found out about its place therefore never goes out of date.
 *
 * Failure: only generation_create and generation_reserve take memory; the rest is assured by the
 * latter.
 */
#include "engine/generation.h"

#include <assert.h>

#include "util/checksum.h"
#include "util/memory.h"

enum { TABLE_SLOTS_MIN = 16, GROUP_MAX = 8 };

_Static_assert(offsetof(struct entry, value) == 20, "values lie right behind the length");

/* --- Sizes and memory --- */

static size_t aligned(size_t size) {
    return (size + 7) & ~(size_t)7;
}

static size_t node_bytes(size_t key_length) {
    return aligned(offsetof(struct node, key) + key_length + 1);
}

static size_t entry_bytes(size_t value_length) {
    return aligned(offsetof(struct entry, value) + value_length);
}

uint64_t generation_hash(struct bytes key) {
    return checksum(key, 0);
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
    if (!node_list_init(&made->list, &made->arena)) {
        arena_free(&made->arena);
        memory_free(made);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    made->first_version = made->last_version = -1;
    atomic_init(&made->references, 1); /* and `bytes` stays 0: an empty generation counts for nothing */
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

/*
 * At most five eighths of the slots are used: then a search for what is not there ends after four
 * on average.
 */
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

/* --- Reading --- */

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
    /*
     * Should the key get a node just now, its predecessor still answers for the versions that can
     * be asked for.
     */
    struct node_place place;
    return chain_find(&node_list_floor(&generation->list, NULL, key, false, &place)->gap, version);
}

/* --- Changing: nodes --- */

/* A node for `key` whose chains are those of the gap it lies in; not yet in the list. */
static struct node *make_node(struct generation *generation, const struct search_key *key, const struct entry *gap) {
    struct node *node = take(generation, node_bytes(key->bytes.length));
    node->prefix = key->prefix;
    node->length = (uint32_t)key->bytes.length;
    atomic_init(&node->point, gap);
    atomic_init(&node->gap, gap);
    if (key->bytes.length)
        memcpy(node->key, key->bytes.data, key->bytes.length);
    node->key[key->bytes.length] = 0;
    return node;
}

static void add_node(struct generation *generation, const struct node_place *floor, struct node *node, uint64_t hash) {
    node_list_insert(&generation->list, floor, node);
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_relaxed);
    assert(table_has_room(table, generation->list.nodes_count));
    table_insert(table, hash, node);
}

/* --- Changing: chains --- */

/*
 * What a fresh entry of `version` goes on top of: an entry of the same version is replaced, no
 * reader can want it.
 */
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
    if (node_list_half_done)
        node_list_half_done();
}

static void note_version(struct generation *generation, int64_t version) {
    assert(version >= generation->last_version);
    if (generation->first_version < 0)
        generation->first_version = version;
    generation->last_version = version;
}

/* --- Changing: the two operations --- */

/* A key to set, and where it belongs in hash table and list. */
struct target {
    struct search_key key;
    uint64_t hash;
    const struct page *page; /* NULL: not known */
};

static void set(struct generation *generation, int64_t version, const struct target *target, struct bytes value) {
    note_version(generation, version);
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_relaxed);
    assert(table);
    struct node *node = table_find(table, &target->key, target->hash);
    struct node_place floor;
    bool fresh = !node;
    if (fresh) {
        const struct entry *gap = chain_head(&node_list_floor(&generation->list, target->page, &target->key, false, &floor)->gap);
        node = make_node(generation, &target->key, gap);
    }
    const struct entry *older = older_than(chain_head(&node->point), version);
    struct entry *entry = make_entry(generation, version, older, (uint32_t)value.length);
    if (value.length)
        memcpy(entry->value, value.data, value.length);
    atomic_store_explicit(&node->point, entry, memory_order_release);
    if (fresh)
        add_node(generation, &floor, node, target->hash);
}

/*
 * The first node at or after `key`, NULL past the last; *place is on it. The key itself gets a
 * node, unless it lies in a gap whose newest state is a clear: then clearing on either side of it
 * needs no boundary.
 */
static struct node *boundary(struct generation *generation, struct bytes key, struct node_place *place) {
    struct search_key wanted = search_key_make(key);
    struct node *before = node_list_floor(&generation->list, NULL, &wanted, false, place);
    struct node_place floor = *place;
    struct node *next = node_place_next(place);
    if (next && node_compare(next, &wanted) == 0)
        return next;
    const struct entry *gap = chain_head(&before->gap);
    if (is_clear(gap))
        return next;
    struct node *node = make_node(generation, &wanted, gap);
    add_node(generation, &floor, node, generation_hash(key));
    return node_list_floor(&generation->list, NULL, &wanted, true, place);
}

static void clear_range(struct generation *generation, int64_t version, struct bytes begin, struct bytes end) {
    if (bytes_compare(begin, end) >= 0)
        return;
    note_version(generation, version);
    struct clearing clearing = {.generation = generation, .version = version};
    struct node_place place;
    if (is_successor(end, begin)) {
        struct node *node = boundary(generation, begin, &place);
        if (node && bytes_equal(node_key(node), begin))
            clear_chain(&clearing, &node->point);
        return;
    }
    atomic_store_explicit(&generation->has_gaps, true, memory_order_relaxed);
    struct node *stop = boundary(generation, end, &place);
    for (struct node *node = boundary(generation, begin, &place); node != stop; node = node_place_next(&place)) {
        clear_chain(&clearing, &node->point);
        clear_chain(&clearing, &node->gap);
    }
}

/* Finds the places of several keys at once: each would wait for memory, together they wait little longer than one. */
static void locate(struct generation *generation, struct target *targets, unsigned count) {
    struct index_table *table = atomic_load_explicit(&generation->table, memory_order_relaxed);
    struct search_key keys[GROUP_MAX];
    const struct page *pages[GROUP_MAX];
    unsigned fresh[GROUP_MAX], fresh_count = 0;
    for (unsigned i = 0; i < count; i++)
        generation_prefetch(generation, targets[i].hash);
    for (unsigned i = 0; i < count; i++) {
        if (table_find(table, &targets[i].key, targets[i].hash))
            continue;
        keys[fresh_count] = targets[i].key;
        fresh[fresh_count++] = i;
    }
    node_list_locate(&generation->list, keys, fresh_count, pages);
    for (unsigned i = 0; i < fresh_count; i++)
        targets[fresh[i]].page = pages[i];
}

static void apply_group(struct generation *generation, int64_t version, const struct change *changes, unsigned count) {
    struct target targets[GROUP_MAX];
    for (unsigned i = 0; i < count; i++)
        targets[i] = (struct target){search_key_make(changes[i].key), generation_hash(changes[i].key), NULL};
    if (count > 1)
        locate(generation, targets, count);
    for (unsigned i = 0; i < count; i++) {
        if (changes[i].clear)
            clear_range(generation, version, changes[i].key, changes[i].value);
        else
            set(generation, version, &targets[i], changes[i].value);
    }
}

void generation_apply(struct generation *generation, int64_t version, const struct change *changes, size_t count) {
    for (; count > GROUP_MAX; changes += GROUP_MAX, count -= GROUP_MAX)
        apply_group(generation, version, changes, GROUP_MAX);
    apply_group(generation, version, changes, (unsigned)count);
}

/* --- Reserving --- */

/* How many chains of the nodes in a range would take a clear. */
static size_t count_clearable(struct generation *generation, struct bytes begin, struct bytes end) {
    struct search_key from = search_key_make(begin), to = search_key_make(end);
    struct node_place place;
    node_list_floor(&generation->list, NULL, &to, false, &place);
    struct node *stop = node_place_next(&place);
    node_list_floor(&generation->list, NULL, &from, false, &place);
    size_t count = 0;
    for (struct node *node; (node = node_place_next(&place)) != stop;)
        count += (size_t)!is_clear(chain_head(&node->point)) + (size_t)!is_clear(chain_head(&node->gap));
    return count;
}

static bool is_range_clear(const struct change *change) {
    return change->clear && bytes_compare(change->key, change->value) < 0 && !is_successor(change->value, change->key);
}

/*
 * An entry for a clear is taken only by a chain that does not begin with a clear. So all range
 * clears together take at most one for each such chain they cover now, for each set, and for each
 * chain of a node made on the way.
 */
fdb_error_t generation_reserve(struct generation *generation, const struct change *changes, size_t count) {
    size_t ranges = 0, entries = 0, bytes = 0, chains = 2 * generation->list.nodes_count;
    for (size_t i = 0; i < count; i++) {
        const struct change *change = &changes[i];
        bytes += node_bytes(change->key.length);
        if (is_range_clear(change)) {
            ranges++;
            bytes += node_bytes(change->value.length);
            if (entries < chains)
                entries += count_clearable(generation, change->key, change->value);
        } else {
            bytes += entry_bytes(change->clear ? 0 : change->value.length);
        }
    }
    if (entries > chains) /* covered by several ranges, but cleared once */
        entries = chains;
    if (ranges)
        entries += 2 * (count - ranges) + 4 * ranges;
    bytes += entries * entry_bytes(0);
    fdb_error_t error = table_reserve(generation, generation->list.nodes_count + count + ranges);
    if (!error && !node_list_reserve(&generation->list, count + ranges))
        error = ERROR_LARGE_ALLOC_FAILED;
    if (!error && !arena_reserve(&generation->arena, bytes))
        error = ERROR_LARGE_ALLOC_FAILED;
    count_bytes(generation);
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

void generation_check(struct generation *generation) {
    node_list_check(&generation->list);
    struct index_table *table = atomic_load(&generation->table);
    struct node_place place;
    node_list_start(&generation->list, &place);
    const struct entry *last_gap = NULL;
    for (struct node *node; (node = node_place_next(&place));) {
        assert(node->key[node->length] == 0);
        check_chain(generation, chain_head(&node->point), false);
        check_chain(generation, chain_head(&node->gap), true);
        last_gap = chain_head(&node->gap);
        struct search_key key = search_key_make(node_key(node));
        assert(table_find(table, &key, generation_hash(key.bytes)) == node);
    }
    assert(!last_gap);
}
