/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of this process. A directory has one lock file, one log writer, one window; so its
 * engine is shared by all FDBDatabase objects on it. They are found by the directory's real path,
 * which exists once the directory does, so a missing one is created first. A directory that was
 * moved away or removed while it is open, and another one that now has its name, are refused: the
 * old one is not what is asked for, and two engines of one name would write into each other's files.
 *
 *                      lock taken                    the owner is gone, lock taken by us
 *     opened ──┬──────────────────► owner ◄────────────────────────────────┐
 *              └── somebody has it ──────────────────────► joined ─────────┘
 *
 * The owner has the engine and serves it on a socket in the directory (remote/server.h). Who has
 * joined has a client, whose thread tries to become the owner when nobody answers (take_over). Where
 * that succeeds the client stays, for transactions that began with it, and connects to its own
 * process; new transactions use the engine.
 *
 *   1. An entry is in `entries` while it is open; references > 0.
 *   2. Opening, closing and taking over happen under `lock`, so nobody can meet an engine that is half
 *      open or half closed. The client's thread only tries for it: closing waits for that thread.
 *   3. `database` is set once, under the lock, and read without it.
 *
 * Threads: any but the threads of an engine or a client, which must not wait for it to close. A last
 * reference that is given back there (a commit that ends after its transaction and database were
 * destroyed) is therefore closed by a thread started for it. If that cannot be started the engine
 * stays open to the end of the process, which loses nothing: what was acknowledged is on disk.
 *
 * Failure: the errors of engine_open, with its message as a line in the log. A directory in which no
 * socket can be made works for this process alone; that, too, is a line in the log.
 */
#include "api/engines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api_version.h"
#include "api/place.h"
#include "engine/engine.h"
#include "os/file.h"
#include "os/fork.h"
#include "os/log_line.h"
#include "os/path.h"
#include "os/thread.h"
#include "remote/server.h"
#include "util/memory.h"

struct engine_entry {
    _Atomic(struct database *) database;
    struct remote_server *server; /* NULL: none, or not the owner */
    struct remote_client *client; /* NULL: never joined */
    fdb_error_t take_over_error;  /* the last one that was logged */
    long references;
    struct engine_entry *next;
    struct os_path_identity identity;
    char real_path[OS_PATH_BYTES_MAX];
};

static os_mutex lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine_entry *entries;
static _Thread_local int closing_depth;

void place_closing_begin(void) {
    closing_depth++;
}

void place_closing_end(void) {
    closing_depth--;
}

/* ---- Engines and their servers ---- */

/* DATABASE_IN_USE is for the caller to judge; everything else is said in the log, once for a *logged. */
static fdb_error_t open_engine(const char *path, struct database **database, fdb_error_t *logged) {
    struct engine_options options;
    char *message = NULL;
    fdb_error_t error = engine_default_options(&options, &message);
    if (!error)
        error = engine_open(path, &options, database, &message);
    if (error && error != ERROR_DATABASE_IN_USE && error != *logged) {
        *logged = error;
        log_line("cannot open %s: %s%s%s", path, error_text(error), message ? ": " : "", message ? message : "");
    }
    memory_free(message);
    return error;
}

static void start_server(struct engine_entry *entry, struct database *database) {
    struct os_socket listener;
    fdb_error_t error = os_socket_listen_in(entry->real_path, REMOTE_SOCKET_NAME, &listener);
    if (!error) {
        error = remote_server_start(database, &entry->server);
        if (error)
            os_socket_close(&listener);
        else
            error = remote_server_listen(entry->server, listener, NULL);
    }
    if (error)
        log_line("%s: other processes cannot join: no socket could be made there", entry->real_path);
}

/* Makes this process the owner, if nobody else is. REQUIRES: the lock. */
static fdb_error_t own(struct engine_entry *entry, fdb_error_t *logged) {
    struct database *database;
    fdb_error_t error = open_engine(entry->real_path, &database, logged);
    if (error)
        return error;
    start_server(entry, database);
    atomic_store(&database->handles, (uint64_t)entry->references);
    atomic_store_explicit(&entry->database, database, memory_order_release);
    return 0;
}

