/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: what fires them, what they survive, what ends them, and how many there may be. */
#include "support.h"

static FDBFuture *watch(FDBTransaction *tr, struct bytes name) {
    return fdb_transaction_watch(tr, name.data, name.size);
}

/* A watch whose transaction committed and is gone. */
static FDBFuture *committed_watch(struct bytes name) {
    FDBTransaction *tr = begin();
    FDBFuture *future = watch(tr, name);
    commit(tr);
    fdb_transaction_destroy(tr);
    return future;
}

static void assert_waiting(FDBFuture *future) {
    sleep_milliseconds(30);
    assert_false(fdb_future_is_ready(future));
}

static void a_changed_value_fires(void **state) {
    (void)state;
    store_text("a", "1");
    FDBFuture *future = committed_watch(key("a"));
    assert_waiting(future);
    store_text("a", "2");
    assert_ready(future);
}

static void a_new_key_fires(void **state) {
    (void)state;
    FDBFuture *future = committed_watch(key("a"));
    assert_waiting(future);
    store_text("a", "1");
    assert_ready(future);
}

static void a_cleared_key_fires(void **state) {
    (void)state;
    store_text("a", "1");
    store_text("b", "1");
    FDBFuture *by_key = committed_watch(key("a"));
    FDBFuture *by_range = committed_watch(key("b"));
    remove_key(key("a"));
    assert_ready(by_key);
    assert_waiting(by_range);
    FDBTransaction *tr = begin();
    erase_range(tr, key(""), key("~"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_ready(by_range);
}

static void an_atomic_operation_fires(void **state) {
    (void)state;
    FDBFuture *future = committed_watch(key("a"));
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("a"), little_endian(1, 8));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_ready(future);
}

static void other_keys_and_equal_values_do_not_fire(void **state) {
    (void)state;
    store_text("a", "1");
    FDBFuture *future = committed_watch(key("a"));
    store_text("aa", "2");
    store_text("a", "1");
    remove_key(key("b"));
    assert_waiting(future);
    store_text("a", "2");
    assert_ready(future);
}

static void a_change_before_the_commit_counts(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    FDBFuture *future = watch(tr, key("a"));
    assert_value(future_value(get(tr, key("a"))), text("1"));
    store_text("a", "2");
    /* Read-only: the commit does not conflict, and the watch compares with what was read. */
    commit(tr);
    assert_ready(future);
    fdb_transaction_destroy(tr);
}

static void several_watches_on_one_key_all_fire(void **state) {
    (void)state;
    FDBFuture *futures[10];
    for (int i = 0; i < 10; i++) {
        futures[i] = committed_watch(key("a"));
    }
    store_text("a", "1");
    for (int i = 0; i < 10; i++) {
        assert_ready(futures[i]);
    }
}

static void watches_in_a_writing_transaction(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("mine"));
    FDBFuture *own = watch(tr, key("a"));
    FDBFuture *other = watch(tr, key("b"));
    commit(tr);
    fdb_transaction_destroy(tr);
    assert_waiting(own);
    assert_waiting(other);
    store_text("a", "changed");
    store_text("b", "changed");
    assert_ready(own);
    assert_ready(other);
}

static void a_later_write_in_the_same_transaction_fires(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    FDBFuture *same = watch(tr, key("a"));
    put(tr, key("a"), text("2"));
    assert_true(becomes_ready(same));
    assert_ready(same);
    fdb_transaction_destroy(tr);
}

