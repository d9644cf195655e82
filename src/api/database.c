/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdb_create_database and fdb_database_*, and the two-step opening by clusters that API versions
 * below 610 have. An FDBDatabase is a counted database_handle over a place, which opens the real
 * database with the first operation; see place.c for what a path means.
 *
 * No fdb_* function is called from inside the library: with two client libraries in a process the
 * call might end up in the other one.
 *
 * Threads: any. Failure: creating fails only for misuse of the API and lack of memory.
 */
#include "api/handles.h"

#include <stdlib.h>
#include <string.h>

#include "api/api_version.h"
#include "api/network.h"
#include "api/place.h"
#include "os/log_line.h"
#include "util/memory.h"

/* ---- Opening ---- */

/* Makes a handle over `place` and takes that over, also on failure. */
static fdb_error_t create_handle(struct database *place, const char *path,
                                 const char *connection_string, FDBDatabase **out_database) {
    if (!place)
        return ERROR_LARGE_ALLOC_FAILED;
    struct database_handle *handle;
    fdb_error_t error =
        database_handle_create(place, api_version(), path, connection_string, &handle);
    if (error)
        database_close(place);
    else
        *out_database = handles_from_database(handle);
    return error;
}

static fdb_error_t create_database(const char *cluster_file_path, FDBDatabase **out_database) {
    fdb_error_t error = network_check_setup();
    if (error)
        return error;
    char path[OS_PATH_BYTES_MAX];
    error = place_choose(cluster_file_path, path);
    if (error) {
        log_line("cannot open %s: the path is too long, or the working directory is gone",
                 cluster_file_path ? cluster_file_path : "the default database");
        return create_handle(place_create_failed(error), "", "", out_database);
    }
    bool in_memory = strcmp(path, ":memory:") == 0;
    const char *connection = in_memory ? "keel:memory@127.0.0.1:1" : "keel:embedded@127.0.0.1:1";
    return create_handle(place_create(path), path, connection, out_database);
}

fdb_error_t fdb_create_database(const char *cluster_file_path, FDBDatabase **out_database) {
    if (!out_database)
        return ERROR_CLIENT_INVALID_OPERATION;
    return create_database(cluster_file_path, out_database);
}

fdb_error_t fdb_create_database_from_connection_string(const char *connection_string,
                                                       FDBDatabase **out_database) {
    if (!connection_string || !out_database)
        return ERROR_CLIENT_INVALID_OPERATION;
    fdb_error_t error = network_check_setup();
    if (error)
        return error;
    bool valid = place_is_connection_string(connection_string, strlen(connection_string));
    fdb_error_t failure = valid ? ERROR_CLUSTER_UNSUPPORTED : ERROR_CONNECTION_STRING_INVALID;
    log_line("cannot open %s: %s", connection_string, error_text(failure));
    return create_handle(place_create_failed(failure), "", connection_string, out_database);
}

void fdb_database_destroy(FDBDatabase *database) {
    if (!database)
        return;
    place_closing_begin();
    database_handle_release(handles_database(database));
    place_closing_end();
}

fdb_error_t fdb_database_set_option(FDBDatabase *database, FDBDatabaseOption option,
                                    uint8_t const *value, int value_length) {
    if (!database)
        return ERROR_CLIENT_INVALID_OPERATION;
    if (value && value_length < 0)
        return ERROR_INVALID_OPTION_VALUE;
    return database_handle_set_option(handles_database(database), (int)option, value,
                                      value ? value_length : 0);
}

/* ---- Asking about it ---- */

double fdb_database_get_main_thread_busyness(FDBDatabase *database) {
    (void)database;
    return 0; /* reads and commits do not run on the network thread */
}

/* The protocol never changes, so waiting for a change never ends. */
FDBFuture *fdb_database_get_server_protocol(FDBDatabase *database, uint64_t expected_version) {
    if (!database)
        return future_create_failed(ERROR_CLIENT_INVALID_OPERATION);
    bool waits = expected_version == API_PROTOCOL_VERSION;
    FDBFuture *future =
        waits ? future_create_pending(FUTURE_UINT64, NULL) : future_create_ready(FUTURE_UINT64);
    if (!future)
        return future_out_of_memory();
    future->result.uint64 = API_PROTOCOL_VERSION;
    return future;
}

