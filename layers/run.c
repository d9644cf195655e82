/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The retry loop, and keel_open, which hides what an fdb_c program does once a process: select an
 * API version, set up the network, run it on a thread, stop and join that at the end.
 *
 * The loop; reading leaves the commit out:
 *
 *     create ─► prepare ─► function ─► commit ─► destroy, 0
 *                  ▲          │           │
 *                  │          └── error ──┴─► not retryable ─► destroy, the error
 *                  └───── on_error ◄───────── retryable
 *                             └─ error (limit, timeout, ...) ─► destroy, that error
 *
 * on_error is asked only about codes that fdb_error_predicate calls retryable, so a code of the
 * program's own never reaches the library, and comes back as it was.
 *
 * The network of this process, as far as libkeel is concerned:
 *
 *     UNKNOWN ── setup says 2009 ─────────────────────────────────────────► FOREIGN
 *        └────── setup succeeds ──► SET_UP ── thread started ──► RUNNING ──► STOPPED
 *                                                                  └─ run says 2025 ─► FOREIGN
 *
 * FOREIGN: the program's own, never touched. STOPPED: our thread has come back from
 * fdb_run_network, because of the end of the process or a fdb_stop_network of the program's; it can
 * never run again.
 *
 *   1. fdb_stop_network is called only by the process that started the thread, only in RUNNING.
 *   2. The thread is joined at most once, and never by itself.
 *   3. `forked` is set only in a child of a process in SET_UP or later; then nothing is touched.
 *
 * Threads: any. The state is under `lock`, which is not held while a database is created or the
 * thread is joined. A fork takes the lock, so that a child does not inherit it taken. The network
 * thread blocks all signals: they are for the program's threads.
 *
 * Failure: keel_open can be tried again after any error but FORKED and the 2025 of STOPPED; a
 * process that cannot have a thread now may have one later.
 *
 * The library must stay loaded once the thread runs in it: link with -z nodelete.
 */
#include <keel/run.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "export.h"

/* Codes of FoundationDB's that are looked at or returned here. */
enum {
    NO_MEMORY = 1501,
    NETWORK_ALREADY_SETUP = 2009,
    NETWORK_CANNOT_BE_RESTARTED = 2025,
    API_VERSION_ALREADY_SET = 2201,
};

/* ---- Waiting ---- */

KEEL_EXPORT fdb_error_t keel_wait(FDBFuture *future) {
    fdb_error_t error = fdb_future_block_until_ready(future);
    return error ? error : fdb_future_get_error(future);
}

KEEL_EXPORT fdb_error_t keel_wait_destroy(FDBFuture *future) {
    fdb_error_t error = keel_wait(future);
    fdb_future_destroy(future);
    return error;
}

/* ---- The retry loop ---- */

struct body {
    keel_function prepare; /* may be NULL */
    keel_function function;
    void *context;
    int commits;
};

static fdb_error_t attempt(FDBTransaction *transaction, const struct body *body) {
    fdb_error_t error = body->prepare ? body->prepare(transaction, body->context) : 0;
    if (!error)
        error = body->function(transaction, body->context);
    if (!error && body->commits)
        error = keel_wait_destroy(fdb_transaction_commit(transaction));
    return error;
}

static fdb_error_t run(FDBDatabase *database, const struct body *body) {
    if (!database || !body->function)
        return KEEL_ERROR_ARGUMENT;
    FDBTransaction *transaction;
    fdb_error_t error = fdb_database_create_transaction(database, &transaction);
    if (error)
        return error;
    do {
        error = attempt(transaction, body);
        if (!error || !fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error))
            break;
        error = keel_wait_destroy(fdb_transaction_on_error(transaction, error));
    } while (!error);
    fdb_transaction_destroy(transaction);
    return error;
}

KEEL_EXPORT fdb_error_t keel_run(FDBDatabase *database, keel_function function, void *context) {
    return keel_run_with(database, NULL, function, context);
}

KEEL_EXPORT fdb_error_t keel_run_read(FDBDatabase *database, keel_function function,
                                      void *context) {
    return keel_run_read_with(database, NULL, function, context);
}

