/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver: which keys were written since when. An ordered map from boundary key to the newest version that wrote the keys from there to
 * the next boundary, with maxima kept so that a check costs logarithmic time however much was written. Used by the commit pipeline alone:
 * one thread at a time.
 */
#ifndef KEEL_ENGINE_RESOLVER_H
#define KEEL_ENGINE_RESOLVER_H

#include "util/bytes.h"
#include "util/error.h"

struct resolver;

fdb_error_t resolver_create(struct resolver **resolver);
void resolver_destroy(struct resolver *resolver);

/* True if any key of the range was written at a version above `version`. An empty or inverted range: false. */
bool resolver_conflicts(struct resolver *resolver, struct key_range range, int64_t version);

/* Notes that the range was written at `version`, at or above every version before. Keys are copied. LARGE_ALLOC_FAILED: unchanged. */
fdb_error_t resolver_add(struct resolver *resolver, struct key_range range, int64_t version);

/*
 * Has the memory fetched that looking for these keys will go through; several at once take hardly longer than one. Changes no answer.
 * REQUIRES: count <= RESOLVER_PREFETCH_MAX.
 */
enum { RESOLVER_PREFETCH_MAX = 8 };
void resolver_prefetch(const struct resolver *resolver, const struct bytes *keys, unsigned count);

/*
 * Promises that no check below `version` will come, so that older entries may be merged away. Does a bounded amount of work a call (amortized
 * against what is added), so that no commit stalls.
 */
void resolver_forget(struct resolver *resolver, int64_t version);

uint64_t resolver_bytes(struct resolver *resolver);

/* Checks every invariant, for tests. Asserts on a violation. */
void resolver_check(struct resolver *resolver);

#endif
