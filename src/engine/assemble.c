/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembling a batch: the first half of a commit. Each transaction, in the order of the queue, is checked against what was written since it read
 * (resolver.c), and its mutations become sets and clears: atomic operations are evaluated, versionstamps filled in. What comes out is a batch (batch.c),
 * ready for the log and the window; commit.c takes it from there.
 *
 * Where an atomic operation may meet a key that the same batch has changed, the batch so far is kept in a small window of its own, the overlay.
 *
 *   1. Called by the leader of the pipeline only: what it reads below its batch is final, because all earlier batches are in the window by then.
 *      They need not be published: should one of them fail, so does this one.
 *   2. A transaction that fails while it is built leaves nothing to those behind it: neither in the batch nor in the overlay. (In the resolver it may:
 *      that can only make another one try again.)
 *   3. A record of the log has a limit, and atomic operations can make much of little: what no longer fits is cut off and handed back.
 */
#include "engine/engine_internal.h"

#include "util/memory.h"

enum {
    BATCH_RESULT_BYTES_MAX = 32 * 1024 * 1024, /* what a batch has grown to in its final form; may be passed by one transaction's */
    TRANSACTION_RESULT_BYTES_MAX = 64 * 1024 * 1024, /* far above what sets can come to: small operands on large values */
    WORKSPACE_BYTES_KEPT = 4 * 1024 * 1024, /* a buffer larger than this is given back after the batch */
};

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

