/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuple layer over random tuples: packed order is element order, everything reads back, the
 * builder writes what packing writes, and no truncation or corruption of packed bytes is read
 * beyond their end (each is put into memory of exactly its size, for the address sanitizer to
 * watch).
 *
 * KEEL_SEED picks another seed, KEEL_ROUNDS how many tuples; a failure names both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tuple_random.h"

enum { SPACE = 8192, DEPTH = 3 };

static tuple_random *start(bool with_incomplete) {
    static tuple_random random;
    random.state = tuple_random_seed();
    random.with_incomplete = with_incomplete;
    tuple_random_reset(&random);
    print_message("seed %llu; again with KEEL_SEED=%llu\n", (unsigned long long)random.state,
                  (unsigned long long)random.state);
    return &random;
}

static int sign(int order) {
    return (order > 0) - (order < 0);
}

static keel_bytes pack(keel_tuple tuple, uint8_t *buffer) {
    size_t length;
    assert_int_equal(keel_tuple_pack(tuple, buffer, SPACE, &length), 0);
    return keel_bytes_of(buffer, length);
}

static keel_tuple unpack(keel_bytes packed, keel_element *elements, size_t capacity) {
    size_t count;
    assert_int_equal(keel_tuple_unpack(packed, elements, capacity, &count, NULL), 0);
    return keel_tuple_of(elements, count);
}

static void assert_same_bytes(keel_bytes a, keel_bytes b) {
    assert_int_equal(a.length, b.length);
    assert_int_equal(keel_bytes_compare(a, b), 0);
}

/*
 * The order of the bytes is that of the elements, whether they were made or iterated, in any mix.
 */
static void test_order(void **state) {
    tuple_random *random = start(false);
    size_t rounds = tuple_random_rounds(20000);
    uint8_t space_a[SPACE], space_b[SPACE];
    keel_element elements_a[16], elements_b[16];
    (void)state;
    for (size_t round = 0; round < rounds; round++) {
        tuple_random_reset(random);
        keel_tuple a = tuple_random_tuple(random, DEPTH), b = tuple_random_tuple(random, DEPTH);
        if (tuple_random_below(random, 2) && a.count > 0 && b.count > 0) /* alike at first */
            ((keel_element *)b.elements)[0] = a.elements[0];
        keel_bytes packed_a = pack(a, space_a), packed_b = pack(b, space_b);
        keel_tuple read_a = unpack(packed_a, elements_a, 16),
            read_b = unpack(packed_b, elements_b, 16);
        int expected = sign(keel_bytes_compare(packed_a, packed_b));
        assert_int_equal(sign(keel_tuple_compare(a, b)), expected);
        assert_int_equal(sign(keel_tuple_compare(b, a)), -expected);
        assert_int_equal(sign(keel_tuple_compare(read_a, read_b)), expected);
        assert_int_equal(sign(keel_tuple_compare(a, read_b)), expected);
        assert_int_equal(sign(keel_tuple_compare(read_a, b)), expected);
        assert_int_equal(keel_tuple_compare(a, read_a), 0);
        assert_int_equal(keel_tuple_compare(a, a), 0);
    }
}

/* A tuple lies in its prefixes' ranges and not in its own. */
static void test_ranges(void **state) {
    tuple_random *random = start(false);
    size_t rounds = tuple_random_rounds(5000);
    uint8_t key[SPACE], begin[SPACE], end[SPACE], next[SPACE];
    (void)state;
    for (size_t round = 0; round < rounds; round++) {
        tuple_random_reset(random);
        keel_tuple tuple = tuple_random_tuple(random, DEPTH),
            other = tuple_random_tuple(random, DEPTH);
        size_t length, next_length;
        keel_bytes packed = pack(tuple, key);
        for (size_t prefix = 0; prefix <= tuple.count; prefix++) {
            keel_tuple shorter = keel_tuple_of(tuple.elements, prefix);
            assert_int_equal(keel_tuple_range(shorter, begin, end, SPACE, &length), 0);
            bool inside = keel_bytes_compare(packed, keel_bytes_of(begin, length)) >= 0 &&
                          keel_bytes_compare(packed, keel_bytes_of(end, length)) < 0;
            assert_int_equal(inside, prefix < tuple.count);
            keel_bytes packed_other = pack(other, next);
            bool extends = other.count > prefix &&
                keel_tuple_compare(shorter, keel_tuple_of(other.elements, prefix)) == 0;
            inside = keel_bytes_compare(packed_other, keel_bytes_of(begin, length)) >= 0 &&
                     keel_bytes_compare(packed_other, keel_bytes_of(end, length)) < 0;
            assert_int_equal(inside, extends);
        }
        if (packed.length > 0 && keel_strinc(packed, next, SPACE, &next_length) == 0) {
            keel_bytes successor = keel_bytes_of(next, next_length);
            assert_true(keel_bytes_compare(packed, successor) < 0);
            memcpy(begin, packed.data, packed.length);
            memset(begin + packed.length, 0xff, 8);
            assert_true(keel_bytes_compare(keel_bytes_of(begin, packed.length + 8), successor) < 0);
        }
    }
}

