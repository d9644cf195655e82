/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network: in FoundationDB the thread that talks to the cluster, here the thread on which
 * callbacks and timers run. A process goes once through
 *
 *     UNSET ── fdb_setup_network ──► SETUP ── fdb_run_network ──► RUN
 *
 * and stays in RUN for good, also after fdb_run_network has returned.
 *
 * A forked child of a process that had a network stands as if at the setup, though nobody runs it:
 * bindings that remember having set it up can open and block, the others may set up and run anew.
 *
 * fdb_stop_network may come at any time after the setup, also before the run, which then returns at
 * once. It stops both networks where the official library has one too (cluster/network.c); the end of
 * that is waited for by fdb_run_network, so that behind it no callback runs any more, and where nobody
 * runs that by fdb_stop_network itself.
 *
 * The environment's options are read with the first option set or with the setup, whichever comes
 * first, until that succeeds once.
 *
 * Completion hooks are called by the thread that ran the network, in the order in which they were
 * added, after the loop has ended; one that is added by a hook is called too, one that is added
 * later never.
 *
 * Threads: any; the state, the hooks and `environment_read` under one lock, which is not held while
 * hooks or the loop run.
 */
#include "api/export.h"

#include "api/network.h"

#include "api/api_version.h"
#include "api/network_options.h"
#include "cluster/network.h"
#include "os/fork.h"
#include "os/loop.h"
#include "os/thread.h"
#include "util/memory.h"

enum network_state { UNSET, INHERITED, SETUP, RUN };

struct hook {
    void (*function)(void *parameter);
    void *parameter;
    struct hook *next;
};

static os_mutex lock = PTHREAD_MUTEX_INITIALIZER;
static enum network_state state;
static bool environment_read;
static struct hook *first_hook;
static struct hook **last_hook = &first_hook;

/* Under the lock. */
static fdb_error_t read_environment(void) {
    if (environment_read)
        return 0;
    fdb_error_t error = network_options_check_environment(state > INHERITED);
    environment_read = error == 0;
    return error;
}

/* Under the lock. */
static fdb_error_t check_setup(void) {
    if (api_version() == 0)
        return ERROR_API_VERSION_UNSET;
    return state == UNSET ? ERROR_NETWORK_NOT_SETUP : 0;
}

fdb_error_t network_check_setup(void) {
    os_mutex_lock(&lock);
    fdb_error_t error = check_setup();
    os_mutex_unlock(&lock);
    return error;
}

fdb_error_t fdb_network_set_option(FDBNetworkOption option, uint8_t const *value,
                                   int value_length) {
    if (api_version() == 0)
        return ERROR_API_VERSION_UNSET;
    os_mutex_lock(&lock);
    fdb_error_t error = read_environment();
    if (!error)
        error = network_options_check((int)option, value, value_length, state > INHERITED);
    if (!error)
        error = cluster_network_set_option((int)option, value, value_length);
    os_mutex_unlock(&lock);
    return error;
}

static void inherit(void) {
    os_mutex_init(&lock);
    if (state != UNSET)
        state = INHERITED;
    first_hook = NULL; /* the parent's */
    last_hook = &first_hook;
}

fdb_error_t fdb_setup_network(void) {
    if (api_version() == 0)
        return ERROR_API_VERSION_UNSET;
    os_mutex_lock(&lock);
    fdb_error_t error = read_environment();
    if (!error && state > INHERITED)
        error = ERROR_NETWORK_ALREADY_SETUP;
    if (!error)
        state = SETUP;
    if (!error)
        os_fork_on_child(inherit);
    os_mutex_unlock(&lock);
    return error;
}

static struct hook *take_hook(void) {
    os_mutex_lock(&lock);
    struct hook *hook = first_hook;
    if (hook) {
        first_hook = hook->next;
        if (!first_hook)
            last_hook = &first_hook;
    }
    os_mutex_unlock(&lock);
    return hook;
}

static void run_hooks(void) {
    for (struct hook *hook = take_hook(); hook; hook = take_hook()) {
        hook->function(hook->parameter);
        memory_free(hook);
    }
}

fdb_error_t fdb_run_network(void) {
    os_mutex_lock(&lock);
    fdb_error_t error = check_setup();
    if (!error && state == RUN)
        error = ERROR_NETWORK_CANNOT_BE_RESTARTED;
    if (!error)
        state = RUN;
    os_mutex_unlock(&lock);
    if (error)
        return error;
    loop_run();
    cluster_network_join();
    run_hooks();
    return 0;
}

fdb_error_t fdb_stop_network(void) {
    os_mutex_lock(&lock);
    fdb_error_t error = check_setup();
    bool runs = state == RUN;
    os_mutex_unlock(&lock);
    if (error)
        return error;
    cluster_network_stop();
    loop_stop();
    if (!runs)
        cluster_network_join();
    return 0;
}

fdb_error_t fdb_add_network_thread_completion_hook(void (*function)(void *), void *parameter) {
    if (!function)
        return ERROR_CLIENT_INVALID_OPERATION;
    struct hook *hook = memory_allocate(sizeof *hook);
    if (!hook)
        return ERROR_LARGE_ALLOC_FAILED;
    *hook = (struct hook){function, parameter, NULL};
    os_mutex_lock(&lock);
    fdb_error_t error = check_setup();
    if (!error) {
        *last_hook = hook;
        last_hook = &hook->next;
    }
    os_mutex_unlock(&lock);
    if (error)
        memory_free(hook);
    return error;
}
