/* SPDX-License-Identifier: Apache-2.0 */
/* What a table in both orders reads and takes as it grows by rows: recipe_table [CELLS_MAX]. */
#include "recipe_bench.h"

#include <keel/table.h>

enum { COLUMNS = 10 };

static keel_table table;
static long size; /* cells */

static keel_element column_of(long row, long column) {
    return keel_element_of_int(column * 1000000 + row / 10); /* so columns have 10 cells, too */
}

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    fdb_error_t error = 0;
    for (long i = size, end = size + *(long *)context; i < end && !error; i++) {
        keel_element at[] = {keel_element_of_int(i / COLUMNS), column_of(i / COLUMNS, i % COLUMNS)};
        error = keel_table_set(tr, &table, keel_tuple_of(at, 2), KEEL_BYTES(&i, sizeof i));
    }
    return error;
}

static long next_row(long *at) {
    *at = (*at + 7919) % (size / COLUMNS);
    return *at;
}

static fdb_error_t ignore(const keel_table_cell *cell, void *context) {
    (void)cell, (void)context;
    return 0;
}

static fdb_error_t get_cell(FDBTransaction *tr, void *context) {
    uint8_t *value;
    size_t length;
    long row = next_row(context);
    keel_element at[] = {keel_element_of_int(row), column_of(row, 3)};
    fdb_error_t error = keel_table_get(tr, &table, keel_tuple_of(at, 2), &value, &length);
    if (!error)
        free(value);
    return error;
}

static fdb_error_t get_row(FDBTransaction *tr, void *context) {
    return keel_table_row(tr, &table, KEEL_ELEMENT(next_row(context)), ignore, NULL);
}

static fdb_error_t get_column(FDBTransaction *tr, void *context) {
    return keel_table_column(tr, &table, column_of(next_row(context), 3), ignore, NULL);
}

static fdb_error_t set_cell(FDBTransaction *tr, void *context) {
    long row = next_row(context);
    keel_element at[] = {keel_element_of_int(row), column_of(row, 3)};
    return keel_table_set(tr, &table, keel_tuple_of(at, 2), KEEL_BYTES(&row, sizeof row));
}

static fdb_error_t set_row(FDBTransaction *tr, void *context) {
    long row = next_row(context);
    keel_table_entry entries[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        entries[i] = (keel_table_entry){column_of(row, i), KEEL_BYTES(&row, sizeof row)};
    return keel_table_set_row(tr, &table, KEEL_ELEMENT(row), entries, COLUMNS);
}

enum { OPERATIONS = 5 };
static const struct {
    const char *name;
    keel_function run;
} operations[OPERATIONS] = {{"cell", get_cell},
                            {"row of 10", get_row},
                            {"column of 10", get_column},
                            {"set cell", set_cell},
                            {"set row of 10", set_row}};

int main(int argc, char **argv) {
    long max = argc > 1 ? atol(argv[1]) : 1000000, at = 0;
    double first[OPERATIONS] = {0};
    int failures = 0;
    keel_subspace subspace;
    bench_open();
    bench_check(keel_subspace_tuple(KEEL_TUPLE("t"), &subspace), "subspace");
    bench_check(keel_table_both(&subspace, &table), "table");
    for (long target = 1000; target <= max; target *= 10) {
        for (long batch = 1000; size < target; size += batch)
            bench_check(keel_run(keel_fdb(bench_db), fill, &batch), "fill");
        for (int i = 0; i < OPERATIONS; i++) {
            double rows = bench_measure(operations[i].name, size, operations[i].run, &at, 200);
            if (target == 1000)
                first[i] = rows;
            else if (rows > first[i] + 4) {
                printf("%s: reads more as the table grows\n", operations[i].name);
                failures++;
            }
        }
    }
    keel_close(bench_db);
    return failures != 0;
}
