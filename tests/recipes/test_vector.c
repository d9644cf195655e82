/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors: elements and holes, the end and what moves it, many dimensions, many threads. */
#include "fixture.h"

#include <keel/vector.h>

enum { VALUE_TOO_LARGE = 2103 };

static keel_subspace named(const char *name) {
    keel_subspace subspace;
    assert_int_equal(keel_subspace_tuple(KEEL_TUPLE("V", name), &subspace), 0);
    return subspace;
}

static void assert_element(FDBTransaction *tr, const keel_subspace *v, int64_t index,
                           const char *expected) {
    uint8_t *value = NULL;
    size_t length = 99;
    assert_int_equal(keel_vector_get(tr, v, index, &value, &length), 0);
    if (expected) {
        assert_non_null(value);
        assert_int_equal(length, strlen(expected));
        assert_string_equal((char *)value, expected);
    } else {
        assert_null(value);
        assert_int_equal(length, 0);
    }
    free(value);
}

static void assert_size(FDBTransaction *tr, const keel_subspace *v, int64_t expected) {
    int64_t size = -1;
    assert_int_equal(keel_vector_size(tr, v, &size), 0);
    assert_int_equal(size, expected);
}

static void assert_pop(FDBTransaction *tr, const keel_subspace *v, const char *expected) {
    uint8_t *value = NULL;
    size_t length;
    assert_int_equal(keel_vector_pop(tr, v, text("-"), &value, &length), 0);
    if (expected)
        assert_string_equal((char *)value, expected);
    else
        assert_null(value);
    free(value);
}

/* Everything a scan gives, as text: "0=a 1=b ". */
struct page {
    char text[4096];
    int stop_after;
};

static fdb_error_t append(void *context, int64_t index, keel_bytes value) {
    struct page *page = context;
    size_t used = strlen(page->text);
    snprintf(page->text + used, sizeof page->text - used, "%lld=%.*s ", (long long)index,
             (int)value.length, (const char *)value.data);
    return page->stop_after && --page->stop_after == 0 ? 123456 : 0;
}

static void assert_scan(FDBTransaction *tr, const keel_subspace *v, int64_t from, int64_t to,
                        const char *hole, const char *expected) {
    struct page page = {"", 0};
    keel_bytes fill = text(hole);
    assert_int_equal(keel_vector_scan(tr, v, from, to, hole ? &fill : NULL, append, &page), 0);
    assert_string_equal(page.text, expected);
}

static void test_elements(void **state) {
    (void)state;
    keel_subspace v = named("elements");
    FDBTransaction *tr = begin();
    assert_size(tr, &v, 0);
    assert_element(tr, &v, 0, NULL);
    int64_t index = -1;
    assert_int_equal(keel_vector_push(tr, &v, text("a"), &index), 0);
    assert_int_equal(index, 0);
    assert_int_equal(keel_vector_push(tr, &v, text("b"), NULL), 0);
    assert_int_equal(keel_vector_push(tr, &v, text(""), &index), 0);
    assert_int_equal(index, 2);
    commit(tr);
    tr = begin();
    assert_size(tr, &v, 3);
    assert_element(tr, &v, 1, "b");
    assert_element(tr, &v, 2, "");
    assert_element(tr, &v, 3, NULL);
    assert_int_equal(keel_vector_set(tr, &v, 1, text("B")), 0);
    assert_element(tr, &v, 1, "B");
    assert_size(tr, &v, 3);
    assert_scan(tr, &v, 0, KEEL_VECTOR_END, NULL, "0=a 1=B 2= ");
    commit(tr);
}

