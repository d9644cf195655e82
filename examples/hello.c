/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hello world: opens a database, says what an earlier run left there, writes, and reads back.
 *
 *     cc hello.c -lfdb_c -lpthread && ./a.out [DATABASE]
 *
 * Everything a program needs: an API version, the network thread, a database, a transaction with its retry loop.
 */
#define FDB_API_VERSION 740
#include <foundationdb/fdb_c.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "hello: %s: %s (%d)\n", what, fdb_get_error(error), error);
        exit(1);
    }
}

static void *run_network(void *unused) {
    (void)unused;
    check(fdb_run_network(), "run network");
    return NULL;
}

/* Waits for a future that carries no value and returns its error. */
static fdb_error_t wait_and_destroy(FDBFuture *future) {
    fdb_error_t error = fdb_future_block_until_ready(future);
    if (!error)
        error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    return error;
}

/* Reads `hello` and prints it; then counts this greeting and writes it. Returns an error for the retry loop. */
static fdb_error_t greet(FDBTransaction *transaction, int *greetings_before) {
    FDBFuture *future = fdb_transaction_get(transaction, (const uint8_t *)"hello", 5, 0);
    fdb_error_t error = fdb_future_block_until_ready(future);
    fdb_bool_t present = 0;
    const uint8_t *value = NULL;
    int length = 0;
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &length);
    if (!error) {
        char text[64] = "";
        if (present)
            snprintf(text, sizeof text, "%.*s", length, (const char *)value);
        *greetings_before = present ? atoi(text + strlen("world ")) : 0;
        char greeting[64];
        snprintf(greeting, sizeof greeting, "world %d", *greetings_before + 1);
        fdb_transaction_set(transaction, (const uint8_t *)"hello", 5, (const uint8_t *)greeting, (int)strlen(greeting));
    }
    fdb_future_destroy(future);
    return error;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : NULL; /* NULL: ./keel.db */
    int newest = fdb_get_max_api_version(); /* a cluster older than 7.4: KEEL_API_VERSION */
    check(fdb_select_api_version_capped(newest < FDB_API_VERSION ? newest : FDB_API_VERSION), "select API version");
    check(fdb_setup_network(), "set up network");
    pthread_t network;
    pthread_create(&network, NULL, run_network, NULL);

    FDBDatabase *database;
    check(fdb_create_database(path, &database), "open database");
    FDBTransaction *transaction;
    check(fdb_database_create_transaction(database, &transaction), "create transaction");

    int before = 0;
    for (;;) { /* the retry loop: try, commit, and let on_error decide */
        fdb_error_t error = greet(transaction, &before);
        if (!error)
            error = wait_and_destroy(fdb_transaction_commit(transaction));
        if (!error)
            break;
        check(wait_and_destroy(fdb_transaction_on_error(transaction, error)), "greet");
    }
    if (before == 0)
        printf("hello, world: this database is new, and now holds hello = \"world 1\".\n");
    else
        printf("hello again: found hello = \"world %d\" from before, wrote \"world %d\".\n", before, before + 1);

    fdb_transaction_destroy(transaction);
    fdb_database_destroy(database);
    check(fdb_stop_network(), "stop network");
    pthread_join(network, NULL);
    return 0;
}
