/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keel's own: where a database lives, that it outlives its handles, what a second process is told,
 * functions newer than API version 740. Skipped when KEEL_TEST_CLUSTER names a database.
 */
#include "support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ERROR_NO_CLUSTER_FILE_FOUND = 1515 };

static FDBDatabase *open_path(const char *path) {
    FDBDatabase *database = NULL;
    assert_int_equal(fdb_create_database(path, &database), 0);
    assert_non_null(database);
    return database;
}

static fdb_error_t first_error(FDBDatabase *database) {
    FDBTransaction *tr = begin_on(database);
    fdb_error_t error = future_error(get(tr, text("a")));
    fdb_transaction_destroy(tr);
    return error;
}

static void write_to(FDBDatabase *database, const char *name, const char *value) {
    FDBTransaction *tr = begin_on(database);
    put(tr, text(name), text(value));
    commit(tr);
    fdb_transaction_destroy(tr);
}

static struct value read_from(FDBDatabase *database, const char *name) {
    FDBTransaction *tr = begin_on(database);
    struct value value = future_value(get(tr, text(name)));
    fdb_transaction_destroy(tr);
    return value;
}

static int64_t version_of(FDBDatabase *database) {
    FDBTransaction *tr = begin_on(database);
    int64_t version = future_int64(fdb_transaction_get_read_version(tr));
    fdb_transaction_destroy(tr);
    return version;
}

static void write_file(const char *path, const char *content) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

#define EMBEDDED_ONLY                                                                             \
    do {                                                                                          \
        (void)state;                                                                              \
        if (!run_is_embedded()) {                                                                 \
            SKIP("is about embedded databases");                                                  \
        }                                                                                         \
    } while (0)

static void a_missing_path_becomes_a_database(void **state) {
    EMBEDDED_ONLY;
    const char *path = run_temporary_path("fresh");
    FDBDatabase *database = open_path(path);
    write_to(database, "a", "1");
    fdb_database_destroy(database);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISDIR(status.st_mode));
}

static void an_empty_directory_becomes_a_database(void **state) {
    EMBEDDED_ONLY;
    const char *path = run_temporary_path("empty");
    assert_int_equal(mkdir(path, 0755), 0);
    FDBDatabase *database = open_path(path);
    write_to(database, "a", "1");
    assert_value(read_from(database, "a"), text("1"));
    fdb_database_destroy(database);
}

static void data_and_versions_outlive_the_handle(void **state) {
    EMBEDDED_ONLY;
    const char *path = run_temporary_path("reopened");
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        FDBDatabase *database = open_path(path);
        int64_t version = version_of(database);
        assert_true(version > last);
        if (i > 0) {
            assert_value(read_from(database, "round"), little_endian((uint64_t)i - 1, 1));
        }
        FDBTransaction *tr = begin_on(database);
        put(tr, text("round"), little_endian((uint64_t)i, 1));
        commit(tr);
        assert_int_equal(fdb_transaction_get_committed_version(tr, &last), 0);
        fdb_transaction_destroy(tr);
        fdb_database_destroy(database);
    }
}

static void directories_are_separate_databases(void **state) {
    EMBEDDED_ONLY;
    FDBDatabase *one = open_path(run_temporary_path("one"));
    FDBDatabase *two = open_path(run_temporary_path("two"));
    write_to(one, "a", "1");
    assert_absent(read_from(two, "a"));
    fdb_database_destroy(one);
    fdb_database_destroy(two);
}

static void memory_databases_are_private_and_pass(void **state) {
    EMBEDDED_ONLY;
    FDBDatabase *one = open_path(":memory:");
    FDBDatabase *two = open_path(":memory:");
    write_to(one, "a", "1");
    assert_value(read_from(one, "a"), text("1"));
    assert_absent(read_from(two, "a"));
    fdb_database_destroy(one);
    one = open_path(":memory:");
    assert_absent(read_from(one, "a"));
    fdb_database_destroy(one);
    fdb_database_destroy(two);
    assert_int_not_equal(access(":memory:", F_OK), 0);
}

static void a_missing_cluster_file_shows_with_the_first_operation(void **state) {
    EMBEDDED_ONLY;
    FDBDatabase *database = open_path(run_temporary_path("missing.cluster"));
    assert_int_equal(first_error(database), ERROR_NO_CLUSTER_FILE_FOUND);
    fdb_database_destroy(database);
}

