/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write map: examples, and random writes against a naive model. The model keeps, for every key
 * of a small space, the list of operations since it was last set or cleared, and whether it
 * conflicts and can be read; the map must say the same for each key, forwards and backwards.
 * KEEL_SEED and KEEL_ROUNDS choose other seeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "txn/write_map.h"

#define B(text) BYTES_LITERAL(text)

static uint64_t random_state;

static unsigned random_below(unsigned bound) {
    uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (unsigned)((z ^ (z >> 31)) % bound);
}

static uint64_t environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* --- Examples --- */

static void expect(struct write_segment segment, const char *begin, const char *end,
                   enum write_kind kind, bool conflict) {
    assert_true(bytes_equal(write_segment_begin(segment), bytes_make(begin, strlen(begin))));
    assert_int_equal(write_segment_kind(segment), kind);
    assert_int_equal(write_segment_conflicts(segment), conflict);
    if (end)
        assert_true(bytes_equal(write_segment_end(segment), bytes_make(end, strlen(end))));
}

static void test_segments(void **state) {
    (void)state;
    struct arena arena = {0};
    struct write_map map = {.arena = &arena};
    assert_true(write_map_is_empty(&map));
    expect(write_map_find(&map, B("q")), "", "\xff\xff", WRITE_UNMODIFIED, false);
    assert_int_equal(write_map_mutate(&map, B("b"), MUTATION_SET, B("1"), true), 0);
    assert_int_equal(write_map_clear_range(&map, (struct key_range){B("d"), B("f")}, true), 0);
    assert_int_equal(write_map_mutate(&map, B("g"), MUTATION_ADD, B("1"), false), 0);
    struct write_segment at = write_map_find(&map, B(""));
    expect(at, "", "b", WRITE_UNMODIFIED, false);
    expect(at = write_segment_next(at), "b", NULL, WRITE_INDEPENDENT, true);
    at = write_segment_next(at);
    assert_int_equal(write_segment_kind(at), WRITE_UNMODIFIED);
    expect(at = write_segment_next(at), "d", "f", WRITE_CLEARED, true);
    expect(at = write_segment_next(at), "f", "g", WRITE_UNMODIFIED, false);
    expect(at = write_segment_next(at), "g", NULL, WRITE_DEPENDENT, false);
    at = write_segment_next(at);
    assert_true(write_segment_is_last(at));
    assert_int_equal(write_segment_kind(at), WRITE_UNMODIFIED);
    at = write_map_find_before(&map, B("d"));
    assert_true(bytes_equal(write_segment_begin(at), B("b\0")));
    assert_true(bytes_equal(write_segment_end(at), B("d")));
    arena_free(&arena);
}

static struct bytes value_of(struct write_map *map, struct bytes key, const struct bytes *base,
                             struct arena *arena, bool *exists) {
    struct bytes value = B("");
    assert_int_equal(write_segment_apply(write_map_find(map, key), base, arena, &value, exists), 0);
    return value;
}

static void test_merging(void **state) {
    (void)state;
    struct arena arena = {0};
    struct write_map map = {.arena = &arena};
    bool exists;
    write_map_mutate(&map, B("k"), MUTATION_SET, B("\x01"), true);
    write_map_mutate(&map, B("k"), MUTATION_ADD, B("\x02"), true);
    assert_int_equal(map.operation_count, 1);
    assert_true(bytes_equal(value_of(&map, B("k"), NULL, &arena, &exists), B("\x03")));
    write_map_mutate(&map, B("k"), MUTATION_COMPARE_AND_CLEAR, B("\x03"), true);
    value_of(&map, B("k"), NULL, &arena, &exists);
    assert_false(exists);
    write_map_mutate(&map, B("n"), MUTATION_ADD, B("\x01"), true);
    write_map_mutate(&map, B("n"), MUTATION_ADD, B("\x01"), true);
    assert_int_equal(map.operation_count, 2); /* joined */
    write_map_mutate(&map, B("n"), MUTATION_ADD, B("\x01\x00"), true);
    assert_int_equal(map.operation_count, 3); /* another length */
    struct bytes base = B("\xff\x07");
    assert_true(bytes_equal(value_of(&map, B("n"), &base, &arena, &exists), B("\x02\x00")));
    write_map_clear_range(&map, (struct key_range){B("a"), B("z")}, true);
    assert_int_equal(map.operation_count, 0);
    write_map_mutate(&map, B("n"), MUTATION_ADD, B("\x05"), true);
    assert_int_equal(write_segment_kind(write_map_find(&map, B("n"))), WRITE_INDEPENDENT);
    assert_true(bytes_equal(value_of(&map, B("n"), NULL, &arena, &exists), B("\x05")));
    write_map_check(&map);
    arena_free(&arena);
}

