/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench.c and bench_remote.c have in common: a database of rows with 16-byte keys and 100-byte values, and clients that commit to it.
 */
#ifndef KEEL_BENCH_ROWS_H
#define KEEL_BENCH_ROWS_H

#define FDB_API_VERSION 740
#include <foundationdb/fdb_c.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEY_BYTES = 16, VALUE_BYTES = 100, CLIENTS = 64, LOADS = 4 };

static long row_count;
static FDBDatabase *database;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void sleep_for(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void check(int error, const char *what) {
    if (error) {
        fprintf(stderr, "bench: %s: error %d %s\n", what, error, error > 0 ? fdb_get_error(error) : "");
        _exit(1);
    }
}

static void finish(FDBFuture *future, const char *what) {
    check(fdb_future_block_until_ready(future), what);
    check(fdb_future_get_error(future), what);
    fdb_future_destroy(future);
}

static long any_row(uint64_t *state, long count) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (long)(*state % (uint64_t)count);
}

static void make_key(uint8_t key[KEY_BYTES], long row) {
    uint64_t big_endian = __builtin_bswap64((uint64_t)row);
    memcpy(key, "keel/row", 8);
    memcpy(key + 8, &big_endian, 8);
}

static void *run_network(void *unused) {
    check(fdb_run_network(), "run network");
    return unused;
}

static pthread_t start_network(void) {
    pthread_t thread;
    check(fdb_select_api_version(FDB_API_VERSION), "API version");
    check(fdb_setup_network(), "network");
    check(pthread_create(&thread, NULL, run_network, NULL) ? -1 : 0, "thread");
    return thread;
}

static FDBTransaction *begin(void) {
    FDBTransaction *tr;
    check(fdb_database_create_transaction(database, &tr), "create transaction");
    return tr;
}

static void load_rows(void) {
    uint8_t key[KEY_BYTES], value[VALUE_BYTES];
    memset(value, 'v', sizeof value);
    for (long row = 0; row < row_count;) {
        FDBTransaction *tr = begin();
        for (long i = 0; i < 5000 && row < row_count; i++, row++) {
            make_key(key, row);
            fdb_transaction_set(tr, key, KEY_BYTES, value, VALUE_BYTES);
        }
        finish(fdb_transaction_commit(tr), "load");
        fdb_transaction_destroy(tr);
    }
}

/* --- Clients that commit, one row a time --- */

static _Atomic long commit_number;
static atomic_bool clients_stop;
static _Atomic long clients_commits;

static FDBTransaction *begin_write(void) {
    uint8_t key[KEY_BYTES], value[VALUE_BYTES];
    memset(value, 'v', sizeof value);
    make_key(key, atomic_fetch_add(&commit_number, 1) * 7919 % row_count);
    FDBTransaction *tr = begin();
    fdb_transaction_set(tr, key, KEY_BYTES, value, VALUE_BYTES);
    return tr;
}

static void commit_one(void) {
    FDBTransaction *tr = begin_write();
    finish(fdb_transaction_commit(tr), "commit");
    fdb_transaction_destroy(tr);
}

/* Commits a second of clients that are running, once they have run in. */
static double steady_rate(void) {
    sleep_for(0.1);
    long before = atomic_load(&clients_commits);
    double start = now();
    sleep_for(0.8);
    long commits = atomic_load(&clients_commits) - before;
    return (double)commits / (now() - start);
}

static void *client_thread(void *unused) {
    while (!atomic_load(&clients_stop)) {
        commit_one();
        atomic_fetch_add(&clients_commits, 1);
    }
    return unused;
}

static double threads_rate(void) {
    pthread_t threads[CLIENTS];
    atomic_store(&clients_stop, false);
    for (int i = 0; i < CLIENTS; i++)
        check(pthread_create(&threads[i], NULL, client_thread, NULL) ? -1 : 0, "thread");
    double rate = steady_rate();
    atomic_store(&clients_stop, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    return rate;
}

/* A client without a thread of its own, as event loops and the asynchronous bindings have them: each answer starts the next commit. */
struct callback_client {
    FDBTransaction *tr;
    FDBFuture *future;
};
static _Atomic int callback_clients;

static void callback_start(struct callback_client *client);

static void callback_done(FDBFuture *future, void *context) {
    struct callback_client *client = context;
    check(fdb_future_get_error(future), "commit");
    fdb_future_destroy(client->future);
    fdb_transaction_destroy(client->tr);
    atomic_fetch_add(&clients_commits, 1);
    if (atomic_load(&clients_stop))
        atomic_fetch_sub(&callback_clients, 1);
    else
        callback_start(client);
}

static void callback_start(struct callback_client *client) {
    client->tr = begin_write();
    client->future = fdb_transaction_commit(client->tr);
    check(fdb_future_set_callback(client->future, callback_done, client), "callback");
}

static double callbacks_rate(void) {
    static struct callback_client clients[CLIENTS];
    atomic_store(&clients_stop, false);
    atomic_store(&callback_clients, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        callback_start(&clients[i]);
    double rate = steady_rate();
    atomic_store(&clients_stop, true);
    while (atomic_load(&callback_clients) > 0)
        sleep_for(0.001);
    return rate;
}

#endif
