/* SPDX-License-Identifier: Apache-2.0 */
/* What records with three indexes read and take as they grow: recipe_index [ELEMENTS_MAX]. */
#include "recipe_bench.h"

#include <keel/index.h>

enum { A_GROUP = 10 };

/* A record is its number; groups of ten share a value. */
static fdb_error_t by_group(const keel_index_record *record, keel_index_entries *entries,
                            const void *context) {
    (void)context;
    long number;
    memcpy(&number, record->value.data, sizeof number);
    return keel_index_emit(entries, KEEL_TUPLE(number / A_GROUP));
}

static fdb_error_t by_number(const keel_index_record *record, keel_index_entries *entries,
                             const void *context) {
    (void)context;
    long number;
    memcpy(&number, record->value.data, sizeof number);
    return keel_index_emit(entries, KEEL_TUPLE(number));
}

/* The fourth is the one that is built: nobody keeps it up. */
static keel_index indexes[4] = {{.extract = by_group},
                                {.extract = by_number, .flags = KEEL_INDEX_UNIQUE},
                                {.extract = by_group, .flags = KEEL_INDEX_COVERING},
                                {.extract = by_group}};
static keel_index_records records = {.indexes = indexes, .index_count = 3};
static keel_subspace progress;
static long size;

static fdb_error_t put_number(FDBTransaction *tr, long id, long number) {
    return keel_index_put(tr, &records, KEEL_ELEMENT(id), KEEL_TUPLE(),
                          KEEL_BYTES(&number, sizeof number));
}

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    fdb_error_t error = 0;
    for (long i = size, end = size + *(long *)context; i < end && !error; i++)
        error = put_number(tr, i, i);
    return error;
}

static fdb_error_t update(FDBTransaction *tr, void *context) {
    long *at = context;
    *at = (*at + 7919) % size;
    return put_number(tr, *at, *at);
}

static fdb_error_t count_record(const keel_index_record *record, void *context) {
    (void)record, (void)context;
    return 0;
}

static fdb_error_t count_entry(const keel_index_entry *entry, void *context) {
    (void)entry, (void)context;
    return 0;
}

static fdb_error_t get(FDBTransaction *tr, void *context) {
    long *at = context;
    *at = (*at + 7919) % size;
    return keel_index_get(tr, &records, KEEL_ELEMENT(*at), count_record, NULL);
}

static fdb_error_t find_group(FDBTransaction *tr, void *context) {
    long *at = context;
    *at = (*at + 7919) % size;
    return keel_index_find_records(tr, &records, &indexes[0], KEEL_TUPLE(*at / A_GROUP), 0, false,
                                   count_record, NULL);
}

static fdb_error_t find_covered(FDBTransaction *tr, void *context) {
    long *at = context;
    *at = (*at + 7919) % size;
    return keel_index_find(tr, &indexes[2], KEEL_TUPLE(*at / A_GROUP), 0, false, count_entry, NULL);
}

static fdb_error_t build_step(FDBTransaction *tr, void *context) {
    keel_index_state state;
    (void)context;
    fdb_error_t error = keel_index_build_start(tr, &indexes[3], &progress);
    if (!error)
        error = keel_index_build_step(tr, &records, &indexes[3], &progress, 100, &state, NULL);
    return error;
}

enum { OPERATIONS = 5 };
static const struct {
    const char *name;
    keel_function run;
} operations[OPERATIONS] = {{"get", get},
                            {"put over another", update},
                            {"find, 10 records", find_group},
                            {"find, 10 covered", find_covered},
                            {"build, a step of 100", build_step}};

int main(int argc, char **argv) {
    long max = argc > 1 ? atol(argv[1]) : 1000000, at = 0;
    double first[OPERATIONS] = {0};
    int failures = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("r"), &records.subspace), "subspace");
    bench_check(keel_subspace_tuple(KEEL_TUPLE("p"), &progress), "subspace");
    for (int i = 0; i < 4; i++)
        bench_check(keel_subspace_tuple(KEEL_TUPLE("i", i), &indexes[i].subspace), "subspace");
    for (long target = 1000; target <= max; target *= 10) {
        for (long batch = 500; size < target; size += batch)
            bench_check(keel_run(keel_fdb(bench_db), fill, &batch), "fill");
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(operations[i].name, size, operations[i].run, &at,
                                        operations[i].run == build_step ? 1 : 200);
            if (target == 1000)
                first[i] = rows;
            else if (rows > first[i] + 4) {
                printf("%s: reads more as the records grow\n", operations[i].name);
                failures++;
            }
        }
    }
    keel_close(bench_db);
    return failures != 0;
}