static void test_unreadable(void **state) {
    (void)state;
    struct arena arena = {0};
    struct write_map map = {.arena = &arena};
    struct bytes value;
    bool exists;
    write_map_mutate(&map, B("k"), MUTATION_SET_VERSIONSTAMPED_VALUE, B("0123456789\0\0\0\0"),
                     true);
    struct write_segment at = write_map_find(&map, B("k"));
    assert_true(write_segment_is_unreadable(at));
    write_map_mutate(&map, B("k"), MUTATION_ADD, B("\x01"), true);
    assert_int_equal(write_segment_apply(write_map_find(&map, B("k")), NULL, &arena, &value,
                                         &exists),
                     ERROR_OPERATION_FAILED);
    write_map_mutate(&map, B("k"), MUTATION_SET, B("plain"), true);
    assert_true(write_segment_is_unreadable(write_map_find(&map, B("k")))); /* as upstream */
    write_map_clear_key(&map, B("k"), true);
    assert_false(write_segment_is_unreadable(write_map_find(&map, B("k"))));
    write_map_make_unreadable(&map, (struct key_range){B("s"), B("t")});
    assert_true(write_segment_is_unreadable(write_map_find(&map, B("sx"))));
    write_map_mutate(&map, B("sx"), MUTATION_SET, B("1"), true);
    assert_true(write_segment_is_unreadable(write_map_find(&map, B("sx"))));
    assert_false(write_segment_is_unreadable(write_map_find(&map, B("t"))));
    write_map_clear_range(&map, (struct key_range){B("s"), B("t")}, true);
    assert_false(write_segment_is_unreadable(write_map_find(&map, B("sx"))));
    write_map_check(&map);
    arena_free(&arena);
}

/* --- Against a model --- */

enum { LETTERS = 3, LENGTH_MAX = 3, KEYS = 1 + 3 + 9 + 27, STACK = 64 };

struct model_key {
    uint8_t text[LENGTH_MAX];
    size_t length;
    struct write_operation stack[STACK]; /* never merged */
    int count;
    bool conflict, unreadable, cleared;
};

static struct model_key model[KEYS];

static int compare_keys(const void *a, const void *b) {
    const struct model_key *left = a, *right = b;
    return bytes_compare(bytes_make(left->text, left->length), bytes_make(right->text,
            right->length));
}

static void make_model(void) {
    memset(model, 0, sizeof model);
    int count = 0;
    for (size_t length = 0; length <= LENGTH_MAX; length++) {
        int total = 1;
        for (size_t i = 0; i < length; i++)
            total *= LETTERS;
        for (int n = 0; n < total; n++, count++) {
            model[count].length = length;
            for (size_t i = 0, rest = (size_t)n; i < length; i++, rest /= LETTERS)
                model[count].text[i] = (uint8_t)"\0aa"[rest % LETTERS]
                                       + (uint8_t)(rest % LETTERS == 2);
        }
    }
    assert_int_equal(count, KEYS);
    qsort(model, KEYS, sizeof model[0], compare_keys);
}

static struct bytes key_of(int index) {
    return bytes_make(model[index].text, model[index].length);
}

static void model_push(struct model_key *key, enum mutation_type type, bool present,
                       struct bytes value, bool conflict) {
    bool alone = type == MUTATION_SET && !key->unreadable;
    if (alone || (type == MUTATION_SET_VERSIONSTAMPED_VALUE && !key->unreadable))
        key->count = 0;
    assert_true(key->count < STACK);
    key->stack[key->count++] = (struct write_operation){type, present, value, NULL};
    key->conflict |= conflict;
    key->unreadable |= type == MUTATION_SET_VERSIONSTAMPED_VALUE;
}

static void model_clear(struct model_key *key, bool conflict) {
    key->count = 0;
    key->unreadable = false;
    key->cleared = true;
    key->conflict |= conflict;
}

/* What the model makes of a base value; false where a stamp is in the way. */
static bool model_value(const struct model_key *key, const struct bytes *base, struct arena *arena,
                        struct bytes *value, bool *exists) {
    bool stamped = false;
    *exists = base && !key->cleared;
    *value = *exists ? *base : B("");
    for (int i = 0; i < key->count; i++) {
        const struct write_operation *op = &key->stack[i];
        if (!mutation_is_atomic(op->type)) {
            *value = op->value;
            *exists = op->present;
            stamped = op->type != MUTATION_SET;
            continue;
        }
        bool cleared;
        if (stamped)
            return false;
        assert_int_equal(mutation_apply(op->type, *exists ? value : NULL, op->value, arena, value,
                                        &cleared), 0);
        *exists = !cleared;
    }
    return true;
}

static void compare_key(struct write_map *map, int index, struct arena *arena) {
    const struct model_key *key = &model[index];
    static const struct bytes bases[] = {{(const uint8_t *)"\x01\x02", 2}, {(const uint8_t *)"",
            0}};
    struct write_segment segment = write_map_find(map, key_of(index));
    struct key_range range = {write_segment_begin(segment), write_segment_end(segment)};
    if (!write_segment_is_last(segment))
        assert_true(key_range_contains(range, key_of(index)));
    assert_int_equal(write_segment_conflicts(segment), key->conflict);
    assert_int_equal(write_segment_is_unreadable(segment), key->unreadable);
    enum write_kind kind = write_segment_kind(segment);
    for (int i = 0; i < 3; i++) {
        const struct bytes *base = i < 2 ? &bases[i] : NULL;
        struct bytes expected, found = base ? *base : B("");
        bool expected_exists, exists = base != NULL;
        bool readable = model_value(key, base, arena, &expected, &expected_exists);
        fdb_error_t error = 0;
        if (kind == WRITE_CLEARED)
            exists = false;
        else if (kind != WRITE_UNMODIFIED)
            error = write_segment_apply(segment, kind == WRITE_DEPENDENT ? base : NULL, arena,
                                        &found, &exists);
        assert_int_equal(error, readable ? 0 : ERROR_OPERATION_FAILED);
        if (!readable)
            continue;
        assert_int_equal(exists, expected_exists);
        if (exists)
            assert_true(bytes_equal(found, expected));
    }
}

