/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base, both implementations against one suite: random writes compared with a sorted array,
 * opening what is ours and refusing what is not, failing memory, a full disk, readers beside the
 * writer, and kill -9 in the middle of commits.
 *
 * KEEL_SEED and KEEL_ROUNDS change the random tests; KEEL_LARGE_ROWS, KEEL_COMMITS and KEEL_KILLS
 * make the large transaction, the concurrent and the kill test longer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base.h"
#include "engine/base_pages.h"
#include "util/coding.h"
#include "util/memory.h"

/* ---- Random numbers, settings ---- */

static uint64_t random_state;

static uint64_t random_next(void) {
    random_state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static size_t random_below(size_t limit) {
    return (size_t)(random_next() % limit);
}

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* ---- The base under test ---- */

enum { SNAPSHOTS_MAX = 16 };

struct subject {
    const char *name;
    bool on_disk;
    char directory[256];
    struct base *base;
};

static const struct base_options options = {.snapshots_max = SNAPSHOTS_MAX, .sync = false};

static void subject_open(struct subject *subject) {
    char *message = NULL;
    fdb_error_t error = subject->on_disk
                            ? base_lmdb_open(subject->directory, &options, &subject->base, &message)
                            : base_memory_open(&options, &subject->base);
    if (message)
        print_error("%s\n", message);
    memory_free(message);
    assert_int_equal(error, ERROR_SUCCESS);
}

static void remove_directory(const char *directory) {
    DIR *stream = opendir(directory);
    if (!stream)
        return;
    struct dirent *entry;
    while ((entry = readdir(stream))) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    closedir(stream);
    rmdir(directory);
}

static int setup(void **state) {
    struct subject *subject = *state;
    const char *parent = getenv("TMPDIR");
    snprintf(subject->directory, sizeof subject->directory, "%s/keel-test-base-XXXXXX",
             parent ? parent : "/tmp");
    if (!mkdtemp(subject->directory))
        return -1;
    subject_open(subject);
    return 0;
}

static int teardown(void **state) {
    struct subject *subject = *state;
    memory_fail_after(-1);
    if (subject->base)
        base_close(subject->base);
    subject->base = NULL;
    remove_directory(subject->directory);
    return 0;
}

/* ---- The model: a sorted array ---- */

struct row {
    struct bytes key;
    struct bytes value;
};

struct model {
    struct row *rows;
    size_t count;
    size_t capacity;
};

static struct bytes copy_bytes(struct bytes source) {
    uint8_t *data = malloc(source.length + 1);
    if (source.length)
        memcpy(data, source.data, source.length);
    return bytes_make(data, source.length);
}

static void free_bytes(struct bytes bytes) {
    free((void *)(uintptr_t)bytes.data);
}

/* The first row at or after a key. */
static size_t model_find(const struct model *model, struct bytes key) {
    size_t low = 0, high = model->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bytes_compare(model->rows[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool model_has(const struct model *model, size_t at, struct bytes key) {
    return at < model->count && bytes_equal(model->rows[at].key, key);
}

static void model_set(struct model *model, struct bytes key, struct bytes value) {
    size_t at = model_find(model, key);
    if (model_has(model, at, key)) {
        free_bytes(model->rows[at].value);
        model->rows[at].value = copy_bytes(value);
        return;
    }
    if (model->count == model->capacity) {
        model->capacity = model->capacity ? 2 * model->capacity : 64;
        model->rows = realloc(model->rows, model->capacity * sizeof *model->rows);
    }
    memmove(model->rows + at + 1, model->rows + at, (model->count - at) * sizeof *model->rows);
    model->rows[at] = (struct row){copy_bytes(key), copy_bytes(value)};
    model->count++;
}

static void model_clear_range(struct model *model, struct bytes begin, struct bytes end) {
    size_t from = model_find(model, begin), to = model_find(model, end);
    if (from >= to)
        return;
    for (size_t i = from; i < to; i++) {
        free_bytes(model->rows[i].key);
        free_bytes(model->rows[i].value);
    }
    memmove(model->rows + from, model->rows + to, (model->count - to) * sizeof *model->rows);
    model->count -= to - from;
}

static void model_clear(struct model *model, struct bytes key) {
    struct bytes end = bytes_make(calloc(1, key.length + 1), key.length + 1);
    if (key.length)
        memcpy((void *)(uintptr_t)end.data, key.data, key.length);
    model_clear_range(model, key, end);
    free_bytes(end);
}

static void model_free(struct model *model) {
    for (size_t i = 0; i < model->count; i++) {
        free_bytes(model->rows[i].key);
        free_bytes(model->rows[i].value);
    }
    free(model->rows);
    *model = (struct model){0};
}

static void model_copy(struct model *to, const struct model *from) {
    model_free(to);
    for (size_t i = 0; i < from->count; i++)
        model_set(to, from->rows[i].key, from->rows[i].value);
}

/* ---- Random keys and values ---- */

enum { KEY_ROOM = 30000 };

/* Lengths around every place where a key continues in another sub-tree: 510, then every 502. */
static size_t random_length(void) {
    static const size_t lengths[] = {0,    1,    2,    3,    16,   100,  508,  509,
                                     510,  511,  512,  513,  514,  1000, 1010, 1011,
                                     1012, 1013, 1014, 1015, 1513, 1514, 1515, 1516};
    switch (random_below(12)) {
    case 0:
        return random_below(20);
    case 1:
        return 500 + random_below(30);
    case 2:
        return 510 + 502 * random_below(6) + random_below(3) - 1;
    case 3:
        return random_below(4) ? random_below(6000) : random_below(10001);
    case 4:
        return random_below(6) ? 600 + random_below(1500) : random_below(2) ? 10000 : KEY_ROOM;
    default:
        return lengths[random_below(sizeof lengths / sizeof *lengths)];
    }
}

/* Mostly one letter, few differences at few places: prefixes are shared over any length. */
static struct bytes random_key(uint8_t buffer[KEY_ROOM + 2], const struct model *model) {
    if (model->count &&
        random_below(4) ==
            0) { /* a relative of a key that exists: a prefix, an extension, itself */
        struct bytes key = model->rows[random_below(model->count)].key;
        size_t length = key.length;
        if (length)
            memcpy(buffer, key.data, length);
        switch (random_below(4)) {
        case 0:
            length = length ? random_below(length) : 0;
            break;
        case 1:
            while (length < KEY_ROOM && random_below(3))
                buffer[length++] = (uint8_t)("\0a\xff"[random_below(3)]);
            break;
        case 2:
            if (length)
                buffer[length - 1] = (uint8_t)(buffer[length - 1] + 1);
            break;
        default:
            break;
        }
        return bytes_make(buffer, length);
    }
    if (random_below(2)) { /* one of many short keys, so that trees grow and shrink */
        coding_put_u16_big(buffer, (uint16_t)random_below(6000));
        return bytes_make(buffer, 2);
    }
    size_t length = random_length();
    memset(buffer, 'a', length);
    static const size_t places[] = {0, 1, 508, 509, 510, 511, 1011, 1012, 1013, 1514};
    for (size_t changes = random_below(3); changes; changes--) {
        size_t place = random_below(4) ? places[random_below(sizeof places / sizeof *places)]
                                       : random_below(length + 1);
        if (place < length)
            buffer[place] = (uint8_t)("\0b\xff\x01"[random_below(4)]);
    }
    return bytes_make(buffer, length);
}

static struct bytes random_value(uint8_t buffer[100000]) {
    size_t length = random_below(20);
    if (random_below(10) == 0)
        length = random_below(3000);
    else if (random_below(100) == 0)
        length = random_below(2) ? 100000 : random_below(100001);
    uint64_t fill = random_next();
    for (size_t i = 0; i < length; i++)
        buffer[i] = (uint8_t)(fill >> (8 * (i & 7)));
    return bytes_make(buffer, length);
}

/* ---- Comparing a snapshot with the model ---- */

static void assert_row(struct base_snapshot *snapshot, const struct row *row) {
    struct bytes key, value;
    assert_int_equal(base_current(snapshot, &key, &value), ERROR_SUCCESS);
    assert_true(bytes_equal(key, row->key));
    assert_true(bytes_equal(value, row->value));
}

static void compare_scans(struct base_snapshot *snapshot, const struct model *model) {
    bool found;
    assert_int_equal(base_seek(snapshot, (struct bytes){0}, &found), ERROR_SUCCESS);
    for (size_t i = 0; i < model->count; i++) {
        assert_true(found);
        assert_row(snapshot, &model->rows[i]);
        assert_int_equal(base_next(snapshot, &found), ERROR_SUCCESS);
    }
    assert_false(found);
    uint8_t end[KEY_ROOM];
    memset(end, 0xff, sizeof end);
    assert_int_equal(base_seek_before(snapshot, bytes_make(end, sizeof end), &found),
                     ERROR_SUCCESS);
    for (size_t i = model->count; i-- > 0;) {
        assert_true(found);
        assert_row(snapshot, &model->rows[i]);
        assert_int_equal(base_previous(snapshot, &found), ERROR_SUCCESS);
    }
    assert_false(found);
}

/* A look-up and a walk to and fro from a random key. */
static void compare_key(struct base_snapshot *snapshot, const struct model *model,
                        struct bytes key) {
    size_t at = model_find(model, key);
    struct bytes value = BYTES_LITERAL("untouched");
    bool present, found;
    assert_int_equal(base_get(snapshot, key, &value, &present), ERROR_SUCCESS);
    assert_int_equal(present, model_has(model, at, key));
    if (present)
        assert_true(bytes_equal(value, model->rows[at].value));
    bool before = random_below(2);
    assert_int_equal(before ? base_seek_before(snapshot, key, &found)
                            : base_seek(snapshot, key, &found),
                     ERROR_SUCCESS);
    size_t position = before ? at - 1 : at; /* wraps to a huge number before the first */
    for (size_t steps = random_below(12);; steps--) {
        assert_int_equal(found, position < model->count);
        if (!found || !steps)
            return;
        assert_row(snapshot, &model->rows[position]);
        bool back = random_below(2);
        assert_int_equal(back ? base_previous(snapshot, &found) : base_next(snapshot, &found),
                         ERROR_SUCCESS);
        position += back ? SIZE_MAX : 1;
    }
}

static int64_t model_bytes(const struct model *model, struct bytes begin, struct bytes end) {
    int64_t sum = 0;
    for (size_t i = model_find(model, begin); i < model_find(model, end); i++)
        sum += (int64_t)(model->rows[i].key.length + model->rows[i].value.length);
    return sum;
}

static void compare(struct base_snapshot *snapshot, const struct model *model) {
    static uint8_t one[KEY_ROOM + 2], two[KEY_ROOM + 2];
    compare_scans(snapshot, model);
    for (int i = 0; i < 60; i++)
        compare_key(snapshot, model, random_key(one, model));
    struct bytes begin = random_key(one, model), end = random_key(two, model);
    int64_t bytes;
    assert_int_equal(base_estimate_bytes(snapshot, begin, end, &bytes), ERROR_SUCCESS);
    if (bytes_compare(begin, end) >= 0)
        assert_int_equal(bytes, 0);
    else if (model->count < 900)
        assert_int_equal(bytes, model_bytes(model, begin, end));
}

/* ---- Model tests ---- */

static bool clears_allowed;

static void random_write(struct subject *subject, struct model *model) {
    static uint8_t one[KEY_ROOM + 2], two[KEY_ROOM + 2], data[100000];
    size_t kind = random_below(100);
    struct bytes key = random_key(one, model);
    if (kind < (clears_allowed ? 45 : 80)) {
        struct bytes value = random_value(data);
        assert_int_equal(base_write_set(subject->base, key, value), ERROR_SUCCESS);
        model_set(model, key, value);
    } else if (kind < 92) {
        assert_int_equal(base_write_clear(subject->base, key), ERROR_SUCCESS);
        model_clear(model, key);
    } else {
        struct bytes end = random_key(two, model);
        if (random_below(4)) { /* narrow more often than not, or nothing would ever grow */
            size_t at = model_find(model, key) + 1 + random_below(10);
            if (at < model->count) {
                memcpy(two, model->rows[at].key.data, model->rows[at].key.length);
                end = bytes_make(two, model->rows[at].key.length);
            }
        } else if (!clears_allowed || random_below(8)) {
            return;
        }
        assert_int_equal(base_write_clear_range(subject->base, key, end), ERROR_SUCCESS);
        model_clear_range(model, key, end);
    }
}

/* The reader of LMDB's pages finds nothing wrong with a file that is whole. */
static void assert_pages(const struct subject *subject) {
    char path[300];
    struct os_file file;
    snprintf(path, sizeof path, "%s/base.keel", subject->directory);
    assert_int_equal(os_file_open(path, false, &file), ERROR_SUCCESS);
    assert_int_equal(base_pages_check(&file), ERROR_SUCCESS);
    assert_int_equal(os_file_close(&file), ERROR_SUCCESS);
}

static void test_model(void **state) {
    struct subject *subject = *state;
    long rounds = setting("KEEL_ROUNDS", 120);
    random_state = (uint64_t)setting("KEEL_SEED", 1);
    print_message("seed %ld, %ld rounds (KEEL_SEED, KEEL_ROUNDS)\n", (long)random_state, rounds);
    struct model now = {0}, next = {0}, old = {0};
    struct base_snapshot *snapshot, *held;
    int64_t version = 0, seen, held_version;
    size_t most = 0;
    assert_int_equal(base_snapshot_create(subject->base, &snapshot), ERROR_SUCCESS);
    assert_int_equal(base_snapshot_create(subject->base, &held), ERROR_SUCCESS);
    assert_int_equal(base_snapshot_renew(held, &held_version), ERROR_SUCCESS);
    for (long round = 0; round < rounds; round++) {
        model_copy(&next, &now);
        assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
        clears_allowed = round % 40 >= 25; /* grows for a while, then shrinks */
        for (size_t writes = random_below(random_below(4) ? 60 : 400); writes; writes--)
            random_write(subject, &next);
        if (random_below(5) == 0) {
            base_write_abort(subject->base);
        } else {
            version += 1 + (int64_t)random_below(1000);
            assert_int_equal(base_write_commit(subject->base, version), ERROR_SUCCESS);
            model_copy(&now, &next);
        }
        most = now.count > most ? now.count : most;
        assert_int_equal(base_version(subject->base), version);
        assert_int_equal(base_snapshot_renew(snapshot, &seen), ERROR_SUCCESS);
        assert_int_equal(seen, version);
        compare(snapshot, &now);
        compare_scans(held, &old); /* still as it was when it was renewed */
        if (random_below(3) == 0)
            base_snapshot_reset(snapshot);
        if (random_below(6) == 0) {
            assert_int_equal(base_snapshot_renew(held, &held_version), ERROR_SUCCESS);
            model_copy(&old, &now);
        }
        if (round % 8 == 0)
            assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
        if (subject->on_disk && random_below(10) == 0) {
            base_snapshot_destroy(snapshot);
            base_snapshot_destroy(held);
            base_close(subject->base);
            assert_pages(subject);
            subject_open(subject);
            assert_int_equal(base_version(subject->base), version);
            assert_int_equal(base_snapshot_create(subject->base, &snapshot), ERROR_SUCCESS);
            assert_int_equal(base_snapshot_create(subject->base, &held), ERROR_SUCCESS);
            assert_int_equal(base_snapshot_renew(held, &held_version), ERROR_SUCCESS);
            model_copy(&old, &now);
        }
    }
    print_message("%zu rows at most\n", most);
    base_snapshot_destroy(snapshot);
    base_snapshot_destroy(held);
    model_free(&now);
    model_free(&next);
    model_free(&old);
}

/* Everything can be taken out again, and nothing stays behind. */
static void test_empties(void **state) {
    struct subject *subject = *state;
    static uint8_t key[KEY_ROOM];
    memset(key, 'k', sizeof key);
    static const size_t lengths[] = {0, 1, 509, 510, 511, 1012, 1013, 10000, KEY_ROOM};
    size_t count = sizeof lengths / sizeof *lengths;
    for (int way = 0; way < 3; way++) {
        assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(
                base_write_set(subject->base, bytes_make(key, lengths[i]), BYTES_LITERAL("v")),
                ERROR_SUCCESS);
        assert_int_equal(base_write_commit(subject->base, 2 * way + 1), ERROR_SUCCESS);
        assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
        assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
        for (size_t i = 0; way < 2 && i < count; i++) {
            struct bytes gone = bytes_make(key, lengths[way == 0 ? i : count - 1 - i]);
            assert_int_equal(base_write_clear(subject->base, gone), ERROR_SUCCESS);
        }
        if (way == 2)
            assert_int_equal(
                base_write_clear_range(subject->base, (struct bytes){0}, BYTES_LITERAL("\xff")),
                ERROR_SUCCESS);
        assert_int_equal(base_write_commit(subject->base, 2 * way + 2), ERROR_SUCCESS);
        assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
        struct base_snapshot *snapshot;
        int64_t version;
        bool found;
        assert_int_equal(base_snapshot_create(subject->base, &snapshot), ERROR_SUCCESS);
        assert_int_equal(base_snapshot_renew(snapshot, &version), ERROR_SUCCESS);
        assert_int_equal(base_seek(snapshot, (struct bytes){0}, &found), ERROR_SUCCESS);
        assert_false(found);
        base_snapshot_destroy(snapshot);
    }
}

/* ---- Large transactions, estimates ---- */

static struct bytes numbered_key(uint8_t buffer[16], uint64_t number) {
    coding_put_u64_big(buffer,
                       number * UINT64_C(0x9E3779B97F4A7C15)); /* scattered, all different */
    coding_put_u64_big(buffer + 8, number);
    return bytes_make(buffer, 16);
}

static int64_t estimate(struct base *base, struct bytes begin, struct bytes end) {
    struct base_snapshot *snapshot;
    int64_t version, bytes;
    assert_int_equal(base_snapshot_create(base, &snapshot), ERROR_SUCCESS);
    assert_int_equal(base_snapshot_renew(snapshot, &version), ERROR_SUCCESS);
    assert_int_equal(base_estimate_bytes(snapshot, begin, end, &bytes), ERROR_SUCCESS);
    base_snapshot_destroy(snapshot);
    return bytes;
}

static void test_large(void **state) {
    struct subject *subject = *state;
    long count = setting("KEEL_LARGE_ROWS", 60000);
    uint8_t key[16], value[100] = {0};
    assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
    for (long i = 0; i < count; i++)
        assert_int_equal(base_write_set(subject->base, numbered_key(key, (uint64_t)i),
                                        bytes_make(value, sizeof value)),
                         ERROR_SUCCESS);
    assert_int_equal(base_write_commit(subject->base, 1), ERROR_SUCCESS);
    assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
    assert_true(base_bytes(subject->base) > (uint64_t)count * 116);

    int64_t exact = count * 116;
    int64_t whole =
        estimate(subject->base, (struct bytes){0}, BYTES_LITERAL("\xff\xff\xff\xff\xff"));
    int64_t quarter = estimate(subject->base, BYTES_LITERAL("\x40"), BYTES_LITERAL("\x80"));
    print_message("estimates: whole %.2f, quarter %.2f of the truth\n",
                  (double)whole / (double)exact, (double)quarter / (double)exact * 4);
    assert_in_range(whole, exact / 2, exact * 2);
    assert_in_range(quarter, exact / 8, exact / 2);

    assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
    assert_int_equal(
        base_write_clear_range(subject->base, BYTES_LITERAL("\x10"), BYTES_LITERAL("\xf0")),
        ERROR_SUCCESS);
    assert_int_equal(base_write_commit(subject->base, 2), ERROR_SUCCESS);
    assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
    struct base_snapshot *snapshot;
    int64_t version;
    bool present;
    struct bytes found;
    assert_int_equal(base_snapshot_create(subject->base, &snapshot), ERROR_SUCCESS);
    assert_int_equal(base_snapshot_renew(snapshot, &version), ERROR_SUCCESS);
    for (long i = 0; i < count; i++) {
        numbered_key(key, (uint64_t)i);
        assert_int_equal(base_get(snapshot, bytes_make(key, 16), &found, &present), ERROR_SUCCESS);
        assert_int_equal(present, key[0] < 0x10 || key[0] >= 0xf0);
    }
    base_snapshot_destroy(snapshot);
}

/* Keys in clusters, tiny and huge, far apart: what defeats interpolation. */
static void test_estimate_clusters(void **state) {
    struct subject *subject = *state;
    static const int sizes[] = {3, 20000, 10, 4000, 1};
    int64_t exact = 0;
    assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
    for (size_t cluster = 0; cluster < 5; cluster++) {
        for (int i = 0; i < sizes[cluster]; i++) {
            char key[64];
            int length = snprintf(key, sizeof key, "%s/a long shared prefix/%zu/%d",
                                  cluster == 1 ? "app" : "zoo", cluster, i);
            assert_int_equal(base_write_set(subject->base, bytes_make(key, (size_t)length),
                                            BYTES_LITERAL("0123456789")),
                             ERROR_SUCCESS);
            exact += length + 10;
        }
    }
    assert_int_equal(base_write_commit(subject->base, 1), ERROR_SUCCESS);
    int64_t guess = estimate(subject->base, (struct bytes){0}, BYTES_LITERAL("\xff"));
    print_message("estimate: %.2f of the truth\n", (double)guess / (double)exact);
    assert_in_range(guess, exact / 2, exact * 2);
}

/* ---- Failing memory ---- */

static void test_memory_fails(void **state) {
    struct subject *subject = *state;
    random_state = 7;
    struct model now = {0};
    int64_t version = 1;
    static uint8_t key[KEY_ROOM + 2], data[100000];
    assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
    for (int i = 0; i < 150; i++) {
        struct bytes k = random_key(key, &now), v = random_value(data);
        assert_int_equal(base_write_set(subject->base, k, v), ERROR_SUCCESS);
        model_set(&now, k, v);
    }
    assert_int_equal(base_write_commit(subject->base, version), ERROR_SUCCESS);
    bool done = false;
    for (long failing = 0; !done; failing++) {
        struct model next = {0};
        model_copy(&next, &now);
        random_state = 99;
        memory_fail_after(failing);
        fdb_error_t error = base_write_begin(subject->base);
        for (int i = 0; !error && i < 12; i++) {
            struct bytes k = random_key(key, &now), v = random_value(data);
            error = i % 4 == 3 ? base_write_clear(subject->base, k)
                               : base_write_set(subject->base, k, v);
            if (!error && i % 4 == 3)
                model_clear(&next, k);
            else if (!error)
                model_set(&next, k, v);
            if (!error && i == 8) {
                error = base_write_clear_range(subject->base, BYTES_LITERAL("aaaaab"),
                                               BYTES_LITERAL("b"));
                model_clear_range(&next, BYTES_LITERAL("aaaaab"), BYTES_LITERAL("b"));
            }
        }
        if (!error)
            error = base_write_commit(subject->base, version + 1);
        memory_fail_after(-1);
        done = !error;
        if (error) {
            assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
            base_write_abort(subject->base);
        }
        struct base_snapshot *snapshot;
        int64_t seen;
        assert_int_equal(base_snapshot_create(subject->base, &snapshot), ERROR_SUCCESS);
        assert_int_equal(base_snapshot_renew(snapshot, &seen), ERROR_SUCCESS);
        assert_int_equal(seen, done ? version + 1 : version);
        compare_scans(snapshot, done ? &next : &now);
        base_snapshot_destroy(snapshot);
        assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
        model_free(&next);
    }
    model_free(&now);
}

static void test_memory_fails_reading(void **state) {
    struct subject *subject = *state;
    static uint8_t key[2000];
    memset(key, 'k', sizeof key);
    assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
    assert_int_equal(
        base_write_set(subject->base, bytes_make(key, sizeof key), BYTES_LITERAL("long")),
        ERROR_SUCCESS);
    assert_int_equal(base_write_commit(subject->base, 1), ERROR_SUCCESS);
    for (long failing = 0;; failing++) {
        struct base_snapshot *snapshot = NULL;
        int64_t version;
        bool found;
        memory_fail_after(failing);
        fdb_error_t error = base_snapshot_create(subject->base, &snapshot);
        if (!error)
            error = base_snapshot_renew(snapshot, &version);
        if (!error)
            error = base_seek(snapshot, BYTES_LITERAL("a"), &found);
        memory_fail_after(-1);
        if (snapshot)
            base_snapshot_destroy(snapshot);
        if (!error)
            break;
        assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
    }
}

static void test_snapshots_max(void **state) {
    struct subject *subject = *state;
    struct base_snapshot *snapshots[SNAPSHOTS_MAX];
    int64_t version;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SNAPSHOTS_MAX; i++) {
            assert_int_equal(base_snapshot_create(subject->base, &snapshots[i]), ERROR_SUCCESS);
            assert_int_equal(base_snapshot_renew(snapshots[i], &version), ERROR_SUCCESS);
        }
        for (int i = 0; i < SNAPSHOTS_MAX; i++)
            base_snapshot_destroy(snapshots[i]);
    }
}

/* ---- Readers beside the writer ---- */

enum { SHARED_ROWS = 300, READERS = 3 };

struct shared {
    struct base *base;
    _Atomic bool stop;
};

static struct bytes shared_key(char buffer[1200], int row) {
    memset(buffer, 'p', 1200);
    int length = snprintf(buffer, 16, "row%06d", row);
    buffer[length] = 'p';
    return bytes_make(buffer, row % 10 == 0 ? 1100 : (size_t)length);
}

/* For threads other than the test's own, which cmocka must not unwind. */
#define require(condition)                                                                         \
    ((condition) ? (void)0                                                                         \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

/*
 * Rows whose number is even are there at every version; odd ones when the version's parity says so.
 * All values are the version.
 */
static void *read_shared(void *argument) {
    struct shared *shared = argument;
    struct base_snapshot *snapshot;
    require(base_snapshot_create(shared->base, &snapshot) == ERROR_SUCCESS);
    for (unsigned round = 0; !atomic_load(&shared->stop); round++) {
        int64_t version;
        bool found, present;
        char buffer[1200];
        struct bytes key, value;
        require(base_snapshot_renew(snapshot, &version) == ERROR_SUCCESS);
        bool forward = round & 1;
        int expected = version == 0 ? 0 : version % 2 ? SHARED_ROWS : SHARED_ROWS / 2, rows = 0;
        fdb_error_t error = forward ? base_seek(snapshot, (struct bytes){0}, &found)
                                    : base_seek_before(snapshot, BYTES_LITERAL("\xff"), &found);
        require(error == ERROR_SUCCESS);
        while (found) {
            int number = forward ? rows : expected - 1 - rows;
            if (version % 2 == 0)
                number *= 2;
            require(base_current(snapshot, &key, &value) == ERROR_SUCCESS);
            require(bytes_equal(key, shared_key(buffer, number)));
            require(value.length >= 8 && (int64_t)coding_get_u64(value.data) == version);
            rows++;
            error = forward ? base_next(snapshot, &found) : base_previous(snapshot, &found);
            require(error == ERROR_SUCCESS);
        }
        require(rows == expected);
        require(base_get(snapshot, shared_key(buffer, 8), &value, &present) == ERROR_SUCCESS);
        require(present == (version != 0));
        base_snapshot_reset(snapshot);
    }
    base_snapshot_destroy(snapshot);
    return NULL;
}

static void test_readers_beside_writer(void **state) {
    struct subject *subject = *state;
    struct shared shared = {.base = subject->base};
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_shared, &shared), 0);
    uint8_t value[600] = {0};
    long commits = setting("KEEL_COMMITS", 150);
    for (int64_t version = 1; version <= commits; version++) {
        char buffer[1200];
        coding_put_u64(value, (uint64_t)version);
        assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
        for (int row = 0; row < SHARED_ROWS; row++) {
            struct bytes key = shared_key(buffer, row);
            fdb_error_t error =
                row % 2 && version % 2 == 0
                    ? base_write_clear(subject->base, key)
                    : base_write_set(subject->base, key,
                                     bytes_make(value, 8 + (size_t)(version % 500)));
            assert_int_equal(error, ERROR_SUCCESS);
        }
        assert_int_equal(base_write_commit(subject->base, version), ERROR_SUCCESS);
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
}

/* Does a snapshot hold the version it says it has? */
static void *renew_shared(void *argument) {
    struct shared *shared = argument;
    struct base_snapshot *snapshot;
    require(base_snapshot_create(shared->base, &snapshot) == ERROR_SUCCESS);
    while (!atomic_load(&shared->stop)) {
        int64_t version;
        struct bytes value;
        bool present;
        require(base_snapshot_renew(snapshot, &version) == ERROR_SUCCESS);
        require(base_get(snapshot, BYTES_LITERAL("k"), &value, &present) == ERROR_SUCCESS);
        require((present ? (int64_t)coding_get_u64(value.data) : 0) == version);
        base_snapshot_reset(snapshot);
    }
    base_snapshot_destroy(snapshot);
    return NULL;
}

/* More threads than cores, so that some are held up in the middle of renewing while others commit. */
static void test_renewing_beside_writer(void **state) {
    struct subject *subject = *state;
    struct shared shared = {.base = subject->base};
    pthread_t threads[4 * READERS];
    for (int i = 0; i < 4 * READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, renew_shared, &shared), 0);
    long commits = 20 * setting("KEEL_COMMITS", 150);
    for (int64_t version = 1; version <= commits; version++) {
        uint8_t value[8];
        coding_put_u64(value, (uint64_t)version);
        assert_int_equal(base_write_begin(subject->base), ERROR_SUCCESS);
        assert_int_equal(base_write_set(subject->base, BYTES_LITERAL("k"), bytes_make(value, 8)),
                         ERROR_SUCCESS);
        assert_int_equal(base_write_commit(subject->base, version), ERROR_SUCCESS);
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < 4 * READERS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- Files ---- */

static fdb_error_t fill(struct base *base, int64_t version, int rows, uint8_t byte);

static void base_path(const struct subject *subject, const char *suffix, char path[300]) {
    snprintf(path, 300, "%s/base.keel%s", subject->directory, suffix);
}

struct contents {
    uint8_t *data;
    size_t length;
};

static struct contents read_contents(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct stat status;
    assert_int_equal(fstat(fileno(file), &status), 0);
    struct contents contents = {malloc((size_t)status.st_size + 1), (size_t)status.st_size};
    assert_int_equal(fread(contents.data, 1, contents.length, file), contents.length);
    fclose(file);
    return contents;
}

static void write_contents(const char *path, const void *data, size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, length, file), length);
    fclose(file);
}

/* Closes the base and takes its lock file away, so that a refused open can be seen to make none. */
static void close_quietly(struct subject *subject) {
    char path[300];
    base_close(subject->base);
    subject->base = NULL;
    base_path(subject, "-lock", path);
    unlink(path);
}

static void assert_refused(struct subject *subject, fdb_error_t expected) {
    char path[300], lock_path[300];
    base_path(subject, "", path);
    base_path(subject, "-lock", lock_path);
    struct contents before = read_contents(path);
    struct base *base = NULL;
    char *message = NULL;
    assert_int_equal(base_lmdb_open(subject->directory, &options, &base, &message), expected);
    assert_null(base);
    assert_non_null(message);
    assert_non_null(strstr(message, path));
    memory_free(message);
    struct contents after = read_contents(path);
    assert_int_equal(before.length, after.length);
    assert_memory_equal(before.data, after.data, before.length);
    assert_int_not_equal(access(lock_path, F_OK), 0);
    free(before.data);
    free(after.data);
}

static void make_foreign_lmdb(const char *path) {
    MDB_env *environment;
    MDB_txn *transaction;
    MDB_dbi tree;
    MDB_val key = {5, "hello"}, value = {5, "world"};
    assert_int_equal(mdb_env_create(&environment), 0);
    assert_int_equal(mdb_env_open(environment, path, MDB_NOSUBDIR | MDB_NOLOCK, 0600), 0);
    assert_int_equal(mdb_txn_begin(environment, NULL, 0, &transaction), 0);
    assert_int_equal(mdb_dbi_open(transaction, NULL, 0, &tree), 0);
    assert_int_equal(mdb_put(transaction, tree, &key, &value, 0), 0);
    assert_int_equal(mdb_txn_commit(transaction), 0);
    mdb_env_close(environment);
}

static void test_foreign_files(void **state) {
    struct subject *subject = *state;
    char path[300];
    base_path(subject, "", path);
    close_quietly(subject);
    write_contents(path, "shopping list", 13);
    assert_refused(subject, ERROR_FORMAT_FOREIGN);
    uint8_t *noise = calloc(1, 50000);
    write_contents(path, noise, 50000);
    assert_refused(subject, ERROR_FORMAT_FOREIGN);
    free(noise);
    unlink(path);
    make_foreign_lmdb(path);
    assert_refused(subject, ERROR_FORMAT_FOREIGN);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    char *message = NULL;
    assert_int_equal(base_lmdb_open(subject->directory, &options, &subject->base, &message),
                     ERROR_FORMAT_FOREIGN);
    memory_free(message);
    rmdir(path);
    write_contents(path, "", 0); /* holds nothing: ours to make */
    subject_open(subject);
    assert_int_equal(base_version(subject->base), 0);
}

/* Puts a number at an offset of every copy of the record there is in the file. */
static void change_record(struct subject *subject, size_t offset, uint32_t number) {
    char path[300];
    base_path(subject, "", path);
    struct contents contents = read_contents(path);
    int changed = 0;
    for (size_t i = 0; i + 32 <= contents.length; i++) {
        if (memcmp(contents.data + i, "KeelBase", 8) == 0) {
            coding_put_u32(contents.data + i + offset, number);
            changed++;
        }
    }
    assert_true(changed);
    write_contents(path, contents.data, contents.length);
    free(contents.data);
}

static void test_other_formats(void **state) {
    struct subject *subject = *state;
    close_quietly(subject);
    change_record(subject, 8, 3);
    assert_refused(subject, ERROR_FORMAT_NEWER);
    change_record(subject, 8, 1);
    assert_refused(subject, ERROR_FORMAT_OLDER);
    change_record(subject, 8, 2);
    subject_open(subject);
    close_quietly(subject);
    change_record(subject, 16, 77); /* the version of the base */
    assert_refused(subject, ERROR_DATABASE_DAMAGED);
}

/* Flips a bit of every place in the file that holds these bytes. */
static void flip_bytes(struct subject *subject, const char *bytes, size_t at) {
    char path[300];
    base_path(subject, "", path);
    struct contents contents = read_contents(path);
    size_t length = strlen(bytes);
    int changed = 0;
    for (size_t i = 0; i + length <= contents.length; i++) {
        if (memcmp(contents.data + i, bytes, length) == 0) {
            contents.data[i + at] ^= 0x10;
            changed++;
        }
    }
    assert_true(changed);
    write_contents(path, contents.data, contents.length);
    free(contents.data);
}

enum { DAMAGED_ROWS = 6 };

/* A key that is short, or as long as a chunk, or goes through sub-trees; and its value, which may need pages of its own. */
static struct row damaged_row(int number, char key[3000], char value[9000]) {
    static const int key_bytes[DAMAGED_ROWS] = {8, 8, 509, 510, 700, 2500};
    static const int value_bytes[DAMAGED_ROWS] = {30, 8000, 30, 30, 8000, 30};
    memset(key, 'k', 3000);
    snprintf(key, 3000, "row-%d", number);
    key[5] = 'k';
    memset(value, 'v', 9000);
    snprintf(value, 9000, "value-%d-begins", number);
    value[14] = 'v';
    return (struct row){bytes_make(key, (size_t)key_bytes[number]), bytes_make(value, (size_t)value_bytes[number])};
}

static fdb_error_t get_row(struct base_snapshot *snapshot, struct row row) {
    struct bytes value;
    bool present;
    fdb_error_t error = base_get(snapshot, row.key, &value, &present);
    if (!error)
        assert_true(present && bytes_equal(value, row.value));
    return error;
}

/* How many rows a walk meets before it ends, and how. */
static int walk(struct base_snapshot *snapshot, bool forward, fdb_error_t *error) {
    int rows = 0;
    bool found = false;
    *error = forward ? base_seek(snapshot, bytes_make("", 0), &found)
                     : base_seek_before(snapshot, bytes_make("\xff", 1), &found);
    while (!*error && found) {
        rows++;
        *error = forward ? base_next(snapshot, &found) : base_previous(snapshot, &found);
    }
    return rows;
}

static int count_lines(const char *path) {
    int lines = 0;
    FILE *file = fopen(path, "r");
    for (int c; file && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

/* A row that changed on disk is never served; all others are. */
static void test_damaged_rows(void **state) {
    struct subject *subject = *state;
    char key[3000], value[9000], log[400], text[40];
    for (int i = 0; i < DAMAGED_ROWS; i++) {
        assert_int_equal(base_write_begin(subject->base), 0);
        struct row row = damaged_row(i, key, value);
        assert_int_equal(base_write_set(subject->base, row.key, row.value), 0);
        assert_int_equal(base_write_commit(subject->base, i + 1), 0);
    }
    snprintf(log, sizeof log, "%s/log", subject->directory);
    setenv("KEEL_LOG", log, 1);
    for (int bad = 0; bad < DAMAGED_ROWS; bad++) {
        unlink(log);
        close_quietly(subject);
        snprintf(text, sizeof text, "value-%d-", bad);
        flip_bytes(subject, text, 6);
        subject_open(subject);
        struct base_snapshot *snapshot;
        int64_t version;
        fdb_error_t error;
        assert_int_equal(base_snapshot_create(subject->base, &snapshot), 0);
        assert_int_equal(base_snapshot_renew(snapshot, &version), 0);
        for (int i = 0; i < DAMAGED_ROWS; i++)
            assert_int_equal(get_row(snapshot, damaged_row(i, key, value)), i == bad ? ERROR_ROW_DAMAGED : 0);
        assert_int_equal(walk(snapshot, true, &error), bad);
        assert_int_equal(error, ERROR_ROW_DAMAGED);
        assert_int_equal(walk(snapshot, false, &error), DAMAGED_ROWS - 1 - bad);
        assert_int_equal(error, ERROR_ROW_DAMAGED);
        assert_true(atomic_load(&subject->base->damaged_reads) >= 3);
        assert_int_equal(count_lines(log), 1);
        assert_int_equal(base_check(subject->base), ERROR_DATABASE_DAMAGED);
        base_snapshot_destroy(snapshot);
        close_quietly(subject);
        text[6] ^= 0x10;
        flip_bytes(subject, text, 6); /* whole again */
        subject_open(subject);
    }
    unsetenv("KEEL_LOG");
    assert_int_equal(base_check(subject->base), 0);
}

/* Scans mark pages that are whole and trust them: one that is not is never among them. */
static void test_damage_among_many(void **state) {
    enum { ROWS = 2000, BAD = 1111 };
    struct subject *subject = *state;
    char key[20], value[60];
    assert_int_equal(base_write_begin(subject->base), 0);
    for (int i = 0; i < ROWS; i++) {
        snprintf(key, sizeof key, "key-%05d", i);
        snprintf(value, sizeof value, "value-%05d-of-many-rows", i);
        assert_int_equal(base_write_set(subject->base, bytes_make(key, strlen(key)), bytes_make(value, strlen(value))), 0);
    }
    assert_int_equal(base_write_commit(subject->base, 1), 0);
    struct base_snapshot *snapshot;
    int64_t version;
    fdb_error_t error;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(base_snapshot_create(subject->base, &snapshot), 0);
        for (int again = 0; again < 4; again++) {
            if (again != 2)
                assert_int_equal(base_snapshot_renew(snapshot, &version), 0);
            assert_int_equal(walk(snapshot, true, &error), round ? BAD : ROWS);
            assert_int_equal(error, round ? ERROR_ROW_DAMAGED : 0);
            assert_int_equal(walk(snapshot, false, &error), round ? ROWS - 1 - BAD : ROWS);
            assert_int_equal(error, round ? ERROR_ROW_DAMAGED : 0);
        }
        base_snapshot_destroy(snapshot);
        close_quietly(subject);
        snprintf(value, sizeof value, "value-%05d-of-many-rows", BAD);
        if (!round)
            flip_bytes(subject, value, 20);
        subject_open(subject);
    }
}

/* Where the making of the base was interrupted, or LMDB's lock file is stale, it opens. */
static void test_leftovers(void **state) {
    struct subject *subject = *state;
    char path[300];
    base_close(subject->base);
    subject->base = NULL;
    base_path(subject, "", path);
    unlink(path);
    base_path(subject, ".new", path);
    write_contents(path, "half", 4);
    base_path(subject, "-lock", path);
    write_contents(path, "stale", 5);
    subject_open(subject);
    assert_int_equal(base_version(subject->base), 0);
    assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
}

/* A copy of the file that was interrupted anywhere is refused as damaged; it does not kill us. */
static void test_cut_file(void **state) {
    struct subject *subject = *state;
    char path[300];
    base_path(subject, "", path);
    assert_int_equal(fill(subject->base, 1, 500, 'a'), ERROR_SUCCESS);
    assert_int_equal(fill(subject->base, 2, 300, 'b'), ERROR_SUCCESS);
    close_quietly(subject);
    struct contents contents = read_contents(path);
    int refused = 0;
    for (size_t length = contents.length - 1; length > 8192; length -= 40961) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        assert_refused(subject, ERROR_DATABASE_DAMAGED);
        refused++;
        if (length < 60000)
            break;
    }
    assert_true(refused > 10);
    write_contents(path, contents.data, contents.length);
    free(contents.data);
    subject_open(subject);
    assert_int_equal(base_version(subject->base), 2);
    assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
}

/* ---- A disk that fills up: a limit on the size of files stands in for it ---- */

static fdb_error_t fill(struct base *base, int64_t version, int rows, uint8_t byte) {
    static uint8_t value[3000];
    memset(value, byte, sizeof value);
    uint8_t key[16];
    fdb_error_t error = base_write_begin(base);
    for (int i = 0; !error && i < rows; i++)
        error =
            base_write_set(base, numbered_key(key, (uint64_t)i), bytes_make(value, sizeof value));
    if (!error)
        error = base_write_commit(base, version);
    if (error)
        base_write_abort(base);
    return error;
}

static void test_disk_full(void **state) {
    struct subject *subject = *state;
    struct rlimit before, limited;
    assert_int_equal(fill(subject->base, 1, 50, 'a'), ERROR_SUCCESS);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (rlim_t slack = 0; slack < 3; slack++) {
        limited = before;
        limited.rlim_cur =
            1000000 + slack * 1365; /* LMDB is stopped between pages and in the middle of one */
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limited), 0);
        fdb_error_t error = fill(subject->base, 2, 2000, 'b');
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(error, ERROR_DISK_FULL);
        assert_int_equal(base_version(subject->base), 1);
        assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(fill(subject->base, 3, 2000, 'c'), ERROR_SUCCESS); /* room again */
    assert_int_equal(base_version(subject->base), 3);
    assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
}

