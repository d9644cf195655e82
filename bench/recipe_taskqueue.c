/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The task queue as it grows: all but count read the same few rows at every length, with leased,
 * delayed and ready tasks about. A structure of its own for each length, so that what an earlier
 * one left behind does not count.
 *
 *     recipe_taskqueue [TASKS_MAX]
 */
#include <keel/taskqueue.h>

#include "recipe_bench.h"

enum { BATCH = 500, REPEATS = 200, LEASE_MS = 60000, DAY_MS = 86400000 };

static keel_subspace tasks;
static keel_task claimed[3 * REPEATS];
static int claimed_count, used_count;
static unsigned pushed;

static fdb_error_t push(FDBTransaction *tr, void *unused) {
    (void)unused;
    pushed++;
    keel_task_options options = {.priority = pushed % 3,
                                 .delay_ms = pushed % 4 ? 0 : DAY_MS + pushed};
    return keel_taskqueue_push(tr, &tasks, 1000, &options, keel_bytes_of("0123456789abcdef", 16),
                               NULL);
}

static fdb_error_t fill(FDBTransaction *tr, void *unused) {
    fdb_error_t error = 0;
    for (int i = 0; i < BATCH && !error; i++)
        error = push(tr, unused);
    return error;
}

static fdb_error_t claim(FDBTransaction *tr, void *unused) {
    (void)unused;
    bool found;
    keel_task *task = &claimed[claimed_count++]; /* one client: nothing is ever retried */
    fdb_error_t error = keel_taskqueue_claim(tr, &tasks, 2000, LEASE_MS, 1, &found, task);
    if (!error)
        keel_task_free(task);
    return error;
}

static fdb_error_t extend(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_task *task = &claimed[used_count++ % claimed_count];
    return keel_taskqueue_extend(tr, &tasks, 2001, task, LEASE_MS, NULL);
}

static fdb_error_t give_back(FDBTransaction *tr, void *unused) {
    (void)unused;
    return keel_taskqueue_give_back(tr, &tasks, 2002, &claimed[--claimed_count], 0);
}

static fdb_error_t complete(FDBTransaction *tr, void *unused) {
    (void)unused;
    return keel_taskqueue_complete(tr, &tasks, &claimed[--claimed_count]);
}

static fdb_error_t next(FDBTransaction *tr, void *unused) {
    (void)unused;
    int64_t when;
    return keel_taskqueue_next(tr, &tasks, &when);
}

static fdb_error_t count(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_taskqueue_counts counts;
    return keel_taskqueue_count(tr, &tasks, 2000, &counts);
}

static const struct {
    const char *name;
    keel_function function;
    int repeats;
    bool flat;
} operations[] = {
    {"push", push, REPEATS, true},           {"claim", claim, REPEATS, true},
    {"extend", extend, REPEATS, true},       {"give back", give_back, REPEATS, true},
    {"claim again", claim, REPEATS, true},   {"complete", complete, REPEATS, true},
    {"next", next, REPEATS, true},           {"count", count, 1, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

int main(int argc, char **argv) {
    long tasks_max = argc > 1 ? atol(argv[1]) : 1000000;
    double first[OPERATIONS];
    int failures = 0;
    bench_open();
    for (long size = 1000; size <= tasks_max; size *= 10) {
        bench_check(keel_subspace_tuple(KEEL_TUPLE("tasks", size), &tasks), "subspace");
        claimed_count = used_count = 0;
        for (long filled = 0; filled < size; filled += BATCH)
            bench_check(keel_run(keel_fdb(bench_db), fill, NULL), "fill");
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(operations[i].name, size, operations[i].function, NULL,
                                        operations[i].repeats);
            if (size == 1000)
                first[i] = rows;
            if (operations[i].flat && rows > first[i] + 4) {
                printf("not flat: %s\n", operations[i].name);
                failures++;
            }
        }
    }
    keel_close(bench_db);
    return failures != 0;
}
