/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing a batch: from waiting commit_requests to the bytes that the log stores. First each request is resolved (does it conflict with what was
 * committed after it read?), then built: its mutations become sets and clears, with atomic operations worked out and versionstamps filled in.
 *
 *     requests ─► resolve ─► build ─► prepared_batch: all requests in commit order, the changes of those that may commit
 *                    │          │
 *                    └──────────┴──► their error is known, and answered with the batch
 *
 *   1. A transaction that fails while it is built leaves nothing to those behind it: neither in the batch nor in the overlay.
 *   2. A record of the log has a limit, and atomic operations can make much of little: what no longer fits is handed back.
 *   3. Only requests with atomic operations read the database; then every earlier batch has to be readable just below this one's version.
 *
 * Threads: one at a time; commit.c says which (pipeline.prepare_lock).
 */
#include "engine/engine_internal.h"

#include "util/checksum.h"
#include "util/memory.h"

enum {
    BATCH_RESULT_BYTES_MAX = 32 * 1024 * 1024, /* what a batch has grown to in its final form; may be passed by one transaction's */
    TRANSACTION_RESULT_BYTES_MAX = 64 * 1024 * 1024, /* far above what sets can come to: small operands on large values */
    BUFFER_BYTES_KEPT = 4 * 1024 * 1024, /* a buffer larger than this is given back after the batch */
};

void prepared_init(struct prepared_batch *prepared) {
    prepared->requests_end = &prepared->requests;
}

static void drop_overlay(struct prepared_batch *prepared) {
    if (prepared->overlay)
        window_destroy(prepared->overlay);
    prepared->overlay = NULL;
}

void prepared_free(struct prepared_batch *prepared) {
    batch_free(&prepared->batch);
    arena_free(&prepared->arena);
    drop_overlay(prepared);
    memory_free(prepared->changes);
}

