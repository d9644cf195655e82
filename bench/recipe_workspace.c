/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a workspace reads as the data in it grows:  recipe_workspace [ROWS_MAX]
 * Everything is to stay flat, since data never moves; the program fails otherwise.
 */
#include "recipe_bench.h"

#include <keel/workspace.h>

enum { BATCH = 5000, REPEATS = 20, OPERATIONS = 3, MORE_ROWS_MAX = 5 };

static keel_directory *workspace;
static long size_now;

static fdb_error_t open_workspace(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_directory_create_or_open(tr, NULL, KEEL_PATH("bench"), KEEL_NO_LAYER, &workspace);
}

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    long from = *(long *)context;
    keel_subspace fresh;
    fdb_error_t error = keel_workspace_new(tr, workspace, &fresh);
    for (long i = from; i < from + BATCH && i < size_now && !error; i++) {
        uint8_t key[64];
        size_t length;
        error = keel_subspace_pack(&fresh, KEEL_TUPLE(i), key, sizeof key, &length);
        if (!error)
            fdb_transaction_set(tr, key, (int)length, (const uint8_t *)"12345678", 8);
    }
    return error;
}

static fdb_error_t current(FDBTransaction *tr, void *context) {
    keel_subspace subspace;
    (void)context;
    return keel_workspace_current(tr, workspace, &subspace);
}

static fdb_error_t rollback(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_workspace_rollback(tr, workspace);
}

/* The full workspace is swapped with an empty one, and rolled back: it is there again. */
static fdb_error_t swap(FDBTransaction *tr, void *context) {
    keel_subspace fresh;
    (void)context;
    fdb_error_t error = keel_workspace_new(tr, workspace, &fresh);
    if (!error)
        error = keel_workspace_swap(tr, workspace, KEEL_WORKSPACE_PREVIOUS, NULL);
    return error ? error : keel_workspace_rollback(tr, workspace);
}

static fdb_error_t release(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_workspace_swap(tr, workspace, KEEL_WORKSPACE_PREVIOUS, NULL);
}

int main(int argc, char **argv) {
    static const char *const names[OPERATIONS] = {"current", "swap and rollback", "rollback"};
    static const keel_function functions[OPERATIONS] = {current, swap, rollback};
    double first[OPERATIONS];
    long size_max = argc > 1 ? atol(argv[1]) : 1000000;
    int failed = 0;
    bench_open();
    bench_check(keel_run(keel_fdb(bench_db), open_workspace, NULL), "open");
    for (size_now = 1000; size_now <= size_max; size_now *= 10) {
        for (long filled = 0; filled < size_now; filled += BATCH)
            bench_check(keel_run(keel_fdb(bench_db), fill, &filled), "fill");
        bench_check(keel_run(keel_fdb(bench_db), release, NULL), "release");
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(names[i], size_now, functions[i], NULL, REPEATS);
            if (size_now == 1000)
                first[i] = rows;
            else if (rows > first[i] + MORE_ROWS_MAX)
                failed = printf("%s is not flat\n", names[i]);
        }
    }
    keel_directory_close(workspace);
    keel_close(bench_db);
    return failed != 0;
}