static void test_holes(void **state) {
    (void)state;
    keel_subspace v = named("holes");
    FDBTransaction *tr = begin();
    keel_vector_set(tr, &v, 2, text("two"));
    keel_vector_set(tr, &v, 5, text("five"));
    assert_size(tr, &v, 6);
    assert_element(tr, &v, 3, NULL);
    assert_scan(tr, &v, 0, KEEL_VECTOR_END, NULL, "2=two 5=five ");
    assert_scan(tr, &v, 0, KEEL_VECTOR_END, "0", "0=0 1=0 2=two 3=0 4=0 5=five ");
    assert_scan(tr, &v, 3, 5, "0", "3=0 4=0 "); /* none is stored there, but they exist */
    assert_scan(tr, &v, 3, 5, NULL, "");
    assert_scan(tr, &v, 5, 99, "0", "5=five ");
    assert_scan(tr, &v, 2, 2, "0", "");
    keel_vector_erase(tr, &v, 5);
    assert_size(tr, &v, 3);
    assert_int_equal(count_rows(tr, &v), 1);
    commit(tr);
}

static void test_pop(void **state) {
    (void)state;
    keel_subspace v = named("pop");
    FDBTransaction *tr = begin();
    assert_pop(tr, &v, NULL);
    keel_vector_push(tr, &v, text("only"), NULL);
    assert_pop(tr, &v, "only");
    assert_size(tr, &v, 0);
    keel_vector_set(tr, &v, 0, text("a"));
    keel_vector_set(tr, &v, 3, text("d"));
    assert_pop(tr, &v, "d"); /* 2 is a hole: it becomes the last element */
    assert_size(tr, &v, 3);
    assert_pop(tr, &v, "-");
    assert_size(tr, &v, 2);
    assert_pop(tr, &v, "-");
    assert_pop(tr, &v, "a");
    assert_pop(tr, &v, NULL);
    assert_int_equal(count_rows(tr, &v), 0);
    commit(tr);
}

static void test_swap(void **state) {
    (void)state;
    keel_subspace v = named("swap");
    FDBTransaction *tr = begin();
    keel_vector_set(tr, &v, 0, text("a"));
    keel_vector_set(tr, &v, 1, text("b"));
    assert_int_equal(keel_vector_swap(tr, &v, 0, 1), 0);
    assert_element(tr, &v, 0, "b");
    assert_element(tr, &v, 1, "a");
    assert_int_equal(keel_vector_swap(tr, &v, 1, 1), 0);
    assert_element(tr, &v, 1, "a");
    assert_int_equal(keel_vector_swap(tr, &v, 1, 7), 0);
    assert_element(tr, &v, 1, NULL);
    assert_element(tr, &v, 7, "a");
    assert_int_equal(keel_vector_swap(tr, &v, 3, 4), 0);
    assert_int_equal(count_rows(tr, &v), 2);
    commit(tr);
}

static void test_truncate_and_resize(void **state) {
    (void)state;
    keel_subspace v = named("truncate");
    FDBTransaction *tr = begin();
    for (int i = 0; i < 10; i++)
        keel_vector_push(tr, &v, text("x"), NULL);
    assert_int_equal(keel_vector_truncate(tr, &v, 4), 0);
    assert_size(tr, &v, 4);
    assert_int_equal(keel_vector_truncate(tr, &v, 9), 0); /* never longer */
    assert_size(tr, &v, 4);
    assert_int_equal(keel_vector_resize(tr, &v, 7, text("r")), 0);
    assert_size(tr, &v, 7);
    assert_scan(tr, &v, 3, KEEL_VECTOR_END, "0", "3=x 4=0 5=0 6=r ");
    assert_int_equal(keel_vector_resize(tr, &v, 6, text("r")), 0); /* onto a hole */
    assert_size(tr, &v, 6);
    assert_int_equal(keel_vector_resize(tr, &v, 3, text("r")), 0); /* onto an element */
    assert_element(tr, &v, 2, "x");
    assert_size(tr, &v, 3);
    assert_int_equal(keel_vector_resize(tr, &v, 0, text("r")), 0);
    assert_size(tr, &v, 0);
    assert_int_equal(count_rows(tr, &v), 0);
    commit(tr);
}

