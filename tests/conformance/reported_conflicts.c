/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conflict ranges as special keys: report_conflicting_keys after a conflict, and the transaction's
 * own read and write conflict ranges. Each is a list of boundaries: "1" where a range begins, "0"
 * where it ends.
 */
#include "support.h"

#include <stdio.h>

#define CONFLICTING "\xff\xff/transaction/conflicting_keys/"
#define READ_RANGES "\xff\xff/transaction/read_conflict_range/"
#define WRITE_RANGES "\xff\xff/transaction/write_conflict_range/"

/* The boundaries among this test's keys. */
static struct rows boundaries(FDBTransaction *tr, const char *prefix) {
    struct rows rows = read_range(tr, span(joined(text(prefix), key("")),
                                           joined(text(prefix), prefix_end())));
    for (int i = 0; i < rows.count; i++) {
        struct bytes name = rows.row[i].key;
        int skip = (int)strlen(prefix);
        assert_true(name.size >= skip);
        rows.row[i].key = raw(name.data + skip, name.size - skip);
    }
    return rows;
}

/* Boundaries as "begin-end" pairs, with "+" for the key right after. */
static void check_boundaries(FDBTransaction *tr, const char *prefix, const char *expected) {
    struct rows rows = boundaries(tr, prefix);
    char found[256] = "";
    int skip = key("").size;
    for (int i = 0; i < rows.count; i++) {
        struct bytes name = rows.row[i].key;
        bool next = name.data[name.size - 1] == 0;
        char part[64];
        snprintf(part, sizeof part, "%.*s%s%s", name.size - skip - (next ? 1 : 0),
                 (const char *)name.data + skip, next ? "+" : "",
                 rows.row[i].value.data[0] == '1' ? "-" : " ");
        strcat(found, part);
        assert_int_equal(rows.row[i].value.size, 1);
    }
    assert_string_equal(found, expected);
}

static void conflicting_key_is_reported(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_REPORT_CONFLICTING_KEYS);
    assert_ready(get(tr, key("a")));
    assert_ready(get(tr, key("b")));
    assert_ready(get(tr, key("c")));
    store_text("b", "elsewhere");
    put(tr, key("x"), text("1"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    check_boundaries(tr, CONFLICTING, "b-b+ ");
    fdb_transaction_destroy(tr);
}

static void all_conflicting_ranges_are_reported(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_REPORT_CONFLICTING_KEYS);
    assert_ready(get_range(tr, span(key("a"), key("c"))));
    assert_ready(get(tr, key("d")));
    assert_ready(get(tr, key("f")));
    store_text("bb", "elsewhere");
    store_text("f", "elsewhere");
    put(tr, key("x"), text("1"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    check_boundaries(tr, CONFLICTING, "a-c f-f+ ");
    fdb_transaction_destroy(tr);
}

static void nothing_is_reported_without_the_option(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    store_text("a", "elsewhere");
    put(tr, key("x"), text("1"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    check_boundaries(tr, CONFLICTING, "");
    fdb_transaction_destroy(tr);
}

/* A conflict over one key, reported; the transaction is left as the commit left it. */
static void conflict_over(FDBTransaction *tr, const char *suffix) {
    set_option(tr, FDB_TR_OPTION_REPORT_CONFLICTING_KEYS);
    assert_ready(get(tr, key(suffix)));
    store_text(suffix, "elsewhere");
    put(tr, key("x"), text("1"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
}

static void reports_stay_until_the_next_conflict(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    check_boundaries(tr, CONFLICTING, "");
    conflict_over(tr, "a");
    assert_ready(fdb_transaction_on_error(tr, ERROR_NOT_COMMITTED));
    check_boundaries(tr, CONFLICTING, "a-a+ ");
    fdb_transaction_reset(tr);
    check_boundaries(tr, CONFLICTING, "a-a+ ");
    conflict_over(tr, "b");
    check_boundaries(tr, CONFLICTING, "b-b+ ");
    fdb_transaction_destroy(tr);
}

static void database_default_reports_too(void **state) {
    SINCE(630);
    if (!run_is_since(700)) {
        SKIP("the option came with 7");
    }
    FDBDatabase *database = open_again();
    assert_int_equal(fdb_database_set_option(
                         database, FDB_DB_OPTION_TRANSACTION_REPORT_CONFLICTING_KEYS, NULL, 0),
                     0);
    FDBTransaction *tr = begin_on(database);
    assert_ready(get(tr, key("a")));
    store_text("a", "elsewhere");
    put(tr, key("x"), text("1"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    check_boundaries(tr, CONFLICTING, "a-a+ ");
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void read_ranges_are_listed(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    check_boundaries(tr, READ_RANGES, "");
    assert_ready(get(tr, key("b")));
    check_boundaries(tr, READ_RANGES, "b-b+ ");
    assert_ready(get_range(tr, span(key("c"), key("e"))));
    assert_ready(get_snapshot(tr, key("f")));
    check_boundaries(tr, READ_RANGES, "b-b+ c-e ");
    add_conflict(tr, key("d"), key("h"), FDB_CONFLICT_RANGE_TYPE_READ);
    check_boundaries(tr, READ_RANGES, "b-b+ c-h ");
    fdb_transaction_destroy(tr);
}

static void write_ranges_are_listed(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    check_boundaries(tr, WRITE_RANGES, "");
    put(tr, key("b"), text("x"));
    check_boundaries(tr, WRITE_RANGES, "b-b+ ");
    erase_range(tr, key("c"), key("e"));
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("g"), LITERAL("\x01"));
    set_option(tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE);
    put(tr, key("h"), text("x"));
    check_boundaries(tr, WRITE_RANGES, "b-b+ c-e g-g+ ");
    fdb_transaction_destroy(tr);
}

static void listed_ranges_survive_the_commit(void **state) {
    SINCE(630);
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    put(tr, key("b"), text("x"));
    commit(tr);
    check_boundaries(tr, READ_RANGES, "a-a+ ");
    check_boundaries(tr, WRITE_RANGES, "b-b+ ");
    fdb_transaction_reset(tr);
    check_boundaries(tr, READ_RANGES, "");
    check_boundaries(tr, WRITE_RANGES, "");
    fdb_transaction_destroy(tr);
}

int group_reported_conflicts(void) {
    const struct CMUnitTest tests[] = {
        TEST(conflicting_key_is_reported),
        TEST(all_conflicting_ranges_are_reported),
        TEST(nothing_is_reported_without_the_option),
        TEST(reports_stay_until_the_next_conflict),
        TEST(database_default_reports_too),
        TEST(read_ranges_are_listed),
        TEST(write_ranges_are_listed),
        TEST(listed_ranges_survive_the_commit),
    };
    return cmocka_run_group_tests_name("reported_conflicts", tests, NULL, NULL);
}
