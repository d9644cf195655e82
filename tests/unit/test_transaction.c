/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions over a naive database (fake_database.h): what they read, what they commit and with
 * which conflict ranges, what happens around commits, resets, timeouts, retries and watches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <keel/options.h>

#include "fake_database.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/thread.h"
#include "txn/transaction.h"
#include "util/coding.h"
#include "util/memory.h"

#define B(text) BYTES_LITERAL(text)

static struct fake_database *fake;
static struct database_handle *handle;

static void open_at(int api_version) {
    fake = fake_create();
    assert_int_equal(database_handle_create(fake_interface(fake), api_version, "/a/path", "d:i@h:1",
                                            &handle), 0);
}

static int setup(void **state) {
    (void)state;
    open_at(740);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    database_handle_release(handle);
    for (int i = 0; i < 100000 && !fake_is_closed(); i++)
        os_sleep_us(100); /* a timer that is just expiring holds its transaction */
    return fake_is_closed() ? 0 : -1;
}

/* --- Helpers --- */

static struct transaction *begin(void) {
    struct transaction *tr;
    assert_int_equal(transaction_create(handle, &tr), 0);
    return tr;
}

struct waiting {
    struct completion completion;
    int calls;
    fdb_error_t error;
};

static void note(struct completion *completion, fdb_error_t error) {
    struct waiting *waiting = (struct waiting *)completion;
    waiting->calls++;
    waiting->error = error;
}

static struct waiting waiting(void) {
    return (struct waiting){.completion = {.done = note}};
}

static fdb_error_t commit(struct transaction *tr) {
    struct waiting wait = waiting();
    transaction_commit(tr, &wait.completion);
    assert_int_equal(wait.calls, 1);
    return wait.error;
}

static void set(struct transaction *tr, const char *key, const char *value) {
    transaction_set(tr, bytes_make(key, strlen(key)), bytes_make(value, strlen(value)));
}

static void store(const char *key, const char *value) {
    struct transaction *tr = begin();
    set(tr, key, value);
    assert_int_equal(commit(tr), 0);
    transaction_destroy(tr);
}

static fdb_error_t get_error(struct transaction *tr, const char *key) {
    struct arena arena = {0};
    struct bytes value;
    bool present;
    fdb_error_t error = transaction_get(tr, bytes_make(key, strlen(key)), false, &arena, &value,
                                        &present);
    arena_free(&arena);
    return error;
}

static void check_value(struct transaction *tr, const char *key, bool snapshot,
                        const char *expected) {
    struct arena arena = {0};
    struct bytes value = {0};
    bool present;
    assert_int_equal(transaction_get(tr, bytes_make(key, strlen(key)), snapshot, &arena, &value,
                                     &present), 0);
    if (present != (expected != NULL))
        fail_msg("%s is %s", key, present ? "there" : "missing");
    if (present && !bytes_equal(value, bytes_make(expected, strlen(expected))))
        fail_msg("%s is %.*s", key, (int)value.length, (const char *)value.data);
    arena_free(&arena);
}

static void expect_stored(const char *key, const char *expected) {
    struct transaction *tr = begin();
    check_value(tr, key, true, expected);
    transaction_destroy(tr);
}

static struct key_selector at_least(const char *key) {
    return (struct key_selector){bytes_make(key, strlen(key)), false, 1};
}

static void expect_rows(struct transaction *tr, struct range_arguments arguments,
                        const char *expected, bool more) {
    struct rows rows = {0};
    bool found_more;
    char text[512] = "";
    assert_int_equal(transaction_get_range(tr, &arguments, &rows, &found_more), 0);
    for (int i = 0; i < rows.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s=%.*s ", (int)rows_key(&rows,
                i).length,
                 (const char *)rows_key(&rows, i).data, (int)rows_value(&rows, i).length,
                 (const char *)rows_value(&rows, i).data);
    assert_string_equal(text, expected);
    assert_int_equal(found_more, more);
    rows_free(&rows);
}

static struct range_arguments range(const char *from, const char *to) {
    return (struct range_arguments){.begin = at_least(from), .end = at_least(to),
                                    .mode = FDB_STREAMING_MODE_WANT_ALL};
}

static void option(struct transaction *tr, int number) {
    assert_int_equal(transaction_set_option(tr, number, NULL, 0), 0);
}

static fdb_error_t integer_option(struct transaction *tr, int number, int64_t value) {
    uint8_t text[8];
    coding_put_u64(text, (uint64_t)value);
    return transaction_set_option(tr, number, text, 8);
}

static void expect_conflict(struct key_range range, const char *from, struct bytes to) {
    assert_true(bytes_equal(range.begin, bytes_make(from, strlen(from))));
    assert_true(bytes_equal(range.end, to));
}

/* --- Reading one's own writes --- */

static void test_own_writes(void **state) {
    (void)state;
    store("a", "1");
    store("b", "2");
    struct transaction *tr = begin();
    check_value(tr, "a", false, "1");
    set(tr, "a", "x");
    transaction_clear(tr, B("b"));
    set(tr, "c", "y");
    check_value(tr, "a", false, "x");
    check_value(tr, "b", false, NULL);
    expect_rows(tr, range("", "z"), "a=x c=y ", false);
    struct range_arguments back = range("", "z");
    back.reverse = true;
    expect_rows(tr, back, "c=y a=x ", false);
    option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE);
    check_value(tr, "a", true, "1");
    check_value(tr, "a", false, "x");
    transaction_atomic_op(tr, B("b"), B("q"), MUTATION_APPEND_IF_FITS);
    check_value(tr, "b", false, "q");
    assert_int_equal(commit(tr), 0);
    transaction_destroy(tr);
    expect_stored("b", "q");
    expect_stored("a", "x");
}

