/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: order, positions, resuming, tail, trimming, waiting, bad input, and many writers with
 * readers that follow them.
 */
#define _GNU_SOURCE
#include <keel/log.h>

#include "queues.h"

#include <unistd.h>

enum { SEEN_MAX = 2000 };

struct seen {
    int count;
    keel_log_position positions[SEEN_MAX];
    char texts[SEEN_MAX][16];
};
static struct seen seen;

static fdb_error_t note(void *context, const keel_log_position *position, keel_bytes entry) {
    struct seen *all = context;
    assert_true(all->count < SEEN_MAX);
    assert_true(entry.length < 16);
    all->positions[all->count] = *position;
    memcpy(all->texts[all->count], entry.data, entry.length);
    all->texts[all->count++][entry.length] = 0;
    return 0;
}

static void scan(const keel_subspace *log, const keel_log_position *after, int limit) {
    FDBTransaction *tr = begin();
    seen.count = 0;
    ok(keel_log_scan(tr, log, after, limit, note, &seen));
    fdb_transaction_destroy(tr);
}

/* Appends the numbers from `from` on, one a transaction. */
static void append_numbers(const keel_subspace *log, int from, int count) {
    for (int i = from; i < from + count; i++) {
        FDBTransaction *tr = begin();
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        ok(keel_log_append(tr, log, 0, text(number)));
        ok(commit(tr));
    }
}

/* What was seen is the numbers from `from` on, at growing positions. */
static void expect_numbers(int from, int count) {
    assert_int_equal(seen.count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(atoi(seen.texts[i]), from + i);
        if (i)
            assert_true(memcmp(&seen.positions[i - 1], &seen.positions[i], 12) < 0);
    }
}

static void test_append_and_scan(void **state) {
    (void)state;
    keel_subspace log = subspace_of("scan");
    scan(&log, NULL, 0);
    expect_numbers(0, 0);
    append_numbers(&log, 0, 500);
    scan(&log, NULL, 0);
    expect_numbers(0, 500);
    keel_log_position middle = seen.positions[249];
    scan(&log, &middle, 0);
    expect_numbers(250, 250);
    scan(&log, &middle, 10);
    expect_numbers(250, 10);
    FDBTransaction *tr = begin();
    int64_t count = 0;
    ok(keel_log_count(tr, &log, NULL, &count));
    assert_int_equal(count, 500);
    ok(keel_log_count(tr, &log, &middle, &count));
    assert_int_equal(count, 250);
    fdb_transaction_destroy(tr);
}

/* In pieces, each behind the last position of the one before. */
static void test_resume(void **state) {
    (void)state;
    keel_subspace log = subspace_of("resume");
    keel_log_position position;
    memset(&position, 0, sizeof position);
    append_numbers(&log, 0, 100);
    for (int next = 0; next < 100; next += 7) {
        scan(&log, &position, 7);
        expect_numbers(next, next + 7 > 100 ? 100 - next : 7);
        position = seen.positions[seen.count - 1];
    }
    scan(&log, &position, 7);
    expect_numbers(0, 0);
    append_numbers(&log, 100, 3);
    scan(&log, &position, 7);
    expect_numbers(100, 3);
}

static void test_one_transaction(void **state) {
    (void)state;
    keel_subspace log = subspace_of("one");
    keel_bytes entries[] = {text("0"), text("1"), text("2"), text("3")};
    FDBTransaction *tr = begin();
    uint8_t *version;
    int length;
    ok(keel_log_append_many(tr, &log, 1000, entries, 4));
    ok(keel_log_append(tr, &log, 1004, text("4")));
    assert_int_equal(keel_log_scan(tr, &log, NULL, 0, note, &seen), 1036);
    assert_int_equal(commit(tr), 1036); /* a failed read fails the commit */
    tr = begin();
    ok(keel_log_append_many(tr, &log, 1000, entries, 4));
    ok(keel_log_append(tr, &log, 1004, text("4")));
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    ok(commit(tr));
    ok(keel_wait(stamp));
    ok(fdb_future_get_key(stamp, (const uint8_t **)&version, &length));
    assert_int_equal(length, 10);
    scan(&log, NULL, 0);
    expect_numbers(0, 5);
    for (int i = 0; i < 5; i++) {
        keel_log_position position = keel_log_position_of(version, (uint16_t)(1000 + i));
        assert_memory_equal(&position, &seen.positions[i], 12);
    }
    fdb_future_destroy(stamp);
    tr = begin();
    keel_log_position last;
    ok(keel_log_last(tr, &log, &last));
    assert_memory_equal(&last, &seen.positions[4], 12);
    fdb_transaction_destroy(tr);
}

