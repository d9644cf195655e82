/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs in memory: those of a row that is being put together, and those of a batch on its way. The bytes of all pairs lie
 * one behind the other in `data`, key before value, and are found by offset, so that growing moves them freely.
 *
 * Keys are found through a table of indexes with open addressing and linear probing, at most half full; up to FEW pairs it
 * is left alone and they are compared one by one. Nothing is ever taken out of a table: a pair that is dropped stays and
 * is passed over.
 *
 * The hash of a pair is part of the stored format (keel/bulk.h); that of its key alone is the seed of it, and serves the
 * table.
 *
 * Invariants: table_size is 0 or a power of two above 2 * count; once count > FEW the table has every pair.
 * Threads: one. Failure: 1501, and nothing has changed.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bulk_private.h"

#include <stdlib.h>
#include <string.h>

/* What a pair costs a transaction beside its bytes, and what a row costs. */
enum { PAIR_COST = 64, FEW = 8, TABLE_SIZE_MIN = 64 };

uint64_t bulk_hash_key(keel_bytes key) {
    return XXH3_64bits(key.data, key.length);
}

uint64_t bulk_hash_value(uint64_t key_hash, keel_bytes value) {
    return XXH3_64bits_withSeed(value.data, value.length, key_hash);
}

keel_bytes bulk_pair_key(const struct bulk_pairs *pairs, const struct bulk_pair *pair) {
    return keel_bytes_of(pairs->data + pair->offset, pair->key_length);
}

keel_bytes bulk_pair_value(const struct bulk_pairs *pairs, const struct bulk_pair *pair) {
    return keel_bytes_of(pairs->data + pair->offset + pair->key_length, pair->value_length);
}

/* ---- Room ---- */

static fdb_error_t room_for_bytes(struct bulk_pairs *pairs, size_t bytes) {
    size_t capacity = pairs->capacity ? pairs->capacity : 4096;
    while (capacity < pairs->length + bytes)
        capacity *= 2;
    if (capacity == pairs->capacity)
        return 0;
    uint8_t *larger = realloc(pairs->data, capacity);
    if (!larger)
        return BULK_NO_MEMORY;
    pairs->data = larger;
    pairs->capacity = capacity;
    return 0;
}

static fdb_error_t room_for_pair(struct bulk_pairs *pairs) {
    if (pairs->count < pairs->pairs_capacity)
        return 0;
    uint32_t capacity = pairs->pairs_capacity ? pairs->pairs_capacity * 2 : 16;
    struct bulk_pair *larger = realloc(pairs->pairs, capacity * sizeof *larger);
    if (!larger)
        return BULK_NO_MEMORY;
    pairs->pairs = larger;
    pairs->pairs_capacity = capacity;
    return 0;
}

/* ---- The table ---- */

static void table_insert(struct bulk_pairs *pairs, uint32_t index) {
    uint32_t mask = pairs->table_size - 1;
    uint32_t slot = (uint32_t)pairs->pairs[index].key_hash & mask;
    while (pairs->table[slot])
        slot = (slot + 1) & mask;
    pairs->table[slot] = index + 1;
}

/* Before a pair is added: a table for it and all others. */
static fdb_error_t room_in_table(struct bulk_pairs *pairs) {
    uint32_t count = pairs->count + 1;
    if (count <= FEW)
        return 0;
    uint32_t size = pairs->table_size ? pairs->table_size : TABLE_SIZE_MIN;
    while (size <= 2 * count)
        size *= 2;
    if (size == pairs->table_size && count > FEW + 1)
        return 0;
    if (size != pairs->table_size) {
        uint32_t *larger = realloc(pairs->table, size * sizeof *larger);
        if (!larger)
            return BULK_NO_MEMORY;
        pairs->table = larger;
        pairs->table_size = size;
    }
    memset(pairs->table, 0, pairs->table_size * sizeof *pairs->table);
    for (uint32_t i = 0; i < pairs->count; i++)
        table_insert(pairs, i);
    return 0;
}

static bool is_pair(const struct bulk_pairs *pairs, const struct bulk_pair *pair, uint64_t key_hash, keel_bytes key) {
    return pair->key_hash == key_hash && !pair->dropped && pair->key_length == key.length &&
           (key.length == 0 || memcmp(pairs->data + pair->offset, key.data, key.length) == 0);
}

struct bulk_pair *bulk_pairs_find(const struct bulk_pairs *pairs, uint64_t key_hash, keel_bytes key) {
    if (pairs->count <= FEW) {
        for (uint32_t i = 0; i < pairs->count; i++)
            if (is_pair(pairs, &pairs->pairs[i], key_hash, key))
                return &pairs->pairs[i];
        return NULL;
    }
    uint32_t mask = pairs->table_size - 1;
    for (uint32_t slot = (uint32_t)key_hash & mask; pairs->table[slot]; slot = (slot + 1) & mask) {
        struct bulk_pair *pair = &pairs->pairs[pairs->table[slot] - 1];
        if (is_pair(pairs, pair, key_hash, key))
            return pair;
    }
    return NULL;
}

/* ---- Adding ---- */

static uint32_t append(struct bulk_pairs *pairs, keel_bytes bytes) {
    uint32_t offset = (uint32_t)pairs->length;
    if (bytes.length)
        memcpy(pairs->data + offset, bytes.data, bytes.length);
    pairs->length += bytes.length;
    return offset;
}

fdb_error_t bulk_pairs_add(struct bulk_pairs *pairs, uint64_t key_hash, uint64_t hash, keel_bytes key, keel_bytes value,
                           struct bulk_pair **added) {
    fdb_error_t error = room_for_bytes(pairs, key.length + value.length);
    if (!error)
        error = room_for_pair(pairs);
    if (!error)
        error = room_in_table(pairs);
    if (error)
        return error;
    struct bulk_pair *pair = &pairs->pairs[pairs->count];
    memset(pair, 0, sizeof *pair);
    pair->key_hash = key_hash;
    pair->hash = hash;
    pair->key_length = (uint32_t)key.length;
    pair->value_length = (uint32_t)value.length;
    pair->offset = append(pairs, key);
    append(pairs, value);
    pairs->cost += key.length + value.length + PAIR_COST;
    if (pairs->count++ >= FEW)
        table_insert(pairs, pairs->count - 1);
    *added = pair;
    return 0;
}

fdb_error_t bulk_pairs_keep(struct bulk_pairs *pairs, keel_bytes bytes, uint32_t *offset) {
    fdb_error_t error = room_for_bytes(pairs, bytes.length);
    if (error)
        return error;
    *offset = append(pairs, bytes);
    return 0;
}

void bulk_pairs_clear(struct bulk_pairs *pairs) {
    pairs->length = 0;
    pairs->count = 0;
    pairs->cost = 0;
}

void bulk_pairs_free(struct bulk_pairs *pairs) {
    free(pairs->data);
    free(pairs->pairs);
    free(pairs->table);
    memset(pairs, 0, sizeof *pairs);
}
