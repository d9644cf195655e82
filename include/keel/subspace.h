/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subspaces: keys under a common prefix.
 *
 *     keel_subspace users, one;
 *     error = keel_subspace_tuple(KEEL_TUPLE("app", "users"), &users);
 *     error = keel_subspace_nested(&users, KEEL_TUPLE(id), &one);
 *     error = keel_subspace_pack(&one, KEEL_TUPLE("email"), key, sizeof key, &length);
 *
 * A subspace is a value that owns no memory: it can be copied, returned and kept in structures;
 * functions never keep a pointer to one. The price is a longest prefix, KEEL_SUBSPACE_PREFIX_MAX
 * bytes; the functions of tuple.h that take a prefix know no such limit. Any thread.
 */
#ifndef KEEL_SUBSPACE_H
#define KEEL_SUBSPACE_H

#include <keel/tuple.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KEEL_SUBSPACE_PREFIX_MAX = 510 };

typedef struct keel_subspace {
    uint16_t length;
    uint8_t prefix[KEEL_SUBSPACE_PREFIX_MAX];
} keel_subspace;

/*
 * The subspace of a raw prefix (which may be empty: all keys), and of a tuple. BUFFER_TOO_SMALL
 * beyond the longest prefix, INCOMPLETE_VERSIONSTAMP, and those of keel_tuple_pack.
 */
fdb_error_t keel_subspace_raw(keel_bytes prefix, keel_subspace *subspace);
fdb_error_t keel_subspace_tuple(keel_tuple tuple, keel_subspace *subspace);
/* A raw prefix followed by a tuple. */
fdb_error_t keel_subspace_raw_tuple(keel_bytes prefix, keel_tuple tuple, keel_subspace *subspace);
/*
 * The subspace inside another: its prefix followed by the packed tuple. parent and subspace may be
 * the same.
 */
fdb_error_t keel_subspace_nested(const keel_subspace *parent, keel_tuple tuple,
                                 keel_subspace *subspace);

/* The prefix, which lives in the subspace. It is also the key of the subspace itself. */
keel_bytes keel_subspace_prefix(const keel_subspace *subspace);

/*
 * prefix + packed tuple, into the caller's buffer (BUFFER_TOO_SMALL gives the needed *length).
 * Errors of keel_tuple_pack.
 */
fdb_error_t keel_subspace_pack(const keel_subspace *subspace, keel_tuple tuple, uint8_t *buffer,
                               size_t capacity, size_t *length);
/*
 * The same with exactly one incomplete versionstamp and its position appended, as
 * keel_tuple_pack_versionstamp does.
 */
fdb_error_t keel_subspace_pack_versionstamp(const keel_subspace *subspace, keel_tuple tuple,
                                            uint8_t *buffer, size_t capacity, size_t *length);

/*
 * Starts an iterator behind the prefix of a key; its positions are offsets in the key.
 * NOT_IN_SUBSPACE.
 */
fdb_error_t keel_subspace_unpack(const keel_subspace *subspace, keel_bytes key,
                                 keel_tuple_iterator *iterator);
/* Whether the key begins with the prefix. */
bool keel_subspace_contains(const keel_subspace *subspace, keel_bytes key);

/* A range of keys that owns its ends: [begin, end). */
typedef struct keel_range {
    uint8_t begin[KEEL_SUBSPACE_PREFIX_MAX * 2], end[KEEL_SUBSPACE_PREFIX_MAX * 2];
    size_t begin_length, end_length;
} keel_range;

/*
 * All keys that extend prefix + tuple by at least one element; KEEL_TUPLE() for the whole subspace.
 * The second writes into buffers of `capacity` bytes each, for keys of any length; both ends have
 * the same *length.
 */
fdb_error_t keel_subspace_range(const keel_subspace *subspace, keel_tuple tuple, keel_range *range);
fdb_error_t keel_subspace_range_into(const keel_subspace *subspace, keel_tuple tuple,
                                     uint8_t *begin, uint8_t *end, size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif

#endif
