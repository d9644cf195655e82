/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines of this process. A directory has one lock file, one log writer, one window; so its
 * engine is shared by all FDBDatabase objects on it. They are found by the directory's real path,
 * which exists once the directory does, so a missing one is created first. A directory that was
 * moved away or removed while it is open, and another one that now has its name, are refused: the
 * old one is not what is asked for, and two engines of one name would write into each other's files.
 *
 *   1. An entry is in `entries` exactly while its engine is open; references > 0.
 *   2. Opening and closing happen under `lock`, so nobody can meet an engine that is half open or
 *      half closed.
 *
 * Threads: any but the threads of an engine, which must not wait for one to close. A last reference
 * that is given back there (a commit that ends after its transaction and database were destroyed)
 * is therefore closed by a thread started for it. If that cannot be started the engine stays open
 * to the end of the process, which loses nothing: what was acknowledged is on disk.
 *
 * Failure: the errors of engine_open, with its message as a line in the log.
 */
#include "api/engines.h"

#include <stdlib.h>

#include "api/place.h"
#include "engine/engine.h"
#include "os/file.h"
#include "os/log_line.h"
#include "os/path.h"
#include "os/thread.h"
#include "util/memory.h"

struct entry {
    struct database *database;
    long references;
    struct entry *next;
    struct os_path_identity identity;
    char real_path[OS_PATH_BYTES_MAX];
};

static os_mutex lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static _Thread_local int closing_depth;

void place_closing_begin(void) {
    closing_depth++;
}

void place_closing_end(void) {
    closing_depth--;
}

/* ---- Opening ---- */

static fdb_error_t open_engine(const char *path, struct database **database) {
    struct engine_options options;
    char *message = NULL;
    fdb_error_t error = engine_default_options(&options, &message);
    if (!error)
        error = engine_open(path, &options, database, &message);
    if (error)
        log_line("cannot open %s: %s%s%s", path, error_text(error), message ? ": " : "",
                 message ? message : "");
    memory_free(message);
    return error;
}

static struct entry *find(const char *real_path) {
    for (struct entry *entry = entries; entry; entry = entry->next)
        if (strcmp(entry->real_path, real_path) == 0)
            return entry;
    return NULL;
}

/* Under the lock. */
static fdb_error_t open_entry(const char *path, struct entry **opened) {
    struct entry *entry = memory_allocate_zeroed(sizeof *entry);
    if (!entry)
        return ERROR_LARGE_ALLOC_FAILED;
    fdb_error_t error = os_path_real(path, entry->real_path, &entry->identity);
    if (error)
        log_line("cannot open %s: it cannot be followed to a directory", path);
    struct entry *known = error ? NULL : find(entry->real_path);
    if (known && !os_path_identity_equal(known->identity, entry->identity)) {
        log_line("cannot open %s: another directory is still open under this name", path);
        error = ERROR_IO_ERROR;
    }
    if (!error && !known)
        error = open_engine(entry->real_path, &entry->database);
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

fdb_error_t engines_open(const char *path, struct database **database) {
    fdb_error_t error = os_directory_create(path);
    if (error) {
        log_line("cannot create %s: %s", path, os_last_error());
        return error;
    }
    struct entry *entry;
    os_mutex_lock(&lock);
    error = open_entry(path, &entry);
    if (!error) {
        entry->references++;
        atomic_store(&entry->database->handles, (uint64_t)entry->references);
        *database = entry->database;
    }
    os_mutex_unlock(&lock);
    return error;
}

fdb_error_t engines_open_memory(struct database **database) {
    fdb_error_t error = open_engine(":memory:", database);
    if (!error)
        atomic_store(&(*database)->handles, 1);
    return error;
}

/* ---- Closing ---- */

static struct entry **find_database(struct database *database) {
    struct entry **link = &entries;
    while (*link && (*link)->database != database)
        link = &(*link)->next;
    return link;
}

static void close_now(struct database *database) {
    os_mutex_lock(&lock);
    struct entry **link = find_database(database), *entry = *link;
    if (!entry) {
        database_close(database); /* in memory */
    } else if (--entry->references == 0) {
        *link = entry->next;
        database_close(database);
        memory_free(entry);
    } else {
        atomic_store(&database->handles, (uint64_t)entry->references);
    }
    os_mutex_unlock(&lock);
}

static void *close_thread(void *database) {
    close_now(database);
    return NULL;
}

void engines_close(struct database *database) {
    if (closing_depth > 0) {
        close_now(database);
        return;
    }
    os_thread thread;
    if (os_thread_start(&thread, "keel-close", close_thread, database) == 0)
        (void)pthread_detach(thread);
    else
        log_line("a database stays open: no thread could be started to close it");
}
