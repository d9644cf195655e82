/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The priority queue as it grows, with 100 priorities: every operation but size reads the same few
 * rows at every length. A structure of its own for each length, so that what an earlier one left
 * behind does not count.
 *
 *     recipe_pqueue [ITEMS_MAX]
 */
#include <keel/pqueue.h>

#include "recipe_bench.h"

enum { BATCH = 500, REPEATS = 200, PRIORITIES = 100 };

static keel_subspace pqueue;
static unsigned pushed;

static fdb_error_t push(FDBTransaction *tr, void *unused) {
    (void)unused;
    return keel_pqueue_push(tr, &pqueue, (int64_t)(pushed++ * 7919 % PRIORITIES),
                            keel_bytes_of("0123456789abcdef", 16));
}

static fdb_error_t fill(FDBTransaction *tr, void *unused) {
    fdb_error_t error = 0;
    for (int i = 0; i < BATCH && !error; i++)
        error = push(tr, unused);
    return error;
}

typedef fdb_error_t (*getter)(FDBTransaction *tr, const keel_subspace *subspace, int64_t *priority,
                              uint8_t **value, size_t *length);

static fdb_error_t get(FDBTransaction *tr, getter function) {
    int64_t priority;
    uint8_t *value = NULL;
    size_t length;
    fdb_error_t error = function(tr, &pqueue, &priority, &value, &length);
    free(value);
    return error;
}

#define OPERATION(name)                                                                            \
    static fdb_error_t name(FDBTransaction *tr, void *unused) {                                    \
        (void)unused;                                                                              \
        return get(tr, keel_pqueue_##name);                                                        \
    }
OPERATION(peek_min)
OPERATION(peek_max)
OPERATION(pop_min)
OPERATION(pop_max)
OPERATION(pop_last)

static fdb_error_t count(FDBTransaction *tr, void *unused) {
    (void)unused;
    int64_t size;
    return keel_pqueue_size(tr, &pqueue, &size);
}

static const struct {
    const char *name;
    keel_function function;
    int repeats;
    bool flat;
} operations[] = {
    {"push", push, REPEATS, true},         {"peek_min", peek_min, REPEATS, true},
    {"peek_max", peek_max, REPEATS, true}, {"pop_min", pop_min, REPEATS, true},
    {"pop_max", pop_max, REPEATS, true},   {"pop_last", pop_last, REPEATS, true},
    {"size", count, 1, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

int main(int argc, char **argv) {
    long items_max = argc > 1 ? atol(argv[1]) : 1000000;
    double first[OPERATIONS];
    int failures = 0;
    bench_open();
    for (long size = 1000; size <= items_max; size *= 10) {
        bench_check(keel_subspace_tuple(KEEL_TUPLE("pqueue", size), &pqueue), "subspace");
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
