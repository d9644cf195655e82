/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recipes share: keys on the stack, ranges, scans and single reads. Private to recipes/.
 *
 * Every function that reads can be split in two, starting and finishing, so that a recipe starts
 * all reads that do not depend on each other before it waits for the first.
 */
#ifndef RECIPES_SUPPORT_H
#define RECIPES_SUPPORT_H

#include <keel/run.h>
#include <keel/subspace.h>

#include "export.h"

/* Limits of FoundationDB that a recipe checks before it changes anything. */
enum { RECIPE_KEY_MAX = 10000, RECIPE_VALUE_MAX = 100000 };

/* A key under construction, meant for the stack; not initialized beyond `length`. */
struct recipe_key {
    size_t length;
    uint8_t data[RECIPE_KEY_MAX + 8]; /* and the position behind a versionstamped key */
};

/*
 * prefix + packed tuple. ARGUMENT without a subspace, key_too_large (2102) where it does not fit,
 * and keel_tuple_pack's errors.
 */
fdb_error_t recipe_pack(const keel_subspace *subspace, keel_tuple tuple, struct recipe_key *key);
fdb_error_t recipe_pack_versionstamp(const keel_subspace *subspace, keel_tuple tuple,
                                     struct recipe_key *key);

/* Appends a packed tuple to a key; errors as above, and the key is then as it was. */
fdb_error_t recipe_append(struct recipe_key *key, keel_tuple tuple);
/* Appends bytes as they are. */
fdb_error_t recipe_append_bytes(struct recipe_key *key, keel_bytes bytes);

/* The keys that extend prefix + tuple by at least one element: [begin, end). */
struct recipe_span {
    struct recipe_key begin, end;
};
fdb_error_t recipe_span_of(const keel_subspace *subspace, keel_tuple tuple,
                           struct recipe_span *span);

/* A key that is a packed tuple, and all that extend it: [key, key ff). */
void recipe_span_with(const struct recipe_key *key, struct recipe_span *span);

void recipe_set(FDBTransaction *tr, const struct recipe_key *key, keel_bytes value);
void recipe_clear(FDBTransaction *tr, const struct recipe_key *key);
void recipe_clear_span(FDBTransaction *tr, const struct recipe_span *span);
void recipe_add(FDBTransaction *tr, const struct recipe_key *key, int64_t amount);

/* Starts reading one key; finish it with recipe_get_finish and destroy the future. */
FDBFuture *recipe_get_start(FDBTransaction *tr, const struct recipe_key *key, bool snapshot);
/* Waits. *value is valid until the future is destroyed; untouched if !*present. */
fdb_error_t recipe_get_finish(FDBFuture *future, bool *present, keel_bytes *value);

/*
 * A scan over a range, page by page. Opening starts the first page's read at once; nothing is waited
 * for before the first recipe_scan_next. Views from next are valid until the next call or the close.
 */
struct recipe_scan {
    FDBTransaction *tr;
    FDBFuture *future;
    const FDBKeyValue *rows;
    int count, index, limit, iteration; /* limit: rows still wanted, 0 for all */
    bool reverse, snapshot, more, waited;
    struct recipe_key begin, end; /* what is left */
};
void recipe_scan_open(struct recipe_scan *scan, FDBTransaction *tr, const struct recipe_span *span,
                      int limit, bool reverse, bool snapshot);
/* *found is false at the end, and on an error. */
fdb_error_t recipe_scan_next(struct recipe_scan *scan, keel_bytes *key, keel_bytes *value,
                             bool *found);
void recipe_scan_close(struct recipe_scan *scan);

/* The number of rows in a range, from a snapshot of all of them. */
fdb_error_t recipe_count(FDBTransaction *tr, const struct recipe_span *span, int64_t *count);
/* As if the key had been read for real: for what was seen in a snapshot and is relied upon. */
fdb_error_t recipe_read_conflict(FDBTransaction *tr, keel_bytes key);

/* What a value must be before it is written: ARGUMENT for NULL with a length, value_too_large. */
fdb_error_t recipe_check_value(keel_bytes value);
/* A copy for the caller to free(), never NULL on success: no bytes have a copy too. 1501. */
fdb_error_t recipe_copy(keel_bytes bytes, uint8_t **copy, size_t *length);
/* Bytes that nobody has drawn before and nobody can foresee. */
void recipe_random(uint8_t *bytes, size_t length);

/* Whether a subspace has no key, which one row tells. *empty is untouched on failure. */
fdb_error_t recipe_is_empty(FDBTransaction *tr, const keel_subspace *subspace, bool *empty);

#endif
