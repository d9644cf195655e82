/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window against a naive model: a list of changes, of which the last one at or below the asked
 * version that covers a key decides. Every answer of gets, of stretches in both directions, of
 * values-only walks and of window_view_visit is compared, at all versions, over several generations.
 * Then one writer beside readers, memory that runs out, and (KEEL_BENCH=1) speed.
 *
 * KEEL_SEED and KEEL_ROUNDS choose another run; a failure prints the seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "engine/window.h"
#include "os/thread.h"
#include "util/coding.h"
#include "util/memory.h"

#include <stdatomic.h>

/* --- Random numbers and the settings of a run --- */

static uint64_t random_state;

static uint64_t random_next(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static unsigned random_below(unsigned limit) {
    return (unsigned)(random_next() % limit);
}

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 0) : otherwise;
}

#ifdef KEEL_SANITIZED
enum { ROUNDS = 40 };
#else
enum { ROUNDS = 120 };
#endif

static uint64_t seed_now;

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s\nagain with: KEEL_SEED=%llu KEEL_ROUNDS=1\n", __FILE__, __LINE__, #condition,  \
                    (unsigned long long)seed_now);                                                                    \
            abort();                                                                                                  \
        }                                                                                                             \
    } while (0)

/* --- The model --- */

enum { KEYS_SHORT = 40, KEYS = 2 * KEYS_SHORT + 2, CHANGES_MAX = 4000 };

/*
 * All keys of up to three letters out of NUL, 'a' and 0xff, bare and behind a long prefix: full of
 * prefixes and successors.
 */
static uint8_t key_texts[KEYS][16];
static struct bytes keys[KEYS];

struct model_change {
    int64_t version;
    unsigned generation;
    struct change change;
};

struct model {
    struct model_change changes[CHANGES_MAX];
    size_t count;
    unsigned oldest, newest; /* generations */
    int64_t version;
};

static struct model model;

