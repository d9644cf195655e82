/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit pipeline: from a waiting commit_request to the disk.
 *
 *     engine_commit ─► queue ─► lead: take a batch ─► resolve ─► build ─► log ─► window ─► sync ─► publish ─► answer
 *                                       │  conflicts  │ atomic ops,                        │ the clock │ watches,
 *                                       │  leave here │ versionstamps                      │ moves on  │ completions
 *
 * Whoever finds the pipeline idle leads it. A thread that blocks on its own commit (engine_drive) does so itself and pays no thread switch; for
 * everyone else, the committer thread does. While a leader syncs, new commits queue up and become the next batch: the group commit.
 *
 *   1. At most one thread leads (pipeline.leading); the workspace, the resolver and the appending end of the log are the leader's.
 *   2. Nothing of a batch can be read before it is durable: it is in the window before, but its version is pending until version_clock_end_batch,
 *      and neither a reader nor the checkpoint goes as far as a pending version.
 *   3. Everything that may fail comes before the append (room in the log, memory in the window), so a refused batch leaves no trace.
 *   4. After a failed append or sync nobody knows what the disk holds: the batch answers COMMIT_UNKNOWN_RESULT, its version stays pending for ever,
 *      and every later commit is refused with DATABASE_FAILED. Reads go on at the last good version.
 *   5. Every request is answered exactly once, in commit order, with no lock held.
 *   6. A transaction that fails while it is built leaves nothing to those behind it: neither in the batch nor in the overlay.
 *   7. A record of the log has a limit, and atomic operations can make much of little: what no longer fits goes back to the queue.
 */
#include "engine/engine_internal.h"

#include "os/clock.h"
#include "os/later.h"
#include "os/wait.h"
#include "util/checksum.h"
#include "util/memory.h"

enum {
    BATCH_COMMITS_MAX = 8192,       /* a versionstamp's order has 16 bits */
    BATCH_BYTES_MAX = 8 * 1024 * 1024, /* a batch may pass it by one transaction */
    BATCH_RESULT_BYTES_MAX = 32 * 1024 * 1024, /* what it has grown to in its final form; may be passed by one transaction's */
    TRANSACTION_RESULT_BYTES_MAX = 64 * 1024 * 1024, /* far above what sets can come to: small operands on large values */
    WORKSPACE_BYTES_KEPT = 4 * 1024 * 1024, /* a buffer larger than this is given back after the batch */
    OVERLAP_CHANGES_MIN = 8,        /* with this many changes to apply it is worth a system call to have the disk begin before */
    TICK_US = 500,                  /* a commit that nobody drives or hurries waits at most this long for the committer thread */
    QUIET_TICKS_MAX = 20,           /* after this many without a commit the committer thread sleeps */
    GATHER_US_MAX = 2000,           /* for so long at most, */
    GATHER_SHARE = 4,               /* and for no more than this part of what a sync takes, a leader waits for clients to come back */
    GATHER_PAUSE_MIN = 4,
    GATHER_PAUSE_MAX = 1024,
    LOOK_US = 10000,                /* how often a waiting thread looks whether its answer came another way: a timeout, a cancel */
};

void pipeline_init(struct pipeline *pipeline) {
    os_mutex_init(&pipeline->lock);
    os_condition_init(&pipeline->work);
    os_condition_init(&pipeline->room);
    os_condition_init(&pipeline->gathered);
    pipeline->tail = &pipeline->head;
    pipeline->next_batch = 1;
}

void pipeline_destroy(struct pipeline *pipeline) {
    os_condition_destroy(&pipeline->gathered);
    os_condition_destroy(&pipeline->room);
    os_condition_destroy(&pipeline->work);
    os_mutex_destroy(&pipeline->lock);
}

void workspace_free(struct batch_workspace *workspace) {
    batch_free(&workspace->batch);
    arena_free(&workspace->arena);
    if (workspace->overlay)
        window_destroy(workspace->overlay);
    memory_free(workspace->changes);
}

