/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed-width integers in bytes: little-endian on disk, big-endian where order must equal byte order. */
#ifndef KEEL_UTIL_CODING_H
#define KEEL_UTIL_CODING_H

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Keel's disk format is written on little-endian machines");

static inline void coding_put_u16(void *to, uint16_t value) { memcpy(to, &value, 2); }
static inline void coding_put_u32(void *to, uint32_t value) { memcpy(to, &value, 4); }
static inline void coding_put_u64(void *to, uint64_t value) { memcpy(to, &value, 8); }

static inline uint16_t coding_get_u16(const void *from) { uint16_t value; memcpy(&value, from, 2); return value; }
static inline uint32_t coding_get_u32(const void *from) { uint32_t value; memcpy(&value, from, 4); return value; }
static inline uint64_t coding_get_u64(const void *from) { uint64_t value; memcpy(&value, from, 8); return value; }

static inline void coding_put_u64_big(void *to, uint64_t value) { coding_put_u64(to, __builtin_bswap64(value)); }
static inline uint64_t coding_get_u64_big(const void *from) { return __builtin_bswap64(coding_get_u64(from)); }
static inline void coding_put_u16_big(void *to, uint16_t value) { coding_put_u16(to, __builtin_bswap16(value)); }

#endif
