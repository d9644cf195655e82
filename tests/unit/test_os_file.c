/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: round trips, preallocation, locks, directories, error codes and the fault hook.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/file.h"

static char directory[64];

static const char *path_in(const char *name) {
    static char paths[4][128];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/keel-file-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static void write_and_read(void **state) {
    (void)state;
    struct os_file file;
    assert_int_equal(os_file_open(path_in("none"), false, &file), ERROR_FILE_NOT_FOUND);
    assert_non_null(strstr(os_last_error(), "none"));
    assert_int_equal(os_file_open(path_in("a"), true, &file), 0);
    assert_int_equal(os_file_write(&file, 10, BYTES_LITERAL("hello")), 0);
    assert_int_equal(os_file_sync(&file), 0);
    uint64_t size = 0;
    assert_int_equal(os_file_size(&file, &size), 0);
    assert_int_equal(size, 15);
    char buffer[32];
    size_t got = 0;
    assert_int_equal(os_file_read(&file, 8, buffer, sizeof buffer, &got), 0);
    assert_int_equal(got, 7);
    assert_memory_equal(buffer, "\0\0hello", 7);
    assert_int_equal(os_file_read(&file, 100, buffer, sizeof buffer, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(os_file_close(&file), 0);
    assert_int_equal(os_file_open(path_in("a"), false, &file), 0);
    assert_int_equal(os_file_read(&file, 10, buffer, 5, &got), 0);
    assert_memory_equal(buffer, "hello", 5);
    assert_int_equal(os_file_close(&file), 0);
}

static void preallocate_keeps_contents(void **state) {
    (void)state;
    struct os_file file;
    assert_int_equal(os_file_open(path_in("p"), true, &file), 0);
    assert_int_equal(os_file_write(&file, 0, BYTES_LITERAL("head")), 0);
    assert_int_equal(os_file_preallocate(&file, 1000000), 0);
    uint64_t size = 0;
    assert_int_equal(os_file_size(&file, &size), 0);
    assert_int_equal(size, 1000000);
    uint8_t *all = malloc(1000000);
    size_t got = 0;
    assert_int_equal(os_file_read(&file, 0, all, 1000000, &got), 0);
    assert_memory_equal(all, "head", 4);
    for (size_t i = 4; i < got; i++)
        assert_int_equal(all[i], 0);
    free(all);
    /* A request for less changes nothing. */
    assert_int_equal(os_file_preallocate(&file, 10), 0);
    assert_int_equal(os_file_size(&file, &size), 0);
    assert_int_equal(size, 1000000);
    assert_int_equal(os_file_close(&file), 0);
}

/* No room half-way (a limit on file size stands in for a full disk): the file has its old length. */
static void preallocate_that_fails_is_undone(void **state) {
    (void)state;
    struct os_file file;
    assert_int_equal(os_file_open(path_in("q"), true, &file), 0);
    assert_int_equal(os_file_write(&file, 0, BYTES_LITERAL("head")), 0);
    struct rlimit before, narrow;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    narrow = before;
    narrow.rlim_cur = 700000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &narrow), 0);
    fdb_error_t error = os_file_preallocate(&file, 1000000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(error, ERROR_DISK_FULL);
    uint64_t size = 0;
    assert_int_equal(os_file_size(&file, &size), 0);
    assert_int_equal(size, 4);
    assert_int_equal(os_file_close(&file), 0);
}

static void lock_excludes_also_in_this_process(void **state) {
    (void)state;
    struct os_file first, second;
    assert_int_equal(os_file_open(path_in("lock"), true, &first), 0);
    assert_int_equal(os_file_open(path_in("lock"), true, &second), 0);
    assert_int_equal(os_file_lock(&first), 0);
    assert_int_equal(os_file_lock(&second), ERROR_DATABASE_IN_USE);
    assert_int_equal(os_file_close(&first), 0);
    assert_int_equal(os_file_lock(&second), 0);
    assert_int_equal(os_file_close(&second), 0);
}

static fdb_error_t count_entry(void *context, const char *name) {
    assert_string_not_equal(name, ".");
    assert_string_not_equal(name, "..");
    ++*(int *)context;
    return strcmp(name, "stop") == 0 ? ERROR_OPERATION_FAILED : 0;
}

static void directories(void **state) {
    (void)state;
    enum os_path_kind kind;
    assert_int_equal(os_path_kind(path_in("d"), &kind), 0);
    assert_int_equal(kind, OS_PATH_MISSING);
    assert_int_equal(os_directory_create(path_in("d//e/f/")), 0);
    assert_int_equal(os_directory_create(path_in("d/e/f")), 0);
    assert_int_equal(os_path_kind(path_in("d/e/f"), &kind), 0);
    assert_int_equal(kind, OS_PATH_DIRECTORY);
    struct os_file file;
    assert_int_equal(os_file_open(path_in("d/x"), true, &file), 0);
    assert_int_equal(os_file_close(&file), 0);
    assert_int_equal(os_path_kind(path_in("d/x"), &kind), 0);
    assert_int_equal(kind, OS_PATH_FILE);
    assert_int_equal(os_directory_create(path_in("d/x")), ERROR_IO_ERROR);
    assert_int_equal(os_directory_create(path_in("d/x/y")), ERROR_IO_ERROR);
    assert_int_equal(os_directory_create(""), ERROR_FILE_NOT_FOUND);
    int entries = 0;
    assert_int_equal(os_directory_list(path_in("d"), count_entry, &entries), 0);
    assert_int_equal(entries, 2);
    assert_int_equal(os_rename(path_in("d/x"), path_in("d/stop")), 0);
    assert_int_equal(os_directory_sync(path_in("d")), 0);
    assert_int_equal(os_directory_list(path_in("d"), count_entry, &entries), ERROR_OPERATION_FAILED);
    assert_int_equal(os_remove(path_in("d/stop")), 0);
    assert_int_equal(os_remove(path_in("d/stop")), ERROR_FILE_NOT_FOUND);
    assert_int_equal(os_rename(path_in("d/x"), path_in("d/y")), ERROR_FILE_NOT_FOUND);
    assert_int_equal(os_directory_list(path_in("nowhere"), count_entry, &entries),
                     ERROR_FILE_NOT_FOUND);
    assert_int_equal(os_path_kind("/dev/null", &kind), 0);
    assert_int_equal(kind, OS_PATH_OTHER);
}

static char calls[256];

static fdb_error_t record_fault(void *context, const char *what, const char *path) {
    strcat(strcat(calls, what), " ");
    assert_true(strncmp(path, directory, strlen(directory)) == 0);
    return *(fdb_error_t *)context;
}

static void faults(void **state) {
    (void)state;
    struct os_file file;
    assert_int_equal(os_file_open(path_in("faulty"), true, &file), 0);
    fdb_error_t answer = ERROR_DISK_FULL;
    os_file_set_fault(record_fault, &answer);
    assert_int_equal(os_file_write(&file, 0, BYTES_LITERAL("x")), ERROR_DISK_FULL);
    assert_int_equal(os_file_preallocate(&file, 4096), ERROR_DISK_FULL);
    assert_int_equal(os_file_sync(&file), ERROR_DISK_FULL);
    assert_int_equal(os_directory_sync(directory), ERROR_DISK_FULL);
    assert_int_equal(os_rename(path_in("faulty"), path_in("other")), ERROR_DISK_FULL);
    assert_int_equal(os_remove(path_in("faulty")), ERROR_DISK_FULL);
    assert_string_equal(calls, "write allocate sync sync rename remove ");
    answer = 0;
    assert_int_equal(os_file_write(&file, 0, BYTES_LITERAL("x")), 0);
    os_file_set_fault(NULL, NULL);
    uint64_t size = 0;
    assert_int_equal(os_file_size(&file, &size), 0);
    assert_int_equal(size, 1); /* none of the refused calls did anything */
    assert_int_equal(os_file_close(&file), 0);
}

static void random_and_clock(void **state) {
    (void)state;
    uint8_t a[300] = {0}, b[300] = {0};
    os_random(a, sizeof a);
    os_random(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    int64_t before_us = os_clock_us();
    os_sleep_us(1000);
    assert_true(os_clock_us() - before_us >= 1000);
    assert_true(os_clock_coarse_us() <= os_clock_us());
    assert_true(os_clock_wall_seconds() > 1.6e9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_and_read),
        cmocka_unit_test(preallocate_keeps_contents),
        cmocka_unit_test(preallocate_that_fails_is_undone),
        cmocka_unit_test(lock_excludes_also_in_this_process),
        cmocka_unit_test(directories),
        cmocka_unit_test(faults),
        cmocka_unit_test(random_and_clock),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