KEEL_EXPORT fdb_error_t keel_run_with(FDBDatabase *database, keel_function prepare,
                                      keel_function function, void *context) {
    return run(database, &(struct body){prepare, function, context, 1});
}

KEEL_EXPORT fdb_error_t keel_run_read_with(FDBDatabase *database, keel_function prepare,
                                           keel_function function, void *context) {
    return run(database, &(struct body){prepare, function, context, 0});
}

/* ---- The network ---- */

enum network_state { UNKNOWN, SET_UP, RUNNING, STOPPED, FOREIGN };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum network_state state;
static int forked;
static int handlers_registered;
static int thread_started; /* and not joined */
static pthread_t network_thread;

static void *run_network(void *unused) {
    (void)unused;
    fdb_error_t error = fdb_run_network();
    pthread_mutex_lock(&lock);
    state = error == NETWORK_CANNOT_BE_RESTARTED ? FOREIGN : STOPPED;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* At exit. */
static void stop_network(void) {
    pthread_mutex_lock(&lock);
    int join = thread_started && !forked && !pthread_equal(network_thread, pthread_self());
    int stop = state == RUNNING && !forked;
    thread_started = 0;
    pthread_mutex_unlock(&lock);
    if (stop && fdb_stop_network() != 0)
        return;
    if (join) /* not if exit was called by a callback */
        pthread_join(network_thread, NULL);
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void) {
    forked = 1;
    pthread_mutex_unlock(&lock);
}

/* Under the lock. If the second fails, a later try does the first again: that one may run twice. */
static fdb_error_t register_handlers(void) {
    if (handlers_registered)
        return 0;
    if (atexit(stop_network) != 0)
        return NO_MEMORY;
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
        return NO_MEMORY;
    handlers_registered = 1;
    return 0;
}

/* Under the lock. */
static fdb_error_t start_thread(void) {
    fdb_error_t error = register_handlers();
    if (error)
        return error;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&network_thread, NULL, run_network, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return KEEL_ERROR_THREAD;
    state = RUNNING;
    thread_started = 1;
    return 0;
}

/* A library that is older than these headers is asked for the newest version it has. */
static fdb_error_t select_api_version(void) {
    int version = fdb_get_max_api_version();
    if (version > FDB_API_VERSION)
        version = FDB_API_VERSION;
    fdb_error_t error = fdb_select_api_version_impl(version, version);
    return error == API_VERSION_ALREADY_SET ? 0 : error;
}

/* Under the lock. */
static fdb_error_t set_up(void) {
    fdb_error_t error = select_api_version();
    if (error)
        return error;
    error = fdb_setup_network();
    if (error && error != NETWORK_ALREADY_SETUP)
        return error;
    state = error ? FOREIGN : SET_UP;
    return 0;
}

/* Under the lock. */
static fdb_error_t bring_up(void) {
    if (forked)
        return KEEL_ERROR_FORKED;
    if (state == STOPPED)
        return NETWORK_CANNOT_BE_RESTARTED;
    fdb_error_t error = state == UNKNOWN ? set_up() : 0;
    if (!error && state == SET_UP)
        error = start_thread();
    return error;
}

/* ---- Databases ---- */

struct keel_db {
    FDBDatabase *database;
};

KEEL_EXPORT fdb_error_t keel_open(const char *path, keel_db **db) {
    if (!db)
        return KEEL_ERROR_ARGUMENT;
    pthread_mutex_lock(&lock);
    fdb_error_t error = bring_up();
    pthread_mutex_unlock(&lock);
    if (error)
        return error;
    keel_db *opened = malloc(sizeof *opened);
    if (!opened)
        return NO_MEMORY;
    error = fdb_create_database(path, &opened->database);
    if (error)
        free(opened);
    else
        *db = opened;
    return error;
}

KEEL_EXPORT FDBDatabase *keel_fdb(keel_db *db) {
    return db ? db->database : NULL;
}

KEEL_EXPORT void keel_close(keel_db *db) {
    if (!db)
        return;
    fdb_database_destroy(db->database);
    free(db);
}
