/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a two-way list reads as it grows:  recipe_list [NODES_MAX]
 * Changes at a node that is known, and walks of fixed length, are to stay flat; the program fails
 * otherwise.
 */
#include "recipe_bench.h"

#include <keel/list.h>

enum { BATCH = 2000, REPEATS = 50, OPERATIONS = 5, MORE_ROWS_MAX = 2 };

static keel_subspace list;
static long size_now, changes;

struct id {
    char bytes[16];
};

static keel_bytes id_of(struct id *id, char kind, long number) {
    return keel_bytes_of(id->bytes, (size_t)snprintf(id->bytes, sizeof id->bytes, "%c%ld", kind,
                                                     number));
}

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    long from = *(long *)context;
    fdb_error_t error = 0;
    for (long i = from; i < from + BATCH && i < size_now && !error; i++) {
        struct id id;
        error = keel_list_insert_before(tr, &list, KEEL_LIST_TWO_WAY, KEEL_LIST_HEAD,
                                        id_of(&id, 'n', i), keel_bytes_of("12345678", 8));
    }
    return error;
}

static fdb_error_t insert_after(FDBTransaction *tr, void *context) {
    struct id place, id;
    (void)context;
    return keel_list_insert_after(tr, &list, KEEL_LIST_TWO_WAY,
                                  id_of(&place, 'n', rand() % size_now),
                                  id_of(&id, 'x', changes++), keel_bytes_of("12345678", 8));
}

static fdb_error_t remove_inserted(FDBTransaction *tr, void *context) {
    struct id id;
    (void)context;
    return keel_list_remove(tr, &list, KEEL_LIST_TWO_WAY, id_of(&id, 'x', --changes));
}

static fdb_error_t append(FDBTransaction *tr, void *context) {
    struct id id;
    (void)context;
    return keel_list_insert_before(tr, &list, KEEL_LIST_TWO_WAY, KEEL_LIST_HEAD,
                                   id_of(&id, 'y', changes++), keel_bytes_of("12345678", 8));
}

static fdb_error_t pop_last(FDBTransaction *tr, void *context) {
    struct id id;
    (void)context;
    return keel_list_remove(tr, &list, KEEL_LIST_TWO_WAY, id_of(&id, 'y', --changes));
}

static fdb_error_t ignore(void *context, keel_bytes id, keel_bytes value) {
    (void)context, (void)id, (void)value;
    return 0;
}

static fdb_error_t walk(FDBTransaction *tr, void *context) {
    struct id id;
    (void)context;
    return keel_list_walk(tr, &list, id_of(&id, 'n', rand() % (size_now - 10)), 10, ignore, NULL);
}

int main(int argc, char **argv) {
    static const char *const names[OPERATIONS] = {"insert after", "remove", "append",
                                                  "remove the last", "walk 10"};
    static const keel_function functions[OPERATIONS] = {insert_after, remove_inserted, append,
                                                        pop_last, walk};
    double first[OPERATIONS];
    long size_max = argc > 1 ? atol(argv[1]) : 1000000, filled = 0;
    int failed = 0;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("node"), &list), "subspace");
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