static int compare_keys(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static void add_key(int index, const char *prefix, const uint8_t *letters, size_t length) {
    size_t prefix_length = strlen(prefix);
    memcpy(key_texts[index], prefix, prefix_length);
    memcpy(key_texts[index] + prefix_length, letters, length);
    keys[index] = bytes_make(key_texts[index], prefix_length + length);
}

static int make_keys(void **state) {
    (void)state;
    const uint8_t letters[3] = {0, 'a', 0xff};
    int index = 0;
    for (int with_prefix = 0; with_prefix < 2; with_prefix++) {
        for (unsigned length = 0; length <= 3; length++) {
            unsigned combinations = length == 0 ? 1 : length == 1 ? 3 : length == 2 ? 9 : 27;
            for (unsigned number = 0; number < combinations; number++) {
                uint8_t text[3] = {letters[number % 3], letters[number / 3 % 3], letters[number / 9 % 3]};
                add_key(index++, with_prefix ? "prefix12" : "", text, length);
            }
        }
    }
    add_key(index++, "prefix12\x61\x61\x61", (const uint8_t *)"\0", 1);
    add_key(index++, "\xff\xff\xff", (const uint8_t *)"\xff", 1);
    CHECK(index == KEYS);
    qsort(keys, KEYS, sizeof keys[0], compare_keys);
    return 0;
}

/* What the generations [oldest, newest] say about a key at a version. */
static enum window_answer model_get(int64_t version, unsigned oldest, unsigned newest, struct bytes key,
                                    struct bytes *value) {
    for (size_t i = model.count; i-- > 0;) {
        const struct model_change *change = &model.changes[i];
        if (change->version > version || change->generation < oldest || change->generation > newest)
            continue;
        if (change->change.clear) {
            if (key_range_contains((struct key_range){change->change.key, change->change.value}, key))
                return WINDOW_CLEARED;
        } else if (bytes_equal(change->change.key, key)) {
            *value = change->change.value;
            return WINDOW_VALUE;
        }
    }
    return WINDOW_SILENT;
}

static enum window_answer model_now(int64_t version, struct bytes key, struct bytes *value) {
    return model_get(version, model.oldest, model.newest, key, value);
}

static struct bytes random_value(void) {
    static const uint8_t text[256] = "The quick brown fox jumps over the lazy dog";
    size_t length = random_below(8) == 0 ? random_below(200) : random_below(12);
    return bytes_make(text + random_below(40), length);
}

static struct change random_change(unsigned clears_in_eight) {
    struct bytes key = keys[random_below(KEYS)];
    if (random_below(8) >= clears_in_eight)
        return (struct change){false, key, random_value()};
    unsigned kind = random_below(4);
    if (kind == 0) {
        for (int i = 0; i < KEYS; i++) {
            if (keys[i].length == key.length + 1 && bytes_starts_with(keys[i], key) && keys[i].data[key.length] == 0)
                return (struct change){true, key, keys[i]};
        }
    }
    return (struct change){true, key, keys[random_below(KEYS)]};
}

/* Reserves, then applies with the heap shut: applying must not need it. */
static void apply(struct window *window, const struct change *changes, size_t count, int64_t version) {
    memory_fail_after(0);
    window_apply(window, version, changes, count);
    for (size_t i = 0; i < count; i++) {
        const struct change *change = &changes[i];
        if (change->clear && bytes_compare(change->key, change->value) >= 0)
            continue;
        CHECK(model.count < CHANGES_MAX);
        model.changes[model.count++] = (struct model_change){version, model.newest, *change};
    }
    memory_fail_after(-1);
    model.version = version;
}

static void commit_random(struct window *window, size_t count, unsigned clears_in_eight) {
    struct change changes[300];
    for (size_t i = 0; i < count; i++)
        changes[i] = random_change(clears_in_eight);
    CHECK(window_reserve(window, changes, count) == 0);
    apply(window, changes, count, model.version + random_below(3));
}

/* --- Comparing reads --- */

static void check_gets(struct window_view *view, int64_t version) {
    for (int i = 0; i < KEYS; i++) {
        struct bytes expected = {0}, found = {0};
        enum window_answer answer = model_now(version, keys[i], &expected);
        CHECK(window_view_get(view, version, keys[i], &found) == answer);
        CHECK(answer != WINDOW_VALUE || bytes_equal(expected, found));
    }
}

static void check_stretch(const struct window_stretch *stretch, int64_t version) {
    CHECK(bytes_compare(stretch->begin, stretch->end) < 0);
    if (stretch->answer == WINDOW_VALUE) {
        CHECK(stretch->end.length == stretch->begin.length + 1);
        CHECK(bytes_starts_with(stretch->end, stretch->begin) && stretch->end.data[stretch->begin.length] == 0);
    }
    for (int i = 0; i < KEYS; i++) {
        if (!key_range_contains((struct key_range){stretch->begin, stretch->end}, keys[i]))
            continue;
        struct bytes expected = {0};
        CHECK(model_now(version, keys[i], &expected) == stretch->answer);
        CHECK(stretch->answer != WINDOW_VALUE || bytes_equal(expected, stretch->value));
    }
}

/*
 * The same bytes elsewhere in memory, sometimes: a cursor must not depend on getting its own back.
 */
static struct bytes maybe_moved(struct bytes key, uint8_t *buffer) {
    if (random_below(3))
        return key;
    if (key.length)
        memcpy(buffer, key.data, key.length);
    return bytes_make(buffer, key.length);
}

static void check_forward(struct window_cursor *cursor, struct bytes begin, struct bytes limit) {
    uint8_t buffer[32];
    for (struct bytes place = begin; bytes_compare(place, limit) < 0;) {
        struct bytes asked = maybe_moved(place, buffer);
        struct window_stretch stretch;
        window_cursor_forward(cursor, asked, limit, &stretch);
        CHECK(bytes_equal(stretch.begin, asked));
        CHECK(bytes_compare(stretch.end, limit) <= 0);
        check_stretch(&stretch, cursor->version);
        place = stretch.end;
        if (random_below(20) == 0) /* going on from within or further on is allowed too */
            place = bytes_max(place, keys[random_below(KEYS)]);
    }
}

static void check_backward(struct window_cursor *cursor, struct bytes end, struct bytes limit) {
    uint8_t buffer[32];
    for (struct bytes place = end; bytes_compare(place, limit) > 0;) {
        struct bytes asked = maybe_moved(place, buffer);
        struct window_stretch stretch;
        window_cursor_backward(cursor, asked, limit, &stretch);
        CHECK(bytes_equal(stretch.end, asked));
        CHECK(bytes_compare(stretch.begin, limit) >= 0);
        check_stretch(&stretch, cursor->version);
        place = stretch.begin;
        if (random_below(20) == 0)
            place = bytes_min(place, keys[random_below(KEYS)]);
    }
}

static void check_values(struct window_cursor *cursor, struct bytes begin, struct bytes limit) {
    uint8_t buffer[32];
    struct bytes place = begin, value;
    struct window_stretch stretch;
    for (int i = 0; i < KEYS; i++) {
        if (!key_range_contains((struct key_range){begin, limit}, keys[i]) ||
            model_now(cursor->version, keys[i], &value) != WINDOW_VALUE)
            continue;
        CHECK(window_cursor_forward_value(cursor, maybe_moved(place, buffer), limit, &stretch));
        CHECK(bytes_equal(stretch.begin, keys[i]) && bytes_equal(stretch.value, value));
        place = stretch.end;
    }
    CHECK(bytes_compare(place, limit) >= 0 || !window_cursor_forward_value(cursor, place, limit, &stretch));
    place = limit;
    for (int i = KEYS; i-- > 0;) {
        if (!key_range_contains((struct key_range){begin, limit}, keys[i]) ||
            model_now(cursor->version, keys[i], &value) != WINDOW_VALUE)
            continue;
        CHECK(window_cursor_backward_value(cursor, maybe_moved(place, buffer), begin, &stretch));
        CHECK(bytes_equal(stretch.begin, keys[i]) && bytes_equal(stretch.value, value));
        place = stretch.begin;
    }
    CHECK(bytes_compare(place, begin) <= 0 || !window_cursor_backward_value(cursor, place, begin, &stretch));
}

static void check_view(struct window_view *view, int64_t version) {
    struct window_cursor cursor;
    window_cursor_open(&cursor, view, version);
    struct bytes first = BYTES_LITERAL(""), last = BYTES_LITERAL("\xff\xff\xff\xff\xff\xff");
    check_gets(view, version);
    check_forward(&cursor, first, last);
    check_backward(&cursor, last, first);
    check_values(&cursor, first, last);
    for (int i = 0; i < 4; i++) {
        struct bytes a = keys[random_below(KEYS)], b = keys[random_below(KEYS)];
        if (bytes_compare(a, b) >= 0)
            continue;
        check_forward(&cursor, a, b);
        check_backward(&cursor, b, a);
        check_values(&cursor, a, b);
    }
}

/* --- Comparing what the checkpoint is told --- */

struct visit {
    unsigned newest;   /* of the generations that are visited: from model.oldest on */
    struct bytes last; /* nothing may come before it any more */
    int64_t last_version;
    bool covered[KEYS];
    bool was_set;
};

static void visit_range(struct visit *visit, struct bytes begin, struct bytes end, enum window_answer answer) {
    CHECK(bytes_compare(begin, end) < 0 && bytes_compare(visit->last, begin) <= 0);
    visit->last = end;
    for (int i = 0; i < KEYS; i++) {
        struct bytes value;
        if (!key_range_contains((struct key_range){begin, end}, keys[i]))
            continue;
        CHECK(model_get(INT64_MAX, model.oldest, visit->newest, keys[i], &value) == answer);
        CHECK(!visit->covered[i]);
        visit->covered[i] = true;
    }
}

static fdb_error_t visit_single(struct visit *visit, struct bytes key, enum window_answer answer) {
    static uint8_t buffers[2][32];
    static int turn;
    uint8_t *after = buffers[turn ^= 1];
    memcpy(after, key.data, key.length);
    after[key.length] = 0;
    visit_range(visit, key, bytes_make(after, key.length + 1), answer);
    return 0;
}

static fdb_error_t visit_set(void *context, struct bytes key, struct bytes value) {
    struct bytes expected;
    CHECK(model_get(INT64_MAX, model.oldest, ((struct visit *)context)->newest, key, &expected) == WINDOW_VALUE);
    CHECK(bytes_equal(value, expected));
    return visit_single(context, key, WINDOW_VALUE);
}

static fdb_error_t visit_clear(void *context, struct bytes key) {
    return visit_single(context, key, WINDOW_CLEARED);
}

static fdb_error_t visit_clear_range(void *context, struct bytes begin, struct bytes end) {
    visit_range(context, begin, end, WINDOW_CLEARED);
    return 0;
}

static void check_visit(struct window_view *view, unsigned newest) {
    struct visit visit = {.newest = newest, .last = BYTES_LITERAL("")};
    struct window_visitor visitor = {visit_set, visit_clear, visit_clear_range, &visit};
    CHECK(window_view_visit(view, &visitor) == 0);
    for (int i = 0; i < KEYS; i++) {
        struct bytes value;
        CHECK(visit.covered[i] ==
              (model_get(INT64_MAX, model.oldest, newest, keys[i], &value) != WINDOW_SILENT));
    }
}

/* --- The model test --- */

static struct window *fresh_window(void) {
    struct window *window;
    CHECK(window_create(&window) == 0);
    model.count = 0;
    model.oldest = model.newest = 0;
    model.version = 100;
    return window;
}

static bool newest_is_empty(void) {
    return model.count == 0 || model.changes[model.count - 1].generation != model.newest;
}

static void rotate(struct window *window) {
    bool empty = newest_is_empty();
    uint64_t epoch = window_epoch(window);
    CHECK(window_rotate(window) == 0);
    CHECK((window_epoch(window) > epoch) == !empty);
    if (!empty)
        model.newest++;
}

/* Drops the oldest generation, which is closed. */
static fdb_error_t drop_one(struct window *window) {
    struct window_view *view;
    fdb_error_t error = window_closed_view(window, INT64_MAX, 1, &view);
    if (error)
        return error;
    error = window_drop_oldest(window, view);
    window_view_release(window, view);
    return error;
}

/* Drops the oldest generation, or all that are closed. */
static void drop(struct window *window, bool all) {
    struct window_view *view;
    unsigned count = all ? model.newest - model.oldest : model.newest > model.oldest;
    CHECK(window_closed_view(window, model.version, all ? UINT64_MAX : 0, &view) == 0);
    CHECK((view != NULL) == (count > 0));
    CHECK((window_closed_bytes(window, model.version) > 0) == (count > 0));
    if (!view)
        return;
    check_visit(view, model.oldest + count - 1);
    if (count == 1)
        CHECK(window_closed_bytes(window, window_view_last_version(view) - 1) == 0);
    CHECK(window_drop_oldest(window, view) == 0);
    window_view_release(window, view);
    model.oldest += count;
}

static void model_round(uint64_t seed) {
    random_state = seed_now = seed;
    struct window *window = fresh_window();
    unsigned clears = random_below(6);
    for (int step = 0; step < 40; step++) {
        unsigned action = random_below(12);
        if (action == 0)
            rotate(window);
        else if (action == 1)
            drop(window, random_below(2) == 0);
        else
            commit_random(window, 1 + random_below(6), clears);
        if (step % 8 != 7)
            continue;
        window_check(window);
        struct window_view *view = window_view_acquire(window);
        CHECK(window_view_epoch(view) == window_epoch(window));
        for (int64_t version = model.version; version >= 99; version -= 1 + random_below(6))
            check_view(view, version);
        window_view_release(window, view);
    }
    window_destroy(window);
}

static void agrees_with_the_model(void **state) {
    (void)state;
    uint64_t seed = (uint64_t)setting("KEEL_SEED", 1);
    for (long round = 0; round < setting("KEEL_ROUNDS", ROUNDS); round++)
        model_round(seed + (uint64_t)round);
}

/* --- Half-done changes --- */

/*
 * After every single store of the writer, readers one version back look at everything, afresh and
 * with cursors that were under way already. So each state that a reader could meet beside the
 * writer is met here, every time.
 */
static struct {
    struct window_view *view;
    int64_t version;
    struct window_cursor forward, backward;
    struct bytes forward_place, backward_place;
    unsigned calls;
} watcher;

static const struct bytes watched_begin = BYTES_LITERAL(""), watched_end = BYTES_LITERAL("\xff\xff\xff\xff\xff\xff");

static void watch_from_start(struct window *window, int64_t version) {
    watcher.view = window_view_acquire(window);
    watcher.version = version;
    window_cursor_open(&watcher.forward, watcher.view, version);
    window_cursor_open(&watcher.backward, watcher.view, version);
    watcher.forward_place = watched_begin;
    watcher.backward_place = watched_end;
}

static void watch(void) {
    struct window_stretch stretch;
    watcher.calls++;
    window_cursor_forward(&watcher.forward, watcher.forward_place, watched_end, &stretch);
    CHECK(bytes_equal(stretch.begin, watcher.forward_place));
    check_stretch(&stretch, watcher.version);
    bool ended = bytes_compare(stretch.end, watched_end) == 0;
    watcher.forward_place = ended ? watched_begin : stretch.end;
    window_cursor_backward(&watcher.backward, watcher.backward_place, watched_begin, &stretch);
    CHECK(bytes_equal(stretch.end, watcher.backward_place));
    check_stretch(&stretch, watcher.version);
    ended = bytes_compare(stretch.begin, watched_begin) == 0;
    watcher.backward_place = ended ? watched_end : stretch.begin;
    struct window_cursor cursor;
    window_cursor_open(&cursor, watcher.view, watcher.version);
    check_gets(watcher.view, watcher.version);
    check_forward(&cursor, watched_begin, watched_end);
    check_backward(&cursor, watched_end, watched_begin);
}

static void a_change_half_done_is_not_seen(void **state) {
    (void)state;
    uint64_t seed = (uint64_t)setting("KEEL_SEED", 1);
    for (long round = 0; round < setting("KEEL_ROUNDS", ROUNDS) / 4; round++) {
        random_state = seed_now = seed + (uint64_t)round;
        struct window *window = fresh_window();
        unsigned clears = random_below(3);
        for (int step = 0; step < 12; step++) {
            int64_t seen = model.version;
            model.version++;
            struct change changes[10];
            for (int i = 0; i < 10; i++)
                changes[i] = random_change(clears);
            CHECK(window_reserve(window, changes, 10) == 0);
            watch_from_start(window, seen);
            node_list_half_done = watch;
            apply(window, changes, 10, model.version);
            node_list_half_done = NULL;
            window_view_release(window, watcher.view);
            if (random_below(6) == 0)
                rotate(window);
        }
        window_destroy(window);
    }
    CHECK(watcher.calls > 0);
}

/* --- Searches of the list in the middle of a split --- */

enum { LISTED_MAX = 6000 };

static struct {
    struct node_list list;
    struct node *nodes[LISTED_MAX];        /* in the list */
    const struct page *pages[LISTED_MAX];  /* where each was to be looked for when it was added */
    int count;
    long searches;
} listed;

/* Every node in the list is found, from the root and from a page that was found for it long ago. */
static void search_listed(void) {
    for (int i = 0; i < 100 && listed.count > 0; i++, listed.searches++) {
        unsigned number = random_below((unsigned)listed.count);
        struct search_key key = search_key_make(node_key(listed.nodes[number]));
        struct node_place place;
        CHECK(node_list_floor(&listed.list, NULL, &key, true, &place) == listed.nodes[number]);
        CHECK(node_list_floor(&listed.list, listed.pages[number], &key, true, &place) == listed.nodes[number]);
    }
}

/* Keys of several lengths and beginnings: pages then share much, little or nothing with what lies right of them. */
static struct node *random_node(struct arena *arena) {
    char text[64];
    int group = (int)random_below(60), digits = 1 + (int)random_below(8);
    int length = snprintf(text, sizeof text, "%02d%.*s%.*x", group, group * 7 % 20, "customers/0000000000", digits,
                          (unsigned)random_next());
    struct node *node = arena_allocate(arena, sizeof *node + (size_t)length + 1);
    CHECK(node);
    memset(node, 0, sizeof *node);
    node->length = (uint32_t)length;
    memcpy(node->key, text, (size_t)length + 1);
    node->prefix = search_key_make(node_key(node)).prefix;
    return node;
}

static void a_search_finds_its_way_through_a_split(void **state) {
    (void)state;
    random_state = seed_now = (uint64_t)setting("KEEL_SEED", 1);
    struct arena arena = {0};
    listed.count = 0;
    CHECK(node_list_init(&listed.list, &arena));
    while (listed.count < LISTED_MAX) {
        struct node *node = random_node(&arena);
        struct search_key key = search_key_make(node_key(node));
        struct node_place place;
        struct node *floor = node_list_floor(&listed.list, NULL, &key, true, &place);
        if (floor != listed.list.before && node_compare(floor, &key) == 0)
            continue;
        CHECK(node_list_reserve(&listed.list, 1));
        node_list_locate(&listed.list, &key, 1, &listed.pages[listed.count]);
        node_list_half_done = search_listed;
        node_list_insert(&listed.list, &place, node);
        node_list_half_done = NULL;
        listed.nodes[listed.count++] = node;
    }
    node_list_check(&listed.list);
    CHECK(listed.searches > 100000);
    arena_free(&arena);
}

/* --- Old views --- */

static void an_old_view_keeps_its_answers(void **state) {
    (void)state;
    random_state = seed_now = 7;
    struct window *window = fresh_window();
    commit_random(window, 40, 2);
    rotate(window);
    commit_random(window, 40, 2);
    struct window_view *view = window_view_acquire(window);
    int64_t version = model.version;
    check_view(view, version);
    uint64_t bytes = window_bytes(window);
    assert_true(bytes > window_newest_bytes(window));
    unsigned oldest = model.oldest;
    rotate(window);
    drop(window, false);
    drop(window, false);
    model.version += 3;
    commit_random(window, 40, 3);
    assert_true(window_view_epoch(view) != window_epoch(window));
    model.oldest = oldest; /* the view still has what was dropped */
    check_view(view, version);
    window_view_release(window, view);
    window_destroy(window);
}

static void the_list_of_generations_is_bounded(void **state) {
    (void)state;
    random_state = seed_now = 9;
    struct window *window = fresh_window();
    uint64_t epoch = 0;
    for (int i = 0; i < WINDOW_GENERATIONS_MAX + 5; i++) {
        commit_random(window, 5, 2);
        assert_int_equal(window_rotate(window), 0);
        if (window_epoch(window) != epoch)
            model.newest++;
        epoch = window_epoch(window);
    }
    assert_int_equal(model.newest, WINDOW_GENERATIONS_MAX - 1);
    window_check(window);
    struct window_view *view = window_view_acquire(window);
    for (int64_t version = 99; version <= model.version; version += 9)
        check_view(view, version);
    window_view_release(window, view);
    drop(window, false);
    rotate(window);
    window_destroy(window);
}

/* --- Memory --- */

/*
 * First batches are larger than a block, so that the memory reserved for them is exactly what was
 * counted.
 */
static void reserving_is_enough(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        random_state = seed_now = seed;
        struct window *window = fresh_window();
        unsigned clears = random_below(9);
        for (int batch = 0; batch < 5; batch++) {
            commit_random(window, 100 + random_below(200), clears);
            model.version++;
        }
        window_check(window);
        window_destroy(window);
    }
}

