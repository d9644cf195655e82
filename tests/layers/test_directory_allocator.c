/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of the directory layer: what it hands out under contention, between transactions
 * and inside one, is unique, short and free of prefixes of each other; the sizes of its windows.
 */
#include "directory_support.h"

/* ---- The allocator ---- */

enum { THREADS = 16, EACH = 60 };

struct taken {
    uint8_t bytes[16];
    size_t length;
};

struct worker {
    pthread_t thread;
    int number;
    FDBTransaction *shared; /* all in one transaction, or NULL: each in its own */
    struct taken taken[EACH];
    int directory;
};

static fdb_error_t create_one(FDBTransaction *tr, void *context) {
    struct worker *worker = context;
    char name[32];
    keel_directory *directory;
    snprintf(name, sizeof name, "%d-%d", worker->number, worker->directory);
    fdb_error_t error =
        keel_directory_create(tr, NULL, KEEL_PATH(name), KEEL_NO_LAYER, NULL, &directory);
    if (error)
        return error;
    keel_bytes prefix = {NULL, 0};
    keel_directory_prefix(directory, &prefix);
    struct taken *taken = &worker->taken[worker->directory];
    taken->length = prefix.length < 16 ? prefix.length : 16;
    memcpy(taken->bytes, prefix.data, taken->length);
    keel_directory_close(directory);
    return 0;
}

static void *work(void *context) {
    struct worker *worker = context;
    for (worker->directory = 0; worker->directory < EACH; worker->directory++) {
        fdb_error_t error = worker->shared ? create_one(worker->shared, worker)
                                           : keel_run(keel_fdb(db), create_one, worker);
        if (error) {
            fprintf(stderr, "allocating failed: %d\n", error);
            abort();
        }
    }
    return NULL;
}

static int compare_taken(const void *left, const void *right) {
    const struct taken *a = left, *b = right;
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* None is the beginning of another, and all are short. */
static void check_taken(struct worker *workers) {
    static struct taken all[THREADS * EACH];
    for (int i = 0; i < THREADS; i++)
        memcpy(all + i * EACH, workers[i].taken, sizeof workers[i].taken);
    qsort(all, THREADS * EACH, sizeof all[0], compare_taken);
    for (int i = 0; i < THREADS * EACH; i++) {
        assert_in_range(all[i].length, 1, 3);
        if (i > 0)
            assert_false(all[i - 1].length <= all[i].length &&
                         memcmp(all[i - 1].bytes, all[i].bytes, all[i - 1].length) == 0);
    }
}

/* At least as many draws are counted in the newest window as there are takings in it. (Older
 * windows are cleared when it moves; late comers may leave a key.) */
static void check_allocator(void) {
    static const uint8_t hca[] = "\xfe\x01\xfe\x00\x01hca\x00";
    FDBTransaction *tr = begin();
    uint8_t end[16], value[8];
    memcpy(end, hca, 9);
    memcpy(end + 9, "\x14\xff", 2);
    FDBFuture *future = fdb_transaction_get_key(tr, FDB_KEYSEL_LAST_LESS_THAN(end, 11), 0);
    const uint8_t *key;
    int key_length;
    assert_int_equal(keel_wait(future), 0);
    assert_int_equal(fdb_future_get_key(future, &key, &key_length), 0);
    assert_int_equal(get(tr, keel_bytes_of(key, (size_t)key_length), value, 8), 8);
    int counted = value[0] | value[1] << 8;
    uint8_t window[32];
    memcpy(window, key, (size_t)key_length);
    memmove(window + 11, window + 10, (size_t)key_length - 10);
    memcpy(window + 9, "\x15\x01", 2);
    memcpy(end + 9, "\x15\x01\xff", 3);
    int takings =
        count_keys(tr, keel_bytes_of(window, (size_t)key_length + 1), keel_bytes_of(end, 12));
    assert_in_range(takings, 1, counted);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
}

static void run_workers(FDBTransaction *shared) {
    static struct worker workers[THREADS];
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        workers[i].shared = shared;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    if (shared)
        commit(shared);
    check_taken(workers);
    check_allocator();
    FDBTransaction *tr = begin();
    int count = 0;
    assert_int_equal(keel_directory_list(tr, NULL, KEEL_PATH(), count_name, &count), 0);
    assert_int_equal(count, THREADS * EACH);
    fdb_transaction_destroy(tr);
}

static void test_allocator_contention(void **state) {
    (void)state;
    run_workers(NULL);
}

static void test_allocator_one_transaction(void **state) {
    (void)state;
    run_workers(begin());
}

/* ---- Conflicts ---- */

static void take_some(FDBTransaction *tr, const char *parent, int count) {
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        make_closed(tr, NULL, KEEL_PATH(parent, name), "");
    }
}

/*
 * Two transactions that start from the same state draw so often that they draw the same at least
 * once: the later one must fail, though it writes no key that the other has read.
 */
