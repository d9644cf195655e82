/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long reads (KEEL_TR_OPTION_LONG_READ) on the real engine, on disk and in memory, with a lifetime of 200 ms so that checkpoints pass under them:
 * what they see does not change, nothing waits for them, and every way of ending one gives its state back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <keel/options.h>

#include "engine/engine.h"
#include "os/clock.h"
#include "txn/transaction.h"
#include "util/checksum.h"
#include "util/memory.h"

enum { LIFETIME_MS = 200 };

static char scratch[400];
static int scratch_number;
static struct database *database;
static struct database_handle *handle;

static int make_scratch(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/keel-long-read-XXXXXX", parent ? parent : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
    (void)state;
    char command[1000];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static void open_at(const char *path) {
    struct engine_options options;
    char *message = NULL;
    assert_int_equal(engine_default_options(&options, &message), 0);
    options.lifetime_us = LIFETIME_MS * 1000;
    options.generation_us = options.lifetime_us / 4;
    options.window_bytes_max = 4 << 20;
    options.generation_bytes = 512 << 10;
    options.durable = false;
    assert_int_equal(engine_open(path, &options, &database, &message), 0);
    assert_int_equal(database_handle_create(database, 740, "", "", &handle), 0);
}

static int open_disk(void **state) {
    (void)state;
    char path[1000];
    snprintf(path, sizeof path, "%s/db-%d", scratch, scratch_number++);
    open_at(path);
    return 0;
}

static int open_memory(void **state) {
    (void)state;
    open_at(":memory:");
    return 0;
}

static int close_it(void **state) {
    (void)state;
    database_handle_release(handle);
    return 0;
}

/* --- Transactions --- */

static struct transaction *begin(void) {
    struct transaction *tr;
    assert_int_equal(transaction_create(handle, &tr), 0);
    return tr;
}

static fdb_error_t option(struct transaction *tr) {
    return transaction_set_option(tr, (int)KEEL_TR_OPTION_LONG_READ, NULL, 0);
}

static struct transaction *begin_long(void) {
    struct transaction *tr = begin();
    assert_int_equal(option(tr), 0);
    return tr;
}

struct waiting {
    struct completion completion;
    _Atomic int calls;
    fdb_error_t error;
};

static void note(struct completion *completion, fdb_error_t error) {
    struct waiting *waiting = (struct waiting *)completion;
    waiting->error = error;
    atomic_fetch_add(&waiting->calls, 1);
}

static fdb_error_t commit(struct transaction *tr) {
    struct waiting wait = {.completion = {.done = note}};
    transaction_commit(tr, &wait.completion);
    while (!atomic_load(&wait.calls))
        if (!transaction_drive(tr))
            os_sleep_us(10);
    return wait.error;
}

static struct bytes number_key(char buffer[32], int number) {
    return bytes_make(buffer, (size_t)snprintf(buffer, 32, "row/%06d", number));
}

/* One commit that overwrites, inserts and clears around a number that grows. */
static void churn(unsigned *seed, int rows) {
    struct transaction *tr = begin();
    char key[32], end[32], value[200];
    for (int i = 0; i < rows; i++) {
        *seed = *seed * 1664525 + 1013904223;
        int number = (int)(*seed >> 8) % 3000;
        memset(value, 'a' + (int)(*seed >> 20) % 26, sizeof value);
        if ((*seed >> 28) == 0)
            transaction_clear_range(tr, number_key(key, number), number_key(end, number + 20));
        else
            transaction_set(tr, number_key(key, number), bytes_make(value, (*seed >> 16) % sizeof value));
    }
    assert_int_equal(commit(tr), 0);
    transaction_destroy(tr);
}

struct digest {
    uint64_t sum;
    int rows;
    fdb_error_t error;
};

/* The whole database as this transaction sees it, in pieces, forwards or backwards; the sum does not depend on the direction. */
static struct digest scan(struct transaction *tr, bool reverse) {
    struct digest digest = {0};
    struct arena arena = {0};
    struct bytes begin_key = BYTES_LITERAL(""), end_key = BYTES_LITERAL("\xff");
    for (bool more = true; more;) {
        struct rows rows = {0};
        struct range_arguments arguments = {.begin = {begin_key, false, 1}, .end = {end_key, false, 1}, .limit = 97,
                                            .mode = FDB_STREAMING_MODE_EXACT, .reverse = reverse};
        digest.error = transaction_get_range(tr, &arguments, &rows, &more);
        if (digest.error)
            break;
        for (int i = 0; i < rows.count; i++)
            digest.sum += checksum(rows_value(&rows, i), checksum(rows_key(&rows, i), 1));
        digest.rows += rows.count;
        if (rows.count) {
            struct bytes last = rows_key(&rows, rows.count - 1);
            uint8_t *copy = arena_allocate_bytes(&arena, last.length + 1);
            assert_non_null(copy);
            memcpy(copy, last.data, last.length);
            copy[last.length] = 0;
            *(reverse ? &end_key : &begin_key) = bytes_make(copy, last.length + !reverse);
        }
        rows_free(&rows);
    }
    arena_free(&arena);
    return digest;
}

static fdb_error_t get(struct transaction *tr, const char *key, char value[200]) {
    struct arena arena = {0};
    struct bytes found;
    bool present;
    fdb_error_t error = transaction_get(tr, bytes_make(key, strlen(key)), false, &arena, &found, &present);
    value[0] = 0;
    if (!error && present) {
        memcpy(value, found.data, found.length);
        value[found.length] = 0;
    }
    arena_free(&arena);
    return error;
}

static void put(const char *key, const char *value) {
    struct transaction *tr = begin();
    transaction_set(tr, bytes_make(key, strlen(key)), bytes_make(value, strlen(value)));
    assert_int_equal(commit(tr), 0);
    transaction_destroy(tr);
}

static struct database_status status(void) {
    struct database_status status;
    database_get_status(database, &status);
    return status;
}

static uint64_t pins(void) { return status().pin_count; }

/* Writes until so many checkpoints have passed. */
static void pass_checkpoints(unsigned *seed, uint64_t count) {
    uint64_t until = status().checkpoints + count;
    while (status().checkpoints < until)
        churn(seed, 50);
}

/* --- What is seen --- */

/* The state at the first read, window and base, whatever is written and moved to the base afterwards. */
static void test_nothing_changes(void **state) {
    (void)state;
    unsigned seed = 1;
    for (int round = 0; round < 3; round++) {
        pass_checkpoints(&seed, 2);
        struct transaction *tr = begin_long();
        struct digest first = scan(tr, false);
        assert_int_equal(first.error, 0);
        assert_true(first.rows > 100);
        int64_t version;
        assert_int_equal(transaction_get_read_version(tr, &version), 0);
        for (int i = 0; i < 4; i++) {
            pass_checkpoints(&seed, 2);
            struct digest again = scan(tr, i & 1);
            assert_int_equal(again.error, 0);
            assert_int_equal(again.rows, first.rows);
            assert_true(again.sum == first.sum);
        }
        assert_true(status().horizon_version > version); /* else this test has not tested */
        assert_true(status().base_version > version);
        struct transaction *present = begin();
        struct digest now = scan(present, false);
        transaction_destroy(present);
        assert_true(now.sum != first.sum);
        transaction_destroy(tr);
        assert_int_equal(pins(), 0);
    }
}

/* Single keys: overwritten, cleared, inserted, and never there. */
static void test_single_keys(void **state) {
    (void)state;
    unsigned seed = 2;
    char value[200];
    put("a", "old");
    put("b", "gone");
    pass_checkpoints(&seed, 2); /* these are in the base now … */
    put("c", "window"); /* … and this is not */
    struct transaction *tr = begin_long();
    assert_int_equal(get(tr, "a", value), 0);
    put("a", "new");
    put("d", "late");
    struct transaction *clear = begin();
    transaction_clear_range(clear, BYTES_LITERAL("b"), BYTES_LITERAL("d"));
    assert_int_equal(commit(clear), 0);
    transaction_destroy(clear);
    pass_checkpoints(&seed, 4);
    assert_int_equal(get(tr, "a", value), 0);
    assert_string_equal(value, "old");
    assert_int_equal(get(tr, "b", value), 0);
    assert_string_equal(value, "gone");
    assert_int_equal(get(tr, "c", value), 0);
    assert_string_equal(value, "window");
    assert_int_equal(get(tr, "d", value), 0);
    assert_string_equal(value, "");
    transaction_destroy(tr);
}

/* Without the option five seconds stay five seconds. */
static void test_others_grow_old(void **state) {
    (void)state;
    char value[200];
    unsigned seed = 3;
    put("a", "1");
    struct transaction *tr = begin(), *tall = begin_long();
    assert_int_equal(get(tr, "a", value), 0);
    assert_int_equal(get(tall, "a", value), 0);
    pass_checkpoints(&seed, 6);
    os_sleep_us(2 * LIFETIME_MS * 1000);
    assert_int_equal(get(tr, "a", value), ERROR_TRANSACTION_TOO_OLD);
    assert_int_equal(get(tall, "a", value), 0);
    transaction_destroy(tr);
    transaction_destroy(tall);
}

/* Several transactions at one version see one state. */
static void test_one_version(void **state) {
    (void)state;
    unsigned seed = 4;
    pass_checkpoints(&seed, 2);
    struct transaction *first = begin_long(), *second = begin_long();
    int64_t version;
    char value[200];
    fdb_error_t error = ERROR_TRANSACTION_TOO_OLD;
    for (int i = 0; i < 50 && error == ERROR_TRANSACTION_TOO_OLD; i++) { /* on a slow machine the version may be old already */
        transaction_reset(first);
        transaction_reset(second);
        assert_int_equal(option(first), 0);
        assert_int_equal(option(second), 0);
        assert_int_equal(transaction_get_read_version(first, &version), 0);
        assert_int_equal(pins(), 1); /* held from here on, without a read */
        assert_int_equal(transaction_set_read_version(second, version), 0);
        error = get(second, "x", value);
    }
    assert_int_equal(error, 0);
    pass_checkpoints(&seed, 6);
    struct digest one = scan(first, false), two = scan(second, true);
    assert_int_equal(one.error, 0);
    assert_int_equal(two.error, 0);
    assert_true(one.sum == two.sum && one.rows == two.rows);
    struct transaction *late = begin_long();
    assert_int_equal(transaction_set_read_version(late, version), 0);
    assert_int_equal(get(late, "x", value), ERROR_TRANSACTION_TOO_OLD);
    struct transaction *future = begin_long();
    assert_int_equal(transaction_set_read_version(future, status().read_version + 600000000), 0);
    assert_int_equal(get(future, "x", value), ERROR_FUTURE_VERSION);
    assert_int_equal(pins(), 2);
    transaction_destroy(first);
    transaction_destroy(second);
    transaction_destroy(late);
    transaction_destroy(future);
    assert_int_equal(pins(), 0);
}

/* --- Rules --- */

static void test_set_too_late(void **state) {
    (void)state;
    char value[200];
    struct transaction *tr = begin();
    assert_int_equal(get(tr, "a", value), 0);
    assert_int_equal(option(tr), ERROR_CLIENT_INVALID_OPERATION);
    transaction_reset(tr);
    transaction_set(tr, BYTES_LITERAL("a"), BYTES_LITERAL("b"));
    assert_int_equal(option(tr), ERROR_CLIENT_INVALID_OPERATION);
    int64_t version, again;
    fdb_error_t error = ERROR_TRANSACTION_TOO_OLD;
    for (int i = 0; i < 50 && error == ERROR_TRANSACTION_TOO_OLD; i++) {
        transaction_reset(tr);
        assert_int_equal(transaction_get_read_version(tr, &version), 0);
        assert_int_equal(option(tr), 0); /* nothing was read */
        assert_int_equal(pins(), 0);
        error = get(tr, "a", value);
    }
    assert_int_equal(error, 0);
    assert_int_equal(pins(), 1);
    assert_int_equal(transaction_get_read_version(tr, &again), 0);
    assert_true(version == again);
    assert_int_equal(option(tr), 0); /* twice does no harm */
    assert_int_equal(get(tr, "a", value), 0);
    assert_int_equal(pins(), 1);
    assert_int_equal(transaction_set_option(tr, (int)KEEL_TR_OPTION_LONG_READ, (const uint8_t *)"x", 1),
                     ERROR_INVALID_OPTION_VALUE);
    transaction_destroy(tr);
}

static void test_writes_are_refused(void **state) {
    (void)state;
    char value[200];
    put("a", "1");
    for (int kind = 0; kind < 5; kind++) {
        struct transaction *tr = begin_long();
        assert_int_equal(get(tr, "a", value), 0);
        if (kind == 0)
            transaction_set(tr, BYTES_LITERAL("a"), BYTES_LITERAL("2"));
        else if (kind == 1)
            transaction_clear(tr, BYTES_LITERAL("a"));
        else if (kind == 2)
            transaction_clear_range(tr, BYTES_LITERAL("a"), BYTES_LITERAL("b"));
        else if (kind == 3)
            transaction_atomic_op(tr, BYTES_LITERAL("a"), BYTES_LITERAL("2"), FDB_MUTATION_TYPE_BYTE_MAX);
        else
            transaction_add_conflict_range(tr, BYTES_LITERAL("a"), BYTES_LITERAL("b"), FDB_CONFLICT_RANGE_TYPE_WRITE);
        assert_int_equal(transaction_set_option(tr, FDB_TR_OPTION_LOCK_AWARE, NULL, 0), 0);
        assert_int_equal(commit(tr), ERROR_TRANSACTION_READ_ONLY);
        assert_int_equal(pins(), 0); /* a transaction reads nothing after its commit */
        transaction_destroy(tr);
    }
    struct transaction *tr = begin();
    assert_int_equal(get(tr, "a", value), 0);
    assert_string_equal(value, "1");
    transaction_destroy(tr);
    tr = begin_long();
    assert_int_equal(get(tr, "a", value), 0);
    assert_int_equal(commit(tr), 0); /* nothing was written */
    transaction_destroy(tr);
}

static void test_no_conflicts_kept(void **state) {
    (void)state;
    unsigned seed = 5;
    char value[200];
    pass_checkpoints(&seed, 1);
    struct transaction *tr = begin_long();
    assert_int_equal(scan(tr, false).error, 0);
    assert_int_equal(get(tr, "a", value), 0);
    int64_t bytes;
    assert_int_equal(transaction_get_approximate_size(tr, &bytes), 0);
    assert_int_equal(bytes, 0);
    transaction_destroy(tr);
}

static void on_error(struct transaction *tr, fdb_error_t error) {
    struct waiting wait = {.completion = {.done = note}};
    transaction_on_error(tr, error, &wait.completion);
    while (!atomic_load(&wait.calls)) {
        transaction_expire(tr);
        os_sleep_us(100);
    }
}

static void test_every_end_releases(void **state) {
    (void)state;
    char value[200];
    struct transaction *tr = begin_long();
    assert_int_equal(get(tr, "a", value), 0);
    assert_int_equal(pins(), 1);
    transaction_reset(tr);
    assert_int_equal(pins(), 0);
    assert_int_equal(get(tr, "a", value), 0); /* the option went with the reset */
    assert_int_equal(pins(), 0);
    transaction_reset(tr);
    assert_int_equal(option(tr), 0);
    assert_int_equal(get(tr, "a", value), 0);
    on_error(tr, ERROR_NOT_COMMITTED);
    assert_int_equal(pins(), 0);
    assert_int_equal(option(tr), 0);
    assert_int_equal(get(tr, "a", value), 0);
    transaction_cancel(tr);
    assert_int_equal(pins(), 0);
    assert_int_equal(get(tr, "a", value), ERROR_TRANSACTION_CANCELLED);
    transaction_reset(tr);
    assert_int_equal(option(tr), 0);
    assert_int_equal(get(tr, "a", value), 0);
    on_error(tr, ERROR_CLIENT_INVALID_OPERATION); /* cannot be retried: the transaction is cancelled */
    assert_int_equal(pins(), 0);
    transaction_reset(tr);
    assert_int_equal(option(tr), 0);
    assert_int_equal(get(tr, "a", value), 0);
    int64_t one_ms = 1;
    assert_int_equal(transaction_set_option(tr, FDB_TR_OPTION_TIMEOUT, (const uint8_t *)&one_ms, 8), 0);
    os_sleep_us(3000);
    assert_int_equal(get(tr, "a", value), ERROR_TRANSACTION_TIMED_OUT);
    assert_int_equal(pins(), 0);
    transaction_destroy(tr);
}

static void test_bounded(void **state) {
    (void)state;
    char value[200];
    struct transaction *held[KEEL_LONG_READS_MAX + 1];
    for (int i = 0; i < KEEL_LONG_READS_MAX; i++) {
        held[i] = begin_long();
        assert_int_equal(get(held[i], "a", value), 0);
    }
    struct transaction *one_more = begin_long();
    assert_int_equal(get(one_more, "a", value), ERROR_TOO_MANY_LONG_READS);
    assert_int_equal(pins(), KEEL_LONG_READS_MAX);
    put("a", "1"); /* others go on */
    struct transaction *tr = begin();
    assert_int_equal(get(tr, "a", value), 0);
    assert_string_equal(value, "1");
    transaction_destroy(tr);
    transaction_destroy(held[7]);
    assert_int_equal(get(one_more, "a", value), 0); /* there is room now */
    held[7] = one_more;
    os_sleep_us(1000);
    assert_true(status().oldest_pin_us >= 1000);
    for (int i = 0; i < KEEL_LONG_READS_MAX; i++)
        transaction_destroy(held[i]);
    assert_int_equal(pins(), 0);
    assert_int_equal(status().oldest_pin_us, 0);
}

/* --- Beside writers --- */

enum { ACCOUNTS = 200, START = 1000, WRITERS = 2, SCANNERS = 3 };
static _Atomic bool stop;
static _Atomic int scans;

static struct bytes account(char buffer[32], unsigned number) {
    return bytes_make(buffer, (size_t)snprintf(buffer, 32, "account/%04u", number));
}

static int64_t balance(struct transaction *tr, struct bytes key, fdb_error_t *error) {
    struct arena arena = {0};
    struct bytes value;
    bool present = false;
    int64_t amount = 0;
    *error = transaction_get(tr, key, false, &arena, &value, &present);
    if (!*error && present)
        memcpy(&amount, value.data, sizeof amount);
    arena_free(&arena);
    return amount;
}

/* Moves money and overwrites a lot, so that the sum stays and generations fill. */
static void *write_beside(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    static const uint8_t ballast[4000];
    while (!atomic_load(&stop)) {
        struct transaction *tr = begin();
        char from[32], to[32], heavy[32];
        fdb_error_t error;
        seed = seed * 1664525 + 1013904223;
        struct bytes a = account(from, (seed >> 8) % ACCOUNTS), b = account(to, (seed >> 16) % ACCOUNTS);
        int64_t x = balance(tr, a, &error), amount = (seed >> 4) % 50;
        int64_t y = error ? 0 : balance(tr, b, &error);
        if (!error && !bytes_equal(a, b)) {
            x -= amount;
            y += amount;
            transaction_set(tr, a, bytes_make(&x, sizeof x));
            transaction_set(tr, b, bytes_make(&y, sizeof y));
            transaction_set(tr, bytes_make(heavy, (size_t)snprintf(heavy, 32, "ballast/%u", seed >> 20)),
                            bytes_make(ballast, sizeof ballast));
            commit(tr); /* a conflict is no harm */
        }
        transaction_destroy(tr);
    }
    return NULL;
}

static int64_t sum_accounts(struct transaction *tr) {
    struct rows rows = {0};
    bool more;
    struct range_arguments arguments = {.begin = {BYTES_LITERAL("account/"), false, 1},
                                        .end = {BYTES_LITERAL("account0"), false, 1},
                                        .limit = ACCOUNTS + 1,
                                        .mode = FDB_STREAMING_MODE_EXACT};
    int64_t sum = -1;
    if (transaction_get_range(tr, &arguments, &rows, &more) == 0 && rows.count == ACCOUNTS) {
        sum = 0;
        for (int i = 0; i < rows.count; i++) {
            int64_t amount;
            memcpy(&amount, rows_value(&rows, i).data, sizeof amount);
            sum += amount;
        }
    }
    rows_free(&rows);
    return sum;
}

static void *scan_beside(void *argument) {
    while (!atomic_load(&stop)) {
        struct transaction *tr = begin_long();
        struct digest first = scan(tr, false);
        for (int i = 0; i < 6; i++) {
            os_sleep_us(LIFETIME_MS * 1000 / 4);
            struct digest again = scan(tr, i & 1);
            if (first.error || again.error || again.sum != first.sum || again.rows != first.rows ||
                sum_accounts(tr) != (int64_t)ACCOUNTS * START)
                atomic_fetch_add((_Atomic int *)argument, 1);
        }
        atomic_fetch_add(&scans, 1);
        transaction_destroy(tr);
    }
    return NULL;
}

static void test_beside_writers(void **state) {
    (void)state;
    char key[32];
    int64_t start = START;
    struct transaction *tr = begin();
    for (unsigned i = 0; i < ACCOUNTS; i++)
        transaction_set(tr, account(key, i), bytes_make(&start, sizeof start));
    assert_int_equal(commit(tr), 0);
    transaction_destroy(tr);
    pthread_t writers[WRITERS], scanners[SCANNERS];
    _Atomic int wrong = 0;
    atomic_store(&stop, false);
    atomic_store(&scans, 0);
    uint64_t checkpoints = status().checkpoints;
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&writers[i], NULL, write_beside, (void *)(uintptr_t)(i + 11));
    for (int i = 0; i < SCANNERS; i++)
        pthread_create(&scanners[i], NULL, scan_beside, &wrong);
    while (!atomic_load(&wrong) && (atomic_load(&scans) < 3 * SCANNERS || status().checkpoints < checkpoints + 10))
        os_sleep_us(10000);
    atomic_store(&stop, true);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    for (int i = 0; i < SCANNERS; i++)
        pthread_join(scanners[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(pins(), 0);
}

/* Out of memory at any allocation: an error, no pin left behind. */
static void test_out_of_memory(void **state) {
    (void)state;
    put("a", "1");
    for (long countdown = 0;; countdown++) {
        struct database *pinned = NULL;
        int64_t version;
        assert_int_equal(database_get_read_version(database, &version), 0);
        memory_fail_after(countdown);
        fdb_error_t error = database_pin(database, version, &pinned);
        memory_fail_after(-1);
        if (!error) {
            assert_int_equal(pins(), 1);
            database_close(pinned);
            break;
        }
        assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
        assert_null(pinned);
        assert_int_equal(pins(), 0);
    }
    assert_int_equal(pins(), 0);
}

#define BOTH(test)                                                                                                     \
    {#test " on disk", test, open_disk, close_it, NULL}, { #test " in memory", test, open_memory, close_it, NULL }

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(test_nothing_changes),    BOTH(test_single_keys),       BOTH(test_others_grow_old),    BOTH(test_one_version),
        BOTH(test_set_too_late),       BOTH(test_writes_are_refused), BOTH(test_no_conflicts_kept), BOTH(test_every_end_releases),
        BOTH(test_bounded),            BOTH(test_beside_writers),    BOTH(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
