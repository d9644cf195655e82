/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the time when databases were opened by clusters, compiled with the headers of then. */
#define FDB_API_VERSION 510
#include "cluster.h"

static FDBDatabase *open_by_cluster(void) {
    FDBCluster *cluster = NULL;
    FDBDatabase *database = NULL;
    FDBFuture *future = fdb_create_cluster(cluster_file());
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    CHECK_EQUAL(fdb_future_get_cluster(future, &cluster), 0);
    fdb_future_destroy(future);
    future = fdb_cluster_create_database(cluster, (const uint8_t *)"DB", 2);
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    CHECK_EQUAL(fdb_future_get_database(future, &database), 0);
    fdb_future_destroy(future);
    fdb_cluster_destroy(cluster);
    return database;
}

/* Whatever library is behind it: the newest, or one that still has clusters itself. */
void scenario_ancient_clusters(void) {
    network_begin(510);
    FDBDatabase *database = open_by_cluster();
    CHECK_EQUAL(write_text(database, "a", "ancient"), 0);
    CHECK(strcmp(read_text(database, "a"), "ancient") == 0);
    FDBTransaction *tr = begin(database);
    FDBFuture *future = fdb_transaction_get_read_version(tr);
    int64_t version = 0;
    CHECK_EQUAL(fdb_future_block_until_ready(future), 0);
    CHECK_EQUAL(fdb_future_get_version(future, &version), 0);
    CHECK(version > 0);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
    fdb_database_destroy(database);
    network_end();
}
