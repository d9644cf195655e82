/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of scores, players by games, read along both; then one of three dimensions.
 *
 *     table [DATABASE]
 */
#include <keel/table.h>

#include <stdio.h>
#include <stdlib.h>

static void check(fdb_error_t error, const char *what) {
    if (error) {
        fprintf(stderr, "table: %s: %s (%d)\n", what, keel_error_text(error), error);
        exit(1);
    }
}

static keel_table scores, weather;

static fdb_error_t fill(FDBTransaction *tr, void *context) {
    (void)context;
    keel_bytes win = keel_bytes_of_string("won"), loss = keel_bytes_of_string("lost");
    fdb_error_t error = keel_table_set(tr, &scores, KEEL_TUPLE("Ann", "chess"), win);
    if (!error)
        error = keel_table_set(tr, &scores, KEEL_TUPLE("Ann", "go"), loss);
    if (!error)
        error = keel_table_set(tr, &scores, KEEL_TUPLE("Bob", "chess"), loss);
    const keel_table_entry row[] = {{KEEL_ELEMENT("bridge"), win}, {KEEL_ELEMENT("go"), win}};
    if (!error)
        error = keel_table_set_row(tr, &scores, KEEL_ELEMENT("Cleo"), row, 2);
    /* (city, day, hour) = temperature */
    for (int hour = 0; hour < 24 && !error; hour++)
        error = keel_table_set_element(tr, &weather, KEEL_TUPLE("Oslo", hour / 12, hour),
                                       KEEL_ELEMENT(hour * 0.5));
    return error;
}

static fdb_error_t print(const keel_table_cell *cell, void *context) {
    char first[64], second[64];
    size_t length;
    (void)context;
    fdb_error_t error =
        keel_element_print(&cell->coordinates.elements[0], first, sizeof first, &length);
    if (!error)
        error = keel_element_print(&cell->coordinates.elements[1], second, sizeof second, &length);
    if (!error)
        printf("  %s at %s: %.*s\n", first, second, (int)cell->value.length,
               (const char *)cell->value.data);
    return error;
}

static fdb_error_t print_hour(const keel_table_cell *cell, void *context) {
    keel_tuple_iterator it = keel_tuple_iterate(cell->value);
    double temperature;
    (void)context;
    fdb_error_t error = keel_tuple_next_double(&it, &temperature);
    if (!error)
        printf("  %.1f degrees\n", temperature);
    return error;
}

static fdb_error_t show(FDBTransaction *tr, void *context) {
    printf("Ann's row:\n");
    fdb_error_t error = keel_table_row(tr, &scores, KEEL_ELEMENT("Ann"), print, context);
    printf("The column of go:\n");
    if (!error)
        error = keel_table_column(tr, &scores, KEEL_ELEMENT("go"), print, context);
    printf("Eighteen o'clock, wherever and whenever:\n");
    if (!error)
        error = keel_table_slice(tr, &weather, KEEL_TUPLE(KEEL_NIL, KEEL_NIL, 18), 1u << 2,
                                 print_hour, context);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db;
    keel_subspace subspace, by_hour;
    static const uint8_t HOUR_FIRST[] = {2, 0, 1};
    check(keel_open(argc > 1 ? argv[1] : ":memory:", &db), "open");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "scores"), &subspace), "subspace");
    check(keel_table_both(&subspace, &scores), "table");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "weather", "day"), &subspace), "subspace");
    check(keel_subspace_tuple(KEEL_TUPLE("example", "weather", "hour"), &by_hour), "subspace");
    check(keel_table_init(&subspace, 3, &weather), "table");
    check(keel_table_add_order(&weather, &by_hour, HOUR_FIRST), "order");
    check(keel_run(keel_fdb(db), fill, NULL), "fill");
    check(keel_run_read(keel_fdb(db), show, NULL), "show");
    keel_close(db);
    return 0;
}