/* pack, iterate, pack; print, parse; builder: all the same bytes. */
static void test_round_trips(void **state) {
    tuple_random *random = start(true);
    size_t rounds = tuple_random_rounds(5000);
    static char text[SPACE * 4];
    uint8_t parsed[SPACE];
    keel_element elements[16];
    keel_tuple_builder builder, second;
    (void)state;
    keel_tuple_builder_init(&builder);
    keel_tuple_builder_init(&second);
    for (size_t round = 0; round < rounds; round++) {
        size_t length, text_length;
        keel_bytes packed, again;
        tuple_random_reset(random);
        keel_tuple tuple = tuple_random_tuple(random, DEPTH);
        keel_tuple_builder_clear(&builder);
        keel_tuple_append_all(&builder, tuple);
        assert_int_equal(keel_tuple_builder_finish_any(&builder, &packed), 0);
        assert_int_equal(keel_tuple_pack(tuple, parsed, SPACE, &length),
                         keel_tuple_has_incomplete(tuple) ? KEEL_ERROR_INCOMPLETE_VERSIONSTAMP : 0);
        if (!keel_tuple_has_incomplete(tuple))
            assert_same_bytes(packed, keel_bytes_of(parsed, length));
        keel_tuple_builder_clear(&second);
        keel_tuple_append_all(&second, unpack(packed, elements, 16));
        assert_int_equal(keel_tuple_builder_finish_any(&second, &again), 0);
        assert_same_bytes(packed, again);
        keel_tuple_builder_clear(&second);
        keel_tuple_append_packed(&second, packed);
        assert_int_equal(keel_tuple_builder_finish_any(&second, &again), 0);
        assert_same_bytes(packed, again);
        assert_int_equal(keel_tuple_print(packed, text, sizeof text, &text_length), 0);
        assert_int_equal(keel_tuple_parse(text, text_length, parsed, SPACE, &length, NULL), 0);
        assert_same_bytes(packed, keel_bytes_of(parsed, length));
    }
    keel_tuple_builder_free(&builder);
    keel_tuple_builder_free(&second);
}

/* Takes nested tuples apart with begin and end instead of handing them over whole. */
static void append_slowly(keel_tuple_builder *builder, keel_tuple tuple) {
    for (size_t i = 0; i < tuple.count; i++) {
        if (tuple.elements[i].type != KEEL_TYPE_NESTED) {
            keel_tuple_append(builder, tuple.elements[i]);
            continue;
        }
        keel_tuple_append_begin(builder);
        append_slowly(builder, tuple.elements[i].value.as_tuple);
        keel_tuple_append_end(builder);
    }
}

/* The builder and packing agree, also on versionstamps, where exactly one may be. */
static void test_builder(void **state) {
    tuple_random *random = start(true);
    size_t rounds = tuple_random_rounds(5000);
    uint8_t space[SPACE];
    (void)state;
    for (size_t round = 0; round < rounds; round++) {
        keel_tuple_builder builder;
        keel_bytes built;
        size_t length;
        tuple_random_reset(random);
        keel_tuple tuple = tuple_random_tuple(random, DEPTH);
        keel_bytes prefix = tuple_random_bytes(random);
        fdb_error_t error = keel_tuple_pack_versionstamp_prefix(prefix, tuple, space, SPACE,
                                                                &length);
        keel_tuple_builder_init(&builder);
        keel_tuple_append_prefix(&builder, prefix);
        append_slowly(&builder, tuple);
        assert_int_equal(keel_tuple_builder_finish_versionstamp(&builder, &built), error);
        if (!error) {
            assert_same_bytes(built, keel_bytes_of(space, length));
            size_t position = (size_t)(space[length - 4] | space[length - 3] << 8);
            assert_int_equal(space[position - 1], 0x33);
            assert_memory_equal(space + position, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10);
        }
        error = keel_tuple_pack_prefix(prefix, tuple, space, SPACE, &length);
        assert_int_equal(keel_tuple_builder_finish(&builder, &built), error);
        if (!error)
            assert_same_bytes(built, keel_bytes_of(space, length));
        keel_tuple_builder_free(&builder);
    }
}

