/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open database, the current transaction, and Ctrl-C.
 *
 *     closed ── first command that needs it ──► open ── begin ──► in a transaction ── commit, rollback, Ctrl-C in a command ──► open
 *
 * Without a current transaction session_write and session_read run the retry loop of keel_run, with one difference: its waits end with Ctrl-C.
 *
 * Ctrl-C. The handler sets a flag and posts a semaphore, both allowed in a handler. session_wait sleeps on that semaphore; the future's callback
 * posts it too. So whichever comes first wakes it, none is lost between looking and sleeping, and a post too many only makes it look once more. The
 * library's threads block all signals: the handler runs on ours. A command that neither waits nor looks is ended by the third Ctrl-C, with
 * the whole process.
 *
 * Input is waited for in session_wait_input. Elsewhere system calls are restarted, so that no output is lost in the middle of a write.
 *
 * Waits inside the layers (keel_wait) are not ours and do not see Ctrl-C. Reads of a database that this process has open are ready at once; where
 * another process has it and does not answer, the third Ctrl-C helps, or --timeout.
 */
#define _GNU_SOURCE /* ppoll, sem_clockwait */
#include "core.h"
#include "util/error.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRANSACTION_CANCELLED = 1025, TRANSACTION_TIMED_OUT = 1031, OPERATION_CANCELLED = 1101, INTERRUPTS_BEFORE_EXIT = 3 };

static volatile sig_atomic_t interrupts;
static volatile sig_atomic_t terminal_changes;
static sem_t wakeup;

/* ---- Ctrl-C ---- */

static void on_interrupt(int signal_number) {
    (void)signal_number;
    int saved = errno;
    if (++interrupts >= INTERRUPTS_BEFORE_EXIT)
        _exit(EXIT_INTERRUPTED);
    sem_post(&wakeup);
    errno = saved;
}

void session_catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}; /* writes go on; what waits for input, polls */
    sem_init(&wakeup, 0, 0);
    sigaction(SIGINT, &action, NULL);
}

static void on_terminal_change(int signal_number) {
    (void)signal_number;
    terminal_changes = 1;
}

void session_catch_terminal_changes(void) {
    struct sigaction action = {.sa_handler = on_terminal_change, .sa_flags = SA_RESTART};
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
}

bool session_terminal_changed(void) {
    bool changed = terminal_changes;
    terminal_changes = 0;
    return changed;
}

/* The signals are let in only while ppoll sleeps, so that none can come between looking and sleeping. */
static bool wait_descriptor(int descriptor, short events, bool is_prompt) {
    sigset_t signals, before;
    struct pollfd poll = {.fd = descriptor, .events = events};
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGWINCH);
    sigaddset(&signals, SIGCONT);
    sigprocmask(SIG_BLOCK, &signals, &before);
    int ready = interrupts || (is_prompt && terminal_changes) ? -1 : ppoll(&poll, 1, NULL, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready > 0;
}

bool session_wait_input(int descriptor) {
    return wait_descriptor(descriptor, POLLIN, false);
}

bool session_wait_output(int descriptor) {
    return wait_descriptor(descriptor, POLLOUT, false);
}

bool session_wait_prompt(int descriptor) {
    return wait_descriptor(descriptor, POLLIN, true);
}

void session_forget_interrupt(void) {
    interrupts = 0;
}

bool session_interrupted(void) {
    return interrupts > 0;
}

static void on_ready(FDBFuture *future, void *ready) {
    (void)future;
    atomic_store((atomic_bool *)ready, true);
    sem_post(&wakeup);
}

/* Until something is posted or the time has come, which is never if it is NULL. False: it has come. */
static bool sleep_until(const struct timespec *deadline) {
    return (deadline ? sem_clockwait(&wakeup, CLOCK_MONOTONIC, deadline) : sem_wait(&wakeup)) == 0 || errno != ETIMEDOUT;
}

/* The callback has been called before this returns: it knows `ready`. */
static fdb_error_t wait_until(FDBFuture *future, const struct timespec *deadline) {
    if (fdb_future_is_ready(future))
        return fdb_future_get_error(future);
    atomic_bool ready = false;
    fdb_error_t error = fdb_future_set_callback(future, on_ready, &ready);
    if (error)
        return error;
    bool cancelled = false, late = false;
    while (!atomic_load(&ready)) {
        if ((session_interrupted() || late) && !cancelled) {
            fdb_future_cancel(future);
            cancelled = true;
        } else {
            late = !sleep_until(cancelled ? NULL : deadline) || late;
        }
    }
    error = fdb_future_get_error(future);
    return error == OPERATION_CANCELLED && late ? TRANSACTION_TIMED_OUT : error;
}

fdb_error_t session_wait(FDBFuture *future) {
    return wait_until(future, NULL);
}

fdb_error_t session_wait_seconds(FDBFuture *future, double seconds) {
    struct timespec deadline;
    if (seconds <= 0)
        return session_wait(future);
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)seconds;
    deadline.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    return wait_until(future, &deadline);
}

static fdb_error_t wait_destroy(FDBFuture *future) {
    fdb_error_t error = session_wait(future);
    fdb_future_destroy(future);
    return error;
}

/* ---- Opening ---- */

static bool is_missing(const char *path) {
    struct stat status;
    return path && *path && strcmp(path, ":memory:") != 0 && stat(path, &status) != 0 && errno == ENOENT;
}

