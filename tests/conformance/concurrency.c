/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serializability seen from outside: threads that increment, transfer and race, and the anomalies
 * that must not happen. Threads use only what needs no scratch memory.
 */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 40 };

struct worker {
    struct bytes first, second;
    int number;
    fdb_error_t error;
};

static void run_workers(void *(*work)(void *), struct bytes first, struct bytes second) {
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){first, second, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(workers[i].error, 0);
    }
}

static fdb_error_t wait_for(FDBFuture *future) {
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error) {
        error = fdb_future_get_error(future);
    }
    fdb_future_destroy(future);
    return error;
}

static fdb_error_t read_number(FDBTransaction *tr, struct bytes name, int64_t *number) {
    FDBFuture *future = fdb_transaction_get(tr, name.data, name.size, 0);
    fdb_bool_t present = 0;
    const uint8_t *data = NULL;
    int size = 0;
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error) {
        error = fdb_future_get_value(future, &present, &data, &size);
    }
    *number = 0;
    if (!error && present && size == 8) {
        memcpy(number, data, 8);
    }
    fdb_future_destroy(future);
    return error;
}

static void write_number(FDBTransaction *tr, struct bytes name, int64_t number) {
    uint8_t data[8];
    memcpy(data, &number, 8);
    fdb_transaction_set(tr, name.data, name.size, data, 8);
}

/* One transaction with retries; body returns an error to retry or give up on. */
static fdb_error_t transact(fdb_error_t (*body)(FDBTransaction *, struct worker *),
                            struct worker *worker) {
    FDBTransaction *tr = NULL;
    fdb_error_t error = fdb_database_create_transaction(test_database, &tr);
    if (error) {
        return error;
    }
    do {
        error = body(tr, worker);
        if (!error) {
            error = wait_for(fdb_transaction_commit(tr));
        }
    } while (error && !wait_for(fdb_transaction_on_error(tr, error)));
    fdb_transaction_destroy(tr);
    return error;
}

static void *repeat_body(fdb_error_t (*body)(FDBTransaction *, struct worker *),
                         struct worker *worker) {
    for (int i = 0; i < ROUNDS && !worker->error; i++) {
        worker->error = transact(body, worker);
    }
    return NULL;
}

static fdb_error_t increment(FDBTransaction *tr, struct worker *worker) {
    int64_t number = 0;
    fdb_error_t error = read_number(tr, worker->first, &number);
    if (!error) {
        write_number(tr, worker->first, number + 1);
    }
    return error;
}

static void *increment_often(void *worker) {
    return repeat_body(increment, worker);
}

static void no_increment_is_lost(void **state) {
    (void)state;
    run_workers(increment_often, key("counter"), key(""));
    assert_value(load(key("counter")), little_endian(THREADS * ROUNDS, 8));
}

static fdb_error_t add_atomically(FDBTransaction *tr, struct worker *worker) {
    static const uint8_t one[8] = {1};
    fdb_transaction_atomic_op(tr, worker->first.data, worker->first.size, one, 8,
                              FDB_MUTATION_TYPE_ADD);
    return 0;
}

static void *add_often(void *worker) {
    return repeat_body(add_atomically, worker);
}

static void no_atomic_add_is_lost(void **state) {
    (void)state;
    run_workers(add_often, key("counter"), key(""));
    assert_value(load(key("counter")), little_endian(THREADS * ROUNDS, 8));
}

/* Even threads move one from first to second, odd ones check that the sum never changes. */
static fdb_error_t transfer_or_check(FDBTransaction *tr, struct worker *worker) {
    int64_t first = 0;
    int64_t second = 0;
    fdb_error_t error = read_number(tr, worker->first, &first);
    if (!error) {
        error = read_number(tr, worker->second, &second);
    }
    if (!error && first + second != 1000) {
        return 4100;
    }
    if (!error && worker->number % 2 == 0) {
        write_number(tr, worker->first, first - 1);
        write_number(tr, worker->second, second + 1);
    }
    return error;
}

static void *transfer_often(void *worker) {
    return repeat_body(transfer_or_check, worker);
}

static void sums_are_kept(void **state) {
    (void)state;
    store(key("first"), little_endian(1000, 8));
    store(key("second"), little_endian(0, 8));
    run_workers(transfer_often, key("first"), key("second"));
    assert_value(load(key("second")), little_endian(THREADS / 2 * ROUNDS, 8));
}

