/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing the official library up. It goes through the stages a program takes it through, when the
 * first cluster is needed, and no earlier: a program that only has embedded databases never loads it.
 *
 *     NOTHING ── load ──► LOADED ── select the API version ──► SELECTED ── pass the options on,
 *       set the network up ──► SET_UP ── start the thread ──► RUNNING
 *
 * A stage that fails is tried again by the next call; the stages behind it are not repeated, as the
 * library would refuse them.
 *
 *   1. `stage` only rises, but for a child process, which begins anew.
 *   2. The version selected is the program's. The version of the headers, by which the library chooses
 *      between forms of functions that have changed, is its own newest, up to ours: so the forms are
 *      the newest it has.
 *   3. Options are kept in the order in which they were set, and all are passed on: an embedded
 *      database has no use for any. The library reads FDB_NETWORK_OPTION_* itself.
 *   4. The thread runs the library's network and nothing else: its callbacks are called there, ours on
 *      the thread of fdb_run_network, so that neither waits for the other.
 *
 * Threads: any; one lock, under which the library is called while it comes up, but not while its
 * network runs.
 *
 * A child process that forked has neither the thread nor a library that could be set up anew: where
 * the parent had brought it up, the child is refused.
 */
#include "api/export.h"

#include "cluster/network.h"

#include <stdbool.h>
#include <string.h>

#include "api/api_version.h"
#include "cluster/library.h"
#include "os/fork.h"
#include "os/log_line.h"
#include "os/thread.h"
#include "util/memory.h"

enum stage { NOTHING, LOADED, SELECTED, SET_UP, RUNNING };

struct network_option {
    struct network_option *next;
    int option;
    bool given;
    int length;
    uint8_t value[];
};

static os_mutex lock = PTHREAD_MUTEX_INITIALIZER;
static int stage;
static bool stopped, forked;
static bool joinable, joining; /* the thread has not been waited for; somebody does */
static os_condition ended = PTHREAD_COND_INITIALIZER; /* joinable fell */
static os_thread thread;
static struct network_option *first_option;
static fdb_error_t logged; /* the last failure that was */

/* In a child there is no thread; a library that was up is in no state to be used. */
static void begin_anew(void) {
    os_mutex_init(&lock);
    os_condition_init(&ended);
    forked = forked || stage > LOADED;
    stopped = joinable = joining = false;
    if (forked)
        stage = NOTHING;
}

static fdb_error_t complain(fdb_error_t error, const char *what) {
    if (error != logged)
        log_line("%s: %s: %s (%d)", cluster_library_path(), what, error_text(error), error);
    logged = error;
    return error;
}

/* ---- The stages; all under the lock ---- */

static fdb_error_t load(void) {
    return cluster_library_load();
}

static fdb_error_t select_version(void) {
    int newest = cluster_official.get_max_api_version();
    int version = api_version();
    fdb_error_t error = newest < version ? ERROR_API_VERSION_NOT_SUPPORTED : 0;
    if (!error)
        error = cluster_official.select_api_version_impl(version, newest < API_VERSION_MAX ? newest : API_VERSION_MAX);
    if (error && error != logged)
        log_line("%s: it has API versions up to %d, the program selected %d: %s (%d)", cluster_library_path(), newest,
                 version, error_text(error), error);
    if (error)
        logged = error;
    else
        log_line("FoundationDB's client is %s, asked for API version %d", cluster_official.get_client_version(), version);
    return error;
}

static fdb_error_t pass_on(const struct network_option *option) {
    return cluster_official.network_set_option((FDBNetworkOption)option->option, option->given ? option->value : NULL,
                                               option->length);
}

static void forget(struct network_option *option) {
    first_option = option->next;
    memory_free(option);
}

/* What was passed on is forgotten: a second try goes on with the rest. */
static fdb_error_t set_up(void) {
    while (first_option) {
        struct network_option *option = first_option;
        fdb_error_t error = pass_on(option);
        if (error && error != logged)
            log_line("%s: network option %d: %s (%d)", cluster_library_path(), option->option, error_text(error), error);
        if (error) {
            logged = error;
            return error;
        }
        forget(option);
    }
    fdb_error_t error = cluster_official.setup_network();
    return error ? complain(error, "fdb_setup_network") : 0;
}

static void *run(void *unused) {
    (void)unused;
    fdb_error_t error = cluster_official.run_network();
    if (error)
        log_line("%s: fdb_run_network: %s (%d)", cluster_library_path(), error_text(error), error);
    return NULL;
}

static fdb_error_t start(void) {
    fdb_error_t error = os_thread_start(&thread, "fdb-network", run, NULL);
    joinable = error == 0;
    return error ? complain(error, "its thread could not be started") : 0;
}

/* ---- Outside ---- */

static fdb_error_t bring_up(void) {
    static fdb_error_t (*const steps[])(void) = {load, select_version, set_up, start};
    if (forked)
        return ERROR_OPENED_BEFORE_FORK;
    if (stopped)
        return ERROR_NETWORK_CANNOT_BE_RESTARTED;
    for (; stage < RUNNING; stage++) {
        fdb_error_t error = steps[stage]();
        if (error)
            return error;
    }
    return 0;
}

fdb_error_t cluster_network_need(void) {
    os_fork_on_child(begin_anew);
    os_mutex_lock(&lock);
    fdb_error_t error = bring_up();
    os_mutex_unlock(&lock);
    return error;
}

/* Under the lock. */
static fdb_error_t keep(int number, const uint8_t *value, int length) {
    if (!value)
        length = 0;
    struct network_option *option = memory_allocate(sizeof *option + (size_t)length);
    if (!option)
        return ERROR_LARGE_ALLOC_FAILED;
    *option = (struct network_option){.option = number, .given = value != NULL, .length = length};
    if (length)
        memcpy(option->value, value, (size_t)length);
    struct network_option **last = &first_option;
    while (*last)
        last = &(*last)->next;
    *last = option;
    return 0;
}

fdb_error_t cluster_network_set_option(int option, const uint8_t *value, int length) {
    os_fork_on_child(begin_anew);
    os_mutex_lock(&lock);
    bool is_up = stage >= SET_UP;
    fdb_error_t error = is_up ? cluster_official.network_set_option((FDBNetworkOption)option, value, length)
                              : keep(option, value, length);
    os_mutex_unlock(&lock);
    return error;
}

void cluster_network_stop(void) {
    os_mutex_lock(&lock);
    bool running = stage == RUNNING && !stopped;
    stopped = true;
    os_mutex_unlock(&lock);
    if (running)
        (void)cluster_official.stop_network();
}

void cluster_network_join(void) {
    os_mutex_lock(&lock);
    bool wait = joinable && stopped && !os_thread_is_self(thread);
    if (wait && !joining) {
        joining = true;
        os_mutex_unlock(&lock);
        os_thread_join(thread);
        os_mutex_lock(&lock);
        joinable = joining = false;
        os_condition_broadcast(&ended);
    }
    while (wait && joinable) /* another joins it: nobody comes back before it has ended */
        os_condition_wait(&ended, &lock);
    os_mutex_unlock(&lock);
}