static void test_same_integer(void **state) {
    (void)state;
    FDBTransaction *tr = begin(), *one = begin(), *two = begin();
    make_closed(tr, NULL, KEEL_PATH("one"), "");
    make_closed(tr, NULL, KEEL_PATH("two"), "");
    commit(tr);
    take_some(one, "one", 25);
    take_some(two, "two", 25);
    commit(one);
    assert_int_equal(keel_wait_destroy(fdb_transaction_commit(two)), 1020);
    fdb_transaction_destroy(two);
}

/* Sets (which, integer) of the allocator: 0 a counter, 1 a taking. */
static void plant(FDBTransaction *tr, int which, int64_t integer, const uint8_t *value,
                  int length) {
    uint8_t key[32] = {0xfe};
    size_t key_length;
    assert_int_equal(keel_tuple_pack(KEEL_TUPLE(BYTES("\xfe"), BYTES("hca"), which, integer),
                                     key + 1, 31, &key_length),
                     0);
    fdb_transaction_set(tr, key, (int)key_length + 1, value, length);
}

/* How many ranges of takings the transaction announces to have written. */
static int count_announced(FDBTransaction *tr) {
#define ANNOUNCED "\xff\xff/transaction/write_conflict_range/"
#define TAKINGS ANNOUNCED "\xfe\x01\xfe\x00\x01hca\x00\x15\x01"
    /* Each range is two keys, its ends. */
    return count_keys(tr, BYTES(TAKINGS), BYTES(TAKINGS "\xff")) / 2;
}

/* Drawing what is taken announces nothing, however often; nor does giving up a window. */
static void test_announcements(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        FDBTransaction *tr = begin();
        uint8_t counter[8] = {(uint8_t)(round == 0 ? 3 : 40)};
        for (int i = 0; i < 60; i++)
            plant(tr, 1, i, NULL, 0);
        plant(tr, 0, 0, counter, 8);
        commit(tr);
        tr = begin();
        make_closed(tr, NULL, KEEL_PATH("x"), "");
        assert_int_equal(count_announced(tr), 1);
        make_closed(tr, NULL, KEEL_PATH("y", "z"), "");
        assert_int_equal(count_announced(tr), 3);
        fdb_transaction_destroy(tr);
        tr = begin();
        fdb_transaction_clear_range(tr, (const uint8_t *)"", 0, (const uint8_t *)"\xff", 1);
        commit(tr);
    }
}

/* A transaction whose snapshot reads do not see its own writes: windows fill up without being seen
 * to. */
static void test_allocator_blind(void **state) {
    (void)state;
    FDBTransaction *tr = begin();
    assert_int_equal(fdb_transaction_set_option(tr, FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE, NULL, 0),
                     0);
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        make_closed(tr, NULL, KEEL_PATH(name), "");
    }
    commit(tr);
    tr = begin();
    int count = 0;
    assert_int_equal(keel_directory_list(tr, NULL, KEEL_PATH(), count_name, &count), 0);
    assert_int_equal(count, 150);
    fdb_transaction_destroy(tr);
}

/* Windows of 64 up to 255, then of 1024, then of 8192: started high by planting a counter. */
static void test_allocator_windows(void **state) {
    (void)state;
    static const struct {
        int64_t start;
        int64_t size;
    } cases[] = {{0, 64}, {254, 64}, {255, 1024}, {65534, 1024}, {65535, 8192}, {1 << 30, 8192}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int full = 0; full < 2; full++) {
            FDBTransaction *tr = begin();
            uint8_t key[32] = {0xfe}, value[8] = {0};
            size_t length;
            assert_int_equal(
                keel_tuple_pack(KEEL_TUPLE(BYTES("\xfe"), BYTES("hca"), 0, cases[i].start), key + 1,
                                31, &length),
                0);
            int64_t counted = cases[i].size / 2 - (full ? 1 : 2);
            memcpy(value, &counted, 8);
            fdb_transaction_set(tr, key, (int)length + 1, value, 8);
            keel_directory *directory = make(tr, NULL, KEEL_PATH("x"), "");
            keel_tuple_iterator iterator = keel_tuple_iterate(prefix_of(directory));
            int64_t integer;
            assert_int_equal(keel_tuple_next_int(&iterator, &integer), 0);
            int64_t first = full ? cases[i].start + cases[i].size : cases[i].start;
            int64_t size = full ? (first < 255 ? 64 : first < 65535 ? 1024 : 8192) : cases[i].size;
            assert_true(integer >= first && integer < first + size);
            keel_directory_close(directory);
            fdb_transaction_destroy(tr);
        }
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_allocator_contention), TEST(test_allocator_one_transaction),
        TEST(test_same_integer),         TEST(test_announcements),
        TEST(test_allocator_blind),      TEST(test_allocator_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
