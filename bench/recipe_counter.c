/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counters read as they count on, and as there are more of them:
 *     recipe_counter [COUNTERS_MAX]
 * Adding reads nothing, a value one row, a total one row a shard; the program fails otherwise.
 */
#include "recipe_bench.h"

#include <keel/counter.h>

enum { BATCH = 5000, REPEATS = 50, OPERATIONS = 4, SHARDS = 16, MORE_ROWS_MAX = 2 };

static keel_subspace counter;

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    long from = *(long *)context;
    fdb_error_t error = 0;
    for (long i = from; i < from + BATCH && !error; i++) {
        keel_subspace other;
        error = keel_subspace_tuple(KEEL_TUPLE("counters", i), &other);
        if (!error)
            error = keel_counter_add(tr, &other, 1);
        if (!error)
            error = keel_counter_sharded_add(tr, &counter, SHARDS, 1);
    }
    return error;
}

static fdb_error_t add(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_counter_add(tr, &counter, 1);
}

static fdb_error_t get(FDBTransaction *tr, void *context) {
    int64_t value;
    (void)context;
    return keel_counter_get(tr, &counter, true, &value);
}

static fdb_error_t sharded_add(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_counter_sharded_add(tr, &counter, SHARDS, 1);
}

static fdb_error_t total(FDBTransaction *tr, void *context) {
    int64_t value;
    (void)context;
    return keel_counter_sharded_total(tr, &counter, true, &value);
}

int main(int argc, char **argv) {
    static const char *const names[OPERATIONS] = {"add", "get", "sharded add", "total, 16 shards"};
    static const keel_function functions[OPERATIONS] = {add, get, sharded_add, total};
    static const double rows_max[OPERATIONS] = {0, 1, 0, SHARDS};
    long size_max = argc > 1 ? atol(argv[1]) : 1000000, filled = 0;
    int failed = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("counters", "main"), &counter), "subspace");
    for (long size = 1000; size <= size_max; size *= 10) {
        for (; filled < size; filled += BATCH)
            bench_check(keel_run(keel_fdb(bench_db), fill, &filled), "fill");
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(names[i], size, functions[i], NULL, REPEATS);
            if (rows > rows_max[i] + MORE_ROWS_MAX)
                failed = printf("%s reads too much\n", names[i]);
        }
    }
    keel_close(bench_db);
    return failed != 0;
}
