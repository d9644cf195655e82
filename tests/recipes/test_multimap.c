/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multimaps of all four kinds (counted or not, with totals or not): every operation beside a naive
 * array, who conflicts with whom, and, with many threads, that no count is lost.
 */
#include <keel/multimap.h>

#include "testing.h"

static keel_multimap map_of(unsigned flags) {
    return (keel_multimap){testing_subspace("map"), flags, testing_subspace("totals")};
}

static char seen[500];

static fdb_error_t note(const keel_element *element, int64_t count, void *context) {
    char printed[50];
    size_t length;
    (void)context;
    ok(keel_element_print(element, printed, sizeof printed, &length));
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s*%d ", printed, (int)count);
    return 0;
}

static const char *values_of(FDBTransaction *tr, const keel_multimap *map, const char *key) {
    seen[0] = 0;
    ok(keel_multimap_get(tr, map, KEEL_ELEMENT(key), note, NULL));
    return seen;
}

static fdb_error_t add(FDBTransaction *tr, const keel_multimap *map, const char *key,
                       const char *value) {
    return keel_multimap_add(tr, map, KEEL_ELEMENT(key), KEEL_ELEMENT(value), 1);
}

static fdb_error_t take(FDBTransaction *tr, const keel_multimap *map, const char *key,
                        const char *value, bool *removed) {
    return keel_multimap_remove(tr, map, KEEL_ELEMENT(key), KEEL_ELEMENT(value), removed);
}

static int64_t total_of(FDBTransaction *tr, const keel_multimap *map, const char *key) {
    int64_t total = -1;
    ok(keel_multimap_total(tr, map, KEEL_ELEMENT(key), false, &total));
    return total;
}

/* ---- Each kind ---- */

static void sets_of_values(void **state) {
    keel_multimap map = map_of(*(const unsigned *)*state & KEEL_MULTIMAP_TOTALS);
    FDBTransaction *tr = testing_begin();
    bool there = false;
    ok(add(tr, &map, "ann", "maths"));
    ok(add(tr, &map, "ann", "art"));
    ok(add(tr, &map, "ann", "art"));
    ok(add(tr, &map, "bob", "art"));
    ok(keel_multimap_add(tr, &map, KEEL_TEXT("ann\0x", 5), KEEL_ELEMENT("z"), 1));
    assert_string_equal(values_of(tr, &map, "ann"), "\"art\"*1 \"maths\"*1 ");
    assert_string_equal(values_of(tr, &map, "carl"), "");
    assert_int_equal(total_of(tr, &map, "ann"), 2);
    assert_int_equal(total_of(tr, &map, "carl"), 0);
    ok(keel_multimap_contains(tr, &map, KEEL_ELEMENT("ann"), KEEL_ELEMENT("art"), &there));
    assert_true(there);
    ok(take(tr, &map, "ann", "art", &there));
    assert_true(there);
    ok(take(tr, &map, "ann", "art", &there));
    assert_false(there);
    ok(take(tr, &map, "ann", "art", NULL));
    ok(keel_multimap_contains(tr, &map, KEEL_ELEMENT("ann"), KEEL_ELEMENT("art"), &there));
    assert_false(there);
    assert_int_equal(total_of(tr, &map, "ann"), 1);
    ok(keel_multimap_remove_key(tr, &map, KEEL_ELEMENT("ann")));
    assert_int_equal(total_of(tr, &map, "ann"), 0);
    seen[0] = 0;
    ok(keel_multimap_keys(tr, &map, note, NULL));
    assert_string_equal(seen, "\"ann\\x00x\"*1 \"bob\"*1 ");
    testing_commit(tr);
    assert_int_equal(testing_rows(&map.subspace), 2);
}

static void bags_of_values(void **state) {
    keel_multimap map = map_of(KEEL_MULTIMAP_COUNTED | *(const unsigned *)*state);
    FDBTransaction *tr = testing_begin();
    int64_t count = -1;
    bool removed = false;
    ok(add(tr, &map, "ann", "tea"));
    ok(add(tr, &map, "ann", "tea"));
    ok(keel_multimap_add(tr, &map, KEEL_ELEMENT("ann"), KEEL_ELEMENT("milk"), 5));
    assert_string_equal(values_of(tr, &map, "ann"), "\"milk\"*5 \"tea\"*2 ");
    assert_int_equal(total_of(tr, &map, "ann"), 7);
    ok(take(tr, &map, "ann", "tea", &removed));
    assert_true(removed);
    ok(keel_multimap_count(tr, &map, KEEL_ELEMENT("ann"), KEEL_ELEMENT("tea"), &count));
    assert_int_equal(count, 1);
    ok(take(tr, &map, "ann", "tea", NULL));
    ok(take(tr, &map, "ann", "tea", &removed));
    assert_false(removed);
    ok(keel_multimap_subtract(tr, &map, KEEL_ELEMENT("ann"), KEEL_ELEMENT("milk"), 2));
    assert_string_equal(values_of(tr, &map, "ann"), "\"milk\"*3 ");
    ok(keel_multimap_subtract(tr, &map, KEEL_ELEMENT("ann"), KEEL_ELEMENT("milk"), 3));
    assert_int_equal(total_of(tr, &map, "ann"), 0);
    testing_commit(tr);
    assert_int_equal(testing_rows(&map.subspace), 0); /* what reaches zero leaves nothing */
    assert_int_equal(testing_rows(&map.totals), 0);
    tr = testing_begin(); /* below zero is not there, and swallows */
    ok(keel_multimap_subtract(tr, &map, KEEL_ELEMENT("ann"), KEEL_ELEMENT("tea"), 1));
    ok(add(tr, &map, "zoe", "tea"));
    assert_string_equal(values_of(tr, &map, "ann"), "");
    seen[0] = 0;
    ok(keel_multimap_keys(tr, &map, note, NULL));
    assert_string_equal(seen, "\"zoe\"*1 ");
    ok(take(tr, &map, "ann", "tea", &removed));
    assert_false(removed);
    ok(add(tr, &map, "ann", "tea"));
    assert_string_equal(values_of(tr, &map, "ann"), "");
    ok(add(tr, &map, "ann", "tea"));
    assert_string_equal(values_of(tr, &map, "ann"), "\"tea\"*1 ");
    testing_commit(tr);
}

