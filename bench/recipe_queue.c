/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue as it grows: enqueue, peek, dequeue and pop read the same few rows at every length. A
 * structure of its own for each length, so that what an earlier one left behind does not count.
 *
 *     recipe_queue [ITEMS_MAX]
 */
#include <keel/queue.h>

#include "recipe_bench.h"

enum { BATCH = 500, REPEATS = 200 };

static keel_subspace queue, requests;

static fdb_error_t fill(FDBTransaction *tr, void *unused) {
    (void)unused;
    fdb_error_t error = 0;
    for (int i = 0; i < BATCH && !error; i++)
        error = keel_queue_enqueue(tr, &queue, keel_bytes_of("0123456789abcdef", 16));
    return error;
}

static fdb_error_t enqueue(FDBTransaction *tr, void *unused) {
    (void)unused;
    return keel_queue_enqueue(tr, &queue, keel_bytes_of("0123456789abcdef", 16));
}

static fdb_error_t dequeue(FDBTransaction *tr, void *unused) {
    (void)unused;
    uint8_t *value = NULL;
    size_t length;
    fdb_error_t error = keel_queue_dequeue(tr, &queue, &value, &length);
    free(value);
    return error;
}

static fdb_error_t peek(FDBTransaction *tr, void *unused) {
    (void)unused;
    uint8_t *value = NULL;
    size_t length;
    fdb_error_t error = keel_queue_peek(tr, &queue, &value, &length);
    free(value);
    return error;
}

static fdb_error_t empty(FDBTransaction *tr, void *unused) {
    (void)unused;
    bool is_empty;
    return keel_queue_empty(tr, &queue, &is_empty);
}

static fdb_error_t pop(FDBTransaction *tr, void *unused) { /* transactions of its own */
    (void)tr;
    (void)unused;
    uint8_t *value = NULL;
    size_t length;
    fdb_error_t error = keel_queue_pop(keel_fdb(bench_db), &queue, &requests, &value, &length);
    free(value);
    return error;
}

static fdb_error_t count(FDBTransaction *tr, void *unused) {
    (void)unused;
    int64_t size;
    return keel_queue_size(tr, &queue, &size);
}

static const struct {
    const char *name;
    keel_function function;
    int repeats;
    bool flat;
} operations[] = {
    {"enqueue", enqueue, REPEATS, true}, {"peek", peek, REPEATS, true},
    {"empty", empty, REPEATS, true},     {"dequeue", dequeue, REPEATS, true},
    {"pop", pop, REPEATS, true},         {"size", count, 1, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

int main(int argc, char **argv) {
    long items_max = argc > 1 ? atol(argv[1]) : 1000000;
    double first[OPERATIONS];
    int failures = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("requests"), &requests), "subspace");
    for (long size = 1000; size <= items_max; size *= 10) {
        bench_check(keel_subspace_tuple(KEEL_TUPLE("queue", size), &queue), "subspace");
        for (long items = 0; items < size; items += BATCH)
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
