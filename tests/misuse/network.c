/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network thread: never started, stopped too early, used after its end, and processes that end
 * without saying goodbye.
 */
#include "misuse.h"

#include <errno.h>
#include <sys/wait.h>

static FDBDatabase *database;
static FDBTransaction *tr;
static FDBFuture *watch;
static atomic_int calls;

static void count(FDBFuture *future, void *parameter) {
    (void)future, (void)parameter;
    atomic_fetch_add(&calls, 1);
}

static void count_hook(void *parameter) {
    atomic_fetch_add((atomic_int *)parameter, 1);
}

/* Runs `function` in a child; whether it ended with exit(code). */
static void check_child(void (*function)(void), int code) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        function();
        exit(99);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        CHECK_EQUAL(errno, EINTR);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), code);
}

static void before_the_setup(void) {
    FDBDatabase *none = NULL;
    CHECK_EQUAL(fdb_select_api_version(740), 0);
    CHECK_EQUAL(fdb_run_network(), 2008);
    CHECK_EQUAL(fdb_stop_network(), 2008);
    CHECK_EQUAL(fdb_add_network_thread_completion_hook(count_hook, &calls), 2008);
    CHECK_EQUAL(fdb_create_database(":memory:", &none), 2008);
    CHECK_EQUAL(fdb_create_database_from_connection_string("a:b@127.0.0.1:1", &none), 2008);
    CHECK(!none);
    CHECK_EQUAL(fdb_setup_network(), 0);
    CHECK_EQUAL(fdb_setup_network(), 2009);
}

/* Everything but callbacks and backoff needs no network thread. */
static void use_all(void) {
    set_text(tr, "k", "v");
    FDBFuture *stamp = fdb_transaction_get_versionstamp(tr);
    CHECK_EQUAL(commit(tr), 0);
    CHECK_EQUAL(finish(stamp), 0);
    CHECK(has_text(database, "k", "v"));
    fdb_transaction_reset(tr);
    watch = fdb_transaction_watch(tr, KEY("k"));
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_reset(tr);
    set_text(tr, "k", "w");
    CHECK_EQUAL(commit(tr), 0);
    CHECK_EQUAL(finish(watch), 0);
    fdb_transaction_reset(tr);
    set_transaction_number(tr, FDB_TR_OPTION_TIMEOUT, 1);
    usleep(3000);
    CHECK_EQUAL(finish(fdb_transaction_get(tr, KEY("k"), 0)), 1031);
    fdb_transaction_reset(tr);
    fdb_transaction_clear_range(tr, KEY(""), KEY("\xff"));
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_reset(tr);
    CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 2000)), 2000);
    fdb_transaction_reset(tr);
}

static void never_run(void) {
    network_set_up();
    database = database_open(scratch_path("db"));
    tr = transaction_begin(database);
    use_all();
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

/* With nobody to run timers, a thread that waits for a backoff sees to it itself. */
static void never_run_and_retry(void) {
    network_set_up();
    database = database_open(":memory:");
    tr = transaction_begin(database);
    for (int i = 0; i < 5; i++)
        CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), 0);
    set_transaction_number(tr, FDB_TR_OPTION_TIMEOUT, 20);
    CHECK_EQUAL(finish(fdb_transaction_get_versionstamp(tr)), 1031);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void *retry_for_long(void *unused) {
    CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), 0);
    return unused;
}

static void stopped_during_a_retry(void) {
    network_start();
    database = database_open(":memory:");
    tr = transaction_begin(database);
    for (int i = 0; i < 6; i++)
        CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), 0);
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, retry_for_long, NULL), 0);
    usleep(1000);
    network_stop();
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(finish(fdb_transaction_on_error(tr, 1020)), 0);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void never_run_with_callbacks(void) {
    network_set_up();
    database = database_open(":memory:");
    tr = transaction_begin(database);
    for (int i = 0; i < 100; i++) {
        watch = fdb_transaction_watch(tr, KEY("w"));
        CHECK_EQUAL(fdb_future_set_callback(watch, count, NULL), 0);
        fdb_future_cancel(watch);
        fdb_future_destroy(watch);
    }
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    CHECK_EQUAL(atomic_load(&calls), 0); /* they wait for a network thread */
    network_run();
    network_stop();
    CHECK_EQUAL(atomic_load(&calls), 100);
}