static void bad_input_changes_nothing(void **state) {
    keel_multimap map = map_of(*(const unsigned *)*state);
    bool counted = map.flags & KEEL_MULTIMAP_COUNTED;
    static uint8_t big[10000];
    keel_element key = KEEL_ELEMENT("ann"), large = KEEL_ELEMENT(KEEL_BYTES(big, sizeof big));
    int64_t count = 7;
    bool answer = true;
    FDBTransaction *tr = testing_begin();
    ok(add(tr, &map, "ann", "tea"));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_multimap_add(tr, &map, key, key, 0));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_multimap_add(tr, &map, key, key, -1));
    if (!counted) {
        refused(tr, KEEL_ERROR_ARGUMENT, keel_multimap_add(tr, &map, key, key, 2));
        refused(tr, KEEL_ERROR_ARGUMENT, keel_multimap_subtract(tr, &map, key, key, 1));
    }
    refused(tr, KEEL_ERROR_ARGUMENT, keel_multimap_subtract(tr, &map, key, key, 0));
    refused(tr, 2102, keel_multimap_add(tr, &map, key, large, 1));
    refused(tr, 2102, keel_multimap_add(tr, &map, large, key, 1));
    refused(tr, 2102, keel_multimap_remove(tr, &map, key, large, &answer));
    refused(tr, 2102, keel_multimap_remove_key(tr, &map, large));
    refused(tr, 2102, keel_multimap_count(tr, &map, key, large, &count));
    refused(tr, KEEL_ERROR_NOT_UTF8,
            keel_multimap_add(tr, &map, key, KEEL_ELEMENT("\xc0"), 1));
    refused(tr, KEEL_ERROR_INCOMPLETE_VERSIONSTAMP,
            keel_multimap_add(tr, &map, key, KEEL_INCOMPLETE(1), 1));
    assert_int_equal(count, 7);
    assert_true(answer);
    fdb_transaction_destroy(tr);
}

static void foreign_keys_are_reported(void **state) {
    (void)state;
    keel_multimap map = map_of(KEEL_MULTIMAP_COUNTED);
    uint8_t key[600];
    size_t length;
    int64_t count;
    FDBTransaction *tr = testing_begin();
    ok(keel_subspace_pack(&map.subspace, KEEL_TUPLE("a", 1, 2), key, sizeof key, &length));
    fdb_transaction_set(tr, key, (int)length, NULL, 0);
    refused(tr, KEEL_ERROR_STORED_FORMAT,
            keel_multimap_get(tr, &map, KEEL_ELEMENT("a"), note, NULL));
    ok(keel_subspace_pack(&map.subspace, KEEL_TUPLE("b", 1), key, sizeof key, &length));
    fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"nine bytes", 10);
    refused(tr, KEEL_ERROR_STORED_FORMAT,
            keel_multimap_count(tr, &map, KEEL_ELEMENT("b"), KEEL_ELEMENT(1), &count));
    fdb_transaction_destroy(tr);
}

/* ---- Conflicts ---- */

static void adding_does_not_conflict(void **state) {
    keel_multimap map = map_of(*(const unsigned *)*state);
    FDBTransaction *one = testing_begin(), *other = testing_begin();
    ok(add(one, &map, "ann", "tea"));
    ok(add(other, &map, "ann", "tea"));
    testing_commit(one);
    assert_int_equal(testing_try_commit(other), map.flags == KEEL_MULTIMAP_TOTALS ? 1020 : 0);
    one = testing_begin();
    assert_int_equal(total_of(one, &map, "ann"), map.flags & KEEL_MULTIMAP_COUNTED ? 2 : 1);
    fdb_transaction_destroy(one);
}

