/* SPDX-License-Identifier: Apache-2.0 */
/* Read and commit versions, reading the past, and the five seconds a transaction lives. */
#include "support.h"

static int64_t read_version(void) {
    FDBTransaction *tr = begin();
    int64_t version = future_int64(fdb_transaction_get_read_version(tr));
    fdb_transaction_destroy(tr);
    return version;
}

static int64_t committed_version(FDBTransaction *tr) {
    int64_t version = 0;
    assert_int_equal(fdb_transaction_get_committed_version(tr, &version), 0);
    return version;
}

static void read_version_is_chosen_once(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    int64_t first = future_int64(fdb_transaction_get_read_version(tr));
    assert_true(first > 0);
    store_text("a", "1");
    assert_int_equal(future_int64(fdb_transaction_get_read_version(tr)), first);
    fdb_transaction_reset(tr);
    assert_true(future_int64(fdb_transaction_get_read_version(tr)) > first);
    fdb_transaction_destroy(tr);
}

static void versions_never_go_back(void **state) {
    (void)state;
    int64_t last = 0;
    for (int i = 0; i < 20; i++) {
        int64_t version = read_version();
        assert_true(version >= last);
        FDBTransaction *tr = begin();
        put(tr, key("a"), text("x"));
        commit(tr);
        last = committed_version(tr);
        assert_true(last > version);
        fdb_transaction_destroy(tr);
    }
}

static void commits_are_visible_to_whoever_starts_later(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        FDBTransaction *tr = begin();
        put(tr, key("a"), little_endian((uint64_t)i, 4));
        commit(tr);
        int64_t version = committed_version(tr);
        fdb_transaction_destroy(tr);
        tr = begin();
        assert_true(future_int64(fdb_transaction_get_read_version(tr)) >= version);
        assert_value(future_value(get(tr, key("a"))), little_endian((uint64_t)i, 4));
        fdb_transaction_destroy(tr);
    }
}

static void versions_advance_while_idle(void **state) {
    (void)state;
    int64_t before = read_version();
    sleep_milliseconds(400);
    /* A cluster in which nothing is written advances in steps of some seconds. */
    for (int i = 0; i < 40 && !run_is_embedded() && read_version() == before; i++) {
        sleep_milliseconds(500);
    }
    /* About a million a second; half of that leaves room for a busy machine. */
    assert_true(read_version() - before > 200000);
}

static void reads_do_not_change_within_a_transaction(void **state) {
    (void)state;
    store_text("a", "1");
    store_text("b", "1");
    FDBTransaction *tr = begin();
    assert_value(future_value(get(tr, key("a"))), text("1"));
    store_text("a", "2");
    remove_key(key("b"));
    store_text("c", "2");
    assert_value(future_value(get(tr, key("a"))), text("1"));
    assert_rows(read_range(tr, all()), "a=1 b=1");
    assert_bytes(resolve(tr, key("b"), false, 1), key("b"));
    fdb_transaction_destroy(tr);
}

static void the_recent_past_can_be_read_exactly(void **state) {
    (void)state;
    enum { COUNT = 12 };
    int64_t versions[COUNT];
    for (int i = 0; i < COUNT; i++) {
        FDBTransaction *tr = begin();
        put(tr, key("a"), little_endian((uint64_t)i, 4));
        erase_range(tr, key("k"), key("l"));
        put(tr, key_bytes(repeat('k', i + 1)), text("x"));
        commit(tr);
        versions[i] = committed_version(tr);
        fdb_transaction_destroy(tr);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        FDBTransaction *tr = begin();
        fdb_transaction_set_read_version(tr, versions[i]);
        assert_int_equal(future_int64(fdb_transaction_get_read_version(tr)), versions[i]);
        assert_value(future_value(get(tr, key("a"))), little_endian((uint64_t)i, 4));
        struct rows rows = read_range(tr, span(key("k"), key("l")));
        assert_int_equal(rows.count, 1);
        assert_bytes(rows.row[0].key, key_bytes(repeat('k', i + 1)));
        fdb_transaction_destroy(tr);
        if (i > 0) {
            tr = begin();
            fdb_transaction_set_read_version(tr, versions[i] - 1);
            assert_value(future_value(get(tr, key("a"))), little_endian((uint64_t)(i - 1), 4));
            fdb_transaction_destroy(tr);
        }
    }
}

