/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint: moves what has fallen below the horizon from the window to the base, in the background, and keeps house beside it.
 *
 *     newest generation ──rotate──► closed generations ──below the horizon──► base transaction ──► dropped, log released
 *
 *   1. Only whole generations move, oldest first, several together. The base transaction that brings the end of them stores their last version;
 *      transactions before it, where they are large, store the version that the base had: it then holds a part of them, which the window and
 *      the log still have as a whole. (LMDB keeps the pages of a transaction in a sorted list, and putting one into a long list takes long.)
 *   2. Generations are dropped from the window only after the base has them durably: a reader finds every change in one or both.
 *   3. The log is released up to the base version only after that, so recovery never misses a change.
 *   4. The base never holds a version above the horizon of the moment, so it is never ahead of a readable version.
 *   5. The base holds nothing that the log does not have durably: a part of it could not be made whole, and a base ahead of its log looks like damage.
 *
 * A full disk is tried again every second, and commits are refused with DISK_FULL once the window is full. Any other failure poisons the
 * database: the log still has everything, and the next open replays it.
 */
#include "engine/engine_internal.h"
#include "os/clock.h"

enum {
    TICK_US = 250000,          /* how often a busy window is looked at */
    IDLE_TICK_US = 30000000,   /* an empty one: for the lease alone */
    RETRY_US = 1000000,
};

void checkpoint_rotate_if_due(struct engine *engine) {
    uint64_t bytes = window_newest_bytes(engine->window);
    if (bytes == 0) {
        /* An empty generation does not age. */
        atomic_store_explicit(&engine->newest_generation_us, os_clock_coarse_us(), memory_order_relaxed);
        return;
    }
    int64_t age = os_clock_coarse_us() - atomic_load_explicit(&engine->newest_generation_us, memory_order_relaxed);
    if (age < engine->options.generation_us && bytes < engine->options.generation_bytes)
        return;
    if (window_rotate(engine->window) == ERROR_SUCCESS)
        atomic_store_explicit(&engine->newest_generation_us, os_clock_coarse_us(), memory_order_relaxed);
}

static fdb_error_t visit_set(void *context, struct bytes key, struct bytes value) {
    struct engine *engine = context;
    fdb_error_t error = base_write_set(engine->base, key, value);
    if (!error && base_write_pages(engine->base) >= engine->options.base_pages_max) {
        error = base_write_commit(engine->base, base_version(engine->base));
        if (engine->log)
            log_prepare(engine->log); /* it may be wanted before all is moved */
        if (!error)
            error = base_write_begin(engine->base);
    }
    return error;
}

static fdb_error_t visit_clear(void *engine, struct bytes key) {
    return base_write_clear(((struct engine *)engine)->base, key);
}

static fdb_error_t visit_clear_range(void *engine, struct bytes begin, struct bytes end) {
    return base_write_clear_range(((struct engine *)engine)->base, begin, end);
}

static fdb_error_t write_base(struct engine *engine, struct window_view *view) {
    fdb_error_t error = base_write_begin(engine->base);
    if (error)
        return error;
    struct window_visitor visitor = {visit_set, visit_clear, visit_clear_range, engine};
    error = window_view_visit(view, &visitor);
    if (error) {
        base_write_abort(engine->base);
        return error;
    }
    return base_write_commit(engine->base, window_view_last_version(view));
}

static void tell_room(struct engine *engine) {
    os_mutex_lock(&engine->pipeline.lock);
    os_condition_broadcast(&engine->pipeline.room);
    os_mutex_unlock(&engine->pipeline.lock);
}

/* Moves a view's generations to the base. */
static fdb_error_t move(struct engine *engine, struct window_view *view) {
    fdb_error_t error = write_base(engine, view);
    if (!error)
        error = window_drop_oldest(engine->window, view); /* out of memory: it is written again next time, to the same effect */
    if (error)
        return error;
    if (engine->readers) /* not yet while the log is replayed */
        readers_release_idle(engine->readers);
    if (engine->log)
        error = log_release(engine->log, window_view_last_version(view));
    if (error)
        return error;
    atomic_fetch_add_explicit(&engine->counters.checkpoints, 1, memory_order_relaxed);
    atomic_store_explicit(&engine->disk_full, false, memory_order_relaxed);
    return ERROR_SUCCESS;
}