static void the_last_one_is_removed_once(void **state) {
    keel_multimap map = map_of(*(const unsigned *)*state);
    FDBTransaction *tr = testing_begin();
    ok(add(tr, &map, "ann", "tea"));
    testing_commit(tr);
    FDBTransaction *one = testing_begin(), *other = testing_begin();
    bool removed = false;
    ok(take(one, &map, "ann", "tea", &removed));
    assert_true(removed);
    ok(take(other, &map, "ann", "tea", &removed));
    testing_commit(one);
    assert_int_equal(testing_try_commit(other), 1020);
}

/* ---- Random operations beside an array ---- */

enum { KEYS = 4, VALUES = 5 };

static void random_operations(void **state) {
    keel_multimap map = map_of(*(const unsigned *)*state);
    bool counted = map.flags & KEEL_MULTIMAP_COUNTED;
    int64_t array[KEYS][VALUES] = {{0}};
    uint64_t seed = 9;
    for (int i = 0; i < 1500; i++) {
        int key = (int)(testing_random(&seed) % KEYS);
        int value = (int)(testing_random(&seed) % VALUES);
        keel_element k = KEEL_ELEMENT(key), v = KEEL_ELEMENT(value);
        int64_t *cell = &array[key][value], count, total = 0;
        bool removed = false;
        FDBTransaction *tr = testing_begin();
        switch (testing_random(&seed) % 8) {
        case 0:
            ok(keel_multimap_remove_key(tr, &map, k));
            memset(array[key], 0, sizeof array[key]);
            break;
        case 1:
        case 2:
            ok(keel_multimap_remove(tr, &map, k, v, &removed));
            assert_int_equal(removed, *cell > 0);
            *cell -= *cell > 0;
            break;
        default:
            ok(keel_multimap_add(tr, &map, k, v, 1));
            *cell = counted ? *cell + 1 : 1;
        }
        ok(keel_multimap_count(tr, &map, k, v, &count));
        assert_int_equal(count, *cell);
        for (int at = 0; at < VALUES; at++)
            total += array[key][at];
        ok(keel_multimap_total(tr, &map, k, true, &count));
        assert_int_equal(count, total);
        testing_commit(tr);
    }
}

/* ---- Many threads ---- */

enum { THREADS = 8, LOW = 3 };
static keel_multimap shared;
static int64_t added[THREADS][LOW], taken[THREADS][LOW];

struct step {
    int value;
    bool take, removed;
};

static fdb_error_t run_step(FDBTransaction *tr, void *context) {
    struct step *step = context;
    keel_element key = KEEL_ELEMENT("k"), value = KEEL_ELEMENT(step->value);
    step->removed = false;
    if (step->take)
        return keel_multimap_remove(tr, &shared, key, value, &step->removed);
    return keel_multimap_add(tr, &shared, key, value, 1);
}

static void *run_steps(void *number) {
    intptr_t me = (intptr_t)number;
    uint64_t seed = (uint64_t)me + 1;
    for (int i = 0, rounds = testing_rounds(200); i < rounds; i++) {
        struct step step = {.value = (int)(testing_random(&seed) % LOW),
                            .take = testing_random(&seed) % 3 == 0};
        fdb_error_t error = keel_run(testing_database(), run_step, &step);
        if (error)
            fprintf(stderr, "multimap: %s (%d)\n", keel_error_text(error), error), abort();
        added[me][step.value] += !step.take;
        taken[me][step.value] += step.removed;
    }
    return NULL;
}

static void no_count_is_lost(void **state) {
    (void)state;
    shared = map_of(KEEL_MULTIMAP_COUNTED | KEEL_MULTIMAP_TOTALS);
    testing_threads(THREADS, run_steps);
    FDBTransaction *tr = testing_begin();
    int64_t total = 0;
    for (int value = 0; value < LOW; value++) {
        int64_t expected = 0, count;
        for (int thread = 0; thread < THREADS; thread++)
            expected += added[thread][value] - taken[thread][value];
        ok(keel_multimap_count(tr, &shared, KEEL_ELEMENT("k"), KEEL_ELEMENT(value), &count));
        assert_int_equal(count, expected);
        total += expected;
    }
    assert_int_equal(total_of(tr, &shared, "k"), total);
    fdb_transaction_destroy(tr);
}

static unsigned kinds[] = {0, KEEL_MULTIMAP_COUNTED, KEEL_MULTIMAP_TOTALS,
                           KEEL_MULTIMAP_COUNTED | KEEL_MULTIMAP_TOTALS};
#define each(test)                                                                                 \
    cmocka_unit_test_prestate(test, &kinds[0]), cmocka_unit_test_prestate(test, &kinds[1]),        \
        cmocka_unit_test_prestate(test, &kinds[2]), cmocka_unit_test_prestate(test, &kinds[3])

int main(void) {
    const struct CMUnitTest tests[] = {
        each(sets_of_values),
        each(bags_of_values),
        each(bad_input_changes_nothing),
        each(adding_does_not_conflict),
        each(the_last_one_is_removed_once),
        each(random_operations),
        cmocka_unit_test(foreign_keys_are_reported),
        cmocka_unit_test(no_count_is_lost),
    };
    return cmocka_run_group_tests_name("multimap", tests, testing_open, testing_close);
}
