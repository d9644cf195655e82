/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How documents grow: an object with more and more members, in which one member is read, set, added
 * and deleted. What must stay flat: the rows that each of these reads.
 *
 *     recipe_document [LARGEST SIZE]
 */
#include "recipe_bench.h"

#include <keel/document.h>

static keel_subspace space;
static long filled;
static long position;

static const char MEMBER[] = "{\"n\":1,\"s\":\"text\"}"; /* two rows */

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    char name[32];
    fdb_error_t error = 0;
    for (long i = filled; !error && i < filled + *(long *)context; i++) {
        snprintf(name, sizeof name, "m%08ld", i);
        error = keel_document_set(tr, &space, KEEL_ELEMENT(1), KEEL_TUPLE("all", name), MEMBER,
                                  sizeof MEMBER - 1);
    }
    return error;
}

static void fill_to(long size) {
    while (filled < size) {
        long count = size - filled < 2000 ? size - filled : 2000;
        bench_check(keel_run(keel_fdb(bench_db), fill, &count), "fill");
        filled += count;
    }
}

static const char *some_member(void) {
    static char name[32];
    position = (position * 69069 + 12345) & 0x7fffffff;
    snprintf(name, sizeof name, "m%08ld", position % filled);
    return name;
}

static fdb_error_t get_member(FDBTransaction *tr, void *context) {
    char *json = NULL;
    (void)context;
    fdb_error_t error = keel_document_get(tr, &space, KEEL_ELEMENT(1),
                                          KEEL_TUPLE("all", some_member()), &json, NULL);
    free(json);
    return error;
}

static fdb_error_t set_field(FDBTransaction *tr, void *context) {
    (void)context;
    return keel_document_set(tr, &space, KEEL_ELEMENT(1), KEEL_TUPLE("all", some_member(), "n"),
                             "2", 1);
}

static fdb_error_t add_and_delete(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = keel_document_set(tr, &space, KEEL_ELEMENT(1), KEEL_TUPLE("all", "m0x"),
                                          MEMBER, sizeof MEMBER - 1);
    return error ? error
                 : keel_document_delete(tr, &space, KEEL_ELEMENT(1), KEEL_TUPLE("all", "m0x"));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        keel_function function;
    } operations[] = {{"document get a member", get_member},
                      {"document set a field", set_field},
                      {"document add, delete", add_and_delete}};
    long largest = argc > 1 ? atol(argv[1]) : 1000000;
    double first[3] = {0};
    int failed = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("bench"), &space), "subspace");
    for (long size = 1000; size <= largest; size *= 10) {
        fill_to(size);
        for (int i = 0; i < 3; i++) {
            double rows = bench_measure(operations[i].name, size, operations[i].function, NULL, 200);
            if (size == 1000)
                first[i] = rows;
            else if (rows > first[i] + 8) {
                printf("%s: reads more as the document grows\n", operations[i].name);
                failed = 1;
            }
        }
    }
    keel_close(bench_db);
    return failed;
}
