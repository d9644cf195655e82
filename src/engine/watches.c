/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watches set on a database. When a commit batch has been applied, the pipeline tells this
 * module of every change; the watches that a change concerns are taken out and handed back, and
 * fired when the batch is published and no lock is held.
 *
 * Representation. A treap over the watches themselves: a search tree by key, and among watches of
 * the same key by address, that is at the same time a heap by a priority made of the address, which
 * keeps it about balanced without any bookkeeping. Nothing is allocated, so setting a watch cannot
 * fail. The links of a watch:
 *
 *     links[0]   left child; once taken out, the next in the list of those to be fired
 *     links[1]   right child
 *     links[3]   the watches it is set in, NULL once taken out
 *
 * Invariants (watches_check, under the lock):
 *   1. In order, (key, address) ascends strictly; no child has a higher priority than its parent.
 *   2. `count` is the number of watches in the tree, and exactly those have links[3] set.
 *   3. A watch leaves the tree once: whoever takes it out (a change, watches_remove,
 *      watches_destroy) alone decides what becomes of it.
 *
 * Threads: any; one mutex, held for a walk of logarithmic length and the watches found. The count
 * is readable without it: a committer that sees none set skips the calls. A watcher therefore adds
 * first and looks at the current value afterwards.
 */
#include "engine/watches.h"

#include <assert.h>
#include <stdatomic.h>

#include "os/thread.h"
#include "util/memory.h"

struct watches {
    os_mutex mutex;
    void *root; /* a watch, or NULL; a void pointer like the links, so that both can be a slot */
    _Atomic uint64_t count;
};

static struct watch *left_of(const struct watch *watch) {
    return watch->links[0];
}

static struct watch *right_of(const struct watch *watch) {
    return watch->links[1];
}