/* --- Resolving: who conflicts --- */

static bool has_conflict(struct engine *engine, struct commit_request *request) {
    bool found = false;
    for (size_t i = 0; i < request->read_conflict_count; i++) {
        bool hit = resolver_conflicts(engine->resolver, request->read_conflicts[i], request->read_version);
        found |= hit;
        if (request->report_conflicts)
            request->conflicting[i] = hit;
        else if (hit)
            break;
    }
    return found;
}

/* A look ahead at what the next requests wrote: the resolver is large, and its memory slow. */
static void prefetch_resolver(struct engine *engine, const struct commit_request *request) {
    struct bytes keys[RESOLVER_PREFETCH_MAX];
    unsigned count = 0;
    for (unsigned i = 0; request && i < RESOLVER_PREFETCH_MAX; i++, request = request->next) {
        if (request->write_conflict_count > 0)
            keys[count++] = request->write_conflicts[0].begin;
    }
    if (count > 1)
        resolver_prefetch(engine->resolver, keys, count);
}

static fdb_error_t resolve(struct engine *engine, struct commit_request *request, int64_t version) {
    if (request->read_conflict_count > 0) {
        if (request->read_version < version_clock_horizon(&engine->clock))
            return ERROR_TRANSACTION_TOO_OLD;
        if (has_conflict(engine, request)) {
            atomic_fetch_add_explicit(&engine->counters.conflicts, 1, memory_order_relaxed);
            return ERROR_NOT_COMMITTED;
        }
    }
    for (size_t i = 0; i < request->write_conflict_count; i++) {
        fdb_error_t error = resolver_add(engine->resolver, request->write_conflicts[i], version);
        if (error)
            return error;
    }
    return ERROR_SUCCESS;
}

/* --- Building: mutations become sets and clears --- */

/* The value of a key as the batch so far leaves it: the overlay, else what is published. */
static fdb_error_t present_value(struct engine *engine, int64_t version, struct bytes key, struct bytes *value,
                                 bool *present) {
    struct batch_workspace *workspace = &engine->workspace;
    if (workspace->overlay_used) {
        struct window_view *view = window_view_acquire(workspace->overlay);
        struct bytes found;
        enum window_answer answer = window_view_get(view, version, key, &found);
        bool copied = answer != WINDOW_VALUE || arena_copy(&workspace->arena, found, value);
        window_view_release(workspace->overlay, view);
        if (!copied)
            return ERROR_LARGE_ALLOC_FAILED;
        *present = answer == WINDOW_VALUE;
        if (answer != WINDOW_SILENT)
            return ERROR_SUCCESS;
    }
    return engine_get(&engine->database, version - 1, key, &workspace->arena, value, present);
}

/* The bit of a key in atomic_keys. */
static uint64_t *atomic_word(struct batch_workspace *workspace, struct bytes key, uint64_t *bit) {
    uint64_t hash = checksum(key, 0) % ATOMIC_KEYS_BITS;
    *bit = UINT64_C(1) << hash % 64;
    return &workspace->atomic_keys[hash / 64];
}

/* May an atomic operation of the batch be on what this changes? */
static bool concerns_atomic(struct batch_workspace *workspace, const struct change *change) {
    uint64_t bit;
    if (change->clear && !is_successor(change->value, change->key))
        return true;
    return *atomic_word(workspace, change->key, &bit) & bit;
}

/* Remembers a change in the overlay, so that a later atomic operation of the batch sees it. */
static fdb_error_t overlay_add(struct engine *engine, int64_t version, const struct change *change) {
    struct batch_workspace *workspace = &engine->workspace;
    if (!concerns_atomic(workspace, change))
        return ERROR_SUCCESS;
    if (!workspace->overlay) {
        fdb_error_t error = window_create(&workspace->overlay);
        if (error)
            return error;
    }
    fdb_error_t error = window_reserve(workspace->overlay, change, 1);
    if (error)
        return error;
    workspace->overlay_used = true;
    window_apply(workspace->overlay, version, change, 1);
    return ERROR_SUCCESS;
}

