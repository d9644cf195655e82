/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations and versionstamps: what a mutation makes of a value.
 *
 * Two places on a transaction's path come here: src/txn, when a transaction reads a key it has
 * mutated itself, and the engine, when a commit is applied. Both must agree to the byte, so there
 * is one implementation.
 *
 * The numeric operations read byte strings as little-endian integers as wide as the operand: a
 * present value is cut or padded with zero bytes to the operand's length before it is combined. The
 * table gives, for each operation, what a missing key counts as and what an empty operand gives:
 *
 *     operation           missing key      present value P, operand O
 *     add, or, xor, max   empty            fitted(P) op O
 *     and, min            zeroes           fitted(P) op O
 *     and v2, min v2      result is O      fitted(P) op O
 *     byte min, byte max  result is O      the lesser or greater of P and O by bytes_compare, unchanged
 *     append if fits      empty            P then O, or P alone where that would pass 100,000 bytes
 *     compare and clear   removed          removed if P equals O, else P
 *
 *   1. Except for the last four rows the result is exactly as long as the operand.
 *   2. Nothing here keeps state: any thread, any number at once.
 *
 * Failure: only memory can fail; then nothing was returned.
 */
#include "database/mutation.h"

#include <assert.h>

#include "util/coding.h"

enum { STAMP_BYTES = 10, OFFSET_BYTES = 4 };

bool mutation_is_atomic(enum mutation_type type) {
    switch (type) {
    case MUTATION_ADD:
    case MUTATION_AND:
    case MUTATION_OR:
    case MUTATION_XOR:
    case MUTATION_APPEND_IF_FITS:
    case MUTATION_MAX:
    case MUTATION_MIN:
    case MUTATION_BYTE_MIN:
    case MUTATION_BYTE_MAX:
    case MUTATION_MIN_V2:
    case MUTATION_AND_V2:
    case MUTATION_COMPARE_AND_CLEAR:
        return true;
    case MUTATION_SET:
    case MUTATION_CLEAR_RANGE:
    case MUTATION_SET_VERSIONSTAMPED_KEY:
    case MUTATION_SET_VERSIONSTAMPED_VALUE:
        return false;
    }
    return false;
}

/* The byte of a value that is padded with zeroes without end. */
static uint8_t byte_at(struct bytes value, size_t index) {
    return index < value.length ? value.data[index] : 0;
}

static void add(struct bytes present, struct bytes operand, uint8_t *result) {
    unsigned carry = 0;
    for (size_t i = 0; i < operand.length; i++) {
        unsigned sum = (unsigned)byte_at(present, i) + operand.data[i] + carry;
        result[i] = (uint8_t)sum;
        carry = sum >> 8;
    }
}

static void bitwise(enum mutation_type type, struct bytes present, struct bytes operand,
                    uint8_t *result) {
    for (size_t i = 0; i < operand.length; i++) {
        uint8_t a = byte_at(present, i), b = operand.data[i];
        result[i] = type == MUTATION_OR ? (uint8_t)(a | b) : type == MUTATION_XOR ? (uint8_t)(a ^ b)
                    : (uint8_t)(a & b);
    }
}

/*
 * Negative, zero or positive as the present value, fitted to the operand's length, is less, equal
 * or more.
 */
static int compare_fitted(struct bytes present, struct bytes operand) {
    for (size_t i = operand.length; i-- > 0;) {
        int difference = (int)byte_at(present, i) - (int)operand.data[i];
        if (difference)
            return difference;
    }
    return 0;
}

static fdb_error_t fit(struct bytes present, size_t length, struct arena *arena,
                       struct bytes *result) {
    if (present.length >= length) {
        *result = bytes_make(present.data, length);
        return 0;
    }
    uint8_t *buffer = arena_allocate_bytes(arena, length);
    if (!buffer)
        return ERROR_LARGE_ALLOC_FAILED;
    if (present.length)
        memcpy(buffer, present.data, present.length);
    memset(buffer + present.length, 0, length - present.length);
    *result = bytes_make(buffer, length);
    return 0;
}

