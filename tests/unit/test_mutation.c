/* SPDX-License-Identifier: Apache-2.0 */
/* Every atomic operation against its documented rule, and versionstamps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "database/mutation.h"
#include "util/memory.h"

#define B(text) BYTES_LITERAL(text)

/* `present` NULL: the key is missing; `expected` NULL: it is removed. */
struct sample {
    enum mutation_type type;
    const struct bytes *present;
    struct bytes operand;
    const struct bytes *expected;
};

#define P(text) (&(struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

static void check(const struct sample *sample, int number) {
    struct arena arena = {0};
    struct bytes result = {0};
    bool cleared;
    assert_int_equal(mutation_apply(sample->type, sample->present, sample->operand, &arena, &result,
                                    &cleared), 0);
    if (cleared != (sample->expected == NULL))
        fail_msg("sample %d: cleared %d", number, cleared);
    if (!cleared && !bytes_equal(result, *sample->expected))
        fail_msg("sample %d: %zu bytes, first %d", number, result.length,
                 result.length ? result.data[0] : -1);
    arena_free(&arena);
}

static void test_rules(void **state) {
    (void)state;
    const struct sample samples[] = {
        {MUTATION_ADD, P("\x01\x00"), B("\x02\x00"), P("\x03\x00")},
        {MUTATION_ADD, P("\xff\x00"), B("\x01\x00"), P("\x00\x01")},
        {MUTATION_ADD, P("\xff\xff"), B("\x01\x00"), P("\x00\x00")},
        {MUTATION_ADD, P("\xff"), B("\x01\x00\x00"), P("\x00\x01\x00")},
        {MUTATION_ADD, P("\x01\x02\x03"), B("\x01"), P("\x02")},
        {MUTATION_ADD, NULL, B("\x05\x00"), P("\x05\x00")},
        {MUTATION_ADD, P(""), B("\x05"), P("\x05")},
        {MUTATION_ADD, P("\x05"), B(""), P("")},
        {MUTATION_AND, P("\x0f\xff"), B("\x3c"), P("\x0c")},
        {MUTATION_AND, P("\x0f"), B("\x3c\xff"), P("\x0c\x00")},
        {MUTATION_AND, NULL, B("\x3c"), P("\x00")},
        {MUTATION_AND_V2, NULL, B("\x3c"), P("\x3c")},
        {MUTATION_AND_V2, P(""), B("\x3c"), P("\x00")},
        {MUTATION_AND_V2, P("\x0f"), B("\x3c"), P("\x0c")},
        {MUTATION_OR, P("\x0f"), B("\x30\x01"), P("\x3f\x01")},
        {MUTATION_OR, P("\x0f\x0f"), B("\x30"), P("\x3f")},
        {MUTATION_OR, NULL, B("\x30"), P("\x30")},
        {MUTATION_XOR, P("\x0f"), B("\x33\x01"), P("\x3c\x01")},
        {MUTATION_XOR, NULL, B("\x33"), P("\x33")},
        {MUTATION_APPEND_IF_FITS, P("ab"), B("cd"), P("abcd")},
        {MUTATION_APPEND_IF_FITS, NULL, B("cd"), P("cd")},
        {MUTATION_APPEND_IF_FITS, P("ab"), B(""), P("ab")},
        {MUTATION_MAX, P("\x01\x02"), B("\x02\x01"), P("\x01\x02")},
        {MUTATION_MAX, P("\xff"), B("\x00\x01"), P("\x00\x01")},
        {MUTATION_MAX, P("\xff"), B("\x01\x00"), P("\xff\x00")},
        {MUTATION_MAX, P("\x02\x07"), B("\x03"), P("\x03")},
        {MUTATION_MAX, P("\x05\x07"), B("\x03"), P("\x05")},
        {MUTATION_MAX, NULL, B("\x00"), P("\x00")},
        {MUTATION_MIN, P("\x01\x02"), B("\x02\x01"), P("\x02\x01")},
        {MUTATION_MIN, NULL, B("\x02\x01"), P("\x00\x00")},
        {MUTATION_MIN_V2, NULL, B("\x02\x01"), P("\x02\x01")},
        {MUTATION_MIN_V2, P(""), B("\x02"), P("\x00")},
        {MUTATION_MIN_V2, P("\x01"), B("\x00\x01"), P("\x01\x00")},
        {MUTATION_MIN_V2, P("\x02\x07"), B("\x03"), P("\x02")},
        {MUTATION_MIN_V2, P("\x05"), B(""), P("")},
        {MUTATION_BYTE_MIN, P("ab"), B("b"), P("ab")},
        {MUTATION_BYTE_MIN, P("b"), B("ab"), P("ab")},
        {MUTATION_BYTE_MIN, NULL, B("b"), P("b")},
        {MUTATION_BYTE_MIN, P(""), B("b"), P("")},
        {MUTATION_BYTE_MAX, P("ab"), B("b"), P("b")},
        {MUTATION_BYTE_MAX, P("abc"), B("ab"), P("abc")},
        {MUTATION_BYTE_MAX, NULL, B(""), P("")},
        {MUTATION_COMPARE_AND_CLEAR, P("ab"), B("ab"), NULL},
        {MUTATION_COMPARE_AND_CLEAR, P("ab"), B("abc"), P("ab")},
        {MUTATION_COMPARE_AND_CLEAR, NULL, B("ab"), NULL},
        {MUTATION_COMPARE_AND_CLEAR, P(""), B(""), NULL},
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        check(&samples[i], (int)i);
}

static void test_append_limit(void **state) {
    (void)state;
    struct arena arena = {0};
    uint8_t *large = calloc(1, VALUE_BYTES_MAX);
    struct bytes present = bytes_make(large, VALUE_BYTES_MAX - 1), result;
    bool cleared;
    assert_int_equal(mutation_apply(MUTATION_APPEND_IF_FITS, &present, B("xy"), &arena, &result,
                                    &cleared), 0);
    assert_int_equal(result.length, VALUE_BYTES_MAX - 1);
    assert_int_equal(mutation_apply(MUTATION_APPEND_IF_FITS, &present, B("x"), &arena, &result,
                                    &cleared), 0);
    assert_int_equal(result.length, VALUE_BYTES_MAX);
    arena_free(&arena);
    free(large);
}

static void test_which_are_atomic(void **state) {
    (void)state;
    assert_false(mutation_is_atomic(MUTATION_SET));
    assert_false(mutation_is_atomic(MUTATION_CLEAR_RANGE));
    assert_false(mutation_is_atomic(MUTATION_SET_VERSIONSTAMPED_KEY));
    assert_false(mutation_is_atomic(MUTATION_SET_VERSIONSTAMPED_VALUE));
    assert_false(mutation_is_atomic((enum mutation_type)3));
    assert_false(mutation_is_atomic((enum mutation_type)21));
    assert_true(mutation_is_atomic(MUTATION_COMPARE_AND_CLEAR));
}

static void test_stamps(void **state) {
    (void)state;
    struct bytes body;
    size_t offset;
    assert_int_equal(mutation_stamp_position(B("ab0123456789c\x02\0\0\0"), &body, &offset), 0);
    assert_int_equal(body.length, 13);
    assert_int_equal(offset, 2);
    assert_int_equal(mutation_stamp_position(B("0123456789\0\0\0\0"), &body, &offset), 0);
    assert_int_equal(mutation_stamp_position(B("0123456789\x01\0\0\0"), &body, &offset), 2000);
    assert_int_equal(mutation_stamp_position(B("0123456789\xff\xff\xff\xff"), &body, &offset),
                     2000);
    assert_int_equal(mutation_stamp_position(B("\0\0\0"), &body, &offset), 2000);
    assert_int_equal(mutation_stamp_position(B("\0\0\0\0"), &body, &offset), 2000);
    uint8_t stamp[10];
    mutation_stamp_write(stamp, 0x0102030405060708, 0x090a);
    for (int i = 0; i < 10; i++)
        assert_int_equal(stamp[i], i + 1);
}

static void test_out_of_memory(void **state) {
    (void)state;
    struct arena arena = {0};
    struct bytes present = B("a"), result = B("untouched");
    bool cleared;
    memory_fail_after(0);
    fdb_error_t error = mutation_apply(MUTATION_ADD, &present, B("b"), &arena, &result, &cleared);
    memory_fail_after(-1);
    assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
    assert_true(bytes_equal(result, B("untouched")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),           cmocka_unit_test(test_append_limit),
        cmocka_unit_test(test_which_are_atomic), cmocka_unit_test(test_stamps),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
