/* SPDX-License-Identifier: Apache-2.0 */
/* get_range: ends, limits, reverse, selectors, continuing, and the merge with pending writes. */
#include "support.h"

static void fill(const char *letters) {
    FDBTransaction *tr = begin();
    for (; *letters; letters++) {
        char name[2] = {*letters, 0};
        put(tr, key(name), text(name));
    }
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void range_includes_begin_and_not_end(void **state) {
    (void)state;
    fill("abcdef");
    FDBTransaction *tr = begin();
    struct rows rows = read_range(tr, span(key("b"), key("e")));
    assert_rows(rows, "b=b c=c d=d");
    assert_false(rows.more);
    assert_rows(read_range(tr, span(key("bb"), key("ee"))), "c=c d=d e=e");
    assert_rows(read_range(tr, all()), "a=a b=b c=c d=d e=e f=f");
    fdb_transaction_destroy(tr);
}

static void empty_and_inverted_ranges_are_empty(void **state) {
    (void)state;
    fill("abc");
    FDBTransaction *tr = begin();
    struct rows rows = read_range(tr, span(key("b"), key("b")));
    assert_int_equal(rows.count, 0);
    assert_false(rows.more);
    rows = read_range(tr, span(key("c"), key("a")));
    assert_int_equal(rows.count, 0);
    assert_false(rows.more);
    rows = read_range(tr, span(key("x"), key("y")));
    assert_int_equal(rows.count, 0);
    assert_false(rows.more);
    fdb_transaction_destroy(tr);
}

static void row_limit_cuts_and_more_says_so(void **state) {
    (void)state;
    fill("abcdef");
    FDBTransaction *tr = begin();
    struct range range = all();
    range.limit = 2;
    struct rows rows = read_range(tr, range);
    assert_rows(rows, "a=a b=b");
    assert_true(rows.more);
    range.limit = 100;
    rows = read_range(tr, range);
    assert_int_equal(rows.count, 6);
    assert_false(rows.more);
    fdb_transaction_destroy(tr);
}

static void reverse_starts_at_the_far_end(void **state) {
    (void)state;
    fill("abcdef");
    FDBTransaction *tr = begin();
    struct range range = all();
    range.reverse = true;
    assert_rows(read_range(tr, range), "f=f e=e d=d c=c b=b a=a");
    range.limit = 2;
    struct rows rows = read_range(tr, range);
    assert_rows(rows, "f=f e=e");
    assert_true(rows.more);
    range = span(key("b"), key("e"));
    range.reverse = true;
    assert_rows(read_range(tr, range), "d=d c=c b=b");
    fdb_transaction_destroy(tr);
}

static void selectors_at_both_ends(void **state) {
    (void)state;
    fill("abcdef");
    FDBTransaction *tr = begin();
    struct range range = all();
    range.begin = first_after(key("b"));
    range.end = first_after(key("e"));
    assert_rows(read_range(tr, range), "c=c d=d e=e");
    range.begin = last_before(key("c"));
    range.end = last_at_or_before(key("e"));
    assert_rows(read_range(tr, range), "b=b c=c d=d");
    range.begin = last_at_or_before(key("cc"));
    range.end = last_before(key("ff"));
    assert_rows(read_range(tr, range), "c=c d=d e=e");
    range.reverse = true;
    assert_rows(read_range(tr, range), "e=e d=d c=c");
    fdb_transaction_destroy(tr);
}

static void selectors_with_offsets(void **state) {
    (void)state;
    fill("abcdefgh");
    FDBTransaction *tr = begin();
    struct range range = all();
    range.begin = (struct selector){key("a"), false, 3};
    range.end = (struct selector){key("h"), false, -1};
    assert_rows(read_range(tr, range), "c=c d=d e=e");
    range.begin = (struct selector){key("d"), true, -1};
    range.end = (struct selector){key("d"), true, 3};
    assert_rows(read_range(tr, range), "c=c d=d e=e f=f");
    range.reverse = true;
    range.limit = 3;
    assert_rows(read_range(tr, range), "f=f e=e d=d");
    range.begin = (struct selector){key("d"), true, 3};
    range.end = (struct selector){key("d"), true, -1};
    assert_rows(read_range(tr, range), "");
    fdb_transaction_destroy(tr);
}

static void selectors_beyond_the_ends_are_clamped(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    erase_range(tr, text(""), LITERAL("\xff"));
    put(tr, key("a"), text("a"));
    put(tr, key("b"), text("b"));
    struct range range = span(text(""), LITERAL("\xff"));
    range.begin = (struct selector){key("a"), false, -1000};
    range.end = (struct selector){key("b"), false, 1000};
    assert_rows(read_range(tr, range), "a=a b=b");
    range.reverse = true;
    assert_rows(read_range(tr, range), "b=b a=a");
    range.begin = (struct selector){key("b"), true, 5};
    assert_rows(read_range(tr, range), "");
    fdb_transaction_destroy(tr);
}

static void continuing_after_the_last_key_reads_it_all(void **state) {
    (void)state;
    enum { COUNT = 500 };
    FDBTransaction *tr = begin();
    for (int i = 0; i < COUNT; i++) {
        uint8_t name[2] = {(uint8_t)(i >> 8), (uint8_t)i};
        put(tr, key_bytes(raw(name, 2)), repeat('v', 100));
    }
    commit(tr);
    for (int reverse = 0; reverse < 2; reverse++) {
        fdb_transaction_reset(tr);
        struct range range = all();
        range.mode = FDB_STREAMING_MODE_ITERATOR;
        range.reverse = reverse;
        int seen = 0;
        for (range.iteration = 1;; range.iteration++) {
            struct rows rows = read_range(tr, range);
            for (int i = 0; i < rows.count; i++, seen++) {
                int number = reverse ? COUNT - 1 - seen : seen;
                uint8_t name[2] = {(uint8_t)(number >> 8), (uint8_t)number};
                assert_bytes(rows.row[i].key, key_bytes(raw(name, 2)));
            }
            if (!rows.more) {
                break;
            }
            assert_true(rows.count > 0);
            struct bytes last = rows.row[rows.count - 1].key;
            if (reverse) {
                range.end = first_at_or_after(last);
            } else {
                range.begin = first_after(last);
            }
        }
        assert_int_equal(seen, COUNT);
        assert_true(range.iteration > 1);
    }
    fdb_transaction_destroy(tr);
}

static void pending_writes_are_merged(void **state) {
    (void)state;
    fill("bdfhj");
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("1"));
    put(tr, key("e"), text("2"));
    put(tr, key("f"), text("3"));
    erase(tr, key("d"));
    put(tr, key("k"), text("4"));
    const char *forward = "a=1 b=b e=2 f=3 h=h j=j k=4";
    assert_rows(read_range(tr, all()), forward);
    struct range range = all();
    range.reverse = true;
    assert_rows(read_range(tr, range), "k=4 j=j h=h f=3 e=2 b=b a=1");
    range.limit = 3;
    assert_rows(read_range(tr, range), "k=4 j=j h=h");
    range.reverse = false;
    struct rows rows = read_range(tr, range);
    assert_rows(rows, "a=1 b=b e=2");
    assert_true(rows.more);
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), forward);
    fdb_transaction_destroy(tr);
}

