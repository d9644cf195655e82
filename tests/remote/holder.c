/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns databases for a test: opens every directory it is given, says "ready", and holds them until
 * its standard input ends.
 *
 *     holder DIRECTORY…
 */
#define FDB_API_VERSION 740
#include <foundationdb/fdb_c.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "holder: %s: %d %s\n", what, error, fdb_get_error(error));
        exit(1);
    }
}

static FDBDatabase *hold(const char *path) {
    FDBDatabase *database;
    FDBTransaction *tr;
    check(fdb_create_database(path, &database), "open");
    check(fdb_database_create_transaction(database, &tr), "create a transaction");
    FDBFuture *future = fdb_transaction_get_read_version(tr);
    check(fdb_future_block_until_ready(future), "wait");
    check(fdb_future_get_error(future), path);
    fdb_future_destroy(future);
    fdb_transaction_destroy(tr);
    return database;
}

int main(int count, char **arguments) {
    check(fdb_select_api_version(FDB_API_VERSION), "select the API version");
    check(fdb_setup_network(), "set up the network");
    FDBDatabase **held = calloc((size_t)count, sizeof *held);
    for (int i = 1; i < count; i++)
        held[i] = hold(arguments[i]);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    for (int i = 1; i < count; i++)
        fdb_database_destroy(held[i]);
    free(held);
    return 0;
}