static uint64_t priority_of(const struct watch *watch) {
    uint64_t z = (uint64_t)(uintptr_t)watch;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Order in the tree: never zero for two watches. */
static int watch_compare(const struct watch *a, const struct watch *b) {
    int order = bytes_compare(a->key, b->key);
    if (order)
        return order;
    return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

/* Cuts a tree into what is before and what is after a watch that is not in it. */
static void split(struct watch *tree, const struct watch *at, void **before, void **after) {
    void **lesser = before, **greater = after;
    while (tree) {
        if (watch_compare(tree, at) < 0) {
            *lesser = tree;
            lesser = &tree->links[1];
            tree = right_of(tree);
        } else {
            *greater = tree;
            greater = &tree->links[0];
            tree = left_of(tree);
        }
    }
    *lesser = NULL;
    *greater = NULL;
}

/* Joins two trees, all of the first before all of the second. */
static struct watch *join(struct watch *before, struct watch *after) {
    void *root;
    void **slot = &root;
    while (before && after) {
        if (priority_of(before) >= priority_of(after)) {
            *slot = before;
            slot = &before->links[1];
            before = right_of(before);
        } else {
            *slot = after;
            slot = &after->links[0];
            after = left_of(after);
        }
    }
    *slot = before ? before : after;
    return root;
}

/* --- Changes --- */

/*
 * What happened to the keys of a range: the one key `begin` was set, or [begin, end) cleared, or
 * all watches end.
 */
struct change {
    enum { CHANGE_SET, CHANGE_CLEAR, CHANGE_CLOSE } kind;
    struct bytes begin;
    struct bytes end;   /* CHANGE_CLEAR */
    struct bytes value; /* CHANGE_SET */
};

/* Where a watch's key lies: negative before the change's keys, 0 among them, positive behind. */
static int position(const struct change *change, const struct watch *watch) {
    if (change->kind == CHANGE_CLOSE)
        return 0;
    int order = bytes_compare(watch->key, change->begin);
    if (change->kind == CHANGE_SET || order < 0)
        return order;
    return bytes_compare(watch->key, change->end) >= 0;
}

/*
 * Whether the change contradicts what the watcher believes. REQUIRES: its key is among the changed.
 */
static bool triggers(const struct change *change, const struct watch *watch) {
    if (change->kind == CHANGE_SET)
        return !watch->present || !bytes_equal(watch->value, change->value);
    return change->kind == CHANGE_CLOSE || watch->present;
}

/* Puts a watch that has just left the tree in front of the list. */
static void hand_over(struct watches *watches, struct watch *watch, struct watch **fired) {
    watch->links[0] = *fired;
    watch->links[3] = NULL;
    *fired = watch;
    atomic_fetch_sub_explicit(&watches->count, 1, memory_order_relaxed);
}

/* Takes what the change triggers out of the tree in *slot. As deep as the tree, so logarithmic. */
static void take(struct watches *watches, void **slot, const struct change *change,
                 struct watch **fired) {
    struct watch *watch = *slot;
    if (!watch)
        return;
    int where = position(change, watch);
    if (where >= 0)
        take(watches, &watch->links[0], change, fired);
    if (where <= 0)
        take(watches, &watch->links[1], change, fired);
    if (where == 0 && triggers(change, watch)) {
        *slot = join(left_of(watch), right_of(watch));
        hand_over(watches, watch, fired);
    }
}

static void apply(struct watches *watches, const struct change *change, struct watch **fired) {
    os_mutex_lock(&watches->mutex);
    take(watches, &watches->root, change, fired);
    os_mutex_unlock(&watches->mutex);
}

/* --- The interface --- */

fdb_error_t watches_create(struct watches **watches) {
    struct watches *created = memory_allocate_zeroed(sizeof *created);
    if (!created)
        return ERROR_LARGE_ALLOC_FAILED;
    os_mutex_init(&created->mutex);
    *watches = created;
    return 0;
}

void watches_destroy(struct watches *watches, struct watch **remaining) {
    struct watch *list = NULL;
    apply(watches, &(struct change){.kind = CHANGE_CLOSE}, &list);
    assert(watches_count(watches) == 0);
    os_mutex_destroy(&watches->mutex);
    memory_free(watches);
    *remaining = list;
}

void watches_add(struct watches *watches, struct watch *watch) {
    os_mutex_lock(&watches->mutex);
    void **slot = &watches->root;
    uint64_t priority = priority_of(watch);
    while (*slot && priority_of(*slot) >= priority)
        slot = &((struct watch *)*slot)->links[watch_compare(watch, *slot) > 0];
    split(*slot, watch, &watch->links[0], &watch->links[1]);
    *slot = watch;
    watch->links[3] = watches;
    atomic_fetch_add(&watches->count, 1);
    os_mutex_unlock(&watches->mutex);
}

bool watches_remove(struct watches *watches, struct watch *watch) {
    os_mutex_lock(&watches->mutex);
    bool set = watch->links[3] == watches;
    if (set) {
        void **slot = &watches->root;
        while (*slot != watch) {
            assert(*slot);
            slot = &((struct watch *)*slot)->links[watch_compare(watch, *slot) > 0];
        }
        *slot = join(left_of(watch), right_of(watch));
        watch->links[3] = NULL;
        atomic_fetch_sub_explicit(&watches->count, 1, memory_order_relaxed);
    }
    os_mutex_unlock(&watches->mutex);
    return set;
}

uint64_t watches_count(struct watches *watches) {
    return atomic_load(&watches->count);
}

void watches_set(struct watches *watches, struct bytes key, struct bytes value,
                 struct watch **fired) {
    apply(watches, &(struct change){.kind = CHANGE_SET, .begin = key, .value = value}, fired);
}

void watches_clear_range(struct watches *watches, struct bytes begin, struct bytes end,
                         struct watch **fired) {
    if (bytes_compare(begin, end) < 0)
        apply(watches, &(struct change){.kind = CHANGE_CLEAR, .begin = begin, .end = end}, fired);
}

void watches_fire(struct watch *fired, fdb_error_t error) {
    while (fired) {
        /* the watch belongs to its watcher once fire is called */
        struct watch *next = fired->links[0];
        fired->fire(fired, error);
        fired = next;
    }
}

/* --- Checking --- */

/* The number of watches in a subtree; *previous is the last one before it in order. */
static uint64_t check_tree(const struct watches *watches, const struct watch *watch,
                           const struct watch **previous) {
    if (!watch)
        return 0;
    const struct watch *left = left_of(watch), *right = right_of(watch);
    assert(!left || priority_of(left) <= priority_of(watch));
    assert(!right || priority_of(right) <= priority_of(watch));
    assert(watch->links[3] == watches);
    uint64_t count = check_tree(watches, left, previous);
    assert(!*previous || watch_compare(*previous, watch) < 0);
    *previous = watch;
    return count + 1 + check_tree(watches, right, previous);
}

void watches_check(struct watches *watches) {
    os_mutex_lock(&watches->mutex);
    const struct watch *previous = NULL;
    assert(check_tree(watches, watches->root, &previous) == watches_count(watches));
    os_mutex_unlock(&watches->mutex);
}