/* ---- kill -9 ---- */

enum { KILL_ROWS = 200 };

/* Commits version after version, every row holding it, and reports each over the pipe. */
static void commit_until_killed(const char *directory, int pipe_out) {
    struct base *base;
    char *message;
    struct base_options synced = {.snapshots_max = 4, .sync = true};
    if (base_lmdb_open(directory, &synced, &base, &message))
        _exit(1);
    for (int64_t version = base_version(base) + 1;; version++) {
        uint8_t value[900], key[16];
        char buffer[1200];
        memset(value, (int)(version & 0xff), sizeof value);
        coding_put_u64(value, (uint64_t)version);
        if (base_write_begin(base))
            _exit(2);
        for (int row = 0; row < KILL_ROWS; row++) {
            struct bytes name =
                row % 2 ? numbered_key(key, (uint64_t)row) : shared_key(buffer, row);
            if (base_write_set(base, name,
                               bytes_make(value, 8 + (size_t)((version * 37 + row) % 800))))
                _exit(3);
        }
        if (base_write_commit(base, version))
            _exit(4);
        if (write(pipe_out, &version, sizeof version) != sizeof version)
            _exit(5);
    }
}

static void check_after_kill(struct subject *subject, int64_t acknowledged) {
    subject_open(subject);
    int64_t version = base_version(subject->base), seen;
    assert_in_range(version, acknowledged, acknowledged + 1);
    assert_int_equal(base_check(subject->base), ERROR_SUCCESS);
    struct base_snapshot *snapshot;
    bool found;
    int rows = 0;
    assert_int_equal(base_snapshot_create(subject->base, &snapshot), ERROR_SUCCESS);
    assert_int_equal(base_snapshot_renew(snapshot, &seen), ERROR_SUCCESS);
    assert_int_equal(seen, version);
    assert_int_equal(base_seek(snapshot, (struct bytes){0}, &found), ERROR_SUCCESS);
    for (; found; rows++) {
        struct bytes key, value;
        assert_int_equal(base_current(snapshot, &key, &value), ERROR_SUCCESS);
        assert_int_equal(coding_get_u64(value.data), version);
        assert_int_equal(base_next(snapshot, &found), ERROR_SUCCESS);
    }
    assert_int_equal(rows, version ? KILL_ROWS : 0);
    base_snapshot_destroy(snapshot);
    base_close(subject->base);
    subject->base = NULL;
}