static void test_dependent(void **state) {
    (void)state;
    store("n", "AA");
    struct transaction *tr = begin();
    transaction_atomic_op(tr, B("n"), B("b"), MUTATION_APPEND_IF_FITS);
    transaction_atomic_op(tr, B("n"), B("AAb"), MUTATION_COMPARE_AND_CLEAR);
    check_value(tr, "n", true, NULL);
    transaction_atomic_op(tr, B("n"), B("c"), MUTATION_BYTE_MAX);
    check_value(tr, "n", true, "c");
    expect_rows(tr, range("", "z"), "n=c ", false);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_mutation_count(fake), 3);
    transaction_destroy(tr);
    expect_stored("n", "c");
}

static void test_ryw_disabled(void **state) {
    (void)state;
    store("a", "1");
    struct transaction *tr = begin();
    option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    set(tr, "a", "2");
    check_value(tr, "a", false, "1");
    set(tr, "a", "3");
    transaction_clear(tr, B("b"));
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_mutation_count(fake), 3); /* as they came */
    assert_int_equal(fake_read_conflict_count(fake), 1);
    transaction_reset(tr);
    check_value(tr, "a", false, "3");
    assert_int_equal(transaction_set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE, NULL, 0),
                     2000);
    transaction_destroy(tr);
}

static void test_passes_through(void **state) {
    (void)state;
    store("a", "1");
    store("m", "2");
    struct transaction *tr = begin();
    set(tr, "x", "3");
    int before = fake_range_reads(fake);
    expect_rows(tr, range("", "q"), "a=1 m=2 ", false);
    assert_int_equal(fake_range_reads(fake), before + 1);
    transaction_clear_range(tr, B("a"), B("z"));
    expect_rows(tr, range("b", "q"), "", false);
    assert_int_equal(fake_range_reads(fake), before + 1); /* nothing to ask */
    int gets = fake_gets(fake);
    check_value(tr, "m", false, NULL);
    check_value(tr, "x", false, NULL);
    assert_int_equal(fake_gets(fake), gets);
    transaction_destroy(tr);
}

/* --- Selectors and limits --- */

static void expect_key(struct transaction *tr, const char *key, bool or_equal, int offset,
                       const char *expected) {
    struct arena arena = {0};
    struct bytes found;
    struct key_selector selector = {bytes_make(key, strlen(key)), or_equal, offset};
    assert_int_equal(transaction_get_key(tr, selector, true, &arena, &found), 0);
    if (!bytes_equal(found, bytes_make(expected, strlen(expected))))
        fail_msg("%s %d %d: %.*s", key, or_equal, offset, (int)found.length,
                 (const char *)found.data);
    arena_free(&arena);
}

static void test_selectors(void **state) {
    (void)state;
    store("a", "");
    store("c", "");
    store("e", "");
    struct transaction *tr = begin();
    for (int own = 0; own < 2; own++) {
        expect_key(tr, "c", false, 1, "c");
        expect_key(tr, "c", true, 1, "e");
        expect_key(tr, "c", false, 0, "a");
        expect_key(tr, "c", true, 0, "c");
        expect_key(tr, "b", false, 2, "e");
        expect_key(tr, "b", false, 3, "\xff");
        expect_key(tr, "b", false, -1, "");
        expect_key(tr, "", false, 0, "");
        expect_key(tr, "\xff", false, 0, "e");
        expect_key(tr, "\xff", true, 5, "\xff");
        transaction_clear_range(tr, B("x"), B("y"));
        set(tr, "c", "own");
        transaction_clear(tr, B("d"));
    }
    set(tr, "d", "own");
    expect_key(tr, "c", true, 1, "d");
    expect_key(tr, "\xff", false, -1, "d");
    struct range_arguments arguments = range("c", "c");
    arguments.end.offset = 3;
    expect_rows(tr, arguments, "c=own d=own ", false);
    arguments.begin.offset = 0;
    arguments.reverse = true;
    expect_rows(tr, arguments, "d=own c=own a= ", false);
    struct arena arena = {0};
    struct bytes key;
    struct key_selector outside = at_least("\xff\x01");
    assert_int_equal(transaction_get_key(tr, outside, true, &arena, &key), 2004);
    arena_free(&arena);
    transaction_destroy(tr);
}

static fdb_error_t range_error(struct transaction *tr, struct range_arguments arguments) {
    struct rows rows = {0};
    bool more;
    fdb_error_t error = transaction_get_range(tr, &arguments, &rows, &more);
    rows_free(&rows);
    return error;
}

static void test_limits_of_ranges(void **state) {
    (void)state;
    for (char key[2] = "a"; key[0] <= 'j'; key[0]++)
        store(key, "v");
    struct transaction *tr = begin();
    for (int own = 0; own < 2; own++) {
        struct range_arguments arguments = range("", "z");
        arguments.limit = 3;
        expect_rows(tr, arguments, own ? "a=own b=v c=v " : "a=v b=v c=v ", true);
        arguments.limit = 10;
        arguments.begin = at_least("b");
        expect_rows(tr, arguments, "b=v c=v d=v e=v f=v g=v h=v i=v j=v ", false);
        arguments.limit = 9;
        expect_rows(tr, arguments, "b=v c=v d=v e=v f=v g=v h=v i=v j=v ", true);
        arguments.limit = 0;
        arguments.target_bytes = 52; /* two rows of 26 */
        expect_rows(tr, arguments, "b=v c=v ", true);
        arguments.target_bytes = 1;
        expect_rows(tr, arguments, "b=v ", true);
        arguments.target_bytes = 0;
        arguments.mode = FDB_STREAMING_MODE_SMALL;
        expect_rows(tr, arguments, "b=v c=v d=v e=v f=v g=v h=v i=v j=v ", false);
        set(tr, "a", "own");
    }
    struct range_arguments bad = range("", "z");
    bad.mode = FDB_STREAMING_MODE_EXACT;
    assert_int_equal(range_error(tr, bad), 2210);
    bad.limit = -2;
    assert_int_equal(range_error(tr, bad), 2012);
    bad.limit = 1;
    bad.mode = 5;
    assert_int_equal(range_error(tr, bad), 2000);
    bad.mode = FDB_STREAMING_MODE_ITERATOR;
    assert_int_equal(range_error(tr, bad), 2000);
    bad.iteration = 100;
    assert_int_equal(range_error(tr, bad), 0);
    assert_int_equal(range_error(tr, range("", "\xff\x01")), 2004);
    expect_rows(tr, range("z", "a"), "", false);
    transaction_destroy(tr);
}

