/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch in its final form: only sets and range clears, in order, with atomic operations evaluated and versionstamps filled in. It is what the log
 * stores and what recovery replays. docs/format.md describes the bytes.
 */
#ifndef KEEL_ENGINE_BATCH_H
#define KEEL_ENGINE_BATCH_H

#include "util/bytes.h"
#include "util/error.h"

/* A growing buffer of encoded changes; all zero is valid and empty. */
struct batch {
    uint8_t *data;
    size_t length;
    size_t capacity;
    size_t count; /* of changes */
};

struct change {
    bool clear;         /* key = begin, value = end of the cleared range */
    struct bytes key;
    struct bytes value;
};

/* LARGE_ALLOC_FAILED leaves the batch as it was. */
fdb_error_t batch_add(struct batch *batch, const struct change *change);

/* Cuts the batch back to an earlier length and count. */
void batch_truncate(struct batch *batch, size_t length, size_t count);
void batch_free(struct batch *batch);

/*
 * Walks an encoded batch: *offset starts at 0. True while there was a change; false at the end or, with *error set to DATABASE_DAMAGED, where the
 * bytes make no sense. Views point into `payload`.
 */
bool batch_next(struct bytes payload, size_t *offset, struct change *change, fdb_error_t *error);

#endif
