/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subspaces: a prefix in a value, and the tuple layer behind it.
 *
 * Programs and recipes hold one for each kind of key they have and make keys from it on the way
 * into a transaction. There is nothing here but the prefix: what is packed behind it is tuple.c's.
 * Invariant: length <= KEEL_SUBSPACE_PREFIX_MAX. No state, any thread.
 */
#include <keel/subspace.h>

#include "export.h"

_Static_assert(sizeof(keel_subspace) == 2 + KEEL_SUBSPACE_PREFIX_MAX,
               "a subspace is its length and its prefix");

/* --- Making them --- */

KEEL_EXPORT fdb_error_t keel_subspace_raw(keel_bytes prefix, keel_subspace *subspace) {
    return keel_subspace_raw_tuple(prefix, keel_tuple_of(NULL, 0), subspace);
}

KEEL_EXPORT fdb_error_t keel_subspace_tuple(keel_tuple tuple, keel_subspace *subspace) {
    return keel_subspace_raw_tuple(keel_bytes_of(NULL, 0), tuple, subspace);
}

KEEL_EXPORT fdb_error_t keel_subspace_nested(const keel_subspace *parent, keel_tuple tuple,
                                             keel_subspace *subspace) {
    return keel_subspace_raw_tuple(keel_subspace_prefix(parent), tuple, subspace);
}

KEEL_EXPORT fdb_error_t keel_subspace_raw_tuple(keel_bytes prefix, keel_tuple tuple,
                                                keel_subspace *subspace) {
    keel_subspace made;
    size_t length;
    fdb_error_t error = keel_tuple_pack_prefix(prefix, tuple, made.prefix, sizeof made.prefix,
                                               &length);
    if (error)
        return error;
    subspace->length = (uint16_t)length;
    memcpy(subspace->prefix, made.prefix, length);
    return 0;
}

KEEL_EXPORT keel_bytes keel_subspace_prefix(const keel_subspace *subspace) {
    return keel_bytes_of(subspace->prefix, subspace->length);
}

/* --- Keys --- */

KEEL_EXPORT fdb_error_t keel_subspace_pack(const keel_subspace *subspace, keel_tuple tuple,
                                           uint8_t *buffer, size_t capacity, size_t *length) {
    return keel_tuple_pack_prefix(keel_subspace_prefix(subspace), tuple, buffer, capacity, length);
}

KEEL_EXPORT fdb_error_t keel_subspace_pack_versionstamp(const keel_subspace *subspace,
                                                        keel_tuple tuple, uint8_t *buffer,
                                                        size_t capacity, size_t *length) {
    return keel_tuple_pack_versionstamp_prefix(keel_subspace_prefix(subspace), tuple, buffer,
                                               capacity, length);
}

KEEL_EXPORT bool keel_subspace_contains(const keel_subspace *subspace, keel_bytes key) {
    return key.length >= subspace->length &&
           (subspace->length == 0 || memcmp(key.data, subspace->prefix, subspace->length) == 0);
}

KEEL_EXPORT fdb_error_t keel_subspace_unpack(const keel_subspace *subspace, keel_bytes key,
                                             keel_tuple_iterator *iterator) {
    if (!keel_subspace_contains(subspace, key))
        return KEEL_ERROR_NOT_IN_SUBSPACE;
    *iterator = keel_tuple_iterate_behind(key, subspace->length);
    return 0;
}

/* --- Ranges --- */

KEEL_EXPORT fdb_error_t keel_subspace_range(const keel_subspace *subspace, keel_tuple tuple,
                                            keel_range *range) {
    size_t length;
    fdb_error_t error =
        keel_subspace_range_into(subspace, tuple, range->begin, range->end, sizeof range->begin,
                                 &length);
    if (error)
        return error;
    range->begin_length = length;
    range->end_length = length;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_subspace_range_into(const keel_subspace *subspace, keel_tuple tuple,
                                                 uint8_t *begin, uint8_t *end, size_t capacity,
                                                 size_t *length) {
    return keel_tuple_range_prefix(keel_subspace_prefix(subspace), tuple, begin, end, capacity,
                                   length);
}