static void test_scan_many(void **state) {
    (void)state;
    keel_subspace v = named("many");
    FDBTransaction *tr = begin();
    char number[16];
    for (int i = 0; i < 3000; i++) { /* integers of one and two bytes; several pages */
        snprintf(number, sizeof number, "%d", i);
        keel_vector_set(tr, &v, i, text(number));
    }
    commit(tr);
    tr = begin();
    assert_scan(tr, &v, 254, 258, NULL, "254=254 255=255 256=256 257=257 ");
    struct page page = {"", 3};
    assert_int_equal(keel_vector_scan(tr, &v, 2000, KEEL_VECTOR_END, NULL, append, &page), 123456);
    assert_string_equal(page.text, "2000=2000 2001=2001 2002=2002 ");
    assert_size(tr, &v, 3000);
    fdb_transaction_destroy(tr);
}

static fdb_error_t append_at(void *context, const int64_t *indexes, size_t dimensions,
                             keel_bytes value) {
    struct page *page = context;
    for (size_t i = 0; i < dimensions; i++) {
        size_t used = strlen(page->text);
        snprintf(page->text + used, sizeof page->text - used, "%lld,", (long long)indexes[i]);
    }
    size_t used = strlen(page->text);
    snprintf(page->text + used, sizeof page->text - used, "=%.*s ", (int)value.length,
             (const char *)value.data);
    return 0;
}

static void test_dimensions(void **state) {
    (void)state;
    keel_subspace v = named("matrix"), row;
    FDBTransaction *tr = begin();
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 3; j++) {
            char cell[8];
            snprintf(cell, sizeof cell, "%d%d", (int)i, (int)j);
            assert_int_equal(keel_vector_set_at(tr, &v, (int64_t[]){i, j}, 2, text(cell)), 0);
        }
    uint8_t *value;
    size_t length;
    assert_int_equal(keel_vector_get_at(tr, &v, (int64_t[]){1, 2}, 2, &value, &length), 0);
    assert_string_equal((char *)value, "12");
    free(value);
    assert_size(tr, &v, 3);
    struct page page = {"", 0};
    assert_int_equal(keel_vector_scan_at(tr, &v, (int64_t[]){1}, 1, append_at, &page), 0);
    assert_string_equal(page.text, "1,0,=10 1,1,=11 1,2,=12 ");
    assert_int_equal(keel_vector_swap_at(tr, &v, (int64_t[]){0, 0}, (int64_t[]){2, 2}, 2), 0);
    assert_int_equal(keel_vector_row(&v, (int64_t[]){2}, 1, &row), 0);
    assert_scan(tr, &row, 0, KEEL_VECTOR_END, NULL, "0=20 1=21 2=00 ");
    assert_int_equal(keel_vector_push(tr, &row, text("new"), NULL), 0);
    assert_size(tr, &row, 4);
    assert_int_equal(keel_vector_erase_at(tr, &v, (int64_t[]){1}, 1), 0);
    assert_int_equal(count_rows(tr, &v), 7);
    assert_int_equal(keel_vector_erase_at(tr, &v, (int64_t[]){2, 3}, 2), 0);
    assert_size(tr, &row, 3);
    assert_int_equal(keel_vector_truncate(tr, &v, 1), 0);
    memset(&page, 0, sizeof page);
    assert_int_equal(keel_vector_scan_at(tr, &v, NULL, 0, append_at, &page), 0);
    assert_string_equal(page.text, "0,0,=22 0,1,=01 0,2,=02 ");
    assert_int_equal(keel_vector_pop(tr, &v, text(""), &value, &length), KEEL_ERROR_STORED_FORMAT);
    assert_int_equal(count_rows(tr, &v), 3);
    commit(tr);
}