/* --- Bytes that are not what was packed --- */

/*
 * Every way of reading them, in memory that ends where they do. They either are a tuple, which then
 * reads and writes, or none, with an offset inside.
 */
static void read_every_way(const uint8_t *bytes, size_t length) {
    static char text[SPACE * 8];
    uint8_t *exact = malloc(length ? length : 1);
    size_t offset = SIZE_MAX, count = 0, text_length;
    keel_element elements[64];
    if (length > 0)
        memcpy(exact, bytes, length);
    keel_bytes packed = keel_bytes_of(exact, length);
    fdb_error_t error = keel_tuple_check(packed, &offset);
    if (error) {
        assert_int_equal(error, KEEL_ERROR_TUPLE_MALFORMED);
        assert_true(offset <= length);
        assert_int_equal(keel_tuple_print(packed, text, sizeof text, &text_length), error);
        assert_int_equal(keel_tuple_unpack(packed, elements, 64, &count, &offset), error);
        assert_true(offset <= length);
    } else {
        assert_int_equal(keel_tuple_print(packed, text, sizeof text, &text_length), 0);
        assert_int_equal(keel_tuple_unpack(packed, elements, 64, &count, NULL), 0);
        keel_tuple tuple = keel_tuple_of(elements, count);
        assert_int_equal(keel_tuple_compare(tuple, tuple), 0);
        uint8_t parsed[SPACE];
        size_t parsed_length;
        keel_tuple_builder builder;
        keel_bytes again;
        assert_int_equal(keel_tuple_parse(text, text_length, parsed, SPACE, &parsed_length, NULL),
                         0);
        keel_tuple_builder_init(&builder);
        keel_tuple_append_all(&builder, tuple);
        assert_int_equal(keel_tuple_builder_finish_any(&builder, &again), 0);
        assert_same_bytes(again, keel_bytes_of(parsed, parsed_length));
        /* the same, or integers that were longer than needed */
        assert_true(again.length <= length);
        keel_tuple_builder_free(&builder);
    }
    free(exact);
}

static void test_damage(void **state) {
    tuple_random *random = start(true);
    size_t rounds = tuple_random_rounds(300);
    (void)state;
    for (size_t round = 0; round < rounds; round++) {
        keel_tuple_builder builder;
        keel_bytes packed;
        tuple_random_reset(random);
        keel_tuple_builder_init(&builder);
        keel_tuple_append_all(&builder, tuple_random_tuple(random, 2));
        assert_int_equal(keel_tuple_builder_finish_any(&builder, &packed), 0);
        uint8_t *bytes = (uint8_t *)packed.data;
        for (size_t i = 0; i < packed.length; i++) {
            uint8_t was = bytes[i];
            read_every_way(bytes, i);
            bytes[i] = (uint8_t)tuple_random_next(random);
            read_every_way(bytes, packed.length);
            bytes[i] = was ^ (uint8_t)(1u << tuple_random_below(random, 8));
            read_every_way(bytes, packed.length);
            bytes[i] = 0x00;
            read_every_way(bytes, packed.length);
            bytes[i] = 0x05;
            read_every_way(bytes, packed.length);
            bytes[i] = was;
        }
        keel_tuple_builder_free(&builder);
    }
}

/* One small tuple of every type with each byte set to all 256 values. */
static void test_every_byte(void **state) {
    static const char *const texts[] =
        {"(\"a\", 0x0061, (null, -300), 77)", "(1.5f, true, ((null), 0x00))",
         "(18446744073709551616, 2.5, null)",
                                        "(-18446744073709551616)",
                                        "(uuid(00112233-4455-6677-8899-aabbccddeeff))",
                                                "((incomplete(1)), null)"};
    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        uint8_t packed[256];
        size_t length;
        assert_int_equal(keel_tuple_parse(texts[t], strlen(texts[t]), packed, sizeof packed,
                                          &length, NULL), 0);
        for (size_t i = 0; i < length; i++) {
            uint8_t was = packed[i];
            for (unsigned value = 0; value < 256; value++) {
                packed[i] = (uint8_t)value;
                read_every_way(packed, length);
            }
            packed[i] = was;
            read_every_way(packed, i);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),   cmocka_unit_test(test_ranges),
            cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_builder), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
