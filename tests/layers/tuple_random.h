/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random tuples that are likely to be near each other, for the tests of the tuple layer: few
 * distinct bytes, numbers at the ends of every length, floats of every kind, nesting. All memory is
 * in the struct, so nothing is freed.
 */
#ifndef KEEL_TESTS_TUPLE_RANDOM_H
#define KEEL_TESTS_TUPLE_RANDOM_H

#include <keel/tuple.h>

#include <stdlib.h>

enum { TUPLE_RANDOM_ELEMENTS = 1024, TUPLE_RANDOM_BYTES = 65536 };

typedef struct tuple_random {
    uint64_t state;
    bool with_incomplete; /* may versionstamps be incomplete? */
    size_t element_count, byte_count;
    keel_element elements[TUPLE_RANDOM_ELEMENTS];
    uint8_t bytes[TUPLE_RANDOM_BYTES];
} tuple_random;

static inline uint64_t tuple_random_next(tuple_random *random) {
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline size_t tuple_random_below(tuple_random *random, size_t limit) {
    return (size_t)(tuple_random_next(random) % limit);
}

/* KEEL_SEED, or a fixed one. */
static inline uint64_t tuple_random_seed(void) {
    const char *seed = getenv("KEEL_SEED");
    return seed ? strtoull(seed, NULL, 0) : 20240131;
}

static inline size_t tuple_random_rounds(size_t usual) {
    const char *rounds = getenv("KEEL_ROUNDS");
    return rounds ? (size_t)strtoull(rounds, NULL, 0) : usual;
}

/* Gives all memory back; the state goes on. */
static inline void tuple_random_reset(tuple_random *random) {
    random->element_count = 0;
    random->byte_count = 0;
}

static inline uint8_t *tuple_random_space(tuple_random *random, size_t length) {
    if (random->byte_count + length > TUPLE_RANDOM_BYTES)
        abort();
    uint8_t *space = random->bytes + random->byte_count;
    random->byte_count += length;
    return space;
}

static inline keel_bytes tuple_random_bytes(tuple_random *random) {
    static const uint8_t few[] = {0x00, 0x00, 0xff, 0x01, 0x61, 0x05, 0xfe};
    size_t length = tuple_random_below(random, tuple_random_below(random, 8) ? 5 : 40);
    uint8_t *bytes = tuple_random_space(random, length);
    bool any = tuple_random_below(random, 2);
    for (size_t i = 0; i < length; i++)
        bytes[i] = any ? (uint8_t)tuple_random_next(random)
            : few[tuple_random_below(random, sizeof few)];
    return keel_bytes_of(bytes, length);
}

static inline keel_element tuple_random_string(tuple_random *random) {
    static const char *const pieces[] =
        {"a",  "b",  "\x01", "\n", "\"", "\\", "é", "\xc2\x80", "中", "\xef\xbf\xbf",
                                         "🔥", "\xf4\x8f\xbf\xbf", "users", "\x7f", "0", ""};
    size_t count = tuple_random_below(random, 6), length = 0;
    uint8_t *text = tuple_random_space(random, 6 * 6);
    for (size_t i = 0; i < count; i++) {
        const char *piece = pieces[tuple_random_below(random, sizeof pieces / sizeof *pieces)];
        size_t piece_length = strlen(piece) ? strlen(piece) : 1; /* the empty one stands for NUL */
        memcpy(text + length, piece, piece_length);
        length += piece_length;
    }
    return keel_element_of_text((const char *)text, length);
}

static inline keel_element tuple_random_integer(tuple_random *random) {
    uint64_t value = tuple_random_next(random) >> tuple_random_below(random, 64);
    switch (tuple_random_below(random, 5)) {
    case 0: /* around a change of length */
        value = (UINT64_C(1) << tuple_random_below(random, 64)) + tuple_random_below(random, 3) - 1;
        return tuple_random_below(random, 2) ? keel_element_of_uint(value)
            : keel_element_of_int((int64_t)value);
    case 1:
        return keel_element_of_uint(value);
    case 2: {
        size_t length = tuple_random_below(random, tuple_random_below(random, 4) ? 12
                                           : KEEL_INTEGER_LENGTH_MAX + 1);
        uint8_t *magnitude = tuple_random_space(random, length);
        uint8_t fill = (uint8_t)(tuple_random_below(random, 2) ? 0xff : 0x00);
        for (size_t i = 0; i < length; i++)
            magnitude[i] = tuple_random_below(random, 3) ? fill
                : (uint8_t)tuple_random_next(random);
        return keel_element_of_big(magnitude, length, tuple_random_below(random, 2));
    }
    default:
        return keel_element_of_int((int64_t)(tuple_random_below(random, 2) ? value : 0 - value));
    }
}

static inline keel_element tuple_random_float(tuple_random *random) {
    static const uint32_t singles[] =
        {0, 1, 0x007fffff, 0x00800000, 0x3f800000, 0x7f7fffff, 0x7f800000, 0x7f800001,
                                       0x7fc00000, 0x7fffffff, 0x40600000};
    uint32_t single = tuple_random_below(random, 2) ? (uint32_t)tuple_random_next(random)
                                                    : singles[tuple_random_below(random, 11)];
    keel_element element = keel_element_of_float(0);
    single ^= (uint32_t)tuple_random_below(random, 2) << 31;
    memcpy(&element.value.as_float, &single, sizeof single);
    return element;
}

static inline keel_element tuple_random_double(tuple_random *random) {
    static const uint64_t doubles[] =
        {0, 1, UINT64_C(0x000fffffffffffff), UINT64_C(0x0010000000000000),
                                       UINT64_C(0x3ff0000000000000), UINT64_C(0x7fefffffffffffff),
                                       UINT64_C(0x7ff0000000000000), UINT64_C(0x7ff0000000000001),
                                       UINT64_C(0x7ff8000000000000), UINT64_C(0x7fffffffffffffff),
                                       UINT64_C(0x400c000000000000)};
    uint64_t bits = tuple_random_below(random, 2) ? tuple_random_next(random)
        : doubles[tuple_random_below(random, 11)];
    keel_element element = keel_element_of_double(0);
    bits ^= (uint64_t)tuple_random_below(random, 2) << 63;
    memcpy(&element.value.as_double, &bits, sizeof bits);
    return element;
}

static inline keel_element tuple_random_stamp(tuple_random *random) {
    uint8_t stamp[KEEL_VERSIONSTAMP_LENGTH];
    if (random->with_incomplete && tuple_random_below(random, 2))
        return keel_element_of_incomplete((uint16_t)tuple_random_next(random));
    for (size_t i = 0; i < sizeof stamp; i++)
        stamp[i] = tuple_random_below(random, 2) ? 0xff : (uint8_t)tuple_random_next(random);
    stamp[tuple_random_below(random, KEEL_TRANSACTION_VERSION_LENGTH)] = 0xfe;
    return keel_element_of_versionstamp(stamp);
}

static inline keel_tuple tuple_random_tuple(tuple_random *random, size_t depth_max);

static inline keel_element tuple_random_element(tuple_random *random, size_t depth_max) {
    uint8_t uuid[KEEL_UUID_LENGTH];
    switch (tuple_random_below(random, depth_max > 0 ? 11 : 10)) {
    case 0:
        return keel_element_null();
    case 1:
        return keel_element_of_bytes(tuple_random_bytes(random));
    case 2:
    case 3:
        return tuple_random_string(random);
    case 4:
    case 5:
        return tuple_random_integer(random);
    case 6:
        return tuple_random_float(random);
    case 7:
        return tuple_random_double(random);
    case 8:
        return keel_element_of_bool(tuple_random_below(random, 2));
    case 9:
        if (tuple_random_below(random, 2))
            return tuple_random_stamp(random);
        for (size_t i = 0; i < sizeof uuid; i++)
            uuid[i] = (uint8_t)tuple_random_next(random);
        return keel_element_of_uuid(uuid);
    default:
        return keel_element_of_tuple(tuple_random_tuple(random, depth_max - 1));
    }
}

static inline keel_tuple tuple_random_tuple(tuple_random *random, size_t depth_max) {
    size_t count = tuple_random_below(random, 5);
    if (random->element_count + count > TUPLE_RANDOM_ELEMENTS)
        abort();
    keel_element *elements = random->elements + random->element_count;
    random->element_count += count;
    for (size_t i = 0; i < count; i++)
        elements[i] = tuple_random_element(random, depth_max);
    return keel_tuple_of(elements, count);
}

#endif
