/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The priority queue: order at both ends and inside a priority, edges, bad input, conflicts, random
 * operations beside a naive model, and many threads.
 *
 *     KEEL_SEED=N KEEL_ROUNDS=N test_pqueue
 */
#define _GNU_SOURCE
#include <keel/pqueue.h>

#include "queues.h"

typedef fdb_error_t (*getter)(FDBTransaction *tr, const keel_subspace *pqueue, int64_t *priority,
                              uint8_t **value, size_t *length);

static void push(const keel_subspace *pqueue, int64_t priority, const char *string) {
    FDBTransaction *tr = begin();
    ok(keel_pqueue_push(tr, pqueue, priority, text(string)));
    ok(commit(tr));
}

/* In a given transaction. NULL: nothing is there. */
static void expect_in(FDBTransaction *tr, getter get, const keel_subspace *pqueue,
                      int64_t wanted_priority, const char *string) {
    int64_t priority = -77;
    uint8_t *value;
    size_t length;
    ok(get(tr, pqueue, &priority, &value, &length));
    if (!string) {
        assert_null(value);
        assert_int_equal(priority, -77);
        return;
    }
    assert_non_null(value);
    assert_int_equal(length, strlen(string));
    assert_memory_equal(value, string, length);
    assert_int_equal(priority, wanted_priority);
    free(value);
}

static void expect(getter get, const keel_subspace *pqueue, int64_t priority, const char *string) {
    FDBTransaction *tr = begin();
    expect_in(tr, get, pqueue, priority, string);
    ok(commit(tr));
}

static int64_t size_now(const keel_subspace *pqueue) {
    FDBTransaction *tr = begin();
    int64_t size = -1;
    ok(keel_pqueue_size(tr, pqueue, &size));
    fdb_transaction_destroy(tr);
    return size;
}

static void test_order(void **state) {
    (void)state;
    keel_subspace pqueue = subspace_of("order");
    expect(keel_pqueue_pop_min, &pqueue, 0, NULL);
    expect(keel_pqueue_pop_max, &pqueue, 0, NULL);
    expect(keel_pqueue_peek_last, &pqueue, 0, NULL);
    push(&pqueue, 5, "five a");
    push(&pqueue, -3, "minus three");
    push(&pqueue, 5, "five b");
    push(&pqueue, INT64_MIN, "least");
    push(&pqueue, INT64_MAX, "most");
    push(&pqueue, 5, "five c");
    push(&pqueue, 0, "");
    assert_int_equal(size_now(&pqueue), 7);
    expect(keel_pqueue_peek_min, &pqueue, INT64_MIN, "least");
    expect(keel_pqueue_pop_min, &pqueue, INT64_MIN, "least");
    expect(keel_pqueue_pop_min, &pqueue, -3, "minus three");
    expect(keel_pqueue_pop_min, &pqueue, 0, "");
    expect(keel_pqueue_peek_max, &pqueue, INT64_MAX, "most");
    expect(keel_pqueue_pop_max, &pqueue, INT64_MAX, "most");
    expect(keel_pqueue_pop_max, &pqueue, 5, "five a"); /* the oldest of them */
    expect(keel_pqueue_peek_last, &pqueue, 5, "five c");
    expect(keel_pqueue_pop_last, &pqueue, 5, "five c"); /* the newest */
    expect(keel_pqueue_pop_min, &pqueue, 5, "five b");
    expect(keel_pqueue_pop_max, &pqueue, 0, NULL);
}

static void test_one_transaction(void **state) {
    (void)state;
    keel_subspace pqueue = subspace_of("one");
    FDBTransaction *tr = begin();
    bool empty;
    ok(keel_pqueue_push(tr, &pqueue, 1, text("a")));
    ok(keel_pqueue_push(tr, &pqueue, 1, text("b")));
    ok(keel_pqueue_push(tr, &pqueue, 0, text("c")));
    expect_in(tr, keel_pqueue_pop_min, &pqueue, 0, "c");
    expect_in(tr, keel_pqueue_pop_max, &pqueue, 1, "a");
    ok(keel_pqueue_empty(tr, &pqueue, &empty));
    assert_false(empty);
    ok(keel_pqueue_clear(tr, &pqueue));
    ok(keel_pqueue_empty(tr, &pqueue, &empty));
    assert_true(empty);
    ok(commit(tr));
}

