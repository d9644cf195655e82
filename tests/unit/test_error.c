/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error table: every code has one text of its own, and the retry predicates cover exactly the
 * codes they promise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "foundationdb/fdb_c_options.g.h"
#include "util/error.h"

static const struct {
    int code;
    const char *name, *text;
} table[] = {
#define ROW(name, code, text) {code, #name, text},
    ERROR_TABLE(ROW)
#undef ROW
};

enum { TABLE_COUNT = sizeof table / sizeof *table };

static void codes_rise_and_have_texts(void **state) {
    (void)state;
    for (int i = 0; i < TABLE_COUNT; i++) {
        assert_true(strlen(table[i].text) > 0);
        assert_string_equal(error_text(table[i].code), table[i].text);
        if (i)
            assert_true(table[i - 1].code < table[i].code);
    }
}

static void texts_differ(void **state) {
    (void)state;
    for (int i = 0; i < TABLE_COUNT; i++)
        for (int j = i + 1; j < TABLE_COUNT; j++)
            assert_string_not_equal(table[i].text, table[j].text);
}

static void unknown_codes_have_a_text(void **state) {
    (void)state;
    static const int unknown[] = {-1, 2, 999, 1013, 3000, 19999, 20999, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_non_null(error_text(unknown[i]));
}

static int is_in(const int *codes, int count, int code) {
    for (int i = 0; i < count; i++)
        if (codes[i] == code)
            return 1;
    return 0;
}

static void predicates_are_exact(void **state) {
    (void)state;
    static const int maybe[] = {1021, 1039};
    static const int surely_not[] =
        {1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1213, 1223, 1235, 1242, 20021};
    for (int code = -10; code < 21000; code++) {
        int expect_maybe = is_in(maybe, 2, code), expect_not = is_in(surely_not, 13, code);
        assert_int_equal(error_predicate(FDB_ERROR_PREDICATE_MAYBE_COMMITTED, code), expect_maybe);
        assert_int_equal(error_predicate(FDB_ERROR_PREDICATE_RETRYABLE_NOT_COMMITTED, code),
                         expect_not);
        assert_int_equal(error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, code),
                         expect_maybe || expect_not);
        assert_int_equal(error_predicate(50003, code), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_rise_and_have_texts),
        cmocka_unit_test(texts_differ),
        cmocka_unit_test(unknown_codes_have_a_text),
        cmocka_unit_test(predicates_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