static void test_kill(void **state) {
    struct subject *subject = *state;
    random_state = (uint64_t)setting("KEEL_SEED", 1);
    base_close(subject->base);
    subject->base = NULL;
    int64_t acknowledged = 0;
    for (long round = setting("KEEL_KILLS", 12); round; round--) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(ends[0]);
            commit_until_killed(subject->directory, ends[1]);
        }
        close(ends[1]);
        usleep((useconds_t)(1000 + random_below(40000)));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        int64_t version;
        while (read(ends[0], &version, sizeof version) == sizeof version)
            acknowledged = version;
        close(ends[0]);
        check_after_kill(subject, acknowledged);
        int64_t now =
            acknowledged; /* an unacknowledged last commit may count: read it off the base */
        subject_open(subject);
        acknowledged = base_version(subject->base);
        assert_in_range(acknowledged, now, now + 1);
        base_close(subject->base);
        subject->base = NULL;
    }
    print_message("version %ld at the end\n", (long)acknowledged);
}

/* ---- The list ---- */

static struct subject lmdb = {.name = "lmdb", .on_disk = true}, memory = {.name = "memory"};

#define ON(subject, test)                                                                          \
    { #subject ": " #test, test, setup, teardown, &subject }
#define ON_BOTH(test) ON(lmdb, test), ON(memory, test)

int main(void) {
    const struct CMUnitTest tests[] = {
        /* clang-format off */
        ON_BOTH(test_model),
        ON_BOTH(test_empties),
        ON_BOTH(test_large),
        ON_BOTH(test_estimate_clusters),
        ON_BOTH(test_memory_fails),
        ON_BOTH(test_memory_fails_reading),
        ON_BOTH(test_snapshots_max),
        ON_BOTH(test_readers_beside_writer),
        ON_BOTH(test_renewing_beside_writer),
        ON(lmdb, test_foreign_files),
        ON(lmdb, test_other_formats),
        ON(lmdb, test_damaged_rows),
        ON(lmdb, test_damage_among_many),
        ON(lmdb, test_leftovers),
        ON(lmdb, test_cut_file),
        ON(lmdb, test_disk_full),
        ON(lmdb, test_kill),
        /* clang-format on */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