static fdb_error_t evaluate(struct engine *engine, int64_t version, const struct mutation *mutation,
                            struct change *change) {
    struct bytes value;
    bool present, cleared;
    fdb_error_t error = present_value(engine, version, mutation->key, &value, &present);
    if (error)
        return error;
    change->key = mutation->key;
    error = mutation_apply(mutation->type, present ? &value : NULL, mutation->value, &engine->workspace.arena,
                           &change->value, &cleared);
    if (error || !cleared)
        return error;
    uint8_t *end = arena_allocate_bytes(&engine->workspace.arena, mutation->key.length + 1);
    if (!end)
        return ERROR_LARGE_ALLOC_FAILED;
    if (mutation->key.length)
        memcpy(end, mutation->key.data, mutation->key.length);
    end[mutation->key.length] = 0;
    change->clear = true;
    change->value = bytes_make(end, mutation->key.length + 1);
    return ERROR_SUCCESS;
}

/* Copies a stamped key or value with the stamp filled in. */
static fdb_error_t stamp(struct engine *engine, struct bytes text, const struct commit_request *request,
                         struct bytes *stamped) {
    struct bytes body, copy;
    size_t offset;
    fdb_error_t error = mutation_stamp_position(text, &body, &offset);
    if (error)
        return error;
    if (!arena_copy(&engine->workspace.arena, body, &copy))
        return ERROR_LARGE_ALLOC_FAILED;
    mutation_stamp_write((uint8_t *)(uintptr_t)(copy.data + offset), request->committed_version, request->batch_order);
    *stamped = copy;
    return ERROR_SUCCESS;
}

static fdb_error_t add_stamped_key_conflict(struct engine *engine, struct bytes key, int64_t version) {
    uint8_t *end = arena_allocate_bytes(&engine->workspace.arena, key.length + 1);
    if (!end)
        return ERROR_LARGE_ALLOC_FAILED;
    memcpy(end, key.data, key.length);
    end[key.length] = 0;
    return resolver_add(engine->resolver, (struct key_range){key, bytes_make(end, key.length + 1)}, version);
}

/* What a mutation finally changes. */
static fdb_error_t finalize(struct engine *engine, const struct commit_request *request,
                            const struct mutation *mutation, struct change *change) {
    fdb_error_t error = ERROR_SUCCESS;
    *change = (struct change){mutation->type == MUTATION_CLEAR_RANGE, mutation->key, mutation->value};
    if (mutation->type == MUTATION_SET_VERSIONSTAMPED_KEY) {
        error = stamp(engine, mutation->key, request, &change->key);
        if (!error)
            error = add_stamped_key_conflict(engine, change->key, request->committed_version);
    } else if (mutation->type == MUTATION_SET_VERSIONSTAMPED_VALUE) {
        error = stamp(engine, mutation->value, request, &change->value);
    } else if (mutation_is_atomic(mutation->type)) {
        error = evaluate(engine, request->committed_version, mutation, change);
    }
    return error;
}

/* Makes the overlay what the batch is: a transaction that failed has left its changes there. */
static fdb_error_t overlay_restore(struct engine *engine, int64_t version) {
    struct batch_workspace *workspace = &engine->workspace;
    if (!workspace->overlay_used)
        return ERROR_SUCCESS;
    window_destroy(workspace->overlay);
    workspace->overlay = NULL;
    workspace->overlay_used = false;
    struct bytes payload = bytes_make(workspace->batch.data, workspace->batch.length);
    struct change change;
    size_t offset = 0;
    fdb_error_t error = ERROR_SUCCESS;
    while (!error && batch_next(payload, &offset, &change, &error))
        error = overlay_add(engine, version, &change);
    return error;
}

