/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: of one key and of many, additions that never conflict, sums that add up. */
#include "fixture.h"

#include <keel/counter.h>

static keel_subspace named(const char *name) {
    keel_subspace subspace;
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("counter", name), &subspace), 0);
    return subspace;
}

static void assert_value(FDBTransaction *tr, const keel_subspace *counter, int64_t expected) {
    int64_t value = 77, snapshot = 77;
    assert_int_equal(keel_counter_get(tr, counter, false, &value), 0);
    assert_int_equal(keel_counter_get(tr, counter, true, &snapshot), 0);
    assert_int_equal(value, expected);
    assert_int_equal(snapshot, expected);
}

static void assert_total(FDBTransaction *tr, const keel_subspace *counter, int64_t expected) {
    int64_t value = 77, snapshot = 77;
    assert_int_equal(keel_counter_sharded_total(tr, counter, false, &value), 0);
    assert_int_equal(keel_counter_sharded_total(tr, counter, true, &snapshot), 0);
    assert_int_equal(value, expected);
    assert_int_equal(snapshot, expected);
}

static void test_one_key(void **state) {
    (void)state;
    keel_subspace counter = named("one");
    FDBTransaction *tr = begin();
    assert_value(tr, &counter, 0);
    assert_int_equal(keel_counter_add(tr, &counter, 5), 0);
    assert_int_equal(keel_counter_add(tr, &counter, -7), 0);
    assert_value(tr, &counter, -2); /* its own additions too */
    commit(tr);
    tr = begin();
    assert_value(tr, &counter, -2);
    assert_int_equal(keel_counter_set(tr, &counter, INT64_MIN), 0);
    assert_value(tr, &counter, INT64_MIN);
    assert_int_equal(keel_counter_set(tr, &counter, INT64_MAX), 0);
    assert_int_equal(keel_counter_add(tr, &counter, 1), 0); /* the database wraps around */
    assert_value(tr, &counter, INT64_MIN);
    assert_int_equal(keel_counter_clear(tr, &counter), 0);
    assert_value(tr, &counter, 0);
    commit(tr);
}

static void test_sharded(void **state) {
    (void)state;
    keel_subspace counter = named("sharded");
    FDBTransaction *tr = begin();
    assert_total(tr, &counter, 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(keel_counter_sharded_add(tr, &counter, 10, i % 2 ? -1 : 3), 0);
    assert_total(tr, &counter, 300);
    assert_int_equal(count_rows(tr, &counter), 10); /* all are used, none beyond */
    assert_int_equal(keel_counter_add(tr, &counter, 1000), 0); /* a counter of its own */
    assert_total(tr, &counter, 300);
    assert_value(tr, &counter, 1000);
    for (int i = 0; i < 100; i++) /* with another number of shards */
        assert_int_equal(keel_counter_sharded_add(tr, &counter, 3, 1), 0);
    assert_total(tr, &counter, 400);
    commit(tr);
    tr = begin();
    assert_int_equal(keel_counter_sharded_set(tr, &counter, 17), 0);
    assert_total(tr, &counter, 17);
    assert_int_equal(count_rows(tr, &counter), 1);
    assert_int_equal(keel_counter_sharded_clear(tr, &counter), 0);
    assert_total(tr, &counter, 0);
    assert_value(tr, &counter, 1000);
    commit(tr);
}

static void test_bad_input(void **state) {
    (void)state;
    keel_subspace counter = named("bad");
    int64_t value = 77;
    uint8_t key[100];
    size_t length;
    FDBTransaction *tr = begin();
    assert_refused(tr, keel_counter_sharded_add(tr, &counter, 0, 1), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_counter_sharded_add(tr, &counter, 10001, 1), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_counter_add(tr, NULL, 1), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_counter_get(tr, &counter, false, NULL), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_counter_add(NULL, &counter, 1), KEEL_ERROR_ARGUMENT);
    /* Sums that do not fit; what is not a number. */
    for (int shard = 0; shard < 2; shard++) {
        int64_t most = INT64_MAX;
        assert_int_equal(keel_subspace_pack(&counter, KEEL_TUPLE(shard), key, sizeof key, &length),
                         0);
        fdb_transaction_set(tr, key, (int)length, (const uint8_t *)&most, 8);
    }
    assert_int_equal(keel_counter_sharded_total(tr, &counter, true, &value),
                     KEEL_ERROR_INTEGER_TOO_LARGE);
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"text", 4);
    assert_int_equal(keel_counter_sharded_total(tr, &counter, true, &value),
                     KEEL_ERROR_STORED_FORMAT);
    keel_bytes prefix = keel_subspace_prefix(&counter);
    fdb_transaction_set(tr, prefix.data, (int)prefix.length, (const uint8_t *)"text", 4);
    assert_int_equal(keel_counter_get(tr, &counter, true, &value), KEEL_ERROR_STORED_FORMAT);
    assert_int_equal(value, 77);
    fdb_transaction_destroy(tr);
}

static void test_conflicts(void **state) {
    (void)state;
    keel_subspace counter = named("conflicts");
    int64_t value;
    FDBTransaction *a = begin(), *b = begin();
    assert_int_equal(keel_counter_sharded_total(a, &counter, true, &value), 0); /* a snapshot */
    assert_int_equal(keel_counter_get(a, &counter, true, &value), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keel_counter_sharded_add(i ? a : b, &counter, 1, 1), 0);
        assert_int_equal(keel_counter_add(i ? a : b, &counter, 1), 0);
    }
    commit(b);
    commit(a);
    a = begin(), b = begin();
    assert_int_equal(keel_counter_sharded_total(a, &counter, false, &value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(keel_counter_sharded_add(a, &counter, 1, 1), 0);
    assert_int_equal(keel_counter_sharded_add(b, &counter, 1, 1), 0);
    commit(b);
    assert_int_equal(try_commit(a), 1020); /* it had relied on the value */
}

/* ---- Threads: every addition arrives, and none ever has to be tried again ---- */

enum { THREADS = 16, EACH = 200 };

static fdb_error_t add_in_one_try(int number, void *context) {
    keel_subspace *counter = context;
    fdb_error_t error = 0;
    for (int i = 0; i < EACH && !error; i++) {
        FDBTransaction *tr;
        error = fdb_database_create_transaction(keel_fdb(fixture_db), &tr);
        if (error)
            return error;
        error = keel_counter_add(tr, counter, number % 2 ? 3 : -1);
        if (!error)
            error = keel_counter_sharded_add(tr, counter, 8, number % 2 ? 3 : -1);
        int64_t value, total;
        if (!error)
            error = keel_counter_get(tr, counter, true, &value);
        if (!error)
            error = keel_counter_sharded_total(tr, counter, true, &total);
        if (!error && value != total) /* both of the same moment */
            error = 100001;
        if (!error)
            error = keel_wait_destroy(fdb_transaction_commit(tr));
        fdb_transaction_destroy(tr);
    }
    return error;
}

static void test_threads(void **state) {
    (void)state;
    keel_subspace counter = named("threads");
    in_threads(THREADS, add_in_one_try, &counter);
    FDBTransaction *tr = begin();
    assert_value(tr, &counter, THREADS * EACH);
    assert_total(tr, &counter, THREADS * EACH);
    fdb_transaction_destroy(tr);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_key),   cmocka_unit_test(test_sharded),
        cmocka_unit_test(test_bad_input), cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
