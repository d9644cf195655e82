/* SPDX-License-Identifier: Apache-2.0 */
/* Error texts and predicates, and the versions the library states. */
#include "support.h"

static void every_code_has_a_text(void **state) {
    (void)state;
    for (fdb_error_t code = -100; code <= 5000; code++) {
        const char *message = fdb_get_error(code);
        assert_non_null(message);
        assert_true(strlen(message) > 0);
    }
    assert_non_null(fdb_get_error(INT32_MAX));
    assert_non_null(fdb_get_error(INT32_MIN));
}

static void known_codes_have_texts_of_their_own(void **state) {
    (void)state;
    static const fdb_error_t codes[] = {0,    1007, 1009, 1020, 1021, 1025, 1031, 1032, 1036, 1101,
                                        2004, 2005, 2006, 2007, 2017, 2101, 2102, 2103, 2210, 4100};
    size_t count = sizeof codes / sizeof codes[0];
    for (size_t i = 0; i < count; i++) {
        assert_string_not_equal(fdb_get_error(codes[i]), fdb_get_error(3999));
        for (size_t j = i + 1; j < count; j++) {
            assert_string_not_equal(fdb_get_error(codes[i]), fdb_get_error(codes[j]));
        }
    }
    assert_string_equal(fdb_get_error(0), "Success");
}

static bool contains(const fdb_error_t *codes, size_t count, fdb_error_t code) {
    for (size_t i = 0; i < count; i++) {
        if (codes[i] == code) {
            return true;
        }
    }
    return false;
}

static void predicates_hold_for_exactly_their_codes(void **state) {
    (void)state;
    static const fdb_error_t maybe[] = {1021, 1039};
    static const fdb_error_t not_committed[] = {1007, 1009, 1020, 1037, 1038, 1042,
                                                1051, 1213, 1078, 1223, 1235, 1242};
    /* The library's own answers; those of 6.3 end before 1078. */
    size_t not_committed_count = fdb_get_max_api_version() < 700 ? 8 : 12;
    for (fdb_error_t code = 0; code < 5000; code++) {
        bool in_maybe = contains(maybe, sizeof maybe / sizeof maybe[0], code);
        bool in_not = contains(not_committed, not_committed_count, code);
        bool found_maybe = fdb_error_predicate(FDB_ERROR_PREDICATE_MAYBE_COMMITTED, code) != 0;
        bool found_not =
            fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE_NOT_COMMITTED, code) != 0;
        bool found_retryable = fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, code) != 0;
        if (found_maybe != in_maybe || found_not != in_not ||
            found_retryable != (in_maybe || in_not)) {
            fail_msg("predicates of %d: retryable %d, maybe %d, not committed %d", code,
                     found_retryable, found_maybe, found_not);
        }
    }
}

static void unknown_predicates_are_false(void **state) {
    (void)state;
    assert_false(fdb_error_predicate(0, 1020));
    assert_false(fdb_error_predicate(49999, 1020));
    assert_false(fdb_error_predicate(50003, 1020));
    assert_false(fdb_error_predicate(-1, 1020));
}

static void versions_are_stated(void **state) {
    (void)state;
    assert_true(fdb_get_max_api_version() >= run_version());
    const char *version = fdb_get_client_version();
    assert_non_null(version);
    /* release,source,protocol */
    const char *comma = strchr(version, ',');
    assert_non_null(comma);
    assert_non_null(strchr(comma + 1, ','));
}

static void api_version_is_chosen_once(void **state) {
    (void)state;
    assert_int_equal(fdb_select_api_version_impl(740, 740), ERROR_API_VERSION_ALREADY_SET);
    assert_int_equal(fdb_select_api_version_impl(510, 740), ERROR_API_VERSION_ALREADY_SET);
    assert_int_equal(fdb_select_api_version_impl(99999, 740), ERROR_API_VERSION_ALREADY_SET);
}

static void network_is_set_up_once(void **state) {
    (void)state;
    assert_int_equal(fdb_setup_network(), ERROR_NETWORK_ALREADY_SETUP);
}

int group_errors(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_code_has_a_text),
        TEST(known_codes_have_texts_of_their_own),
        TEST(predicates_hold_for_exactly_their_codes),
        TEST(unknown_predicates_are_false),
        TEST(versions_are_stated),
        TEST(api_version_is_chosen_once),
        TEST(network_is_set_up_once),
    };
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