void prepared_clean(struct prepared_batch *prepared) {
    prepared->version = 0;
    prepared->requests = NULL;
    prepared->requests_end = &prepared->requests;
    prepared->request_count = 0;
    prepared->request_bytes = 0;
    prepared->commit_count = 0;
    prepared->outcome = ERROR_SUCCESS;
    batch_truncate(&prepared->batch, 0, 0);
    if (prepared->batch.capacity > BUFFER_BYTES_KEPT) {
        batch_free(&prepared->batch);
        memory_free(prepared->changes);
        prepared->changes = NULL;
        prepared->change_capacity = 0;
    }
    arena_reset(&prepared->arena);
    drop_overlay(prepared);
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

static fdb_error_t resolve(struct engine *engine, struct commit_request *request) {
    if (request->read_conflict_count > 0) {
        if (request->read_version < version_clock_horizon(&engine->clock))
            return ERROR_TRANSACTION_TOO_OLD;
        if (has_conflict(engine, request)) {
            atomic_fetch_add_explicit(&engine->counters.conflicts, 1, memory_order_relaxed);
            return ERROR_NOT_COMMITTED;
        }
    }
    for (size_t i = 0; i < request->write_conflict_count; i++) {
        fdb_error_t error = resolver_add(engine->resolver, request->write_conflicts[i], request->committed_version);
        if (error)
            return error;
    }
    return ERROR_SUCCESS;
}

/* --- The overlay: what the batch has changed so far, for atomic operations on the same keys --- */

/* The bit of a key in atomic_keys. */
static uint64_t *atomic_word(struct prepared_batch *prepared, struct bytes key, uint64_t *bit) {
    uint64_t hash = checksum(key, 0) % ATOMIC_KEYS_BITS;
    *bit = UINT64_C(1) << hash % 64;
    return &prepared->atomic_keys[hash / 64];
}

/* May an atomic operation of the batch be on what this changes? */
static bool concerns_atomic(struct prepared_batch *prepared, const struct change *change) {
    uint64_t bit;
    if (change->clear && !is_successor(change->value, change->key))
        return true;
    return *atomic_word(prepared, change->key, &bit) & bit;
}

static fdb_error_t overlay_add(struct prepared_batch *prepared, const struct change *change) {
    if (!concerns_atomic(prepared, change))
        return ERROR_SUCCESS;
    if (!prepared->overlay) {
        fdb_error_t error = window_create(&prepared->overlay);
        if (error)
            return error;
    }
    fdb_error_t error = window_reserve(prepared->overlay, change, 1);
    if (!error)
        window_apply(prepared->overlay, prepared->version, change, 1);
    return error;
}

/* Makes the overlay what the batch is: one that was for other keys, or that a failed transaction has left its changes in, goes. */
static fdb_error_t overlay_rebuild(struct prepared_batch *prepared) {
    drop_overlay(prepared);
    struct bytes payload = bytes_make(prepared->batch.data, prepared->batch.length);
    struct change change;
    size_t offset = 0;
    fdb_error_t error = ERROR_SUCCESS;
    while (!error && batch_next(payload, &offset, &change, &error))
        error = overlay_add(prepared, &change);
    return error;
}

/* An overlay is needed where an atomic operation may meet an earlier change of the same batch; notes the keys they are on. */
static bool needs_overlay(struct prepared_batch *prepared, const struct commit_request *requests) {
    bool needed = false;
    if (prepared->batch.count == 0 && !requests->next && requests->mutation_count == 1)
        return false;
    for (const struct commit_request *request = requests; request; request = request->next) {
        if (!request->is_atomic)
            continue;
        if (!needed)
            memset(prepared->atomic_keys, 0, sizeof prepared->atomic_keys);
        needed = true;
        for (size_t i = 0; i < request->mutation_count; i++) {
            if (!mutation_is_atomic(request->mutations[i].type))
                continue;
            uint64_t bit, *word = atomic_word(prepared, request->mutations[i].key, &bit);
            *word |= bit;
        }
    }
    return needed;
}

/* --- Building: mutations become sets and clears --- */

/* The value of a key as the batch so far leaves it: the overlay, else what is published. */
static fdb_error_t present_value(struct engine *engine, struct prepared_batch *prepared, struct bytes key, struct bytes *value,
                                 bool *present) {
    if (prepared->overlay) {
        struct window_view *view = window_view_acquire(prepared->overlay);
        struct bytes found;
        enum window_answer answer = window_view_get(view, prepared->version, key, &found);
        bool copied = answer != WINDOW_VALUE || arena_copy(&prepared->arena, found, value);
        window_view_release(prepared->overlay, view);
        if (!copied)
            return ERROR_LARGE_ALLOC_FAILED;
        *present = answer == WINDOW_VALUE;
        if (answer != WINDOW_SILENT)
            return ERROR_SUCCESS;
    }
    return engine_get(&engine->database, prepared->version - 1, key, &prepared->arena, value, present);
}

/* The key behind `key`, in the batch's arena. */
static fdb_error_t successor(struct prepared_batch *prepared, struct bytes key, struct bytes *after) {
    uint8_t *copy = arena_allocate_bytes(&prepared->arena, key.length + 1);
    if (!copy)
        return ERROR_LARGE_ALLOC_FAILED;
    if (key.length)
        memcpy(copy, key.data, key.length);
    copy[key.length] = 0;
    *after = bytes_make(copy, key.length + 1);
    return ERROR_SUCCESS;
}

static fdb_error_t evaluate(struct engine *engine, struct prepared_batch *prepared, const struct mutation *mutation,
                            struct change *change) {
    struct bytes value;
    bool present, cleared;
    fdb_error_t error = present_value(engine, prepared, mutation->key, &value, &present);
    if (error)
        return error;
    change->key = mutation->key;
    error = mutation_apply(mutation->type, present ? &value : NULL, mutation->value, &prepared->arena, &change->value, &cleared);
    if (error || !cleared)
        return error;
    change->clear = true;
    return successor(prepared, mutation->key, &change->value);
}

/* Copies a stamped key or value with the stamp filled in. */
static fdb_error_t stamp(struct prepared_batch *prepared, struct bytes text, const struct commit_request *request,
                         struct bytes *stamped) {
    struct bytes body, copy;
    size_t offset;
    fdb_error_t error = mutation_stamp_position(text, &body, &offset);
    if (error)
        return error;
    if (!arena_copy(&prepared->arena, body, &copy))
        return ERROR_LARGE_ALLOC_FAILED;
    mutation_stamp_write((uint8_t *)(uintptr_t)(copy.data + offset), request->committed_version, request->batch_order);
    *stamped = copy;
    return ERROR_SUCCESS;
}

static fdb_error_t add_stamped_key_conflict(struct engine *engine, struct prepared_batch *prepared, struct bytes key) {
    struct key_range range = {.begin = key};
    fdb_error_t error = successor(prepared, key, &range.end);
    return error ? error : resolver_add(engine->resolver, range, prepared->version);
}

/* What a mutation finally changes. */
static fdb_error_t finalize(struct engine *engine, struct prepared_batch *prepared, const struct commit_request *request,
                            const struct mutation *mutation, struct change *change) {
    fdb_error_t error = ERROR_SUCCESS;
    *change = (struct change){mutation->type == MUTATION_CLEAR_RANGE, mutation->key, mutation->value};
    if (mutation->type == MUTATION_SET_VERSIONSTAMPED_KEY) {
        error = stamp(prepared, mutation->key, request, &change->key);
        if (!error)
            error = add_stamped_key_conflict(engine, prepared, change->key);
    } else if (mutation->type == MUTATION_SET_VERSIONSTAMPED_VALUE) {
        error = stamp(prepared, mutation->value, request, &change->value);
    } else if (mutation_is_atomic(mutation->type)) {
        error = evaluate(engine, prepared, mutation, change);
    }
    return error;
}

/* Adds a transaction to the batch, or nothing of it; the overlay is then to be rebuilt. */
static fdb_error_t build(struct engine *engine, struct prepared_batch *prepared, struct commit_request *request, bool overlay) {
    struct batch *batch = &prepared->batch;
    size_t length = batch->length, count = batch->count;
    for (size_t i = 0; i < request->mutation_count; i++) {
        struct change change;
        fdb_error_t error = finalize(engine, prepared, request, &request->mutations[i], &change);
        if (!error)
            error = batch_add(batch, &change);
        if (!error && overlay)
            error = overlay_add(prepared, &change);
        if (!error && batch->length - length > TRANSACTION_RESULT_BYTES_MAX)
            error = ERROR_TRANSACTION_TOO_LARGE;
        if (error) {
            batch_truncate(batch, length, count);
            return error;
        }
    }
    return ERROR_SUCCESS;
}

/* --- A batch of them --- */

/* Puts the first of `requests` at the batch's end; returns the others. */
static struct commit_request *append_request(struct prepared_batch *prepared, struct commit_request *request) {
    struct commit_request *others = request->next;
    request->next = NULL;
    *prepared->requests_end = request;
    prepared->requests_end = &request->next;
    prepared->request_count++;
    prepared->request_bytes += request->size_bytes;
    return others;
}

void prepared_refuse(struct prepared_batch *prepared, struct commit_request *requests, fdb_error_t error) {
    prepared->outcome = error;
    while (requests)
        requests = append_request(prepared, requests);
}

struct commit_request *prepared_add(struct engine *engine, struct prepared_batch *prepared, struct commit_request *requests) {
    bool overlay = needs_overlay(prepared, requests);
    fdb_error_t overlay_error = overlay ? overlay_rebuild(prepared) : ERROR_SUCCESS;
    for (unsigned ahead = 0; requests && prepared->batch.length < BATCH_RESULT_BYTES_MAX; ahead--) {
        struct commit_request *request = requests;
        if (ahead == 0) {
            prefetch_resolver(engine, request);
            ahead = RESOLVER_PREFETCH_MAX;
        }
        requests = append_request(prepared, request);
        request->committed_version = prepared->version;
        request->batch_order = prepared->commit_count;
        fdb_error_t error = overlay_error ? overlay_error : resolve(engine, request);
        if (!error) {
            error = build(engine, prepared, request, overlay);
            if (error && overlay)
                overlay_error = overlay_rebuild(prepared);
        }
        request->error = error;
        if (!error)
            prepared->commit_count++;
    }
    return requests;
}
