/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Bloom filter over the keys of a load: "no" is certain, "maybe" has the database asked. Its size is fixed, 16 MB, whatever
 * the load: about one key in 300 is asked for in vain at 10 million pairs, nearly every second one at 50 million, and then it
 * merely helps no more.
 *
 * A key has five bits in one block of 64 bytes, which is one line of the processor's cache.
 *
 * The filter must have every key of the load, so that only a load that was empty when it was begun has one; one that is resumed
 * asks the database for all keys that are not behind the largest.
 */
#include "bulk_private.h"

#include <stdlib.h>

enum { BLOCKS_BITS = 18, BLOCK_WORDS = 8, BITS = 5, BIT_BITS = 9 };

fdb_error_t bulk_filter_make(struct bulk_filter *filter) {
    filter->words = calloc((size_t)BLOCK_WORDS << BLOCKS_BITS, sizeof *filter->words);
    return filter->words ? 0 : BULK_NO_MEMORY;
}

static uint64_t *block_of(const struct bulk_filter *filter, uint64_t key_hash) {
    return filter->words + (key_hash >> (64 - BLOCKS_BITS)) * BLOCK_WORDS;
}

bool bulk_filter_may_have(const struct bulk_filter *filter, uint64_t key_hash) {
    if (!filter->words)
        return true;
    const uint64_t *block = block_of(filter, key_hash);
    bool has = true;
    for (int i = 0; i < BITS && has; i++, key_hash >>= BIT_BITS)
        has = block[(key_hash >> 6) % BLOCK_WORDS] >> (key_hash & 63) & 1;
    return has;
}

void bulk_filter_add(struct bulk_filter *filter, uint64_t key_hash) {
    if (!filter->words)
        return;
    uint64_t *block = block_of(filter, key_hash);
    for (int i = 0; i < BITS; i++, key_hash >>= BIT_BITS)
        block[(key_hash >> 6) % BLOCK_WORDS] |= (uint64_t)1 << (key_hash & 63);
}

void bulk_filter_free(struct bulk_filter *filter) {
    free(filter->words);
    filter->words = NULL;
}
