/* SPDX-License-Identifier: Apache-2.0 */
/* Databases of the official library. Whoever has one calls the rest through cluster_official. */
#ifndef KEEL_CLUSTER_DATABASE_H
#define KEEL_CLUSTER_DATABASE_H

#include "api/export.h"

/*
 * Opens the cluster of a cluster file, or of a connection string, after bringing the library up. The
 * caller gives it back by cluster_official.database_destroy. Errors of cluster_network_need; what the
 * library says; UNSUPPORTED_OPERATION for a connection string where it cannot take one.
 */
fdb_error_t cluster_open_file(const char *path, FDBDatabase **official);
fdb_error_t cluster_open_connection(const char *connection_string, FDBDatabase **official);

#endif