static void watching_is_reading(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    FDBFuture *future = watch(tr, key("a"));
    future_int64(fdb_transaction_get_read_version(tr));
    assert_ready(get(tr, key("unrelated")));
    sleep_milliseconds(20);
    store_text("a", "2");
    put(tr, key("b"), text("x"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    assert_fails(future, ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(tr);
}

static void a_failed_commit_ends_the_watch(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_ready(get(tr, key("a")));
    FDBFuture *future = watch(tr, key("w"));
    store_text("a", "2");
    put(tr, key("b"), text("x"));
    assert_int_equal(commit_error(tr), ERROR_NOT_COMMITTED);
    assert_fails(future, ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(tr);
}

static void reset_and_destroy_end_an_uncommitted_watch(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *future = watch(tr, key("a"));
    assert_waiting(future);
    fdb_transaction_reset(tr);
    assert_fails(future, ERROR_TRANSACTION_CANCELLED);
    future = watch(tr, key("a"));
    assert_waiting(future);
    fdb_transaction_destroy(tr);
    assert_fails(future, ERROR_TRANSACTION_CANCELLED);
}

static void a_committed_watch_survives_reset_and_cancel(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    FDBFuture *first = watch(tr, key("a"));
    commit(tr);
    fdb_transaction_reset(tr);
    FDBFuture *second = watch(tr, key("a"));
    commit(tr);
    fdb_transaction_cancel(tr);
    fdb_transaction_destroy(tr);
    assert_waiting(first);
    assert_waiting(second);
    store_text("a", "1");
    assert_ready(first);
    assert_ready(second);
}

static void cancelling_the_future_ends_it(void **state) {
    (void)state;
    FDBFuture *future = committed_watch(key("a"));
    assert_waiting(future);
    fdb_future_cancel(future);
    assert_fails(future, ERROR_OPERATION_CANCELLED);
}

static void a_watch_can_be_destroyed_while_waiting(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        FDBFuture *future = committed_watch(key("a"));
        fdb_future_destroy(future);
    }
    store_text("a", "1");
}

static void outstanding_watches_are_limited(void **state) {
    (void)state;
    FDBDatabase *database = open_again();
    set_database_option_int(database, FDB_DB_OPTION_MAX_WATCHES, 2);
    FDBTransaction *tr = begin_on(database);
    FDBFuture *first = watch(tr, key("a"));
    FDBFuture *second = watch(tr, key("b"));
    assert_waiting(first);
    assert_waiting(second);
    assert_fails(watch(tr, key("c")), ERROR_TOO_MANY_WATCHES);
    commit(tr);
    fdb_transaction_reset(tr);
    assert_fails(watch(tr, key("c")), ERROR_TOO_MANY_WATCHES);
    fdb_future_cancel(first);
    assert_fails(first, ERROR_OPERATION_CANCELLED);
    fdb_transaction_reset(tr);
    FDBFuture *third = NULL;
    for (int tries = 0; tries < 200 && !third; tries++) {
        third = watch(tr, key("c"));
        sleep_milliseconds(10);
        if (fdb_future_is_ready(third)) {
            fdb_future_destroy(third);
            third = NULL;
        }
    }
    assert_non_null(third);
    fdb_future_destroy(second);
    fdb_future_destroy(third);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void watches_need_read_your_writes(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE);
    assert_fails(watch(tr, key("a")), ERROR_WATCHES_DISABLED);
    fdb_transaction_destroy(tr);
}

static void watched_keys_must_be_legal(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_fails(watch(tr, LITERAL("\xff/x")), ERROR_KEY_OUTSIDE_LEGAL_RANGE);
    assert_fails(watch(tr, repeat('k', KEY_BYTES_MAX + 100)), ERROR_KEY_TOO_LARGE);
    commit(tr);
    assert_fails(watch(tr, key("a")), ERROR_USED_DURING_COMMIT);
    fdb_transaction_destroy(tr);
}

int group_watches(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_changed_value_fires),
        TEST(a_new_key_fires),
        TEST(a_cleared_key_fires),
        TEST(an_atomic_operation_fires),
        TEST(other_keys_and_equal_values_do_not_fire),
        TEST(a_change_before_the_commit_counts),
        TEST(several_watches_on_one_key_all_fire),
        TEST(watches_in_a_writing_transaction),
        TEST(a_later_write_in_the_same_transaction_fires),
        TEST(watching_is_reading),
        TEST(a_failed_commit_ends_the_watch),
        TEST(reset_and_destroy_end_an_uncommitted_watch),
        TEST(a_committed_watch_survives_reset_and_cancel),
        TEST(cancelling_the_future_ends_it),
        TEST(a_watch_can_be_destroyed_while_waiting),
        TEST(outstanding_watches_are_limited),
        TEST(watches_need_read_your_writes),
        TEST(watched_keys_must_be_legal),
    };
    return cmocka_run_group_tests_name("watches", tests, NULL, NULL);
}
