/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watches: what triggers which, against a naive array, and under threads that add, remove and
 * trigger at once, where each watch must end exactly once.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/watches.h"
#include "util/memory.h"

static uint64_t environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static unsigned random_below(uint64_t *state, unsigned bound) {
    return (unsigned)(random_next(state) % bound);
}

/* A watch whose end is counted. */
struct probe {
    struct watch watch;
    _Atomic int ends;
    fdb_error_t error;
    bool set; /* the model's view */
};

static void probe_fire(struct watch *watch, fdb_error_t error) {
    struct probe *probe = (struct probe *)watch;
    probe->error = error;
    atomic_fetch_add(&probe->ends, 1);
}

static void probe_init(struct probe *probe, struct bytes key, const char *value) {
    memset(probe, 0, sizeof *probe);
    probe->watch.key = key;
    probe->watch.present = value != NULL;
    if (value)
        probe->watch.value = bytes_make(value, strlen(value));
    probe->watch.fire = probe_fire;
}

static struct watches *create(void) {
    struct watches *watches;
    assert_int_equal(watches_create(&watches), 0);
    return watches;
}

static void destroy_empty(struct watches *watches) {
    struct watch *remaining;
    watches_destroy(watches, &remaining);
    assert_null(remaining);
}

static void test_set(void **state) {
    (void)state;
    struct watches *watches = create();
    struct probe same, other, missing, elsewhere;
    struct bytes key = BYTES_LITERAL("key");
    probe_init(&same, key, "new");
    probe_init(&other, key, "old");
    probe_init(&missing, key, NULL);
    probe_init(&elsewhere, BYTES_LITERAL("key2"), "old");
    watches_add(watches, &same.watch);
    watches_add(watches, &other.watch);
    watches_add(watches, &missing.watch);
    watches_add(watches, &elsewhere.watch);
    assert_int_equal(watches_count(watches), 4);
    struct watch *fired = NULL;
    watches_set(watches, key, BYTES_LITERAL("new"), &fired);
    assert_int_equal(watches_count(watches), 2);
    assert_false(watches_remove(watches, &other.watch));
    assert_int_equal(other.ends + missing.ends, 0);
    watches_fire(fired, 0);
    assert_int_equal(other.ends, 1);
    assert_int_equal(missing.ends, 1);
    assert_int_equal(same.ends, 0);
    assert_int_equal(elsewhere.ends, 0);
    watches_check(watches);
    assert_true(watches_remove(watches, &same.watch));
    assert_false(watches_remove(watches, &same.watch));
    struct watch *remaining;
    watches_destroy(watches, &remaining);
    watches_fire(remaining, ERROR_DATABASE_CLOSED);
    assert_int_equal(elsewhere.ends, 1);
    assert_int_equal(elsewhere.error, ERROR_DATABASE_CLOSED);
    assert_int_equal(same.ends, 0);
}

static void test_clear_range(void **state) {
    (void)state;
    struct watches *watches = create();
    struct probe first, missing, last, behind;
    probe_init(&first, BYTES_LITERAL("b"), "1");
    probe_init(&missing, BYTES_LITERAL("c"), NULL);
    probe_init(&last, BYTES_LITERAL("cz"), "");
    probe_init(&behind, BYTES_LITERAL("d"), "1");
    watches_add(watches, &behind.watch);
    watches_add(watches, &last.watch);
    watches_add(watches, &missing.watch);
    watches_add(watches, &first.watch);
    struct watch *fired = NULL;
    watches_clear_range(watches, BYTES_LITERAL("d"), BYTES_LITERAL("b"), &fired);
    watches_clear_range(watches, BYTES_LITERAL("b"), BYTES_LITERAL("b"), &fired);
    assert_null(fired);
    watches_clear_range(watches, BYTES_LITERAL("b"), BYTES_LITERAL("d"), &fired);
    watches_fire(fired, 0);
    assert_int_equal(first.ends, 1);
    assert_int_equal(missing.ends, 0);
    assert_int_equal(last.ends, 1);
    assert_int_equal(behind.ends, 0);
    watches_check(watches);
    assert_true(watches_remove(watches, &missing.watch));
    assert_true(watches_remove(watches, &behind.watch));
    destroy_empty(watches);
}

static void test_out_of_memory(void **state) {
    (void)state;
    struct watches *watches = NULL;
    memory_fail_after(0);
    fdb_error_t error = watches_create(&watches);
    memory_fail_after(-1);
    assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
    assert_null(watches);
}

/* --- The model --- */

enum { PROBES = 600, KEYS = 40 };
static char model_keys[KEYS][4];
static const char *const model_values[] = {NULL, "", "a", "b"};

static struct bytes model_key(unsigned index) {
    return bytes_make(model_keys[index], strlen(model_keys[index]));
}

static bool believes(const struct probe *probe, const char *value) {
    if (!value)
        return !probe->watch.present;
    return probe->watch.present && bytes_equal(probe->watch.value,
                                               bytes_make(value, strlen(value)));
}