/* ---- Joining ---- */

/* Whether the directory is still the one that was joined: a new one must not be made in its place. */
static bool is_still_there(struct engine_entry *entry) {
    char real[OS_PATH_BYTES_MAX];
    struct os_path_identity identity;
    return os_path_real(entry->real_path, real, &identity) == 0 && os_path_identity_equal(identity, entry->identity);
}

/* On the client's thread. */
static bool take_over(void *context) {
    struct engine_entry *entry = context;
    if (!os_mutex_try_lock(&lock))
        return false; /* somebody opens or closes: the client comes again */
    bool owned = atomic_load(&entry->database) != NULL;
    if (!owned && entry->client && !remote_client_is_closing(entry->client) && is_still_there(entry)) {
        owned = own(entry, &entry->take_over_error) == 0;
        if (owned)
            log_line("%s: this process owns the database now", entry->real_path);
    }
    os_mutex_unlock(&lock);
    return owned;
}

/* KEEL_OWNER_TIMEOUT, in seconds. */
static fdb_error_t read_patience(int64_t *silence_us) {
    const char *text = getenv("KEEL_OWNER_TIMEOUT");
    if (!text || !*text)
        return 0;
    char *end;
    double seconds = strtod(text, &end);
    if (*end || !(seconds >= 0.1) || seconds > 3600) {
        log_line("KEEL_OWNER_TIMEOUT=%s: expected seconds from 0.1 to 3600", text);
        return ERROR_INVALID_OPTION_VALUE_ENVIRONMENT;
    }
    *silence_us = (int64_t)(seconds * 1e6);
    return 0;
}

/* With an address: to who serves there. Without: to the owner, to become it when that is gone. */
static fdb_error_t join(struct engine_entry *entry, const struct engine_address *address) {
    struct remote_client_options options = {
        .directory = address ? address->name : entry->real_path,
        .host = address ? address->host : NULL,
        .port = address ? address->port : NULL,
        .secret = address ? address->secret : "",
        .api_version = api_version(),
        .silence_us = 5000000,
        .take_over = address ? NULL : take_over,
        .context = entry,
    };
    fdb_error_t error = read_patience(&options.silence_us);
    if (!error)
        error = remote_client_create(&options, &entry->client);
    return error;
}

/* ---- Opening ---- */

static struct engine_entry *find(const char *real_path) {
    for (struct engine_entry *entry = entries; entry; entry = entry->next)
        if (strcmp(entry->real_path, real_path) == 0)
            return entry;
    return NULL;
}

/* Under the lock. */
static fdb_error_t open_entry(const char *path, struct engine_entry **opened) {
    struct engine_entry *entry = memory_allocate_zeroed(sizeof *entry);
    if (!entry)
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t logged = 0;
    fdb_error_t error = os_path_real(path, entry->real_path, &entry->identity);
    if (error)
        log_line("cannot open %s: it cannot be followed to a directory", path);
    struct engine_entry *known = error ? NULL : find(entry->real_path);
    if (known && !os_path_identity_equal(known->identity, entry->identity)) {
        log_line("cannot open %s: another directory is still open under this name", path);
        error = ERROR_IO_ERROR;
    }
    if (!error && !known)
        error = own(entry, &logged);
    if (error == ERROR_DATABASE_IN_USE)
        error = join(entry, NULL);
    if (error || known) {
        memory_free(entry);
        if (!error)
            *opened = known;
        return error;
    }
    entry->next = entries;
    entries = entry;
    *opened = entry;
    return 0;
}

/* In a forked child nothing is open. */
static void forget_all(void) {
    os_mutex_init(&lock);
    entries = NULL;
}

/* What the status shows. */
static void count_handles(struct engine_entry *entry) {
    struct database *database = engines_database(entry);
    if (database)
        atomic_store(&database->handles, (uint64_t)entry->references);
}

