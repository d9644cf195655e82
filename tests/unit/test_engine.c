/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded engine through the database interface: what a commit promises, versions and the horizon, recovery from crash images, refusal of foreign
 * directories, full disks, failed syncs, a full window, and reads beside checkpoints.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/lease.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/thread.h"
#include "util/coding.h"
#include "util/memory.h"

/* --- Support --- */

static char scratch[400];
static int scratch_number;

static int make_scratch(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/keel-engine-XXXXXX", parent ? parent : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
    (void)state;
    char command[1000];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static const char *fresh_path(void) {
    static char path[1000];
    snprintf(path, sizeof path, "%s/db-%d", scratch, scratch_number++);
    return path;
}

static struct engine_options options_with(int64_t lifetime_ms) {
    struct engine_options options;
    char *message = NULL;
    assert_int_equal(engine_default_options(&options, &message), 0);
    options.lifetime_us = lifetime_ms * 1000;
    options.generation_us = lifetime_ms * 1000 / 4;
    return options;
}

static struct database *open_with(const char *path, const struct engine_options *options) {
    struct database *database = NULL;
    char *message = NULL;
    fdb_error_t error = engine_open(path, options, &database, &message);
    if (error)
        print_error("open %s: %d %s\n", path, error, message ? message : "");
    assert_int_equal(error, 0);
    assert_null(message);
    return database;
}

static struct database *open_default(const char *path) {
    struct engine_options options = options_with(5000);
    return open_with(path, &options);
}

static fdb_error_t open_refused(const char *path) {
    struct engine_options options = options_with(5000);
    struct database *database = NULL;
    char *message = NULL;
    fdb_error_t error = engine_open(path, &options, &database, &message);
    assert_int_not_equal(error, 0);
    assert_null(database);
    assert_non_null(message);
    memory_free(message);
    return error;
}

static struct bytes text(const char *string) {
    return bytes_make(string, strlen(string));
}

/* A commit that is waited for. */
struct waited_commit {
    struct commit_request request;
    os_mutex lock;
    os_condition done_condition;
    bool done;
    fdb_error_t error;
};

static void commit_done(struct commit_request *request, fdb_error_t error) {
    struct waited_commit *commit = (struct waited_commit *)request;
    os_mutex_lock(&commit->lock);
    commit->done = true;
    commit->error = error;
    os_condition_signal(&commit->done_condition);
    os_mutex_unlock(&commit->lock);
}

static fdb_error_t run_commit(struct database *database, struct waited_commit *commit, bool drive) {
    os_mutex_init(&commit->lock);
    os_condition_init(&commit->done_condition);
    commit->request.complete = commit_done;
    database_commit(database, &commit->request);
    if (drive)
        database_drive(database, commit->request.ticket);
    os_mutex_lock(&commit->lock);
    while (!commit->done)
        os_condition_wait(&commit->done_condition, &commit->lock);
    os_mutex_unlock(&commit->lock);
    os_condition_destroy(&commit->done_condition);
    os_mutex_destroy(&commit->lock);
    return commit->error;
}

static fdb_error_t mutate(struct database *database, enum mutation_type type, struct bytes key, struct bytes value,
                          int64_t *version) {
    struct mutation mutation = {type, key, value};
    char end[20000];
    memcpy(end, key.data, key.length);
    end[key.length] = 0;
    struct key_range range = {key, type == MUTATION_CLEAR_RANGE ? value : bytes_make(end, key.length + 1)};
    struct waited_commit commit = {.request = {.mutations = &mutation, .mutation_count = 1, .write_conflicts = &range,
                                               .write_conflict_count = 1}};
    fdb_error_t error = run_commit(database, &commit, true);
    if (!error && version)
        *version = commit.request.committed_version;
    return error;
}

static void set(struct database *database, const char *key, const char *value) {
    assert_int_equal(mutate(database, MUTATION_SET, text(key), text(value), NULL), 0);
}

static int64_t read_version(struct database *database) {
    int64_t version;
    assert_int_equal(database_get_read_version(database, &version), 0);
    return version;
}

/* The value at a version as a string, or NULL; valid until the next call. */
static const char *get_at(struct database *database, int64_t version, const char *key) {
    static char buffer[1000];
    struct arena arena = {0};
    struct bytes value;
    bool present;
    assert_int_equal(database_get(database, version, text(key), &arena, &value, &present), 0);
    if (present) {
        assert_true(value.length < sizeof buffer);
        memcpy(buffer, value.data, value.length);
        buffer[value.length] = 0;
    }
    arena_free(&arena);
    return present ? buffer : NULL;
}

static const char *get_now(struct database *database, const char *key) {
    return get_at(database, read_version(database), key);
}

/* "k=v k=v …" of a range at a version, valid until the next call. */
static const char *range_at(struct database *database, int64_t version, const char *begin, const char *end, bool reverse) {
    static char buffer[4000];
    struct rows rows = {0};
    bool more = true;
    struct range_request request = {version, text(begin), text(end), 1000000, SIZE_MAX, 0, reverse};
    assert_int_equal(database_get_range(database, &request, &rows, &more), 0);
    assert_false(more);
    size_t used = 0;
    buffer[0] = 0;
    for (int i = 0; i < rows.count; i++) {
        used += (size_t)snprintf(buffer + used, sizeof buffer - used, "%s%.*s=%.*s", i ? " " : "", rows.array[i].key_length,
                                 (const char *)rows.array[i].key, rows.array[i].value_length,
                                 (const char *)rows.array[i].value);
        assert_true(used < sizeof buffer);
    }
    rows_free(&rows);
    return buffer;
}

static void copy_directory(const char *from, const char *to) {
    char command[9000];
    snprintf(command, sizeof command, "cp -r '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

static uint64_t fingerprint(const char *directory) {
    char command[9000], line[200] = "";
    snprintf(command, sizeof command, "cd '%s' && find . | LC_ALL=C sort | while read f; do echo $f; test -f $f && cat $f; done | cksum",
             directory);
    FILE *pipe = popen(command, "r");
    assert_non_null(fgets(line, sizeof line, pipe));
    pclose(pipe);
    return strtoull(line, NULL, 10);
}

/* --- What a commit promises --- */

static void both_places(void (*test)(struct database *)) {
    struct database *memory = open_default(":memory:");
    test(memory);
    database_close(memory);
    struct database *directory = open_default(fresh_path());
    test(directory);
    database_close(directory);
}

static void versions_are_exact(struct database *database) {
    int64_t before = read_version(database), first, second, third;
    assert_int_equal(mutate(database, MUTATION_SET, text("a"), text("1"), &first), 0);
    assert_int_equal(mutate(database, MUTATION_SET, text("a"), text("2"), &second), 0);
    assert_int_equal(mutate(database, MUTATION_CLEAR_RANGE, text("a"), text("b"), &third), 0);
    assert_true(before < first && first < second && second < third);
    assert_true(read_version(database) >= third);
    assert_null(get_at(database, before, "a"));
    assert_null(get_at(database, first - 1, "a"));
    assert_string_equal(get_at(database, first, "a"), "1");
    assert_string_equal(get_at(database, second - 1, "a"), "1");
    assert_string_equal(get_at(database, second, "a"), "2");
    assert_null(get_at(database, third, "a"));
}

static void test_versions_are_exact(void **state) {
    (void)state;
    both_places(versions_are_exact);
}

static void versions_advance(struct database *database) {
    int64_t start = os_clock_us(), first = read_version(database);
    os_sleep_us(50000);
    int64_t second = read_version(database), elapsed = os_clock_us() - start;
    assert_true(second - first >= 50000 && second - first <= elapsed + 1000);
    assert_int_equal(database_check_read_version(database, second), 0);
    assert_int_equal(database_check_read_version(database, second + 10000000), ERROR_FUTURE_VERSION);
    assert_int_equal(database_check_read_version(database, 0), ERROR_TRANSACTION_TOO_OLD);
}

static void test_versions_advance(void **state) {
    (void)state;
    both_places(versions_advance);
}

static fdb_error_t read_modify_write(struct database *database, int64_t version, const char *read, const char *write) {
    char read_end[100], write_end[100];
    snprintf(read_end, sizeof read_end, "%s%c", read, 0);
    struct key_range reads = {text(read), bytes_make(read_end, strlen(read) + 1)};
    snprintf(write_end, sizeof write_end, "%s%c", write, 0);
    struct key_range writes = {text(write), bytes_make(write_end, strlen(write) + 1)};
    struct mutation mutation = {MUTATION_SET, text(write), text("x")};
    struct waited_commit commit = {.request = {.read_version = version, .mutations = &mutation, .mutation_count = 1,
                                               .read_conflicts = &reads, .read_conflict_count = 1,
                                               .write_conflicts = &writes, .write_conflict_count = 1}};
    return run_commit(database, &commit, false);
}

static void conflicts(struct database *database) {
    int64_t version = read_version(database);
    assert_int_equal(read_modify_write(database, version, "r", "w"), 0);
    assert_int_equal(read_modify_write(database, version, "r", "w"), 0); /* it wrote w, not r */
    assert_int_equal(read_modify_write(database, version, "w", "z"), ERROR_NOT_COMMITTED);
    assert_null(get_now(database, "z"));
    assert_int_equal(read_modify_write(database, read_version(database), "w", "z"), 0);
    assert_string_equal(get_now(database, "z"), "x");
}

static void test_conflicts(void **state) {
    (void)state;
    both_places(conflicts);
}

static void atomic_and_stamps(struct database *database) {
    struct mutation mutations[] = {
        {MUTATION_SET, text("n"), bytes_make("\5\0\0\0\0\0\0\0", 8)},
        {MUTATION_ADD, text("n"), bytes_make("\2\0\0\0\0\0\0\0", 8)},
        {MUTATION_CLEAR_RANGE, text("m"), text("m~")},
        {MUTATION_ADD, text("m1"), bytes_make("\3\0\0\0\0\0\0\0", 8)},
        {MUTATION_COMPARE_AND_CLEAR, text("n"), bytes_make("\7\0\0\0\0\0\0\0", 8)},
        {MUTATION_APPEND_IF_FITS, text("t"), text("ab")},
        {MUTATION_APPEND_IF_FITS, text("t"), text("cd")},
        {MUTATION_SET_VERSIONSTAMPED_KEY, bytes_make("s0123456789\1\0\0\0", 15), text("v")},
        {MUTATION_SET_VERSIONSTAMPED_VALUE, text("u"), bytes_make("0123456789\0\0\0\0", 14)},
    };
    struct waited_commit commit = {.request = {.mutations = mutations, .mutation_count = sizeof mutations / sizeof *mutations}};
    assert_int_equal(run_commit(database, &commit, true), 0);
    assert_null(get_now(database, "n"));
    assert_string_equal(get_now(database, "m1"), "\3");
    assert_string_equal(get_now(database, "t"), "abcd");
    uint8_t stamp[11] = {'s'};
    mutation_stamp_write(stamp + 1, commit.request.committed_version, commit.request.batch_order);
    struct arena arena = {0};
    struct bytes value;
    bool present;
    int64_t version = read_version(database);
    assert_int_equal(database_get(database, version, bytes_make(stamp, 11), &arena, &value, &present), 0);
    assert_true(present);
    assert_int_equal(database_get(database, version, text("u"), &arena, &value, &present), 0);
    assert_true(present && value.length == 10);
    assert_memory_equal(value.data, stamp + 1, 10);
    arena_free(&arena);
}

static void test_atomic_and_stamps(void **state) {
    (void)state;
    both_places(atomic_and_stamps);
}

static void ranges(struct database *database) {
    set(database, "b", "1");
    set(database, "d", "2");
    set(database, "f", "3");
    int64_t early = read_version(database);
    assert_int_equal(mutate(database, MUTATION_CLEAR_RANGE, text("c"), text("e"), NULL), 0);
    set(database, "a", "0");
    int64_t late = read_version(database);
    assert_string_equal(range_at(database, early, "", "z", false), "b=1 d=2 f=3");
    assert_string_equal(range_at(database, late, "", "z", false), "a=0 b=1 f=3");
    assert_string_equal(range_at(database, late, "", "z", true), "f=3 b=1 a=0");
    assert_string_equal(range_at(database, early, "b", "f", true), "d=2 b=1");
    assert_string_equal(range_at(database, late, "z", "a", false), "");
    struct rows rows = {0};
    bool more = false;
    struct range_request request = {late, text("a"), text("z"), 2, SIZE_MAX, 0, false};
    assert_int_equal(database_get_range(database, &request, &rows, &more), 0);
    assert_true(more && rows.count == 2);
    rows_free(&rows);
}

static void test_ranges(void **state) {
    (void)state;
    both_places(ranges);
}

/* --- The horizon and the checkpoint --- */

static void wait_for_checkpoint(struct database *database, uint64_t count) {
    struct database_status status;
    for (int i = 0; i < 30000; i++) {
        database_get_status(database, &status);
        if (status.checkpoints >= count && status.window_bytes == 0)
            return;
        os_sleep_us(10000);
    }
    fail_msg("no checkpoint in five minutes");
}

static void checkpoint_keeps_everything(const char *path) {
    struct engine_options options = options_with(200);
    struct database *database = open_with(path, &options);
    int64_t old = read_version(database);
    for (int i = 0; i < 500; i++) {
        char key[20], value[20];
        snprintf(key, sizeof key, "k%03d", i);
        snprintf(value, sizeof value, "%d", i);
        set(database, key, value);
    }
    assert_int_equal(mutate(database, MUTATION_CLEAR_RANGE, text("k100"), text("k499"), NULL), 0);
    wait_for_checkpoint(database, 1);
    assert_string_equal(get_now(database, "k050"), "50");
    assert_null(get_now(database, "k300"));
    assert_string_equal(range_at(database, read_version(database), "k098", "l", false), "k098=98 k099=99 k499=499");
    struct arena arena = {0};
    struct bytes value;
    bool present;
    assert_int_equal(database_get(database, old, text("k050"), &arena, &value, &present), ERROR_TRANSACTION_TOO_OLD);
    arena_free(&arena);
    assert_int_equal(read_modify_write(database, old, "k050", "q"), ERROR_TRANSACTION_TOO_OLD);
    struct database_status status;
    database_get_status(database, &status);
    assert_int_equal(status.window_bytes, 0);
    database_close(database);
}

static void test_checkpoint(void **state) {
    (void)state;
    checkpoint_keeps_everything(":memory:");
    checkpoint_keeps_everything(fresh_path());
}

static void test_full_window_makes_commits_wait(void **state) {
    (void)state;
    struct engine_options options = options_with(200);
    options.window_bytes_max = 1 << 20;
    options.generation_bytes = 1 << 17;
    struct database *database = open_with(fresh_path(), &options);
    static uint8_t value[50000];
    struct database_status status;
    for (int i = 0; i < 200; i++) { /* ten times what the window may hold */
        char key[20];
        snprintf(key, sizeof key, "big%03d", i);
        assert_int_equal(mutate(database, MUTATION_SET, text(key), bytes_make(value, sizeof value), NULL), 0);
        database_get_status(database, &status);
        assert_true(status.window_bytes < 3 * options.window_bytes_max);
    }
    struct rows rows = {0};
    bool more;
    char from[20] = "big";
    do { /* in pieces: on a slow machine a version may not live long enough for ten megabytes */
        struct range_request request = {read_version(database), text(from), text("bih"), 20, SIZE_MAX, 0, false};
        assert_int_equal(database_get_range(database, &request, &rows, &more), 0);
        snprintf(from, sizeof from, "big%03d", rows.count);
    } while (more);
    assert_int_equal(rows.count, 200);
    rows_free(&rows);
    database_close(database);
}

/* --- Surviving --- */

static void test_reopen_and_versions_never_reused(void **state) {
    (void)state;
    const char *path = fresh_path();
    int64_t last = 0;
    for (int round = 0; round < 5; round++) {
        struct database *database = open_default(path);
        int64_t version = read_version(database);
        assert_true(version > last);
        char key[20];
        for (int i = 0; i < round; i++) {
            snprintf(key, sizeof key, "round%d", i);
            assert_string_equal(get_now(database, key), "here");
        }
        snprintf(key, sizeof key, "round%d", round);
        set(database, key, "here");
        last = read_version(database);
        database_close(database);
    }
}

static void test_many_segments_and_checkpoints(void **state) {
    (void)state;
    char path[1000];
    snprintf(path, sizeof path, "%s", fresh_path());
    struct engine_options options = options_with(100);
    options.segment_bytes = 64 << 10;
    struct database *database = open_with(path, &options);
    for (int i = 0; i < 50; i++) {
        for (int j = 0; j < 40; j++) {
            char key[20], value[300];
            snprintf(key, sizeof key, "k%02d", j);
            snprintf(value, sizeof value, "%d%0200d", i, 0);
            set(database, key, value);
        }
    }
    int64_t last = read_version(database);
    database_close(database);
    database = open_with(path, &options);
    assert_true(read_version(database) > last);
    for (int j = 0; j < 40; j++) {
        char key[20];
        snprintf(key, sizeof key, "k%02d", j);
        assert_memory_equal(get_now(database, key), "490", 3);
    }
    database_close(database);
}

static void test_second_opener_is_refused(void **state) {
    (void)state;
    char path[1000];
    snprintf(path, sizeof path, "%s", fresh_path());
    struct database *database = open_default(path);
    set(database, "a", "1");
    assert_int_equal(open_refused(path), ERROR_DATABASE_IN_USE);
    assert_string_equal(get_now(database, "a"), "1");
    database_close(database);
    database = open_default(path);
    assert_string_equal(get_now(database, "a"), "1");
    database_close(database);
}

static void test_foreign_places_are_left_untouched(void **state) {
    (void)state;
    char path[1000], file[1100];
    snprintf(path, sizeof path, "%s", fresh_path());
    assert_int_equal(os_directory_create(path), 0);
    snprintf(file, sizeof file, "%s/thesis.txt", path);
    FILE *stream = fopen(file, "w");
    fputs("precious", stream);
    fclose(stream);
    uint64_t before = fingerprint(path);
    assert_int_equal(open_refused(path), ERROR_FORMAT_FOREIGN);
    assert_int_equal(fingerprint(path), before);
    assert_int_equal(open_refused(file), ERROR_FORMAT_FOREIGN); /* a file, not a directory */
    assert_int_equal(fingerprint(path), before);
}

static void patch(const char *path, long offset, const void *data, size_t length) {
    FILE *stream = fopen(path, "r+");
    assert_non_null(stream);
    fseek(stream, offset, SEEK_SET);
    assert_int_equal(fwrite(data, 1, length, stream), length);
    fclose(stream);
}

static void test_newer_damaged_and_missing_parts(void **state) {
    (void)state;
    char path[1000], clock_file[1100], command[9000];
    snprintf(path, sizeof path, "%s", fresh_path());
    snprintf(clock_file, sizeof clock_file, "%s/clock.keel", path);
    struct database *database = open_default(path);
    set(database, "a", "1");
    database_close(database);

    uint8_t newer[4] = {99};
    char image[1100];
    snprintf(image, sizeof image, "%s-image", path);
    copy_directory(path, image);
    patch(clock_file, 8, newer, 4);
    patch(clock_file, 4096 + 8, newer, 4);
    uint64_t before = fingerprint(path);
    assert_int_equal(open_refused(path), ERROR_FORMAT_NEWER);
    assert_int_equal(fingerprint(path), before);

    for (int slot = 0; slot < 2; slot++) { /* one slot torn: the other counts. both: damaged */
        snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", path, image, path);
        assert_int_equal(system(command), 0);
        patch(clock_file, slot * 4096 + 24, "\xff\xff\xff\xff", 4);
        database = open_default(path);
        assert_string_equal(get_now(database, "a"), "1");
        database_close(database);
    }
    patch(clock_file, 24, "\xfe\xfe\xfe\xfe", 4);
    patch(clock_file, 4096 + 24, "\xfe\xfe\xfe\xfe", 4);
    assert_int_equal(open_refused(path), ERROR_DATABASE_DAMAGED);

    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s' && rm '%s/base.keel'*", path, image, path, path);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_refused(path), ERROR_DATABASE_DAMAGED);
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s' && rm -r '%s/log'", path, image, path, path);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_refused(path), ERROR_DATABASE_DAMAGED);
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s' && rm '%s'", path, image, path, clock_file);
    assert_int_equal(system(command), 0);
    database = open_default(path); /* only ours, without the mark: an interrupted creation, and the data is kept */
    assert_string_equal(get_now(database, "a"), "1");
    database_close(database);
}

/* --- Failing disks --- */

static _Atomic int fault_kind; /* 0 none, 1 allocation says full, 2 sync fails */

static fdb_error_t fault(void *context, const char *what, const char *path) {
    (void)context;
    (void)path;
    int kind = atomic_load(&fault_kind);
    if (kind == 1 && strcmp(what, "allocate") == 0)
        return ERROR_DISK_FULL;
    if (kind == 2 && strcmp(what, "sync") == 0)
        return ERROR_IO_ERROR;
    return 0;
}

static void test_full_disk_refuses_and_recovers(void **state) {
    (void)state;
    struct engine_options options = options_with(5000);
    options.segment_bytes = 64 << 10;
    char path[1000];
    snprintf(path, sizeof path, "%s", fresh_path());
    struct database *database = open_with(path, &options);
    set(database, "a", "1");
    os_file_set_fault(fault, NULL);
    atomic_store(&fault_kind, 1);
    static uint8_t value[90000];
    fdb_error_t error = 0;
    int written = 0;
    while (!error && written < 1000) {
        char key[20];
        snprintf(key, sizeof key, "big%d", written++);
        error = mutate(database, MUTATION_SET, text(key), bytes_make(value, sizeof value), NULL);
    }
    assert_int_equal(error, ERROR_DISK_FULL);
    char refused[20];
    snprintf(refused, sizeof refused, "big%d", written - 1);
    assert_string_equal(get_now(database, "a"), "1"); /* reads go on */
    assert_null(get_now(database, refused));
    atomic_store(&fault_kind, 0);
    set(database, "b", "2"); /* and there is room again */
    os_file_set_fault(NULL, NULL);
    database_close(database);
    database = open_with(path, &options);
    assert_string_equal(get_now(database, "a"), "1");
    assert_string_equal(get_now(database, "b"), "2");
    assert_null(get_now(database, refused));
    database_close(database);
}

static void test_failed_sync_poisons(void **state) {
    (void)state;
    char path[1000];
    snprintf(path, sizeof path, "%s", fresh_path());
    struct database *database = open_default(path);
    set(database, "a", "1");
    os_file_set_fault(fault, NULL);
    atomic_store(&fault_kind, 2);
    assert_int_equal(mutate(database, MUTATION_SET, text("b"), text("2"), NULL), ERROR_COMMIT_UNKNOWN_RESULT);
    atomic_store(&fault_kind, 0);
    os_file_set_fault(NULL, NULL);
    assert_int_equal(mutate(database, MUTATION_SET, text("c"), text("3"), NULL), ERROR_DATABASE_FAILED);
    assert_string_equal(get_now(database, "a"), "1");
    assert_null(get_now(database, "b")); /* never shown before it is known to be durable */
    database_close(database);
    database = open_default(path);
    assert_string_equal(get_now(database, "a"), "1");
    assert_null(get_now(database, "c"));
    set(database, "c", "3");
    database_close(database);
}

static void test_out_of_memory_changes_nothing(void **state) {
    (void)state;
    struct database *database = open_default(fresh_path());
    set(database, "n", "0");
    for (long countdown = 0; countdown < 200; countdown++) {
        char value[20], before[20];
        snprintf(before, sizeof before, "%s", get_now(database, "n"));
        snprintf(value, sizeof value, "%ld", countdown);
        memory_fail_after(countdown % 20);
        fdb_error_t error = mutate(database, MUTATION_SET, text("n"), text(value), NULL);
        memory_fail_after(-1);
        assert_true(error == 0 || error == ERROR_LARGE_ALLOC_FAILED);
        assert_string_equal(get_now(database, "n"), error ? before : value);
    }
    database_close(database);
    for (long countdown = 0;; countdown++) { /* opening */
        struct engine_options options = options_with(5000);
        char path[1000];
        snprintf(path, sizeof path, "%s", fresh_path());
        struct database *opened = NULL;
        char *message = NULL;
        memory_fail_after(countdown);
        fdb_error_t error = engine_open(path, &options, &opened, &message);
        memory_fail_after(-1);
        memory_free(message);
        if (!error) {
            database_close(opened);
            break;
        }
        assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
        assert_true(countdown < 1000);
    }
}

/* --- Threads --- */

enum { WRITERS = 3, READERS = 3, PAIRS = 20 };
static atomic_bool stop;
static struct database *shared;

/* Each commit sets both keys of a pair to the same text, or clears both. */
static void *write_pairs(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        char left[20], right[20], value[20];
        int pair = (int)(rand_r(&seed) % PAIRS);
        snprintf(left, sizeof left, "l%02d", pair);
        snprintf(right, sizeof right, "r%02d", pair);
        snprintf(value, sizeof value, "%u", rand_r(&seed));
        struct mutation sets[2] = {{MUTATION_SET, text(left), text(value)}, {MUTATION_SET, text(right), text(value)}};
        struct mutation clears[2] = {{MUTATION_CLEAR_RANGE, text("l"), text("l~")}, {MUTATION_CLEAR_RANGE, text("r"), text("r~")}};
        struct waited_commit commit = {.request = {.mutations = rand_r(&seed) % 8 ? sets : clears, .mutation_count = 2}};
        assert_int_equal(run_commit(shared, &commit, rand_r(&seed) % 2), 0);
    }
    return NULL;
}

static void check_pairs(int64_t version, bool reverse) {
    struct rows left = {0}, right = {0};
    bool more;
    struct range_request l = {version, text("l"), text("l~"), 1000, SIZE_MAX, 0, reverse};
    struct range_request r = {version, text("r"), text("r~"), 1000, SIZE_MAX, 0, reverse};
    fdb_error_t error = database_get_range(shared, &l, &left, &more);
    if (!error)
        error = database_get_range(shared, &r, &right, &more);
    if (error) {
        assert_int_equal(error, ERROR_TRANSACTION_TOO_OLD);
    } else {
        assert_int_equal(left.count, right.count);
        for (int i = 0; i < left.count; i++)
            assert_true(bytes_equal(rows_value(&left, i), rows_value(&right, i)));
    }
    rows_free(&left);
    rows_free(&right);
}

static void *read_pairs(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        int64_t version = read_version(shared);
        if (rand_r(&seed) % 4 == 0)
            os_sleep_us(rand_r(&seed) % 30000);
        check_pairs(version, rand_r(&seed) % 2);
    }
    return NULL;
}

static void run_pairs(const char *path) {
    struct engine_options options = options_with(100); /* checkpoints all the time */
    options.segment_bytes = 64 << 10;
    shared = open_with(path, &options);
    atomic_store(&stop, false);
    pthread_t threads[WRITERS + READERS];
    for (uintptr_t i = 0; i < WRITERS + READERS; i++)
        pthread_create(&threads[i], NULL, i < WRITERS ? write_pairs : read_pairs, (void *)(i + 1));
    os_sleep_us(1000000);
    atomic_store(&stop, true);
    for (int i = 0; i < WRITERS + READERS; i++)
        pthread_join(threads[i], NULL);
    check_pairs(read_version(shared), false);
    database_close(shared);
}

static void test_readers_beside_writers_and_checkpoints(void **state) {
    (void)state;
    run_pairs(":memory:");
    run_pairs(fresh_path());
}

/* --- Watches --- */

static _Atomic int fires;

static void fired(struct watch *watch, fdb_error_t error) {
    (void)watch;
    assert_int_equal(error, 0);
    atomic_fetch_add(&fires, 1);
}

static void watches(struct database *database) {
    set(database, "w", "1");
    atomic_store(&fires, 0);
    struct watch same = {.key = text("w"), .value = text("1"), .present = true, .fire = fired};
    struct watch other = {.key = text("w"), .value = text("0"), .present = true, .fire = fired};
    struct watch missing = {.key = text("none"), .present = false, .fire = fired};
    assert_int_equal(database_watch(database, &other), 0);
    assert_int_equal(atomic_load(&fires), 1); /* differs already */
    assert_int_equal(database_watch(database, &same), 0);
    assert_int_equal(database_watch(database, &missing), 0);
    set(database, "w", "1");
    assert_int_equal(atomic_load(&fires), 1); /* set to what it was */
    assert_int_equal(mutate(database, MUTATION_CLEAR_RANGE, text("v"), text("x"), NULL), 0);
    assert_int_equal(atomic_load(&fires), 2);
    assert_true(database_unwatch(database, &missing));
    assert_false(database_unwatch(database, &same));
    set(database, "none", "now");
    assert_int_equal(atomic_load(&fires), 2);
}

static void test_watches(void **state) {
    (void)state;
    both_places(watches);
}

/* --- Clients that come back are in one batch --- */

enum { CLIENTS = 64, CLIENT_COMMITS = 20, GATHER_ATTEMPTS = 5 };

/* A client without a thread: its next commit begins when a thread that serves them all finds it answered. */
struct served_client {
    struct commit_request request;
    struct mutation mutation;
    char key[20];
    int commits;
    struct served_client *next;
};

static struct {
    os_mutex lock;
    os_condition some;
    struct served_client *answered;
} served = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void client_answered(struct commit_request *request, fdb_error_t error) {
    struct served_client *client = (struct served_client *)request;
    assert_int_equal(error, 0);
    os_mutex_lock(&served.lock);
    client->next = served.answered;
    served.answered = client;
    os_condition_signal(&served.some);
    os_mutex_unlock(&served.lock);
}

static struct served_client *next_answered(void) {
    os_mutex_lock(&served.lock);
    while (!served.answered)
        os_condition_wait(&served.some, &served.lock);
    struct served_client *client = served.answered;
    served.answered = client->next;
    os_mutex_unlock(&served.lock);
    return client;
}

static void client_commit(struct database *database, struct served_client *client) {
    client->mutation = (struct mutation){MUTATION_SET, text(client->key), text("v")};
    client->request = (struct commit_request){.mutations = &client->mutation, .mutation_count = 1, .complete = client_answered};
    client->commits++;
    database_commit(database, &client->request);
    database_hurry(database);
}

static uint64_t batches_of_clients(struct database *database) {
    static struct served_client clients[CLIENTS];
    struct database_status before, after;
    database_get_status(database, &before);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].commits = 0;
        snprintf(clients[i].key, sizeof clients[i].key, "client %d", i);
        client_commit(database, &clients[i]);
    }
    for (int working = CLIENTS; working > 0;) {
        struct served_client *client = next_answered();
        if (client->commits < CLIENT_COMMITS)
            client_commit(database, client);
        else
            working--;
    }
    database_get_status(database, &after);
    return after.batches - before.batches;
}