static void read_version_can_be_set_once(void **state) {
    (void)state;
    int64_t version = read_version();
    FDBTransaction *tr = begin();
    fdb_transaction_set_read_version(tr, version);
    fdb_transaction_set_read_version(tr, version);
    assert_fails(get(tr, key("a")), ERROR_READ_VERSION_ALREADY_SET);
    fdb_transaction_reset(tr);
    assert_ready(get(tr, key("a")));
    fdb_transaction_set_read_version(tr, version);
    assert_int_equal(commit_error(tr), ERROR_READ_VERSION_ALREADY_SET);
    fdb_transaction_destroy(tr);
}

static void read_version_must_be_positive(void **state) {
    (void)state;
    static const int64_t versions[] = {0, -1, INT64_MIN};
    for (int i = 0; i < 3; i++) {
        FDBTransaction *tr = begin();
        fdb_transaction_set_read_version(tr, versions[i]);
        assert_fails(fdb_transaction_get_read_version(tr), ERROR_VERSION_INVALID);
        fdb_transaction_destroy(tr);
    }
}

static void ancient_versions_are_too_old(void **state) {
    (void)state;
    /* A database made just now has no ancient versions yet. */
    while (read_version() < 7000000) {
        sleep_milliseconds(100);
    }
    FDBTransaction *tr = begin();
    fdb_transaction_set_read_version(tr, 1);
    assert_fails(get(tr, key("a")), ERROR_TRANSACTION_TOO_OLD);
    assert_fails(get_range(tr, all()), ERROR_TRANSACTION_TOO_OLD);
    assert_fails(get_key(tr, key("a"), false, 1), ERROR_TRANSACTION_TOO_OLD);
    fdb_transaction_destroy(tr);
}

static void versions_to_come_cannot_be_read(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    fdb_transaction_set_read_version(tr, read_version() + 1000000000000);
    assert_fails(get(tr, key("a")), ERROR_FUTURE_VERSION);
    fdb_transaction_destroy(tr);
}

static void read_only_commit_has_no_version(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_int_equal(committed_version(tr), -1);
    assert_ready(get(tr, key("a")));
    commit(tr);
    assert_int_equal(committed_version(tr), -1);
    fdb_transaction_destroy(tr);
}

static void empty_transaction_commits(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    commit(tr);
    assert_int_equal(committed_version(tr), -1);
    fdb_transaction_destroy(tr);
}

/* Five seconds of versions, and as long as a storage server takes to forget them: it may be a while behind. */
static void wait_until_too_old(FDBTransaction *reader) {
    fdb_error_t error = 0;
    sleep_milliseconds(6500);
    for (int i = 0; i < 100 && !error; i++) {
        store_text("tick", "");
        error = future_error(get(reader, key_bytes(little_endian((uint64_t)i, 2)))); /* no two alike: what was read is remembered */
        sleep_milliseconds(error ? 0 : 100);
    }
    assert_int_equal(error, ERROR_TRANSACTION_TOO_OLD);
}

static void a_transaction_lives_five_seconds(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *reader = begin();
    FDBTransaction *writer = begin();
    FDBTransaction *unstarted = begin();
    assert_ready(get(reader, key("a")));
    assert_ready(get(writer, key("a")));
    put(writer, key("b"), text("x"));
    wait_until_too_old(reader);
    assert_ready(get(unstarted, key("a")));
    assert_fails(get(reader, key("c")), ERROR_TRANSACTION_TOO_OLD);
    assert_fails(get_range(reader, all()), ERROR_TRANSACTION_TOO_OLD);
    assert_int_equal(commit_error(writer), ERROR_TRANSACTION_TOO_OLD);
    assert_ready(fdb_transaction_on_error(writer, ERROR_TRANSACTION_TOO_OLD));
    assert_value(future_value(get(writer, key("a"))), text("1"));
    fdb_transaction_destroy(reader);
    fdb_transaction_destroy(writer);
    fdb_transaction_destroy(unstarted);
    assert_absent(load(key("b")));
}

int group_versions(void) {
    const struct CMUnitTest tests[] = {
        TEST(read_version_is_chosen_once),
        TEST(versions_never_go_back),
        TEST(commits_are_visible_to_whoever_starts_later),
        TEST(versions_advance_while_idle),
        TEST(reads_do_not_change_within_a_transaction),
        TEST(the_recent_past_can_be_read_exactly),
        TEST(read_version_can_be_set_once),
        TEST(read_version_must_be_positive),
        TEST(ancient_versions_are_too_old),
        TEST(versions_to_come_cannot_be_read),
        TEST(read_only_commit_has_no_version),
        TEST(empty_transaction_commits),
        TEST(a_transaction_lives_five_seconds),
    };
    return cmocka_run_group_tests_name("versions", tests, NULL, NULL);
}
