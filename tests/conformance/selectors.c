/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key selectors through get_key. A selector (key, or_equal, offset) starts at the last key before
 * `key`, or at it with or_equal, and goes `offset` keys on. The tests' keys are a, c, e, g, with
 * fences far enough out that no offset leaves the test's keys unless that is the point.
 */
#include "support.h"

static void fill(void) {
    FDBTransaction *tr = begin();
    const char *names[] = {"!1", "!2", "!3", "!4", "a", "c", "e", "g", "~1", "~2", "~3", "~4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put(tr, key(names[i]), text("v"));
    }
    commit(tr);
    fdb_transaction_destroy(tr);
}

struct step {
    const char *key;
    bool or_equal;
    int offset;
    const char *expected;
};

static void check_steps(FDBTransaction *tr, const struct step *steps, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct bytes found = resolve(tr, key(steps[i].key), steps[i].or_equal, steps[i].offset);
        assert_bytes(found, key(steps[i].expected));
        FDBFuture *snapshot =
            fdb_transaction_get_key(tr, key(steps[i].key).data, key(steps[i].key).size,
                                    steps[i].or_equal, steps[i].offset, 1);
        assert_bytes(future_key(snapshot), key(steps[i].expected));
    }
}
#define CHECK(tr, steps) check_steps(tr, steps, sizeof steps / sizeof steps[0])

static void the_four_usual_selectors(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    const struct step steps[] = {
        {"c", false, 0, "a"}, {"c", true, 0, "c"}, {"c", true, 1, "e"}, {"c", false, 1, "c"},
        {"d", false, 0, "c"}, {"d", true, 0, "c"}, {"d", true, 1, "e"}, {"d", false, 1, "e"},
    };
    CHECK(tr, steps);
    fdb_transaction_destroy(tr);
}

static void offsets_go_forward(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    const struct step steps[] = {
        {"c", false, 2, "e"}, {"c", true, 2, "g"},  {"d", false, 2, "g"},  {"d", true, 2, "g"},
        {"a", false, 4, "g"}, {"a", false, 5, "~1"}, {"a", true, 7, "~4"}, {"b", true, 3, "g"},
    };
    CHECK(tr, steps);
    fdb_transaction_destroy(tr);
}

static void offsets_go_backward(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    const struct step steps[] = {
        {"e", false, -1, "a"}, {"e", true, -1, "c"},  {"f", false, -1, "c"}, {"f", true, -1, "c"},
        {"g", true, -3, "a"},  {"g", false, -3, "!4"}, {"g", true, -7, "!1"}, {"h", true, -2, "c"},
    };
    CHECK(tr, steps);
    fdb_transaction_destroy(tr);
}

static void pending_sets_count(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    put(tr, key("b"), text("new"));
    put(tr, key("d"), text("new"));
    put(tr, key("c"), text("overwritten"));
    const struct step steps[] = {
        {"b", false, 1, "b"}, {"b", true, 1, "c"},  {"d", false, 0, "c"}, {"e", false, 0, "d"},
        {"a", true, 4, "e"},  {"g", false, -3, "b"}, {"d", true, 2, "g"}, {"a", false, 6, "g"},
    };
    CHECK(tr, steps);
    fdb_transaction_destroy(tr);
}

static void pending_clears_do_not_count(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    erase(tr, key("c"));
    erase_range(tr, key("~2"), key("~4"));
    const struct step steps[] = {
        {"c", false, 1, "e"}, {"c", true, 0, "a"},   {"a", true, 1, "e"},   {"a", true, 2, "g"},
        {"g", true, -1, "e"}, {"g", true, -2, "a"},  {"~1", true, 1, "~4"}, {"~4", false, 0, "~1"},
        {"a", false, 4, "~1"}, {"~3", true, -1, "g"},
    };
    CHECK(tr, steps);
    fdb_transaction_destroy(tr);
}

static void set_inside_a_pending_clear_counts(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    erase_range(tr, key("a"), key("h"));
    put(tr, key("d"), text("new"));
    const struct step steps[] = {
        {"a", false, 1, "d"}, {"a", false, 2, "~1"}, {"h", false, 0, "d"}, {"h", false, -1, "!4"},
    };
    CHECK(tr, steps);
    fdb_transaction_destroy(tr);
}