/* Thousands of keys at once, in each order in which keys arrive: pages split on several levels. */
static void a_large_batch_fits_what_was_reserved(void **state) {
    (void)state;
    enum { COUNT = 6000 };
    static struct change changes[COUNT];
    static uint8_t texts[COUNT][24];
    for (unsigned kind = 0; kind < 6; kind++) {
        random_state = seed_now = kind;
        struct window *window = fresh_window();
        for (int batch = 0; batch < 3; batch++) {
            unsigned count = batch == 1 ? 1 : COUNT;
            for (unsigned i = 0; i < count; i++) {
                unsigned number = kind % 3 == 0 ? i : kind % 3 == 1 ? COUNT - i : (unsigned)random_next();
                int length = snprintf((char *)texts[i], sizeof texts[i], "%s%010u", kind < 3 ? "" : "subspace/", number);
                changes[i] = (struct change){false, bytes_make(texts[i], (size_t)length), random_value()};
                if (kind == 5 && i % 50 == 0)
                    changes[i] = (struct change){true, changes[i].key, BYTES_LITERAL("subspace/5")};
            }
            CHECK(window_reserve(window, changes, count) == 0);
            memory_fail_after(0);
            window_apply(window, batch, changes, count);
            memory_fail_after(-1);
            window_check(window);
        }
        window_destroy(window);
    }
}