static void test_bad_input(void **state) {
    (void)state;
    keel_subspace v = named("bad");
    static uint8_t large[100001];
    keel_bytes too_large = KEEL_BYTES(large, sizeof large);
    uint8_t *value = (uint8_t *)"untouched";
    size_t length = 7;
    struct page page = {"", 0};
    FDBTransaction *tr = begin();
    keel_vector_push(tr, &v, text("a"), NULL);
    assert_refused(tr, keel_vector_set(tr, &v, -1, text("x")), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_set(tr, &v, INT64_MAX, text("x")), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_set(tr, &v, 1, too_large), VALUE_TOO_LARGE);
    assert_refused(tr, keel_vector_push(tr, &v, too_large, NULL), VALUE_TOO_LARGE);
    assert_refused(tr, keel_vector_get(tr, &v, -1, &value, &length), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_erase(tr, &v, -1), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_swap(tr, &v, 0, -1), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_swap(tr, &v, -1, 0), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_truncate(tr, &v, -1), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_resize(tr, &v, -1, text("")), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_resize(tr, &v, 5, too_large), VALUE_TOO_LARGE);
    assert_refused(tr, keel_vector_pop(tr, &v, too_large, &value, &length), VALUE_TOO_LARGE);
    assert_refused(tr, keel_vector_scan(tr, &v, -1, 5, NULL, append, &page),
                   KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_scan(tr, &v, 5, 4, NULL, append, &page), KEEL_ERROR_INDEX_RANGE);
    assert_refused(tr, keel_vector_scan(tr, &v, 0, 4, NULL, NULL, &page), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_vector_set(tr, NULL, 0, text("x")), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_vector_set(tr, &v, 0, KEEL_BYTES(NULL, 3)), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_vector_set_at(tr, &v, NULL, 0, text("x")), KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_vector_set_at(tr, &v, (int64_t[33]){0}, 33, text("x")),
                   KEEL_ERROR_ARGUMENT);
    assert_refused(tr, keel_vector_set_at(tr, &v, (int64_t[]){1, -1}, 2, text("x")),
                   KEEL_ERROR_INDEX_RANGE);
    assert_int_equal(keel_vector_set(NULL, &v, 0, text("x")), KEEL_ERROR_ARGUMENT);
    assert_string_equal((char *)value, "untouched");
    assert_int_equal(length, 7);
    /* The last index there can be: nothing fits behind it. */
    assert_int_equal(keel_vector_set(tr, &v, KEEL_VECTOR_INDEX_MAX, text("last")), 0);
    assert_size(tr, &v, INT64_MAX);
    int64_t index = 5;
    assert_int_equal(keel_vector_push(tr, &v, text("x"), &index), KEEL_ERROR_INDEX_RANGE);
    assert_int_equal(index, 5);
    assert_pop(tr, &v, "last");
    assert_size(tr, &v, KEEL_VECTOR_INDEX_MAX);
    fdb_transaction_destroy(tr);
}

/* Keys that are no vector's are reported, never misread; negative indexes are not seen. */
static void test_foreign_keys(void **state) {
    (void)state;
    keel_subspace v = named("foreign");
    uint8_t key[100];
    size_t length;
    FDBTransaction *tr = begin();
    assert_int_equal(keel_subspace_pack(&v, KEEL_TUPLE(-5), key, sizeof key, &length), 0);
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"x", 1);
    assert_size(tr, &v, 0);
    assert_pop(tr, &v, NULL);
    assert_int_equal(keel_subspace_pack(&v, KEEL_TUPLE(2.5), key, sizeof key, &length), 0);
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"x", 1);
    int64_t size = 77;
    assert_int_equal(keel_vector_size(tr, &v, &size), KEEL_ERROR_STORED_FORMAT);
    assert_int_equal(keel_vector_push(tr, &v, text("x"), NULL), KEEL_ERROR_STORED_FORMAT);
    assert_int_equal(size, 77);
    fdb_transaction_destroy(tr);
}

static void test_conflicts(void **state) {
    (void)state;
    keel_subspace v = named("conflicts");
    FDBTransaction *tr = begin();
    for (int i = 0; i < 4; i++)
        keel_vector_push(tr, &v, text("x"), NULL);
    commit(tr);
    FDBTransaction *a = begin(), *b = begin(); /* different elements: both commit */
    assert_element(a, &v, 0, "x");
    assert_element(b, &v, 1, "x");
    keel_vector_set(a, &v, 1, text("a"));
    keel_vector_set(b, &v, 2, text("b"));
    commit(b);
    commit(a);
    a = begin(), b = begin(); /* two pushes: one has to try again */
    assert_int_equal(keel_vector_push(a, &v, text("a"), NULL), 0);
    assert_int_equal(keel_vector_push(b, &v, text("b"), NULL), 0);
    commit(b);
    assert_int_equal(try_commit(a), 1020);
}