static void a_malformed_cluster_file_shows_with_the_first_operation(void **state) {
    EMBEDDED_ONLY;
    const char *path = run_temporary_path("malformed.cluster");
    write_file(path, "this is not a connection string\n");
    FDBDatabase *database = open_path(path);
    assert_int_equal(first_error(database), ERROR_CONNECTION_STRING_INVALID);
    fdb_database_destroy(database);
    path = run_temporary_path("ordinary file");
    write_file(path, "neither is this");
    database = open_path(path);
    assert_int_equal(first_error(database), ERROR_CONNECTION_STRING_INVALID);
    fdb_database_destroy(database);
    unlink(path);
}

static void connection_strings_are_checked(void **state) {
    EMBEDDED_ONLY;
    FDBDatabase *database = NULL;
    fdb_error_t error = fdb_create_database_from_connection_string("nonsense", &database);
    if (!error) {
        error = first_error(database);
        fdb_database_destroy(database);
    }
    assert_int_equal(error, ERROR_CONNECTION_STRING_INVALID);
}

static void a_path_below_a_file_is_refused(void **state) {
    EMBEDDED_ONLY;
    const char *path = run_temporary_path("unwritable");
    /* A path below a file can never be a directory. */
    write_file(path, "");
    const char *below = run_temporary_path("unwritable/below");
    FDBDatabase *database = open_path(below);
    assert_int_not_equal(first_error(database), 0);
    fdb_database_destroy(database);
    unlink(path);
}

static void a_second_process_joins(void **state) {
    EMBEDDED_ONLY;
    FDBDatabase *database = open_path(run_temporary_path("shared"));
    write_to(database, "a", "1");
    const char *path = run_temporary_path("shared");
    char *entry = scratch(strlen(path) + 32);
    sprintf(entry, "CONFORMANCE_TAKEN=%s", path);
    run_child("embedded-second-opener", entry);
    assert_value(read_from(database, "a"), text("2"));
    fdb_database_destroy(database);
}

static void a_closed_database_opens_in_another_process(void **state) {
    EMBEDDED_ONLY;
    const char *path = run_temporary_path("handed over");
    FDBDatabase *database = open_path(path);
    write_to(database, "a", "1");
    fdb_database_destroy(database);
    char *entry = scratch(strlen(path) + 32);
    sprintf(entry, "CONFORMANCE_HANDED=%s", path);
    run_child("embedded-handed-over", entry);
    database = open_path(path);
    assert_value(read_from(database, "a"), text("2"));
    fdb_database_destroy(database);
}

static void the_default_place_is_found(void **state) {
    EMBEDDED_ONLY;
    run_child("embedded-default-place", NULL);
    run_child("embedded-environment-place", NULL);
}

static void special_keys_name_the_place(void **state) {
    EMBEDDED_ONLY;
    struct value path = load(LITERAL("\xff\xff/cluster_file_path"));
    assert_true(path.present);
    assert_value(path, text(run_database_path()));
}

static void estimates_follow_the_data(void **state) {
    EMBEDDED_ONLY;
    FDBTransaction *tr = begin();
    for (int i = 0; i < 90; i++) {
        put(tr, key_bytes(repeat((uint8_t)i, 2)), repeat('v', VALUE_BYTES_MAX));
    }
    commit(tr);
    fdb_transaction_reset(tr);
    int64_t bytes = future_int64(fdb_transaction_get_estimated_range_size_bytes(
        tr, key("").data, key("").size, prefix_end().data, prefix_end().size));
    assert_true(bytes > 2000000 && bytes < 40000000);
    fdb_transaction_destroy(tr);
}

typedef FDBFuture *(*split_with_limit)(FDBTransaction *, const uint8_t *, int, const uint8_t *, int,
                                       int64_t, int);

static int split_count(FDBTransaction *tr, split_with_limit split, int limit) {
    FDBFuture *future = split(tr, key("").data, key("").size, prefix_end().data, prefix_end().size,
                              100000, limit);
    assert_int_equal(fdb_future_block_until_ready(future), 0);
    const FDBKey *points = NULL;
    int count = 0;
    assert_int_equal(fdb_future_get_key_array(future, &points, &count), 0);
    assert_bytes(raw(points[0].key, points[0].key_length), key(""));
    assert_bytes(raw(points[count - 1].key, points[count - 1].key_length), prefix_end());
    fdb_future_destroy(future);
    return count;
}