static void compare_all(struct write_map *map) {
    struct arena arena = {0};
    write_map_check(map);
    for (int i = 0; i < KEYS; i++) {
        compare_key(map, i, &arena);
        if (key_of(i).length == 0)
            continue;
        struct write_segment before = write_map_find_before(map, key_of(i));
        assert_true(bytes_compare(write_segment_begin(before), key_of(i)) < 0);
        assert_true(write_segment_is_last(before) ||
                    bytes_compare(write_segment_end(before), key_of(i)) >= 0);
    }
    arena_free(&arena);
}

static struct bytes random_value(struct arena *arena) {
    uint8_t text[3];
    size_t length = random_below(4);
    for (size_t i = 0; i < length; i++)
        text[i] = (uint8_t)random_below(4);
    struct bytes copy;
    assert_true(arena_copy(arena, bytes_make(text, length), &copy));
    return copy;
}

static void random_write(struct write_map *map) {
    static const enum mutation_type types[] = {
        MUTATION_ADD, MUTATION_AND_V2, MUTATION_OR, MUTATION_XOR, MUTATION_APPEND_IF_FITS,
        MUTATION_MAX, MUTATION_MIN_V2, MUTATION_BYTE_MIN, MUTATION_BYTE_MAX,
        MUTATION_COMPARE_AND_CLEAR,
    };
    int from = (int)random_below(KEYS), to = (int)random_below(KEYS);
    bool conflict = random_below(3) != 0;
    struct bytes value = random_value(map->arena);
    unsigned what = random_below(20);
    if (what < 5) {
        model_push(&model[from], MUTATION_SET, true, value, conflict);
        assert_int_equal(write_map_mutate(map, key_of(from), MUTATION_SET, value, conflict), 0);
    } else if (what < 13) {
        enum mutation_type type = types[random_below(sizeof types / sizeof types[0])];
        model_push(&model[from], type, true, value, conflict);
        assert_int_equal(write_map_mutate(map, key_of(from), type, value, conflict), 0);
    } else if (what < 14) {
        model_push(&model[from], MUTATION_SET_VERSIONSTAMPED_VALUE, true, value, conflict);
        assert_int_equal(write_map_mutate(map, key_of(from), MUTATION_SET_VERSIONSTAMPED_VALUE,
                                          value,
                                          conflict), 0);
    } else if (what < 16) {
        model_clear(&model[from], conflict);
        assert_int_equal(write_map_clear_key(map, key_of(from), conflict), 0);
    } else if (from < to) {
        struct key_range range = {key_of(from), key_of(to)};
        for (int i = from; i < to; i++) {
            if (what < 18)
                model_clear(&model[i], conflict);
            else
                model[i].conflict = true;
        }
        assert_int_equal(what < 18 ? write_map_clear_range(map, range, conflict)
                                   : write_map_add_conflict(map, range), 0);
    }
}

static void test_random(void **state) {
    (void)state;
    uint64_t seed = environment("KEEL_SEED", 1), rounds = environment("KEEL_ROUNDS", 300);
    printf("seed %llu, %llu rounds\n", (unsigned long long)seed, (unsigned long long)rounds);
    for (uint64_t round = 0; round < rounds; round++) {
        random_state = seed + round;
        struct arena arena = {0};
        struct write_map map = {.arena = &arena};
        make_model();
        for (unsigned i = random_below(40) + 1; i > 0; i--) {
            random_write(&map);
            compare_all(&map);
        }
        arena_free(&arena);
    }
}

static void test_many(void **state) {
    (void)state;
    struct arena arena = {0};
    struct write_map map = {.arena = &arena};
    for (unsigned i = 0; i < 100000; i++) {
        uint32_t number = __builtin_bswap32(i * 2654435761u);
        struct bytes value;
        assert_true(arena_copy(&arena, bytes_make(&number, 4), &value));
        assert_int_equal(write_map_mutate(&map, value, MUTATION_SET, value, true), 0);
    }
    assert_int_equal(map.operation_count, 100000);
    write_map_check(&map);
    assert_int_equal(write_map_clear_range(&map, (struct key_range){B("\x10"), B("\xf0")}, true),
                     0);
    write_map_check(&map);
    assert_true(map.operation_count < 20000);
    arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),   cmocka_unit_test(test_merging),
        cmocka_unit_test(test_unreadable), cmocka_unit_test(test_random),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