fdb_error_t engines_open(const char *path, struct engine_entry **entry) {
    fdb_error_t error = os_directory_create(path);
    if (error) {
        log_line("cannot create %s: %s", path, os_last_error());
        return error;
    }
    os_fork_on_child(forget_all);
    os_mutex_lock(&lock);
    error = open_entry(path, entry);
    if (!error)
        (*entry)->references++;
    if (!error)
        count_handles(*entry);
    os_mutex_unlock(&lock);
    return error;
}

static fdb_error_t open_address_entry(const struct engine_address *address, struct engine_entry **opened) {
    struct engine_entry *entry = memory_allocate_zeroed(sizeof *entry);
    if (!entry)
        return ERROR_LARGE_ALLOC_FAILED;
    snprintf(entry->real_path, sizeof entry->real_path, "keel:%s@%s:%s", address->secret, address->host, address->port); /* no path: those begin with / */
    struct engine_entry *known = find(entry->real_path);
    fdb_error_t error = known ? 0 : join(entry, address);
    if (error || known) {
        memory_free(entry);
        *opened = known;
        return error;
    }
    entry->next = entries;
    entries = entry;
    *opened = entry;
    return 0;
}

fdb_error_t engines_open_address(const struct engine_address *address, struct engine_entry **entry) {
    struct engine_entry *opened;
    os_fork_on_child(forget_all);
    os_mutex_lock(&lock);
    fdb_error_t error = open_address_entry(address, &opened);
    if (!error) {
        opened->references++;
        *entry = opened;
    }
    os_mutex_unlock(&lock);
    return error;
}

fdb_error_t engines_listen(struct engine_entry *entry, struct os_socket listener, const char *secret) {
    os_mutex_lock(&lock);
    fdb_error_t error = entry->server ? remote_server_listen(entry->server, listener, secret) : ERROR_DATABASE_IN_USE;
    bool taken = entry->server != NULL;
    os_mutex_unlock(&lock);
    if (!taken)
        os_socket_close(&listener);
    return error;
}

struct database *engines_database(struct engine_entry *entry) {
    return atomic_load_explicit(&entry->database, memory_order_acquire);
}

struct remote_client *engines_client(struct engine_entry *entry) {
    return entry->client;
}

fdb_error_t engines_open_memory(struct database **database) {
    fdb_error_t logged = 0;
    fdb_error_t error = open_engine(":memory:", database, &logged);
    if (!error)
        atomic_store(&(*database)->handles, 1);
    return error;
}

/* ---- Closing ---- */

/* The client first, whose thread might make an engine; the server before the engine it serves. */
static void close_now(struct engine_entry *entry) {
    os_mutex_lock(&lock);
    if (--entry->references > 0) {
        count_handles(entry);
        os_mutex_unlock(&lock);
        return;
    }
    struct engine_entry **link = &entries;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    if (entry->client)
        remote_client_close(entry->client);
    if (entry->server) {
        remote_server_stop(entry->server);
        if (is_still_there(entry)) /* under the database's lock, so it is ours */
            os_socket_remove_in(entry->real_path, REMOTE_SOCKET_NAME);
    }
    struct database *database = engines_database(entry);
    if (database)
        database_close(database);
    memory_free(entry);
    os_mutex_unlock(&lock);
}

static void *close_entry_thread(void *entry) {
    close_now(entry);
    return NULL;
}

static void *close_memory_thread(void *database) {
    database_close(database);
    return NULL;
}

/* On the spot where that is allowed, else on a thread of its own. */
static void close_somewhere(void *(*function)(void *), void *subject) {
    if (closing_depth > 0) {
        (void)function(subject);
        return;
    }
    os_thread thread;
    if (os_thread_start(&thread, "keel-close", function, subject) == 0)
        (void)pthread_detach(thread);
    else
        log_line("a database stays open: no thread could be started to close it");
}

void engines_close(struct engine_entry *entry) {
    close_somewhere(close_entry_thread, entry);
}

void engines_close_memory(struct database *database) {
    close_somewhere(close_memory_thread, database);
}
