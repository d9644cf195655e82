/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a counted multimap with totals reads and takes as one of its keys gets more and more values:
 * recipe_multimap [VALUES_MAX].
 */
#include "recipe_bench.h"

#include <keel/multimap.h>

static keel_multimap map = {.flags = KEEL_MULTIMAP_COUNTED | KEEL_MULTIMAP_TOTALS};
static long size; /* values of the key "many"; there are two more keys, of ten values each */

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    fdb_error_t error = 0;
    for (long i = size, end = size + *(long *)context; i < end && !error; i++)
        error = keel_multimap_add(tr, &map, KEEL_ELEMENT("many"), KEEL_ELEMENT(i), 2);
    return error;
}

static fdb_error_t fill_small(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (long i = 0; i < 10 && !error; i++) {
        error = keel_multimap_add(tr, &map, KEEL_ELEMENT("a few"), KEEL_ELEMENT(i), 1);
        if (!error)
            error = keel_multimap_add(tr, &map, KEEL_ELEMENT("zero"), KEEL_ELEMENT(i), 1);
    }
    return error;
}

static long next(long *at) {
    *at = (*at + 7919) % size;
    return *at;
}

static fdb_error_t ignore(const keel_element *element, int64_t count, void *context) {
    (void)element, (void)count, (void)context;
    return 0;
}

static fdb_error_t add(FDBTransaction *tr, void *context) {
    return keel_multimap_add(tr, &map, KEEL_ELEMENT("many"), KEEL_ELEMENT(next(context)), 1);
}

static fdb_error_t take(FDBTransaction *tr, void *context) {
    return keel_multimap_remove(tr, &map, KEEL_ELEMENT("many"), KEEL_ELEMENT(next(context)), NULL);
}

static fdb_error_t contains(FDBTransaction *tr, void *context) {
    bool contained;
    return keel_multimap_contains(tr, &map, KEEL_ELEMENT("many"), KEEL_ELEMENT(next(context)),
                                  &contained);
}

static fdb_error_t total(FDBTransaction *tr, void *context) {
    int64_t sum;
    (void)context;
    return keel_multimap_total(tr, &map, KEEL_ELEMENT("many"), true, &sum);
}

static fdb_error_t get_few(FDBTransaction *tr, void *context) {
    return keel_multimap_get(tr, &map, KEEL_ELEMENT("a few"), ignore, context);
}

static fdb_error_t keys(FDBTransaction *tr, void *context) {
    return keel_multimap_keys(tr, &map, ignore, context);
}

enum { OPERATIONS = 6 };
static const struct {
    const char *name;
    keel_function run;
} operations[OPERATIONS] = {{"add", add},     {"remove", take},    {"contains", contains},
                            {"total", total}, {"get 10", get_few}, {"keys, 3", keys}};

int main(int argc, char **argv) {
    long max = argc > 1 ? atol(argv[1]) : 1000000, at = 0;
    double first[OPERATIONS] = {0};
    int failures = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("m"), &map.subspace), "subspace");
    bench_check(keel_subspace_tuple(KEEL_TUPLE("t"), &map.totals), "subspace");
    bench_check(keel_run(keel_fdb(bench_db), fill_small, NULL), "fill");
    for (long target = 1000; target <= max; target *= 10) {
        for (long batch = 1000; size < target; size += batch)
            bench_check(keel_run(keel_fdb(bench_db), fill, &batch), "fill");
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(operations[i].name, size, operations[i].run, &at, 200);
            if (target == 1000)
                first[i] = rows;
            else if (rows > first[i] + 4) {
                printf("%s: reads more as the map grows\n", operations[i].name);
                failures++;
            }
        }
    }
    keel_close(bench_db);
    return failures != 0;
}