/* Clearing again and again must neither take memory nor lengthen chains. */
static void clearing_what_is_clear_costs_nothing(void **state) {
    (void)state;
    random_state = seed_now = 5;
    struct window *window = fresh_window();
    commit_random(window, 100, 0);
    struct change all = {true, BYTES_LITERAL(""), BYTES_LITERAL("\xff\xff\xff\xff\xff")};
    assert_int_equal(window_reserve(window, &all, 1), 0);
    apply(window, &all, 1, model.version + 1);
    uint64_t bytes = window_bytes(window);
    for (int64_t i = 0; i < 10000; i++) {
        struct change clear = random_change(8);
        assert_int_equal(window_reserve(window, &clear, 1), 0);
        window_apply(window, model.version + i, &clear, 1);
    }
    assert_true(window_bytes(window) <= bytes + 4096);
    window_check(window);
    window_destroy(window);
}

static void run_out_of_memory(long countdown, bool *failed) {
    struct window *window = NULL;
    memory_fail_after(countdown);
    fdb_error_t error = window_create(&window);
    memory_fail_after(-1);
    *failed = error != 0;
    if (error) {
        CHECK(error == ERROR_LARGE_ALLOC_FAILED && !window);
        return;
    }
    window_destroy(window);
    window = fresh_window();
    for (int step = 0; step < 6; step++) {
        struct change changes[50];
        for (int i = 0; i < 50; i++)
            changes[i] = random_change(2);
        memory_fail_after(countdown);
        error = window_reserve(window, changes, 50);
        memory_fail_after(-1);
        *failed |= error != 0;
        CHECK(!error || error == ERROR_LARGE_ALLOC_FAILED);
        if (!error || window_reserve(window, changes, 50) == 0)
            apply(window, changes, 50, model.version + 1);
        memory_fail_after(countdown);
        error = step % 2 ? window_rotate(window) : 0;
        if (step % 2 && !error)
            model.newest++;
        *failed |= error != 0;
        error = step == 5 && model.newest > model.oldest ? drop_one(window) : 0;
        if (step == 5 && !error && model.newest > model.oldest)
            model.oldest++;
        memory_fail_after(-1);
        *failed |= error != 0;
        window_check(window);
        struct window_view *view = window_view_acquire(window);
        check_view(view, model.version);
        check_view(view, model.version - 1);
        window_view_release(window, view);
    }
    window_destroy(window);
}