static fdb_error_t slow_sync(void *context, const char *what, const char *path) {
    (void)context;
    if (strcmp(what, "sync") == 0 && strstr(path, "/log-"))
        usleep(10000);
    return 0;
}

/*
 * A leader that does not wait for them makes two groups of such clients, and two batches for each commit of one. On a busy machine they may not
 * come back in time, so one good attempt is enough.
 */
static void test_clients_that_come_back_share_a_batch(void **state) {
    (void)state;
    struct database *database = open_default(fresh_path());
    os_condition_init(&served.some);
    os_file_set_fault(slow_sync, NULL);
    uint64_t batches = UINT64_MAX;
    for (int attempt = 0; attempt < GATHER_ATTEMPTS && batches > CLIENT_COMMITS * 3 / 2; attempt++)
        batches = batches_of_clients(database);
    os_file_set_fault(NULL, NULL);
    print_message("%d clients, %d commits each: %llu batches\n", CLIENTS, CLIENT_COMMITS, (unsigned long long)batches);
    assert_true(batches <= CLIENT_COMMITS * 3 / 2);
    os_condition_destroy(&served.some);
    database_close(database);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions_are_exact),
        cmocka_unit_test(test_versions_advance),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_atomic_and_stamps),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_full_window_makes_commits_wait),
        cmocka_unit_test(test_reopen_and_versions_never_reused),
        cmocka_unit_test(test_many_segments_and_checkpoints),
        cmocka_unit_test(test_second_opener_is_refused),
        cmocka_unit_test(test_foreign_places_are_left_untouched),
        cmocka_unit_test(test_newer_damaged_and_missing_parts),
        cmocka_unit_test(test_full_disk_refuses_and_recovers),
        cmocka_unit_test(test_failed_sync_poisons),
        cmocka_unit_test(test_out_of_memory_changes_nothing),
        cmocka_unit_test(test_readers_beside_writers_and_checkpoints),
        cmocka_unit_test(test_watches),
        cmocka_unit_test(test_clients_that_come_back_share_a_batch),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