/* ---- Threads: pushes and pops; each value goes in and comes out once ---- */

enum { THREADS = 8, EACH = 40 };
struct shared {
    keel_subspace vector;
    int popped[THREADS * EACH];
};
struct job {
    struct shared *shared;
    char text[16];
    int got;
};

static fdb_error_t push_one(FDBTransaction *tr, void *context) {
    struct job *job = context;
    return keel_vector_push(tr, &job->shared->vector, text(job->text), NULL);
}

static fdb_error_t pop_one(FDBTransaction *tr, void *context) {
    struct job *job = context;
    uint8_t *value = NULL;
    size_t length;
    fdb_error_t error =
        keel_vector_pop(tr, &job->shared->vector, KEEL_BYTES(NULL, 0), &value, &length);
    if (!error)
        job->got = value ? atoi((char *)value) : -1;
    free(value);
    return error;
}

static fdb_error_t push_and_pop(int number, void *context) {
    struct shared *shared = context;
    for (int i = 0; i < EACH; i++) {
        struct job job = {shared, "", -1};
        snprintf(job.text, sizeof job.text, "%d", number * EACH + i);
        fdb_error_t error = keel_run(keel_fdb(fixture_db), push_one, &job);
        if (!error && i % 2)
            error = keel_run(keel_fdb(fixture_db), pop_one, &job);
        if (error)
            return error;
        if (job.got >= 0)
            __atomic_fetch_add(&shared->popped[job.got], 1, __ATOMIC_RELAXED);
    }
    return 0;
}

static void test_threads(void **state) {
    (void)state;
    static struct shared shared;
    shared.vector = named("threads");
    in_threads(THREADS, push_and_pop, &shared);
    FDBTransaction *tr = begin();
    assert_size(tr, &shared.vector, THREADS * EACH / 2);
    assert_int_equal(count_rows(tr, &shared.vector), THREADS * EACH / 2); /* no hole */
    for (;;) {
        struct job job = {&shared, "", -1};
        assert_int_equal(pop_one(tr, &job), 0);
        if (job.got < 0)
            break;
        shared.popped[job.got]++;
    }
    for (int i = 0; i < THREADS * EACH; i++)
        assert_int_equal(shared.popped[i], 1);
    commit(tr);
}

/* Random swaps in threads keep a permutation a permutation. */
static fdb_error_t swap_two(FDBTransaction *tr, void *context) {
    int64_t *pair = context;
    keel_subspace v = named("permutation");
    return keel_vector_swap(tr, &v, pair[0], pair[1]);
}

static fdb_error_t swap_many(int number, void *context) {
    (void)context;
    uint64_t random = (uint64_t)number + 1;
    fdb_error_t error = 0;
    for (int i = 0; i < 50 && !error; i++) {
        int64_t pair[2] = {draw(&random) % 20, draw(&random) % 20};
        error = keel_run(keel_fdb(fixture_db), swap_two, pair);
    }
    return error;
}

static fdb_error_t mark(void *context, int64_t index, keel_bytes value) {
    (void)index;
    ((int *)context)[value.data[0]]++;
    return 0;
}

static void test_swaps_in_threads(void **state) {
    (void)state;
    keel_subspace v = named("permutation");
    int seen[20] = {0};
    FDBTransaction *tr = begin();
    for (uint8_t i = 0; i < 20; i++)
        keel_vector_set(tr, &v, i, KEEL_BYTES(&i, 1));
    commit(tr);
    in_threads(THREADS, swap_many, NULL);
    tr = begin();
    assert_int_equal(keel_vector_scan(tr, &v, 0, KEEL_VECTOR_END, NULL, mark, seen), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(seen[i], 1);
    fdb_transaction_destroy(tr);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_pop),
        cmocka_unit_test(test_swap),
        cmocka_unit_test(test_truncate_and_resize),
        cmocka_unit_test(test_scan_many),
        cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_foreign_keys),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_swaps_in_threads),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