/* The value of a key as the batch so far leaves it: the overlay, else what the batches before it have left in the window, published or not. */
static fdb_error_t present_value(struct engine *engine, struct batch_workspace *workspace, int64_t version, struct bytes key,
                                 struct bytes *value, bool *present) {
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

/* Remembers a change in the overlay, so that a later atomic operation of the batch sees it. */
static fdb_error_t overlay_add(struct batch_workspace *workspace, int64_t version, const struct change *change) {
    if (!workspace->overlay) {
        fdb_error_t error = window_create(&workspace->overlay);
        if (error)
            return error;
    }
    fdb_error_t error = window_reserve(workspace->overlay, change, 1);
    if (error)
        return error;
    workspace->overlay_used = true;
    if (change->clear)
        window_clear_range(workspace->overlay, version, change->key, change->value);
    else
        window_set(workspace->overlay, version, change->key, change->value);
    return ERROR_SUCCESS;
}

static fdb_error_t evaluate(struct engine *engine, struct batch_workspace *workspace, int64_t version,
                            const struct mutation *mutation, struct change *change) {
    struct bytes value;
    bool present, cleared;
    fdb_error_t error = present_value(engine, workspace, version, mutation->key, &value, &present);
    if (error)
        return error;
    change->key = mutation->key;
    error = mutation_apply(mutation->type, present ? &value : NULL, mutation->value, &workspace->arena,
                           &change->value, &cleared);
    if (error || !cleared)
        return error;
    uint8_t *end = arena_allocate_bytes(&workspace->arena, mutation->key.length + 1);
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
static fdb_error_t stamp(struct batch_workspace *workspace, struct bytes text, const struct commit_request *request,
                         struct bytes *stamped) {
    struct bytes body, copy;
    size_t offset;
    fdb_error_t error = mutation_stamp_position(text, &body, &offset);
    if (error)
        return error;
    if (!arena_copy(&workspace->arena, body, &copy))
        return ERROR_LARGE_ALLOC_FAILED;
    mutation_stamp_write((uint8_t *)(uintptr_t)(copy.data + offset), request->committed_version, request->batch_order);
    *stamped = copy;
    return ERROR_SUCCESS;
}

static fdb_error_t add_stamped_key_conflict(struct engine *engine, struct batch_workspace *workspace, struct bytes key, int64_t version) {
    uint8_t *end = arena_allocate_bytes(&workspace->arena, key.length + 1);
    if (!end)
        return ERROR_LARGE_ALLOC_FAILED;
    memcpy(end, key.data, key.length);
    end[key.length] = 0;
    return resolver_add(engine->resolver, (struct key_range){key, bytes_make(end, key.length + 1)}, version);
}

/* What a mutation finally changes. */
static fdb_error_t finalize(struct engine *engine, struct batch_workspace *workspace, const struct commit_request *request,
                            const struct mutation *mutation, struct change *change) {
    fdb_error_t error = ERROR_SUCCESS;
    *change = (struct change){mutation->type == MUTATION_CLEAR_RANGE, mutation->key, mutation->value};
    if (mutation->type == MUTATION_SET_VERSIONSTAMPED_KEY) {
        error = stamp(workspace, mutation->key, request, &change->key);
        if (!error)
            error = add_stamped_key_conflict(engine, workspace, change->key, request->committed_version);
    } else if (mutation->type == MUTATION_SET_VERSIONSTAMPED_VALUE) {
        error = stamp(workspace, mutation->value, request, &change->value);
    } else if (mutation_is_atomic(mutation->type)) {
        error = evaluate(engine, workspace, request->committed_version, mutation, change);
    }
    return error;
}

/* Makes the overlay what the batch is: a transaction that failed has left its changes there. */
static fdb_error_t overlay_restore(struct batch_workspace *workspace, int64_t version) {
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
        error = overlay_add(workspace, version, &change);
    return error;
}

/* Adds a transaction to the batch, or nothing of it; the overlay is then to be restored. */
static fdb_error_t build(struct engine *engine, struct batch_workspace *workspace, struct commit_request *request, bool overlay) {
    struct batch *batch = &workspace->batch;
    size_t length = batch->length, count = batch->count;
    for (size_t i = 0; i < request->mutation_count; i++) {
        struct change change;
        fdb_error_t error = finalize(engine, workspace, request, &request->mutations[i], &change);
        if (!error)
            error = batch_add(batch, &change);
        if (!error && overlay)
            error = overlay_add(workspace, request->committed_version, &change);
        if (!error && batch->length - length > TRANSACTION_RESULT_BYTES_MAX)
            error = ERROR_TRANSACTION_TOO_LARGE;
        if (error) {
            batch_truncate(batch, length, count);
            return error;
        }
    }
    return ERROR_SUCCESS;
}

static bool has_atomic(const struct commit_request *request) {
    for (size_t i = 0; i < request->mutation_count; i++) {
        if (mutation_is_atomic(request->mutations[i].type))
            return true;
    }
    return false;
}

/* An overlay is needed where an atomic operation may meet an earlier change of the same batch. */
static bool needs_overlay(const struct commit_request *requests) {
    if (!requests->next && requests->mutation_count == 1)
        return false;
    for (const struct commit_request *request = requests; request; request = request->next) {
        if (has_atomic(request))
            return true;
    }
    return false;
}

struct commit_request *assemble(struct engine *engine, struct batch_workspace *workspace, struct commit_request *requests,
                                int64_t version) {
    bool overlay = needs_overlay(requests);
    fdb_error_t overlay_error = ERROR_SUCCESS;
    uint16_t order = 0;
    for (struct commit_request *request = requests; request; request = request->next) {
        request->committed_version = version;
        request->batch_order = order;
        fdb_error_t error = overlay_error ? overlay_error : resolve(engine, request, version);
        if (!error) {
            error = build(engine, workspace, request, overlay);
            if (error)
                overlay_error = overlay_restore(workspace, version);
        }
        if (error)
            request_settle(request, error);
        else
            order++;
        if (workspace->batch.length >= BATCH_RESULT_BYTES_MAX) {
            struct commit_request *rest = request->next;
            request->next = NULL;
            return rest;
        }
    }
    return NULL;
}

/* --- The workspace --- */

fdb_error_t workspace_decode(struct batch_workspace *workspace) {
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

void workspace_clean(struct batch_workspace *workspace) {
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

void workspace_free(struct batch_workspace *workspace) {
    batch_free(&workspace->batch);
    arena_free(&workspace->arena);
    if (workspace->overlay)
        window_destroy(workspace->overlay);
    memory_free(workspace->changes);
}
