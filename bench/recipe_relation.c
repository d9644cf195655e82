/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model reads and takes as it gets more entities: recipe_relation [ENTITIES_MAX]. Ten people
 * to a company, each employed once.
 */
#include "recipe_bench.h"

#include <keel/relation.h>

static keel_relation model;
static const keel_relationship EMPLOYS = {.name = "employs", .sources_max = 1};
static const keel_relationship KNOWS = {.name = "knows"};
static long size;

static keel_element person(long number) {
    return keel_element_of_int(number);
}

static keel_element company(long number) {
    return keel_element_of_int(-1 - number / 10);
}

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    static const keel_relationship UNCHECKED = {.name = "employs"};
    fdb_error_t error = 0;
    for (long i = size, end = size + *(long *)context; i < end && !error; i++) {
        error = keel_relation_add(tr, &model, &UNCHECKED, company(i), person(i));
        if (!error)
            error = keel_relation_set_attribute(tr, &model, person(i), "age",
                                                KEEL_BYTES(&i, sizeof i));
    }
    return error;
}

static long next(long *at) {
    *at = (*at + 7919) % size;
    return *at;
}

static fdb_error_t ignore(const keel_element *source, const keel_element *target, void *context) {
    (void)source, (void)target, (void)context;
    return 0;
}

static fdb_error_t get_attribute(FDBTransaction *tr, void *context) {
    uint8_t *value;
    size_t length;
    fdb_error_t error = keel_relation_get_attribute(tr, &model, person(next(context)), "age",
                                                    &value, &length);
    if (!error)
        free(value);
    return error;
}

static fdb_error_t targets(FDBTransaction *tr, void *context) {
    return keel_relation_targets(tr, &model, &EMPLOYS, company(next(context)), ignore, NULL);
}

static fdb_error_t sources(FDBTransaction *tr, void *context) {
    return keel_relation_sources(tr, &model, &EMPLOYS, person(next(context)), ignore, NULL);
}

static fdb_error_t contains(FDBTransaction *tr, void *context) {
    long at = next(context);
    bool related;
    return keel_relation_contains(tr, &model, &EMPLOYS, company(at), person(at), &related);
}

static fdb_error_t add_checked(FDBTransaction *tr, void *context) {
    long at = next(context);
    return keel_relation_add(tr, &model, &EMPLOYS, company(at), person(at));
}

static fdb_error_t add_blind(FDBTransaction *tr, void *context) {
    return keel_relation_add(tr, &model, &KNOWS, person(0), person(next(context)));
}

enum { OPERATIONS = 6 };
static const struct {
    const char *name;
    keel_function run;
} operations[OPERATIONS] = {{"attribute", get_attribute}, {"targets, 10", targets},
                            {"sources, 1", sources},      {"contains", contains},
                            {"add, one to many", add_checked}, {"add, many to many", add_blind}};

int main(int argc, char **argv) {
    long max = argc > 1 ? atol(argv[1]) : 1000000, at = 0;
    double first[OPERATIONS] = {0};
    int failures = 0;
    keel_subspace subspace, reverse;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("m"), &subspace), "subspace");
    bench_check(keel_subspace_tuple(KEEL_TUPLE("r"), &reverse), "subspace");
    bench_check(keel_relation_both_ways(&subspace, &reverse, &model), "model");
    for (long target = 1000; target <= max; target *= 10) {
        for (long batch = 1000; size < target; size += batch)
            bench_check(keel_run(keel_fdb(bench_db), fill, &batch), "fill");
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(operations[i].name, size, operations[i].run, &at, 200);
            if (target == 1000)
                first[i] = rows;
            else if (rows > first[i] + 4) {
                printf("%s: reads more as the model grows\n", operations[i].name);
                failures++;
            }
        }
    }
    keel_close(bench_db);
    return failures != 0;
}
