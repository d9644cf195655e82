/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a vector reads as it grows:  recipe_vector [ELEMENTS_MAX]
 * Everything but the scan is to stay flat; the program fails if it does not.
 */
#include "recipe_bench.h"

#include <keel/vector.h>

enum { BATCH = 5000, REPEATS = 50, OPERATIONS = 6, MORE_ROWS_MAX = 2 };

static keel_subspace vector;
static long size_now;

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    long from = *(long *)context;
    fdb_error_t error = 0;
    for (long i = from; i < from + BATCH && i < size_now && !error; i++)
        error = keel_vector_set(tr, &vector, i, keel_bytes_of("12345678", 8));
    return error;
}

static fdb_error_t get(FDBTransaction *tr, void *context) {
    uint8_t *value = NULL;
    size_t length;
    (void)context;
    fdb_error_t error = keel_vector_get(tr, &vector, rand() % size_now, &value, &length);
    free(value);
    return error;
}

static fdb_error_t size(FDBTransaction *tr, void *context) {
    int64_t found;
    (void)context;
    return keel_vector_size(tr, &vector, &found);
}

static fdb_error_t push(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_vector_push(tr, &vector, keel_bytes_of("12345678", 8), NULL);
}

static fdb_error_t pop(FDBTransaction *tr, void *context) {
    uint8_t *value = NULL;
    size_t length;
    (void)context;
    fdb_error_t error = keel_vector_pop(tr, &vector, keel_bytes_of(NULL, 0), &value, &length);
    free(value);
    return error;
}

static fdb_error_t swap(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_vector_swap(tr, &vector, rand() % size_now, rand() % size_now);
}

static fdb_error_t ignore(void *context, int64_t index, keel_bytes value) {
    (void)context, (void)index, (void)value;
    return 0;
}

static fdb_error_t scan_100(FDBTransaction *tr, void *context) {
    (void)context;
    int64_t from = rand() % (size_now - 100);
    return keel_vector_scan(tr, &vector, from, from + 100, NULL, ignore, NULL);
}

int main(int argc, char **argv) {
    static const char *const names[OPERATIONS] = {"get", "size", "push", "pop", "swap", "scan 100"};
    static const keel_function functions[OPERATIONS] = {get, size, push, pop, swap, scan_100};
    double first[OPERATIONS];
    long size_max = argc > 1 ? atol(argv[1]) : 1000000, filled = 0;
    int failed = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("V"), &vector), "subspace");
    for (size_now = 1000; size_now <= size_max; size_now *= 10) {
        for (; filled < size_now; filled += BATCH)
            bench_check(keel_run(keel_fdb(bench_db), fill, &filled), "fill");
        filled = size_now;
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(names[i], size_now, functions[i], NULL, REPEATS);
            if (size_now == 1000)
                first[i] = rows;
            else if (rows > first[i] + MORE_ROWS_MAX)
                failed = printf("%s is not flat\n", names[i]);
        }
    }
    keel_close(bench_db);
    return failed != 0;
}