static fdb_error_t set_timeout(struct session *session) {
    if (session->timeout_seconds <= 0)
        return 0;
    int64_t milliseconds = (int64_t)(session->timeout_seconds * 1000);
    milliseconds = milliseconds < 1 ? 1 : milliseconds;
    return fdb_database_set_option(keel_fdb(session->db), FDB_DB_OPTION_TRANSACTION_TIMEOUT, (const uint8_t *)&milliseconds, sizeof milliseconds);
}

/* A file that is a database is a cluster file. `path` NULL: the default place, which the library looks for in this order. */
static bool is_cluster_file(const char *path) {
    struct stat status;
    const char *named = getenv("FDB_CLUSTER_FILE");
    if (!path)
        path = named && *named ? named : access("fdb.cluster", F_OK) == 0 ? "fdb.cluster" : "/etc/foundationdb/fdb.cluster";
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool session_is_answered(const struct session *session, const char *path, FDBDatabase *database) {
    FDBTransaction *transaction;
    double seconds = session->timeout_seconds > 0 ? session->timeout_seconds : CLUSTER_ANSWERS_SECONDS;
    if (!is_cluster_file(path) || fdb_database_create_transaction(database, &transaction) != 0)
        return true;
    FDBFuture *future = fdb_transaction_get_read_version(transaction);
    fdb_error_t error = session_wait_seconds(future, seconds);
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
    if (error != TRANSACTION_TIMED_OUT)
        return true;
    report("%s: no answer within %g s. Is the cluster running, and does the file name its coordinators? --timeout SECONDS waits longer",
           path ? path : "the default place", seconds);
    return false;
}

FDBDatabase *session_database(struct session *session) {
    if (session->db)
        return keel_fdb(session->db);
    if (session->must_exist && is_missing(session->path)) {
        report("There is no database at %s. A command that writes makes one, for example: keel %s set hello world", session->path, session->path);
        return NULL;
    }
    fdb_error_t error = keel_open(session->path, &session->db);
    if (!error && (error = set_timeout(session)) != 0) {
        keel_close(session->db);
        session->db = NULL;
    }
    if (error)
        report_error("open", session->path ? session->path : "the default place", error);
    if (error || session_is_answered(session, session->path, keel_fdb(session->db)))
        return error ? NULL : keel_fdb(session->db);
    keel_close(session->db);
    session->db = NULL;
    return NULL;
}

void session_rollback(struct session *session) {
    if (session->current)
        fdb_transaction_destroy(session->current);
    session->current = NULL;
}

void session_close(struct session *session) {
    session_rollback(session);
    keel_close(session->db);
    session->db = NULL;
    session_free_options(session);
}

/* ---- Transactions ---- */

/* One transaction with the session's options. */
static fdb_error_t create(struct session *session, FDBTransaction **transaction) {
    FDBDatabase *database = session_database(session);
    if (!database)
        return ERROR_REPORTED;
    fdb_error_t error = fdb_database_create_transaction(database, transaction);
    if (!error && (error = session_apply_options(session, *transaction)) != 0)
        fdb_transaction_destroy(*transaction);
    return error;
}

static fdb_error_t prepare_current(struct session *session, int64_t read_version) {
    fdb_error_t error = fdb_transaction_set_option(session->current, FDB_TR_OPTION_REPORT_CONFLICTING_KEYS, NULL, 0);
    if (!error && read_version >= 0)
        fdb_transaction_set_read_version(session->current, read_version);
    return error;
}

fdb_error_t session_begin(struct session *session, int64_t read_version) {
    fdb_error_t error = create(session, &session->current);
    if (!error)
        return prepare_current(session, read_version);
    session->current = NULL;
    return error;
}

fdb_error_t session_reset(struct session *session) {
    fdb_transaction_reset(session->current);
    fdb_error_t error = session_apply_options(session, session->current);
    return error ? error : prepare_current(session, -1);
}

static fdb_error_t run_current(struct session *session, keel_function function, void *context) {
    fdb_error_t error = function(session->current, context);
    return error == OPERATION_CANCELLED && session_interrupted() ? TRANSACTION_CANCELLED : error;
}

static fdb_error_t attempt(FDBTransaction *transaction, keel_function function, void *context, bool commits) {
    fdb_error_t error = session_interrupted() ? TRANSACTION_CANCELLED : function(transaction, context);
    return error || !commits ? error : wait_destroy(fdb_transaction_commit(transaction));
}

static fdb_error_t run(struct session *session, keel_function function, void *context, bool commits) {
    session->committed_version = -1;
    if (session->current)
        return run_current(session, function, context);
    FDBTransaction *transaction;
    fdb_error_t error = create(session, &transaction);
    if (error)
        return error;
    for (;;) {
        error = attempt(transaction, function, context, commits);
        if (!error || !fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, error) || error == ERROR_OWNER_SILENT)
            break; /* a person is told about a silent owner; programs go on trying */
        error = wait_destroy(fdb_transaction_on_error(transaction, error));
        if (!error)
            error = session_apply_options(session, transaction);
        if (error)
            break;
    }
    if (!error && commits && fdb_transaction_get_committed_version(transaction, &session->committed_version) != 0)
        session->committed_version = -1;
    fdb_transaction_destroy(transaction);
    return error == OPERATION_CANCELLED && session_interrupted() ? TRANSACTION_CANCELLED : error;
}

fdb_error_t session_write(struct session *session, keel_function function, void *context) {
    return run(session, function, context, true);
}

fdb_error_t session_read(struct session *session, keel_function function, void *context) {
    return run(session, function, context, false);
}