static void pending_range_clears_hide_rows(void **state) {
    (void)state;
    fill("abcdefgh");
    FDBTransaction *tr = begin();
    erase_range(tr, key("b"), key("e"));
    erase_range(tr, key("d"), key("g"));
    put(tr, key("c"), text("back"));
    assert_rows(read_range(tr, all()), "a=a c=back g=g h=h");
    struct range range = all();
    range.limit = 2;
    assert_rows(read_range(tr, range), "a=a c=back");
    range.reverse = true;
    range.limit = 3;
    assert_rows(read_range(tr, range), "h=h g=g c=back");
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "a=a c=back g=g h=h");
    fdb_transaction_destroy(tr);
}

static void a_limit_counts_rows_after_the_merge(void **state) {
    (void)state;
    fill("abcdefgh");
    FDBTransaction *tr = begin();
    for (char letter = 'a'; letter < 'g'; letter++) {
        erase(tr, key((char[]){letter, 0}));
    }
    struct range range = all();
    range.limit = 2;
    assert_rows(read_range(tr, range), "g=g h=h");
    range.reverse = true;
    range.limit = 1;
    assert_rows(read_range(tr, range), "h=h");
    fdb_transaction_destroy(tr);
}

static void reads_before_and_after_writes_differ(void **state) {
    (void)state;
    fill("ab");
    FDBTransaction *tr = begin();
    FDBFuture *before = get_range(tr, all());
    assert_rows(future_rows(before), "a=a b=b");
    put(tr, key("c"), text("c"));
    assert_rows(read_range(tr, all()), "a=a b=b c=c");
    erase(tr, key("a"));
    assert_rows(read_range(tr, all()), "b=b c=c");
    fdb_transaction_destroy(tr);
}