static void survives_every_failed_allocation(void **state) {
    (void)state;
    bool failed = true;
    for (long countdown = 0; failed; countdown++) {
        random_state = seed_now = (uint64_t)countdown + 11;
        run_out_of_memory(countdown, &failed);
        CHECK(countdown < 100);
    }
}

/* --- One writer, many readers --- */

enum { STAMPED = 24, ADDED = 6, STAMP_SPAN = 40 };

/*
 * Every commit writes its version into all stamped keys, in one of three ways chosen by the
 * version; so at any version what must be there is known exactly, and a reader that sees half a
 * commit or one from its future finds out.
 */
enum commit_kind { CLEAR_ALL_AND_SET, SET_AND_ADD, CLEAR_EACH_AND_SET, CLEAR_ALL };

static enum commit_kind commit_kind(int64_t version) {
    static const enum commit_kind kinds[] = {SET_AND_ADD, SET_AND_ADD, CLEAR_EACH_AND_SET, CLEAR_ALL_AND_SET, SET_AND_ADD,
                                             CLEAR_ALL, SET_AND_ADD, CLEAR_EACH_AND_SET, SET_AND_ADD, SET_AND_ADD,
                                             SET_AND_ADD};
    return kinds[version % (int64_t)(sizeof kinds / sizeof kinds[0])];
}

