/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshot reads: what they see with and without read-your-writes, and that they never conflict. */
#include "support.h"

static void snapshot_reads_see_own_writes(void **state) {
    (void)state;
    store_text("a", "old");
    FDBTransaction *tr = begin();
    put(tr, key("a"), text("new"));
    put(tr, key("b"), text("new"));
    assert_value(future_value(get_snapshot(tr, key("a"))), text("new"));
    struct range range = all();
    range.snapshot = true;
    assert_rows(read_range(tr, range), "a=new b=new");
    fdb_transaction_destroy(tr);
}

static struct bytes snapshot_key(FDBTransaction *tr, struct bytes name, int offset) {
    return future_key(fdb_transaction_get_key(tr, name.data, name.size, 0, offset, 1));
}

static void check_blind_snapshots(FDBTransaction *tr) {
    put(tr, key("a"), text("new"));
    put(tr, key("b"), text("new"));
    erase(tr, key("c"));
    assert_value(future_value(get_snapshot(tr, key("a"))), text("old"));
    assert_absent(future_value(get_snapshot(tr, key("b"))));
    struct range range = all();
    range.snapshot = true;
    assert_rows(read_range(tr, range), "a=old c=old");
    assert_bytes(snapshot_key(tr, key("b"), 1), key("c"));
    /* Serializable reads are not touched by the option. */
    assert_rows(read_range(tr, all()), "a=new b=new");
    assert_value(future_value(get(tr, key("b"))), text("new"));
}

static void snapshot_option_hides_own_writes(void **state) {
    (void)state;
    store_text("a", "old");
    store_text("c", "old");
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE);
    check_blind_snapshots(tr);
    fdb_transaction_destroy(tr);
}

static void snapshot_options_count(void **state) {
    (void)state;
    store_text("a", "old");
    store_text("c", "old");
    FDBTransaction *tr = begin();
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE);
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE);
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE);
    check_blind_snapshots(tr);
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE);
    assert_value(future_value(get_snapshot(tr, key("a"))), text("new"));
    fdb_transaction_destroy(tr);
}

static void database_option_is_the_default(void **state) {
    (void)state;
    store_text("a", "old");
    store_text("c", "old");
    FDBDatabase *database = open_again();
    assert_int_equal(
        fdb_database_set_option(database, FDB_DB_OPTION_SNAPSHOT_RYW_DISABLE, NULL, 0), 0);
    FDBTransaction *tr = begin_on(database);
    check_blind_snapshots(tr);
    fdb_transaction_reset(tr);
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE);
    put(tr, key("a"), text("new"));
    assert_value(future_value(get_snapshot(tr, key("a"))), text("new"));
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void snapshot_with_pending_atomics(void **state) {
    (void)state;
    store(key("a"), LITERAL("\x01"));
    FDBTransaction *tr = begin();
    mutate(tr, FDB_MUTATION_TYPE_ADD, key("a"), LITERAL("\x01"));
    assert_value(future_value(get_snapshot(tr, key("a"))), LITERAL("\x02"));
    set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE);
    assert_value(future_value(get_snapshot(tr, key("a"))), LITERAL("\x01"));
    fdb_transaction_destroy(tr);
}

static void read_by_snapshot(FDBTransaction *tr) {
    assert_ready(get_snapshot(tr, key("a")));
    struct range range = all();
    range.snapshot = true;
    assert_ready(get_range(tr, range));
    snapshot_key(tr, key("a"), 1);
}

static void snapshot_reads_never_conflict(void **state) {
    (void)state;
    store_text("a", "1");
    assert_false(read_conflicts_with(read_by_snapshot, key("a")));
    assert_false(read_conflicts_with(read_by_snapshot, key("b")));
}

static void read_by_snapshot_and_add_range(FDBTransaction *tr) {
    read_by_snapshot(tr);
    add_conflict(tr, key("a"), key_after(key("a")), FDB_CONFLICT_RANGE_TYPE_READ);
}

static void snapshot_read_and_explicit_range_conflict(void **state) {
    (void)state;
    store_text("a", "1");
    assert_true(read_conflicts_with(read_by_snapshot_and_add_range, key("a")));
    assert_false(read_conflicts_with(read_by_snapshot_and_add_range, key("b")));
}

static void snapshots_are_of_one_version(void **state) {
    (void)state;
    store_text("a", "1");
    FDBTransaction *tr = begin();
    assert_value(future_value(get_snapshot(tr, key("a"))), text("1"));
    store_text("a", "2");
    store_text("b", "2");
    assert_value(future_value(get_snapshot(tr, key("a"))), text("1"));
    assert_absent(future_value(get_snapshot(tr, key("b"))));
    fdb_transaction_destroy(tr);
}

int group_snapshot(void) {
    const struct CMUnitTest tests[] = {
        TEST(snapshot_reads_see_own_writes),
        TEST(snapshot_option_hides_own_writes),
        TEST(snapshot_options_count),
        TEST(database_option_is_the_default),
        TEST(snapshot_with_pending_atomics),
        TEST(snapshot_reads_never_conflict),
        TEST(snapshot_read_and_explicit_range_conflict),
        TEST(snapshots_are_of_one_version),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
