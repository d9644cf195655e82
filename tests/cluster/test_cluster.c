/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters, without a cluster: our library with the stub as the official one behind it (stub_forward.c).
 *
 *     test_cluster DIRECTORY       DIRECTORY holds the stubs and a copy of our library
 *
 * A process has one network and loads one library, so each scenario is a run of this program by
 * itself, with the environment its row names; what it finds wrong goes to stderr and makes it fail.
 */
#include "cluster.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int check_failures;
static char scratch[512];
static char libraries[4096];
static pthread_t network_thread;

/* ---- Support ---- */

const char *scratch_path(const char *name) {
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

const char *cluster_file(void) {
    return scratch_path("some.cluster");
}

const char *library_path(const char *name) {
    static char path[sizeof libraries + 64];
    snprintf(path, sizeof path, "%s/%s", libraries, name);
    return path;
}

static void write_file(const char *path, const char *content) {
    FILE *file = fopen(path, "w");
    CHECK(file);
    if (file) {
        fputs(content, file);
        fclose(file);
    }
}

static void *run_network(void *unused) {
    (void)unused;
    CHECK_EQUAL(fdb_run_network(), 0);
    return NULL;
}

void network_begin(int version) {
    CHECK_EQUAL(fdb_select_api_version_impl(version, version), 0);
    CHECK_EQUAL(fdb_setup_network(), 0);
    CHECK_EQUAL(pthread_create(&network_thread, NULL, run_network, NULL), 0);
}

void network_end(void) {
    CHECK_EQUAL(fdb_stop_network(), 0);
    pthread_join(network_thread, NULL);
}

FDBDatabase *open_database(const char *path) {
    FDBDatabase *database = NULL;
    CHECK_EQUAL(fdb_create_database(path, &database), 0);
    return database;
}

FDBTransaction *begin(FDBDatabase *database) {
    FDBTransaction *tr = NULL;
    CHECK_EQUAL(fdb_database_create_transaction(database, &tr), 0);
    return tr;
}

fdb_error_t error_of(FDBFuture *future) {
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

FDBFuture *get(FDBTransaction *tr, const char *key) {
    return fdb_transaction_get(tr, (const uint8_t *)key, (int)strlen(key), 0);
}

static void set(FDBTransaction *tr, const char *key, const char *value) {
    fdb_transaction_set(tr, (const uint8_t *)key, (int)strlen(key), (const uint8_t *)value, (int)strlen(value));
}

fdb_error_t first_error(FDBDatabase *database) {
    FDBTransaction *tr = begin(database);
    fdb_error_t error = error_of(get(tr, "a"));
    fdb_transaction_destroy(tr);
    return error;
}

fdb_error_t write_text(FDBDatabase *database, const char *key, const char *value) {
    FDBTransaction *tr = begin(database);
    set(tr, key, value);
    fdb_error_t error = error_of(fdb_transaction_commit(tr));
    fdb_transaction_destroy(tr);
    return error;
}

const char *read_text(FDBDatabase *database, const char *key) {
    static char text[100];
    FDBTransaction *tr = begin(database);
    FDBFuture *future = get(tr, key);
    const uint8_t *value = NULL;
    int length = 0;
    fdb_bool_t present = 0;
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    fdb_error_t error = fdb_future_get_value(future, &present, &value, &length);
    snprintf(text, sizeof text, "%.*s", error || !present ? 0 : length, (const char *)value);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
    return error ? "!" : text;
}

void *stub_function(const char *library, const char *name) {
    void *handle = dlopen(library_path(library), RTLD_NOW | RTLD_NOLOAD);
    CHECK(handle);
    return handle ? dlsym(handle, name) : NULL;
}

static int runs_of_stub(int *ended) {
    int (*runs)(int *) = (int (*)(int *))stub_function("libfdb_stub.so", "stub_runs");
    *ended = -1;
    return runs ? runs(ended) : -1;
}

bool log_has(const char *text) {
    static char content[65536];
    FILE *file = fopen(scratch_path("log"), "r");
    size_t length = file ? fread(content, 1, sizeof content - 1, file) : 0;
    content[length] = 0;
    if (file)
        fclose(file);
    return strstr(content, text) != NULL;
}

static void pause_ms(long milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* ---- No library, or not one ---- */

static fdb_error_t set_int_option(FDBDatabase *database, FDBDatabaseOption option, int64_t value) {
    return fdb_database_set_option(database, option, (const uint8_t *)&value, sizeof value);
}

static void refused(const char *log_text) {
    network_begin(740);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(first_error(database), ERROR_LIBRARY_MISSING);
    CHECK(log_has(log_text));
    CHECK(!log_has("FoundationDB's client library is ")); /* what is said of one that was taken */
    FDBTenant *tenant = NULL;
    CHECK_EQUAL(error_of(fdb_database_reboot_worker(database, (const uint8_t *)"a", 1, 0, 0)), ERROR_LIBRARY_MISSING);
    CHECK_EQUAL(fdb_database_open_tenant(database, (const uint8_t *)"a", 1, &tenant), ERROR_LIBRARY_MISSING);
    CHECK_EQUAL(error_of(fdb_database_get_client_status(database)), ERROR_LIBRARY_MISSING);
    FDBDatabase *embedded = open_database(scratch_path("beside"));
    CHECK_EQUAL(write_text(embedded, "a", "embedded"), 0);
    CHECK(strcmp(read_text(embedded, "a"), "embedded") == 0);
    fdb_database_destroy(embedded);
    fdb_database_destroy(database);
    network_end();
}

static void scenario_missing(void) {
    refused("/nowhere/libfdb_c.so is not used as FoundationDB's client library");
    CHECK(strstr(fdb_get_error(ERROR_LIBRARY_MISSING), "foundationdb-clients"));
    CHECK(strstr(fdb_get_error(ERROR_LIBRARY_MISSING), "KEEL_FDB_LIBRARY"));
}

static void scenario_not_a_library(void) {
    refused("is not used as FoundationDB's client library");
}

static void scenario_lacking(void) {
    refused("it has no fdb_transaction_commit");
}

static void scenario_ourselves(void) {
    refused("it is Keel itself");
}

/* Installed while the program runs: what was opened before works from then on, with the options set before. */
static void scenario_appears(void) {
    network_begin(740);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(set_int_option(database, FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT, 50), 0);
    CHECK_EQUAL(set_int_option(database, FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT, 0), 0);
    FDBTransaction *early = begin(database);
    CHECK_EQUAL(error_of(get(early, "a")), ERROR_LIBRARY_MISSING);
    setenv("KEEL_FDB_LIBRARY", library_path("libfdb_stub.so"), 1);
    CHECK_EQUAL(first_error(database), 0);
    CHECK_EQUAL(error_of(get(early, "a")), ERROR_LIBRARY_MISSING);
    CHECK_EQUAL(write_text(database, "a", "0123456789012345678901234567890123456789012345678901234567890"), ERROR_TRANSACTION_TOO_LARGE);
    FDBTransaction *tr = begin(database);
    CHECK_EQUAL(error_of(fdb_transaction_on_error(tr, 1020)), 1020); /* the retry limit */
    fdb_transaction_destroy(tr);
    fdb_transaction_destroy(early);
    fdb_database_destroy(database);
    network_end();
}

/* ---- Places ---- */

static void scenario_places(void) {
    network_begin(740);
    FDBDatabase *database = open_database(scratch_path("missing.cluster"));
    CHECK_EQUAL(set_int_option(database, FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT, 50), 0);
    CHECK_EQUAL(first_error(database), ERROR_NO_CLUSTER_FILE);
    CHECK_EQUAL(error_of(fdb_database_get_client_status(database)), ERROR_NO_CLUSTER_FILE);
    write_file(scratch_path("missing.cluster"), "# a comment\nstub:stub@127.0.0.1:1\n");
    CHECK_EQUAL(first_error(database), 0);
    CHECK_EQUAL(write_text(database, "a", "0123456789012345678901234567890123456789012345678901234567890"), ERROR_TRANSACTION_TOO_LARGE);
    fdb_database_destroy(database);
    write_file(scratch_path("bad.cluster"), "nonsense");
    database = open_database(scratch_path("bad.cluster"));
    CHECK_EQUAL(first_error(database), ERROR_CONNECTION_STRING_INVALID);
    fdb_database_destroy(database);
    CHECK_EQUAL(fdb_create_database_from_connection_string("nonsense", &database), 0);
    CHECK_EQUAL(first_error(database), ERROR_CONNECTION_STRING_INVALID);
    fdb_database_destroy(database);
    CHECK_EQUAL(fdb_create_database_from_connection_string("d:i@127.0.0.1:4500", &database), 0);
    CHECK_EQUAL(write_text(database, "place", "by string"), 0);
    fdb_database_destroy(database);
    database = open_database(cluster_file());
    CHECK(strcmp(read_text(database, "place"), "by string") == 0);
    /* An option of a database that is open is the library's to judge. */
    CHECK_EQUAL(fdb_database_set_option(database, FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT, NULL, 0), ERROR_INVALID_OPTION_VALUE);
    fdb_database_destroy(database);
    network_end();
}

/* ---- Versions ---- */

static void scenario_too_old(void) {
    network_begin(740);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(first_error(database), ERROR_API_VERSION_NOT_SUPPORTED);
    CHECK(log_has("it has API versions up to 620, the program selected 740"));
    fdb_database_destroy(database);
    network_end();
}

/* A program that asks for the newest version gets along with an older library when it is told of it. */
static void scenario_lowered(void) {
    CHECK_EQUAL(fdb_get_max_api_version(), 620);
    network_begin(fdb_get_max_api_version());
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(write_text(database, "a", "lowered"), 0);
    fdb_database_destroy(database);
    network_end();
}

/* The program's version, the library's newest headers. */
static void scenario_version_is_passed_on(void) {
    network_begin(630);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(first_error(database), 0);
    int header = 0;
    int (*selected)(int *) = (int (*)(int *))stub_function("libfdb_stub.so", "stub_selected");
    CHECK_EQUAL(selected(&header), 630);
    CHECK_EQUAL(header, 740);
    fdb_database_destroy(database);
    network_end();
}

/* ---- Both kinds at once ---- */

static void *write_many(void *database) {
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        CHECK_EQUAL(write_text(database, key, "x"), 0);
    }
    return NULL;
}

static void scenario_both(void) {
    network_begin(740);
    FDBDatabase *cluster = open_database(cluster_file());
    FDBDatabase *embedded = open_database(scratch_path("beside"));
    FDBDatabase *memory = open_database(":memory:");
    CHECK_EQUAL(write_text(cluster, "who", "cluster"), 0);
    CHECK_EQUAL(write_text(embedded, "who", "embedded"), 0);
    CHECK(strcmp(read_text(cluster, "who"), "cluster") == 0);
    CHECK(strcmp(read_text(embedded, "who"), "embedded") == 0);
    CHECK(strcmp(read_text(memory, "who"), "") == 0);
    FDBDatabase *both[] = {cluster, embedded};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, write_many, both[i % 2]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    FDBTransaction *one = begin(cluster), *two = begin(embedded);
    FDBFuture *futures[] = {get(one, "k99"), get(two, "k99")};
    CHECK_EQUAL(error_of(futures[1]), 0);
    CHECK_EQUAL(error_of(futures[0]), 0);
    fdb_transaction_destroy(one);
    fdb_transaction_destroy(two);
    fdb_database_destroy(cluster);
    CHECK(strcmp(read_text(embedded, "k7"), "x") == 0);
    fdb_database_destroy(embedded);
    fdb_database_destroy(memory);
    network_end();
}

/* A program that has only embedded databases never loads the library. */
static void scenario_not_needed(void) {
    network_begin(740);
    FDBDatabase *embedded = open_database(scratch_path("alone"));
    CHECK_EQUAL(write_text(embedded, "a", "1"), 0);
    fdb_database_destroy(embedded);
    network_end();
    CHECK(!dlopen(library_path("libfdb_stub.so"), RTLD_NOW | RTLD_NOLOAD));
}

/* ---- Futures: callbacks and memory ---- */

struct called {
    FDBFuture *expected;
    _Atomic int times;
    fdb_error_t error;
    fdb_error_t blocked;
    FDBFuture *other;
    bool destroys;
};

static void note(FDBFuture *future, void *parameter) {
    struct called *called = parameter;
    CHECK(future == called->expected);
    called->error = fdb_future_get_error(future);
    if (called->other)
        called->blocked = fdb_future_block_until_ready(called->other);
    if (called->destroys)
        fdb_future_destroy(future);
    called->times++;
}

static void await_call(struct called *called) {
    for (int tries = 0; tries < 6000 && !called->times; tries++)
        pause_ms(5);
    CHECK_EQUAL(called->times, 1);
}

/* A watch that nobody fires, and its transaction committed. */
static FDBFuture *make_watch(FDBDatabase *database) {
    FDBTransaction *tr = begin(database);
    FDBFuture *watch = fdb_transaction_watch(tr, (const uint8_t *)"watched", 7);
    CHECK_EQUAL(error_of(fdb_transaction_commit(tr)), 0);
    fdb_transaction_destroy(tr);
    return watch;
}

static void callbacks_when_ready(FDBDatabase *database) {
    FDBTransaction *tr = begin(database);
    struct called called = {.expected = get(tr, "a")};
    CHECK_EQUAL(fdb_future_block_until_ready(called.expected), 0);
    CHECK_EQUAL(fdb_future_set_callback(called.expected, note, &called), 0);
    CHECK_EQUAL(called.times, 1); /* at once, on this thread */
    fdb_future_destroy(called.expected);
    struct called destroyed = {.expected = get(tr, "a"), .destroys = true};
    CHECK_EQUAL(fdb_future_set_callback(destroyed.expected, note, &destroyed), 0);
    await_call(&destroyed);
    fdb_transaction_destroy(tr);
}

static void callbacks_later(FDBDatabase *database) {
    FDBFuture *never = make_watch(database);
    struct called fired = {.expected = make_watch(database), .other = never, .destroys = true};
    CHECK_EQUAL(fdb_future_set_callback(fired.expected, note, &fired), 0);
    CHECK_EQUAL(fired.times, 0);
    CHECK_EQUAL(fdb_future_get_error(never), 2015);
    CHECK(!fdb_future_is_ready(never));
    CHECK_EQUAL(write_text(database, "watched", "now"), 0);
    await_call(&fired);
    CHECK_EQUAL(fired.error, 0);
    /* The same write fired the other one; where it was not ready yet, waiting for it there is refused. */
    CHECK(fired.blocked == 0 || fired.blocked == ERROR_BLOCKED_FROM_NETWORK_THREAD);
    CHECK_EQUAL(error_of(never), 0);
}

static void callbacks_of_what_is_given_up(FDBDatabase *database) {
    struct called cancelled = {.expected = make_watch(database), .destroys = true};
    CHECK_EQUAL(fdb_future_set_callback(cancelled.expected, note, &cancelled), 0);
    fdb_future_cancel(cancelled.expected);
    await_call(&cancelled);
    CHECK_EQUAL(cancelled.error, ERROR_OPERATION_CANCELLED);
    struct called destroyed = {.expected = make_watch(database)};
    CHECK_EQUAL(fdb_future_set_callback(destroyed.expected, note, &destroyed), 0);
    fdb_future_destroy(destroyed.expected);
    await_call(&destroyed);
    CHECK_EQUAL(destroyed.error, ERROR_OPERATION_CANCELLED);
    FDBFuture *watch = make_watch(database);
    fdb_future_cancel(watch);
    CHECK_EQUAL(error_of(watch), ERROR_OPERATION_CANCELLED);
    CHECK_EQUAL(fdb_future_set_callback(watch = make_watch(database), NULL, NULL), 2000);
    fdb_future_destroy(watch);
}

static void blocking_in_a_callback(FDBDatabase *database) {
    FDBFuture *watch = make_watch(database);
    FDBTransaction *tr = begin(database);
    set(tr, "b", "1");
    struct called called = {.expected = fdb_transaction_commit(tr), .other = watch};
    CHECK_EQUAL(fdb_future_set_callback(called.expected, note, &called), 0);
    await_call(&called);
    if (called.blocked != ERROR_BLOCKED_FROM_NETWORK_THREAD)
        CHECK(fdb_future_is_ready(watch)); /* only where the commit was over before the callback was set */
    fdb_future_destroy(called.expected);
    fdb_future_destroy(watch);
    fdb_transaction_destroy(tr);
}

static void memory_of_results(FDBDatabase *database) {
    CHECK_EQUAL(write_text(database, "memory", "kept"), 0);
    FDBTransaction *tr = begin(database);
    FDBFuture *future = get(tr, "memory");
    const uint8_t *value = NULL, *again = NULL;
    int length = 0;
    fdb_bool_t present = 0;
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    CHECK_EQUAL(fdb_future_get_value(future, &present, &value, &length), 0);
    fdb_transaction_destroy(tr); /* the future has what it needs */
    CHECK(present && length == 4 && memcmp(value, "kept", 4) == 0);
    CHECK_EQUAL(fdb_future_get_value(future, &present, &again, &length), 0);
    CHECK(again == value);
    fdb_future_release_memory(future);
    CHECK(memcmp(value, "kept", 4) == 0); /* there were two holders */
    fdb_future_release_memory(future);
    CHECK_EQUAL(fdb_future_get_value(future, &present, &again, &length), ERROR_FUTURE_RELEASED);
    fdb_future_destroy(future);
}

static void scenario_futures(void) {
    network_begin(740);
    FDBDatabase *database = open_database(cluster_file());
    callbacks_when_ready(database);
    callbacks_later(database);
    callbacks_of_what_is_given_up(database);
    blocking_in_a_callback(database);
    memory_of_results(database);
    fdb_database_destroy(database);
    network_end();
}

/* A transaction lives on when its database is given back, and a commit when its transaction is. */
static void scenario_life(void) {
    network_begin(740);
    FDBDatabase *database = open_database(cluster_file());
    FDBTransaction *tr = begin(database);
    fdb_database_destroy(database);
    set(tr, "life", "goes on");
    FDBFuture *commit = fdb_transaction_commit(tr);
    CHECK_EQUAL(error_of(commit), 0);
    int64_t version = 0;
    CHECK_EQUAL(fdb_transaction_get_committed_version(tr, &version), 0);
    CHECK(version > 0);
    fdb_transaction_destroy(tr);
    database = open_database(cluster_file());
    CHECK(strcmp(read_text(database, "life"), "goes on") == 0);
    fdb_database_destroy(database);
    network_end();
}

/* ---- The network ---- */

static _Atomic int hook_saw_ended;

static void hook(void *unused) {
    int ended;
    (void)unused;
    (void)runs_of_stub(&ended);
    hook_saw_ended = ended;
}

static void scenario_stop(void) {
    int ended;
    network_begin(740);
    CHECK_EQUAL(fdb_add_network_thread_completion_hook(hook, NULL), 0);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(first_error(database), 0);
    FDBFuture *watch = make_watch(database);
    network_end();
    CHECK_EQUAL(runs_of_stub(&ended), 1);
    CHECK_EQUAL(ended, 1);
    CHECK_EQUAL(hook_saw_ended, 1);
    CHECK_EQUAL(fdb_stop_network(), 0);
    fdb_future_destroy(watch);
    FDBDatabase *late = open_database(cluster_file());
    CHECK_EQUAL(first_error(late), ERROR_NETWORK_CANNOT_BE_RESTARTED);
    fdb_database_destroy(late);
    fdb_database_destroy(database);
}

/* Nobody runs our network: fdb_stop_network waits itself. */
static void scenario_stop_without_run(void) {
    int ended;
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(fdb_setup_network(), 0);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(write_text(database, "a", "nobody runs it"), 0);
    fdb_database_destroy(database);
    CHECK_EQUAL(fdb_stop_network(), 0);
    CHECK_EQUAL(runs_of_stub(&ended), 1);
    CHECK_EQUAL(ended, 1);
}

static void *stop_network(void *unused) {
    CHECK_EQUAL(fdb_stop_network(), 0);
    return unused;
}

/* The run comes when a stop is already waiting for the library's thread: it waits as well, before its hooks. */
static void scenario_stop_before_run(void) {
    pthread_t stopper;
    int ended;
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(fdb_setup_network(), 0);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(first_error(database), 0);
    fdb_database_destroy(database);
    hook_saw_ended = -1;
    CHECK_EQUAL(fdb_add_network_thread_completion_hook(hook, NULL), 0);
    int (*hold)(int) = (int (*)(int))stub_function("libfdb_stub.so", "stub_hold");
    hold(1);
    CHECK_EQUAL(pthread_create(&stopper, NULL, stop_network, NULL), 0);
    while (!hold(1))
        usleep(1000);
    usleep(50000); /* from telling it to stop to waiting for it */
    CHECK_EQUAL(pthread_create(&network_thread, NULL, run_network, NULL), 0);
    usleep(50000);
    CHECK_EQUAL(hook_saw_ended, -1); /* not called */
    hold(0);
    pthread_join(network_thread, NULL);
    CHECK_EQUAL(hook_saw_ended, 1);
    pthread_join(stopper, NULL);
    CHECK_EQUAL(runs_of_stub(&ended), 1);
    CHECK_EQUAL(ended, 1);
}

static void stop_inside(FDBFuture *future, void *parameter) {
    CHECK_EQUAL(fdb_stop_network(), 0);
    fdb_future_destroy(future);
    *(_Atomic int *)parameter = 1;
}

/* In a callback, on the library's own thread, which cannot wait for itself. */
static void scenario_stop_in_callback(void) {
    int ended;
    _Atomic int called = 0;
    network_begin(740);
    FDBDatabase *database = open_database(cluster_file());
    FDBFuture *watch = make_watch(database);
    CHECK_EQUAL(fdb_future_set_callback(watch, stop_inside, &called), 0);
    CHECK_EQUAL(write_text(database, "watched", "stop"), 0);
    pthread_join(network_thread, NULL);
    CHECK_EQUAL(called, 1);
    CHECK_EQUAL(runs_of_stub(&ended), 1);
    CHECK_EQUAL(ended, 1);
    fdb_database_destroy(database);
}

static fdb_error_t set_network_option(FDBNetworkOption option, const char *value) {
    return fdb_network_set_option(option, (const uint8_t *)value, value ? (int)strlen(value) : 0);
}

static void scenario_options(void) {
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(set_network_option(FDB_NET_OPTION_TRACE_LOG_GROUP, "group"), 0);
    CHECK_EQUAL(set_network_option(FDB_NET_OPTION_KNOB, "a=1"), 0);
    CHECK_EQUAL(set_network_option(FDB_NET_OPTION_KNOB, "nonsense"), ERROR_INVALID_OPTION_VALUE); /* never passed on */
    CHECK_EQUAL(fdb_setup_network(), 0);
    CHECK_EQUAL(pthread_create(&network_thread, NULL, run_network, NULL), 0);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(first_error(database), 0);
    CHECK_EQUAL(set_network_option(FDB_NET_OPTION_KNOB, "b=2"), 0);
    CHECK_EQUAL(set_network_option(FDB_NET_OPTION_KNOB, "refused=3"), ERROR_INVALID_OPTION_VALUE);
    const char *(*options)(void) = (const char *(*)(void))stub_function("libfdb_stub.so", "stub_options");
    CHECK(options && strcmp(options(), "33=group;40=a=1;40=b=2;") == 0);
    fdb_database_destroy(database);
    network_end();
}

/* An option that the library refuses when it comes up is not lost in silence. */
static void scenario_option_refused(void) {
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(set_network_option(FDB_NET_OPTION_KNOB, "refused=3"), 0);
    CHECK_EQUAL(fdb_setup_network(), 0);
    FDBDatabase *database = open_database(cluster_file());
    CHECK_EQUAL(first_error(database), ERROR_INVALID_OPTION_VALUE);
    CHECK(log_has("network option 40"));
    CHECK_EQUAL(first_error(database), ERROR_INVALID_OPTION_VALUE);
    fdb_database_destroy(database);
    CHECK_EQUAL(fdb_stop_network(), 0);
}

/* ---- Forks ---- */

static void wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            break;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void child_of_a_cluster(FDBDatabase *database, FDBTransaction *tr, FDBFuture *watch) {
    FDBTransaction *other = NULL;
    fdb_bool_t present;
    const uint8_t *value;
    int length;
    CHECK_EQUAL(error_of(get(tr, "a")), ERROR_OPENED_BEFORE_FORK);
    CHECK(fdb_future_is_ready(watch));
    CHECK_EQUAL(fdb_future_block_until_ready(watch), 0);
    CHECK_EQUAL(fdb_future_get_error(watch), ERROR_OPENED_BEFORE_FORK);
    CHECK_EQUAL(fdb_future_get_value(watch, &present, &value, &length), ERROR_OPENED_BEFORE_FORK);
    fdb_future_cancel(watch);
    fdb_future_release_memory(watch);
    struct called called = {.expected = watch};
    CHECK_EQUAL(fdb_future_set_callback(watch, note, &called), 0);
    CHECK_EQUAL(called.times, 1);
    fdb_future_destroy(watch);
    CHECK_EQUAL(fdb_database_create_transaction(database, &other), ERROR_OPENED_BEFORE_FORK);
    CHECK_EQUAL(error_of(fdb_database_get_client_status(database)), ERROR_OPENED_BEFORE_FORK);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    FDBDatabase *again = open_database(cluster_file());
    CHECK_EQUAL(first_error(again), ERROR_OPENED_BEFORE_FORK);
    fdb_database_destroy(again);
#ifndef __SANITIZE_THREAD__ /* which does not allow threads behind a fork */
    FDBDatabase *embedded = open_database(scratch_path("of the child"));
    CHECK_EQUAL(write_text(embedded, "a", "1"), 0);
    fdb_database_destroy(embedded);
#endif
    CHECK_EQUAL(fdb_stop_network(), 0);
    _exit(check_failures != 0);
}

static void scenario_fork(void) {
    network_begin(740);
    FDBDatabase *database = open_database(cluster_file());
    FDBTransaction *tr = begin(database);
    CHECK_EQUAL(error_of(get(tr, "a")), 0);
    FDBFuture *watch = make_watch(database);
#ifdef __SANITIZE_ADDRESS__
    usleep(300000); /* a child inherits the locks of its allocator: no thread may be in it */
#endif
    pid_t child = fork();
    if (child == 0)
        child_of_a_cluster(database, tr, watch);
    wait_for(child);
    CHECK_EQUAL(error_of(get(tr, "a")), 0); /* the parent goes on */
    CHECK_EQUAL(write_text(database, "watched", "after the fork"), 0);
    CHECK_EQUAL(error_of(watch), 0);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    network_end();
}

/* Before the library was needed a child may load it for itself. */
static void scenario_fork_before(void) {
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(fdb_setup_network(), 0);
    pid_t child = fork();
    if (child == 0) {
        FDBDatabase *database = open_database(cluster_file());
        CHECK_EQUAL(write_text(database, "a", "child"), 0);
        fdb_database_destroy(database);
        CHECK_EQUAL(fdb_stop_network(), 0);
        exit(check_failures != 0);
    }
    wait_for(child);
    FDBDatabase *database = open_database(cluster_file());
    CHECK(strcmp(read_text(database, "a"), "child") == 0);
    fdb_database_destroy(database);
    CHECK_EQUAL(fdb_stop_network(), 0);
}

/* ---- Running them ---- */

static const struct scenario {
    const char *name;
    void (*run)(void);
    const char *library; /* among the libraries, or an absolute path, or in the scratch directory with "./" */
    const char *environment;
} scenarios[] = {
    {"missing", scenario_missing, "/nowhere/libfdb_c.so", NULL},
    {"not a library", scenario_not_a_library, "./some.cluster", NULL},
    {"lacking a function", scenario_lacking, "libfdb_stub_broken.so", NULL},
    {"ourselves", scenario_ourselves, "libfdb_c.so", NULL},
    {"ourselves by a link", scenario_ourselves, "./link.so", NULL},
    {"ourselves copied", scenario_ourselves, "./copy.so", NULL},
    {"appears later", scenario_appears, "/nowhere/libfdb_c.so", NULL},
    {"places", scenario_places, "libfdb_stub.so", NULL},
    {"everything is called", scenario_everything, "libfdb_stub.so", NULL},
    {"old", scenario_old, "libfdb_stub_620.so", NULL},
    {"too old", scenario_too_old, "libfdb_stub_620.so", NULL},
    {"lowered", scenario_lowered, "libfdb_stub_620.so", "KEEL_API_VERSION=620"},
    {"ancient", scenario_ancient, "libfdb_stub_600.so", NULL},
    {"ancient, by clusters", scenario_ancient_clusters, "libfdb_stub_600.so", NULL},
    {"ancient program, new library", scenario_ancient_clusters, "libfdb_stub.so", NULL},
    {"version is passed on", scenario_version_is_passed_on, "libfdb_stub.so", NULL},
    {"both kinds at once", scenario_both, "libfdb_stub.so", NULL},
    {"not needed", scenario_not_needed, "libfdb_stub.so", NULL},
    {"futures", scenario_futures, "libfdb_stub.so", NULL},
    {"life", scenario_life, "libfdb_stub.so", NULL},
    {"stop", scenario_stop, "libfdb_stub.so", NULL},
    {"stop without run", scenario_stop_without_run, "libfdb_stub.so", NULL},
    {"stop before run", scenario_stop_before_run, "libfdb_stub.so", NULL},
    {"stop in a callback", scenario_stop_in_callback, "libfdb_stub.so", NULL},
    {"options", scenario_options, "libfdb_stub.so", NULL},
    {"option refused", scenario_option_refused, "libfdb_stub.so", NULL},
    {"fork", scenario_fork, "libfdb_stub.so", NULL},
    {"fork before", scenario_fork_before, "libfdb_stub.so", NULL},
};
enum { SCENARIO_COUNT = sizeof scenarios / sizeof *scenarios };

static void prepare(const struct scenario *scenario) {
    char path[sizeof libraries + 64];
    unsetenv("KEEL_API_VERSION");
    if (scenario->environment)
        putenv((char *)scenario->environment);
    if (strncmp(scenario->library, "./", 2) == 0)
        snprintf(path, sizeof path, "%s", scratch_path(scenario->library + 2));
    else
        snprintf(path, sizeof path, "%s", *scenario->library == '/' ? scenario->library : library_path(scenario->library));
    setenv("KEEL_FDB_LIBRARY", path, 1);
    setenv("STUB_LIBRARY", scratch_path("copy.so"), 1);
    setenv("STUB_DATABASE", scratch_path("stands for the cluster"), 1);
    setenv("KEEL_LOG", scratch_path("log"), 1);
    unlink(scratch_path("log"));
    write_file(cluster_file(), "stub:stub@127.0.0.1:1\n");
}

static int run_one(const char *self, const struct scenario *scenario) {
    prepare(scenario);
    char *arguments[] = {(char *)self, libraries, scratch, (char *)scenario->name, NULL};
    pid_t child;
    int status = -1;
    fflush(stdout);
    if (posix_spawn(&child, self, NULL, NULL, arguments, environ) != 0)
        return -1;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

static int run_all(const char *self) {
    char command[10000];
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.400s/cluster-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(scratch))
        return 2;
    snprintf(command, sizeof command, "cp '%s/libfdb_c.so' '%s/copy.so' && ln -s '%s/libfdb_c.so' '%s/link.so'", libraries, scratch,
             libraries, scratch);
    int passed = 0, failed = system(command) != 0;
    for (int i = 0; i < SCENARIO_COUNT; i++) {
        int status = run_one(self, &scenarios[i]);
        printf("%s - %s\n", status == 0 ? "ok" : "not ok", scenarios[i].name);
        if (status)
            printf("    status %d\n", status);
        *(status == 0 ? &passed : &failed) += 1;
    }
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command))
        printf("%s is left behind\n", scratch);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

int main(int count, char **arguments) {
    if (count != 2 && count != 4) {
        fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
        return 2;
    }
    if (!realpath(arguments[1], libraries))
        return 2;
    if (count == 2)
        return run_all("/proc/self/exe");
    snprintf(scratch, sizeof scratch, "%s", arguments[2]);
    for (int i = 0; i < SCENARIO_COUNT; i++)
        if (strcmp(scenarios[i].name, arguments[3]) == 0)
            scenarios[i].run();
    return check_failures != 0;
}
