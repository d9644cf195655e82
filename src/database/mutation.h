/* SPDX-License-Identifier: Apache-2.0 */
/* A change to the database as a transaction asks for it. */
#ifndef KEEL_DATABASE_MUTATION_H
#define KEEL_DATABASE_MUTATION_H

#include "util/arena.h"
#include "util/error.h"

enum {
    KEY_BYTES_MAX = 10000,
    SYSTEM_KEY_BYTES_MAX = 30000,
    VALUE_BYTES_MAX = 100000,
    TRANSACTION_BYTES_MAX = 10000000,
};

/* Numbered as FDBMutationType; set and clear have the numbers FoundationDB uses inside. */
enum mutation_type {
    MUTATION_SET = 0,
    MUTATION_CLEAR_RANGE = 1, /* key = begin, value = end */
    MUTATION_ADD = 2,
    MUTATION_AND = 6,
    MUTATION_OR = 7,
    MUTATION_XOR = 8,
    MUTATION_APPEND_IF_FITS = 9,
    MUTATION_MAX = 12,
    MUTATION_MIN = 13,
    MUTATION_SET_VERSIONSTAMPED_KEY = 14,
    MUTATION_SET_VERSIONSTAMPED_VALUE = 15,
    MUTATION_BYTE_MIN = 16,
    MUTATION_BYTE_MAX = 17,
    MUTATION_MIN_V2 = 18, /* MIN and AND from API version 510 on: a missing key takes the operand */
    MUTATION_AND_V2 = 19,
    MUTATION_COMPARE_AND_CLEAR = 20,
};

struct mutation {
    enum mutation_type type;
    struct bytes key;
    struct bytes value; /* operand, value, or the end of a cleared range */
};

/* True for the types whose result depends on the present value: add to byte-max, and compare-and-clear. */
bool mutation_is_atomic(enum mutation_type type);

/*
 * What an atomic mutation makes of a value. `present` is NULL where the key is missing. On success *cleared says that the
 * key is removed; otherwise *result is the new value, which may point to `operand`, to *present, or into `arena`.
 * REQUIRES: mutation_is_atomic(type). Errors: LARGE_ALLOC_FAILED.
 */
fdb_error_t mutation_apply(enum mutation_type type, const struct bytes *present, struct bytes operand,
                           struct arena *arena, struct bytes *result, bool *cleared);

/*
 * Where a versionstamped key or value leaves room: its last four bytes are a little-endian offset (API 520 and up).
 * *body is the text without the offset, *offset where ten bytes are to be filled in. CLIENT_INVALID_OPERATION if it does not fit.
 */
fdb_error_t mutation_stamp_position(struct bytes text, struct bytes *body, size_t *offset);

/* Writes the ten bytes of a versionstamp: version and order in its batch, both big-endian. */
void mutation_stamp_write(uint8_t stamp[10], int64_t version, uint16_t order);

#endif