/* --- Conflict ranges --- */

static void test_conflicts_of_reads(void **state) {
    (void)state;
    store("a", "1");
    store("c", "1");
    struct transaction *tr = begin();
    check_value(tr, "q", false, NULL);
    check_value(tr, "q", false, NULL);
    check_value(tr, "r", true, NULL);
    struct range_arguments arguments = range("a", "k");
    arguments.limit = 1;
    expect_rows(tr, arguments, "a=1 ", true);
    set(tr, "w", "1");
    check_value(tr, "w", false, "1");
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_read_conflict_count(fake), 2);
    expect_conflict(fake_read_conflict(fake, 0), "a", B("a\0"));
    expect_conflict(fake_read_conflict(fake, 1), "q", B("q\0"));
    assert_int_equal(fake_write_conflict_count(fake), 1);
    expect_conflict(fake_write_conflict(fake, 0), "w", B("w\0"));
    transaction_destroy(tr);

    tr = begin();
    set(tr, "b", "own");
    transaction_clear_range(tr, B("d"), B("f"));
    expect_rows(tr, range("a", "k"), "a=1 b=own c=1 ", false);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_read_conflict_count(fake), 3);
    expect_conflict(fake_read_conflict(fake, 0), "a", B("b"));
    assert_true(bytes_equal(fake_read_conflict(fake, 1).begin, B("b\0")));
    assert_true(bytes_equal(fake_read_conflict(fake, 1).end, B("d")));
    expect_conflict(fake_read_conflict(fake, 2), "f", B("k"));
    transaction_destroy(tr);
}

static void test_conflicts_decide(void **state) {
    (void)state;
    struct transaction *reader = begin(), *blind = begin();
    check_value(reader, "k", false, NULL);
    store("k", "1");
    set(reader, "x", "1");
    set(blind, "k", "2");
    assert_int_equal(commit(reader), 1020);
    assert_int_equal(get_error(reader, "k"), 2017);
    assert_int_equal(commit(blind), 0);
    transaction_destroy(blind);
    transaction_destroy(reader);
    expect_stored("x", NULL);
}

static void test_explicit_conflicts(void **state) {
    (void)state;
    struct transaction *tr = begin();
    assert_int_equal(transaction_add_conflict_range(tr, B("b"), B("a"),
                                                    FDB_CONFLICT_RANGE_TYPE_READ), 2005);
    assert_int_equal(transaction_add_conflict_range(tr, B("a"), B("b"), 7), 2000);
    assert_int_equal(transaction_add_conflict_range(tr, B("a"), B("a"),
                                                    FDB_CONFLICT_RANGE_TYPE_READ), 0);
    assert_int_equal(transaction_add_conflict_range(tr, B("a"), B("c"),
                                                    FDB_CONFLICT_RANGE_TYPE_WRITE), 0);
    option(tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE);
    set(tr, "quiet", "1");
    set(tr, "loud", "1");
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_read_conflict_count(fake), 0);
    assert_int_equal(fake_write_conflict_count(fake), 2);
    expect_conflict(fake_write_conflict(fake, 0), "a", B("c"));
    expect_conflict(fake_write_conflict(fake, 1), "loud", B("loud\0"));
    transaction_destroy(tr);
}

static void test_reported_conflicts(void **state) {
    (void)state;
    struct transaction *tr = begin();
    option(tr, FDB_TR_OPTION_REPORT_CONFLICTING_KEYS);
    check_value(tr, "k", false, NULL);
    check_value(tr, "m", false, NULL);
    store("m", "1");
    set(tr, "x", "1");
    assert_int_equal(commit(tr), 1020);
    struct range_arguments arguments = range("\xff\xff/transaction/conflicting_keys/",
                                             "\xff\xff/transaction/conflicting_keys/\xff");
    struct rows rows = {0};
    bool more;
    assert_int_equal(transaction_get_range(tr, &arguments, &rows, &more), 0);
    assert_int_equal(rows.count, 2);
    assert_true(bytes_equal(rows_key(&rows, 0), B("\xff\xff/transaction/conflicting_keys/m")));
    assert_true(bytes_equal(rows_value(&rows, 0), B("1")));
    assert_true(bytes_equal(rows_key(&rows, 1), B("\xff\xff/transaction/conflicting_keys/m\0")));
    assert_true(bytes_equal(rows_value(&rows, 1), B("0")));
    rows_free(&rows);
    transaction_destroy(tr);
}

/* --- Writing --- */

static void test_what_is_sent(void **state) {
    (void)state;
    struct transaction *tr = begin();
    set(tr, "m", "gone");
    transaction_clear_range(tr, B("a"), B("z"));
    set(tr, "b", "1");
    set(tr, "b", "2");
    transaction_atomic_op(tr, B("c"), B("3"), MUTATION_ADD);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_mutation_count(fake), 3); /* one clear, two sets */
    assert_int_equal(fake_mutation(fake, 0).type, MUTATION_CLEAR_RANGE);
    assert_int_equal(fake_mutation(fake, 1).type, MUTATION_SET);
    assert_true(bytes_equal(fake_mutation(fake, 1).value, B("2")));
    assert_int_equal(fake_mutation(fake, 2).type, MUTATION_SET);
    assert_int_equal(fake_write_conflict_count(fake), 1);
    transaction_destroy(tr);
}