/* Waits for a byte, then opens the database, which its closing may keep for a moment longer, or which it may join for as long. */
static void open_when_told(int told) {
    char byte;
    CHECK_EQUAL(read(told, &byte, 1), 1);
    network_set_up();
    database = database_open(scratch_path("db"));
    tr = transaction_begin(database);
    fdb_error_t error = 20001;
    for (int i = 0; i < 500 && (error == 20001 || fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error)); i++) {
        error = finish(fdb_transaction_get_read_version(tr));
        usleep(error ? 10000 : 0);
        fdb_transaction_reset(tr);
    }
    CHECK_EQUAL(error, 0);
    _exit(0);
}

static void never_run_yet_closed(void) {
    int tell[2], status;
    CHECK_EQUAL(pipe(tell), 0);
    pid_t child = fork();
    if (child == 0)
        open_when_told(tell[0]);
    network_set_up();
    for (int i = 0; i < 20; i++) {
        database = database_open(scratch_path("db"));
        tr = transaction_begin(database);
        set_text(tr, "k", "v");
        fdb_future_destroy(fdb_transaction_commit(tr));
        fdb_transaction_destroy(tr);
        fdb_database_destroy(database);
    }
    /* this process has let go of it: another one may have it */
    CHECK_EQUAL(write(tell[1], "x", 1), 1);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

static void everything_after_the_stop(void) {
    network_start();
    database = database_open(scratch_path("db"));
    tr = transaction_begin(database);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_reset(tr);
    network_stop();
    use_all();
    FDBDatabase *later = database_open(":memory:");
    CHECK(!has_text(later, "k", "v"));
    fdb_database_destroy(later);
    CHECK_EQUAL(fdb_stop_network(), 0);
    CHECK_EQUAL(fdb_run_network(), 2025);
    CHECK_EQUAL(fdb_setup_network(), 2009);
    CHECK_EQUAL(fdb_add_network_thread_completion_hook(count_hook, &calls), 0);
    watch = fdb_transaction_watch(tr, KEY("w"));
    CHECK_EQUAL(fdb_future_set_callback(watch, count, NULL), 0);
    fdb_future_cancel(watch);
    CHECK_EQUAL(finish(watch), 1101);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

static void *block_on(void *future) {
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    CHECK_EQUAL(fdb_future_get_error(future), 1101);
    return NULL;
}

static void stopped_with_everything_outstanding(void) {
    network_start();
    database = database_open(":memory:");
    tr = transaction_begin(database);
    FDBFuture *futures[100];
    pthread_t threads[4];
    for (int i = 0; i < 100; i++) {
        futures[i] = fdb_transaction_watch(tr, KEY("w"));
        CHECK_EQUAL(fdb_future_set_callback(futures[i], count, NULL), 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, block_on, futures[i]), 0);
    for (int i = 50; i < 100; i++)
        fdb_future_cancel(futures[i]); /* callbacks posted just before the stop are run */
    network_stop();
    CHECK_EQUAL(atomic_load(&calls), 50);
    for (int i = 0; i < 50; i++)
        fdb_future_cancel(futures[i]); /* blocked threads are woken without a network */
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQUAL(finish(futures[i]), 1101);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    CHECK_EQUAL(atomic_load(&calls), 50);
}

static void hook_that_adds_a_hook(void *parameter) {
    CHECK_EQUAL(fdb_add_network_thread_completion_hook(count_hook, parameter), 0);
    CHECK_EQUAL(fdb_stop_network(), 0);
    CHECK_EQUAL(fdb_run_network(), 2025);
    tr = transaction_begin(database);
    set_text(tr, "from a hook", "v");
    CHECK_EQUAL(commit(tr), 0);
    fdb_transaction_destroy(tr);
}

static void hooks_that_do_too_much(void) {
    network_set_up();
    database = database_open(":memory:");
    CHECK_EQUAL(fdb_add_network_thread_completion_hook(hook_that_adds_a_hook, &calls), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQUAL(fdb_add_network_thread_completion_hook(count_hook, &calls), 0);
    CHECK_EQUAL(fdb_stop_network(), 0);
    CHECK_EQUAL(fdb_stop_network(), 0);
    CHECK_EQUAL(fdb_run_network(), 0); /* stopped before it ran: returns at once */
    CHECK_EQUAL(atomic_load(&calls), 1001);
    CHECK(has_text(database, "from a hook", "v"));
    fdb_database_destroy(database);
}

static void stop_in_callback(FDBFuture *future, void *parameter) {
    (void)future, (void)parameter;
    CHECK_EQUAL(fdb_stop_network(), 0);
    CHECK_EQUAL(fdb_run_network(), 2025);
    atomic_fetch_add(&calls, 1);
}

static void stop_from_a_callback(void) {
    network_set_up();
    database = database_open(":memory:");
    tr = transaction_begin(database);
    watch = fdb_transaction_watch(tr, KEY("w"));
    CHECK_EQUAL(fdb_future_set_callback(watch, stop_in_callback, NULL), 0);
    fdb_future_cancel(watch);
    CHECK_EQUAL(fdb_run_network(), 0); /* on the main thread, as some programs do */
    CHECK_EQUAL(atomic_load(&calls), 1);
    fdb_future_destroy(watch);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
}

/* ---- Processes that just end ---- */

static void exit_in_callback(FDBFuture *future, void *parameter) {
    (void)future, (void)parameter;
    exit(7);
}

static void exit_with_all_open(void) {
    network_start();
    database = database_open(scratch_path("db"));
    tr = transaction_begin(database);
    set_text(tr, "k", "v");
    watch = fdb_transaction_watch(tr, KEY("w"));
    CHECK_EQUAL(commit(tr), 0);
    static pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, block_on, watch), 0);
    exit(7);
}

static void exit_from_callback(void) {
    network_start();
    database = database_open(scratch_path("db"));
    tr = transaction_begin(database);
    set_text(tr, "k", "v");
    watch = fdb_transaction_commit(tr);
    CHECK_EQUAL(fdb_future_set_callback(watch, exit_in_callback, NULL), 0);
    for (;;)
        pause();
}

static void exit_with_commits_under_way(void) {
    static FDBTransaction *transactions[64];
    static FDBFuture *commits[64];
    network_start();
    database = database_open(scratch_path("db"));
    for (int i = 0; i < 64; i++) {
        transactions[i] = transaction_begin(database);
        uint8_t key[1] = {(uint8_t)i};
        fdb_transaction_set(transactions[i], key, 1, key, 1);
        commits[i] = fdb_transaction_commit(transactions[i]);
    }
    CHECK_EQUAL(fdb_future_block_until_ready(commits[63]), 0);
    exit(7);
}

static void exit_before_the_network_ran(void) {
    network_set_up();
    database = database_open(scratch_path("db"));
    tr = transaction_begin(database);
    set_text(tr, "k", "v");
    CHECK_EQUAL(commit(tr), 0);
    exit(7);
}

static void exit_without_goodbye(void) {
    check_child(exit_with_all_open, 7);
    check_child(exit_from_callback, 7);
    check_child(exit_with_commits_under_way, 7);
    check_child(exit_before_the_network_ran, 7);
    network_start(); /* what was acknowledged is there */
    database = database_open(scratch_path("db"));
    CHECK(has_text(database, "k", "v"));
    CHECK(has_text(database, "\x3f", "\x3f"));
    fdb_database_destroy(database);
    network_stop();
}

const struct misuse_case network_cases[] = {
    {"network: before the setup", before_the_setup},
    {"network: never run", never_run},
    {"network: never run, and a retry", never_run_and_retry},
    {"network: stopped during a retry", stopped_during_a_retry},
    {"network: never run, with callbacks", never_run_with_callbacks},
    {"network: never run, yet closed", never_run_yet_closed},
    {"network: everything after the stop", everything_after_the_stop},
    {"network: stopped with everything outstanding", stopped_with_everything_outstanding},
    {"network: hooks that do too much", hooks_that_do_too_much},
    {"network: stopped from a callback, run on main", stop_from_a_callback},
    {"network: exit without goodbye", exit_without_goodbye},
    {NULL, NULL},
};
