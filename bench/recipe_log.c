/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log as it grows: append, tail, last and a scan of fixed length from the middle read the same
 * rows at every length. A structure of its own for each length, so that what an earlier one left
 * behind does not count.
 *
 *     recipe_log [ENTRIES_MAX]
 */
#include <keel/log.h>

#include "recipe_bench.h"

enum { BATCH = 500, REPEATS = 200, SCANNED = 10 };

static keel_subspace events;
static keel_log_position middle;

static fdb_error_t fill(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_bytes entries[BATCH];
    for (int i = 0; i < BATCH; i++)
        entries[i] = keel_bytes_of("0123456789abcdef", 16);
    return keel_log_append_many(tr, &events, 0, entries, BATCH);
}

static fdb_error_t append(FDBTransaction *tr, void *unused) {
    (void)unused;
    return keel_log_append(tr, &events, 0, keel_bytes_of("0123456789abcdef", 16));
}

static fdb_error_t look(void *context, const keel_log_position *position, keel_bytes entry) {
    (void)entry;
    *(keel_log_position *)context = *position;
    return 0;
}

static fdb_error_t tail(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_log_position position;
    return keel_log_tail(tr, &events, SCANNED, look, &position);
}

static fdb_error_t scan(FDBTransaction *tr, void *unused) {
    (void)unused;
    keel_log_position position;
    return keel_log_scan(tr, &events, &middle, SCANNED, look, &position);
}

static fdb_error_t last(FDBTransaction *tr, void *context) {
    keel_log_position position;
    return keel_log_last(tr, &events, context ? context : &position);
}

static const struct {
    const char *name;
    keel_function function;
} operations[] = {{"append", append}, {"last", last}, {"tail of 10", tail}, {"scan of 10", scan}};
enum { OPERATIONS = sizeof operations / sizeof *operations };

int main(int argc, char **argv) {
    long entries_max = argc > 1 ? atol(argv[1]) : 1000000;
    double first[OPERATIONS];
    int failures = 0;
    bench_open();
    for (long size = 1000; size <= entries_max; size *= 10) {
        bench_check(keel_subspace_tuple(KEEL_TUPLE("log", size), &events), "subspace");
        for (long entries = 0; entries < size; entries += BATCH) {
            bench_check(keel_run(keel_fdb(bench_db), fill, NULL), "fill");
            if (entries < size / 2)
                bench_check(keel_run_read(keel_fdb(bench_db), last, &middle), "last");
        }
        for (int i = 0; i < OPERATIONS; i++) {
            double rows =
                bench_measure(operations[i].name, size, operations[i].function, NULL, REPEATS);
            if (size == 1000)
                first[i] = rows;
            if (rows > first[i] + 4) {
                printf("not flat: %s\n", operations[i].name);
                failures++;
            }
        }
    }
    keel_close(bench_db);
    return failures != 0;
}