fdb_error_t checkpoint_run(struct engine *engine, int64_t version) {
    for (;;) {
        struct window_view *view;
        fdb_error_t error = window_closed_view(engine->window, version, engine->options.window_bytes_max / 4, &view);
        if (error || !view)
            return error;
        error = move(engine, view);
        window_view_release(engine->window, view);
        if (error)
            return error;
        tell_room(engine);
    }
}

void checkpoint_request(struct engine *engine) {
    os_mutex_lock(&engine->checkpoint_lock);
    engine->checkpoint_hurry = true;
    os_condition_signal(&engine->checkpoint_wake);
    os_mutex_unlock(&engine->checkpoint_lock);
}

fdb_error_t engine_renew_lease(struct engine *engine) {
    if (engine->in_memory || !version_clock_needs_lease(&engine->clock, LEASE_VERSIONS))
        return ERROR_SUCCESS;
    os_mutex_lock(&engine->lease_lock);
    fdb_error_t error = ERROR_SUCCESS;
    if (version_clock_needs_lease(&engine->clock, LEASE_VERSIONS)) {
        int64_t ceiling = version_clock_next_ceiling(&engine->clock, LEASE_VERSIONS);
        error = lease_raise(&engine->lease, ceiling);
        if (!error)
            version_clock_set_ceiling(&engine->clock, ceiling);
    }
    os_mutex_unlock(&engine->lease_lock);
    return error;
}

/* Rotates on behalf of an idle pipeline: a window that nobody writes to any more must still reach the base. */
static void rotate_if_idle(struct engine *engine) {
    os_mutex_lock(&engine->pipeline.lock);
    if (!engine->pipeline.leading)
        checkpoint_rotate_if_due(engine);
    os_mutex_unlock(&engine->pipeline.lock);
}

/*
 * Is it time to move what lies below the horizon? To move much at once is cheaper, since a page that many changes go to is then written once; so
 * it may gather until it is much, has waited for long, or the window fills up.
 */
static bool is_due(struct engine *engine, int64_t horizon) {
    uint64_t waiting = window_closed_bytes(engine->window, horizon), bytes_max = engine->options.window_bytes_max;
    int64_t now = os_clock_us();
    if (!waiting)
        engine->waiting_since_us = now;
    return waiting >= bytes_max / 4 || window_bytes(engine->window) > bytes_max / 4 * 3 ||
           now - engine->waiting_since_us >= engine->options.lifetime_us;
}

/* One round of housekeeping; says how long to sleep. */
static int64_t keep_house(struct engine *engine) {
    if (atomic_load(&engine->failed))
        return IDLE_TICK_US;
    rotate_if_idle(engine);
    if (engine->log)
        log_prepare(engine->log);
    fdb_error_t lease_error = engine_renew_lease(engine); /* also while the checkpoint finds no room */
    int64_t horizon = version_clock_horizon(&engine->clock);
    fdb_error_t error = is_due(engine, horizon) ? checkpoint_run(engine, horizon) : ERROR_SUCCESS;
    if (!error)
        error = lease_error;
    if (error == ERROR_DISK_FULL || error == ERROR_LARGE_ALLOC_FAILED) {
        atomic_store(&engine->disk_full, error == ERROR_DISK_FULL);
        return RETRY_US;
    }
    if (error)
        atomic_store(&engine->failed, true);
    return window_bytes(engine->window) > 0 ? TICK_US : IDLE_TICK_US;
}

/* The checkpoint thread. A commit into an empty window wakes it from its long sleep. */
void *engine_checkpointer(void *argument) {
    struct engine *engine = argument;
    os_mutex_lock(&engine->checkpoint_lock);
    while (!engine->checkpoint_stopping) {
        os_mutex_unlock(&engine->checkpoint_lock);
        int64_t deadline = os_clock_us() + keep_house(engine);
        os_mutex_lock(&engine->checkpoint_lock);
        while (!engine->checkpoint_stopping && !engine->checkpoint_hurry &&
               os_condition_wait_until(&engine->checkpoint_wake, &engine->checkpoint_lock, deadline))
            continue;
        engine->checkpoint_hurry = false;
    }
    os_mutex_unlock(&engine->checkpoint_lock);
    return NULL;
}
