/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The high-contention allocator: short integers, each handed out once, to many clients at the same
 * time.
 */
#ifndef KEEL_LAYERS_ALLOCATOR_H
#define KEEL_LAYERS_ALLOCATOR_H

#include "directory_internal.h"

/*
 * Takes an integer that no committed transaction has taken from the allocator at `prefix`, and that
 * no other call in this transaction has taken. It is taken when the transaction commits. Blocks;
 * several threads may call it with one transaction. Errors of the reads, of keys that are not the
 * allocator's (TUPLE_…), 1501.
 */
fdb_error_t allocator_allocate(FDBTransaction *tr, keel_bytes prefix, int64_t *integer);

#endif