static void test_tail(void **state) {
    (void)state;
    keel_subspace log = subspace_of("tail");
    FDBTransaction *tr = begin();
    keel_log_position last;
    static const keel_log_position zeros;
    seen.count = 0;
    ok(keel_log_tail(tr, &log, 3, note, &seen));
    assert_int_equal(seen.count, 0);
    ok(keel_log_last(tr, &log, &last));
    assert_memory_equal(&last, &zeros, 12);
    fdb_transaction_destroy(tr);
    append_numbers(&log, 0, 5);
    tr = begin();
    ok(keel_log_tail(tr, &log, 3, note, &seen));
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.texts[0], "4");
    assert_string_equal(seen.texts[2], "2");
    seen.count = 0;
    ok(keel_log_tail(tr, &log, 100, note, &seen));
    assert_int_equal(seen.count, 5);
    fdb_transaction_destroy(tr);
}

static void test_trim(void **state) {
    (void)state;
    keel_subspace log = subspace_of("trim");
    append_numbers(&log, 0, 10);
    scan(&log, NULL, 0);
    keel_log_position third = seen.positions[2], tenth = seen.positions[9], last;
    FDBTransaction *tr = begin();
    ok(keel_log_trim(tr, &log, &third));
    ok(commit(tr));
    scan(&log, NULL, 0);
    expect_numbers(3, 7);
    tr = begin();
    ok(keel_log_trim(tr, &log, NULL));
    ok(commit(tr));
    scan(&log, NULL, 0);
    expect_numbers(0, 0);
    tr = begin();
    ok(keel_log_last(tr, &log, &last));
    fdb_transaction_destroy(tr);
    assert_memory_equal(&last, &tenth, 12);
    append_numbers(&log, 10, 2);
    scan(&log, &last, 0);
    expect_numbers(10, 2);
}

static fdb_error_t stop_at_once(void *context, const keel_log_position *position,
                                keel_bytes entry) {
    (void)position;
    (void)entry;
    ++*(int *)context;
    return 123456;
}

static void test_bad_input(void **state) {
    (void)state;
    keel_subspace log = subspace_of("bad");
    static uint8_t large[100001];
    keel_bytes entries[] = {text("fine"), KEEL_BYTES(large, sizeof large)};
    FDBTransaction *tr = begin();
    int64_t before = size_of(tr);
    int calls = 0;
    assert_int_equal(keel_log_append(tr, &log, 0, entries[1]), 2103);
    assert_int_equal(keel_log_append(tr, &log, 0, KEEL_BYTES(NULL, 1)), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_log_append(tr, NULL, 0, KEEL_BYTES("a", 1)), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_log_last(tr, NULL, NULL), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_log_watch(tr, NULL, NULL), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_log_append_many(tr, &log, 0, entries, 2), 2103);
    assert_int_equal(keel_log_append_many(tr, &log, 65535, entries, 2), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_log_append_many(tr, &log, 0, NULL, 1), KEEL_ERROR_ARGUMENT);
    ok(keel_log_append_many(tr, &log, 0, NULL, 0));
    assert_int_equal(keel_log_scan(tr, &log, NULL, -1, note, &seen), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_log_tail(tr, &log, 0, note, &seen), KEEL_ERROR_ARGUMENT);
    assert_int_equal(size_of(tr), before);
    ok(keel_log_append(tr, &log, 65535, KEEL_BYTES(NULL, 0)));
    ok(commit(tr));
    tr = begin();
    assert_int_equal(keel_log_scan(tr, &log, NULL, 0, stop_at_once, &calls), 123456);
    assert_int_equal(calls, 1);
    fdb_transaction_set(tr, log.prefix, log.length, (const uint8_t *)"?", 1);
    keel_log_position last;
    assert_int_equal(keel_log_last(tr, &log, &last), KEEL_ERROR_STORED_FORMAT);
    fdb_transaction_destroy(tr);
}

/* Appends and scans conflict with nothing. */
static void test_conflicts(void **state) {
    (void)state;
    keel_subspace log = subspace_of("conflicts");
    FDBTransaction *a = begin(), *b = begin(), *reader = begin();
    seen.count = 0;
    ok(keel_log_scan(reader, &log, NULL, 0, note, &seen));
    ok(keel_log_append(a, &log, 0, text("a")));
    ok(keel_log_append(b, &log, 0, text("b")));
    ok(commit(b));
    ok(commit(a));
    keel_subspace other = subspace_of("conflicts elsewhere");
    ok(keel_log_append(reader, &other, 0, text("x")));
    ok(commit(reader));
    scan(&log, NULL, 0);
    assert_string_equal(seen.texts[0], "b"); /* the order of the commits */
    assert_string_equal(seen.texts[1], "a");
}