static void test_refused_writes(void **state) {
    (void)state;
    static uint8_t large[VALUE_BYTES_MAX + 1];
    const struct {
        size_t key, value;
        fdb_error_t error;
    } cases[] = {{10000, 100000, 0}, {10001, 0, 2102}, {1, 100001, 2103}};
    for (int i = 0; i < 3; i++) {
        struct transaction *tr = begin();
        set(tr, "other", "1");
        transaction_set(tr, bytes_make(large, cases[i].key), bytes_make(large, cases[i].value));
        assert_int_equal(get_error(tr, "a"), cases[i].error);
        assert_int_equal(commit(tr), cases[i].error);
        transaction_destroy(tr);
        expect_stored("other", "1"); /* of the first */
    }
    struct transaction *tr = begin();
    transaction_clear_range(tr, B("b"), B("a"));
    assert_int_equal(commit(tr), 2005);
    transaction_reset(tr);
    set(tr, "\xff", "1");
    assert_int_equal(commit(tr), 2004);
    transaction_reset(tr);
    transaction_atomic_op(tr, B("a"), B("b"), 3);
    assert_int_equal(commit(tr), 2018);
    transaction_reset(tr);
    transaction_set(tr, B("\xff/metadataVersion"), B(""));
    assert_int_equal(commit(tr), 2000);
    transaction_reset(tr);
    transaction_set(tr, B("\xff\xff/x"), B(""));
    assert_int_equal(commit(tr), 2114);
    transaction_reset(tr);
    transaction_clear(tr, bytes_make(large, 20000)); /* no such key */
    assert_int_equal(commit(tr), 0);
    transaction_destroy(tr);
}

static void test_size_limit(void **state) {
    (void)state;
    static uint8_t value[VALUE_BYTES_MAX];
    struct transaction *tr = begin();
    for (int i = 0; i < 100; i++) {
        char key[8];
        snprintf(key, sizeof key, "%d", i);
        transaction_set(tr, bytes_make(key, strlen(key)), bytes_make(value, sizeof value));
    }
    int64_t bytes;
    assert_int_equal(transaction_get_approximate_size(tr, &bytes), 0);
    assert_true(bytes > TRANSACTION_BYTES_MAX);
    assert_int_equal(commit(tr), 2101);
    transaction_reset(tr);
    assert_int_equal(integer_option(tr, FDB_TR_OPTION_SIZE_LIMIT, 31), 2006);
    transaction_reset(tr);
    assert_int_equal(integer_option(tr, FDB_TR_OPTION_SIZE_LIMIT, 100), 0);
    set(tr, "a", "0123456789");
    assert_int_equal(transaction_get_approximate_size(tr, &bytes), 0);
    assert_int_equal(bytes, 1 + 10 + 44 + 24 + 3);
    assert_int_equal(commit(tr), 0);
    transaction_reset(tr);
    assert_int_equal(integer_option(tr, FDB_TR_OPTION_SIZE_LIMIT, 81), 0);
    set(tr, "a", "0123456789");
    assert_int_equal(commit(tr), 2101);
    transaction_destroy(tr);
}

static void test_system_keys(void **state) {
    (void)state;
    struct transaction *tr = begin();
    assert_int_equal(get_error(tr, "\xff/x"), 2004);
    assert_int_equal(get_error(tr, "\xff/metadataVersion"), 0);
    option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS);
    assert_int_equal(get_error(tr, "\xff/x"), 0);
    set(tr, "\xff/x", "1");
    assert_int_equal(commit(tr), 2004);
    transaction_reset(tr);
    option(tr, FDB_TR_OPTION_ACCESS_SYSTEM_KEYS);
    set(tr, "\xff/x", "1");
    assert_int_equal(commit(tr), 0);
    transaction_reset(tr);
    transaction_atomic_op(tr, B("\xff/metadataVersion"), B("\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
                          MUTATION_SET_VERSIONSTAMPED_VALUE);
    assert_int_equal(get_error(tr, "\xff/metadataVersion"), 1036);
    transaction_destroy(tr);
}

/* --- Versionstamps --- */

struct stamp_waiting {
    struct versionstamp_completion stamp;
    int calls;
    fdb_error_t error;
};

static void note_stamp(struct completion *completion, fdb_error_t error) {
    struct stamp_waiting *wait = (struct stamp_waiting *)completion;
    wait->calls++;
    wait->error = error;
}

static void test_stamped_keys(void **state) {
    (void)state;
    struct transaction *tr = begin();
    struct stamp_waiting wait = {.stamp = {.completion = {.done = note_stamp}}};
    set(tr, "s\x05", "before"); /* where the key may come to lie */
    transaction_atomic_op(tr, B("s..........\x01\0\0\0"), B("stamped"),
                          MUTATION_SET_VERSIONSTAMPED_KEY);
    assert_int_equal(get_error(tr, "s\x05"), 1036);
    assert_int_equal(get_error(tr, "t"), 0);
    assert_int_equal(range_error(tr, range("a", "z")), 1036);
    expect_rows(tr, range("a", "s"), "", false);
    transaction_atomic_op(tr, B("v"), B("..........\0\0\0\0"), MUTATION_SET_VERSIONSTAMPED_VALUE);
    assert_int_equal(get_error(tr, "v"), 1036);
    assert_int_equal(commit(tr), 1036); /* a failed read fails the commit */
    transaction_reset(tr);
    set(tr, "s\x05", "before");
    transaction_atomic_op(tr, B("s..........\x01\0\0\0"), B("stamped"), MUTATION_SET_VERSIONSTAMPED_KEY);
    transaction_atomic_op(tr, B("v"), B("..........\0\0\0\0"), MUTATION_SET_VERSIONSTAMPED_VALUE);
    option(tr, FDB_TR_OPTION_BYPASS_UNREADABLE);
    assert_int_equal(get_error(tr, "v"), 0);
    transaction_get_versionstamp(tr, &wait.stamp);
    assert_int_equal(wait.calls, 0);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(wait.calls, 1);
    assert_int_equal(wait.error, 0);
    int64_t version;
    assert_int_equal(transaction_get_committed_version(tr, &version), 0);
    assert_int_equal((int64_t)coding_get_u64_big(wait.stamp.stamp), version);
    transaction_reset(tr);
    struct range_arguments all = range("s", "w");
    struct rows rows = {0};
    bool more;
    assert_int_equal(transaction_get_range(tr, &all, &rows, &more), 0);
    assert_int_equal(rows.count, 3);
    assert_memory_equal(rows_key(&rows, 0).data + 1, wait.stamp.stamp, 10);
    assert_true(bytes_equal(rows_value(&rows, 1), B("before")));
    assert_memory_equal(rows_value(&rows, 2).data, wait.stamp.stamp, 10);
    rows_free(&rows);
    transaction_atomic_op(tr, B("s......"), B(""), MUTATION_SET_VERSIONSTAMPED_KEY);
    assert_int_equal(commit(tr), 2000);
    transaction_destroy(tr);
}

