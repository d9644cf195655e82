/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums by xxHash. The only file that includes its header, so the choice stays in one place. */
#include "util/checksum.h"

#include <xxhash.h>

uint64_t checksum(struct bytes data, uint64_t seed) {
    return XXH3_64bits_withSeed(data.data, data.length, seed);
}
