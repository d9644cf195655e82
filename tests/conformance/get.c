/* SPDX-License-Identifier: Apache-2.0 */
/* Single keys: get, set, clear and clear_range, what bytes they take, what is copied. */
#include "support.h"

static void missing_key_has_no_value(void **state) {
    (void)state;
    assert_absent(load(key("nothing")));
}

static void committed_value_is_read_back(void **state) {
    (void)state;
    store_text("a", "1");
    assert_value(load(key("a")), text("1"));
}

static void uncommitted_value_is_not_seen_by_others(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("1"));
    assert_value(future_value(get(tr, key("a"))), text("1"));
    assert_absent(load(key("a")));
    fdb_transaction_destroy(tr);
    assert_absent(load(key("a")));
}

static void empty_value_is_not_a_missing_one(void **state) {
    (void)state;
    store_text("empty", "");
    struct value value = load(key("empty"));
    assert_true(value.present);
    assert_int_equal(value.bytes.size, 0);
}

static void last_set_wins(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("1"));
    put(tr, key("a"), text("2"));
    put(tr, key("a"), text("3"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(key("a")), text("3"));
}

static void keys_hold_any_byte(void **state) {
    (void)state;
    uint8_t every[256];
    for (int i = 0; i < 256; i++) {
        every[i] = (uint8_t)i;
    }
    struct bytes name = key_bytes(raw(every, 256));
    store(name, raw(every, 256));
    assert_value(load(name), raw(every, 256));
    assert_absent(load(key_after(name)));
    assert_absent(load(raw(name.data, name.size - 1)));
}

static void keys_differing_only_in_trailing_zeros_are_different(void **state) {
    (void)state;
    store(key("z"), text("none"));
    store(key_bytes(LITERAL("z\0")), text("one"));
    store(key_bytes(LITERAL("z\0\0")), text("two"));
    assert_value(load(key("z")), text("none"));
    assert_value(load(key_bytes(LITERAL("z\0"))), text("one"));
    assert_value(load(key_bytes(LITERAL("z\0\0"))), text("two"));
}

static void longest_key_and_value_work(void **state) {
    (void)state;
    struct bytes start = key("long");
    struct bytes name = joined(start, repeat('k', KEY_BYTES_MAX - start.size));
    struct bytes value = repeat('v', VALUE_BYTES_MAX);
    store(name, value);
    assert_value(load(name), value);
}

static void long_keys_with_a_common_start_stay_apart(void **state) {
    (void)state;
    struct bytes start = joined(key("long"), repeat('x', 2000));
    FDBTransaction *tr = begin();
    for (int i = 0; i < 20; i++) {
        put(tr, joined(start, repeat((uint8_t)('a' + i), 1 + i * 50)), little_endian((uint64_t)i, 4));
    }
    commit(tr);
    fdb_transaction_reset(tr);
    struct rows rows = read_range(tr, all());
    assert_int_equal(rows.count, 20);
    for (int i = 0; i < 20; i++) {
        assert_bytes(rows.row[i].key, joined(start, repeat((uint8_t)('a' + i), 1 + i * 50)));
        assert_bytes(rows.row[i].value, little_endian((uint64_t)i, 4));
    }
    fdb_transaction_destroy(tr);
}

static void get_of_a_key_that_could_never_be_set_finds_nothing(void **state) {
    (void)state;
    struct bytes start = key("long");
    assert_absent(load(joined(start, repeat('k', KEY_BYTES_MAX + 100 - start.size))));
}

