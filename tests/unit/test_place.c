/* SPDX-License-Identifier: Apache-2.0 */
/* What a path given to fdb_create_database means, and when it is opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/place.h"

static char scratch[256];

static int make_scratch(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/keel-place-XXXXXX", base && *base ? base : "/tmp");
    unsetenv("FDB_CLUSTER_FILE");
    return mkdtemp(scratch) && chdir(scratch) == 0 ? 0 : -1;
}

static int remove_scratch(void **state) {
    (void)state;
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return chdir("/") || system(command);
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* ---- Connection strings ---- */

static bool valid(const char *text) {
    return place_is_connection_string(text, strlen(text));
}

static void connection_strings(void **state) {
    (void)state;
    assert_true(valid("test:abc123@127.0.0.1:4500"));
    assert_true(valid("# a comment\n  te_st:abc@127.0.0.1:4500,10.0.0.2:4501:tls\n"));
    assert_true(valid("d:i@[::1]:4500"));
    assert_true(valid("d:i@host-1.example.com:4500"));
    assert_false(valid(""));
    assert_false(valid("hello"));
    assert_false(valid("d@1.2.3.4:4500"));
    assert_false(valid("d-d:i@1.2.3.4:4500"));
    assert_false(valid("d:i_i@1.2.3.4:4500"));
    assert_false(valid("d:i@"));
    assert_false(valid("d:i@1.2.3.4"));
    assert_false(valid("d:i@1.2.3.4:0"));
    assert_false(valid("d:i@1.2.3.4:65536"));
    assert_false(valid("d:i@1.2.3.4:4500,"));
    assert_false(valid("d:i@:4500"));
    assert_false(valid("d:i@[]:4500"));
    assert_false(place_is_connection_string("d:i@1.2.3.4:45\0" "00", 17));
}

/* ---- Where to look ---- */

static void look(const char *path, const char *expect) {
    char chosen[OS_PATH_BYTES_MAX], expected[OS_PATH_BYTES_MAX];
    assert_int_equal(place_choose(path, chosen), 0);
    assert_int_equal(os_path_absolute(expect, expected), 0);
    assert_string_equal(chosen, expected);
}

static void the_order_of_looking(void **state) {
    (void)state;
    char chosen[OS_PATH_BYTES_MAX];
    if (access("/etc/foundationdb/fdb.cluster", F_OK) != 0) {
        look(NULL, "./keel.db");
        look("", "./keel.db");
    }
    write_file("fdb.cluster", "d:i@127.0.0.1:4500");
    look(NULL, "./fdb.cluster");
    setenv("FDB_CLUSTER_FILE", "elsewhere", 1);
    look(NULL, "elsewhere");
    look("given", "given");
    look("/given", "/given");
    assert_int_equal(place_choose(":memory:", chosen), 0);
    assert_string_equal(chosen, ":memory:");
    unsetenv("FDB_CLUSTER_FILE");
    remove("fdb.cluster");
}

/* ---- What opening says ---- */

static fdb_error_t answer(struct database *place) {
    int64_t version;
    fdb_error_t error = database_get_read_version(place, &version);
    return error;
}

static fdb_error_t open_error(const char *path) {
    char chosen[OS_PATH_BYTES_MAX];
    assert_int_equal(place_choose(path, chosen), 0);
    struct database *place = place_create(chosen);
    assert_non_null(place);
    fdb_error_t error = answer(place);
    place_closing_begin();
    database_close(place);
    place_closing_end();
    return error;
}

static void files_are_clusters(void **state) {
    (void)state;
    write_file("good.cluster", "d:i@127.0.0.1:4500\n");
    write_file("bad.cluster", "nonsense\n");
    write_file("good_by_any_name", "d:i@127.0.0.1:4500\n");
    assert_int_equal(open_error("missing.cluster"), ERROR_NO_CLUSTER_FILE_FOUND);
    assert_int_equal(open_error("good.cluster"), ERROR_CLUSTER_LIBRARY_MISSING);
    assert_int_equal(open_error("good_by_any_name"), ERROR_CLUSTER_LIBRARY_MISSING);
    assert_int_equal(open_error("bad.cluster"), ERROR_CONNECTION_STRING_INVALID);
    assert_int_equal(open_error("/dev/null"), ERROR_CONNECTION_STRING_INVALID);
}

static _Atomic int committed_error;

static void note_commit(struct commit_request *request, fdb_error_t error) {
    (void)request;
    committed_error = error;
}

