/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places that cannot hold a database, places with many names, and databases by the thousand. Each
 * failure to open also leaves a line in the log that names the path.
 */
#include "misuse.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static FDBDatabase *database;

static void write_file(const char *path, const char *content) {
    FILE *file = fopen(path, "w");
    CHECK(file);
    CHECK(fputs(content, file) >= 0);
    CHECK_EQUAL(fclose(file), 0);
}

/* Whether the log has a line with this text; then begins it anew. */
static bool logged(const char *text) {
    static char content[65536];
    FILE *file = fopen(scratch_path("log.txt"), "r");
    if (!file)
        return false;
    size_t length = fread(content, 1, sizeof content - 1, file);
    content[length] = 0;
    fclose(file);
    bool found = strstr(content, text) != NULL;
    if (!found)
        fprintf(stderr, "the log says: %s\n", content);
    unlink(scratch_path("log.txt"));
    return found;
}

/* The error of the first operation on a path, which is also that of the second and of a commit. */
static fdb_error_t error_of(const char *path) {
    database = database_open(path);
    FDBTransaction *tr = transaction_begin(database);
    fdb_error_t error = finish(fdb_transaction_get_read_version(tr));
    fdb_transaction_reset(tr);
    CHECK_EQUAL(finish(fdb_transaction_get(tr, KEY("k"), 0)), error);
    fdb_transaction_reset(tr);
    set_text(tr, "k", "v");
    FDBFuture *watch = fdb_transaction_watch(tr, KEY("w"));
    CHECK_EQUAL(commit(tr), error);
    fdb_future_destroy(watch);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    return error;
}

static void begin_with_log(void) {
    setenv("KEEL_LOG", scratch_path("log.txt"), 1);
    network_start();
}

static void paths_that_are_no_directories(void) {
    begin_with_log();
    write_file(scratch_path("file"), "no connection string");
    write_file(scratch_path("empty"), "");
    write_file(scratch_path("good"), "a:b@127.0.0.1:4500");
    CHECK_EQUAL(error_of(scratch_path("file")), 2104);
    CHECK(logged("/file"));
    CHECK_EQUAL(error_of(scratch_path("empty")), 2104);
    CHECK(logged("/empty"));
    CHECK_EQUAL(error_of(scratch_path("good")), 20008);
    CHECK(logged("/good"));
    CHECK_EQUAL(error_of(scratch_path("missing.cluster")), 1515);
    CHECK(logged("/missing.cluster"));
    CHECK_EQUAL(error_of("/dev/null"), 2104);
    CHECK(logged("/dev/null"));
    CHECK(error_of(scratch_path("file/below")) != 0);
    CHECK(logged("/file/below"));
    CHECK(error_of(scratch_path("file/")) != 0);
    CHECK(logged("/file/"));
    CHECK_EQUAL(symlink("loop", scratch_path("loop")), 0);
    CHECK(error_of(scratch_path("loop")) != 0);
    CHECK(logged("/loop"));
    CHECK_EQUAL(mkdir(scratch_path("foreign"), 0700), 0);
    write_file(scratch_path("foreign/letter.txt"), "dear");
    CHECK_EQUAL(error_of(scratch_path("foreign")), 20002);
    CHECK(logged("letter.txt"));
    CHECK_EQUAL(access(scratch_path("foreign/lock.keel"), F_OK), -1);
    CHECK_EQUAL(error_of("/"), 20002);
    CHECK_EQUAL(access("/lock.keel", F_OK), -1);
    network_stop();
}

static void paths_that_are_too_long(void) {
    static char path[201000];
    begin_with_log();
    static const int lengths[] = {256, 3000, 4096, 4097, 5000, 199999};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int prefix = snprintf(path, 1000, "%s/", scratch_path(""));
        memset(path + prefix, 'a', (size_t)lengths[i]);
        path[prefix + lengths[i]] = 0;
        CHECK(error_of(path) != 0);
        CHECK(logged("aaaa"));
    }
    /* many short names: too long as a whole */
    for (int i = 0; i < 4090; i++)
        path[i] = i % 2 ? 'b' : '/';
    memcpy(path, "/dev/null/", 10); /* nothing is created on the way */
    path[4090] = 0;
    CHECK(error_of(path) != 0);
    network_stop();
}