/* Adds a transaction to the batch, or nothing of it; the overlay is then to be restored. */
static fdb_error_t build(struct engine *engine, struct commit_request *request, bool overlay) {
    struct batch *batch = &engine->workspace.batch;
    size_t length = batch->length, count = batch->count;
    for (size_t i = 0; i < request->mutation_count; i++) {
        struct change change;
        fdb_error_t error = finalize(engine, request, &request->mutations[i], &change);
        if (!error)
            error = batch_add(batch, &change);
        if (!error && overlay)
            error = overlay_add(engine, request->committed_version, &change);
        if (!error && batch->length - length > TRANSACTION_RESULT_BYTES_MAX)
            error = ERROR_TRANSACTION_TOO_LARGE;
        if (error) {
            batch_truncate(batch, length, count);
            return error;
        }
    }
    return ERROR_SUCCESS;
}

/* An overlay is needed where an atomic operation may meet an earlier change of the same batch; notes the keys they are on. */
static bool needs_overlay(struct batch_workspace *workspace, const struct commit_request *requests) {
    bool needed = false;
    if (!requests->next && requests->mutation_count == 1)
        return false;
    memset(workspace->atomic_keys, 0, sizeof workspace->atomic_keys);
    for (const struct commit_request *request = requests; request; request = request->next) {
        for (size_t i = 0; i < request->mutation_count; i++) {
            if (!mutation_is_atomic(request->mutations[i].type))
                continue;
            uint64_t bit, *word = atomic_word(workspace, request->mutations[i].key, &bit);
            *word |= bit;
            needed = true;
        }
    }
    return needed;
}

static void clean_workspace(struct batch_workspace *workspace) {
    batch_truncate(&workspace->batch, 0, 0);
    if (workspace->batch.capacity > WORKSPACE_BYTES_KEPT) {
        batch_free(&workspace->batch);
        memory_free(workspace->changes);
        workspace->changes = NULL;
        workspace->change_capacity = 0;
    }
    arena_reset(&workspace->arena);
    if (workspace->overlay_used) {
        window_destroy(workspace->overlay);
        workspace->overlay = NULL;
        workspace->overlay_used = false;
    }
}

/* --- Writing: log, then window --- */

static void settle(struct commit_request *request, fdb_error_t error) {
    if (!request->settled) {
        request->settled = true;
        request->error = error;
    }
}

static void settle_all(struct commit_request *requests, fdb_error_t error) {
    for (; requests; requests = requests->next)
        settle(requests, error);
}

static fdb_error_t decode_changes(struct batch_workspace *workspace) {
    if (workspace->change_capacity < workspace->batch.count) {
        struct change *changes = memory_resize(workspace->changes, workspace->batch.count * sizeof *changes);
        if (!changes)
            return ERROR_LARGE_ALLOC_FAILED;
        workspace->changes = changes;
        workspace->change_capacity = workspace->batch.count;
    }
    struct bytes payload = bytes_make(workspace->batch.data, workspace->batch.length);
    size_t offset = 0;
    fdb_error_t error = ERROR_SUCCESS;
    for (size_t i = 0; batch_next(payload, &offset, &workspace->changes[i], &error); i++)
        continue;
    return error;
}

/* Takes everything the batch will need, so that nothing after the append can fail. */
static fdb_error_t reserve(struct engine *engine) {
    struct batch_workspace *workspace = &engine->workspace;
    fdb_error_t error = decode_changes(workspace);
    if (!error)
        error = window_reserve(engine->window, workspace->changes, workspace->batch.count);
    if (!error && engine->log)
        error = log_reserve(engine->log, workspace->batch.length);
    if (error == ERROR_DISK_FULL)
        atomic_store(&engine->disk_full, true);
    return error;
}

