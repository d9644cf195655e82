/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Corners of the engine that a second look found: each test stands for something that once went wrong or nearly did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine_support.h"
#include "os/clock.h"
#include "util/coding.h"

/* --- Support --- */

static void copy_directory(const char *from, const char *to) {
    char command[3000];
    snprintf(command, sizeof command, "cp -r '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

/* A commit and how it ended. */
struct job {
    struct commit_request request;
    _Atomic bool done;
    fdb_error_t error;
    os_thread thread; /* that answered it */
};

static void job_done(struct commit_request *request, fdb_error_t error) {
    struct job *job = (struct job *)request;
    job->error = error;
    job->thread = pthread_self();
    atomic_store(&job->done, true);
}

static void job_start(struct database *database, struct job *job, const struct mutation *mutations, size_t count) {
    *job = (struct job){.request = {.mutations = mutations, .mutation_count = count, .complete = job_done}};
    for (size_t i = 0; i < count; i++)
        job->request.size_bytes += mutations[i].key.length + mutations[i].value.length;
    database_commit(database, &job->request);
}

static fdb_error_t job_wait(struct job *job) {
    while (!atomic_load(&job->done))
        os_sleep_us(50);
    return job->error;
}

static fdb_error_t commit(struct database *database, const struct mutation *mutations, size_t count) {
    struct job job;
    job_start(database, &job, mutations, count);
    database_hurry(database);
    return job_wait(&job);
}

static fdb_error_t set(struct database *database, const char *key, struct bytes value) {
    struct mutation mutation = {MUTATION_SET, text(key), value};
    return commit(database, &mutation, 1);
}

/* The value of a key now; its length, or -1. */
static int64_t get(struct database *database, const char *key, uint8_t *value, size_t capacity) {
    struct arena arena = {0};
    struct bytes found = {0};
    bool present;
    int64_t version;
    fdb_error_t error;
    do { /* some tests have versions live very shortly */
        assert_int_equal(database_get_read_version(database, &version), 0);
        error = database_get(database, version, text(key), &arena, &found, &present);
    } while (error == ERROR_TRANSACTION_TOO_OLD);
    assert_int_equal(error, 0);
    if (present && found.length)
        memcpy(value, found.data, found.length < capacity ? found.length : capacity);
    int64_t length = present ? (int64_t)found.length : -1;
    arena_free(&arena);
    return length;
}

/* --- Opening --- */

/* A base that was deleted is not made anew beside a log that has let go of what it held. */
static void test_a_deleted_base_is_missed(void **state) {
    (void)state;
    char path[1000], file[1100];
    fresh_path(path);
    struct engine_options options = defaults();
    struct database *database = open_with(path, &options);
    assert_int_equal(set(database, "a", text("1")), 0);
    database_close(database);
    snprintf(file, sizeof file, "%s/base.keel-lock", path);
    assert_int_equal(access(file, F_OK), 0); /* stays, and is no base */
    snprintf(file, sizeof file, "%s/base.keel", path);
    assert_int_equal(truncate(file, 0), 0);
    assert_int_equal(try_open(path, &options, &database), ERROR_DATABASE_DAMAGED);
    struct stat status;
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(try_open(path, &options, &database), ERROR_DATABASE_DAMAGED);
    assert_int_equal(access(file, F_OK), -1);
}

/* --- The clock --- */

/* A process that slept through its lease, or cannot renew it, stands still: what it reads at then must stay readable. */
static void test_a_clock_at_its_ceiling_stays_readable(void **state) {
    (void)state;
    struct version_clock clock;
    version_clock_init(&clock, 1000000, 1000100, 1000);
    os_sleep_us(30000);
    int64_t version = version_clock_read(&clock);
    assert_int_equal(version, 1000100);
    assert_true(version_clock_horizon(&clock) <= version);
    int64_t horizon = version_clock_horizon(&clock);
    version_clock_set_ceiling(&clock, 1 << 30);
    assert_true(version_clock_horizon(&clock) >= horizon);
    version_clock_destroy(&clock);
}

/* --- Recovery --- */

static void write_much(struct database *database, int count) {
    static uint8_t value[50000];
    for (int i = 0; i < count; i++) {
        char key[20];
        snprintf(key, sizeof key, "key%d", i);
        value[0] = (uint8_t)i;
        assert_int_equal(set(database, key, bytes_make(value, sizeof value)), 0);
    }
}

static void assert_much(struct database *database, int count) {
    for (int i = 0; i < count; i++) {
        char key[20];
        uint8_t value[1];
        snprintf(key, sizeof key, "key%d", i);
        assert_int_equal(get(database, key, value, 1), 50000);
        assert_int_equal(value[0], (uint8_t)i);
    }
}

/* A log longer than the window may be large is recovered in the memory that the window may have. */
static void test_a_long_log_is_recovered_in_little_memory(void **state) {
    (void)state;
    char path[1000], image[1000];
    fresh_path(path);
    fresh_path(image);
    struct engine_options options = defaults();
    options.segment_bytes = 1 << 20;
    struct database *database = open_with(path, &options);
    write_much(database, 300);
    copy_directory(path, image);
    database_close(database);
    options.window_bytes_max = 2 << 20;
    options.generation_bytes = options.window_bytes_max / 8;
    database = open_with(image, &options);
    struct database_status status;
    database_get_status(database, &status);
    assert_true(status.window_bytes < 2 * options.window_bytes_max);
    assert_much(database, 300);
    database_close(database);
    database = open_with(image, &options);
    assert_much(database, 300);
    database_close(database);
}

/* The newest segment of a database. */
static void newest_segment(const char *path, char file[1400]) {
    char directory[1100], newest[300] = "";
    snprintf(directory, sizeof directory, "%s/log", path);
    DIR *opened = opendir(directory);
    struct dirent *entry;
    while ((entry = readdir(opened))) {
        if (strncmp(entry->d_name, "log-", 4) == 0 && strcmp(entry->d_name, newest) > 0)
            snprintf(newest, sizeof newest, "%s", entry->d_name);
    }
    closedir(opened);
    snprintf(file, 1400, "%s/%s", directory, newest);
}

/* A segment has its full size before it has a record: one that is shorter has lost some, perhaps acknowledged ones. */
static void test_a_segment_cut_short_is_damage(void **state) {
    (void)state;
    char path[1000], image[1000], file[1400];
    fresh_path(path);
    fresh_path(image);
    struct engine_options options = defaults();
    struct database *database = open_with(path, &options);
    assert_int_equal(set(database, "a", text("1")), 0);
    assert_int_equal(set(database, "b", text("2")), 0);
    copy_directory(path, image);
    database_close(database);
    newest_segment(image, file);
    assert_int_equal(truncate(file, 64 + 56), 0); /* the header and the first record */
    assert_int_equal(try_open(image, &options, &database), ERROR_DATABASE_DAMAGED);
}

/* --- The pipeline --- */

/* What a transaction did before it turned out to be impossible is not seen by the next one of its batch. */
static void test_a_failed_transaction_leaves_nothing_in_its_batch(void **state) {
    (void)state;
    struct engine_options options = defaults();
    struct database *database = open_with(":memory:", &options);
    uint8_t five[8] = {5}, one[8] = {1}, value[8];
    struct mutation impossible[] = {
        {MUTATION_SET, text("n"), bytes_make(five, 8)},
        {MUTATION_SET, text("m"), bytes_make(five, 8)},
        {MUTATION_SET_VERSIONSTAMPED_KEY, text("no room\xff\xff\xff\xff"), text("")},
    };
    struct mutation before = {MUTATION_ADD, text("m"), bytes_make(one, 8)};
    struct mutation after[] = {
        {MUTATION_ADD, text("n"), bytes_make(one, 8)},
        {MUTATION_ADD, text("m"), bytes_make(one, 8)},
    };
    struct job jobs[3];
    job_start(database, &jobs[0], &before, 1);
    job_start(database, &jobs[1], impossible, 3);
    job_start(database, &jobs[2], after, 2);
    database_hurry(database);
    assert_int_equal(job_wait(&jobs[0]), 0);
    assert_int_equal(job_wait(&jobs[1]), ERROR_CLIENT_INVALID_OPERATION);
    assert_int_equal(job_wait(&jobs[2]), 0);
    assert_int_equal(get(database, "n", value, 8), 8);
    assert_int_equal(coding_get_u64(value), 1);
    assert_int_equal(get(database, "m", value, 8), 8);
    assert_int_equal(coding_get_u64(value), 2);
    database_close(database);
}

/* Appends and the like can make megabytes of kilobytes; a batch must not outgrow what a log record may hold. */
static void test_results_of_atomic_operations_are_bounded(void **state) {
    (void)state;
    enum { APPENDS = 1000, CLIENTS = 2, ALLOWED = 450 };
    struct engine_options options = defaults();
    struct database *database = open_with(":memory:", &options);
    static uint8_t large[VALUE_BYTES_MAX - APPENDS], value[1];
    assert_int_equal(set(database, "a", bytes_make(large, sizeof large)), 0);
    static struct mutation mutations[APPENDS];
    for (int i = 0; i < APPENDS; i++)
        mutations[i] = (struct mutation){MUTATION_APPEND_IF_FITS, text("a"), text("x")};
    assert_int_equal(commit(database, mutations, APPENDS), ERROR_TRANSACTION_TOO_LARGE);
    assert_int_equal(get(database, "a", value, 1), sizeof large);
    struct job jobs[CLIENTS]; /* each is fine, together they are too much for one record */
    for (int i = 0; i < CLIENTS; i++)
        job_start(database, &jobs[i], mutations, ALLOWED);
    database_hurry(database);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(job_wait(&jobs[i]), 0);
        assert_true(i == 0 || jobs[i].request.committed_version > jobs[i - 1].request.committed_version);
    }
    assert_int_equal(get(database, "a", value, 1), sizeof large + CLIENTS * ALLOWED);
    database_close(database);
}

/* --- Full disks --- */

/* A base without room: commits go on while the window has some, are then refused, and go on when there is room again. */
static void test_a_full_base_refuses_and_recovers(void **state) {
    (void)state;
    char path[1000];
    fresh_path(path);
    struct engine_options options = defaults();
    options.segment_bytes = 256 << 10;
    options.lifetime_us = 20000;
    options.generation_us = 5000;
    options.window_bytes_max = 2 << 20;
    options.generation_bytes = 256 << 10;
    struct database *database = open_with(path, &options);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(1 << 20);
    static uint8_t value[50000];
    struct database_status status;
    fdb_error_t error = 0;
    int written = 0;
    for (int i = 0; i < 300; i++) {
        char key[20];
        snprintf(key, sizeof key, "key%d", written);
        value[0] = (uint8_t)written;
        error = set(database, key, bytes_make(value, sizeof value));
        assert_true(error == 0 || error == ERROR_DISK_FULL);
        written += error == 0;
        database_get_status(database, &status);
        assert_true(status.window_bytes < 2 * options.window_bytes_max);
    }
    assert_int_equal(error, ERROR_DISK_FULL);
    assert_true(status.disk_full);
    assert_false(status.failed);
    assert_much(database, written);
    limit_files(RLIM_INFINITY);
    for (int tries = 0; tries < 1000 && set(database, "after", text("1")) == ERROR_DISK_FULL; tries++)
        os_sleep_us(10000);
    assert_int_equal(set(database, "after", text("2")), 0);
    assert_much(database, written);
    database_close(database);
    database = open_with(path, &options);
    assert_much(database, written);
    database_close(database);
}

/* --- The window --- */

/* Many clears of the same range in one batch need the memory of one. */
static void test_many_clears_of_one_range_need_little_memory(void **state) {
    (void)state;
    enum { KEYS = 20000, CLEARS = 500 };
    struct engine_options options = defaults();
    struct database *database = open_with(":memory:", &options);
    static char keys[KEYS][10];
    static struct mutation mutations[KEYS];
    for (int i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "k%07d", i);
        mutations[i] = (struct mutation){MUTATION_SET, text(keys[i]), text("v")};
    }
    assert_int_equal(commit(database, mutations, KEYS), 0);
    for (int i = 0; i < CLEARS; i++)
        mutations[i] = (struct mutation){MUTATION_CLEAR_RANGE, text("k"), text("l")};
    assert_int_equal(commit(database, mutations, CLEARS), 0);
    struct database_status status;
    database_get_status(database, &status);
    assert_true(status.window_bytes < 50 << 20);
    uint8_t value[1];
    assert_int_equal(get(database, keys[7], value, 1), -1);
    database_close(database);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_deleted_base_is_missed),
        cmocka_unit_test(test_a_clock_at_its_ceiling_stays_readable),
        cmocka_unit_test(test_a_long_log_is_recovered_in_little_memory),
        cmocka_unit_test(test_a_segment_cut_short_is_damage),
        cmocka_unit_test(test_a_failed_transaction_leaves_nothing_in_its_batch),
        cmocka_unit_test(test_results_of_atomic_operations_are_bounded),
        cmocka_unit_test(test_a_full_base_refuses_and_recovers),
        cmocka_unit_test(test_many_clears_of_one_range_need_little_memory),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
