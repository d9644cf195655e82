/* SPDX-License-Identifier: Apache-2.0 */
/* Subspaces: prefixes raw and packed, keys in and out, ranges, nesting, and the longest prefix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include <keel/subspace.h>

static void assert_bytes(keel_bytes found, const char *expected, size_t length) {
    assert_int_equal(found.length, length);
    assert_memory_equal(found.data, expected, length);
}

static void test_prefixes(void **state) {
    keel_subspace all, raw, tuple, both, nested;
    (void)state;
    assert_int_equal(keel_subspace_raw(KEEL_BYTES(NULL, 0), &all), 0);
    assert_int_equal(keel_subspace_prefix(&all).length, 0);
    assert_int_equal(keel_subspace_raw(KEEL_BYTES("\xfe", 1), &raw), 0);
    assert_bytes(keel_subspace_prefix(&raw), "\xfe", 1);
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("a", 1), &tuple), 0);
    assert_bytes(keel_subspace_prefix(&tuple), "\x02" "a\0\x15\x01", 5);
    assert_int_equal(keel_subspace_raw_tuple(KEEL_BYTES("\xfe", 1), KEEL_TUPLE(KEEL_NIL), &both),
                     0);
    assert_bytes(keel_subspace_prefix(&both), "\xfe\0", 2);
    assert_int_equal(keel_subspace_nested(&tuple, KEEL_TUPLE(2), &nested), 0);
    assert_bytes(keel_subspace_prefix(&nested), "\x02" "a\0\x15\x01\x15\x02", 7);
    assert_int_equal(keel_subspace_nested(&nested, KEEL_TUPLE(0), &nested), 0); /* into itself */
    assert_bytes(keel_subspace_prefix(&nested), "\x02" "a\0\x15\x01\x15\x02\x14", 8);
    keel_subspace copy = nested;
    assert_bytes(keel_subspace_prefix(&copy), "\x02" "a\0\x15\x01\x15\x02\x14", 8);
}

static void test_errors_leave_it(void **state) {
    uint8_t large[KEEL_SUBSPACE_PREFIX_MAX + 1];
    keel_subspace subspace;
    (void)state;
    memset(large, 'x', sizeof large);
    assert_int_equal(keel_subspace_raw(KEEL_BYTES("keep", 4), &subspace), 0);
    assert_int_equal(keel_subspace_raw(KEEL_BYTES(large, sizeof large), &subspace),
                     KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE(KEEL_INCOMPLETE(1)), &subspace),
                     KEEL_ERROR_INCOMPLETE_VERSIONSTAMP);
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("\xff"), &subspace), KEEL_ERROR_NOT_UTF8);
    assert_bytes(keel_subspace_prefix(&subspace), "keep", 4);
    assert_int_equal(keel_subspace_raw(KEEL_BYTES(large, KEEL_SUBSPACE_PREFIX_MAX), &subspace), 0);
    assert_int_equal(keel_subspace_prefix(&subspace).length, KEEL_SUBSPACE_PREFIX_MAX);
}

static void test_keys(void **state) {
    keel_subspace users, others;
    uint8_t key[64];
    size_t length = 0;
    int64_t id;
    keel_tuple_iterator it;
    (void)state;
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("u"), &users), 0);
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("v"), &others), 0);
    assert_int_equal(keel_subspace_pack(&users, KEEL_TUPLE(5), key, 4, &length),
                     KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 5);
    assert_int_equal(keel_subspace_pack(&users, KEEL_TUPLE(5), key, sizeof key, &length), 0);
    assert_bytes(keel_bytes_of(key, length), "\x02u\0\x15\x05", 5);
    assert_true(keel_subspace_contains(&users, keel_bytes_of(key, length)));
    assert_true(keel_subspace_contains(&users, keel_subspace_prefix(&users)));
    assert_false(keel_subspace_contains(&users, keel_bytes_of(key, 2)));
    assert_false(keel_subspace_contains(&others, keel_bytes_of(key, length)));
    assert_int_equal(keel_subspace_unpack(&others, keel_bytes_of(key, length), &it),
                     KEEL_ERROR_NOT_IN_SUBSPACE);
    assert_int_equal(keel_subspace_unpack(&users, keel_bytes_of(key, length), &it), 0);
    assert_int_equal(it.position, 3);
    assert_int_equal(keel_tuple_next_int(&it, &id), 0);
    assert_int_equal(id, 5);
    assert_true(keel_tuple_at_end(&it));
    assert_int_equal(keel_subspace_unpack(&users, KEEL_BYTES("\x02u\0\xff", 4), &it), 0);
    assert_int_equal(keel_tuple_next_int(&it, &id), KEEL_ERROR_TUPLE_MALFORMED);
    assert_int_equal(it.position, 3); /* in the key */
    assert_int_equal(keel_subspace_pack_versionstamp(&users, KEEL_TUPLE(KEEL_INCOMPLETE(7)), key,
                                                     sizeof key, &length), 0);
    assert_bytes(keel_bytes_of(key, length),
                 "\x02u\0\x33\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\x07\x04\0\0\0", 20);
    assert_int_equal(keel_subspace_pack_versionstamp(&users, KEEL_TUPLE(1), key, sizeof key,
                                                     &length), KEEL_ERROR_NO_VERSIONSTAMP);
}

static void test_ranges(void **state) {
    keel_subspace subspace;
    keel_range range;
    uint8_t begin[8], end[8];
    size_t length;
    (void)state;
    assert_int_equal(keel_subspace_raw(KEEL_BYTES("s", 1), &subspace), 0);
    assert_int_equal(keel_subspace_range(&subspace, KEEL_TUPLE(), &range), 0);
    assert_bytes(keel_bytes_of(range.begin, range.begin_length), "s\0", 2);
    assert_bytes(keel_bytes_of(range.end, range.end_length), "s\xff", 2);
    assert_int_equal(keel_subspace_range(&subspace, KEEL_TUPLE(1), &range), 0);
    assert_bytes(keel_bytes_of(range.begin, range.begin_length), "s\x15\x01\0", 4);
    assert_bytes(keel_bytes_of(range.end, range.end_length), "s\x15\x01\xff", 4);
    assert_int_equal(keel_subspace_range_into(&subspace, KEEL_TUPLE(1), begin, end, 3, &length),
                     KEEL_ERROR_BUFFER_TOO_SMALL);
    assert_int_equal(length, 4);
    assert_int_equal(keel_subspace_range_into(&subspace, KEEL_TUPLE(1), begin, end, 4, &length), 0);
    assert_bytes(keel_bytes_of(end, length), "s\x15\x01\xff", 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_errors_leave_it),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