static void trigger_watches(struct engine *engine, struct watch **fired) {
    if (watches_count(engine->watches) == 0)
        return;
    for (size_t i = 0; i < engine->workspace.batch.count; i++) {
        const struct change *change = &engine->workspace.changes[i];
        if (change->clear)
            watches_clear_range(engine->watches, change->key, change->value, fired);
        else
            watches_set(engine->watches, change->key, change->value, fired);
    }
}

/*
 * Resolves and builds every request; those that fail are settled, the others are in the batch. Returns the requests it cut off the end because
 * the batch was large enough without them.
 */
static struct commit_request *assemble(struct engine *engine, struct commit_request *requests, int64_t version) {
    bool overlay = needs_overlay(&engine->workspace, requests);
    fdb_error_t overlay_error = ERROR_SUCCESS;
    uint16_t order = 0;
    unsigned ahead = 0;
    for (struct commit_request *request = requests; request; request = request->next, ahead--) {
        if (ahead == 0) {
            prefetch_resolver(engine, request);
            ahead = RESOLVER_PREFETCH_MAX;
        }
        request->committed_version = version;
        request->batch_order = order;
        fdb_error_t error = overlay_error ? overlay_error : resolve(engine, request, version);
        if (!error) {
            error = build(engine, request, overlay);
            if (error)
                overlay_error = overlay_restore(engine, version);
        }
        if (error)
            settle(request, error);
        else
            order++;
        if (engine->workspace.batch.length >= BATCH_RESULT_BYTES_MAX) {
            struct commit_request *rest = request->next;
            request->next = NULL;
            return rest;
        }
    }
    return NULL;
}

static void count_batch(struct engine *engine, const struct commit_request *requests) {
    uint64_t commits = 0;
    for (; requests; requests = requests->next)
        commits += requests->error == ERROR_SUCCESS;
    struct engine_counters *counters = &engine->counters;
    atomic_fetch_add_explicit(&counters->commits, commits, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->mutations, engine->workspace.batch.count, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->mutation_bytes, engine->workspace.batch.length, memory_order_relaxed);
}

/* To the log, to the window, and to the disk: the window is filled while the disk begins to write. */
static fdb_error_t write_durably(struct engine *engine, int64_t version) {
    const struct batch *batch = &engine->workspace.batch;
    fdb_error_t error = ERROR_SUCCESS;
    if (engine->log) {
        struct bytes payload = bytes_make(batch->data, batch->length);
        error = log_append(engine->log, version, &payload, 1);
        if (error)
            return error;
        if (batch->count >= OVERLAP_CHANGES_MIN)
            log_begin_sync(engine->log);
    }
    window_apply(engine->window, version, engine->workspace.changes, batch->count);
    if (!engine->log)
        return ERROR_SUCCESS;
    int64_t begun_us = os_clock_us();
    error = log_sync(engine->log);
    engine->pipeline.gathering.sync_us = os_clock_us() - begun_us;
    return error;
}

/* Brings what was assembled to the disk and the window. */
static fdb_error_t write_batch(struct engine *engine, int64_t version) {
    checkpoint_rotate_if_due(engine);
    bool window_was_empty = window_bytes(engine->window) == 0;
    fdb_error_t error = reserve(engine);
    if (error)
        return error;
    if (write_durably(engine, version)) {
        atomic_store(&engine->failed, true);
        return ERROR_COMMIT_UNKNOWN_RESULT;
    }
    if (window_was_empty || (engine->log && log_wants_next(engine->log)))
        checkpoint_request(engine); /* it sleeps long while there is nothing to move; and it makes the log's next segment */
    atomic_store_explicit(&engine->disk_full, false, memory_order_relaxed);
    return ERROR_SUCCESS;
}

/* Whether commits are taken at all. */
static fdb_error_t admit(struct engine *engine) {
    if (atomic_load(&engine->failed))
        return ERROR_DATABASE_FAILED;
    if (atomic_load(&engine->disk_full) && window_bytes(engine->window) > engine->options.window_bytes_max)
        return ERROR_DISK_FULL; /* the window cannot be emptied into the base */
    return engine_renew_lease(engine);
}

