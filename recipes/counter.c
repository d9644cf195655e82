/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: prefix = value, or (subspace, shard) = part of the value. int64_t, little-endian.
 *
 * Adding is the atomic operation ADD: the database adds when it commits, so the transaction needs
 * no read and has nothing that could conflict. That is also why a sum of one key cannot be checked
 * for overflow here, and that of shards can.
 *
 * Invariant: the value of a sharded counter is the sum over all keys of its subspace, whatever
 * number of shards their writers had in mind.
 *
 * Threads: the generator that chooses shards is one a thread, seeded from its address and the
 * clock; nothing but the spread depends on it.
 */
#include <keel/counter.h>

#include "support.h"

#include <time.h>

/* ---- Numbers ---- */

static fdb_error_t decode(keel_bytes bytes, int64_t *value) {
    uint64_t bits = 0;
    if (bytes.length != 8)
        return KEEL_ERROR_STORED_FORMAT;
    for (int i = 0; i < 8; i++)
        bits |= (uint64_t)bytes.data[i] << (8 * i);
    *value = (int64_t)bits;
    return 0;
}

static void set_value(FDBTransaction *tr, const struct recipe_key *key, int64_t value) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)value >> (8 * i));
    recipe_set(tr, key, keel_bytes_of(bytes, sizeof bytes));
}

/* xorshift64*. */
static uint32_t random_below(uint32_t limit) {
    static _Thread_local uint64_t state;
    if (state == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        state = ((uint64_t)(uintptr_t)&state ^ (uint64_t)now.tv_nsec << 20) | 1;
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * 2685821657736338717u) >> 32) % limit;
}

static fdb_error_t shard_key(const keel_subspace *counter, uint32_t shard, struct recipe_key *key) {
    keel_element element = keel_element_of_uint(shard);
    return recipe_pack(counter, keel_tuple_of(&element, 1), key);
}

/* ---- One key ---- */

static void own_key(const keel_subspace *counter, struct recipe_key *key) {
    keel_bytes prefix = keel_subspace_prefix(counter);
    memcpy(key->data, prefix.data, prefix.length);
    key->length = prefix.length;
}

KEEL_EXPORT fdb_error_t keel_counter_add(FDBTransaction *tr, const keel_subspace *counter,
                                         int64_t amount) {
    struct recipe_key key;
    if (!tr || !counter)
        return KEEL_ERROR_ARGUMENT;
    own_key(counter, &key);
    recipe_add(tr, &key, amount);
    return 0;
}

KEEL_EXPORT fdb_error_t keel_counter_get(FDBTransaction *tr, const keel_subspace *counter,
                                         bool snapshot, int64_t *value) {
    struct recipe_key key;
    bool present = false;
    keel_bytes bytes;
    int64_t found = 0;
    if (!tr || !counter || !value)
        return KEEL_ERROR_ARGUMENT;
    own_key(counter, &key);
    FDBFuture *future = recipe_get_start(tr, &key, snapshot);
    fdb_error_t error = recipe_get_finish(future, &present, &bytes);
    if (!error && present)
        error = decode(bytes, &found);
    if (!error)
        *value = found;
    fdb_future_destroy(future);
    return error;
}

KEEL_EXPORT fdb_error_t keel_counter_set(FDBTransaction *tr, const keel_subspace *counter,
                                         int64_t value) {
    struct recipe_key key;
    if (!tr || !counter)
        return KEEL_ERROR_ARGUMENT;
    own_key(counter, &key);
    set_value(tr, &key, value);
    return 0;
}

KEEL_EXPORT fdb_error_t keel_counter_clear(FDBTransaction *tr, const keel_subspace *counter) {
    struct recipe_key key;
    if (!tr || !counter)
        return KEEL_ERROR_ARGUMENT;
    own_key(counter, &key);
    recipe_clear(tr, &key);
    return 0;
}

/* ---- Many ---- */

KEEL_EXPORT fdb_error_t keel_counter_sharded_add(FDBTransaction *tr, const keel_subspace *counter,
                                                 uint32_t shards, int64_t amount) {
    struct recipe_key key;
    if (!tr || !counter || shards < 1 || shards > KEEL_COUNTER_SHARDS_MAX)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = shard_key(counter, random_below(shards), &key);
    if (!error)
        recipe_add(tr, &key, amount);
    return error;
}

static fdb_error_t sum(struct recipe_scan *scan, int64_t *total) {
    __int128 all = 0;
    for (;;) {
        keel_bytes key, bytes;
        bool found;
        int64_t value = 0;
        fdb_error_t error = recipe_scan_next(scan, &key, &bytes, &found);
        if (!error && !found)
            break;
        if (!error)
            error = decode(bytes, &value);
        if (error)
            return error;
        all += value;
    }
    if (all > INT64_MAX || all < INT64_MIN)
        return KEEL_ERROR_INTEGER_TOO_LARGE;
    *total = (int64_t)all;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_counter_sharded_total(FDBTransaction *tr, const keel_subspace *counter,
                                                   bool snapshot, int64_t *total) {
    struct recipe_span span;
    struct recipe_scan scan;
    if (!tr || !counter || !total)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = recipe_span_of(counter, keel_tuple_of(NULL, 0), &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 0, false, snapshot);
    error = sum(&scan, total);
    recipe_scan_close(&scan);
    return error;
}

KEEL_EXPORT fdb_error_t keel_counter_sharded_set(FDBTransaction *tr, const keel_subspace *counter,
                                                 int64_t value) {
    struct recipe_key key;
    if (!tr || !counter)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = shard_key(counter, 0, &key);
    if (!error)
        error = keel_counter_sharded_clear(tr, counter);
    if (!error)
        set_value(tr, &key, value);
    return error;
}

KEEL_EXPORT fdb_error_t keel_counter_sharded_clear(FDBTransaction *tr,
                                                   const keel_subspace *counter) {
    struct recipe_span span;
    if (!tr || !counter)
        return KEEL_ERROR_ARGUMENT;
    fdb_error_t error = recipe_span_of(counter, keel_tuple_of(NULL, 0), &span);
    if (!error)
        recipe_clear_span(tr, &span);
    return error;
}
