/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window: the list of generations, newest first, and the views that readers hold of it. The
 * commit pipeline writes to the newest generation; the checkpoint takes the oldest away once the
 * base holds it; reads look through all of them, newest first, and the first that has a state at or
 * below the asked version answers. generation.c is the map itself, window_cursor.c the walk over
 * ranges.
 *
 * A list is an immutable, counted object: rotating and dropping make a new one and swap the
 * pointer.
 *
 *        window.list ----> list, epoch 7: [ g5 g4 g3 ]   window_rotate makes      [ g6 g5 g4 g3 ]
 *                                            ^  ^  ^      window_drop_oldest makes [ g5 g4 ]
 *        a reader's view -> list, epoch 6: [ g4 g3 ]      each holds a reference to its generations
 *
 * Invariants:
 *   1. A list has 1 to WINDOW_GENERATIONS_MAX generations; only the first is ever written to.
 *   2. No version in a generation is above one in a newer generation.
 *   3. window.epoch is the epoch of window.list, or for a moment older: a reader that finds its
 *      view's epoch there has a list that was whole when it loaded the epoch. The writer publishes
 *      no version of a new generation before its epoch.
 *
 * Threads: `lock` guards the list pointer and is held while a reference is added or the list
 * replaced, never while searching. The last release of a list frees it, on whatever thread that is.
 *
 * Failure: creating, reserving, rotating and dropping report LARGE_ALLOC_FAILED and leave
 * everything as it was.
 */
#include "engine/window.h"

#include <assert.h>

#include "engine/window_view.h"
#include "os/thread.h"
#include "util/memory.h"

struct window {
    os_mutex lock;
    struct window_view *list;
    _Atomic uint64_t epoch;
    struct generation *newest; /* the writer's own way to the first of the list */
};

/* --- Lists --- */

static struct window_view *list_make(uint64_t epoch, unsigned count) {
    struct window_view *list = memory_allocate(sizeof *list + count * sizeof list->generations[0]);
    if (!list)
        return NULL;
    atomic_init(&list->references, 1);
    list->epoch = epoch;
    list->count = count;
    return list;
}

