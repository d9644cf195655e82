/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a cluster: by the function of the version there is. Since 6.1 it is fdb_create_database; a
 * library before that has the two steps of clusters, whose futures are ready as soon as its network
 * has run, which it does by then. Threads: any but the official library's own. Failure: as the library
 * says; nothing is left behind.
 */
#include "cluster/database.h"

#include "cluster/functions.h"
#include "cluster/network.h"
#include "util/error.h"

static fdb_error_t wait(FDBFuture *future) {
    fdb_error_t error = cluster_official.future_block_until_ready(future);
    return error ? error : cluster_official.future_get_error(future);
}

static fdb_error_t open_in_cluster(FDBCluster *cluster, FDBDatabase **official) {
    FDBFuture *future = cluster_official.cluster_create_database(cluster, (const uint8_t *)"DB", 2);
    fdb_error_t error = wait(future);
    if (!error)
        error = cluster_official.future_get_database(future, official);
    cluster_official.future_destroy(future);
    return error;
}

static fdb_error_t open_in_two_steps(const char *path, FDBDatabase **official) {
    if (!cluster_official.create_cluster || !cluster_official.future_get_cluster || !cluster_official.cluster_create_database ||
        !cluster_official.future_get_database || !cluster_official.cluster_destroy)
        return ERROR_UNSUPPORTED_OPERATION;
    FDBCluster *cluster;
    FDBFuture *future = cluster_official.create_cluster(path);
    fdb_error_t error = wait(future);
    if (!error)
        error = cluster_official.future_get_cluster(future, &cluster);
    cluster_official.future_destroy(future);
    if (error)
        return error;
    error = open_in_cluster(cluster, official);
    cluster_official.cluster_destroy(cluster);
    return error;
}

fdb_error_t cluster_open_file(const char *path, FDBDatabase **official) {
    fdb_error_t error = cluster_network_need();
    if (error)
        return error;
    if (!cluster_official.create_database)
        return open_in_two_steps(path, official);
    return cluster_official.create_database(path, official);
}

fdb_error_t cluster_open_connection(const char *connection_string, FDBDatabase **official) {
    fdb_error_t error = cluster_network_need();
    if (error)
        return error;
    if (!cluster_official.create_database_from_connection_string)
        return ERROR_UNSUPPORTED_OPERATION;
    return cluster_official.create_database_from_connection_string(connection_string, official);
}
