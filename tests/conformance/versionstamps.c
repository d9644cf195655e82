/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versionstamped keys and values at API version 520 and later: the last four bytes of the key or
 * operand are the little-endian offset at which the stamp goes, and are cut off.
 */
#include "support.h"

static struct bytes stamped(struct bytes bytes, int offset) {
    return joined(bytes, little_endian((uint64_t)(int64_t)offset, 4));
}

/* before + ten bytes to be filled + after + offset. */
static struct bytes with_hole(struct bytes before, struct bytes after) {
    return stamped(joined(joined(before, repeat('x', VERSIONSTAMP_BYTES)), after), before.size);
}

static int64_t committed_version(FDBTransaction *tr) {
    int64_t version = 0;
    assert_int_equal(fdb_transaction_get_committed_version(tr, &version), 0);
    return version;
}

static struct bytes big_endian(int64_t number) {
    uint8_t *data = scratch(8);
    for (int i = 0; i < 8; i++) {
        data[i] = (uint8_t)((uint64_t)number >> (8 * (7 - i)));
    }
    return raw(data, 8);
}

static void value_is_filled_in(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"),
           with_hole(text("before"), text("after")));
    FDBFuture *stamp_future = fdb_transaction_get_versionstamp(tr);
    assert_false(fdb_future_is_ready(stamp_future));
    commit(tr);
    struct bytes stamp = future_key(stamp_future);
    assert_int_equal(stamp.size, VERSIONSTAMP_BYTES);
    assert_bytes(raw(stamp.data, 8), big_endian(committed_version(tr)));
    assert_value(load(key("a")), joined(joined(text("before"), stamp), text("after")));
    fdb_transaction_destroy(tr);
}

static void key_is_filled_in(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY, with_hole(key("k"), text("tail")),
           text("value"));
    FDBFuture *stamp_future = fdb_transaction_get_versionstamp(tr);
    commit(tr);
    struct bytes stamp = future_key(stamp_future);
    assert_value(load(joined(joined(key("k"), stamp), text("tail"))), text("value"));
    fdb_transaction_reset(tr);
    assert_int_equal(read_range(tr, all()).count, 1);
    fdb_transaction_destroy(tr);
}

static void one_transaction_has_one_stamp(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"), with_hole(text(""), text("")));
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("b"), with_hole(text(""), text("")));
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY, with_hole(key("k"), text("")), text(""));
    commit(tr);
    fdb_transaction_destroy(tr);
    struct value a = load(key("a"));
    struct value b = load(key("b"));
    assert_value(a, b.bytes);
    assert_true(load(joined(key("k"), a.bytes)).present);
}

static void stamps_grow_in_commit_order(void **state) {
    (void)state;
    struct bytes previous = repeat(0, VERSIONSTAMP_BYTES);
    for (int i = 0; i < 10; i++) {
        FDBTransaction *tr = begin();
        put(tr, key("a"), text("x"));
        FDBFuture *stamp_future = fdb_transaction_get_versionstamp(tr);
        commit(tr);
        struct bytes stamp = future_key(stamp_future);
        assert_true(memcmp(previous.data, stamp.data, VERSIONSTAMP_BYTES) < 0);
        previous = stamp;
        fdb_transaction_destroy(tr);
    }
}