static void the_empty_path_is_the_default(void) {
    network_start();
    CHECK_EQUAL(mkdir(scratch_path("here"), 0700), 0);
    CHECK_EQUAL(chdir(scratch_path("here")), 0);
    CHECK_EQUAL(error_of(""), 0);
    CHECK_EQUAL(access("keel.db/clock.keel", F_OK), 0);
    database = database_open(NULL);
    CHECK(has_text(database, "k", "v"));
    fdb_database_destroy(database);
    setenv("FDB_CLUSTER_FILE", "other", 1);
    CHECK_EQUAL(error_of(NULL), 0);
    CHECK_EQUAL(access("other/clock.keel", F_OK), 0);
    setenv("FDB_CLUSTER_FILE", "gone.cluster", 1);
    CHECK_EQUAL(error_of(NULL), 1515);
    unsetenv("FDB_CLUSTER_FILE");
    CHECK_EQUAL(rmdir(scratch_path("here")), -1);
    network_stop();
}

static void a_working_directory_that_is_gone(void) {
    begin_with_log();
    CHECK_EQUAL(mkdir(scratch_path("gone"), 0700), 0);
    CHECK_EQUAL(chdir(scratch_path("gone")), 0);
    CHECK_EQUAL(rmdir(scratch_path("gone")), 0);
    CHECK(error_of("db") != 0);
    CHECK(logged("db"));
    CHECK_EQUAL(chdir("/"), 0);
    network_stop();
}

static void one_directory_of_many_names(void) {
    network_start();
    CHECK_EQUAL(mkdir(scratch_path("sub"), 0700), 0);
    CHECK_EQUAL(symlink("db", scratch_path("link")), 0);
    CHECK_EQUAL(symlink("link", scratch_path("link2")), 0);
    CHECK_EQUAL(chdir(scratch_path("")), 0);
    FDBDatabase *first = database_open("db"); /* relative to what is the directory now */
    CHECK_EQUAL(chdir("sub"), 0);
    FDBTransaction *tr = transaction_begin(first);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
    CHECK_EQUAL(access(scratch_path("db/clock.keel"), F_OK), 0);
    static const char *const names[] = {"db",       "db/",         "db///",      "./db",
                                        "sub/../db", "link",        "link2/",     "sub/.././link",
                                        "/db",      "db/.",        "db/../db//"};
    FDBDatabase *others[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        others[i] = database_open(scratch_path(names[i]));
        CHECK(has_text(others[i], "k", "v"));
    }
    FDBDatabase *relative = database_open("../db/");
    CHECK(has_text(relative, "k", "v"));
    fdb_database_destroy(first);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fdb_database_destroy(others[i]);
    CHECK(has_text(relative, "k", "v"));
    fdb_database_destroy(relative);
    CHECK_EQUAL(chdir("/"), 0);
    network_stop();
}

static void missing_parents_are_made(void) {
    network_start();
    CHECK_EQUAL(error_of(scratch_path("a/b//c/./d/")), 0);
    CHECK_EQUAL(access(scratch_path("a/b/c/d/clock.keel"), F_OK), 0);
    network_stop();
}

/* Opens again as soon as the reason is gone, with the same handle. */
static void a_place_that_becomes_good(void) {
    network_start();
    write_file(scratch_path("db"), "");
    database = database_open(scratch_path("db"));
    FDBTransaction *tr = transaction_begin(database);
    CHECK_EQUAL(finish(fdb_transaction_get_read_version(tr)), 2104);
    CHECK_EQUAL(unlink(scratch_path("db")), 0);
    fdb_transaction_reset(tr);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    CHECK(has_text(database, "k", "v"));
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    network_stop();
}

/* ---- Without permission: as a user who is not root ---- */

static void become_nobody(void) {
    if (geteuid() != 0)
        return;
    CHECK_EQUAL(chmod(scratch_path(""), 0777), 0);
    CHECK_EQUAL(setgid(65534), 0);
    CHECK_EQUAL(setuid(65534), 0);
}

static void without_permission(void) {
    setenv("KEEL_LOG", scratch_path("log.txt"), 1);
    become_nobody();
    network_start();
    CHECK_EQUAL(mkdir(scratch_path("closed"), 0), 0);
    CHECK_EQUAL(mkdir(scratch_path("readonly"), 0500), 0);
    CHECK_EQUAL(mkdir(scratch_path("blind"), 0300), 0);
    CHECK(error_of(scratch_path("closed")) != 0);
    CHECK(logged("/closed"));
    CHECK(error_of(scratch_path("closed/db")) != 0);
    CHECK(logged("/closed/db"));
    CHECK(error_of(scratch_path("readonly")) != 0);
    CHECK(logged("/readonly"));
    CHECK(error_of(scratch_path("readonly/db")) != 0);
    CHECK(logged("/readonly/db"));
    CHECK(error_of(scratch_path("blind")) != 0);
    CHECK(logged("/blind"));
    write_file(scratch_path("secret"), "a:b@127.0.0.1:4500");
    CHECK_EQUAL(chmod(scratch_path("secret"), 0), 0);
    CHECK(error_of(scratch_path("secret")) != 0);
    CHECK(logged("/secret"));
    CHECK_EQUAL(error_of(scratch_path("db")), 0); /* a database that loses its permissions */
    CHECK_EQUAL(chmod(scratch_path("db/clock.keel"), 0400), 0);
    CHECK(error_of(scratch_path("db")) != 0);
    CHECK(logged("/db"));
    CHECK_EQUAL(chmod(scratch_path("db/clock.keel"), 0600), 0);
    CHECK_EQUAL(chmod(scratch_path("db/log"), 0), 0);
    CHECK(error_of(scratch_path("db")) != 0);
    CHECK(logged("/db"));
    CHECK_EQUAL(chmod(scratch_path("db/log"), 0700), 0);
    database = database_open(scratch_path("db"));
    CHECK(has_text(database, "k", "v"));
    fdb_database_destroy(database);
    network_stop();
}

