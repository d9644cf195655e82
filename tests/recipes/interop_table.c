/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One half of the interoperation test of the table recipe; the other is
 * tests/clients/python/recipe_table.py, which has the Python code of the documents. Both know one
 * set of cells, stored in the three ways that the documents have.
 *
 *     interop_table write DATABASE     writes it
 *     interop_table check DATABASE     reads what is there, whoever wrote it
 */
#include <keel/table.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 8, COLUMNS = 6 };

static int failures;

static void check(int holds, const char *name) {
    printf("%s - %s\n", holds ? "ok" : "not ok", name);
    failures += !holds;
}

static void must(fdb_error_t error, const char *what) {
    if (!error)
        return;
    printf("not ok - %s: %s (%d)\n", what, keel_error_text(error), error);
    exit(1);
}

enum { BOTH, BY_ROWS, COMPOSITE, TABLES };
static const char *const NAMES[] = {"table", "table, by rows alone", "table, composite"};
static keel_table tables[TABLES];

static void set_up(void) {
    static const uint8_t BY_COLUMN[] = {1, 0};
    keel_subspace subspace;
    must(keel_subspace_tuple(KEEL_TUPLE("T"), &subspace), "subspace");
    must(keel_table_both(&subspace, &tables[BOTH]), "table");
    must(keel_subspace_tuple(KEEL_TUPLE("by rows"), &subspace), "subspace");
    must(keel_table_rows(&subspace, &tables[BY_ROWS]), "table");
    must(keel_subspace_tuple(KEEL_TUPLE("table", "row_idx"), &subspace), "subspace");
    must(keel_table_init(&subspace, 2, &tables[COMPOSITE]), "table");
    must(keel_subspace_tuple(KEEL_TUPLE("table", "col_idx"), &subspace), "subspace");
    must(keel_table_add_order(&tables[COMPOSITE], &subspace, BY_COLUMN), "order");
}

/* What a cell holds: packed in the first table, plain text in the others. */
static keel_bytes value_of(int which, int row, int column, uint8_t *buffer, size_t capacity) {
    char text[20];
    size_t length;
    snprintf(text, sizeof text, "text %d", row);
    if (which == BOTH) {
        keel_element value =
            column % 3 ? KEEL_ELEMENT(row * 100 + column) : KEEL_ELEMENT((const char *)text);
        must(keel_tuple_pack(KEEL_TUPLE(value), buffer, capacity, &length), "pack");
        return KEEL_BYTES(buffer, length);
    }
    if (column % 3)
        snprintf(text, sizeof text, "%d", row * 100 + column);
    length = strlen(text);
    memcpy(buffer, text, length);
    return KEEL_BYTES(buffer, length);
}

static fdb_error_t write_all(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int which = 0; which < TABLES; which++) {
        for (int row = 0; row < ROWS && !error; row++) {
            char name[20];
            uint8_t buffers[COLUMNS][40];
            keel_table_entry entries[COLUMNS];
            size_t count = 0;
            snprintf(name, sizeof name, "row%d", row);
            for (int column = row % 2; column < COLUMNS; column += 2, count++)
                entries[count] = (keel_table_entry){
                    KEEL_ELEMENT(column),
                    value_of(which, row, column, buffers[column], sizeof buffers[column])};
            /* something that has to go again */
            error = keel_table_set(tr, &tables[which], KEEL_TUPLE(name, 99), KEEL_BYTES("", 0));
            if (!error)
                error = keel_table_set_row(tr, &tables[which], KEEL_ELEMENT((const char *)name),
                                           entries, count);
        }
    }
    return error;
}

struct walk {
    int which, good, seen;
};

static fdb_error_t expect(const keel_table_cell *cell, void *context) {
    struct walk *walk = context;
    char name[20];
    size_t length = 0;
    int64_t column = -1;
    uint8_t buffer[40];
    walk->seen++;
    if (keel_element_copy(&cell->coordinates.elements[0], (uint8_t *)name, sizeof name - 1,
                          &length) ||
        keel_element_int(&cell->coordinates.elements[1], &column))
        return 0;
    name[length] = 0;
    int row = atoi(name + strlen("row"));
    walk->good += (row + column) % 2 == 0 &&
                  keel_bytes_compare(cell->value, value_of(walk->which, row, (int)column, buffer,
                                                           sizeof buffer)) == 0;
    return 0;
}

static fdb_error_t check_table(FDBTransaction *tr, int which) {
    struct walk rows = {which, 0, 0}, columns = rows;
    char name[100];
    fdb_error_t error = 0;
    for (int row = 0; row < ROWS && !error; row++) {
        snprintf(name, sizeof name, "row%d", row);
        error = keel_table_row(tr, &tables[which], KEEL_ELEMENT((const char *)name), expect, &rows);
    }
    for (int column = 0; column < COLUMNS && !error; column++)
        error = keel_table_column(tr, &tables[which], KEEL_ELEMENT(column), expect, &columns);
    snprintf(name, sizeof name, "%s: rows", NAMES[which]);
    check(!error && rows.good == ROWS * COLUMNS / 2 && rows.seen == rows.good, name);
    snprintf(name, sizeof name, "%s: columns", NAMES[which]);
    check(!error && columns.good == ROWS * COLUMNS / 2 && columns.seen == columns.good, name);
    return error;
}

static fdb_error_t check_all(FDBTransaction *tr, void *context) {
    (void)context;
    fdb_error_t error = 0;
    for (int which = 0; which < TABLES && !error; which++)
        error = check_table(tr, which);
    return error;
}

int main(int argc, char **argv) {
    keel_db *db;
    if (argc != 3) {
        fprintf(stderr, "usage: %s write|check DATABASE\n", argv[0]);
        return 2;
    }
    must(keel_open(argv[2], &db), "open");
    set_up();
    if (strcmp(argv[1], "write") == 0)
        must(keel_run(keel_fdb(db), write_all, NULL), "write");
    else
        must(keel_run_read(keel_fdb(db), check_all, NULL), "check");
    keel_close(db);
    printf("finished\n");
    return failures != 0;
}