struct stage {
    struct window *window;
    _Atomic int64_t published;
    _Atomic bool stop;
    int64_t commits;
};

struct stamped_key {
    uint8_t text[24];
};

static struct bytes stamped(struct stamped_key *key, int index, bool successor) {
    int length = snprintf((char *)key->text, sizeof key->text, "stamped/%03d", index);
    key->text[length] = 0;
    return bytes_make(key->text, (size_t)length + (successor ? 1 : 0));
}

static size_t make_commit(int64_t version, struct change *changes, struct stamped_key *texts, uint8_t stamp[8]) {
    enum commit_kind kind = commit_kind(version);
    size_t count = 0;
    coding_put_u64(stamp, (uint64_t)version);
    if (kind == CLEAR_ALL_AND_SET || kind == CLEAR_ALL)
        changes[count++] = (struct change){true, BYTES_LITERAL("stamped"), BYTES_LITERAL("stamped0")};
    for (int i = 0; i < STAMPED && kind == CLEAR_EACH_AND_SET; i++) {
        struct bytes key = stamped(&texts[i], i, false);
        changes[count++] = (struct change){true, key, stamped(&texts[i], i, true)};
    }
    for (int i = 0; i < STAMPED && kind != CLEAR_ALL; i++)
        changes[count++] = (struct change){false, stamped(&texts[i], i, false), bytes_make(stamp, 8)};
    for (int i = 0; i < ADDED && kind == SET_AND_ADD; i++) {
        uint8_t *text = texts[STAMPED + i].text;
        int length = snprintf((char *)text, sizeof texts[0].text, "stamped/%03d/%d/%d", (int)(version * 7 + i * 5) % STAMPED,
                              (int)(version * 7919 % 100000), i);
        changes[count++] = (struct change){false, bytes_make(text, (size_t)length), bytes_make("added", 5)};
    }
    return count;
}