static void get_of_system_keys_needs_the_option(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_fails(get(tr, LITERAL("\xff")), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_fails(get(tr, LITERAL("\xff/conformance")), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_ready(get(tr, LITERAL("\xfe\xff\xff")));
    set_option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS);
    assert_ready(get(tr, LITERAL("\xff/conformance")));
    fdb_transaction_destroy(tr);
}

static void a_failed_read_leaves_outputs_alone(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *future = get(tr, LITERAL("\xff"));
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    fdb_bool_t present = 77;
    const uint8_t *data = (const uint8_t *)"untouched";
    int size = 99;
    assert_int_equal(fdb_future_get_value(future, &present, &data, &size),
                     ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_int_equal(present, 77);
    assert_int_equal(size, 99);
    assert_string_equal((const char *)data, "untouched");
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void arguments_are_copied(void **state) {
    (void)state;
    struct bytes name = key("copied");
    uint8_t *mutable_key = scratch((size_t)name.size);
    memcpy(mutable_key, name.data, (size_t)name.size);
    uint8_t value[4] = {'g', 'o', 'o', 'd'};
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, mutable_key, name.size, value, 4);
    memset(mutable_key, 'x', (size_t)name.size);
    memset(value, 'x', 4);
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_value(load(name), text("good"));
}

static void reads_may_be_started_together(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *future[50];
    for (int i = 0; i < 50; i++) {
        put(tr, key_bytes(little_endian((uint64_t)i, 2)), little_endian((uint64_t)i * 7, 4));
    }
    commit(tr);
    fdb_transaction_reset(tr);
    for (int i = 0; i < 50; i++) {
        future[i] = get(tr, key_bytes(little_endian((uint64_t)i, 2)));
    }
    for (int i = 49; i >= 0; i--) {
        assert_value(future_value(future[i]), little_endian((uint64_t)i * 7, 4));
    }
    fdb_transaction_destroy(tr);
}

static void clear_removes_one_key(void **state) {
    (void)state;
    store_text("a", "1");
    store_text("b", "2");
    remove_key(key("a"));
    assert_absent(load(key("a")));
    assert_value(load(key("b")), text("2"));
}

static void clear_of_a_missing_key_is_fine(void **state) {
    (void)state;
    remove_key(key("nothing"));
    assert_absent(load(key("nothing")));
}

static void fill(const char *letters) {
    FDBTransaction *tr = begin();
    for (; *letters; letters++) {
        char name[2] = {*letters, 0};
        put(tr, key(name), text(name));
    }
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void check_after_clearing(const char *first, const char *end, const char *expected) {
    fill("abcdef");
    FDBTransaction *tr = begin();
    erase_range(tr, key(first), key(end));
    assert_rows(read_range(tr, all()), expected);
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), expected);
    fdb_transaction_destroy(tr);
}

static void clear_range_includes_its_begin_and_not_its_end(void **state) {
    (void)state;
    check_after_clearing("b", "d", "a=a d=d e=e f=f");
    check_after_clearing("bb", "d", "a=a b=b d=d e=e f=f");
    check_after_clearing("b", "bb", "a=a c=c d=d e=e f=f");
    check_after_clearing("", "~", "");
}

static void clear_of_an_empty_range_does_nothing(void **state) {
    (void)state;
    check_after_clearing("c", "c", "a=a b=b c=c d=d e=e f=f");
}

static void clear_of_an_inverted_range_fails_the_commit(void **state) {
    (void)state;
    fill("abc");
    FDBTransaction *tr = begin();
    erase_range(tr, key("c"), key("a"));
    assert_int_equal(commit_error(tr), ERROR_INVERTED_RANGE);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "a=a b=b c=c");
    fdb_transaction_destroy(tr);
}

static void clear_then_set_in_one_transaction(void **state) {
    (void)state;
    fill("abc");
    FDBTransaction *tr = begin();
    put(tr, key("b"), text("lost"));
    erase_range(tr, key(""), key("~"));
    put(tr, key("b"), text("kept"));
    commit(tr);
    fdb_transaction_reset(tr);
    assert_rows(read_range(tr, all()), "b=kept");
    fdb_transaction_destroy(tr);
}

static void the_empty_key_is_a_key(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct value before = future_value(get(tr, text("")));
    put(tr, text(""), text("here"));
    assert_value(future_value(get(tr, text(""))), text("here"));
    fdb_transaction_destroy(tr);
    if (before.present) {
        return; /* somebody else's data: leave it */
    }
    store(text(""), text("here"));
    assert_value(load(text("")), text("here"));
    remove_key(text(""));
    assert_absent(load(text("")));
}

int group_get(void) {
    const struct CMUnitTest tests[] = {
        TEST(missing_key_has_no_value),
        TEST(committed_value_is_read_back),
        TEST(uncommitted_value_is_not_seen_by_others),
        TEST(empty_value_is_not_a_missing_one),
        TEST(last_set_wins),
        TEST(keys_hold_any_byte),
        TEST(keys_differing_only_in_trailing_zeros_are_different),
        TEST(longest_key_and_value_work),
        TEST(long_keys_with_a_common_start_stay_apart),
        TEST(get_of_a_key_that_could_never_be_set_finds_nothing),
        TEST(get_of_system_keys_needs_the_option),
        TEST(a_failed_read_leaves_outputs_alone),
        TEST(arguments_are_copied),
        TEST(reads_may_be_started_together),
        TEST(clear_removes_one_key),
        TEST(clear_of_a_missing_key_is_fine),
        TEST(clear_range_includes_its_begin_and_not_its_end),
        TEST(clear_of_an_empty_range_does_nothing),
        TEST(clear_of_an_inverted_range_fails_the_commit),
        TEST(clear_then_set_in_one_transaction),
        TEST(the_empty_key_is_a_key),
    };
    return cmocka_run_group_tests_name("get", tests, NULL, NULL);
}