static void another_process_has_it(void) {
    setenv("KEEL_LOG", scratch_path("log.txt"), 1);
    int ready[2], done[2];
    CHECK(pipe(ready) == 0 && pipe(done) == 0);
    pid_t child = fork();
    char byte = 0;
    if (child == 0) {
        network_start();
        CHECK_EQUAL(error_of(scratch_path("db")), 0);
        database = database_open(scratch_path("db"));
        CHECK(has_text(database, "k", "v"));
        CHECK_EQUAL(write(ready[1], "x", 1), 1);
        CHECK_EQUAL(read(done[0], &byte, 1), 1);
        fdb_database_destroy(database);
        network_stop();
        exit(0);
    }
    CHECK_EQUAL(read(ready[0], &byte, 1), 1);
    network_start();
    CHECK_EQUAL(error_of(scratch_path("db")), 0); /* it is joined */
    FDBDatabase *patient = database_open(scratch_path("db"));
    FDBTransaction *tr = transaction_begin(patient);
    CHECK_EQUAL(finish(fdb_transaction_get_read_version(tr)), 0);
    CHECK_EQUAL(write(done[1], "x", 1), 1);
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    fdb_transaction_reset(tr);
    fdb_error_t error = finish(fdb_transaction_get_read_version(tr));
    CHECK(error == 0 || error == 1007);  /* it may notice only now that the owner is gone */
    CHECK(has_text(patient, "k", "v")); /* the same handle: this process owns it now */
    fdb_transaction_destroy(tr);
    fdb_database_destroy(patient);
    network_stop();
}

/* ---- Where the system has run out of something ---- */

static void limit(int resource, rlim_t most) {
    struct rlimit rule;
    CHECK_EQUAL(getrlimit(resource, &rule), 0);
    rule.rlim_cur = most < rule.rlim_max ? most : rule.rlim_max;
    CHECK_EQUAL(setrlimit(resource, &rule), 0);
}

static void no_descriptors_left(void) {
    network_start();
    int used = open("/dev/null", O_RDONLY);
    CHECK(used >= 0);
    close(used);
    bool opened = false;
    for (int spare = 0; spare < 24; spare++) { /* fails at every step of opening, then succeeds */
        limit(RLIMIT_NOFILE, (rlim_t)(used + spare));
        fdb_error_t error = error_of(scratch_path("db"));
        CHECK(!opened || !error);
        opened = !error;
    }
    CHECK(opened);
    limit(RLIMIT_NOFILE, 1024);
    CHECK_EQUAL(open("/dev/null", O_RDONLY), used); /* nothing was left open on the way */
    database = database_open(scratch_path("db"));
    CHECK(has_text(database, "k", "v"));
    fdb_database_destroy(database);
    network_stop();
}

static void no_threads_left(void) {
    struct rlimit before;
    become_nobody();
    network_start();
    CHECK_EQUAL(getrlimit(RLIMIT_NPROC, &before), 0);
    limit(RLIMIT_NPROC, 1);
    fdb_error_t on_disk = error_of(scratch_path("db")), in_memory = error_of(":memory:");
    CHECK_EQUAL(setrlimit(RLIMIT_NPROC, &before), 0);
    CHECK(geteuid() == 0 || (on_disk && in_memory)); /* root is not limited */
    CHECK_EQUAL(error_of(scratch_path("db")), 0);
    CHECK_EQUAL(error_of(":memory:"), 0);
    network_stop();
}

/* ---- Directories that move while they are open ---- */