static void *write_commits(void *argument) {
    struct stage *stage = argument;
    struct change changes[2 * STAMPED + ADDED + 1];
    struct stamped_key texts[STAMPED + ADDED];
    uint8_t stamp[8];
    for (int64_t version = 1; version <= stage->commits; version++) {
        size_t count = make_commit(version, changes, texts, stamp);
        CHECK(window_reserve(stage->window, changes, count) == 0);
        window_apply(stage->window, version, changes, count);
        atomic_store_explicit(&stage->published, version, memory_order_release);
        if (version % 23 == 0)
            CHECK(window_rotate(stage->window) == 0);
        if (version % 16 == 0 && window_closed_bytes(stage->window, version - 3 * STAMP_SPAN) > 0)
            CHECK(drop_one(stage->window) == 0);
        if (version % 64 == 0)
            os_thread_yield();
    }
    atomic_store(&stage->stop, true);
    return NULL;
}

/* How many added keys are left at a version. */
static int added_at(int64_t version) {
    int added = 0;
    for (; version > 0; version--) {
        enum commit_kind kind = commit_kind(version);
        if (kind == CLEAR_ALL || kind == CLEAR_ALL_AND_SET)
            break;
        added += kind == SET_AND_ADD ? ADDED : 0;
    }
    return added;
}

static void check_row(const struct window_stretch *row, int64_t version, int *stamps, int *added) {
    if (row->value.length == 8) {
        CHECK((int64_t)coding_get_u64(row->value.data) == version);
        (*stamps)++;
    } else {
        (*added)++;
    }
}

static void check_published(struct window_view *view, int64_t version, bool forward) {
    struct window_cursor cursor;
    window_cursor_open(&cursor, view, version);
    struct bytes begin = BYTES_LITERAL("stamped"), end = BYTES_LITERAL("stamped0"), place = forward ? begin : end;
    int stamps = 0, added = 0;
    while (bytes_compare(place, forward ? end : begin) != 0) {
        struct window_stretch row;
        if (forward)
            window_cursor_forward(&cursor, place, end, &row);
        else
            window_cursor_backward(&cursor, place, begin, &row);
        if (row.answer == WINDOW_VALUE)
            check_row(&row, version, &stamps, &added);
        place = forward ? row.end : row.begin;
    }
    CHECK(stamps == (commit_kind(version) == CLEAR_ALL ? 0 : STAMPED));
    CHECK(added == added_at(version));
    struct stamped_key text;
    for (int i = 0; i < STAMPED; i++) {
        struct bytes value = {0};
        enum window_answer answer = window_view_get(view, version, stamped(&text, i, false), &value);
        CHECK(answer == (commit_kind(version) == CLEAR_ALL ? WINDOW_CLEARED : WINDOW_VALUE));
        CHECK(answer != WINDOW_VALUE || (int64_t)coding_get_u64(value.data) == version);
    }
}

static void *read_commits(void *argument) {
    struct stage *stage = argument;
    for (int64_t turn = 0; !atomic_load(&stage->stop); turn++) {
        struct window_view *view = window_view_acquire(stage->window);
        int64_t version = atomic_load_explicit(&stage->published, memory_order_acquire);
        if (version > STAMP_SPAN && window_view_epoch(view) == window_epoch(stage->window)) {
            check_published(view, version, turn & 1);
            check_published(view, version - turn % STAMP_SPAN, turn & 2);
        }
        window_view_release(stage->window, view);
    }
    return NULL;
}

static void readers_beside_the_writer_see_whole_commits(void **state) {
    (void)state;
    struct stage stage = {.commits = 5000 * setting("KEEL_ROUNDS", ROUNDS) / 120};
    os_thread writer, readers[2];
    assert_int_equal(window_create(&stage.window), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(os_thread_start(&readers[i], "reader", read_commits, &stage), 0);
    assert_int_equal(os_thread_start(&writer, "writer", write_commits, &stage), 0);
    os_thread_join(writer);
    for (int i = 0; i < 2; i++)
        os_thread_join(readers[i]);
    window_check(stage.window);
    window_destroy(stage.window);
}

/* --- Speed, on demand --- */

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); /* others may use the machine too */
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct bytes bench_key(uint8_t text[16], uint64_t number) {
    uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 31)) * 0xbf58476d1ce4e5b9u;
    mixed ^= mixed >> 29;
    for (int i = 0; i < 16; i++)
        text[i] = (uint8_t)("0123456789abcdef"[mixed >> (60 - 4 * i) & 15]);
    return bytes_make(text, 16);
}