static void atomic_ops_make_keys(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("b"), little_endian(1, 8));
    const struct step steps[] = {{"a", true, 1, "b"}, {"c", false, 0, "b"}};
    CHECK(tr, steps);
    fdb_transaction_destroy(tr);
}

static void behind_the_last_key_is_ff(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct bytes end = LITERAL("\xff");
    assert_bytes(resolve(tr, end, false, 1), end);
    assert_bytes(resolve(tr, end, true, 1), end);
    assert_bytes(resolve(tr, end, false, 100), end);
    assert_bytes(resolve(tr, end, true, 2000000000), end);
    fdb_transaction_destroy(tr);
}

static void before_the_first_key_is_empty(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_bytes(resolve(tr, text(""), false, 0), text(""));
    assert_bytes(resolve(tr, text(""), false, -1), text(""));
    assert_bytes(resolve(tr, text(""), true, -100), text(""));
    assert_bytes(resolve(tr, text(""), false, -2000000000), text(""));
    fdb_transaction_destroy(tr);
}

static void clamping_with_pending_writes(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    struct bytes last = LITERAL("\xfe\xff\xff\xff\xff\xff\xff\xff");
    put(tr, last, text("the last key"));
    assert_bytes(resolve(tr, last, false, 1), last);
    assert_bytes(resolve(tr, last, true, 1), LITERAL("\xff"));
    assert_bytes(resolve(tr, last, false, 2), LITERAL("\xff"));
    assert_bytes(resolve(tr, LITERAL("\xff"), false, 0), last);
    erase_range(tr, text(""), LITERAL("\xff"));
    assert_bytes(resolve(tr, key("a"), false, 1), LITERAL("\xff"));
    assert_bytes(resolve(tr, key("a"), false, 0), text(""));
    fdb_transaction_destroy(tr);
}

static void system_keys_move_the_end(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS);
    struct bytes end = LITERAL("\xff\xff");
    assert_bytes(resolve(tr, end, false, 1), end);
    assert_bytes(resolve(tr, end, true, 7), end);
    fdb_transaction_destroy(tr);
}

static void base_key_must_be_legal(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_fails(get_key(tr, LITERAL("\xff\x01"), false, 1), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_fails(get_key(tr, LITERAL("\xff\xff"), false, 0), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    set_option(tr, FDB_TR_OPTION_READ_SYSTEM_KEYS);
    assert_ready(get_key(tr, LITERAL("\xff\x01"), false, 1));
    assert_fails(get_key(tr, LITERAL("\xff\xff\x01"), false, 1), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    fdb_transaction_destroy(tr);
}

/* Every selector over a random set of keys against a search by hand. */
static void many_offsets_agree_with_counting(void **state) {
    (void)state;
    enum { COUNT = 60 };
    FDBTransaction *tr = begin();
    for (int i = 0; i < COUNT; i++) {
        put(tr, key_bytes(repeat((uint8_t)(10 + 2 * i), 1)), text(""));
    }
    commit(tr);
    fdb_transaction_reset(tr);
    for (int base = 30; base < 100; base += 7) {
        for (int offset = -9; offset <= 10; offset++) {
            for (int or_equal = 0; or_equal < 2; or_equal++) {
                /* Index of the last key before (or at) base, then offset further. */
                int at = (base - 10 + (or_equal ? 0 : -1)) / 2 + offset;
                struct bytes found = resolve(tr, key_bytes(repeat((uint8_t)base, 1)), or_equal,
                                             offset);
                assert_bytes(found, key_bytes(repeat((uint8_t)(10 + 2 * at), 1)));
            }
        }
    }
    fdb_transaction_destroy(tr);
}

int group_selectors(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_four_usual_selectors),
        TEST(offsets_go_forward),
        TEST(offsets_go_backward),
        TEST(pending_sets_count),
        TEST(pending_clears_do_not_count),
        TEST(set_inside_a_pending_clear_counts),
        TEST(atomic_ops_make_keys),
        TEST(behind_the_last_key_is_ff),
        TEST(before_the_first_key_is_empty),
        TEST(clamping_with_pending_writes),
        TEST(system_keys_move_the_end),
        TEST(base_key_must_be_legal),
        TEST(many_offsets_agree_with_counting),
    };
    return cmocka_run_group_tests_name("selectors", tests, NULL, NULL);
}
