/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reader slots. Why any pair of view and snapshot answers exactly: the base only ever moves forward by generations that have fallen below the
 * horizon, as a whole or in parts, and a generation leaves the window only after the base has all of it. A view taken before the snapshot therefore
 * lacks nothing that the snapshot lacks; where both know a change, or the snapshot has a part of what the view has, the window's answer is used,
 * which covers every key of the generation at every readable version.
 *
 *   1. Only the thread that has set `busy` touches the rest of a slot (the counters are read by anyone).
 *   2. A live slot's view was taken before its snapshot was renewed.
 *   3. After readers_release_idle returns, every live slot is borrowed or was refreshed since; a borrowed one is let go by reader_return
 *      if it has become stale. So nothing pins old pages while nobody reads.
 *
 * A transaction holds no slot between its calls: one that is left open for an hour costs nothing. A long read is the exception, and has a
 * reader of its own (pin.c).
 */
#include "engine/readers.h"

#include "os/thread.h"
#include "util/memory.h"

struct readers {
    struct reader slots[READERS_MAX];
    struct window *window;
    struct base *base;
};

fdb_error_t readers_create(struct window *window, struct base *base, struct readers **readers) {
    struct readers *created = memory_allocate_aligned(_Alignof(struct readers), sizeof *created);
    if (!created)
        return ERROR_LARGE_ALLOC_FAILED;
    memset(created, 0, sizeof *created);
    created->window = window;
    created->base = base;
    *readers = created;
    return ERROR_SUCCESS;
}

static void let_go(struct readers *readers, struct reader *reader) {
    if (!reader->live)
        return;
    base_snapshot_reset(reader->snapshot);
    window_view_release(readers->window, reader->view);
    reader->live = false;
}

void readers_destroy(struct readers *readers) {
    for (int i = 0; i < READERS_MAX; i++) {
        let_go(readers, &readers->slots[i]);
        if (readers->slots[i].snapshot)
            base_snapshot_destroy(readers->slots[i].snapshot);
    }
    memory_free(readers);
}

static fdb_error_t refresh(struct readers *readers, struct reader *reader) {
    let_go(readers, reader);
    if (!reader->snapshot) {
        fdb_error_t error = base_snapshot_create(readers->base, &reader->snapshot);
        if (error)
            return error;
    }
    struct window_view *view = window_view_acquire(readers->window); /* before the snapshot: invariant 2 */
    fdb_error_t error = base_snapshot_renew(reader->snapshot, &reader->base_version);
    if (error) {
        window_view_release(readers->window, view);
        return error;
    }
    reader->view = view;
    reader->live = true;
    return ERROR_SUCCESS;
}

static bool try_take(struct reader *reader) {
    unsigned idle = 0;
    return atomic_load_explicit(&reader->busy, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong_explicit(&reader->busy, &idle, 1, memory_order_acquire, memory_order_relaxed);
}

static struct reader *take_any(struct readers *readers) {
    for (unsigned start = os_thread_number();; os_thread_yield()) {
        for (unsigned i = 0; i < READERS_MAX; i++) {
            struct reader *reader = &readers->slots[(start + i) % READERS_MAX];
            if (try_take(reader))
                return reader;
        }
    }
}

static bool is_stale(struct readers *readers, struct reader *reader) {
    return !reader->live || window_view_epoch(reader->view) != window_epoch(readers->window);
}

fdb_error_t reader_borrow(struct readers *readers, struct reader **reader) {
    struct reader *taken = take_any(readers);
    if (is_stale(readers, taken)) {
        fdb_error_t error = refresh(readers, taken);
        if (error) {
            reader_return(readers, taken);
            return error;
        }
    }
    *reader = taken;
    return ERROR_SUCCESS;
}

void reader_return(struct readers *readers, struct reader *reader) {
    if (reader->live && is_stale(readers, reader))
        let_go(readers, reader);
    atomic_store_explicit(&reader->busy, 0, memory_order_release);
}

fdb_error_t reader_open(struct readers *readers, struct reader *reader) {
    return refresh(readers, reader);
}

void reader_close(struct readers *readers, struct reader *reader) {
    let_go(readers, reader);
    if (reader->snapshot)
        base_snapshot_destroy(reader->snapshot);
    reader->snapshot = NULL;
}

void readers_release_idle(struct readers *readers) {
    for (int i = 0; i < READERS_MAX; i++) {
        struct reader *reader = &readers->slots[i];
        if (!try_take(reader))
            continue;
        let_go(readers, reader);
        atomic_store_explicit(&reader->busy, 0, memory_order_release);
    }
}

void readers_count(struct readers *readers, uint64_t *reads, uint64_t *rows) {
    *reads = *rows = 0;
    for (int i = 0; i < READERS_MAX; i++) {
        *reads += atomic_load_explicit(&readers->slots[i].reads, memory_order_relaxed);
        *rows += atomic_load_explicit(&readers->slots[i].rows, memory_order_relaxed);
    }
}
