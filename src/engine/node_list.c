/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ordered list of nodes: a tree of pages, each linked to its right neighbour. A skip list would
 * be shorter to write, but memory is a hundred times slower than the processor, and every step
 * along one waits for a node to arrive. Pages of fourteen make a search touch few places, and let a
 * walk have the coming nodes fetched before it needs them.
 *
 *        level 1                [ -  f  m ]
 *                              /    |     \
 *        level 0        [a c d] -> [f g h k] -> [m p x y z]        "f" is the lowest of its page
 *
 * A page covers the keys from its lowest node, fixed for life, up to the lowest of its right
 * neighbour; the first page of a level covers all before. On level 0 its items are nodes, above
 * they are pages of the level below, known by their lowest. The items lie in a `page_slots`, in the
 * order in which they came, and one word tells their rank: the count in its lowest four bits, then
 * four bits for each rank, naming a slot. Adding an item fills the next free slot and then stores a
 * new word: readers see the old order or the new one, never something between (the idea is
 * Masstree's). A slot is never filled twice.
 *
 * A full page splits: its upper half goes to a new page, which is linked in as right neighbour;
 * then the page gets new slots with the lower half; then the new page is added to the level above.
 * The old slots stay as they are for readers that stand in them. Only where an item is added behind
 * the very last of its level is nothing moved: keys that arrive in order fill their pages.
 *
 * Each slot has beside the item 8 bytes of its key as a number, its hint, so that most comparisons
 * need not touch the item. All keys of a page share the bytes that its lowest key and its upper
 * bound share; hints start behind those, so they also tell apart keys that have a long beginning in
 * common.
 *
 * Invariants (node_list_check):
 *   1. Keys ascend strictly in rank order within a page and from page to page; a page's lowest is
 *      its rank 0.
 *   2. The pages of a level, in the order of their links, are the items of the level above, in
 *      theirs. The root is alone on its level.
 *   3. `high` of the slots is the lowest of the right neighbour, NULL if there is none.
 *   4. Hints are the 8 key bytes behind `shared`; all keys from the lowest to `high` agree on the
 *      `shared` bytes before.
 *
 * Threads: one writer; readers take no lock. They may meet a split half done, and see through it,
 * as in a B-link tree:
 *   - the level above does not know the new page yet, or the reader came before it did. Slots carry
 *     their upper bound: a reader that finds its key behind `high` goes on to the right neighbour,
 *     on level 0 at the latest. New slots are stored after the link to the new page, so it is there.
 *   - the new page is linked while its items are still in the old slots as well. A walk that
 *     crosses to another page therefore goes on with the first node beyond the one it stood on.
 *   - a walk backward came by a link that was then out of date: it goes right again until it is
 *     next to where it came from.
 *
 * Failure: only node_list_init and node_list_reserve take memory.
 */
#include "engine/node_list.h"

#include <assert.h>

#include "util/coding.h"

enum { PAGE_ITEMS_MAX = 14, PREFETCH_AHEAD = 8, CACHE_LINE_BYTES = 64 };

struct page_slots {
    _Atomic uint64_t order;
    const struct node *_Atomic high; /* set once: with the slots, or when a page is added behind the last */
    uint64_t high_prefix;            /* of `high` */
    uint64_t shared;                 /* how many bytes at their beginning all keys of the page have in common, at least */
    uint64_t hints[PAGE_ITEMS_MAX];
    void *items[PAGE_ITEMS_MAX]; /* struct node on level 0, struct page above */
};

struct page {
    struct page_slots *_Atomic slots;
    struct page *_Atomic next;
    struct page *_Atomic previous;
    struct node *lowest; /* NULL in the first of a level */
    unsigned level;
    uint8_t padding[28];
};

_Static_assert(sizeof(struct page_slots) == 4 * CACHE_LINE_BYTES, "slots fill four cache lines");
_Static_assert(sizeof(struct page) == CACHE_LINE_BYTES, "a page's head fills one cache line");

/*
 * A function that only prefetches looks useless to a compiler, which may then drop its calls: these
 * must be part of their callers.
 */
#define INLINED static inline __attribute__((always_inline))

INLINED void prefetch_lines(const void *memory, int count) {
    for (int line = 0; line < count; line++)
        __builtin_prefetch((const uint8_t *)memory + line * CACHE_LINE_BYTES);
}

/* --- The order word --- */

static unsigned order_count(uint64_t order) {
    return (unsigned)(order & 15);
}

static unsigned order_slot(uint64_t order, unsigned rank) {
    return (unsigned)(order >> (4 + 4 * rank) & 15);
}

/*
 * The order with the next free slot put in at `rank`, those from there on moved up. REQUIRES: there
 * is one free.
 */
static uint64_t order_insert(uint64_t order, unsigned rank) {
    unsigned shift = 4 + 4 * rank;
    uint64_t below = order & (((uint64_t)1 << shift) - 1);
    uint64_t above = order >> shift << (shift + 4);
    return (below | above | (uint64_t)order_count(order) << shift) + 1;
}

static void *ranked(const struct page_slots *slots, uint64_t order, unsigned rank) {
    return slots->items[order_slot(order, rank)];
}

static struct node *place_node(const struct node_place *place) {
    return ranked(place->slots, place->order, (unsigned)place->rank);
}

/* --- Keys --- */

/* Eight bytes of a key from `offset` on, as a number; zeros where it has ended. */
static uint64_t key_number(struct bytes key, size_t offset) {
    uint8_t padded[8] = {0};
    if (key.length >= offset + 8)
        return coding_get_u64_big(key.data + offset);
    if (key.length > offset)
        memcpy(padded, key.data + offset, key.length - offset);
    return coding_get_u64_big(padded);
}

struct search_key search_key_make(struct bytes key) {
    return (struct search_key){key, key_number(key, 0)};
}

static uint64_t shared_bytes(struct bytes a, struct bytes b) {
    size_t limit = a.length < b.length ? a.length : b.length, count = 0;
    while (count < limit && a.data[count] == b.data[count])
        count++;
    return count;
}

/* The node whose key an item goes by; NULL, below all keys, for the first page of a level. */
static struct node *item_node(unsigned level, void *item) {
    return level ? ((struct page *)item)->lowest : item;
}

static uint64_t item_hint(const struct node *node, uint64_t shared) {
    return node ? key_number(node_key(node), shared) : 0;
}

static bool node_within(const struct node *node, const struct search_key *key, bool or_equal) {
    int order = node ? node_compare(node, key) : -1;
    return order < 0 || (order == 0 && or_equal);
}

/* --- Searching --- */

static struct page *page_next(const struct page *page) {
    return atomic_load_explicit(&page->next, memory_order_acquire);
}

static void picture(struct node_place *place, const struct page *page) {
    place->page = page;
    place->slots = atomic_load_explicit(&page->slots, memory_order_acquire);
    prefetch_lines(place->slots, 4);
    place->order = atomic_load_explicit(&place->slots->order, memory_order_acquire);
}

/* The key lies behind what the slots cover. */
static bool behind_high(const struct page_slots *slots, const struct search_key *key, bool or_equal) {
    const struct node *high = atomic_load_explicit(&slots->high, memory_order_acquire);
    if (!high)
        return false;
    if (slots->high_prefix != key->prefix)
        return slots->high_prefix < key->prefix;
    return node_within(high, key, or_equal);
}

/* The rank of the last item below the key (or at it), -1 if there is none. */
static int rank_floor(const struct node_place *place, const struct search_key *key, bool or_equal) {
    const struct page_slots *slots = place->slots;
    uint64_t hint = slots->shared ? key_number(key->bytes, slots->shared) : key->prefix;
    unsigned low = 0, high = order_count(place->order);
    while (low < high) {
        unsigned middle = (low + high) / 2, slot = order_slot(place->order, middle);
        bool within = slots->hints[slot] < hint;
        if (slots->hints[slot] == hint)
            within = node_within(item_node(place->page->level, slots->items[slot]), key, or_equal);
        if (within)
            low = middle + 1;
        else
            high = middle;
    }
    return (int)low - 1;
}

static const struct page *root_page(const struct node_list *list) {
    return atomic_load_explicit(&list->root, memory_order_acquire);
}

/*
 * The place of the key on the level of `page`, which covers it or lies to the left of where it is
 * covered. Above level 0 the upper bound is looked at only if the key is behind all items: to look
 * may mean to wait for a node to arrive. A key that lies beyond the bound and shares less with the
 * page than its items do may then get any rank, even -1; level 0 puts it right.
 */
INLINED void settle(struct node_place *place, const struct page *page, const struct search_key *key, bool or_equal) {
    for (;; page = page_next(page)) {
        picture(place, page);
        if (page->level == 0 && behind_high(place->slots, key, or_equal))
            continue;
        place->rank = rank_floor(place, key, or_equal);
        if (page->level == 0 || place->rank + 1 < (int)order_count(place->order) ||
            !behind_high(place->slots, key, or_equal))
            return;
    }
}

static const struct page *child(const struct node_place *place) {
    return ranked(place->slots, place->order, place->rank < 0 ? 0 : (unsigned)place->rank);
}

/* Goes down from a page to the last node below (or at) the key; with `path`, the place on every level. */
static inline void descend(const struct page *page, const struct search_key *key, bool or_equal, struct node_place *place,
                           struct node_place *path) {
    for (;;) {
        settle(place, page, key, or_equal);
        unsigned level = page->level;
        if (path)
            path[level] = *place;
        if (level == 0)
            return;
        page = child(place);
    }
}

struct node *node_list_floor(const struct node_list *list, const struct page *from, const struct search_key *key,
                             bool or_equal, struct node_place *place) {
    descend(from ? from : root_page(list), key, or_equal, place, NULL);
    return place->rank < 0 ? list->before : place_node(place);
}

/*
 * All go down together, a level at a time: while one waits for its page to arrive, the others' are
 * on their way too.
 */
void node_list_locate(const struct node_list *list, const struct search_key *keys, unsigned count,
                      const struct page **pages) {
    const struct page *root = root_page(list);
    for (unsigned i = 0; i < count; i++)
        pages[i] = root;
    for (unsigned level = root->level; level > 0; level--) {
        for (unsigned i = 0; i < count; i++) {
            struct node_place place;
            settle(&place, pages[i], &keys[i], false);
            pages[i] = child(&place);
            __builtin_prefetch(pages[i]);
        }
        for (unsigned i = 0; i < count; i++)
            prefetch_lines(atomic_load_explicit(&pages[i]->slots, memory_order_acquire), 4);
    }
    for (unsigned i = 0; i < count; i++) {
        struct page_slots *slots = atomic_load_explicit(&pages[i]->slots, memory_order_acquire);
        __builtin_prefetch(atomic_load_explicit(&slots->high, memory_order_relaxed));
    }
}

void node_list_start(const struct node_list *list, struct node_place *place) {
    picture(place, list->first);
    place->rank = -1;
}

/* --- Walking --- */

/* A node and the value that mostly lies behind it. */
INLINED void prefetch_rank(const struct node_place *place, int rank) {
    if (rank >= 0 && rank < (int)order_count(place->order))
        prefetch_lines(ranked(place->slots, place->order, (unsigned)rank), 3);
}

/* On entering a page: its first nodes of the walk, and the page that will follow. */
INLINED void prefetch_page(const struct node_place *place, int step, const struct page *following) {
    for (int i = 0; i < PREFETCH_AHEAD; i++)
        prefetch_rank(place, place->rank + i * step);
    if (following)
        __builtin_prefetch(following);
}

/*
 * On the way through a page: the node some steps on, and half-way the slots of the page that will
 * follow.
 */
INLINED void prefetch_walk(const struct node_place *place, int step) {
    prefetch_rank(place, place->rank + PREFETCH_AHEAD * step);
    if (place->rank != (int)order_count(place->order) / 2)
        return;
    const struct page *page = place->page;
    const struct page *following =
        step > 0 ? page_next(page) : atomic_load_explicit(&page->previous, memory_order_acquire);
    if (following)
        prefetch_lines(atomic_load_explicit(&following->slots, memory_order_relaxed), 4);
}

static struct node *cross_next(struct node_place *place, const struct node *from) {
    const struct page *page = place->page;
    while ((page = page_next(page))) {
        picture(place, page);
        int count = (int)order_count(place->order);
        for (place->rank = 0; place->rank < count; place->rank++) {
            struct node *node = place_node(place);
            if (from && node_compare_nodes(node, from) <= 0)
                continue;
            prefetch_page(place, 1, page_next(page));
            return node;
        }
    }
    place->page = NULL;
    return NULL;
}

struct node *node_place_next(struct node_place *place) {
    if (place->rank + 1 < (int)order_count(place->order)) {
        place->rank++;
        prefetch_walk(place, 1);
        return place_node(place);
    }
    return cross_next(place, place->rank < 0 ? NULL : place_node(place));
}

static struct node *cross_previous(struct node_place *place, const struct node *from) {
    const struct page *page = place->page;
    for (;;) {
        const struct page *before = atomic_load_explicit(&page->previous, memory_order_acquire), *next;
        if (!before)
            return NULL;
        picture(place, before);
        while ((next = page_next(before)) != page) { /* split meanwhile */
            before = next;
            picture(place, before);
        }
        for (place->rank = (int)order_count(place->order) - 1; place->rank >= 0; place->rank--) {
            struct node *node = place_node(place);
            if (node_compare_nodes(node, from) >= 0)
                continue;
            prefetch_page(place, -1, atomic_load_explicit(&before->previous, memory_order_relaxed));
            return node;
        }
        page = before;
    }
}

struct node *node_place_previous(struct node_place *place) {
    struct node *from = place_node(place);
    place->rank--;
    if (place->rank < 0)
        return cross_previous(place, from);
    prefetch_walk(place, -1);
    return place_node(place);
}

/* --- Memory --- */

/* `size` zeroed bytes that begin with a cache line. */
static void *take_lines(struct arena *arena, size_t size) {
    uint8_t *piece = arena_allocate(arena, size + CACHE_LINE_BYTES);
    if (!piece)
        return NULL;
    piece += -(uintptr_t)piece & (CACHE_LINE_BYTES - 1);
    return memset(piece, 0, size);
}

bool node_list_init(struct node_list *list, struct arena *arena) {
    *list = (struct node_list){.arena = arena};
    struct page *page = take_lines(arena, sizeof *page);
    struct page_slots *slots = take_lines(arena, sizeof *slots);
    list->before = take_lines(arena, sizeof *list->before);
    if (!page || !slots || !list->before)
        return false;
    atomic_init(&page->slots, slots);
    atomic_init(&list->root, page);
    list->first = page;
    list->pages_count[0] = 1;
    return true;
}

static unsigned root_level(const struct node_list *list) {
    return atomic_load_explicit(&list->root, memory_order_relaxed)->level;
}

/*
 * How many pages can split, on all levels, when `count` nodes are added. After a split neither half
 * can split before it has got seven more items, so beyond one split of each page there is, splits
 * have to be paid for with items; a quarter of them is on the safe side.
 */
static size_t splits_max(const struct node_list *list, size_t count) {
    if (list->nodes_count + count <= PAGE_ITEMS_MAX)
        return 0;
    size_t splits = 0, added = count;
    for (unsigned level = 0; added > 0; level++) {
        bool exists = level <= root_level(list);
        size_t paid = exists ? list->pages_count[level] + added / 4 + 2 : added / 4;
        added = added < paid ? added : paid;
        splits += added;
    }
    return splits;
}

bool node_list_reserve(struct node_list *list, size_t count) {
    /* Besides two halves a split may need a new root. */
    size_t splits = splits_max(list, count), roots = splits ? NODE_LIST_LEVELS_MAX / 2 : 0;
    size_t pages = splits + roots, slots = 2 * splits + roots;
    if (list->spare_pages_count < pages) {
        size_t missing = pages - list->spare_pages_count;
        struct page *taken = take_lines(list->arena, missing * sizeof *taken);
        for (size_t i = 0; taken && i < missing; i++, list->spare_pages_count++) {
            atomic_init(&taken[i].next, list->spare_pages);
            list->spare_pages = &taken[i];
        }
    }
    if (list->spare_slots_count < slots) {
        size_t missing = slots - list->spare_slots_count;
        struct page_slots *taken = take_lines(list->arena, missing * sizeof *taken);
        for (size_t i = 0; taken && i < missing; i++, list->spare_slots_count++) {
            taken[i].items[0] = list->spare_slots;
            list->spare_slots = &taken[i];
        }
    }
    return list->spare_pages_count >= pages && list->spare_slots_count >= slots;
}

static struct page *take_page(struct node_list *list, unsigned level, struct node *lowest, struct page_slots *slots) {
    struct page *page = list->spare_pages;
    assert(page && level < NODE_LIST_LEVELS_MAX);
    list->spare_pages = page_next(page);
    list->spare_pages_count--;
    list->pages_count[level]++;
    page->level = level;
    page->lowest = lowest;
    atomic_init(&page->slots, slots);
    atomic_init(&page->next, NULL);
    return page;
}

/* An item on its way to other slots, with its hint behind the `shared` bytes of those it was in. */
struct moving_item {
    void *item;
    uint64_t hint;
};

/*
 * Slots with these items, in order, for the keys from `low` to `high`; NULL for either: without
 * bound. Their keys are looked at only if the hints change.
 */
static struct page_slots *take_slots(struct node_list *list, unsigned level, const struct moving_item *items,
                                     unsigned count, uint64_t shared, const struct node *low, const struct node *high) {
    struct page_slots *slots = list->spare_slots;
    assert(slots);
    list->spare_slots = slots->items[0];
    list->spare_slots_count--;
    slots->shared = low && high ? shared_bytes(node_key(low), node_key(high)) : 0;
    slots->high_prefix = high ? high->prefix : 0;
    atomic_init(&slots->high, high);
    uint64_t order = 0;
    for (unsigned i = 0; i < count; i++) {
        slots->items[i] = items[i].item;
        slots->hints[i] = slots->shared == shared ? items[i].hint : item_hint(item_node(level, items[i].item), slots->shared);
        order = order_insert(order, i);
    }
    atomic_init(&slots->order, order);
    return slots;
}

/* --- Adding --- */

void (*node_list_half_done)(void);

static void half_done(void) {
    if (node_list_half_done)
        node_list_half_done();
}

/*
 * The link to the right comes first: whoever reaches the page by `previous` must find it to be its
 * left neighbour's `next`.
 */
static void link_page(struct page *left, struct page *page) {
    struct page *right = page_next(left);
    atomic_init(&page->previous, left);
    atomic_init(&page->next, right);
    atomic_store_explicit(&left->next, page, memory_order_release);
    half_done();
    if (right)
        atomic_store_explicit(&right->previous, page, memory_order_release);
    half_done();
}

/* Splits a full page, with `item` to be added at `rank`, and returns the new page. */
static struct page *split(struct node_list *list, struct page *left, unsigned rank, void *item) {
    struct moving_item items[PAGE_ITEMS_MAX + 1];
    struct page_slots *full = atomic_load_explicit(&left->slots, memory_order_relaxed);
    uint64_t order = atomic_load_explicit(&full->order, memory_order_relaxed);
    const struct node *high = atomic_load_explicit(&full->high, memory_order_relaxed);
    for (unsigned i = 0; i < PAGE_ITEMS_MAX; i++) {
        unsigned slot = order_slot(order, i);
        items[i < rank ? i : i + 1] = (struct moving_item){full->items[slot], full->hints[slot]};
    }
    items[rank] = (struct moving_item){item, item_hint(item_node(left->level, item), full->shared)};
    bool behind_all = !high && rank == PAGE_ITEMS_MAX;
    unsigned half = behind_all ? PAGE_ITEMS_MAX : (PAGE_ITEMS_MAX + 1) / 2, level = left->level;
    struct node *middle = item_node(level, items[half].item);
    struct page_slots *upper =
        take_slots(list, level, items + half, PAGE_ITEMS_MAX + 1 - half, full->shared, middle, high);
    struct page *page = take_page(list, level, middle, upper);
    link_page(left, page);
    if (behind_all) {
        full->high_prefix = middle->prefix;
        atomic_store_explicit(&full->high, middle, memory_order_release);
    } else {
        struct page_slots *lower = take_slots(list, level, items, half, full->shared, left->lowest, middle);
        atomic_store_explicit(&left->slots, lower, memory_order_release);
    }
    half_done();
    return page;
}

static void grow_root(struct node_list *list, struct page *left, struct page *right) {
    struct moving_item items[2] = {{left, item_hint(left->lowest, 0)}, {right, item_hint(right->lowest, 0)}};
    struct page_slots *slots = take_slots(list, left->level + 1, items, 2, 0, NULL, NULL);
    struct page *root = take_page(list, left->level + 1, NULL, slots);
    atomic_init(&root->previous, NULL);
    atomic_store_explicit(&list->root, root, memory_order_release);
}

static void append(struct page_slots *slots, unsigned level, unsigned rank, void *item) {
    uint64_t order = atomic_load_explicit(&slots->order, memory_order_relaxed);
    unsigned slot = order_count(order);
    slots->items[slot] = item;
    slots->hints[slot] = item_hint(item_node(level, item), slots->shared);
    atomic_store_explicit(&slots->order, order_insert(order, rank), memory_order_release);
}

/*
 * Adds the node behind floor, and on each level above the page that a split has made on the one
 * below.
 */
void node_list_insert(struct node_list *list, const struct node_place *floor, struct node *node) {
    struct node_place path[NODE_LIST_LEVELS_MAX];
    path[0] = *floor;
    void *item = node;
    list->nodes_count++;
    for (unsigned level = 0;; level++) {
        struct page *page = (struct page *)path[level].page; /* the writer may */
        struct page_slots *slots = atomic_load_explicit(&page->slots, memory_order_relaxed);
        assert(slots == path[level].slots);
        unsigned rank = (unsigned)(path[level].rank + 1);
        if (order_count(path[level].order) < PAGE_ITEMS_MAX) {
            append(slots, level, rank, item);
            return;
        }
        if (level == 0) { /* one in seven: only now is the way down wanted */
            struct search_key key = search_key_make(node_key(node));
            struct node_place place;
            descend(root_page(list), &key, false, &place, path);
        }
        item = split(list, page, rank, item);
        if (level == root_level(list)) {
            grow_root(list, page, item);
            return;
        }
    }
}

/* --- Checking --- */

/* Returns the last node of the page, or `last` if it has none. */
static const struct node *check_page(const struct page *page, const struct node *last) {
    const struct page_slots *slots = atomic_load(&page->slots);
    const struct page *next = page_next(page);
    const struct node *high = atomic_load(&slots->high);
    uint64_t order = atomic_load(&slots->order);
    unsigned used = 0;
    assert(high == (next ? next->lowest : NULL) && (!high || slots->high_prefix == high->prefix));
    assert(!page->lowest || item_node(page->level, ranked(slots, order, 0)) == page->lowest);
    assert(!slots->shared || slots->shared <= shared_bytes(node_key(page->lowest), node_key(high)));
    for (unsigned rank = 0; rank < order_count(order); rank++) {
        unsigned slot = order_slot(order, rank);
        const struct node *node = item_node(page->level, slots->items[slot]);
        assert(!(used >> slot & 1));
        used |= 1u << slot;
        assert(!last || node_compare_nodes(last, node) < 0);
        assert(!node || node->prefix == key_number(node_key(node), 0));
        assert(slots->hints[slot] == item_hint(node, slots->shared));
        last = node;
    }
    assert(used + 1 == 1u << order_count(order));
    return last;
}

/* Checks a level and returns the first page of the level below. */
static const struct page *check_level(const struct node_list *list, const struct page *page) {
    const struct page *below = page->level ? atomic_load(&page->slots)->items[0] : NULL, *child = below, *previous = NULL;
    const struct node *last = NULL;
    size_t pages = 0, items = 0;
    unsigned level = page->level;
    for (; page; previous = page, page = page_next(page), pages++) {
        const struct page_slots *slots = atomic_load(&page->slots);
        uint64_t order = atomic_load(&slots->order);
        assert(page->level == level && atomic_load(&page->previous) == previous);
        last = check_page(page, last);
        for (unsigned rank = 0; level && rank < order_count(order); rank++, child = page_next(child))
            assert(ranked(slots, order, rank) == child);
        items += order_count(order);
    }
    assert(!child && pages == list->pages_count[level]);
    assert(items == (level ? list->pages_count[level - 1] : list->nodes_count));
    return below;
}

void node_list_check(const struct node_list *list) {
    const struct page *page = atomic_load(&list->root);
    assert(!page_next(page) && !atomic_load(&page->previous));
    for (;;) {
        assert(!page->lowest);
        const struct page *below = check_level(list, page);
        if (!below)
            break;
        page = below;
    }
    assert(page == list->first);
    assert(!chain_head(&list->before->point) && !chain_head(&list->before->gap));
}