/* Priorities of any type, in the order of tuples. */
static void test_elements(void **state) {
    (void)state;
    keel_subspace pqueue = subspace_of("elements");
    FDBTransaction *tr = begin();
    int64_t priority = 0;
    uint8_t *value;
    size_t length;
    ok(keel_pqueue_push_element(tr, &pqueue, KEEL_ELEMENT(2.5), text("double")));
    ok(keel_pqueue_push_element(tr, &pqueue, KEEL_ELEMENT("b"), text("string")));
    ok(keel_pqueue_push_element(tr, &pqueue, KEEL_ELEMENT("b"), text("string again")));
    ok(keel_pqueue_push_element(tr, &pqueue, KEEL_TEXT("b\0c", 3), text("longer string")));
    static const char *wanted[] = {"string", "string again", "longer string", "double"};
    assert_int_equal(keel_pqueue_pop_min(tr, &pqueue, &priority, &value, &length),
                     KEEL_ERROR_TUPLE_TYPE);
    for (int i = 0; i < 3; i++) {
        ok(keel_pqueue_pop_min(tr, &pqueue, NULL, &value, &length));
        assert_int_equal(length, strlen(wanted[i]));
        assert_memory_equal(value, wanted[i], length);
        free(value);
    }
    ok(keel_pqueue_pop_max(tr, &pqueue, NULL, &value, &length));
    assert_memory_equal(value, "double", 6);
    free(value);
    fdb_transaction_destroy(tr);
}

static void test_bad_input(void **state) {
    (void)state;
    keel_subspace pqueue = subspace_of("bad");
    static uint8_t large[100001];
    FDBTransaction *tr = begin();
    int64_t before = size_of(tr);
    assert_int_equal(keel_pqueue_push(tr, &pqueue, 1, KEEL_BYTES(large, sizeof large)), 2103);
    assert_int_equal(keel_pqueue_push(tr, &pqueue, 1, KEEL_BYTES(NULL, 1)), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_pqueue_push(tr, NULL, 1, KEEL_BYTES("a", 1)), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_pqueue_push_element(tr, &pqueue, KEEL_INCOMPLETE(0), text("x")),
                     KEEL_ERROR_INCOMPLETE_VERSIONSTAMP);
    assert_int_equal(keel_pqueue_push_element(tr, &pqueue, KEEL_TEXT("\xff", 1), text("x")),
                     KEEL_ERROR_NOT_UTF8);
    keel_element long_priority = keel_element_of_bytes(KEEL_BYTES(large + 1, 6000));
    assert_int_equal(keel_pqueue_push_element(tr, &pqueue, long_priority, text("x")), 2102);
    assert_int_equal(size_of(tr), before);
    fdb_transaction_destroy(tr);
}

static void test_conflicts(void **state) {
    (void)state;
    keel_subspace pqueue = subspace_of("conflicts");
    push(&pqueue, 1, "a");
    push(&pqueue, 9, "z");
    FDBTransaction *min = begin(), *max = begin(), *again = begin(), *other = begin();
    expect_in(min, keel_pqueue_pop_min, &pqueue, 1, "a");
    expect_in(again, keel_pqueue_pop_min, &pqueue, 1, "a");
    expect_in(max, keel_pqueue_pop_max, &pqueue, 9, "z");
    ok(keel_pqueue_push(other, &pqueue, 1, text("behind a")));
    ok(keel_pqueue_push(other, &pqueue, 9, text("behind z")));
    ok(commit(other));
    ok(commit(min));
    ok(commit(max)); /* a push of its own priority does not disturb it */
    assert_int_equal(commit(again), 1020);
    max = begin();
    expect_in(max, keel_pqueue_pop_max, &pqueue, 9, "behind z");
    push(&pqueue, 10, "larger");
    assert_int_equal(commit(max), 1020);
    max = begin(), min = begin();
    expect_in(max, keel_pqueue_pop_max, &pqueue, 10, "larger");
    expect_in(min, keel_pqueue_pop_min, &pqueue, 1, "behind a");
    push(&pqueue, 0, "smaller");
    ok(commit(max));
    assert_int_equal(commit(min), 1020);
    keel_subspace none = subspace_of("conflicts empty");
    max = begin();
    expect_in(max, keel_pqueue_pop_max, &none, 0, NULL);
    ok(keel_pqueue_push(max, &pqueue, 0, text("because it was empty")));
    push(&none, 1, "x");
    assert_int_equal(commit(max), 1020);
}

/* ---- Beside a model ---- */

enum { MODEL_MAX = 4000 };
static struct {
    int64_t priority;
    int number;
} model[MODEL_MAX];
static int model_count;