static void exact_mode_needs_a_limit(void **state) {
    (void)state;
    fill("abc");
    FDBTransaction *tr = begin();
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_EXACT;
    assert_fails(get_range(tr, range), ERROR_EXACT_MODE_WITHOUT_LIMITS);
    range.limit = 2;
    assert_rows(read_range(tr, range), "a=a b=b");
    fdb_transaction_reset(tr); /* a cluster's client ends the batch behind what it remembers */
    range.limit = 0;
    range.target_bytes = 100000;
    assert_rows(read_range(tr, range), "a=a b=b c=c");
    fdb_transaction_destroy(tr);
}

static void negative_limits_are_refused(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct range range = all();
    range.limit = -2;
    assert_fails(get_range(tr, range), ERROR_RANGE_LIMITS_INVALID);
    range.limit = 0;
    range.target_bytes = -2;
    assert_fails(get_range(tr, range), ERROR_RANGE_LIMITS_INVALID);
    fdb_transaction_destroy(tr);
}

static void unknown_modes_and_iterations_are_refused(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct range range = all();
    range.mode = (FDBStreamingMode)5;
    assert_fails(get_range(tr, range), ERROR_CLIENT_INVALID_OPERATION);
    range.mode = (FDBStreamingMode)-3;
    assert_fails(get_range(tr, range), ERROR_CLIENT_INVALID_OPERATION);
    range.mode = FDB_STREAMING_MODE_ITERATOR;
    range.iteration = 0;
    assert_fails(get_range(tr, range), ERROR_CLIENT_INVALID_OPERATION);
    range.iteration = -1;
    assert_fails(get_range(tr, range), ERROR_CLIENT_INVALID_OPERATION);
    range.iteration = 1;
    assert_ready(get_range(tr, range));
    fdb_transaction_destroy(tr);
}

static void ends_must_be_legal_keys(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct range range = span(key("a"), LITERAL("\xff"));
    range.limit = 1;
    assert_ready(get_range(tr, range));
    range.end = first_at_or_after(LITERAL("\xff\x01"));
    assert_fails(get_range(tr, range), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    range = span(LITERAL("\xff\x01"), LITERAL("\xff\x02"));
    assert_fails(get_range(tr, range), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    set_option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS);
    range.limit = 1;
    assert_ready(get_range(tr, range));
    fdb_transaction_destroy(tr);
}

static void result_memory_outlives_the_transaction(void **state) {
    (void)state;
    fill("abc");
    FDBTransaction *tr = begin();
    FDBFuture *future = get_range(tr, all());
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    fdb_transaction_destroy(tr);
    assert_rows(future_rows(future), "a=a b=b c=c");
}

static void snapshot_range_reads_the_same_rows(void **state) {
    (void)state;
    fill("abc");
    FDBTransaction *tr = begin();
    put(tr, key("d"), text("d"));
    struct range range = all();
    range.snapshot = true;
    assert_rows(read_range(tr, range), "a=a b=b c=c d=d");
    fdb_transaction_destroy(tr);
}

int group_ranges(void) {
    const struct CMUnitTest tests[] = {
        TEST(range_includes_begin_and_not_end),
        TEST(empty_and_inverted_ranges_are_empty),
        TEST(row_limit_cuts_and_more_says_so),
        TEST(reverse_starts_at_the_far_end),
        TEST(selectors_at_both_ends),
        TEST(selectors_with_offsets),
        TEST(selectors_beyond_the_ends_are_clamped),
        TEST(continuing_after_the_last_key_reads_it_all),
        TEST(pending_writes_are_merged),
        TEST(pending_range_clears_hide_rows),
        TEST(a_limit_counts_rows_after_the_merge),
        TEST(reads_before_and_after_writes_differ),
        TEST(exact_mode_needs_a_limit),
        TEST(negative_limits_are_refused),
        TEST(unknown_modes_and_iterations_are_refused),
        TEST(ends_must_be_legal_keys),
        TEST(result_memory_outlives_the_transaction),
        TEST(snapshot_range_reads_the_same_rows),
    };
    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
