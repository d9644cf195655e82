/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keel-stacktester PREFIX API_VERSION [CLUSTER_FILE]: opens the database, runs the machine at
 * PREFIX (machine.c), closes everything. CLUSTER_FILE is whatever fdb_create_database takes: the
 * directory of an embedded database, or the cluster file of a cluster.
 *
 * harness.py runs it beside the same machine on the Python binding. Beside a cluster, the official
 * driver does: bindingtester.py "build/bin/keel-stacktester" --compare --test-name directory ...
 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>

static void map_free(struct tester *tester) {
    while (tester->transactions) {
        struct named_transaction *named = tester->transactions;
        tester->transactions = named->next;
        if (named->transaction) {
            fdb_transaction_destroy(named->transaction->handle);
            free(named->transaction);
        }
        buffer_free(&named->name);
        free(named);
    }
}

int main(int argument_count, char **arguments) {
    if (argument_count != 3 && argument_count != 4) {
        fprintf(stderr, "usage: %s PREFIX API_VERSION [CLUSTER_FILE]\n", arguments[0]);
        return 2;
    }
    struct tester tester = {.api_version = atoi(arguments[2]), .mutex = PTHREAD_MUTEX_INITIALIZER};
    keel_db *db;
    must(fdb_select_api_version(tester.api_version), "the API version");
    keel_tuple_use_api_version(tester.api_version);
    must(keel_open(argument_count == 4 ? arguments[3] : NULL, &db), "opening the database");
    tester.database = keel_fdb(db);
    machine_run(&tester, keel_bytes_of_string(arguments[1]));
    map_free(&tester);
    keel_close(db);
    return 0;
}
