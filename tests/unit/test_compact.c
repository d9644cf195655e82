/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compacting a database: it gets smaller and holds what it held; a process killed, or a call of the operating system failing, at any step leaves a whole
 * database; what is damaged or in use is left alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/check.h"
#include "engine/compact.h"
#include "engine/engine.h"
#include "os/clock.h"
#include "os/file.h"
#include "util/checksum.h"
#include "util/memory.h"

static char scratch[400], original[500], copy[500];

struct waited {
    struct commit_request request;
    _Atomic bool done;
    fdb_error_t error;
};

static void commit_done(struct commit_request *request, fdb_error_t error) {
    struct waited *commit = (struct waited *)request;
    commit->error = error;
    atomic_store(&commit->done, true);
}

static void commit(struct database *database, const struct mutation *mutations, size_t count) {
    struct waited commit = {.request = {.mutations = mutations, .mutation_count = count, .complete = commit_done, .size_bytes = 1000}};
    database_commit(database, &commit.request);
    while (!atomic_load(&commit.done))
        if (!database_drive(database, atomic_load(&commit.request.ticket)))
            os_sleep_us(10);
    assert_int_equal(commit.error, 0);
}

static struct bytes text(const char *string) { return bytes_make(string, strlen(string)); }

static struct database *open_at(const char *path) {
    struct engine_options options;
    struct database *database;
    char *message = NULL;
    assert_int_equal(engine_default_options(&options, &message), 0);
    options.durable = false;
    fdb_error_t error = engine_open(path, &options, &database, &message);
    if (error)
        print_error("%s: %d %s\n", path, error, message ? message : "");
    assert_int_equal(error, 0);
    return database;
}