static void moved_or_removed_while_open(void) {
    begin_with_log();
    CHECK_EQUAL(error_of(scratch_path("db")), 0);
    FDBDatabase *first = database_open(scratch_path("db"));
    CHECK(has_text(first, "k", "v"));
    CHECK_EQUAL(rename(scratch_path("db"), scratch_path("elsewhere")), 0);
    FDBDatabase *moved = database_open(scratch_path("elsewhere"));
    FDBTransaction *tr = transaction_begin(moved);
    CHECK_EQUAL(finish(fdb_transaction_get_read_version(tr)), 0); /* it is open: this process joins itself */
    fdb_transaction_destroy(tr);
    CHECK(has_text(moved, "k", "v"));
    CHECK_EQUAL(mkdir(scratch_path("db"), 0700), 0);
    CHECK_EQUAL(error_of(scratch_path("db")), 1510); /* neither the old one nor mixed with it */
    CHECK(logged("/db"));
    CHECK(has_text(first, "k", "v"));
    fdb_database_destroy(first);
    CHECK_EQUAL(error_of(scratch_path("db")), 0);
    CHECK(has_text(moved, "k", "v"));
    fdb_database_destroy(moved);
    network_stop();
}

/* ---- Many ---- */

static void thousands_never_used(void) {
    enum { MANY = 3000 };
    static FDBDatabase *many[MANY];
    network_start();
    for (int i = 0; i < MANY; i++)
        many[i] = database_open(i % 2 ? ":memory:" : scratch_path("never"));
    for (int i = 0; i < MANY; i++)
        fdb_database_destroy(many[i]);
    CHECK_EQUAL(access(scratch_path("never"), F_OK), -1); /* opening alone makes nothing */
    network_stop();
}

static void the_same_path_a_thousand_times(void) {
    enum { MANY = 1000 };
    static FDBDatabase *many[MANY];
    network_start();
    CHECK_EQUAL(error_of(scratch_path("db")), 0);
    for (int i = 0; i < MANY; i++) {
        many[i] = database_open(scratch_path("db"));
        CHECK(has_text(many[i], "k", "v"));
    }
    for (int i = 0; i < MANY; i++)
        fdb_database_destroy(many[(i * 7) % MANY]);
    for (int i = 0; i < rounds(30); i++) { /* and one after the other */
        FDBDatabase *again = database_open(scratch_path("db"));
        CHECK(has_text(again, "k", "v"));
        fdb_database_destroy(again);
    }
    network_stop();
}

static void many_in_memory(void) {
    enum { MANY = 100 };
    static FDBDatabase *many[MANY];
    network_start();
    int number = rounds(MANY);
    for (int i = 0; i < number; i++) {
        many[i] = database_open(":memory:");
        FDBTransaction *tr = transaction_begin(many[i]);
        uint8_t byte = (uint8_t)i;
        fdb_transaction_set(tr, KEY("k"), &byte, 1);
        CHECK_EQUAL(commit(tr), 0);
        fdb_transaction_destroy(tr);
    }
    for (int i = 0; i < number; i++) {
        char expected[2] = {(char)i, 0};
        CHECK(i == 0 || has_text(many[i], "k", expected));
        fdb_database_destroy(many[i]);
    }
    network_stop();
}

static int open_descriptors(void) {
    int number = 0;
    for (int i = 0; i < 1024; i++)
        number += fcntl(i, F_GETFD) >= 0;
    return number;
}

static void many_directories_one_after_the_other(void) {
    setenv("KEEL_DURABILITY", "none", 1);
    network_start();
    char name[16];
    int before = 0;
    for (int i = 0; i < rounds(60); i++) {
        snprintf(name, sizeof name, "db%d", i);
        CHECK_EQUAL(error_of(scratch_path(name)), 0);
        if (i == 1)
            before = open_descriptors();
    }
    CHECK_EQUAL(open_descriptors(), before);
    network_stop();
}

const struct misuse_case place_cases[] = {
    {"places: paths that are no directories", paths_that_are_no_directories},
    {"places: paths that are too long", paths_that_are_too_long},
    {"places: the empty path is the default", the_empty_path_is_the_default},
    {"places: a working directory that is gone", a_working_directory_that_is_gone},
    {"places: one directory of many names", one_directory_of_many_names},
    {"places: missing parents are made", missing_parents_are_made},
    {"places: a place that becomes good", a_place_that_becomes_good},
    {"places: without permission", without_permission},
    {"places: another process has it", another_process_has_it},
    {"places: no descriptors left", no_descriptors_left},
    {"places: no threads left", no_threads_left},
    {"places: moved or removed while open", moved_or_removed_while_open},
    {"places: thousands never used", thousands_never_used},
    {"places: the same path a thousand times", the_same_path_a_thousand_times},
    {"places: many in memory", many_in_memory},
    {"places: many directories one after the other", many_directories_one_after_the_other},
    {NULL, NULL},
};