static void test_stamps_of_others(void **state) {
    (void)state;
    struct transaction *tr = begin();
    struct stamp_waiting wait = {.stamp = {.completion = {.done = note_stamp}}};
    transaction_get_versionstamp(tr, &wait.stamp);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(wait.error, 2021);
    transaction_reset(tr);
    set(tr, "a", "1");
    transaction_get_versionstamp(tr, &wait.stamp);
    fake_fail_next(fake, 1021);
    assert_int_equal(commit(tr), 1021);
    assert_int_equal(wait.error, 2020);
    transaction_reset(tr);
    transaction_get_versionstamp(tr, &wait.stamp);
    transaction_reset(tr);
    assert_int_equal(wait.error, 1025);
    transaction_destroy(tr);
}

/* --- Commits, resets, cancels --- */

static void test_after_commit(void **state) {
    (void)state;
    struct transaction *tr = begin();
    int64_t version;
    transaction_get_committed_version(tr, &version);
    assert_int_equal(version, -1);
    set(tr, "a", "1");
    assert_int_equal(commit(tr), 0);
    transaction_get_committed_version(tr, &version);
    assert_int_equal(version, fake_version(fake));
    assert_int_equal(get_error(tr, "a"), 2017);
    assert_int_equal(commit(tr), 2017);
    transaction_reset(tr);
    assert_int_equal(get_error(tr, "a"), 0);
    assert_int_equal(commit(tr), 0); /* read-only */
    transaction_get_committed_version(tr, &version);
    assert_int_equal(version, -1);
    transaction_destroy(tr);
}

static void test_used_during_commit(void **state) {
    (void)state;
    fake_hold_commits(fake, true);
    for (int protected = 0; protected < 2; protected++) {
        struct transaction *tr = begin();
        struct waiting wait = waiting();
        if (!protected)
            option(tr, FDB_TR_OPTION_USED_DURING_COMMIT_PROTECTION_DISABLE);
        set(tr, "a", "1");
        transaction_commit(tr, &wait.completion);
        assert_int_equal(get_error(tr, "a"), 2017);
        assert_int_equal(wait.calls, protected);
        if (protected)
            assert_int_equal(wait.error, 2017);
        fake_answer(fake);
        assert_int_equal(wait.calls, 1);
        transaction_destroy(tr);
    }
}

static void test_destroyed_in_flight(void **state) {
    (void)state;
    fake_hold_commits(fake, true);
    for (int how = 0; how < 4; how++) {
        struct transaction *tr = begin();
        struct waiting wait = waiting();
        char key[2] = {(char)('a' + how), 0};
        set(tr, key, "1");
        check_value(tr, "q", false, NULL);
        transaction_commit(tr, &wait.completion);
        assert_int_equal(wait.calls, 0);
        if (how == 0)
            transaction_destroy(tr);
        else if (how == 1)
            transaction_reset(tr);
        else if (how == 2)
            transaction_cancel(tr);
        else
            assert_true(transaction_cancel_completion(&wait.completion));
        assert_int_equal(wait.calls, 1);
        assert_int_equal(wait.error, how == 3 ? 1101 : 1025);
        if (how == 1) {
            set(tr, "other", "2"); /* a new life in the same memory */
            check_value(tr, "other", false, "2");
        }
        if (how == 3)
            assert_false(transaction_cancel_completion(&wait.completion));
        fake_answer(fake);
        assert_int_equal(wait.calls, 1);
        if (how > 0)
            transaction_destroy(tr);
        expect_stored(key, "1");
    }
    fake_hold_commits(fake, false);
    expect_stored("other", NULL);
}

static void test_cancelled(void **state) {
    (void)state;
    struct transaction *tr = begin();
    struct waiting wait = waiting();
    transaction_cancel(tr);
    assert_int_equal(get_error(tr, "a"), 1025);
    assert_int_equal(commit(tr), 1025);
    transaction_on_error(tr, 1020, &wait.completion);
    assert_int_equal(wait.error, 1025);
    transaction_reset(tr);
    assert_int_equal(get_error(tr, "a"), 0);
    transaction_destroy(tr);
}

static void test_versions(void **state) {
    (void)state;
    store("a", "1");
    int64_t old = fake_version(fake), version;
    store("a", "2");
    struct transaction *tr = begin();
    assert_int_equal(transaction_set_read_version(tr, old), 0);
    check_value(tr, "a", false, "1");
    assert_int_equal(transaction_get_read_version(tr, &version), 0);
    assert_int_equal(version, old);
    assert_int_equal(transaction_set_read_version(tr, old), 2010);
    assert_int_equal(get_error(tr, "a"), 2010);
    transaction_reset(tr);
    transaction_set_read_version(tr, old + 1000000);
    assert_int_equal(get_error(tr, "a"), 1009);
    transaction_reset(tr);
    assert_int_equal(transaction_set_read_version(tr, 0), 2011);
    transaction_reset(tr);
    transaction_set_read_version(tr, old);
    fake_set_horizon(fake, old + 1);
    assert_int_equal(get_error(tr, "a"), 1007);
    set(tr, "b", "1");
    assert_int_equal(commit(tr), 1007);
    fake_set_horizon(fake, 0);
    transaction_destroy(tr);
}

