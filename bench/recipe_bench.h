/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the benchmarks of the recipes: how much an operation reads and takes as its structure grows. A
 * program calls bench_open, then for each size fills the structure and calls bench_measure with an
 * operation; the rows read come from the database's own count in its status document.
 */
#ifndef RECIPE_BENCH_H
#define RECIPE_BENCH_H

#include <keel/keel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static keel_db *bench_db;

static void bench_check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "%s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static double bench_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A database in memory: what is measured is the structure, not the disk. */
static void bench_open(void) {
    bench_check(keel_open(":memory:", &bench_db), "open");
}

static fdb_error_t bench_count_rows(FDBTransaction *tr, void *context) {
    static const char KEY[] = "\xff\xff/status/json";
    FDBFuture *future = fdb_transaction_get(tr, (const uint8_t *)KEY, sizeof KEY - 1, 0);
    fdb_error_t error = keel_wait(future);
    fdb_bool_t present = 0;
    const uint8_t *value = NULL;
    int length = 0;
    if (!error)
        error = fdb_future_get_value(future, &present, &value, &length);
    if (!error && present) {
        char *text = strndup((const char *)value, (size_t)length);
        const char *found = strstr(text, "\"rows_read\":");
        *(long *)context = found ? strtol(found + strlen("\"rows_read\":"), NULL, 10) : -1;
        free(text);
    }
    fdb_future_destroy(future);
    return error;
}

static long bench_rows_read(void) {
    long rows = -1;
    bench_check(keel_run_read(keel_fdb(bench_db), bench_count_rows, &rows), "status");
    return rows;
}

/* Runs `operation` `repeats` times, each in a transaction of its own, and prints a line. Returns the rows read an operation. */
static double bench_measure(const char *name, long size, keel_function operation, void *context,
                            int repeats) {
    long rows = bench_rows_read();
    double start = bench_now();
    for (int i = 0; i < repeats; i++)
        bench_check(keel_run(keel_fdb(bench_db), operation, context), name);
    double seconds = bench_now() - start;
    double rows_each = (double)(bench_rows_read() - rows) / repeats;
    printf("%-24s %9ld elements   %9.1f rows read   %10.1f us\n", name, size, rows_each,
           seconds / repeats * 1e6);
    return rows_each;
}

#endif
