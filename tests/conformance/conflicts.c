/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conflict ranges, probed by pairs of transactions: exactly which keys a read or a write covers.
 * The committed keys of most tests are b, d, f.
 */
#include "support.h"

static void fill(void) {
    FDBTransaction *tr = begin();
    put(tr, key("b"), text("1"));
    put(tr, key("d"), text("1"));
    put(tr, key("f"), text("1"));
    commit(tr);
    fdb_transaction_destroy(tr);
}

/* Which of the one-letter keys a to h conflict with the reader: "cd" for c and d. */
static void check_read_covers(transaction_step reader, const char *expected) {
    char found[16] = "";
    for (char letter = 'a'; letter <= 'h'; letter++) {
        fill();
        char name[2] = {letter, 0};
        if (read_conflicts_with(reader, key(name))) {
            strcat(found, name);
        }
        FDBTransaction *tr = begin();
        erase_range(tr, key(""), key("~~"));
        commit(tr);
        fdb_transaction_destroy(tr);
    }
    assert_string_equal(found, expected);
}

static void read_d(FDBTransaction *tr) {
    assert_ready(get(tr, key("d")));
}

static void read_missing_c(FDBTransaction *tr) {
    assert_ready(get(tr, key("c")));
}

static void get_covers_its_key(void **state) {
    (void)state;
    check_read_covers(read_d, "d");
    check_read_covers(read_missing_c, "c");
}

static void get_does_not_cover_the_next_key(void **state) {
    (void)state;
    fill();
    assert_false(read_conflicts_with(read_d, key_after(key("d"))));
}

static void read_range_c_to_f(FDBTransaction *tr) {
    assert_ready(get_range(tr, span(key("c"), key("f"))));
}

static void range_covers_gaps_and_not_its_end(void **state) {
    (void)state;
    check_read_covers(read_range_c_to_f, "cde");
}

static void read_empty_range(FDBTransaction *tr) {
    assert_ready(get_range(tr, span(key("g"), key("h"))));
}

static void empty_range_is_covered(void **state) {
    (void)state;
    check_read_covers(read_empty_range, "g");
}

static void read_two_rows(FDBTransaction *tr) {
    struct range range = span(key("a"), key("h"));
    range.limit = 2;
    assert_int_equal(read_range(tr, range).count, 2);
}

static void limited_range_covers_up_to_its_last_row(void **state) {
    (void)state;
    check_read_covers(read_two_rows, "abcd");
}

static void read_two_rows_in_reverse(FDBTransaction *tr) {
    struct range range = span(key("a"), key("h"));
    range.limit = 2;
    range.reverse = true;
    assert_int_equal(read_range(tr, range).count, 2);
}

static void limited_reverse_range_covers_down_to_its_last_row(void **state) {
    (void)state;
    if (!run_is_since(700)) {
        SKIP("6.3 covers all of the range");
    }
    check_read_covers(read_two_rows_in_reverse, "defg");
}

static void find_first_at_or_after_c(FDBTransaction *tr) {
    assert_bytes(resolve(tr, key("c"), false, 1), key("d"));
}

static void find_first_after_b(FDBTransaction *tr) {
    assert_bytes(resolve(tr, key("b"), true, 1), key("d"));
}

static void find_last_before_e(FDBTransaction *tr) {
    assert_bytes(resolve(tr, key("e"), false, 0), key("d"));
}

static void find_last_at_or_before_e(FDBTransaction *tr) {
    assert_bytes(resolve(tr, key("e"), true, 0), key("d"));
}

static void find_second_after_b(FDBTransaction *tr) {
    assert_bytes(resolve(tr, key("b"), true, 2), key("f"));
}

static void get_key_covers_what_it_passed(void **state) {
    (void)state;
    check_read_covers(find_first_at_or_after_c, "cd");
    check_read_covers(find_first_after_b, "cd");
    check_read_covers(find_last_before_e, "d");
    check_read_covers(find_last_at_or_before_e, "de");
    check_read_covers(find_second_after_b, "cdef");
}

static void read_without_ryw(FDBTransaction *tr) {
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    assert_ready(get(tr, key("d")));
}

static void find_without_ryw(FDBTransaction *tr) {
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    assert_bytes(resolve(tr, key("c"), false, 1), key("d"));
}

static void range_without_ryw(FDBTransaction *tr) {
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    assert_ready(get_range(tr, span(key("c"), key("f"))));
}

static void reads_cover_the_same_without_ryw(void **state) {
    (void)state;
    check_read_covers(read_without_ryw, "d");
    check_read_covers(find_without_ryw, "cd");
    check_read_covers(range_without_ryw, "cde");
}