/* --- The loop: timeouts and retries --- */

static void *run_loop(void *nothing) {
    (void)nothing;
    loop_run();
    return NULL;
}

struct blocking {
    struct completion completion;
    os_mutex lock;
    os_condition condition;
    bool done;
    fdb_error_t error;
};

static void wake(struct completion *completion, fdb_error_t error) {
    struct blocking *blocking = (struct blocking *)completion;
    os_mutex_lock(&blocking->lock);
    blocking->done = true;
    blocking->error = error;
    os_condition_signal(&blocking->condition);
    os_mutex_unlock(&blocking->lock);
}

static void blocking_init(struct blocking *blocking) {
    *blocking = (struct blocking){.completion = {.done = wake}};
    os_mutex_init(&blocking->lock);
    os_condition_init(&blocking->condition);
}

static fdb_error_t block(struct blocking *blocking) {
    os_mutex_lock(&blocking->lock);
    while (!blocking->done)
        os_condition_wait(&blocking->condition, &blocking->lock);
    os_mutex_unlock(&blocking->lock);
    os_condition_destroy(&blocking->condition);
    os_mutex_destroy(&blocking->lock);
    return blocking->error;
}

static fdb_error_t on_error(struct transaction *tr, fdb_error_t error) {
    struct blocking blocking;
    blocking_init(&blocking);
    transaction_on_error(tr, error, &blocking.completion);
    return block(&blocking);
}

static void test_on_error(void **state) {
    (void)state;
    struct transaction *tr = begin();
    set(tr, "a", "1");
    fake_fail_next(fake, 1020);
    assert_int_equal(commit(tr), 1020);
    assert_int_equal(on_error(tr, 1020), 0);
    check_value(tr, "a", false, NULL); /* forgotten */
    assert_int_equal(on_error(tr, 1007), 0);
    assert_int_equal(on_error(tr, 1021), 0);
    assert_int_equal(on_error(tr, 2101), 2101);
    assert_int_equal(get_error(tr, "a"), 1025);
    transaction_reset(tr);
    assert_int_equal(on_error(tr, 0), 2000);
    transaction_reset(tr);
    assert_int_equal(integer_option(tr, FDB_TR_OPTION_RETRY_LIMIT, 2), 0);
    assert_int_equal(on_error(tr, 1020), 0);
    assert_int_equal(on_error(tr, 1020), 0);
    assert_int_equal(on_error(tr, 1020), 1020);
    assert_int_equal(on_error(tr, 1020), 1025);
    transaction_reset(tr);
    struct blocking blocking;
    blocking_init(&blocking);
    transaction_on_error(tr, 1020, &blocking.completion);
    if (transaction_cancel_completion(&blocking.completion)) {
        assert_int_equal(block(&blocking), 1101);
        assert_int_equal(get_error(tr, "a"), 1025);
    } else {
        assert_int_equal(block(&blocking), 0);
    }
    transaction_destroy(tr);
}

static void test_timeout(void **state) {
    (void)state;
    fake_hold_commits(fake, true);
    struct transaction *tr = begin();
    struct blocking blocking;
    blocking_init(&blocking);
    assert_int_equal(integer_option(tr, FDB_TR_OPTION_TIMEOUT, 20), 0);
    set(tr, "a", "1");
    transaction_commit(tr, &blocking.completion);
    assert_int_equal(block(&blocking), 1031);
    assert_int_equal(on_error(tr, 1031), 1031);
    fake_answer(fake);
    fake_hold_commits(fake, false);
    transaction_reset(tr);
    assert_int_equal(get_error(tr, "a"), 0); /* the timeout went with the reset */
    assert_int_equal(integer_option(tr, FDB_TR_OPTION_TIMEOUT, 10), 0);
    assert_int_equal(on_error(tr, 1007) == 0 ? on_error(tr, 1007) : 1031, 1031); /* lasts */
    transaction_reset(tr);
    uint8_t limit[8] = {1};
    assert_int_equal(database_handle_set_option(handle, FDB_DB_OPTION_TRANSACTION_TIMEOUT, limit,
                                                8), 0);
    struct transaction *other = begin();
    while (get_error(other, "a") != 1031)
        os_sleep_us(100);
    limit[0] = 0;
    assert_int_equal(database_handle_set_option(handle, FDB_DB_OPTION_TRANSACTION_TIMEOUT, limit,
                                                8), 0);
    transaction_reset(other);
    assert_int_equal(get_error(other, "a"), 0);
    transaction_destroy(other);
    transaction_destroy(tr);
}

/* --- Watches --- */

static void test_watches(void **state) {
    (void)state;
    store("a", "1");
    struct transaction *tr = begin();
    struct waiting changed = waiting(), own = waiting(), same = waiting(), cancelled = waiting();
    transaction_watch(tr, B("a"), &changed.completion);
    transaction_watch(tr, B("b"), &own.completion);
    set(tr, "b", "x");
    assert_int_equal(own.calls, 1); /* the transaction changed it itself */
    assert_int_equal(own.error, 0);
    transaction_watch(tr, B("b"), &same.completion);
    transaction_watch(tr, B("c"), &cancelled.completion);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_watches(fake), 3);
    transaction_retain(tr);
    transaction_destroy(tr);
    assert_int_equal(changed.calls, 0);
    assert_true(transaction_cancel_completion(&cancelled.completion));
    assert_int_equal(cancelled.error, 1101);
    assert_false(transaction_cancel_completion(&cancelled.completion));
    assert_int_equal(fake_watches(fake), 2);
    store("a", "2");
    assert_int_equal(changed.calls, 1);
    assert_int_equal(changed.error, 0);
    assert_int_equal(same.calls, 0);
    store("b", "y");
    assert_int_equal(same.calls, 1);
    transaction_release(tr);
}

