/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums by xxHash. The only file that includes its header, so the choice stays in one place. */
#include "util/checksum.h"

#ifndef KEEL_SANITIZED
#define XXH_INLINE_ALL /* rows are short: the call would cost as much as the work */
#else
#define XXH_STATIC_LINKING_ONLY /* for the state's size */
#endif
#include <xxhash.h>

uint64_t checksum(struct bytes data, uint64_t seed) {
    return XXH3_64bits_withSeed(data.data, data.length, seed);
}

enum { COPY_BYTES_MAX = 2560 }; /* a row that is not in one piece is copied up to this size, else hashed in two steps */
#define KEY_LENGTH_FACTOR UINT64_C(0x9E3779B97F4A7C15)

static uint64_t hash_pieces(struct bytes key, struct bytes value) {
    if (key.length + value.length <= COPY_BYTES_MAX) {
        uint8_t copy[COPY_BYTES_MAX];
        if (key.length)
            memcpy(copy, key.data, key.length);
        if (value.length)
            memcpy(copy + key.length, value.data, value.length);
        return XXH3_64bits(copy, key.length + value.length);
    }
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, key.data, key.length);
    XXH3_64bits_update(&state, value.data, value.length);
    return XXH3_64bits_digest(&state);
}

/* Without a seed: for more than 240 bytes XXH3 would derive its secret from one, every time anew. */
uint32_t checksum_row(struct bytes key, struct bytes value) {
    uint64_t hash = key.data + key.length == value.data ? XXH3_64bits(key.data, key.length + value.length)
                                                        : hash_pieces(key, value);
    return (uint32_t)((hash + key.length * KEY_LENGTH_FACTOR) >> 32);
}