static void write_skew_is_prevented(void **state) {
    (void)state;
    store_text("a", "on");
    store_text("b", "on");
    FDBTransaction *one = begin();
    FDBTransaction *two = begin();
    assert_rows(read_range(one, all()), "a=on b=on");
    assert_rows(read_range(two, all()), "a=on b=on");
    put(one, key("a"), text("off"));
    put(two, key("b"), text("off"));
    FDBFuture *first = fdb_transaction_commit(one);
    FDBFuture *second = fdb_transaction_commit(two);
    fdb_error_t first_error = future_error(first);
    fdb_error_t second_error = future_error(second);
    assert_int_equal(first_error + second_error, ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(one);
    fdb_transaction_destroy(two);
}

static void phantoms_are_prevented(void **state) {
    (void)state;
    FDBTransaction *one = begin();
    FDBTransaction *two = begin();
    assert_rows(read_range(one, all()), "");
    assert_rows(read_range(two, all()), "");
    put(one, key("a"), text("only one"));
    put(two, key("b"), text("only one"));
    commit(one);
    assert_int_equal(commit_error(two), ERROR_NOT_COMMITTED);
    fdb_transaction_destroy(one);
    fdb_transaction_destroy(two);
}

static void of_many_rivals_one_wins(void **state) {
    (void)state;
    enum { COUNT = 30 };
    FDBTransaction *tr[COUNT];
    FDBFuture *commits[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tr[i] = begin();
        assert_absent(future_value(get(tr[i], key("lock"))));
        put(tr[i], key("lock"), little_endian((uint64_t)i, 4));
    }
    for (int i = 0; i < COUNT; i++) {
        commits[i] = fdb_transaction_commit(tr[i]);
    }
    int winners = 0;
    int winner = -1;
    for (int i = 0; i < COUNT; i++) {
        fdb_error_t error = future_error(commits[i]);
        assert_true(error == 0 || error == ERROR_NOT_COMMITTED);
        if (!error) {
            winners++;
            winner = i;
        }
        fdb_transaction_destroy(tr[i]);
    }
    assert_int_equal(winners, 1);
    assert_value(load(key("lock")), little_endian((uint64_t)winner, 4));
}

static void commits_are_atomic_for_readers(void **state) {
    (void)state;
    FDBTransaction *writer = begin();
    for (int i = 0; i < 40; i++) {
        for (char letter = 'a'; letter <= 'e'; letter++) {
            put(writer, key((char[]){letter, 0}), little_endian((uint64_t)i, 4));
        }
        FDBFuture *commit_future = fdb_transaction_commit(writer);
        FDBTransaction *reader = begin();
        struct rows rows = read_range(reader, all());
        assert_true(rows.count == 0 || rows.count == 5);
        for (int row = 1; row < rows.count; row++) {
            assert_bytes(rows.row[row].value, rows.row[0].value);
        }
        fdb_transaction_destroy(reader);
        assert_ready(commit_future);
        fdb_transaction_reset(writer);
    }
    fdb_transaction_destroy(writer);
}

struct shared {
    FDBTransaction *tr;
    struct bytes prefix;
    atomic_int next;
    atomic_int error;
};

static void *write_into_shared(void *parameter) {
    struct shared *shared = parameter;
    int thread = shared->next++;
    for (int i = 0; i < 50; i++) {
        uint8_t name[128];
        memcpy(name, shared->prefix.data, (size_t)shared->prefix.size);
        name[shared->prefix.size] = (uint8_t)thread;
        name[shared->prefix.size + 1] = (uint8_t)i;
        fdb_transaction_set(shared->tr, name, shared->prefix.size + 2, name, 4);
        FDBFuture *future = fdb_transaction_get(shared->tr, name, shared->prefix.size + 2, 0);
        fdb_error_t error = wait_for(future);
        if (error) {
            shared->error = error;
        }
    }
    return NULL;
}

static void one_transaction_may_be_shared_by_threads(void **state) {
    (void)state;
    struct shared shared = {.tr = begin(), .prefix = key(""), .next = 0, .error = 0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_into_shared, &shared), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(shared.error, 0);
    commit(shared.tr);
    fdb_transaction_reset(shared.tr);
    struct range range = all();
    range.mode = FDB_STREAMING_MODE_EXACT;
    range.limit = 1000;
    assert_int_equal(read_range(shared.tr, range).count, THREADS * 50);
    fdb_transaction_destroy(shared.tr);
}

int group_concurrency(void) {
    const struct CMUnitTest tests[] = {
        TEST(no_increment_is_lost),
        TEST(no_atomic_add_is_lost),
        TEST(sums_are_kept),
        TEST(write_skew_is_prevented),
        TEST(phantoms_are_prevented),
        TEST(of_many_rivals_one_wins),
        TEST(commits_are_atomic_for_readers),
        TEST(one_transaction_may_be_shared_by_threads),
    };
    return cmocka_run_group_tests_name("concurrency", tests, NULL, NULL);
}
