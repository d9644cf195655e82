/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database as transactions know it: the database itself, the defaults it gives to them, and what
 * they count together.
 *
 * Counted: the api holds one reference for an FDBDatabase, every transaction one. The last release
 * closes the database. It may come from inside the database: a commit's answer or a watch that fires
 * can let go of the last transaction, on a thread that closing would wait for. What stands in front
 * of an engine (api/engines.c) knows that and closes it on another thread then.
 */
#include <string.h>

#include "os/fork.h"
#include "txn/state.h"
#include "util/memory.h"

enum { WATCHES_MAX_DEFAULT = 10000 };

static char *copy_text(const char *text) {
    size_t bytes = strlen(text ? text : "") + 1;
    char *copy = memory_allocate(bytes);
    if (copy)
        memcpy(copy, text ? text : "", bytes);
    return copy;
}

static void free_handle(struct database_handle *handle) {
    os_mutex_destroy(&handle->lock);
    memory_free(handle->cluster_file_path);
    memory_free(handle->connection_string);
    memory_free(handle);
}

fdb_error_t database_handle_create(struct database *database, int api_version,
                                   const char *cluster_file_path,
                                   const char *connection_string, struct database_handle **result) {
    struct database_handle *handle = memory_allocate_zeroed(sizeof *handle);
    if (!handle)
        return ERROR_LARGE_ALLOC_FAILED;
    os_mutex_init(&handle->lock);
    atomic_init(&handle->references, 1);
    handle->database = database;
    handle->api_version = api_version;
    handle->generation = os_fork_generation;
    atomic_init(&handle->watches_max, WATCHES_MAX_DEFAULT);
    options_defaults(&handle->defaults, api_version);
    handle->cluster_file_path = copy_text(cluster_file_path);
    handle->connection_string = copy_text(connection_string);
    if (!handle->cluster_file_path || !handle->connection_string) {
        free_handle(handle);
        return ERROR_LARGE_ALLOC_FAILED;
    }
    *result = handle;
    return 0;
}

bool database_handle_is_forked(const struct database_handle *handle) {
    return handle->generation != os_fork_generation;
}

void database_handle_retain(struct database_handle *handle) {
    atomic_fetch_add_explicit(&handle->references, 1, memory_order_relaxed);
}

void database_handle_release(struct database_handle *handle) {
    if (database_handle_is_forked(handle))
        return;
    if (atomic_fetch_sub_explicit(&handle->references, 1, memory_order_acq_rel) != 1)
        return;
    if (handle->release)
        handle->release(handle->release_context);
    else
        database_close(handle->database);
    free_handle(handle);
}

void database_handle_set_release(struct database_handle *handle, void (*release)(void *context),
                                 void *context) {
    handle->release = release;
    handle->release_context = context;
}

struct database *database_handle_database(struct database_handle *handle) {
    return handle->database;
}