static void bench_inserts(struct window *window, uint64_t rows, unsigned generations) {
    uint8_t text[16], value[100] = {1};
    double start = now_s();
    for (uint64_t i = 0; i < rows; i++) {
        struct change change = {false, bench_key(text, i), bytes_make(value, sizeof value)};
        assert_int_equal(window_reserve(window, &change, 1), 0);
        window_apply(window, (int64_t)i / 10, &change, 1);
        if ((i + 1) % (rows / generations) == 0 && i + 1 < rows)
            assert_int_equal(window_rotate(window), 0);
    }
    double seconds = now_s() - start;
    printf("%u generations: insert %.0f/s, %.0f bytes a row\n", generations, (double)rows / seconds,
           (double)window_bytes(window) / (double)rows);
}

static void bench_gets(struct window_view *view, uint64_t rows, uint64_t first, const char *name) {
    uint8_t text[16];
    uint64_t found = 0, count = 1000000;
    double start = now_s();
    for (uint64_t i = 0; i < count; i++) {
        struct bytes value;
        found += window_view_get(view, INT64_MAX, bench_key(text, first + random_next() % rows), &value) == WINDOW_VALUE;
    }
    printf("  get, %s: %.0f ns (%.2f found)\n", name, (now_s() - start) * 1e9 / (double)count, (double)found / (double)count);
}

static void bench_scans(struct window_view *view, int64_t version, const char *name) {
    static uint8_t sink[128];
    struct bytes begin = BYTES_LITERAL(""), end = BYTES_LITERAL("\xff");
    for (int kind = 0; kind < 4; kind++) {
        struct window_cursor cursor;
        struct window_stretch row;
        window_cursor_open(&cursor, view, version);
        uint64_t rows = 0, stretches = 0;
        double start = now_s();
        struct bytes place = kind < 2 ? begin : end;
        while (bytes_compare(place, kind < 2 ? end : begin) != 0) {
            stretches++;
            if (kind == 0)
                window_cursor_forward(&cursor, place, end, &row);
            else if (kind == 2)
                window_cursor_backward(&cursor, place, begin, &row);
            else if (!(kind == 1 ? window_cursor_forward_value(&cursor, place, end, &row)
                                 : window_cursor_backward_value(&cursor, place, begin, &row)))
                break;
            if (row.answer == WINDOW_VALUE) {
                rows++;
                memcpy(sink, row.value.data, row.value.length);
            }
            place = kind < 2 ? row.end : row.begin;
        }
        double ns = (now_s() - start) * 1e9;
        const char *kinds[] = {"forward", "forward, values only", "backward", "backward, values only"};
        printf("  scan %s, %s: %.0f ns a row (%llu rows, %llu stretches), %.1f ms\n", name, kinds[kind],
               ns / (double)(rows ? rows : 1), (unsigned long long)rows, (unsigned long long)stretches, ns / 1e6);
    }
}

static void speed(void **state) {
    (void)state;
    if (!setting("KEEL_BENCH", 0))
        skip();
    for (unsigned generations = 1; generations <= 8; generations *= 8) {
        uint64_t rows = 1000000;
        struct window *window;
        assert_int_equal(window_create(&window), 0);
        bench_inserts(window, rows, generations);
        struct window_view *view = window_view_acquire(window);
        bench_gets(view, rows, 0, "present");
        bench_gets(view, rows, rows, "absent");
        bench_scans(view, INT64_MAX, "now");
        bench_scans(view, -1, "before all");
        window_view_release(window, view);
        struct change clear = {true, BYTES_LITERAL("5"), BYTES_LITERAL("6")};
        double start = now_s();
        assert_int_equal(window_reserve(window, &clear, 1), 0);
        window_apply(window, (int64_t)rows, &clear, 1);
        printf("  clear a sixteenth: %.1f ms\n", (now_s() - start) * 1e3);
        view = window_view_acquire(window);
        bench_gets(view, rows, rows, "absent, with gaps");
        window_view_release(window, view);
        window_destroy(window);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_model),
        cmocka_unit_test(a_change_half_done_is_not_seen),
        cmocka_unit_test(a_search_finds_its_way_through_a_split),
        cmocka_unit_test(an_old_view_keeps_its_answers),
        cmocka_unit_test(the_list_of_generations_is_bounded),
        cmocka_unit_test(reserving_is_enough),
        cmocka_unit_test(a_large_batch_fits_what_was_reserved),
        cmocka_unit_test(clearing_what_is_clear_costs_nothing),
        cmocka_unit_test(survives_every_failed_allocation),
        cmocka_unit_test(readers_beside_the_writer_see_whole_commits),
        cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, make_keys, NULL);
}