static void list_release(struct window_view *list) {
    if (atomic_fetch_sub_explicit(&list->references, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned i = 0; i < list->count; i++)
        generation_release(list->generations[i]);
    memory_free(list);
}

/*
 * Puts a new list in place and returns the old one, to be released without the lock. REQUIRES: lock
 * held.
 */
static struct window_view *list_replace(struct window *window, struct window_view *list) {
    struct window_view *old = window->list;
    window->list = list;
    atomic_store_explicit(&window->epoch, list->epoch, memory_order_release);
    return old;
}

/* --- Life --- */

fdb_error_t window_create(struct window **window) {
    struct window *made = memory_allocate_zeroed(sizeof *made);
    if (!made)
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t error = generation_create(&made->newest);
    if (error)
        goto free_window;
    made->list = list_make(1, 1);
    if (!made->list) {
        error = ERROR_LARGE_ALLOC_FAILED;
        goto release_generation;
    }
    made->list->generations[0] = made->newest;
    atomic_init(&made->epoch, 1);
    os_mutex_init(&made->lock);
    *window = made;
    return 0;

release_generation:
    generation_release(made->newest);
free_window:
    memory_free(made);
    return error;
}

void window_destroy(struct window *window) {
    assert(atomic_load(&window->list->references) == 1);
    list_release(window->list);
    os_mutex_destroy(&window->lock);
    memory_free(window);
}

/* --- The writer --- */

fdb_error_t window_reserve(struct window *window, const struct change *changes, size_t count) {
    return generation_reserve(window->newest, changes, count);
}

void window_apply(struct window *window, int64_t version, const struct change *changes, size_t count) {
    generation_apply(window->newest, version, changes, count);
}

/* The present list behind a new generation. REQUIRES: lock held. */
static struct window_view *list_with(struct window *window, struct generation *newest) {
    struct window_view *list = window->list;
    struct window_view *longer = list_make(list->epoch + 1, list->count + 1);
    if (!longer)
        return NULL;
    longer->generations[0] = newest;
    for (unsigned i = 0; i < list->count; i++) {
        longer->generations[i + 1] = list->generations[i];
        generation_retain(list->generations[i]);
    }
    return longer;
}

fdb_error_t window_rotate(struct window *window) {
    if (window->newest->last_version < 0)
        return 0;
    struct generation *newest;
    fdb_error_t error = generation_create(&newest);
    if (error)
        return error;
    os_mutex_lock(&window->lock);
    bool full = window->list->count == WINDOW_GENERATIONS_MAX;
    struct window_view *list = full ? NULL : list_with(window, newest);
    struct window_view *old = list ? list_replace(window, list) : NULL;
    os_mutex_unlock(&window->lock);
    if (!list) {
        generation_release(newest);
        return full ? 0 : ERROR_LARGE_ALLOC_FAILED;
    }
    list_release(old);
    window->newest = newest;
    return 0;
}

uint64_t window_bytes(struct window *window) {
    uint64_t bytes = 0;
    os_mutex_lock(&window->lock);
    for (unsigned i = 0; i < window->list->count; i++)
        bytes += atomic_load_explicit(&window->list->generations[i]->bytes, memory_order_relaxed);
    os_mutex_unlock(&window->lock);
    return bytes;
}

uint64_t window_newest_bytes(struct window *window) {
    os_mutex_lock(&window->lock);
    uint64_t bytes = atomic_load_explicit(&window->list->generations[0]->bytes, memory_order_relaxed);
    os_mutex_unlock(&window->lock);
    return bytes;
}

/* --- The checkpoint --- */

/*
 * How many of the oldest generations are closed and hold nothing newer than `version`, and their bytes; no more than are
 * needed for `bytes_wanted`, but one. REQUIRES: lock held.
 */
static unsigned closed_count(const struct window_view *list, int64_t version, uint64_t bytes_wanted, uint64_t *bytes) {
    unsigned count = 0;
    *bytes = 0;
    while (count + 1 < list->count && (count == 0 || *bytes < bytes_wanted)) {
        const struct generation *generation = list->generations[list->count - 1 - count];
        if (generation->last_version > version)
            break;
        *bytes += atomic_load_explicit(&generation->bytes, memory_order_relaxed);
        count++;
    }
    return count;
}

uint64_t window_closed_bytes(struct window *window, int64_t version) {
    uint64_t bytes;
    os_mutex_lock(&window->lock);
    closed_count(window->list, version, UINT64_MAX, &bytes);
    os_mutex_unlock(&window->lock);
    return bytes;
}

/* A list of `count` generations of another from `first` on, of which it takes references. REQUIRES: lock held. */
static struct window_view *list_part(const struct window_view *list, unsigned first, unsigned count, uint64_t epoch) {
    struct window_view *part = list_make(epoch, count);
    for (unsigned i = 0; part && i < count; i++) {
        part->generations[i] = list->generations[first + i];
        generation_retain(part->generations[i]);
    }
    return part;
}

fdb_error_t window_closed_view(struct window *window, int64_t version, uint64_t bytes_wanted, struct window_view **view) {
    uint64_t bytes;
    os_mutex_lock(&window->lock);
    unsigned count = closed_count(window->list, version, bytes_wanted, &bytes);
    struct window_view *oldest = count ? list_part(window->list, window->list->count - count, count, 0) : NULL;
    os_mutex_unlock(&window->lock);
    if (count && !oldest)
        return ERROR_LARGE_ALLOC_FAILED;
    *view = oldest;
    return 0;
}

int64_t window_view_last_version(struct window_view *view) {
    return view->generations[0]->last_version;
}

fdb_error_t window_drop_oldest(struct window *window, const struct window_view *closed) {
    os_mutex_lock(&window->lock);
    assert(window->list->count > closed->count);
    struct window_view *list = list_part(window->list, 0, window->list->count - closed->count, window->list->epoch + 1);
    struct window_view *old = list ? list_replace(window, list) : NULL;
    os_mutex_unlock(&window->lock);
    if (!list)
        return ERROR_LARGE_ALLOC_FAILED;
    list_release(old);
    return 0;
}

/* --- Readers --- */

uint64_t window_epoch(struct window *window) {
    return atomic_load_explicit(&window->epoch, memory_order_acquire);
}

struct window_view *window_view_acquire(struct window *window) {
    os_mutex_lock(&window->lock);
    struct window_view *view = window->list;
    atomic_fetch_add_explicit(&view->references, 1, memory_order_relaxed);
    os_mutex_unlock(&window->lock);
    return view;
}

uint64_t window_view_epoch(struct window_view *view) {
    return view->epoch;
}

void window_view_release(struct window *window, struct window_view *view) {
    (void)window;
    list_release(view);
}

enum window_answer window_view_get(struct window_view *view, int64_t version, struct bytes key, struct bytes *value) {
    struct search_key wanted = search_key_make(key);
    uint64_t hash = generation_hash(key);
    for (unsigned i = 1; i < view->count; i++)
        generation_prefetch(view->generations[i], hash);
    for (unsigned i = 0; i < view->count; i++) {
        const struct entry *entry = generation_find(view->generations[i], &wanted, hash, version);
        if (!entry)
            continue;
        if (entry->length == ENTRY_CLEARED)
            return WINDOW_CLEARED;
        *value = bytes_make(entry->value, entry->length);
        return WINDOW_VALUE;
    }
    return WINDOW_SILENT;
}

/* --- Checking --- */

void window_check(struct window *window) {
    struct window_view *view = window_view_acquire(window);
    assert(view->count >= 1 && view->count <= WINDOW_GENERATIONS_MAX);
    assert(view->generations[0] == window->newest);
    assert(view->epoch == window_epoch(window));
    int64_t newer = INT64_MAX;
    for (unsigned i = 0; i < view->count; i++) {
        struct generation *generation = view->generations[i];
        generation_check(generation);
        assert(i == 0 || generation->last_version >= 0);
        assert(generation->last_version <= newer);
        if (generation->first_version >= 0)
            newer = generation->first_version;
    }
    window_view_release(window, view);
}