static void stamps_of_one_batch_differ(void **state) {
    (void)state;
    enum { COUNT = 30 };
    FDBTransaction *tr[COUNT];
    FDBFuture *commits[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tr[i] = begin();
        mutate(tr[i], FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY, with_hole(key("log"), text("")),
               text("entry"));
        commits[i] = fdb_transaction_commit(tr[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_ready(commits[i]);
        fdb_transaction_destroy(tr[i]);
    }
    FDBTransaction *reader = begin();
    assert_int_equal(read_range(reader, all()).count, COUNT);
    fdb_transaction_destroy(reader);
}

static void stamped_value_is_unreadable_before_commit(void **state) {
    (void)state;
    store_text("a", "old");
    store_text("b", "old");
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"), with_hole(text(""), text("")));
    assert_fails(get(tr, key("a")), ERROR_ACCESSED_UNREADABLE);
    assert_fails(get_snapshot(tr, key("a")), ERROR_ACCESSED_UNREADABLE);
    assert_fails(get_range(tr, all()), ERROR_ACCESSED_UNREADABLE);
    assert_value(future_value(get(tr, key("b"))), text("old"));
    assert_rows(read_range(tr, span(key("b"), key("c"))), "b=old");
    fdb_transaction_destroy(tr);
}

static void range_of_a_stamped_key_is_unreadable(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY, with_hole(key("k"), text("")), text("v"));
    assert_fails(get(tr, joined(key("k"), repeat(0x7f, VERSIONSTAMP_BYTES))),
                 ERROR_ACCESSED_UNREADABLE);
    assert_fails(get_range(tr, all()), ERROR_ACCESSED_UNREADABLE);
    assert_fails(get_key(tr, key("k"), false, 2), ERROR_ACCESSED_UNREADABLE);
    assert_absent(future_value(get(tr, key("a"))));
    assert_absent(future_value(get(tr, key("l"))));
    assert_int_equal(commit_error(tr), ERROR_ACCESSED_UNREADABLE);
    fdb_transaction_destroy(tr);
}

static void set_does_not_make_it_readable_and_clear_does(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"), with_hole(text(""), text("")));
    put(tr, key("a"), text("plain"));
    assert_fails(get(tr, key("a")), ERROR_ACCESSED_UNREADABLE);
    erase(tr, key("a"));
    assert_absent(future_value(get(tr, key("a"))));
    put(tr, key("a"), text("plain"));
    assert_value(future_value(get(tr, key("a"))), text("plain"));
    fdb_transaction_destroy(tr);
}

static struct range selected(struct selector first, struct selector end, int limit, bool reverse) {
    return (struct range){.begin = first, .end = end, .mode = FDB_STREAMING_MODE_EXACT, .limit = limit, .reverse = reverse};
}

/* A range read asks where its selectors lead only as far as the answer depends on it: the keys are a to f and, unreadable, m. */
static void ranges_look_behind_an_unreadable_key_only_if_they_must(void **state) {
    (void)state;
    for (char letter = 'a'; letter <= 'f'; letter++) {
        char name[2] = {letter, 0};
        store_text(name, name);
    }
    struct selector far = {key("a"), false, 60}, first = first_at_or_after(key("a"));
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("m"), with_hole(text(""), text("")));
    assert_rows(read_range(tr, selected(first, far, 2, false)), "a=a b=b");
    assert_rows(read_range(tr, selected(first, (struct selector){key("f"), false, 2}, 100, false)),
                "a=a b=b c=c d=d e=e f=f");
    assert_rows(read_range(tr, selected(far, first_at_or_after(key("d")), 2, true)), "");
    assert_rows(read_range(tr, selected((struct selector){key("g"), false, 50},
                                        (struct selector){key("h"), false, 50}, 2, false)), "");
    assert_fails(get_range(tr, selected((struct selector){key("p"), false, -40}, first_at_or_after(key("n")), 100, false)),
                 ERROR_ACCESSED_UNREADABLE);
    assert_fails(get_range(tr, selected(first, far, 100, false)), ERROR_ACCESSED_UNREADABLE);
    assert_fails(get_range(tr, selected(first, far, 2, true)), ERROR_ACCESSED_UNREADABLE);
    assert_fails(get_range(tr, selected(far, first_at_or_after(key("z")), 2, false)), ERROR_ACCESSED_UNREADABLE);
    fdb_transaction_reset(tr); /* the official client goes by what it remembers, too */
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("m"), with_hole(text(""), text("")));
    assert_fails(get_range(tr, selected((struct selector){key("f"), false, -1}, far, 2, false)), ERROR_ACCESSED_UNREADABLE);
    fdb_transaction_destroy(tr);
}

/* Nobody looks at the error of a read, and yet nothing is committed that may rest on it; a refused argument does not count. */
static void a_failed_read_fails_the_commit(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    for (int read = 0; read < 4; read++) {
        mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"), with_hole(text(""), text("")));
        FDBFuture *future = read == 0   ? get(tr, key("a"))
                            : read == 1 ? get_snapshot(tr, key("a"))
                            : read == 2 ? get_range(tr, all())
                                        : get_key(tr, key("a"), false, 1);
        assert_int_equal(fdb_future_block_until_ready(future), 0);
        fdb_future_destroy(future);
        assert_int_equal(commit_error(tr), ERROR_ACCESSED_UNREADABLE);
        assert_fails(fdb_transaction_on_error(tr, ERROR_ACCESSED_UNREADABLE), ERROR_ACCESSED_UNREADABLE);
        fdb_transaction_reset(tr);
    }
    assert_absent(load(key("a")));
    put(tr, key("a"), text("x"));
    assert_fails(get(tr, LITERAL("\xff/x")), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_fails(get_key(tr, LITERAL("\xff/x"), false, 1), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_fails(get_range(tr, span(text(""), LITERAL("\xff/x"))), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), text("x"));
}

/* Also where it has nothing to write. */
static void a_failed_read_fails_the_commit_of_a_reader(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fdb_transaction_set_read_version(tr, 1);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TOO_OLD);
    assert_int_equal(commit_error(tr), ERROR_TRANSACTION_TOO_OLD);
    assert_ready(fdb_transaction_on_error(tr, ERROR_TRANSACTION_TOO_OLD));
    assert_absent(future_value(get(tr, key("a"))));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void set_after_stamped_value_is_what_commits(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"), with_hole(text(""), text("")));
    put(tr, key("a"), text("plain"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), text("plain"));
}

/* The option is for get alone. */
static void bypass_option_reads_the_unfilled_bytes(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_BYPASS_UNREADABLE);
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"),
           with_hole(text("start"), text("")));
    struct value value = future_value(get(tr, key("a")));
    assert_true(value.present);
    assert_true(value.bytes.size >= 5 + VERSIONSTAMP_BYTES);
    assert_bytes(raw(value.bytes.data, 5), text("start"));
    assert_fails(get_range(tr, all()), ERROR_ACCESSED_UNREADABLE);
    fdb_transaction_destroy(tr);
}