static void test_watches_that_fail(void **state) {
    (void)state;
    struct transaction *tr = begin();
    struct waiting watch = waiting();
    transaction_watch(tr, B("a"), &watch.completion);
    transaction_destroy(tr);
    assert_int_equal(watch.error, 1025);
    tr = begin();
    watch = waiting();
    transaction_watch(tr, B("a"), &watch.completion);
    set(tr, "b", "1");
    fake_fail_next(fake, 1021);
    assert_int_equal(commit(tr), 1021);
    assert_int_equal(watch.error, 1021);
    transaction_reset(tr);
    watch = waiting();
    transaction_watch(tr, B("a"), &watch.completion);
    transaction_reset(tr);
    assert_int_equal(watch.error, 1025);
    watch = waiting();
    transaction_watch(tr, B("\xff/x"), &watch.completion);
    assert_int_equal(watch.error, 2004);
    option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    transaction_watch(tr, B("a"), &watch.completion);
    assert_int_equal(watch.error, 1034);
    transaction_reset(tr);
    uint8_t limit[8] = {1};
    assert_int_equal(database_handle_set_option(handle, FDB_DB_OPTION_MAX_WATCHES, limit, 8), 0);
    struct waiting second = waiting();
    watch = waiting();
    transaction_watch(tr, B("a"), &watch.completion);
    transaction_watch(tr, B("a"), &second.completion);
    assert_int_equal(second.error, 1032);
    assert_true(transaction_cancel_completion(&watch.completion));
    second = waiting();
    transaction_watch(tr, B("a"), &second.completion);
    assert_int_equal(second.calls, 0);
    transaction_destroy(tr);
}

/* --- Races --- */

struct counted {
    struct completion completion;
    _Atomic int calls;
};

static void count_call(struct completion *completion, fdb_error_t error) {
    (void)error;
    atomic_fetch_add(&((struct counted *)completion)->calls, 1);
}

enum { RACES = 300 };
static struct counted racers[RACES];
static struct transaction *racing[RACES];
static _Atomic int race_turn;

static void *cancel_in_turn(void *nothing) {
    (void)nothing;
    for (int i = 0; i < RACES; i++) {
        while (atomic_load(&race_turn) < i)
            os_thread_yield();
        transaction_cancel_completion(&racers[i].completion);
    }
    return NULL;
}

/* A watch that is cancelled just as it fires, or a commit as it is answered: one of them, once. */
static void race(bool watches) {
    os_thread thread;
    atomic_store(&race_turn, -1);
    for (int i = 0; i < RACES; i++) {
        racers[i].completion = (struct completion){.done = count_call};
        atomic_store(&racers[i].calls, 0);
        racing[i] = begin();
        transaction_retain(racing[i]);
        set(racing[i], "other", "1");
    }
    fake_hold_commits(fake, true);
    if (os_thread_start(&thread, "racer", cancel_in_turn, NULL))
        fail();
    for (int i = 0; i < RACES; i++) {
        if (watches) {
            transaction_watch(racing[i], B("w"), &racers[i].completion);
            struct waiting wait = waiting();
            transaction_commit(racing[i], &wait.completion);
            fake_answer(fake);
            assert_int_equal(wait.calls, 1);
        } else {
            transaction_commit(racing[i], &racers[i].completion);
        }
        struct transaction *writer = begin();
        struct waiting wait = waiting();
        transaction_set(writer, B("w"), bytes_make(&i, sizeof i));
        transaction_commit(writer, &wait.completion);
        atomic_store(&race_turn, i);
        fake_answer(fake); /* fires the watch, answers the commit */
        assert_int_equal(wait.calls, 1);
        transaction_destroy(writer);
        transaction_destroy(racing[i]);
    }
    os_thread_join(thread);
    fake_hold_commits(fake, false);
    assert_int_equal(fake_watches(fake), 0);
    for (int i = 0; i < RACES; i++) {
        assert_int_equal(atomic_load(&racers[i].calls), 1);
        transaction_release(racing[i]);
    }
}

static void test_races(void **state) {
    (void)state;
    race(false);
    race(true);
}

/* --- Options and special keys --- */

static void test_options(void **state) {
    (void)state;
    struct transaction *tr = begin();
    assert_int_equal(transaction_set_option(tr, 12345, NULL, 0), 2007);
    assert_int_equal(get_error(tr, "a"), 0);
    assert_int_equal(transaction_set_option(tr, FDB_TR_OPTION_TIMEOUT, (const uint8_t *)"abc", 3),
                     2006);
    assert_int_equal(get_error(tr, "a"), 2006); /* also for those who do not look */
    transaction_reset(tr);
    assert_int_equal(transaction_set_option(tr, FDB_TR_OPTION_PRIORITY_BATCH, (const uint8_t *)"x",
                                            1), 2006);
    transaction_reset(tr);
    option(tr, FDB_TR_OPTION_PRIORITY_BATCH);
    option(tr, FDB_TR_OPTION_RAW_ACCESS);
    option(tr, FDB_TR_OPTION_READ_LOCK_AWARE);
    set(tr, "a", "1");
    assert_int_equal(commit(tr), 2023);
    assert_int_equal(database_handle_set_option(handle, 999, NULL, 0), 2007);
    assert_int_equal(database_handle_set_option(handle, FDB_DB_OPTION_MAX_WATCHES, NULL, 0), 2006);
    assert_int_equal(database_handle_set_option(handle, FDB_DB_OPTION_SNAPSHOT_RYW_DISABLE, NULL,
                                                0), 0);
    transaction_reset(tr);
    set(tr, "a", "1");
    check_value(tr, "a", true, NULL);
    transaction_destroy(tr);
}