/* One batch, from the first request on; *rest are those it leaves for the next. */
static void process(struct engine *engine, struct commit_request *requests, struct commit_request **rest, struct watch **fired) {
    fdb_error_t error = admit(engine);
    if (error) {
        settle_all(requests, error);
        return;
    }
    int64_t version = version_clock_begin_batch(&engine->clock);
    *rest = assemble(engine, requests, version);
    if (engine->workspace.batch.count > 0)
        error = write_batch(engine, version);
    settle_all(requests, error);
    if (error != ERROR_COMMIT_UNKNOWN_RESULT)
        version_clock_end_batch(&engine->clock); /* otherwise it stays pending: invariant 4 */
    if (!error) {
        trigger_watches(engine, fired);
        count_batch(engine, requests);
    }
    resolver_forget(engine->resolver, version_clock_horizon(&engine->clock));
    clean_workspace(&engine->workspace);
}

/* --- Leading --- */

/* Cuts a batch off the front of the queue. REQUIRES: the lock. */
static struct commit_request *take_batch(struct pipeline *pipeline) {
    struct commit_request *first = pipeline->head, *last = first;
    size_t count = 1, bytes = first->size_bytes;
    while (last->next && count < BATCH_COMMITS_MAX && bytes < BATCH_BYTES_MAX) {
        last = last->next;
        bytes += last->size_bytes;
        count++;
    }
    pipeline->head = last->next;
    if (!pipeline->head)
        pipeline->tail = &pipeline->head;
    last->next = NULL;
    pipeline->next_batch++;
    atomic_fetch_sub_explicit(&pipeline->queued, (unsigned)count, memory_order_relaxed);
    return first;
}

/* Puts what a batch left over back in front. REQUIRES: the lock. */
static void put_back(struct pipeline *pipeline, struct commit_request *rest) {
    struct commit_request *last = rest;
    unsigned count = 1;
    for (; last->next; last = last->next)
        count++;
    last->next = pipeline->head;
    if (!pipeline->head)
        pipeline->tail = &last->next;
    pipeline->head = rest;
    atomic_fetch_add_explicit(&pipeline->queued, count, memory_order_relaxed);
}

static unsigned queued(struct pipeline *pipeline) {
    return atomic_load_explicit(&pipeline->queued, memory_order_relaxed);
}

/*
 * Clients that commit again as soon as they are answered would otherwise fall into two groups, one queueing while the other is synced, and each
 * sync would serve half of them. So the leader waits a little for those who were just answered, if they were seen to come back: most of the clients at
 * work shall be in the batch. Where they do not come back in time, as on a disk that is as quick as they are, it does not wait again for a while.
 * REQUIRES: the lock; leading.
 */
static void gather(struct pipeline *pipeline) {
    struct gathering *gathering = &pipeline->gathering;
    unsigned target = gathering->clients - gathering->clients / 8;
    if (target > BATCH_COMMITS_MAX)
        target = BATCH_COMMITS_MAX;
    if (queued(pipeline) >= target)
        return;
    if (gathering->pause_left > 0) {
        gathering->pause_left--;
        return;
    }
    int64_t patience_us = gathering->sync_us / GATHER_SHARE;
    int64_t deadline = gathering->answered_us + (patience_us < GATHER_US_MAX ? patience_us : GATHER_US_MAX);
    if (os_clock_us() >= deadline)
        return;
    pipeline->gather_target = target;
    while (queued(pipeline) < target && !pipeline->stopping && os_clock_us() < deadline)
        os_condition_wait_until(&pipeline->gathered, &pipeline->lock, deadline);
    pipeline->gather_target = 0;
    if (queued(pipeline) >= target && os_clock_us() < deadline) { /* a system's timers are late: then it was in vain, too */
        gathering->pause = 0;
    } else {
        gathering->pause = gathering->pause < GATHER_PAUSE_MIN ? GATHER_PAUSE_MIN : gathering->pause * 2;
        if (gathering->pause > GATHER_PAUSE_MAX)
            gathering->pause = GATHER_PAUSE_MAX;
        gathering->pause_left = gathering->pause;
    }
}

