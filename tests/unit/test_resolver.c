/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver against a naive model: an array with the last write version of each of the few
 * hundred keys that a small alphabet makes, in order. Every random test prints its seed; KEEL_SEED
 * and KEEL_ROUNDS choose others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "engine/resolver.h"
#include "util/memory.h"

static uint64_t environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t random_state;

static uint64_t random_next(void) {
    uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static unsigned random_below(unsigned bound) {
    return (unsigned)(random_next() % bound);
}

static struct bytes text(const char *string) {
    return bytes_make(string, strlen(string));
}

static struct key_range range_of(const char *begin, const char *end) {
    return (struct key_range){text(begin), text(end)};
}

static struct resolver *create(void) {
    struct resolver *resolver;
    assert_int_equal(resolver_create(&resolver), 0);
    return resolver;
}

/* --- Examples --- */

static void test_empty(void **state) {
    (void)state;
    struct resolver *resolver = create();
    assert_false(resolver_conflicts(resolver, range_of("", "\xff"), 0));
    assert_int_equal(resolver_add(resolver, range_of("b", "b"), 5), 0);
    assert_int_equal(resolver_add(resolver, range_of("c", "b"), 5), 0);
    assert_false(resolver_conflicts(resolver, range_of("", "\xff"), 0));
    resolver_check(resolver);
    resolver_destroy(resolver);
}

static void test_edges(void **state) {
    (void)state;
    struct resolver *resolver = create();
    assert_int_equal(resolver_add(resolver, range_of("b", "d"), 10), 0);
    assert_true(resolver_conflicts(resolver, range_of("a", "c"), 9));
    assert_false(resolver_conflicts(resolver, range_of("a", "c"), 10));
    assert_false(resolver_conflicts(resolver, range_of("a", "b"), 0));
    assert_true(resolver_conflicts(resolver, range_of("c", "cc"), 9));
    assert_false(resolver_conflicts(resolver, range_of("d", "e"), 0));
    assert_false(resolver_conflicts(resolver, range_of("c", "b"), 0));
    resolver_check(resolver);
    resolver_destroy(resolver);
}

/* A write of one key touches neither its neighbours nor the keys it is a prefix of. */
static void test_point(void **state) {
    (void)state;
    struct resolver *resolver = create();
    struct bytes after = BYTES_LITERAL("k\0"), later = BYTES_LITERAL("k\0\0");
    struct key_range point = {text("k"), after};
    assert_int_equal(resolver_add(resolver, point, 7), 0);
    assert_true(resolver_conflicts(resolver, point, 6));
    assert_false(resolver_conflicts(resolver, (struct key_range){after, later}, 0));
    assert_false(resolver_conflicts(resolver, range_of("j", "k"), 0));
    assert_true(resolver_conflicts(resolver, (struct key_range){text("j"), after}, 6));
    assert_false(resolver_conflicts(resolver, (struct key_range){after, text("z")}, 0));
    assert_int_equal(resolver_add(resolver, (struct key_range){after, later}, 8), 0);
    assert_false(resolver_conflicts(resolver, point, 7));
    assert_true(resolver_conflicts(resolver, (struct key_range){text("k"), later}, 7));
    resolver_check(resolver);
    resolver_destroy(resolver);
}

/* --- The model --- */

enum { ALPHABET = 4, LENGTH_MAX = 4, MODEL_KEYS = 1 + 4 + 16 + 64 + 256, PREFIX_MAX = 64 };

struct model {
    uint8_t prefix[PREFIX_MAX];
    size_t prefix_length;
    struct {
        uint8_t data[PREFIX_MAX + LENGTH_MAX];
        size_t length;
    } keys[MODEL_KEYS];
    int64_t versions[MODEL_KEYS];
};

static struct bytes model_key(const struct model *model, unsigned index) {
    return bytes_make(model->keys[index].data, model->keys[index].length);
}

static int order_of_keys(const void *a, const void *b) {
    const struct model *null = NULL;
    const __typeof__(null->keys[0]) *x = a, *y = b;
    return bytes_compare(bytes_make(x->data, x->length), bytes_make(y->data, y->length));
}

/* All strings of up to LENGTH_MAX letters from {00, 01, 'm', ff}, behind a shared prefix. */
static void model_create(struct model *model, size_t prefix_length) {
    static const uint8_t letters[ALPHABET] = {0, 1, 'm', 0xff};
    memset(model, 0, sizeof *model);
    memset(model->prefix, 'p', prefix_length);
    unsigned count = 0;
    for (size_t length = 0, number = 1; length <= LENGTH_MAX; length++, number *= ALPHABET) {
        for (size_t i = 0; i < number; i++, count++) {
            memcpy(model->keys[count].data, model->prefix, prefix_length);
            size_t rest = i;
            for (size_t at = 0; at < length; at++, rest /= ALPHABET)
                model->keys[count].data[prefix_length + at] = letters[rest % ALPHABET];
            model->keys[count].length = prefix_length + length;
        }
    }
    assert_int_equal(count, MODEL_KEYS);
    qsort(model->keys, MODEL_KEYS, sizeof model->keys[0], order_of_keys);
}

/*
 * A range between two model keys: [first, end). With `point`, one key and the end right behind it,
 * which may be no model key.
 */
struct pick {
    struct key_range range;
    unsigned first, end;
    uint8_t after[PREFIX_MAX + LENGTH_MAX + 1];
};

static void pick_range(const struct model *model, struct pick *pick) {
    pick->first = random_below(MODEL_KEYS);
    pick->range.begin = model_key(model, pick->first);
    unsigned kind = random_below(8);
    if (kind < 5) {
        memcpy(pick->after, pick->range.begin.data, pick->range.begin.length);
        pick->after[pick->range.begin.length] = 0;
        pick->range.end = bytes_make(pick->after, pick->range.begin.length + 1);
        pick->end = pick->first + 1;
        return;
    }
    unsigned width = kind < 7 ? 1 + random_below(12) : random_below(MODEL_KEYS);
    pick->end = pick->first + width < MODEL_KEYS ? pick->first + width : MODEL_KEYS - 1;
    pick->range.end = model_key(model, pick->end);
}

static bool model_conflicts(const struct model *model, const struct pick *pick, int64_t version) {
    for (unsigned i = pick->first; i < pick->end; i++) {
        if (model->versions[i] > version)
            return true;
    }
    return false;
}

static void model_add(struct model *model, const struct pick *pick, int64_t version) {
    for (unsigned i = pick->first; i < pick->end; i++)
        model->versions[i] = version;
}

static void run_model(uint64_t seed, size_t prefix_length, unsigned steps) {
    static struct model model;
    random_state = seed;
    model_create(&model, prefix_length);
    struct resolver *resolver = create();
    int64_t version = 1, horizon = 0;
    for (unsigned step = 0; step < steps; step++) {
        struct pick pick;
        pick_range(&model, &pick);
        unsigned action = random_below(100);
        if (action < 45) {
            version += random_below(3);
            assert_int_equal(resolver_add(resolver, pick.range, version), 0);
            model_add(&model, &pick, version);
        } else if (action < 95) {
            int64_t at = version - (int64_t)random_below((unsigned)(version - horizon) + 1);
            if (resolver_conflicts(resolver, pick.range, at) != model_conflicts(&model, &pick, at))
                fail_msg("step %u of seed %llu: a wrong answer; again: KEEL_SEED=%llu KEEL_ROUNDS=1", step,
                         (unsigned long long)seed, (unsigned long long)seed);
        } else if (action < 98) {
            horizon += (int64_t)random_below((unsigned)(version - horizon) / 2 + 1);
            resolver_forget(resolver, horizon);
        } else {
            resolver_check(resolver);
        }
    }
    resolver_check(resolver);
    resolver_destroy(resolver);
}

static void test_model(void **state) {
    (void)state;
    uint64_t seed = environment("KEEL_SEED", 1), rounds = environment("KEEL_ROUNDS", 150);
    printf("resolver model: KEEL_SEED=%llu KEEL_ROUNDS=%llu\n", (unsigned long long)seed,
           (unsigned long long)rounds);
    static const size_t prefixes[] = {0, 3, 8, 40};
    for (uint64_t round = 0; round < rounds; round++)
        run_model(seed + round, prefixes[(seed + round) % 4], 3000);
}

/*
 * Many keys: several levels, splits and merges, range writes that cut through them, answered from a
 * sorted list of writes.
 */
static void key_of(uint64_t number, uint8_t key[16]) {
    memcpy(key, "table/00", 8);
    for (int i = 0; i < 8; i++)
        key[8 + i] = (uint8_t)(number >> (56 - 8 * i));
}

static struct key_range range_of_numbers(uint64_t first, uint64_t end, uint8_t keys[2][16]) {
    key_of(first, keys[0]);
    key_of(end, keys[1]);
    return (struct key_range){bytes_make(keys[0], 16), bytes_make(keys[1], 16)};
}

static void test_large(void **state) {
    (void)state;
    enum { KEYS = 60000 };
    static int64_t versions[KEYS];
    memset(versions, 0, sizeof versions);
    random_state = environment("KEEL_SEED", 1);
    struct resolver *resolver = create();
    uint8_t keys[2][16];
    for (unsigned step = 0; step < 200000; step++) {
        int64_t version = (int64_t)step + 1;
        unsigned first = step < KEYS ? step : random_below(KEYS);
        unsigned width = step % 1000 == 999 ? random_below(KEYS / 2) : 1;
        unsigned end = first + width < KEYS ? first + width : KEYS;
        struct key_range range = range_of_numbers(first, end, keys);
        assert_int_equal(resolver_add(resolver, range, version), 0);
        for (unsigned i = first; i < end; i++)
            versions[i] = version;
        unsigned probe = random_below(KEYS);
        range = range_of_numbers(probe, probe + 1, keys);
        int64_t at = version - (int64_t)random_below(1000);
        assert_int_equal(resolver_conflicts(resolver, range, at < 0 ? 0 : at),
                         versions[probe] > (at < 0 ? 0 : at));
        if (step % 100 == 0 && step > 2000)
            resolver_forget(resolver, version - 1000);
        if (step % 20000 == 0)
            resolver_check(resolver);
    }
    resolver_check(resolver);
    resolver_destroy(resolver);
}

/* --- Memory --- */

/*
 * An endless workload under a moving horizon holds a bounded amount, and an idle one shrinks to
 * almost nothing.
 */
static void test_memory_is_bounded(void **state) {
    (void)state;
    random_state = environment("KEEL_SEED", 1);
    struct resolver *resolver = create();
    uint64_t bytes_max = 0;
    uint8_t keys[2][16];
    int64_t version = 0;
    for (; version < 400000; version++) {
        struct key_range range = range_of_numbers(random_next(), UINT64_MAX, keys);
        uint8_t after[17];
        memcpy(after, keys[0], 16);
        after[16] = 0;
        range.end = bytes_make(after, 17);
        assert_int_equal(resolver_add(resolver, range, version), 0);
        if (version % 10 == 0)
            resolver_forget(resolver, version - 10000);
        bytes_max = resolver_bytes(resolver) > bytes_max ? resolver_bytes(resolver) : bytes_max;
    }
    resolver_check(resolver);
    /*
     * ten thousand live entries of about 60 bytes, at most three times that in thin nodes and not
     * yet swept ones
     */
    assert_true(bytes_max < 10000 * 200);
    for (int i = 0; i < 2000; i++)
        resolver_forget(resolver, version);
    resolver_check(resolver);
    assert_true(resolver_bytes(resolver) < 500000);
    resolver_destroy(resolver);
}

/* A write over everything is cheap, and gives the memory back bit by bit. */
static void test_cover_all(void **state) {
    (void)state;
    struct resolver *resolver = create();
    uint8_t keys[2][16];
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(resolver_add(resolver, range_of_numbers(3 * i, 3 * i + 1, keys),
                                      (int64_t)i), 0);
    uint64_t before = resolver_bytes(resolver);
    assert_int_equal(resolver_add(resolver, range_of("", "\xff\xff"), 100000), 0);
    resolver_check(resolver);
    assert_true(resolver_conflicts(resolver, range_of_numbers(5, 6, keys), 99999));
    assert_false(resolver_conflicts(resolver, range_of_numbers(5, 6, keys), 100000));
    for (int i = 0; i < 4000; i++)
        resolver_forget(resolver, 100);
    resolver_check(resolver);
    assert_true(resolver_bytes(resolver) < before / 10);
    resolver_destroy(resolver);
}

/* With the Nth allocation failing, an add fails cleanly and changes no answer. */
static void test_out_of_memory(void **state) {
    (void)state;
    struct resolver *resolver = NULL;
    for (long n = 0;; n++) {
        memory_fail_after(n);
        fdb_error_t error = resolver_create(&resolver);
        memory_fail_after(-1);
        if (!error)
            break;
        assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
        assert_null(resolver);
    }
    static struct model model;
    random_state = environment("KEEL_SEED", 1);
    model_create(&model, 0);
    unsigned failures = 0;
    for (int64_t version = 1; version < 3000; version++) {
        struct pick pick, probe;
        pick_range(&model, &pick);
        for (long n = 0;; n++) {
            memory_fail_after(n);
            fdb_error_t error = resolver_add(resolver, pick.range, version);
            memory_fail_after(-1);
            if (!error)
                break;
            assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
            failures++;
            resolver_check(resolver);
            assert_false(resolver_conflicts(resolver, range_of("", "\xff\xff\xff\xff\xff"),
                                            version - 1));
        }
        model_add(&model, &pick, version);
        pick_range(&model, &probe);
        int64_t at = version - (int64_t)random_below((unsigned)version);
        assert_int_equal(resolver_conflicts(resolver, probe.range, at), model_conflicts(&model,
                &probe, at));
    }
    assert_true(failures > 100);
    resolver_check(resolver);
    resolver_destroy(resolver);
}

/* --- Speed: printed only, with KEEL_BENCH set --- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void bench(bool shared_prefix, uint64_t count) {
    struct resolver *resolver = create();
    uint8_t(*keys)[17] = malloc(count * sizeof *keys);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t halves[2] = {random_next(), random_next()};
        memcpy(keys[i], halves, 16);
        if (shared_prefix)
            memcpy(keys[i], "users/00", 8);
        keys[i][16] = 0;
    }
    for (uint64_t i = 0; i < count; i++)
        resolver_add(resolver, (struct key_range){bytes_make(keys[i], 16), bytes_make(keys[i], 17)},
                     (int64_t)i);
    double start = seconds();
    uint64_t conflicts = 0, rounds = count;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t at = random_next() % count;
        conflicts += resolver_conflicts(resolver, (struct key_range){bytes_make(keys[at], 16),
                                                                     bytes_make(keys[at], 17)}, 0);
    }
    double checked = seconds();
    for (uint64_t i = 0; i < count; i++) { /* new keys, as many forgotten */
        uint64_t halves[2] = {random_next(), random_next()};
        memcpy(keys[i] + (shared_prefix ? 8 : 0), halves, shared_prefix ? 8 : 16);
        resolver_add(resolver, (struct key_range){bytes_make(keys[i], 16), bytes_make(keys[i], 17)},
                     (int64_t)(count + i));
        if (i % 16 == 0)
            resolver_forget(resolver, (int64_t)i);
    }
    double added = seconds();
    for (uint64_t i = 0; i < rounds; i++) {
        struct bytes a = bytes_make(keys[random_next() % count], 16),
            b = bytes_make(keys[random_next() % count], 16);
        conflicts += resolver_conflicts(resolver, (struct key_range){bytes_min(a, b),
                bytes_max(a, b)}, (int64_t)(2 * count - 3));
    }
    printf("%s, %llu entries: check %.0f ns, add %.0f ns, wide check %.0f ns, %llu bytes (%llu)\n",
           shared_prefix ? "shared prefix" : "random", (unsigned long long)count,
               (checked - start) * 1e9 / (double)rounds,
           (added - checked) * 1e9 / (double)count, (seconds() - added) * 1e9 / (double)rounds,
           (unsigned long long)resolver_bytes(resolver), (unsigned long long)conflicts);
    resolver_check(resolver);
    resolver_destroy(resolver);
    free(keys);
}

static void test_speed(void **state) {
    (void)state;
    if (!getenv("KEEL_BENCH"))
        return;
    bench(false, 1000000);
    bench(true, 1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),         cmocka_unit_test(test_edges),
            cmocka_unit_test(test_point),
        cmocka_unit_test(test_model),         cmocka_unit_test(test_large),
            cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_cover_all),     cmocka_unit_test(test_out_of_memory),
            cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