static void test_special_keys(void **state) {
    (void)state;
    struct transaction *tr = begin();
    struct arena arena = {0};
    struct bytes value;
    bool present;
    check_value(tr, "\xff\xff/connection_string", false, "d:i@h:1");
    check_value(tr, "\xff\xff/cluster_file_path", false, "/a/path");
    check_value(tr, "\xff\xff/error_message", false, NULL);
    assert_int_equal(transaction_get(tr, B("\xff\xff/status/json"), false, &arena, &value,
                                     &present), 0);
    assert_true(present && value.data[0] == '{' && value.data[value.length - 1] == '}');
    assert_int_equal(get_error(tr, "\xff\xff/nothing"), 2113);
    assert_int_equal(range_error(tr, range("\xff\xff/status/json", "\xff\xff/tracing/")), 2112);
    set(tr, "w", "1");
    check_value(tr, "r", false, NULL);
    expect_rows(tr, range("\xff\xff/transaction/read_conflict_range/",
                          "\xff\xff/transaction/read_conflict_range/r~"),
                "\xff\xff/transaction/read_conflict_range/r=1 "
                "\xff\xff/transaction/read_conflict_range/r=0 ",
                    false); /* the end has a zero byte */
    arena_free(&arena);
    transaction_destroy(tr);
}

static void test_old_api(void **state) {
    (void)state;
    database_handle_release(handle);
    open_at(510);
    struct transaction *tr = begin();
    transaction_atomic_op(tr, B("k.........."), B(""), MUTATION_SET_VERSIONSTAMPED_KEY);
    assert_int_equal(commit(tr), 2000);
    transaction_reset(tr);
    transaction_atomic_op(tr, B("k..........\x01\0"), B("1"), MUTATION_SET_VERSIONSTAMPED_KEY);
    transaction_atomic_op(tr, B("v"), B("..........tail"), MUTATION_SET_VERSIONSTAMPED_VALUE);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_mutation(fake, 1).value.length, 10 + 4 + 4);
    transaction_reset(tr);
    assert_int_equal(get_error(tr, "\xff\xff/nothing"), 2004);
    check_value(tr, "\xff\xff/cluster_file_path", false, "/a/path");
    struct waiting wait = waiting();
    transaction_on_error(tr, 2101, &wait.completion);
    assert_int_equal(wait.error, 2101);
    assert_int_equal(get_error(tr, "a"), 0); /* not cancelled before 610 */
    transaction_destroy(tr);
}

/* --- Memory that runs out --- */

static void exercise(struct transaction *tr) {
    struct waiting wait = waiting(), watch = waiting();
    struct rows rows = {0};
    bool more;
    set(tr, "m", "1");
    transaction_clear_range(tr, B("b"), B("d"));
    option(tr, FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE);
    transaction_clear_range(tr, B("a"), B("n"));
    transaction_atomic_op(tr, B("s..........\x01\0\0\0"), B("x"), MUTATION_SET_VERSIONSTAMPED_KEY);
    get_error(tr, "x");
    struct range_arguments arguments = range("", "q");
    arguments.begin.or_equal = true;
    transaction_get_range(tr, &arguments, &rows, &more);
    transaction_watch(tr, B("w"), &watch.completion);
    get_error(tr, "\xff\xff/status/json");
    transaction_commit(tr, &wait.completion);
    transaction_destroy(tr);
    assert_int_equal(wait.calls, 1);
    assert_int_equal(watch.calls, 1);
    rows_free(&rows);
}

/*
 * Every allocation fails once; nothing leaks, nothing is answered twice, and only a whole
 * transaction commits.
 */
static void test_memory_out(void **state) {
    (void)state;
    fake_hold_commits(fake, true);
    for (long countdown = 0; countdown < 60; countdown++) {
        struct transaction *tr;
        memory_fail_after(countdown);
        if (transaction_create(handle, &tr) == 0)
            exercise(tr);
        memory_fail_after(-1);
        int64_t before = fake_version(fake);
        bool sent = fake_waiting(fake) > 0;
        fake_answer(fake);
        assert_int_equal(fake_version(fake) > before, sent);
        if (sent)
            assert_int_equal(fake_mutation_count(fake), 2); /* a clear, the stamped key */
    }
}

/* --- Long reads (more in test_long_read.c) --- */

static void test_long_read(void **state) {
    (void)state;
    store("a", "1");
    struct transaction *tr = begin();
    assert_int_equal(transaction_set_option(tr, (int)KEEL_TR_OPTION_LONG_READ, NULL, 0), 0);
    assert_int_equal(fake_pins(fake), 0);
    check_value(tr, "a", false, "1");
    assert_int_equal(fake_pins(fake), 1);
    store("a", "2");
    fake_set_horizon(fake, fake_version(fake));
    check_value(tr, "a", false, "1");
    expect_rows(tr, (struct range_arguments){at_least("a"), at_least("b"), 0, 0, FDB_STREAMING_MODE_WANT_ALL, 0,
                                             false, false}, "a=1 ", false);
    assert_int_equal(commit(tr), 0);
    assert_int_equal(fake_pins(fake), 0);
    transaction_destroy(tr);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_own_writes),        TEST(test_dependent),          TEST(test_ryw_disabled),
        TEST(test_passes_through),    TEST(test_selectors),          TEST(test_limits_of_ranges),
        TEST(test_conflicts_of_reads), TEST(test_conflicts_decide),  TEST(test_explicit_conflicts),
        TEST(test_reported_conflicts), TEST(test_what_is_sent),      TEST(test_refused_writes),
        TEST(test_size_limit),        TEST(test_system_keys),        TEST(test_stamped_keys),
        TEST(test_stamps_of_others),  TEST(test_after_commit),       TEST(test_used_during_commit),
        TEST(test_destroyed_in_flight), TEST(test_cancelled),        TEST(test_versions),
        TEST(test_on_error),          TEST(test_timeout),            TEST(test_watches),
        TEST(test_watches_that_fail), TEST(test_options),            TEST(test_special_keys),
        TEST(test_old_api),           TEST(test_memory_out),
        TEST(test_races),             TEST(test_long_read),
    };
    os_thread loop;
    if (os_thread_start(&loop, "loop", run_loop, NULL))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    loop_stop();
    os_thread_join(loop);
    return failed;
}