static void reads_without_ryw_are_always_possible(void **state) {
    (void)state;
    store_text("a", "old");
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE, key("a"), with_hole(text(""), text("")));
    assert_value(future_value(get(tr, key("a"))), text("old"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_int_equal(load(key("a")).bytes.size, VERSIONSTAMP_BYTES);
}

static fdb_error_t stamp_error(FDBMutationType type, struct bytes name, struct bytes operand) {
    FDBTransaction *tr = begin();
    mutate(tr, type, name, operand);
    fdb_error_t error = commit_error(tr);
    fdb_transaction_destroy(tr);
    return error;
}

static void offsets_out_of_range_fail(void **state) {
    (void)state;
    FDBMutationType value = FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE;
    struct bytes ten = repeat('x', 10);
    assert_int_equal(stamp_error(value, key("a"), stamped(ten, 1)), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(stamp_error(value, key("a"), stamped(ten, -1)),
                     ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(stamp_error(value, key("a"), text("abc")), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(stamp_error(value, key("a"), stamped(text("short"), 0)),
                     ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(stamp_error(value, key("a"), stamped(ten, 0)), 0);
    FDBMutationType name = FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY;
    struct bytes hole = joined(key("k"), ten);
    assert_int_equal(stamp_error(name, stamped(hole, hole.size - 9), text("")),
                     ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(stamp_error(name, stamped(hole, -5), text("")),
                     ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(stamp_error(name, text("abc"), text("")), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(stamp_error(name, stamped(hole, hole.size - 10), text("")), 0);
}

static void read_only_transaction_has_no_stamp(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    commit(tr);
    assert_fails(stamp, ERROR_NO_COMMIT_VERSION);
    fdb_transaction_destroy(tr);
}

static void stamp_must_be_asked_for_before_the_commit(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("x"));
    commit(tr);
    assert_fails(fdb_transaction_get_versionstamp(tr), ERROR_USED_DURING_COMMIT);
    fdb_transaction_destroy(tr);
}

static void failed_commit_has_no_stamp(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    store_text("a", "changed");
    put(tr, key("b"), text("x"));
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    assert_fails(stamp, ERROR_TRANSACTION_INVALID_VERSION);
    fdb_transaction_destroy(tr);
}

static void write_stamped_key(FDBTransaction *tr) {
    mutate(tr, FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY, with_hole(key("k"), text("")), text("v"));
}

static void stamped_key_conflicts_with_readers_of_its_range(void **state) {
    (void)state;
    FDBTransaction *reader = begin();
    assert_rows(read_range(reader, span(key("k"), key("l"))), "");
    FDBTransaction *writer = begin();
    write_stamped_key(writer);
    commit(writer);
    fdb_transaction_destroy(writer);
    put(reader, key("~"), text(""));
    assert_int_equal(commit_error(reader), ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(reader);
    assert_false(write_conflicts_with(write_stamped_key, key("a")));
}

int group_versionstamps(void) {
    const struct CMUnitTest tests[] = {
        TEST(value_is_filled_in),
        TEST(key_is_filled_in),
        TEST(one_transaction_has_one_stamp),
        TEST(stamps_grow_in_commit_order),
        TEST(stamps_of_one_batch_differ),
        TEST(stamped_value_is_unreadable_before_commit),
        TEST(range_of_a_stamped_key_is_unreadable),
        TEST(set_does_not_make_it_readable_and_clear_does),
        TEST(ranges_look_behind_an_unreadable_key_only_if_they_must),
        TEST(a_failed_read_fails_the_commit),
        TEST(a_failed_read_fails_the_commit_of_a_reader),
        TEST(set_after_stamped_value_is_what_commits),
        TEST(bypass_option_reads_the_unfilled_bytes),
        TEST(reads_without_ryw_are_always_possible),
        TEST(offsets_out_of_range_fail),
        TEST(read_only_transaction_has_no_stamp),
        TEST(stamp_must_be_asked_for_before_the_commit),
        TEST(failed_commit_has_no_stamp),
        TEST(stamped_key_conflicts_with_readers_of_its_range),
    };
    return cmocka_run_group_tests_name("versionstamps", tests, NULL, NULL);
}
