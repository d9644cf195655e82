/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database as transactions know it: the database itself, the defaults it gives to them, and what
 * they count together.
 *
 * Counted: the api holds one reference for an FDBDatabase, every transaction one. The last release
 * closes the database, with one exception. A release may come from inside the database: a commit's
 * answer or a watch that fires can let go of the last transaction, on a thread that closing would
 * wait for. Such a release hands the closing to the loop. handle_enter_callback and
 * handle_leave_callback mark those places, per thread.
 */
#include <string.h>

#include "txn/state.h"
#include "util/memory.h"

enum { WATCHES_MAX_DEFAULT = 10000 };

static _Thread_local int callback_depth;

void handle_enter_callback(void) { callback_depth++; }
void handle_leave_callback(void) { callback_depth--; }

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

void database_handle_retain(struct database_handle *handle) {
    atomic_fetch_add_explicit(&handle->references, 1, memory_order_relaxed);
}

static void close_now(struct database_handle *handle) {
    database_close(handle->database);
    free_handle(handle);
}

static void close_later(struct loop_task *task) {
    close_now((struct database_handle *)((char *)task - offsetof(struct database_handle,
                                                                 close_task)));
}

void database_handle_release(struct database_handle *handle) {
    if (atomic_fetch_sub_explicit(&handle->references, 1, memory_order_acq_rel) != 1)
        return;
    if (!callback_depth) {
        close_now(handle);
        return;
    }
    handle->close_task.run = close_later;
    loop_post(&handle->close_task);
}

struct database *database_handle_database(struct database_handle *handle) {
    return handle->database;
}
