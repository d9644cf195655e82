/* SPDX-License-Identifier: Apache-2.0 */
/* Read-your-writes beyond the basics in get.c and ranges.c, and the option that turns it off. */
#include "support.h"

static void own_set_and_clear_are_seen(void **state) {
    (void)state;
    store_text("a", "old");
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("new"));
    assert_value(future_value(get(tr, key("a"))), text("new"));
    erase(tr, key("a"));
    assert_absent(future_value(get(tr, key("a"))));
    put(tr, key("a"), text("again"));
    assert_value(future_value(get(tr, key("a"))), text("again"));
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), text("old"));
}

static void a_read_value_changes_with_later_writes(void **state) {
    (void)state;
    store_text("a", "old");
    FDBTransaction *tr = begin();
    assert_value(future_value(get(tr, key("a"))), text("old"));
    put(tr, key("a"), text("new"));
    assert_value(future_value(get(tr, key("a"))), text("new"));
    fdb_transaction_destroy(tr);
}

static void a_started_read_does_not_see_a_later_write(void **state) {
    (void)state;
    store_text("a", "old");
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    FDBFuture *before = get(tr, key("a"));
    put(tr, key("a"), text("new"));
    struct value value = future_value(before);
    assert_value(value, text("old"));
    fdb_transaction_destroy(tr);
}

static void overlapping_clears_and_sets(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    for (char letter = 'a'; letter <= 'j'; letter++) {
        put(tr, key((char[]){letter, 0}), text("0"));
    }
    commit(tr);
    fdb_transaction_reset(tr);
    erase_range(tr, key("b"), key("e"));
    put(tr, key("c"), text("1"));
    erase_range(tr, key("d"), key("h"));
    put(tr, key("g"), text("2"));
    erase_range(tr, key("g"), key("gg"));
    put(tr, key("dd"), text("3"));
    const char *expected = "a=0 c=1 dd=3 h=0 i=0 j=0";
    assert_rows(read_range(tr, all()), expected);
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), expected);
    fdb_transaction_destroy(tr);
}

static void many_pending_writes_stay_ordered(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    FDBTransaction *tr = begin();
    for (int i = 0; i < COUNT; i++) {
        int number = (i * 7919) % COUNT;
        uint8_t name[2] = {(uint8_t)(number >> 8), (uint8_t)number};
        put(tr, key_bytes(raw(name, 2)), little_endian((uint64_t)number, 4));
    }
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_EXACT;
    range.limit = COUNT + 1;
    for (int committed = 0; committed < 2; committed++) {
        struct rows rows = read_range(tr, range);
        assert_int_equal(rows.count, COUNT);
        assert_false(rows.more);
        for (int i = 0; i < COUNT; i++) {
            assert_bytes(rows.row[i].value, little_endian((uint64_t)i, 4));
        }
        if (!committed) {
            commit(tr);
            fdb_transaction_reset(tr);
        }
    }
    fdb_transaction_destroy(tr);
}

static void disabled_reads_do_not_see_writes(void **state) {
    (void)state;
    store_text("a", "old");
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    put(tr, key("a"), text("new"));
    put(tr, key("b"), text("new"));
    assert_value(future_value(get(tr, key("a"))), text("old"));
    assert_absent(future_value(get(tr, key("b"))));
    assert_rows(read_range(tr, all()), "a=old");
    assert_bytes(resolve(tr, key("a"), false, 1), key("a"));
    erase_range(tr, key(""), key("~"));
    assert_rows(read_range(tr, all()), "a=old");
    put(tr, key("c"), text("kept"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_absent(load(key("a")));
    assert_value(load(key("c")), text("kept"));
}

static void disabled_writes_apply_in_order(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    put(tr, key("a"), LITERAL("\x01"));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("a"), LITERAL("\x02"));
    put(tr, key("b"), text("x"));
    erase(tr, key("b"));
    erase_range(tr, key("c"), key("d"));
    put(tr, key("c"), text("y"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), LITERAL("\x03"));
    assert_absent(load(key("b")));
    assert_value(load(key("c")), text("y"));
}

/* 2000, from the call or from the next use. */
static void check_too_late(FDBTransaction *tr) {
    fdb_error_t error =
        fdb_transaction_set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE, NULL, 0);
    if (!error) {
        error = future_error(fdb_transaction_get_read_version(tr));
    }
    assert_int_equal(error, ERROR_CLIENT_INVALID_OPERATION);
    fdb_transaction_destroy(tr);
}

static void disabling_after_a_read_or_write_is_an_error(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("1"));
    check_too_late(tr);
    tr = begin();
    assert_ready(get(tr, key("a")));
    check_too_late(tr);
    tr = begin();
    assert_ready(get_range(tr, all()));
    check_too_late(tr);
}

static void disabled_transactions_still_conflict(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    assert_ready(get(tr, key("a")));
    store_text("a", "2");
    put(tr, key("b"), text("1"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(tr);
    assert_absent(load(key("b")));
}

static void reset_turns_it_on_again(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    fdb_transaction_reset(tr);
    put(tr, key("a"), text("seen"));
    assert_value(future_value(get(tr, key("a"))), text("seen"));
    fdb_transaction_destroy(tr);
}

/*
 * A key that compare_and_clear of the same transaction removes is not there. A cluster's client counts it all the same where a range's selector
 * steps over it, though not in get_key: see docs/differences.md.
 */
static void selectors_of_ranges_do_not_count_removed_keys(void **state) {
    (void)state;
    store_text("a", "1");
    store_text("b", "x");
    store_text("d", "4");
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_COMPARE_AND_CLEAR, key("b"), text("x"));
    assert_bytes(resolve(tr, key("c"), false, 0), key("a"));
    assert_bytes(resolve(tr, key("a"), false, 2), key("d"));
    fdb_transaction_reset(tr);
    mutate(tr, FDB_MUTATION_TYPE_COMPARE_AND_CLEAR, key("b"), text("x"));
    struct range range = span(key("a"), key("z"));
    range.begin = last_before(key("c"));
    struct rows rows = read_range(tr, range);
    if (run_is_embedded()) {
        assert_rows(rows, "a=1 d=4");
    }
    fdb_transaction_destroy(tr);
}

int group_read_your_writes(void) {
    const struct CMUnitTest tests[] = {
        TEST(own_set_and_clear_are_seen),
        TEST(a_read_value_changes_with_later_writes),
        TEST(a_started_read_does_not_see_a_later_write),
        TEST(overlapping_clears_and_sets),
        TEST(many_pending_writes_stay_ordered),
        TEST(disabled_reads_do_not_see_writes),
        TEST(disabled_writes_apply_in_order),
        TEST(disabling_after_a_read_or_write_is_an_error),
        TEST(disabled_transactions_still_conflict),
        TEST(reset_turns_it_on_again),
        TEST(selectors_of_ranges_do_not_count_removed_keys),
    };
    return cmocka_run_group_tests_name("read_your_writes", tests, NULL, NULL);
}
