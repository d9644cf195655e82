/* SPDX-License-Identifier: Apache-2.0 */
/* The one checksum of Keel's files and messages: XXH3, 64 bits. */
#ifndef KEEL_UTIL_CHECKSUM_H
#define KEEL_UTIL_CHECKSUM_H

#include "util/bytes.h"

/* `seed` distinguishes equal bytes in different places (a log record's generation, for example). */
uint64_t checksum(struct bytes data, uint64_t seed);

/*
 * Of a key and the value that belongs to it, 32 bits: of XXH3 (without seed) over both one after the other, plus the key's length times the
 * constant in checksum.c, the upper half. Fastest where the value lies right behind the key in memory.
 */
uint32_t checksum_row(struct bytes key, struct bytes value);

#endif