FDBFuture *fdb_database_get_client_status(FDBDatabase *database) {
    if (!database)
        return future_create_failed(ERROR_CLIENT_INVALID_OPERATION);
    FDBFuture *future = future_create_ready(FUTURE_KEY);
    if (!future)
        return future_out_of_memory();
    struct database_status status;
    database_get_status(database_handle_database(handles_database(database)), &status);
    struct bytes healthy = BYTES_LITERAL("{\"Healthy\":true,\"InitializationState\":\"created\"}");
    struct bytes failed = BYTES_LITERAL("{\"Healthy\":false,\"InitializationState\":\"created\"}");
    future->result.bytes = status.failed ? failed : healthy;
    return future;
}

/* ---- Clusters, up to API version 609: a cluster is its path ---- */

#undef fdb_create_cluster
#undef fdb_cluster_destroy
#undef fdb_cluster_set_option
#undef fdb_cluster_create_database
#undef fdb_future_get_cluster
#undef fdb_future_get_database
#undef fdb_future_get_version

DLLEXPORT FDBFuture *fdb_create_cluster(const char *cluster_file_path);
DLLEXPORT void fdb_cluster_destroy(FDBCluster *cluster);
DLLEXPORT fdb_error_t fdb_cluster_set_option(FDBCluster *cluster, FDBClusterOption option,
                                             uint8_t const *value, int value_length);
DLLEXPORT FDBFuture *fdb_cluster_create_database(FDBCluster *cluster, uint8_t const *db_name,
                                                 int db_name_length);
DLLEXPORT fdb_error_t fdb_future_get_cluster(FDBFuture *future, FDBCluster **out_cluster);
DLLEXPORT fdb_error_t fdb_future_get_database(FDBFuture *future, FDBDatabase **out_database);
DLLEXPORT fdb_error_t fdb_future_get_version(FDBFuture *future, int64_t *out_version);

/* A cluster at this path; NULL when memory is out. */
static FDBCluster *make_cluster(const char *path) {
    size_t length = strlen(path) + 1;
    char *copy = memory_allocate(length);
    if (copy)
        memcpy(copy, path, length);
    return (FDBCluster *)(void *)copy;
}

FDBFuture *fdb_create_cluster(const char *cluster_file_path) {
    FDBFuture *future = future_create_ready(FUTURE_CLUSTER);
    if (!future)
        return future_out_of_memory();
    future->result.cluster = make_cluster(cluster_file_path ? cluster_file_path : "");
    if (!future->result.cluster)
        future->error = ERROR_LARGE_ALLOC_FAILED;
    return future;
}

/* Every call hands out a cluster of its own, so that each may be destroyed. */
fdb_error_t fdb_future_get_cluster(FDBFuture *future, FDBCluster **out_cluster) {
    fdb_error_t error = future_hold(future, FUTURE_CLUSTER, out_cluster);
    if (error)
        return error;
    FDBCluster *cluster = make_cluster((const char *)(void *)future->result.cluster);
    if (!cluster)
        return ERROR_LARGE_ALLOC_FAILED;
    *out_cluster = cluster;
    return 0;
}

void fdb_cluster_destroy(FDBCluster *cluster) {
    memory_free(cluster);
}

fdb_error_t fdb_cluster_set_option(FDBCluster *cluster, FDBClusterOption option,
                                   uint8_t const *value, int value_length) {
    (void)cluster, (void)option, (void)value, (void)value_length;
    return 0;
}

FDBFuture *fdb_cluster_create_database(FDBCluster *cluster, uint8_t const *db_name,
                                       int db_name_length) {
    if (!cluster || !handles_are_bytes(db_name, db_name_length))
        return future_create_failed(ERROR_CLIENT_INVALID_OPERATION);
    if (!bytes_equal(handles_bytes(db_name, db_name_length), BYTES_LITERAL("DB")))
        return future_create_failed(ERROR_INVALID_DATABASE_NAME);
    FDBFuture *future = future_create_ready(FUTURE_DATABASE);
    if (!future)
        return future_out_of_memory();
    future->error = create_database((const char *)(void *)cluster, &future->result.database);
    return future;
}

/* Every call hands out a reference of its own, beside the future's. */
fdb_error_t fdb_future_get_database(FDBFuture *future, FDBDatabase **out_database) {
    fdb_error_t error = future_hold(future, FUTURE_DATABASE, out_database);
    if (error)
        return error;
    database_handle_retain(handles_database(future->result.database));
    *out_database = future->result.database;
    return 0;
}

/* Up to API version 619. */
fdb_error_t fdb_future_get_version(FDBFuture *future, int64_t *out_version) {
    fdb_error_t error = future_hold(future, FUTURE_INT64, out_version);
    if (!error)
        *out_version = future->result.int64;
    return error;
}