static fdb_error_t numeric(enum mutation_type type, struct bytes present, struct bytes operand,
                           struct arena *arena,
                           struct bytes *result) {
    if (operand.length == 0) {
        *result = operand;
        return 0;
    }
    if (type == MUTATION_MAX || type == MUTATION_MIN) {
        int order = compare_fitted(present, operand);
        bool keep = type == MUTATION_MAX ? order > 0 : order < 0;
        if (keep)
            return fit(present, operand.length, arena, result);
        *result = operand;
        return 0;
    }
    uint8_t *buffer = arena_allocate_bytes(arena, operand.length);
    if (!buffer)
        return ERROR_LARGE_ALLOC_FAILED;
    if (type == MUTATION_ADD)
        add(present, operand, buffer);
    else
        bitwise(type, present, operand, buffer);
    *result = bytes_make(buffer, operand.length);
    return 0;
}

static fdb_error_t append(struct bytes present, struct bytes operand, struct arena *arena,
                          struct bytes *result) {
    if (present.length == 0) {
        *result = operand;
        return 0;
    }
    if (operand.length == 0 || present.length + operand.length > VALUE_BYTES_MAX) {
        *result = present;
        return 0;
    }
    uint8_t *buffer = arena_allocate_bytes(arena, present.length + operand.length);
    if (!buffer)
        return ERROR_LARGE_ALLOC_FAILED;
    memcpy(buffer, present.data, present.length);
    memcpy(buffer + present.length, operand.data, operand.length);
    *result = bytes_make(buffer, present.length + operand.length);
    return 0;
}

/* The operations that treat a missing key unlike an empty value. */
static fdb_error_t apply_to_optional(enum mutation_type type, const struct bytes *present,
                                     struct bytes operand,
                                     struct arena *arena, struct bytes *result) {
    if (!present) {
        *result = operand;
        return 0;
    }
    switch (type) {
    case MUTATION_MIN_V2:
        return numeric(MUTATION_MIN, *present, operand, arena, result);
    case MUTATION_AND_V2:
        return numeric(MUTATION_AND, *present, operand, arena, result);
    case MUTATION_BYTE_MIN:
        *result = bytes_compare(*present, operand) < 0 ? *present : operand;
        return 0;
    default:
        *result = bytes_compare(*present, operand) > 0 ? *present : operand;
        return 0;
    }
}

fdb_error_t mutation_apply(enum mutation_type type, const struct bytes *present,
                           struct bytes operand,
                           struct arena *arena, struct bytes *result, bool *cleared) {
    assert(mutation_is_atomic(type));
    struct bytes value = present ? *present : BYTES_LITERAL("");
    fdb_error_t error = 0;
    struct bytes made = value;
    bool removed = false;
    switch (type) {
    case MUTATION_COMPARE_AND_CLEAR:
        removed = !present || bytes_equal(value, operand);
        break;
    case MUTATION_APPEND_IF_FITS:
        error = append(value, operand, arena, &made);
        break;
    case MUTATION_MIN_V2:
    case MUTATION_AND_V2:
    case MUTATION_BYTE_MIN:
    case MUTATION_BYTE_MAX:
        error = apply_to_optional(type, present, operand, arena, &made);
        break;
    default:
        error = numeric(type, value, operand, arena, &made);
        break;
    }
    if (error)
        return error;
    *result = made;
    *cleared = removed;
    return 0;
}

fdb_error_t mutation_stamp_position(struct bytes text, struct bytes *body, size_t *offset) {
    if (text.length < OFFSET_BYTES)
        return ERROR_CLIENT_INVALID_OPERATION;
    size_t length = text.length - OFFSET_BYTES;
    uint32_t position = coding_get_u32(text.data + length);
    if (position > INT32_MAX || (size_t)position + STAMP_BYTES > length)
        return ERROR_CLIENT_INVALID_OPERATION;
    *body = bytes_make(text.data, length);
    *offset = position;
    return 0;
}

void mutation_stamp_write(uint8_t stamp[10], int64_t version, uint16_t order) {
    coding_put_u64_big(stamp, (uint64_t)version);
    coding_put_u16_big(stamp + 8, order);
}