/* The oldest of the smallest (direction 1) or largest (-1) priority; the newest if `newest`. */
static int model_find(int direction, bool newest) {
    int best = -1;
    for (int i = 0; i < model_count; i++)
        if (best < 0 || model[i].priority * direction < model[best].priority * direction ||
            (newest && model[i].priority == model[best].priority))
            best = i;
    return best;
}

static void model_step(const keel_subspace *pqueue, unsigned random, int number) {
    static const getter getters[] = {keel_pqueue_pop_min,   keel_pqueue_pop_max,
                                     keel_pqueue_pop_last,  keel_pqueue_peek_min,
                                     keel_pqueue_peek_max,  keel_pqueue_peek_last};
    unsigned choice = random % 11;
    char name[32];
    if (choice >= 6) {
        model[model_count].priority = (int64_t)(random >> 8) % 7 - 3;
        model[model_count].number = number;
        snprintf(name, sizeof name, "%d", number);
        push(pqueue, model[model_count++].priority, name);
        return;
    }
    int i = model_find(choice % 3 == 0 ? 1 : -1, choice % 3 == 2);
    if (i < 0) {
        expect(getters[choice], pqueue, 0, NULL);
        return;
    }
    snprintf(name, sizeof name, "%d", model[i].number);
    expect(getters[choice], pqueue, model[i].priority, name);
    if (choice < 3) {
        memmove(&model[i], &model[i + 1], (size_t)(--model_count - i) * sizeof *model);
    }
}

static void test_model(void **state) {
    (void)state;
    keel_subspace pqueue = subspace_of("model");
    const char *seed_text = getenv("KEEL_SEED"), *rounds_text = getenv("KEEL_ROUNDS");
    unsigned seed = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : 1;
    int rounds = rounds_text ? atoi(rounds_text) : 2000;
    if (rounds > MODEL_MAX)
        rounds = MODEL_MAX;
    printf("KEEL_SEED=%u KEEL_ROUNDS=%d\n", seed, rounds);
    for (int i = 0; i < rounds; i++)
        model_step(&pqueue, (unsigned)rand_r(&seed) >> 3, i);
    assert_int_equal(size_now(&pqueue), model_count);
}

/* ---- Many at once ---- */

enum { THREADS = 12, EACH = 50, ITEMS = THREADS * EACH };
static keel_subspace shared;
static atomic_int taken[ITEMS], wrong;

static fdb_error_t push_number(FDBTransaction *tr, void *context) {
    int number = *(int *)context;
    return keel_pqueue_push(tr, &shared, number % 5, KEEL_BYTES(&number, sizeof number));
}

struct popped {
    getter get;
    int64_t priority;
    uint8_t *value;
    size_t length;
};

static fdb_error_t pop_one(FDBTransaction *tr, void *context) {
    struct popped *popped = context;
    free(popped->value);
    popped->value = NULL;
    return popped->get(tr, &shared, &popped->priority, &popped->value, &popped->length);
}

/* Each pushes and pops in turn, half of them at either end. */
static void *push_and_pop(void *context) {
    int thread = (int)(intptr_t)context;
    for (int i = 0; i < EACH; i++) {
        int number = thread * EACH + i;
        must(keel_run(keel_fdb(db), push_number, &number), "push");
        struct popped popped = {thread % 2 ? keel_pqueue_pop_min : keel_pqueue_pop_max, 0, NULL, 0};
        must(keel_run(keel_fdb(db), pop_one, &popped), "pop");
        if (!popped.value) {
            atomic_fetch_add(&wrong, 1); /* whoever pops has pushed before: never empty */
            continue;
        }
        memcpy(&number, popped.value, sizeof number);
        atomic_fetch_add(&taken[number], 1);
        if (popped.priority != number % 5)
            atomic_fetch_add(&wrong, 1);
        free(popped.value);
    }
    return NULL;
}

static void test_many(void **state) {
    (void)state;
    shared = subspace_of("shared");
    run_threads(THREADS, push_and_pop);
    assert_int_equal(wrong, 0);
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(taken[i], 1);
    assert_int_equal(size_now(&shared), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),    cmocka_unit_test(test_one_transaction),
        cmocka_unit_test(test_elements), cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_conflicts), cmocka_unit_test(test_model),
    };
    const struct CMUnitTest crowded[] = {cmocka_unit_test(test_many)};
    int failures = cmocka_run_group_tests(tests, open_database, close_database);
    return failures + cmocka_run_group_tests(crowded, open_on_disk, close_on_disk);
}
