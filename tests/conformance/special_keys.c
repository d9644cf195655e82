/* SPDX-License-Identifier: Apache-2.0 */
/* The special key space at API version 740; conflict ranges are in reported_conflicts.c. */
#include "support.h"

static void status_is_json(void **state) {
    (void)state;
    struct value status = load(LITERAL("\xff\xff/status/json"));
    assert_true(status.present);
    assert_true(status.bytes.size > 2);
    assert_int_equal(status.bytes.data[0], '{');
    assert_int_equal(status.bytes.data[status.bytes.size - 1], '}');
}

static void connection_string_and_cluster_file_are_there(void **state) {
    (void)state;
    assert_true(load(LITERAL("\xff\xff/connection_string")).present);
    assert_true(load(LITERAL("\xff\xff/cluster_file_path")).present);
}

static void unknown_keys_have_no_module(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    assert_fails(get(tr, LITERAL("\xff\xff/no such module")), ERROR_SPECIAL_KEYS_NO_MODULE_FOUND);
    assert_fails(get_range(tr, span(LITERAL("\xff\xff/nothing/a"), LITERAL("\xff\xff/nothing/b"))),
                 ERROR_SPECIAL_KEYS_NO_MODULE_FOUND);
    fdb_transaction_destroy(tr);
}

static void one_read_stays_in_one_module(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    struct range range = span(LITERAL("\xff\xff/status/json"), LITERAL("\xff\xff/transaction0"));
    assert_fails(get_range(tr, range), ERROR_SPECIAL_KEYS_CROSS_MODULE_READ);
    fdb_transaction_destroy(tr);
}

static void relaxed_reads_may_span_modules(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_SPECIAL_KEY_SPACE_RELAXED);
    struct range range = span(LITERAL("\xff\xff/status/json"), LITERAL("\xff\xff/transaction0"));
    range.limit = 1;
    assert_ready(get_range(tr, range));
    assert_absent(future_value(get(tr, LITERAL("\xff\xff/no such module"))));
    fdb_transaction_destroy(tr);
}

static void special_keys_cannot_be_written_by_default(void **state) {
    SINCE(700);
    FDBTransaction *tr = begin();
    put(tr, LITERAL("\xff\xff/management/excluded/x"), text(""));
    assert_int_equal(commit_error(tr), ERROR_SPECIAL_KEYS_WRITE_DISABLED);
    fdb_transaction_reset(tr);
    erase(tr, LITERAL("\xff\xff/management/excluded/x"));
    assert_int_equal(commit_error(tr), ERROR_SPECIAL_KEYS_WRITE_DISABLED);
    fdb_transaction_destroy(tr);
}

static void tenants_that_do_not_exist_can_be_cleared(void **state) {
    SINCE(700);
    static const char BEGIN[] = "\xff\xff/management/tenant/map/";
    static const char END[] = "\xff\xff/management/tenant/map0";
    FDBTransaction *tr = begin();
    assert_int_equal(
        fdb_transaction_set_option(tr, FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES, NULL, 0), 0);
    fdb_transaction_clear_range(tr, (const uint8_t *)BEGIN, sizeof BEGIN - 1, (const uint8_t *)END,
                                sizeof END - 1);
    assert_int_equal(commit_error(tr), 0);
    fdb_transaction_destroy(tr);
}

static void special_reads_do_not_conflict(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_ready(get(tr, LITERAL("\xff\xff/status/json")));
    store_text("a", "elsewhere");
    put(tr, key("b"), text("x"));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void selectors_stop_before_special_keys(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_fails(get_key(tr, LITERAL("\xff\xff/status/json"), false, 1),
                 ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_destroy(tr);
}

int group_special_keys(void) {
    const struct CMUnitTest tests[] = {
        TEST(status_is_json),
        TEST(connection_string_and_cluster_file_are_there),
        TEST(unknown_keys_have_no_module),
        TEST(one_read_stays_in_one_module),
        TEST(relaxed_reads_may_span_modules),
        TEST(special_keys_cannot_be_written_by_default),
        TEST(tenants_that_do_not_exist_can_be_cleared),
        TEST(special_reads_do_not_conflict),
        TEST(selectors_stop_before_special_keys),
    };
    return cmocka_run_group_tests_name("special_keys", tests, NULL, NULL);
}