/* Does a commit have to wait for the checkpoint? Not if that cannot help: then it is refused. */
static bool is_window_full(struct engine *engine) {
    return window_bytes(engine->window) > engine->options.window_bytes_max && !atomic_load(&engine->failed) &&
           !atomic_load(&engine->disk_full);
}

/* Waits until the window has room. REQUIRES: the lock; leading. */
static void wait_for_room(struct engine *engine) {
    struct pipeline *pipeline = &engine->pipeline;
    while (is_window_full(engine)) {
        checkpoint_rotate_if_due(engine);
        checkpoint_request(engine);
        os_condition_wait_until(&pipeline->room, &pipeline->lock, os_clock_us() + 100000);
    }
}

/* Returns how many were answered. */
static unsigned answer(struct commit_request *requests) {
    unsigned count = 0;
    os_later_open();
    for (; requests; count++) {
        struct commit_request *next = requests->next; /* complete may free the request */
        requests->complete(requests, requests->error);
        requests = next;
    }
    os_later_close();
    return count;
}

/*
 * Tells the threads that sleep in engine_drive for this batch. Waking many takes longer than a sync, so the leader wakes one, and that one, on its
 * way out, the others (pass_on): the leader is free for the next batch.
 */
static void announce(struct pipeline *pipeline, uint64_t batch) {
    struct batch_answer *answer = &pipeline->answers[batch % ANSWERS_MAX];
    atomic_store(&pipeline->answered_batch, batch);
    atomic_store(&answer->pass_on, true);
    atomic_fetch_add(&answer->announcements, 1);
    os_wait_wake_one(&answer->announcements);
}

static void pass_on(struct batch_answer *answer) {
    if (atomic_load_explicit(&answer->pass_on, memory_order_relaxed) && atomic_exchange(&answer->pass_on, false))
        os_wait_wake(&answer->announcements);
}

/*
 * Runs batches until the queue is empty or batch `last` is answered; what is left then goes to the committer thread.
 * REQUIRES: the lock, nobody leading; both hold again at return.
 */
static void lead(struct engine *engine, uint64_t last) {
    struct pipeline *pipeline = &engine->pipeline;
    pipeline->leading = true;
    while (pipeline->head && atomic_load_explicit(&pipeline->answered_batch, memory_order_relaxed) < last) {
        wait_for_room(engine);
        gather(pipeline);
        uint64_t batch = pipeline->next_batch;
        struct commit_request *requests = take_batch(pipeline);
        pipeline->urgent = false;
        os_mutex_unlock(&pipeline->lock);
        struct commit_request *rest = NULL;
        struct watch *fired = NULL;
        struct gathering *gathering = &pipeline->gathering;
        process(engine, requests, &rest, &fired);
        gathering->clients = queued(pipeline);
        gathering->clients += answer(requests);
        announce(pipeline, batch);
        gathering->answered_us = os_clock_us();
        watches_fire(fired, ERROR_SUCCESS);
        os_mutex_lock(&pipeline->lock);
        if (rest)
            put_back(pipeline, rest);
    }
    pipeline->leading = false;
    if (pipeline->head || pipeline->stopping) {
        pipeline->urgent = true;
        os_condition_signal(&pipeline->work);
    }
}