/*
 * Checks that the fired list is exactly what the model expects of a change to keys [first, end),
 * NULL for a clear.
 */
static void expect(struct probe *probes, unsigned first, unsigned end, const char *value,
                   struct watch *fired) {
    watches_fire(fired, 0);
    for (unsigned i = 0; i < PROBES; i++) {
        struct probe *probe = &probes[i];
        bool inside = probe->set && bytes_compare(probe->watch.key, model_key(first)) >= 0 &&
                      bytes_compare(probe->watch.key, model_key(end - 1)) <= 0;
        bool must_fire = inside && !believes(probe, value);
        assert_int_equal(probe->ends, must_fire);
        probe->ends = 0;
        if (must_fire)
            probe->set = false;
    }
}

static void step_change(struct watches *watches, struct probe *probes, uint64_t *seed) {
    struct watch *fired = NULL;
    unsigned first = random_below(seed, KEYS);
    if (random_below(seed, 2)) {
        const char *value = model_values[1 + random_below(seed, 3)];
        watches_set(watches, model_key(first), bytes_make(value, strlen(value)), &fired);
        expect(probes, first, first + 1, value, fired);
        return;
    }
    unsigned end = first + 1 + random_below(seed, 6);
    end = end < KEYS ? end : KEYS - 1;
    if (first >= end)
        return;
    watches_clear_range(watches, model_key(first), model_key(end), &fired);
    expect(probes, first, end, NULL, fired);
}

static void test_model(void **state) {
    (void)state;
    static struct probe probes[PROBES];
    uint64_t seed = environment("KEEL_SEED", 1), rounds = environment("KEEL_ROUNDS", 6000);
    printf("watches model: KEEL_SEED=%llu KEEL_ROUNDS=%llu\n", (unsigned long long)seed,
           (unsigned long long)rounds);
    memset(probes, 0, sizeof probes);
    for (int i = 0; i < KEYS; i++)
        snprintf(model_keys[i], sizeof model_keys[i], "%02d", i);
    struct watches *watches = create();
    for (uint64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < 20; i++) {
            struct probe *probe = &probes[random_below(&seed, PROBES)];
            if (probe->set) {
                assert_true(watches_remove(watches, &probe->watch));
                probe->set = false;
            } else {
                assert_false(watches_remove(watches, &probe->watch));
                probe_init(probe, model_key(random_below(&seed, KEYS)),
                           model_values[random_below(&seed, 4)]);
                watches_add(watches, &probe->watch);
                probe->set = true;
            }
        }
        step_change(watches, probes, &seed);
        watches_check(watches);
    }
    struct watch *remaining;
    watches_destroy(watches, &remaining);
    watches_fire(remaining, 1);
    for (unsigned i = 0; i < PROBES; i++)
        assert_int_equal(probes[i].ends, probes[i].set);
}

/* --- Threads --- */

enum { THREADS = 4, THREAD_PROBES = 200, THREAD_ROUNDS = 40 };

struct worker {
    struct watches *watches;
    uint64_t seed;
    struct probe probes[THREAD_PROBES];
};

/*
 * Adds its own watches and takes every second one back, again and again; triggers everybody's in
 * between.
 */
static void *work(void *argument) {
    struct worker *worker = argument;
    for (int round = 0; round < THREAD_ROUNDS; round++) {
        for (int i = 0; i < THREAD_PROBES; i++) {
            probe_init(&worker->probes[i], model_key(random_below(&worker->seed, KEYS)), "a");
            watches_add(worker->watches, &worker->probes[i].watch);
            if (i % 8 == 0) {
                struct watch *fired = NULL;
                unsigned key = random_below(&worker->seed, KEYS - 2);
                if (i % 16)
                    watches_set(worker->watches, model_key(key), BYTES_LITERAL("b"), &fired);
                else
                    watches_clear_range(worker->watches, model_key(key), model_key(key + 2),
                                        &fired);
                watches_fire(fired, 0);
            }
        }
        for (int i = 0; i < THREAD_PROBES; i++) {
            if (watches_remove(worker->watches, &worker->probes[i].watch))
                atomic_fetch_add(&worker->probes[i].ends, 1);
        }
        /* what could not be taken back is being fired by another thread right now */
        for (int i = 0; i < THREAD_PROBES; i++) {
            while (atomic_load(&worker->probes[i].ends) == 0)
                sched_yield();
            if (atomic_load(&worker->probes[i].ends) != 1)
                return worker;
        }
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct watches *watches = create();
    for (int i = 0; i < KEYS; i++)
        snprintf(model_keys[i], sizeof model_keys[i], "%02d", i);
    for (int i = 0; i < THREADS; i++) {
        workers[i].watches = watches;
        workers[i].seed = environment("KEEL_SEED", 1) + (uint64_t)i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    watches_check(watches);
    destroy_empty(watches);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),   cmocka_unit_test(test_clear_range),
            cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_model), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