/* ---- Waiting ---- */

static keel_subspace shared;

static void *append_later(void *unused) {
    (void)unused;
    usleep(20000);
    FDBTransaction *tr;
    must(fdb_database_create_transaction(keel_fdb(db), &tr), "transaction");
    must(keel_log_append(tr, &shared, 0, text("1")), "append");
    must(keel_wait_destroy(fdb_transaction_commit(tr)), "commit");
    fdb_transaction_destroy(tr);
    return NULL;
}

static void test_wait(void **state) {
    (void)state;
    shared = subspace_of("wait");
    bool more = true;
    ok(keel_log_wait(keel_fdb(db), &shared, NULL, 0, &more));
    assert_false(more);
    ok(keel_log_wait(keel_fdb(db), &shared, NULL, 10, &more));
    assert_false(more);
    append_numbers(&shared, 0, 1);
    ok(keel_log_wait(keel_fdb(db), &shared, NULL, -1, &more)); /* it is there already */
    assert_true(more);
    scan(&shared, NULL, 0);
    pthread_t thread;
    ok(pthread_create(&thread, NULL, append_later, NULL));
    ok(keel_log_wait(keel_fdb(db), &shared, &seen.positions[0], -1, &more));
    assert_true(more);
    ok(pthread_join(thread, NULL));
    scan(&shared, &seen.positions[0], 0);
    expect_numbers(1, 1);
}

static void test_watch(void **state) {
    (void)state;
    keel_subspace log = subspace_of("watch");
    FDBFuture *future;
    FDBTransaction *tr = begin();
    ok(keel_log_watch(tr, &log, &future));
    ok(commit(tr));
    assert_false(fdb_future_is_ready(future));
    append_numbers(&log, 0, 1);
    ok(keel_wait_destroy(future));
}

/* ---- Many at once ---- */

enum { WRITERS = 6, EACH = 60, READERS = 3, ENTRIES = WRITERS * EACH };
static atomic_int wrong;

struct follower {
    keel_log_position position;
    int count, next[WRITERS]; /* entries of a writer come in order, without a gap */
};

static fdb_error_t append_number(FDBTransaction *tr, void *context) {
    return keel_log_append(tr, &shared, 0, KEEL_BYTES(context, sizeof(int)));
}

static fdb_error_t follow(void *context, const keel_log_position *position, keel_bytes entry) {
    struct follower *follower = context;
    int number;
    memcpy(&number, entry.data, sizeof number);
    if (memcmp(&follower->position, position, sizeof *position) >= 0 ||
        number % EACH != follower->next[number / EACH]++)
        atomic_fetch_add(&wrong, 1);
    follower->position = *position;
    follower->count++;
    return 0;
}

static fdb_error_t follow_some(FDBTransaction *tr, void *context) {
    struct follower *follower = context, before = *follower;
    fdb_error_t error = keel_log_scan(tr, &shared, &before.position, 50, follow, follower);
    if (error)
        *follower = before; /* it may be called again */
    return error;
}

static void *write_or_follow(void *context) {
    int thread = (int)(intptr_t)context;
    for (int i = 0; thread < WRITERS && i < EACH; i++) {
        int number = thread * EACH + i;
        must(keel_run(keel_fdb(db), append_number, &number), "append");
    }
    if (thread < WRITERS)
        return NULL;
    struct follower follower;
    memset(&follower, 0, sizeof follower);
    while (follower.count < ENTRIES) {
        bool more;
        must(keel_log_wait(keel_fdb(db), &shared, &follower.position, -1, &more), "wait");
        must(keel_run_read(keel_fdb(db), follow_some, &follower), "scan");
    }
    return NULL;
}

static void test_many(void **state) {
    (void)state;
    shared = subspace_of("shared");
    run_threads(WRITERS + READERS, write_or_follow);
    assert_int_equal(wrong, 0);
    scan(&shared, NULL, 0);
    assert_int_equal(seen.count, ENTRIES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_and_scan), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_one_transaction), cmocka_unit_test(test_tail),
        cmocka_unit_test(test_trim),            cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_conflicts),       cmocka_unit_test(test_wait),
        cmocka_unit_test(test_watch),
    };
    const struct CMUnitTest crowded[] = {cmocka_unit_test(test_many)};
    int failures = cmocka_run_group_tests(tests, open_database, close_database);
    return failures + cmocka_run_group_tests(crowded, open_on_disk, close_on_disk);
}