void engine_commit(struct database *database, struct commit_request *request) {
    struct pipeline *pipeline = &engine_of(database)->pipeline;
    request->next = NULL;
    request->settled = false;
    os_mutex_lock(&pipeline->lock);
    *pipeline->tail = request;
    pipeline->tail = &request->next;
    pipeline->arrivals++;
    unsigned waiting = atomic_fetch_add_explicit(&pipeline->queued, 1, memory_order_relaxed) + 1;
    bool gathered = waiting == pipeline->gather_target;
    atomic_store_explicit(&request->ticket, pipeline->next_batch, memory_order_relaxed);
    bool wake = pipeline->asleep;
    pipeline->asleep = false; /* or is just being woken */
    os_mutex_unlock(&pipeline->lock);
    if (wake)
        os_condition_signal(&pipeline->work);
    if (gathered)
        os_condition_signal(&pipeline->gathered);
}

/* Leads if nobody does; a full window is waited for by the committer thread, so that this one can see its timeout. */
static bool try_to_lead(struct engine *engine, uint64_t ticket) {
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->lock);
    bool idle = pipeline->head && !pipeline->leading;
    bool led = idle && !is_window_full(engine);
    if (led) {
        lead(engine, ticket);
    } else if (idle && !pipeline->urgent) {
        pipeline->urgent = true;
        os_condition_signal(&pipeline->work);
    }
    os_mutex_unlock(&pipeline->lock);
    return led;
}

bool engine_drive(struct database *database, uint64_t ticket) {
    struct engine *engine = engine_of(database);
    struct pipeline *pipeline = &engine->pipeline;
    if (try_to_lead(engine, ticket))
        return true;
    struct batch_answer *answer = &pipeline->answers[ticket % ANSWERS_MAX];
    uint32_t seen = atomic_load(&answer->announcements); /* before the look at answered_batch, so that none is slept over */
    if (atomic_load(&pipeline->answered_batch) >= ticket)
        return false;
    os_wait_for(&answer->announcements, seen, LOOK_US);
    pass_on(answer);
    return true;
}

void engine_hurry(struct database *database) {
    struct pipeline *pipeline = &engine_of(database)->pipeline;
    os_mutex_lock(&pipeline->lock);
    bool wake = pipeline->head && !pipeline->leading && !pipeline->urgent;
    if (wake) {
        pipeline->urgent = true;
        os_condition_signal(&pipeline->work);
    }
    os_mutex_unlock(&pipeline->lock);
}

/*
 * Sleeps until there is a queue that the committer thread has to work on: one that is urgent, or one that nobody came to drive for a tick. While
 * commits keep coming it dozes from tick to tick, so that a client that drives its own commits need not wake it each time.
 * REQUIRES: the lock. False: time to end.
 */
static bool wait_for_work(struct pipeline *pipeline) {
    for (int quiet_ticks = 0;;) {
        bool workable = pipeline->head && !pipeline->leading;
        if (workable && (pipeline->urgent || pipeline->stopping))
            return true;
        if (pipeline->stopping && !pipeline->head && !pipeline->leading)
            return false;
        if (quiet_ticks == QUIET_TICKS_MAX) {
            pipeline->asleep = true;
            os_condition_wait(&pipeline->work, &pipeline->lock);
            pipeline->asleep = false;
            quiet_ticks = 0;
            continue;
        }
        uint64_t arrivals = pipeline->arrivals;
        bool signalled = os_condition_wait_until(&pipeline->work, &pipeline->lock, os_clock_us() + TICK_US);
        if (!signalled && pipeline->head && !pipeline->leading)
            return true;
        quiet_ticks = pipeline->arrivals == arrivals ? quiet_ticks + 1 : 0;
    }
}

/* The committer thread: leads whenever nobody else does, until the engine closes and the queue is empty. */
void *engine_committer(void *argument) {
    struct engine *engine = argument;
    struct pipeline *pipeline = &engine->pipeline;
    os_mutex_lock(&pipeline->lock);
    while (wait_for_work(pipeline))
        lead(engine, UINT64_MAX);
    os_mutex_unlock(&pipeline->lock);
    return NULL;
}