static void run(const char *format, ...) {
    char command[3000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

/* 400 rows of 20 kB and some long keys, of which few are left; then some that are in the log only. */
static int make_original(void **state) {
    (void)state;
    static char keys[40][20], value[20000], long_key[2000];
    const char *parent = getenv("TMPDIR");
    char live[500];
    snprintf(scratch, sizeof scratch, "%s/keel-compact-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(scratch))
        return -1;
    snprintf(live, sizeof live, "%s/live", scratch);
    snprintf(original, sizeof original, "%s/original", scratch);
    snprintf(copy, sizeof copy, "%s/copy", scratch);
    memset(value, 'v', sizeof value);
    memset(long_key, 'k', sizeof long_key);
    struct database *database = open_at(live);
    for (int round = 0; round < 10; round++) {
        struct mutation mutations[41];
        for (int i = 0; i < 40; i++) {
            snprintf(keys[i], sizeof keys[i], "row/%03d", round * 40 + i);
            mutations[i] = (struct mutation){MUTATION_SET, text(keys[i]), bytes_make(value, sizeof value)};
        }
        mutations[40] = (struct mutation){MUTATION_SET, bytes_make(long_key, 600 + (size_t)round * 140), bytes_make(value, 50)};
        commit(database, mutations, 41);
    }
    database_close(database);
    database = open_at(live);
    struct mutation clear = {MUTATION_CLEAR_RANGE, text("row/020"), text("row/390")};
    commit(database, &clear, 1);
    database_close(database);
    database = open_at(live);
    struct mutation late = {MUTATION_SET, text("late"), text("in the log")};
    commit(database, &late, 1);
    run("cp -r '%s' '%s'", live, original);
    database_close(database);
    return 0;
}

static int remove_scratch(void **state) {
    (void)state;
    run("rm -rf '%s'", scratch);
    return 0;
}

static void copy_original(void) { run("rm -rf '%s' && cp -r '%s' '%s'", copy, original, copy); }

static uint64_t file_bytes(const char *name) {
    char path[600];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", copy, name);
    return stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static int digest_rows;

static uint64_t digest(const char *path) {
    struct database *database = open_at(path);
    struct rows rows = {0};
    bool more;
    int64_t version;
    uint64_t sum = 0;
    assert_int_equal(database_get_read_version(database, &version), 0);
    struct range_request request = {version, text(""), text("\xff"), 1000000, SIZE_MAX, 0, false};
    assert_int_equal(database_get_range(database, &request, &rows, &more), 0);
    for (int i = 0; i < rows.count; i++)
        sum = sum * 31 + checksum(rows_value(&rows, i), checksum(rows_key(&rows, i), 1));
    digest_rows = rows.count;
    rows_free(&rows);
    database_close(database);
    return sum;
}

static uint64_t expected_digest(void) {
    static uint64_t expected;
    if (!expected) {
        copy_original();
        expected = digest(copy);
        assert_int_equal(digest_rows, 41);
    }
    return expected;
}

static void ignore_finding(void *context, const struct check_finding *finding) {
    (void)context;
    if (finding->severity == CHECK_DAMAGE)
        print_error("%s %s: %s\n", finding->kind, finding->file, finding->what);
}

static void assert_sound(void) {
    struct check_callbacks callbacks = {ignore_finding, NULL, NULL};
    struct check_summary summary;
    char *message = NULL;
    assert_int_equal(engine_check(copy, &callbacks, &summary, &message), 0);
    assert_int_equal(summary.damages, 0);
}

static fdb_error_t compact(struct compact_summary *summary) {
    char *message = NULL;
    fdb_error_t error = engine_compact(copy, NULL, NULL, summary, &message);
    if (error)
        assert_non_null(message);
    else
        assert_null(message);
    memory_free(message);
    return error;
}

static int progress_calls;
static bool go_on = true;

static bool progress(void *context, uint64_t done, uint64_t total) {
    assert_ptr_equal(context, &progress_calls);
    assert_true(done <= total);
    progress_calls++;
    return go_on;
}

static void test_smaller(void **state) {
    (void)state;
    uint64_t expected = expected_digest();
    copy_original();
    struct compact_summary summary = {0};
    char *message = NULL;
    assert_int_equal(engine_compact(copy, progress, &progress_calls, &summary, &message), 0);
    assert_true(progress_calls > 0);
    assert_int_equal(summary.rows, 40); /* one is in the log only */
    assert_true(summary.bytes_before > 7000000);
    assert_true(summary.bytes_after < 1000000);
    assert_true(file_bytes("base.keel") == summary.bytes_after);
    assert_true(file_bytes("base.keel.compact") == 0);
    char path[600];
    struct stat status;
    snprintf(path, sizeof path, "%s/base.keel", copy);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_sound();
    assert_true(digest(copy) == expected); /* the log goes on where the base ends */
    assert_sound();
    assert_int_equal(compact(&summary), 0); /* again */
    assert_true(summary.bytes_after <= summary.bytes_before);
    struct database *database = open_at(copy);
    struct mutation more = {MUTATION_SET, text("more"), text("after it")};
    commit(database, &more, 1);
    database_close(database);
    assert_sound();
    digest(copy);
    assert_int_equal(digest_rows, 42);
}

static void test_empty(void **state) {
    (void)state;
    struct compact_summary summary = {0};
    run("rm -rf '%s'", copy);
    database_close(open_at(copy));
    assert_int_equal(compact(&summary), 0);
    assert_int_equal(summary.rows, 0);
    assert_sound();
    digest(copy);
    assert_int_equal(digest_rows, 0);
}

static void test_refused(void **state) {
    (void)state;
    struct compact_summary summary = {.rows = 77};
    copy_original();
    struct database *database = open_at(copy);
    assert_int_equal(compact(&summary), ERROR_DATABASE_IN_USE);
    database_close(database);
    copy_original();
    char path[600];
    snprintf(path, sizeof path, "%s/base.keel", copy);
    FILE *file = fopen(path, "r+b");
    fseek(file, 4096 * 3, SEEK_SET);
    for (int i = 0; i < 4096 * 20; i++)
        fputc(0x5a, file);
    fclose(file);
    run("cksum '%s' > '%s/before'", path, scratch);
    assert_int_equal(compact(&summary), ERROR_DATABASE_DAMAGED);
    run("cksum '%s' | cmp - '%s/before'", path, scratch);
    assert_true(file_bytes("base.keel.compact") == 0);
    assert_int_equal(summary.rows, 77);
    run("rm -rf '%s'", copy);
    assert_int_equal(compact(&summary), ERROR_FILE_NOT_FOUND);
    copy_original();
    char *message = NULL;
    go_on = false;
    assert_int_equal(engine_compact(copy, progress, &progress_calls, &summary, &message), ERROR_OPERATION_CANCELLED);
    go_on = true;
    memory_free(message);
}

/* What an interrupted compaction leaves is no obstacle and goes. */
static void test_leftover(void **state) {
    (void)state;
    struct compact_summary summary;
    uint64_t expected = expected_digest();
    copy_original();
    run("head -c 100000 '%s/base.keel' > '%s/base.keel.compact'", copy, copy);
    assert_sound();
    assert_true(digest(copy) == expected);
    assert_true(file_bytes("base.keel.compact") == 0);
    run("head -c 100000 '%s/base.keel' > '%s/base.keel.compact'", copy, copy);
    assert_int_equal(compact(&summary), 0);
    assert_true(file_bytes("base.keel.compact") == 0);
    assert_true(digest(copy) == expected);
}

static long countdown;
static bool kill_there;

static fdb_error_t fault(void *context, const char *what, const char *path) {
    (void)context;
    (void)what;
    (void)path;
    if (countdown-- > 0)
        return ERROR_SUCCESS;
    if (kill_there)
        _exit(0);
    return ERROR_IO_ERROR;
}

/* The operating system refuses one call after the other. */
static void test_failing_calls(void **state) {
    (void)state;
    struct compact_summary summary;
    uint64_t expected = expected_digest();
    kill_there = false;
    int failures = 0;
    for (long step = 0;; step++) {
        copy_original();
        countdown = step;
        os_file_set_fault(fault, NULL);
        fdb_error_t error = compact(&summary);
        os_file_set_fault(NULL, NULL);
        assert_sound();
        assert_true(digest(copy) == expected);
        if (!error)
            break;
        assert_int_equal(error, ERROR_IO_ERROR);
        failures++;
    }
    assert_true(failures >= 4); /* the leftover's removal, the copy's sync, the rename, the directory's sync */
}

/* A process that is killed before each of these calls. */
static void test_killed(void **state) {
    (void)state;
    uint64_t expected = expected_digest();
    int kills = 0;
    for (long step = 0;; step++) {
        copy_original();
        pid_t child = fork();
        if (child == 0) {
            struct compact_summary summary;
            char *message;
            countdown = step;
            kill_there = true;
            os_file_set_fault(fault, NULL);
            _exit(engine_compact(copy, NULL, NULL, &summary, &message) == 0 ? 1 : 2);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 2);
        assert_sound();
        assert_true(digest(copy) == expected);
        assert_true(file_bytes("base.keel.compact") == 0);
        if (WEXITSTATUS(status) == 1)
            break;
        kills++;
    }
    assert_true(kills >= 4);
}

static void test_out_of_memory(void **state) {
    (void)state;
    struct compact_summary summary;
    uint64_t expected = expected_digest();
    copy_original();
    for (long step = 0;; step++) {
        char *message = NULL;
        memory_fail_after(step);
        fdb_error_t error = engine_compact(copy, NULL, NULL, &summary, &message);
        memory_fail_after(-1);
        memory_free(message);
        if (!error)
            break;
        assert_int_equal(error, ERROR_LARGE_ALLOC_FAILED);
    }
    assert_true(digest(copy) == expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smaller),       cmocka_unit_test(test_empty),  cmocka_unit_test(test_refused),       cmocka_unit_test(test_leftover),
        cmocka_unit_test(test_failing_calls), cmocka_unit_test(test_killed), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_original, remove_scratch);
}
