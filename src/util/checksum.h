/* SPDX-License-Identifier: Apache-2.0 */
/* The one checksum of Keel's files and messages: XXH3, 64 bits. */
#ifndef KEEL_UTIL_CHECKSUM_H
#define KEEL_UTIL_CHECKSUM_H

#include "util/bytes.h"

/* `seed` distinguishes equal bytes in different places (a log record's generation, for example). */
uint64_t checksum(struct bytes data, uint64_t seed);

#endif