static void a_failed_place_answers_everything(void **state) {
    (void)state;
    struct database *place = place_create_failed(ERROR_TENANTS_DISABLED);
    struct rows rows = {0};
    struct arena arena = {0};
    struct bytes value;
    bool flag;
    int64_t bytes;
    struct commit_request request = {.complete = note_commit};
    struct range_request range = {.version = 1, .row_limit = 1, .byte_limit = SIZE_MAX};
    struct watch watch = {.fire = NULL};
    struct database_status status;
    assert_int_equal(answer(place), ERROR_TENANTS_DISABLED);
    assert_int_equal(database_check_read_version(place, 1), ERROR_TENANTS_DISABLED);
    assert_int_equal(database_get(place, 1, BYTES_LITERAL("k"), &arena, &value, &flag),
                     ERROR_TENANTS_DISABLED);
    assert_int_equal(database_get_range(place, &range, &rows, &flag), ERROR_TENANTS_DISABLED);
    assert_int_equal(database_watch(place, &watch), ERROR_TENANTS_DISABLED);
    assert_int_equal(database_estimate_bytes(place, BYTES_LITERAL(""), BYTES_LITERAL("z"), &bytes),
                     ERROR_TENANTS_DISABLED);
    database_commit(place, &request);
    assert_int_equal(committed_error, ERROR_TENANTS_DISABLED);
    database_drive(place, request.ticket);
    database_hurry(place);
    assert_false(database_unwatch(place, &watch));
    database_get_status(place, &status);
    database_close(place);
}

/* ---- Embedded databases ---- */

static void opened_by_the_first_operation(void **state) {
    (void)state;
    char path[OS_PATH_BYTES_MAX];
    assert_int_equal(os_path_absolute("deep/below/data", path), 0);
    struct database *place = place_create(path);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(answer(place), 0);
    assert_int_equal(access(path, F_OK), 0);
    place_closing_begin();
    database_close(place);
    place_closing_end();
}

/* A file stands in the way; once it is gone the same place opens. */
static void a_failure_is_tried_again(void **state) {
    (void)state;
    char path[OS_PATH_BYTES_MAX];
    assert_int_equal(os_path_absolute("again", path), 0);
    write_file("again", "nonsense");
    struct database *place = place_create(path);
    assert_int_equal(answer(place), ERROR_CONNECTION_STRING_INVALID);
    assert_int_equal(remove("again"), 0);
    assert_int_equal(answer(place), 0);
    place_closing_begin();
    database_close(place);
    place_closing_end();
}

static void set_key(struct database *place, const char *key) {
    struct bytes bytes = bytes_make(key, strlen(key));
    char after[64];
    memcpy(after, key, bytes.length + 1);
    struct mutation mutation = {MUTATION_SET, bytes, BYTES_LITERAL("v")};
    struct key_range range = {bytes, bytes_make(after, bytes.length + 1)};
    struct commit_request request = {.mutations = &mutation,
                                     .mutation_count = 1,
                                     .write_conflicts = &range,
                                     .write_conflict_count = 1,
                                     .size_bytes = 10,
                                     .complete = note_commit};
    committed_error = -1;
    database_commit(place, &request);
    database_hurry(place);
    while (committed_error == -1) {
        database_drive(place, request.ticket);
        usleep(100);
    }
    assert_int_equal(committed_error, 0);
}

static bool has_key(struct database *place, const char *key) {
    struct arena arena = {0};
    struct bytes value;
    bool present = false;
    int64_t version;
    assert_int_equal(database_get_read_version(place, &version), 0);
    assert_int_equal(database_get(place, version, bytes_make(key, strlen(key)), &arena, &value,
                                  &present), 0);
    arena_free(&arena);
    return present;
}

static void one_directory_is_one_engine(void **state) {
    (void)state;
    char path[OS_PATH_BYTES_MAX], other[OS_PATH_BYTES_MAX];
    assert_int_equal(os_path_absolute("shared", path), 0);
    assert_int_equal(os_path_absolute("./link/../shared", other), 0);
    assert_int_equal(mkdir("link", 0700), 0);
    struct database *first = place_create(path), *second = place_create(other);
    set_key(first, "one");
    assert_true(has_key(second, "one"));
    place_closing_begin();
    database_close(first);
    assert_true(has_key(second, "one"));
    database_close(second);
    place_closing_end();
    struct database *third = place_create(path); /* closed for good: opens again */
    assert_true(has_key(third, "one"));
    database_close(third); /* not between begin and end: a thread of its own closes it */
    struct database *fourth = place_create(path);
    assert_true(has_key(fourth, "one"));
    place_closing_begin();
    database_close(fourth);
    place_closing_end();
}

static void every_memory_is_another(void **state) {
    (void)state;
    struct database *first = place_create(":memory:"), *second = place_create(":memory:");
    set_key(first, "mine");
    assert_true(has_key(first, "mine"));
    assert_false(has_key(second, "mine"));
    place_closing_begin();
    database_close(first);
    database_close(second);
    place_closing_end();
}

int main(void) {
    setenv("KEEL_FDB_LIBRARY", "/nowhere/libfdb_c.so", 1); /* whatever is installed */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_strings),
        cmocka_unit_test(the_order_of_looking),
        cmocka_unit_test(files_are_clusters),
        cmocka_unit_test(a_failed_place_answers_everything),
        cmocka_unit_test(opened_by_the_first_operation),
        cmocka_unit_test(a_failure_is_tried_again),
        cmocka_unit_test(one_directory_is_one_engine),
        cmocka_unit_test(every_memory_is_another),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
