/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SUB on integers of up to 2040 bits, by sign and magnitude. A magnitude is kept little-endian in a
 * fixed array that has room for the carry of one addition beyond the 255 bytes a tuple element can
 * hold; the sign of zero is positive.
 */
#include "value.h"

#include <string.h>

enum { MAGNITUDE_BYTES_MAX = 257 };

struct integer {
    bool negative;
    uint8_t digits[MAGNITUDE_BYTES_MAX]; /* base 256, least first */
};

static void from_value(const struct value *value, struct integer *integer) {
    uint8_t magnitude[KEEL_INTEGER_LENGTH_MAX];
    size_t length = 0;
    must(keel_element_copy(&value->element, magnitude, sizeof magnitude, &length),
         "SUB of something that is no integer");
    memset(integer, 0, sizeof *integer);
    integer->negative = keel_element_sign(&value->element) < 0;
    for (size_t i = 0; i < length; i++)
        integer->digits[i] = magnitude[length - 1 - i];
}

static int compare_magnitudes(const struct integer *left, const struct integer *right) {
    for (size_t i = MAGNITUDE_BYTES_MAX; i-- > 0;) {
        if (left->digits[i] != right->digits[i])
            return left->digits[i] < right->digits[i] ? -1 : 1;
    }
    return 0;
}

/* sum = left + right, in magnitude. */
static void add_magnitudes(const struct integer *left, const struct integer *right,
                           struct integer *sum) {
    unsigned carry = 0;
    for (size_t i = 0; i < MAGNITUDE_BYTES_MAX; i++) {
        carry += (unsigned)left->digits[i] + right->digits[i];
        sum->digits[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

/* difference = larger - smaller, in magnitude. */
static void subtract_magnitudes(const struct integer *larger, const struct integer *smaller,
                                struct integer *difference) {
    unsigned borrow = 0;
    for (size_t i = 0; i < MAGNITUDE_BYTES_MAX; i++) {
        unsigned digit = 256U + larger->digits[i] - smaller->digits[i] - borrow;
        difference->digits[i] = (uint8_t)digit;
        borrow = digit < 256U;
    }
}

static struct value *small_value(uint64_t magnitude, bool negative) {
    if (magnitude <= INT64_MAX)
        return value_int(negative ? -(int64_t)magnitude : (int64_t)magnitude);
    if (negative && magnitude == (uint64_t)INT64_MAX + 1)
        return value_int(INT64_MIN);
    if (!negative) {
        keel_element element = keel_element_of_uint(magnitude);
        return value_element(&element);
    }
    uint8_t digits[sizeof magnitude];
    for (size_t i = 0; i < sizeof digits; i++)
        digits[i] = (uint8_t)(magnitude >> (56 - 8 * i));
    keel_element element = keel_element_of_big(digits, sizeof digits, true);
    return value_element(&element);
}

static struct value *to_value(const struct integer *integer) {
    size_t length = MAGNITUDE_BYTES_MAX;
    while (length > 0 && integer->digits[length - 1] == 0)
        length--;
    if (length <= sizeof(uint64_t)) {
        uint64_t magnitude = 0;
        for (size_t i = length; i-- > 0;)
            magnitude = magnitude << 8 | integer->digits[i];
        return small_value(magnitude, integer->negative);
    }
    uint8_t digits[MAGNITUDE_BYTES_MAX];
    for (size_t i = 0; i < length; i++)
        digits[i] = integer->digits[length - 1 - i];
    keel_element element = keel_element_of_big(digits, length, integer->negative);
    return value_element(&element);
}

struct value *value_subtract(const struct value *left, const struct value *right) {
    struct integer a, b, result;
    from_value(left, &a);
    from_value(right, &b);
    if (a.negative != b.negative) {
        add_magnitudes(&a, &b, &result);
        result.negative = a.negative;
    } else if (compare_magnitudes(&a, &b) >= 0) {
        subtract_magnitudes(&a, &b, &result);
        result.negative = a.negative;
    } else {
        subtract_magnitudes(&b, &a, &result);
        result.negative = !a.negative;
    }
    return to_value(&result);
}