static void read_own_write(FDBTransaction *tr) {
    put(tr, key("d"), text("mine"));
    assert_ready(get(tr, key("d")));
}

static void read_own_clear(FDBTransaction *tr) {
    erase(tr, key("d"));
    assert_ready(get(tr, key("d")));
}

static void read_own_atomic(FDBTransaction *tr) {
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("d"), LITERAL("\x01"));
    assert_ready(get(tr, key("d")));
}

static void read_atomic_on_own_write(FDBTransaction *tr) {
    put(tr, key("d"), text("mine"));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("d"), LITERAL("\x01"));
    assert_ready(get(tr, key("d")));
}

static void reading_own_writes_covers_only_what_the_database_told(void **state) {
    (void)state;
    check_read_covers(read_own_write, "");
    check_read_covers(read_own_clear, "");
    check_read_covers(read_own_atomic, "d");
    check_read_covers(read_atomic_on_own_write, "");
}

static void read_range_over_own_writes(FDBTransaction *tr) {
    put(tr, key("c"), text("mine"));
    erase(tr, key("e"));
    assert_ready(get_range(tr, span(key("b"), key("g"))));
}

static void ranges_leave_own_writes_out(void **state) {
    (void)state;
    check_read_covers(read_range_over_own_writes, "bdf");
}

static void only_write(FDBTransaction *tr) {
    put(tr, key("d"), text("mine"));
    erase(tr, key("b"));
    erase_range(tr, key("e"), key("g"));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("a"), LITERAL("\x01"));
}

static void writes_alone_never_conflict(void **state) {
    (void)state;
    check_read_covers(only_write, "");
}

static void read_by_hand(FDBTransaction *tr) {
    add_conflict(tr, key("c"), key("e"), FDB_CONFLICT_RANGE_TYPE_READ);
    add_conflict(tr, key("g"), key("g"), FDB_CONFLICT_RANGE_TYPE_READ);
}

static void explicit_read_ranges(void **state) {
    (void)state;
    check_read_covers(read_by_hand, "cd");
}

static void read_own_write_by_hand(FDBTransaction *tr) {
    put(tr, key("c"), text("mine"));
    add_conflict(tr, key("b"), key("e"), FDB_CONFLICT_RANGE_TYPE_READ);
}

static void explicit_read_ranges_leave_own_writes_out(void **state) {
    (void)state;
    check_read_covers(read_own_write_by_hand, "bd");
}

/* Which of the one-letter keys a to h the writer covers. */
static void check_write_covers(transaction_step writer, const char *expected) {
    char found[16] = "";
    for (char letter = 'a'; letter <= 'h'; letter++) {
        char name[2] = {letter, 0};
        if (write_conflicts_with(writer, key(name))) {
            strcat(found, name);
        }
    }
    assert_string_equal(found, expected);
}

static void write_c(FDBTransaction *tr) {
    put(tr, key("c"), text("x"));
}

static void clear_c(FDBTransaction *tr) {
    erase(tr, key("c"));
}

static void clear_c_to_f(FDBTransaction *tr) {
    erase_range(tr, key("c"), key("f"));
}

static void add_to_c(FDBTransaction *tr) {
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("c"), LITERAL("\x01"));
}

static void write_by_hand(FDBTransaction *tr) {
    add_conflict(tr, key("b"), key("d"), FDB_CONFLICT_RANGE_TYPE_WRITE);
}

static void every_write_covers_its_keys(void **state) {
    (void)state;
    check_write_covers(write_c, "c");
    check_write_covers(clear_c, "c");
    check_write_covers(clear_c_to_f, "cde");
    check_write_covers(add_to_c, "c");
    check_write_covers(write_by_hand, "bc");
}

static void write_c_uncovered(FDBTransaction *tr) {
    set_option(tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE);
    put(tr, key("c"), text("x"));
    put(tr, key("d"), text("x"));
}

static void clear_uncovered(FDBTransaction *tr) {
    set_option(tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE);
    erase_range(tr, key("a"), key("h"));
    add_to_c(tr);
}

static void add_uncovered_without_ryw(FDBTransaction *tr) {
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    set_option(tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE);
    add_to_c(tr);
    put(tr, key("e"), text("x"));
}

static void next_write_option_counts_once(void **state) {
    (void)state;
    check_write_covers(write_c_uncovered, "d");
    check_write_covers(clear_uncovered, "c");
    check_write_covers(add_uncovered_without_ryw, "e");
    assert_true(load(key("e")).present);
}

static void writing_the_same_value_is_still_a_write(void **state) {
    (void)state;
    store_text("c", "x");
    assert_true(write_conflicts_with(write_c, key("c")));
}

