/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: eight threads count visits, on one key and on shards; no transaction ever conflicts.
 *
 *     cc counter.c -lkeel -lfdb_c -lpthread && ./a.out [DATABASE]
 */
#include <keel/counter.h>
#include <keel/keel.h>

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 8, VISITS = 100, SHARDS = 4 };

static keel_db *db;
static keel_subspace visits;

static fdb_error_t visit(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = keel_counter_add(tr, &visits, 1);
    return error ? error : keel_counter_sharded_add(tr, &visits, SHARDS, 1);
}

static void *visitor(void *unused) {
    for (int i = 0; i < VISITS; i++)
        if (keel_run(keel_fdb(db), visit, NULL))
            break;
    return unused;
}

static fdb_error_t show(FDBTransaction *tr, void *context) {
    int64_t value = 0, total = 0;
    (void)context;
    fdb_error_t error = keel_counter_get(tr, &visits, true, &value);
    if (!error)
        error = keel_counter_sharded_total(tr, &visits, true, &total);
    if (!error)
        printf("visits on one key: %lld, on %d shards: %lld\n", (long long)value, SHARDS,
               (long long)total);
    return error;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    fdb_error_t error = keel_open(argc > 1 ? argv[1] : ":memory:", &db);
    if (!error)
        error = keel_subspace_tuple(KEEL_TUPLE("example", "visits"), &visits);
    for (int i = 0; i < THREADS && !error; i++)
        pthread_create(&threads[i], NULL, visitor, NULL);
    for (int i = 0; i < THREADS && !error; i++)
        pthread_join(threads[i], NULL);
    if (!error)
        error = keel_run_read(keel_fdb(db), show, NULL);
    if (error)
        fprintf(stderr, "counter: %s (%d)\n", keel_error_text(error), error);
    keel_close(db);
    return error != 0;
}
