/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: numbers that any number of transactions add to without conflicts.
 *
 *     keel_subspace visits;
 *     error = keel_subspace_tuple(KEEL_TUPLE("visits"), &visits);
 *     error = keel_counter_add(tr, &visits, 1);
 *     error = keel_counter_get(tr, &visits, true, &value);
 *
 * Keys. A plain counter is one key, that of the subspace itself (its prefix). A sharded one is
 * spread over (subspace, shard), and its value is the sum. A subspace may hold both, independent of
 * each other. Values are signed 64-bit integers, little-endian, as the atomic operation ADD has
 * them.
 *
 * Which one. On an embedded database a plain counter takes any number of additions: they never
 * conflict. On a cluster one key lives on one machine, and a counter that is added to thousands of
 * times a second is better sharded. The number of shards may change at any time.
 *
 * Errors. STORED_FORMAT where a value is not of 8 bytes, INTEGER_TOO_LARGE if the sum of the shards
 * does not fit (one key wraps around instead: the database adds it), ARGUMENT for NULL where
 * something is needed and for a number of shards that is not 1 to KEEL_COUNTER_SHARDS_MAX. A
 * function that fails has written nothing. Errors of the database come back as they are.
 *
 * Conflicts. Adding reads nothing and so conflicts with nothing. Reading with `snapshot` neither;
 * it is the value of one moment, that of the transaction's read version and its own additions.
 * Reading without it is for decisions that rely on the value: then every addition of others
 * conflicts.
 *
 * Mind that a commit whose result is unknown may be retried and then add twice; see keel_run.
 *
 * Nothing here commits. Threads: as the transaction.
 */
#ifndef KEEL_COUNTER_H
#define KEEL_COUNTER_H

#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KEEL_COUNTER_SHARDS_MAX = 10000 };

/* ---- One key ---- */

/* Adds `amount`, which may be negative. A counter that is not there is 0. */
fdb_error_t keel_counter_add(FDBTransaction *tr, const keel_subspace *counter, int64_t amount);

/* The value; 0 if it is not there. One row. */
fdb_error_t keel_counter_get(FDBTransaction *tr, const keel_subspace *counter, bool snapshot,
                             int64_t *value);

/* Sets the value, over additions that were committed before. */
fdb_error_t keel_counter_set(FDBTransaction *tr, const keel_subspace *counter, int64_t value);

/* Removes it. */
fdb_error_t keel_counter_clear(FDBTransaction *tr, const keel_subspace *counter);

/* ---- Many ---- */

/* Adds `amount` to one of the shards 0 to shards - 1, chosen at random. */
fdb_error_t keel_counter_sharded_add(FDBTransaction *tr, const keel_subspace *counter,
                                     uint32_t shards, int64_t amount);

/* The sum of all shards there are. One row a shard. */
fdb_error_t keel_counter_sharded_total(FDBTransaction *tr, const keel_subspace *counter,
                                       bool snapshot, int64_t *total);

/* Makes the sum `value`: one shard holds it, all others are removed. */
fdb_error_t keel_counter_sharded_set(FDBTransaction *tr, const keel_subspace *counter,
                                     int64_t value);

/* Removes all shards. */
fdb_error_t keel_counter_sharded_clear(FDBTransaction *tr, const keel_subspace *counter);

#ifdef __cplusplus
}
#endif

#endif