static void reads_of_earlier_writes_do_not_conflict(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    assert_value(future_value(get(tr, key("a"))), text("1"));
    put(tr, key("a"), text("2"));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void read_only_transactions_never_conflict(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    store_text("a", "2");
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void read_version_decides(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    int64_t version = future_int64(fdb_transaction_get_read_version(tr));
    store_text("a", "2");
    fdb_transaction_reset(tr);
    fdb_transaction_set_read_version(tr, version);
    assert_value(future_value(get(tr, key("a"))), text("1"));
    put(tr, key("b"), text("x"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(tr);
    assert_absent(load(key("b")));
}

static void failed_transactions_write_nothing(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    store_text("a", "elsewhere");
    for (char letter = 'b'; letter < 'h'; letter++) {
        put(tr, key((char[]){letter, 0}), text("x"));
    }
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "a=elsewhere");
    fdb_transaction_destroy(tr);
}

static void transactions_that_failed_do_not_cause_conflicts(void **state) {
    (void)state;
    FDBTransaction *victim = begin();
    FDBTransaction *bystander = begin();
    assert_ready(get(victim, key("a")));
    assert_ready(get(bystander, key("b")));
    store_text("a", "changed");
    put(victim, key("b"), text("never"));
    assert_int_equal(commit_error(victim), ERROR_NOT_COMMITTED);
    put(bystander, key("c"), text("x"));
    commit(bystander);
    fdb_transaction_destroy(victim);
    fdb_transaction_destroy(bystander);
}

static void explicit_ranges_are_checked(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct bytes low = key("a");
    struct bytes high = key("b");
    assert_int_equal(fdb_transaction_add_conflict_range(tr, high.data, high.size, low.data,
                                                        low.size, FDB_CONFLICT_RANGE_TYPE_READ),
                     ERROR_INVERTED_RANGE);
    assert_int_equal(fdb_transaction_add_conflict_range(tr, high.data, high.size, low.data,
                                                        low.size, FDB_CONFLICT_RANGE_TYPE_WRITE),
                     ERROR_INVERTED_RANGE);
    assert_int_equal(fdb_transaction_add_conflict_range(tr, low.data, low.size, high.data,
                                                        high.size, (FDBConflictRangeType)2),
                     ERROR_CLIENT_INVALID_OPERATION);
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void explicit_ranges_need_legal_keys(void **state) {
    (void)state;
    struct bytes low = key("a");
    struct bytes high = LITERAL("\xff\x02");
    for (int type = FDB_CONFLICT_RANGE_TYPE_READ; type <= FDB_CONFLICT_RANGE_TYPE_WRITE; type++) {
        FDBTransaction *tr = begin();
        fdb_error_t error = fdb_transaction_add_conflict_range(
            tr, low.data, low.size, high.data, high.size, (FDBConflictRangeType)type);
        if (!error) {
            error = commit_error(tr);
        }
        assert_int_equal(error, ERROR_KEY_OUTSIDE_LEGAL_RANGE);
        fdb_transaction_destroy(tr);
    }
}

static void a_write_conflict_range_alone_is_a_commit(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    write_by_hand(tr);
    commit(tr);
    int64_t version = -1;
    assert_int_equal(fdb_transaction_get_committed_version(tr, &version), 0);
    assert_true(version > 0);
    fdb_transaction_destroy(tr);
}

int group_conflicts(void) {
    const struct CMUnitTest tests[] = {
        TEST(get_covers_its_key),
        TEST(get_does_not_cover_the_next_key),
        TEST(range_covers_gaps_and_not_its_end),
        TEST(empty_range_is_covered),
        TEST(limited_range_covers_up_to_its_last_row),
        TEST(limited_reverse_range_covers_down_to_its_last_row),
        TEST(get_key_covers_what_it_passed),
        TEST(reads_cover_the_same_without_ryw),
        TEST(reading_own_writes_covers_only_what_the_database_told),
        TEST(ranges_leave_own_writes_out),
        TEST(writes_alone_never_conflict),
        TEST(explicit_read_ranges),
        TEST(explicit_read_ranges_leave_own_writes_out),
        TEST(every_write_covers_its_keys),
        TEST(next_write_option_counts_once),
        TEST(writing_the_same_value_is_still_a_write),
        TEST(reads_of_earlier_writes_do_not_conflict),
        TEST(read_only_transactions_never_conflict),
        TEST(read_version_decides),
        TEST(failed_transactions_write_nothing),
        TEST(transactions_that_failed_do_not_cause_conflicts),
        TEST(explicit_ranges_are_checked),
        TEST(explicit_ranges_need_legal_keys),
        TEST(a_write_conflict_range_alone_is_a_commit),
    };
    return cmocka_run_group_tests_name("conflicts", tests, NULL, NULL);
}
