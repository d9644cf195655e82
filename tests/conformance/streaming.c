/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte limits of get_range: target_bytes and the streaming modes.
 *
 * A batch ends with the row that reaches the limit. How many bytes a row counts beyond its key and
 * value differs between parts of the official client (8 in the client, more on a server), so the
 * tests take any overhead from 0 to ROW_OVERHEAD_BYTES_MAX as right and nothing else.
 */
#include "support.h"

enum { ROW_OVERHEAD_BYTES_MAX = 40, ROW_COUNT = 1200, VALUE_BYTES = 120 };

static void fill(void) {
    FDBTransaction *tr = begin();
    for (int i = 0; i < ROW_COUNT; i++) {
        uint8_t name[2] = {(uint8_t)(i >> 8), (uint8_t)i};
        put(tr, key_bytes(raw(name, 2)), repeat('v', VALUE_BYTES));
    }
    commit(tr);
    fdb_transaction_destroy(tr);
}

static void check_batch(struct rows rows, int limit_bytes) {
    assert_true(rows.more);
    assert_true(rows.count >= 1);
    int bytes = 0;
    for (int i = 0; i < rows.count; i++) {
        if (bytes >= limit_bytes) {
            fail_msg("%d rows: row %d was not needed for %d bytes", rows.count, i, limit_bytes);
        }
        bytes += rows.row[i].key.size + rows.row[i].value.size;
    }
    if (bytes + rows.count * ROW_OVERHEAD_BYTES_MAX < limit_bytes) {
        fail_msg("%d rows are %d bytes, too few for %d", rows.count, bytes, limit_bytes);
    }
}

static void check_mode(FDBStreamingMode mode, int iteration, int limit_bytes) {
    FDBTransaction *tr = begin();
    struct range range = all();
    range.mode = mode;
    range.iteration = iteration;
    for (int reverse = 0; reverse < 2; reverse++) {
        range.reverse = reverse;
        check_batch(read_batch(tr, range), limit_bytes);
    }
    fdb_transaction_destroy(tr);
}

static void small_medium_large_serial(void **state) {
    (void)state;
    fill();
    check_mode(FDB_STREAMING_MODE_SMALL, 0, 256);
    check_mode(FDB_STREAMING_MODE_MEDIUM, 0, 1000);
    check_mode(FDB_STREAMING_MODE_LARGE, 0, 4096);
    check_mode(FDB_STREAMING_MODE_SERIAL, 0, 80000);
}

static void want_all_is_serial(void **state) {
    (void)state;
    fill();
    check_mode(FDB_STREAMING_MODE_WANT_ALL, 0, 80000);
}

static void iterator_grows_with_the_iteration(void **state) {
    (void)state;
    static const int limits[] = {4096, 6144, 9216, 13824, 20736, 31104, 46656, 69984, 80000};
    fill();
    for (int i = 0; i < 9; i++) {
        check_mode(FDB_STREAMING_MODE_ITERATOR, i + 1, limits[i]);
    }
}

static void iterator_stops_growing(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_ITERATOR;
    int counts[3];
    const int iterations[3] = {10, 11, 1000000};
    for (int i = 0; i < 3; i++) {
        range.iteration = iterations[i];
        struct rows rows = read_batch(tr, range);
        counts[i] = rows.count;
        assert_true(rows.more);
        assert_true(rows.count * (VALUE_BYTES + 60 + ROW_OVERHEAD_BYTES_MAX) >= 80000);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_int_equal(counts[1], counts[2]);
    fdb_transaction_destroy(tr);
}

static void target_bytes_bound_a_batch(void **state) {
    (void)state;
    static const int limits[] = {1, 100, 700, 5000, 30000};
    fill();
    FDBTransaction *tr = begin();
    struct range range = all();
    for (int i = 0; i < 5; i++) {
        range.target_bytes = limits[i];
        range.mode = FDB_STREAMING_MODE_WANT_ALL;
        check_batch(read_batch(tr, range), limits[i]);
        fdb_transaction_reset(tr); /* a cluster's client ends a batch behind what it remembers */
        range.mode = FDB_STREAMING_MODE_EXACT;
        check_batch(read_batch(tr, range), limits[i]);
        fdb_transaction_reset(tr);
        range.reverse = !range.reverse;
    }
    fdb_transaction_destroy(tr);
}

static void the_smaller_of_mode_and_target_counts(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_SMALL;
    range.target_bytes = 50000;
    check_batch(read_batch(tr, range), 256);
    fdb_transaction_reset(tr);
    range.mode = FDB_STREAMING_MODE_SERIAL;
    range.target_bytes = 900;
    check_batch(read_batch(tr, range), 900);
    fdb_transaction_destroy(tr);
}

static void a_row_limit_counts_in_every_mode(void **state) {
    (void)state;
    static const FDBStreamingMode modes[] = {FDB_STREAMING_MODE_WANT_ALL, FDB_STREAMING_MODE_LARGE,
                                             FDB_STREAMING_MODE_EXACT, FDB_STREAMING_MODE_ITERATOR,
                                             FDB_STREAMING_MODE_SERIAL};
    fill();
    FDBTransaction *tr = begin();
    struct range range = all();
    range.iteration = 1;
    range.limit = 7;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        range.mode = modes[i];
        struct rows rows = read_batch(tr, range);
        assert_int_equal(rows.count, 7);
        assert_true(rows.more);
    }
    fdb_transaction_destroy(tr);
}

static void exact_returns_all_rows_of_its_limit(void **state) {
    (void)state;
    fill();
    FDBTransaction *tr = begin();
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_EXACT;
    range.limit = 1100;
    struct rows rows = read_batch(tr, range);
    assert_int_equal(rows.count, 1100);
    assert_true(rows.more);
    range.limit = 5000;
    rows = read_batch(tr, range);
    assert_int_equal(rows.count, ROW_COUNT);
    assert_false(rows.more);
    fdb_transaction_destroy(tr);
}

static void pending_rows_count_too(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    for (int i = 0; i < 100; i++) {
        put(tr, key_bytes(repeat((uint8_t)i, 1)), repeat('v', VALUE_BYTES));
    }
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_MEDIUM;
    check_batch(read_batch(tr, range), 1000);
    range.reverse = true;
    check_batch(read_batch(tr, range), 1000);
    fdb_transaction_destroy(tr);
}

static void a_value_larger_than_the_limit_is_still_returned(void **state) {
    (void)state;
    store(key("a"), repeat('v', 90000));
    store(key("b"), repeat('v', 10));
    FDBTransaction *tr = begin();
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_SMALL;
    struct rows rows = read_batch(tr, range);
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.row[0].value.size, 90000);
    assert_true(rows.more);
    fdb_transaction_destroy(tr);
}

int group_streaming(void) {
    const struct CMUnitTest tests[] = {
        TEST(small_medium_large_serial),
        TEST(want_all_is_serial),
        TEST(iterator_grows_with_the_iteration),
        TEST(iterator_stops_growing),
        TEST(target_bytes_bound_a_batch),
        TEST(the_smaller_of_mode_and_target_counts),
        TEST(a_row_limit_counts_in_every_mode),
        TEST(exact_returns_all_rows_of_its_limit),
        TEST(pending_rows_count_too),
        TEST(a_value_larger_than_the_limit_is_still_returned),
    };
    return cmocka_run_group_tests_name("streaming", tests, NULL, NULL);
}