static void split_points_can_be_limited(void **state) {
    EMBEDDED_ONLY;
    split_with_limit split;
    void *symbol = dlsym(RTLD_DEFAULT, "fdb_transaction_get_range_split_points_with_limit");
    assert_non_null(symbol);
    memcpy(&split, &symbol, sizeof split);
    FDBTransaction *tr = begin();
    for (int i = 0; i < 80; i++) {
        put(tr, key_bytes(repeat((uint8_t)i, 2)), repeat('v', VALUE_BYTES_MAX));
    }
    commit(tr);
    fdb_transaction_reset(tr);
    int unlimited = split_count(tr, split, -1);
    assert_true(unlimited > 10);
    assert_int_equal(split_count(tr, split, 3), 5);
    assert_int_equal(split_count(tr, split, 0), 2);
    assert_int_equal(split_count(tr, split, 100000), unlimited);
    fdb_transaction_destroy(tr);
}

static void old_api_versions_are_refused(void **state) {
    EMBEDDED_ONLY;
    run_child("embedded-old-version", NULL);
}

/* ---- Children ---- */

static int child_second_opener(void) {
    run_begin_at(740, 740);
    FDBDatabase *database = open_path(getenv("CONFORMANCE_TAKEN"));
    FDBTransaction *tr = begin_on(database);
    assert_value(future_value(get(tr, text("a"))), text("1"));
    put(tr, text("a"), text("2"));
    commit(tr);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    run_end();
    return 0;
}

static int child_handed_over(void) {
    run_begin_at(740, 740);
    FDBDatabase *database = open_path(getenv("CONFORMANCE_HANDED"));
    assert_value(read_from(database, "a"), text("1"));
    write_to(database, "a", "2");
    fdb_database_destroy(database);
    run_end();
    return 0;
}

/* With no cluster file anywhere, ./keel.db. */
static int child_default_place(void) {
    run_begin_at(740, 740);
    unsetenv("FDB_CLUSTER_FILE");
    const char *place = run_temporary_path("elsewhere");
    assert_int_equal(mkdir(place, 0755), 0);
    assert_int_equal(chdir(place), 0);
    if (access("/etc/foundationdb/fdb.cluster", F_OK) != 0) {
        FDBDatabase *database = open_path(NULL);
        write_to(database, "a", "1");
        fdb_database_destroy(database);
        assert_int_equal(access("keel.db", F_OK), 0);
        database = open_path("");
        assert_value(read_from(database, "a"), text("1"));
        fdb_database_destroy(database);
    }
    assert_int_equal(chdir("/"), 0);
    run_end();
    return 0;
}

static int child_environment_place(void) {
    run_begin_at(740, 740);
    const char *place = run_temporary_path("named by environment");
    assert_int_equal(setenv("FDB_CLUSTER_FILE", place, 1), 0);
    FDBDatabase *database = open_path(NULL);
    write_to(database, "a", "1");
    fdb_database_destroy(database);
    assert_int_equal(access(place, F_OK), 0);
    assert_int_equal(setenv("FDB_CLUSTER_FILE", run_temporary_path("no.cluster"), 1), 0);
    database = open_path(NULL);
    assert_int_equal(first_error(database), ERROR_NO_CLUSTER_FILE_FOUND);
    fdb_database_destroy(database);
    run_end();
    return 0;
}

static int child_old_version(void) {
    assert_int_equal(fdb_select_api_version_impl(500, 740), ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(509, 509), ERROR_API_VERSION_NOT_SUPPORTED);
    assert_int_equal(fdb_select_api_version_impl(510, 510), 0);
    return 0;
}

int embedded_child_main(const char *name) {
    static const struct {
        const char *name;
        int (*run)(void);
    } children[] = {
        {"embedded-second-opener", child_second_opener},
        {"embedded-handed-over", child_handed_over},
        {"embedded-default-place", child_default_place},
        {"embedded-environment-place", child_environment_place},
        {"embedded-old-version", child_old_version},
    };
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        if (strcmp(name, children[i].name) == 0) {
            return children[i].run();
        }
    }
    return -1;
}

int group_embedded_only(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_missing_path_becomes_a_database),
        TEST(an_empty_directory_becomes_a_database),
        TEST(data_and_versions_outlive_the_handle),
        TEST(directories_are_separate_databases),
        TEST(memory_databases_are_private_and_pass),
        TEST(a_missing_cluster_file_shows_with_the_first_operation),
        TEST(a_malformed_cluster_file_shows_with_the_first_operation),
        TEST(connection_strings_are_checked),
        TEST(a_path_below_a_file_is_refused),
        TEST(a_second_process_joins),
        TEST(a_closed_database_opens_in_another_process),
        TEST(the_default_place_is_found),
        TEST(special_keys_name_the_place),
        TEST(estimates_follow_the_data),
        TEST(split_points_can_be_limited),
        TEST(old_api_versions_are_refused),
    };
    return cmocka_run_group_tests_name("embedded_only", tests, NULL, NULL);
}
