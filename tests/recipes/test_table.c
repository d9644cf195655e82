/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: cells, rows and columns in one order and in both, three dimensions beside a naive array
 * under random operations, and, with many threads, that the orders agree.
 */
#include <keel/table.h>

#include "testing.h"

static keel_bytes text(const char *string) {
    return keel_bytes_of_string(string);
}

/* ---- What is visited, as text: "(row, column)=value " ---- */

static char seen[4000];

static fdb_error_t note(const keel_table_cell *cell, void *context) {
    (void)context;
    uint8_t packed[200];
    char printed[200];
    size_t length;
    ok(keel_tuple_pack(cell->coordinates, packed, sizeof packed, &length));
    ok(keel_tuple_print(KEEL_BYTES(packed, length), printed, sizeof printed, &length));
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s=%.*s ", printed,
             (int)cell->value.length, (const char *)cell->value.data);
    return 0;
}

static const char *row_of(FDBTransaction *tr, const keel_table *table, const char *row) {
    seen[0] = 0;
    ok(keel_table_row(tr, table, KEEL_ELEMENT(row), note, NULL));
    return seen;
}

static const char *column_of(FDBTransaction *tr, const keel_table *table, int column) {
    seen[0] = 0;
    ok(keel_table_column(tr, table, KEEL_ELEMENT(column), note, NULL));
    return seen;
}

static void fill(FDBTransaction *tr, const keel_table *table) {
    ok(keel_table_set(tr, table, KEEL_TUPLE("a", 1), text("a1")));
    ok(keel_table_set(tr, table, KEEL_TUPLE("a", 3), text("a3")));
    ok(keel_table_set(tr, table, KEEL_TUPLE("b", 1), text("b1")));
    ok(keel_table_set(tr, table, KEEL_TUPLE("c", 2), text("")));
}

/* ---- Tests, each on a table by rows alone and on one in both orders ---- */

static keel_table table_of(void **state) {
    keel_subspace subspace = testing_subspace("table");
    keel_table table;
    if (*(const bool *)*state)
        ok(keel_table_both(&subspace, &table));
    else
        ok(keel_table_rows(&subspace, &table));
    return table;
}

static int rows_stored(const keel_table *table) {
    int rows = 0;
    for (size_t i = 0; i < table->order_count; i++)
        rows += testing_rows(&table->orders[i].subspace);
    return rows;
}

static void cells(void **state) {
    keel_table table = table_of(state);
    uint8_t *value = (uint8_t *)"untouched";
    size_t length = 5;
    FDBTransaction *tr = testing_begin();
    fill(tr, &table);
    ok(keel_table_get(tr, &table, KEEL_TUPLE("a", 3), &value, &length));
    assert_int_equal(length, 2);
    assert_memory_equal(value, "a3", 2);
    free(value);
    ok(keel_table_get(tr, &table, KEEL_TUPLE("c", 2), &value, &length));
    assert_non_null(value); /* empty is not absent */
    assert_int_equal(length, 0);
    free(value);
    ok(keel_table_get(tr, &table, KEEL_TUPLE("c", 3), &value, &length));
    assert_null(value);
    assert_int_equal(length, 0);
    ok(keel_table_set(tr, &table, KEEL_TUPLE("a", 3), text("new")));
    ok(keel_table_delete(tr, &table, KEEL_TUPLE("a", 1)));
    ok(keel_table_delete(tr, &table, KEEL_TUPLE("z", 1)));
    assert_string_equal(row_of(tr, &table, "a"), "(\"a\", 3)=new ");
    assert_string_equal(column_of(tr, &table, 1), "(\"b\", 1)=b1 ");
    testing_commit(tr);
    assert_int_equal(rows_stored(&table), 3 * (int)table.order_count);
}

static void rows_and_columns(void **state) {
    keel_table table = table_of(state);
    FDBTransaction *tr = testing_begin();
    fill(tr, &table);
    assert_string_equal(row_of(tr, &table, "a"), "(\"a\", 1)=a1 (\"a\", 3)=a3 ");
    assert_string_equal(row_of(tr, &table, "c"), "(\"c\", 2)= ");
    assert_string_equal(row_of(tr, &table, "d"), "");
    assert_string_equal(column_of(tr, &table, 1), "(\"a\", 1)=a1 (\"b\", 1)=b1 ");
    assert_string_equal(column_of(tr, &table, 4), "");
    seen[0] = 0;
    ok(keel_table_slice(tr, &table, KEEL_TUPLE(0, 0), 0, note, NULL));
    assert_string_equal(seen, "(\"a\", 1)=a1 (\"a\", 3)=a3 (\"b\", 1)=b1 (\"c\", 2)= ");
    seen[0] = 0;
    ok(keel_table_slice(tr, &table, KEEL_TUPLE("a", 3), 3, note, NULL)); /* a single cell */
    assert_string_equal(seen, "(\"a\", 3)=a3 ");
    fdb_transaction_destroy(tr);
}

static void replacing(void **state) {
    keel_table table = table_of(state);
    FDBTransaction *tr = testing_begin();
    fill(tr, &table);
    testing_commit(tr);
    tr = testing_begin();
    const keel_table_entry row[] = {{KEEL_ELEMENT(3), text("x")}, {KEEL_ELEMENT(4), text("y")},
                                    {KEEL_ELEMENT(3), text("z")}};
    ok(keel_table_set_row(tr, &table, KEEL_ELEMENT("a"), row, 3));
    assert_string_equal(row_of(tr, &table, "a"), "(\"a\", 3)=z (\"a\", 4)=y ");
    assert_string_equal(column_of(tr, &table, 1), "(\"b\", 1)=b1 "); /* no ghost of a1 */
    const keel_table_entry column[] = {{KEEL_ELEMENT("c"), text("c1")}};
    ok(keel_table_set_column(tr, &table, KEEL_ELEMENT(1), column, 1));
    assert_string_equal(column_of(tr, &table, 1), "(\"c\", 1)=c1 ");
    assert_string_equal(row_of(tr, &table, "b"), "");
    ok(keel_table_set_row(tr, &table, KEEL_ELEMENT("a"), NULL, 0));
    testing_commit(tr);
    assert_int_equal(rows_stored(&table), 2 * (int)table.order_count);
    tr = testing_begin();
    ok(keel_table_delete_row(tr, &table, KEEL_ELEMENT("b")));
    ok(keel_table_delete_column(tr, &table, KEEL_ELEMENT(2)));
    assert_string_equal(row_of(tr, &table, "c"), "(\"c\", 1)=c1 ");
    ok(keel_table_delete_row(tr, &table, KEEL_ELEMENT("c")));
    testing_commit(tr);
    assert_int_equal(rows_stored(&table), 0);
}

/* A row whose name begins like another's and goes on with a zero byte is not part of it. */
static void names_with_zeros(void **state) {
    keel_table table = table_of(state);
    FDBTransaction *tr = testing_begin();
    ok(keel_table_set(tr, &table, KEEL_TUPLE("a", 1), text("1")));
    ok(keel_table_set(tr, &table, KEEL_TUPLE(KEEL_TEXT("a\0b", 3), 1), text("2")));
    assert_string_equal(row_of(tr, &table, "a"), "(\"a\", 1)=1 ");
    ok(keel_table_delete_row(tr, &table, KEEL_ELEMENT("a")));
    assert_string_equal(column_of(tr, &table, 1), "(\"a\\x00b\", 1)=2 ");
    fdb_transaction_destroy(tr);
}

static void bad_input_changes_nothing(void **state) {
    keel_table table = table_of(state);
    static uint8_t big[100001];
    uint8_t *value;
    size_t length;
    FDBTransaction *tr = testing_begin();
    fill(tr, &table);
    refused(tr, KEEL_ERROR_ARGUMENT, keel_table_set(tr, &table, KEEL_TUPLE("a"), text("")));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_table_set(tr, &table, KEEL_TUPLE("a", 1, 2), text("")));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_table_delete(tr, &table, KEEL_TUPLE()));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_table_get(tr, &table, KEEL_TUPLE("a"), &value, &length));
    refused(tr, 2103, keel_table_set(tr, &table, KEEL_TUPLE("a", 1),
                                     KEEL_BYTES(big, sizeof big)));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_table_set(tr, &table, KEEL_TUPLE("a", 1), KEEL_BYTES(NULL, 1)));
    refused(tr, 2102, keel_table_set(tr, &table, KEEL_TUPLE("a", KEEL_BYTES(big, 10000)),
                                     text("")));
    refused(tr, KEEL_ERROR_NOT_UTF8, keel_table_set(tr, &table, KEEL_TUPLE("\xff", 1), text("")));
    refused(tr, KEEL_ERROR_INCOMPLETE_VERSIONSTAMP,
            keel_table_set(tr, &table, KEEL_TUPLE("a", KEEL_INCOMPLETE(0)), text("")));
    refused(tr, KEEL_ERROR_NOT_UTF8,
            keel_table_set_element(tr, &table, KEEL_TUPLE("a", 1), KEEL_ELEMENT("\xff")));
    const keel_table_entry row[] = {{KEEL_ELEMENT(3), text("x")},
                                    {KEEL_ELEMENT(4), KEEL_BYTES(big, sizeof big)}};
    refused(tr, 2103, keel_table_set_row(tr, &table, KEEL_ELEMENT("a"), row, 2));
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_table_delete_slice(tr, &table, KEEL_TUPLE("a", 1), 4));
    const keel_table_cell outside[] = {{KEEL_TUPLE("a", 1), text("x")},
                                       {KEEL_TUPLE("b", 1), text("x")}};
    refused(tr, KEEL_ERROR_ARGUMENT,
            keel_table_set_slice(tr, &table, KEEL_TUPLE("a", 1), 1, outside, 2));
    fdb_transaction_destroy(tr);
}

static void definitions(void **state) {
    (void)state;
    keel_subspace subspace = testing_subspace("t");
    keel_table table;
    assert_int_equal(keel_table_init(&subspace, 0, &table), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_table_init(&subspace, 9, &table), KEEL_ERROR_ARGUMENT);
    ok(keel_table_init(&subspace, 3, &table));
    const uint8_t twice[] = {0, 0, 1}, beyond[] = {0, 1, 3}, fine[] = {2, 0, 1};
    assert_int_equal(keel_table_add_order(&table, &subspace, twice), KEEL_ERROR_ARGUMENT);
    assert_int_equal(keel_table_add_order(&table, &subspace, beyond), KEEL_ERROR_ARGUMENT);
    for (int i = 1; i < KEEL_TABLE_ORDERS_MAX; i++)
        ok(keel_table_add_order(&table, &subspace, fine));
    assert_int_equal(keel_table_add_order(&table, &subspace, fine), KEEL_ERROR_ARGUMENT);
    FDBTransaction *tr = testing_begin();
    refused(tr, KEEL_ERROR_ARGUMENT, keel_table_row(tr, &table, KEEL_ELEMENT(1), note, NULL));
    refused(tr, KEEL_ERROR_ARGUMENT, keel_table_delete_row(tr, &table, KEEL_ELEMENT(1)));
    fdb_transaction_destroy(tr);
}

/* ---- Conflicts ---- */

static void blind_writes_do_not_conflict(void **state) {
    keel_table table = table_of(state);
    FDBTransaction *one = testing_begin(), *other = testing_begin();
    ok(keel_table_set(one, &table, KEEL_TUPLE("a", 1), text("1")));
    ok(keel_table_set(other, &table, KEEL_TUPLE("a", 1), text("2")));
    testing_commit(one);
    testing_commit(other);
}

/* A cell that appears in a row while it is replaced: never in one order only. */
static void replacing_meets_a_new_cell(void **state) {
    keel_table table = table_of(state);
    FDBTransaction *replace = testing_begin(), *add = testing_begin();
    ok(keel_table_set_row(replace, &table, KEEL_ELEMENT("a"), NULL, 0));
    fdb_transaction_set(replace, (const uint8_t *)"t", 1, NULL, 0);
    ok(keel_table_set(add, &table, KEEL_TUPLE("a", 1), text("1")));
    testing_commit(add);
    fdb_error_t error = testing_try_commit(replace);
    assert_int_equal(error, table.order_count == 1 ? 0 : 1020);
}

/* ---- Three dimensions beside an array ---- */

enum { SIDE = 4, CELLS = SIDE * SIDE * SIDE };
static int array[CELLS]; /* 0: no cell */

static int matches(int cell, const int *at, uint32_t fixed) {
    int coordinates[] = {cell / SIDE / SIDE, cell / SIDE % SIDE, cell % SIDE};
    for (int i = 0; i < 3; i++)
        if (fixed >> i & 1 && coordinates[i] != at[i])
            return 0;
    return 1;
}

struct compare {
    int cells, sum;
};

static fdb_error_t add_up(const keel_table_cell *cell, void *context) {
    struct compare *compare = context;
    int value, at[3];
    for (int i = 0; i < 3; i++) {
        int64_t coordinate;
        ok(keel_element_int(&cell->coordinates.elements[i], &coordinate));
        at[i] = (int)coordinate;
    }
    memcpy(&value, cell->value.data, sizeof value);
    assert_int_equal(value, array[(at[0] * SIDE + at[1]) * SIDE + at[2]]);
    compare->cells++;
    return 0;
}

static void check_slice(FDBTransaction *tr, const keel_table *table, const int *at,
                        uint32_t fixed) {
    struct compare compare = {0, 0};
    int cells_expected = 0;
    for (int cell = 0; cell < CELLS; cell++)
        cells_expected += array[cell] && matches(cell, at, fixed);
    ok(keel_table_slice(tr, table, KEEL_TUPLE(at[0], at[1], at[2]), fixed, add_up, &compare));
    assert_int_equal(compare.cells, cells_expected);
}

static void change_slice(FDBTransaction *tr, const keel_table *table, const int *at, uint32_t fixed,
                         int value) {
    keel_table_cell cell = {KEEL_TUPLE(at[0], at[1], at[2]), KEEL_BYTES(&value, sizeof value)};
    for (int i = 0; i < CELLS; i++)
        if (matches(i, at, fixed))
            array[i] = 0;
    if (value) {
        ok(keel_table_set_slice(tr, table, cell.coordinates, fixed, &cell, 1));
        array[(at[0] * SIDE + at[1]) * SIDE + at[2]] = value;
    } else {
        ok(keel_table_delete_slice(tr, table, cell.coordinates, fixed));
    }
}

static void three_dimensions(void **state) {
    (void)state;
    keel_subspace subspace = testing_subspace("cube"), second = testing_subspace("cube 2"),
                  third = testing_subspace("cube 3");
    const uint8_t inner[] = {1, 2, 0}, outer[] = {2, 0, 1};
    keel_table table;
    ok(keel_table_init(&subspace, 3, &table));
    ok(keel_table_add_order(&table, &second, inner));
    ok(keel_table_add_order(&table, &third, outer));
    memset(array, 0, sizeof array);
    uint64_t seed = 4;
    for (int i = 1; i < 2000; i++) {
        FDBTransaction *tr = testing_begin();
        int at[3];
        for (int d = 0; d < 3; d++)
            at[d] = (int)(testing_random(&seed) % SIDE);
        uint32_t fixed = testing_random(&seed) % 8;
        if (testing_random(&seed) % 4) {
            ok(keel_table_set(tr, &table, KEEL_TUPLE(at[0], at[1], at[2]),
                              KEEL_BYTES(&i, sizeof i)));
            array[(at[0] * SIDE + at[1]) * SIDE + at[2]] = i;
        } else if (fixed) {
            change_slice(tr, &table, at, fixed, testing_random(&seed) % 2 ? i : 0);
        }
        check_slice(tr, &table, at, testing_random(&seed) % 8);
        testing_commit(tr);
    }
    int cells_left = 0;
    for (int i = 0; i < CELLS; i++)
        cells_left += array[i] != 0;
    assert_int_equal(testing_rows(&subspace), cells_left);
    assert_int_equal(testing_rows(&second), cells_left);
    assert_int_equal(testing_rows(&third), cells_left);
}

/* ---- Many threads: whatever happens, both orders hold the same ---- */

static keel_table shared;

struct random_change {
    int row, column, kind;
};

static fdb_error_t change_randomly(FDBTransaction *tr, void *context) {
    struct random_change *change = context;
    keel_bytes value = KEEL_BYTES(change, sizeof *change);
    const keel_table_entry entries[] = {{KEEL_ELEMENT(change->column), value},
                                        {KEEL_ELEMENT(change->column + 1), value}};
    switch (change->kind) {
    case 0:
        return keel_table_set_row(tr, &shared, KEEL_ELEMENT(change->row), entries, 2);
    case 1:
        return keel_table_set_column(tr, &shared, KEEL_ELEMENT(change->column), entries, 2);
    case 2:
        return keel_table_delete_row(tr, &shared, KEEL_ELEMENT(change->row));
    case 3:
        return keel_table_delete(tr, &shared, KEEL_TUPLE(change->row, change->column));
    default:
        return keel_table_set(tr, &shared, KEEL_TUPLE(change->row, change->column), value);
    }
}

static void *change_many(void *number) {
    uint64_t seed = (uint64_t)(intptr_t)number + 5;
    for (int i = 0, rounds = testing_rounds(300); i < rounds; i++) {
        struct random_change change = {(int)(testing_random(&seed) % 6),
                                       (int)(testing_random(&seed) % 6),
                                       (int)(testing_random(&seed) % 8)};
        fdb_error_t error = keel_run(testing_database(), change_randomly, &change);
        if (error)
            fprintf(stderr, "table: %s (%d)\n", keel_error_text(error), error), abort();
    }
    return NULL;
}

static fdb_error_t must_be_in_column(const keel_table_cell *cell, void *context) {
    uint8_t *value;
    size_t length;
    keel_table columns = shared; /* read single cells in the other order */
    columns.orders[0] = shared.orders[1];
    ok(keel_table_get(context, &columns, cell->coordinates, &value, &length));
    assert_non_null(value);
    assert_int_equal(length, cell->value.length);
    assert_memory_equal(value, cell->value.data, length);
    free(value);
    return 0;
}

static void threads_keep_orders_together(void **state) {
    shared = table_of(state);
    testing_threads(6, change_many);
    if (shared.order_count == 1)
        return;
    FDBTransaction *tr = testing_begin();
    ok(keel_table_slice(tr, &shared, KEEL_TUPLE(0, 0), 0, must_be_in_column, tr));
    fdb_transaction_destroy(tr);
    assert_int_equal(testing_rows(&shared.orders[0].subspace),
                     testing_rows(&shared.orders[1].subspace));
}

static bool one_order = false, both_orders = true;
#define twice(test)                                                                                \
    cmocka_unit_test_prestate(test, &one_order), cmocka_unit_test_prestate(test, &both_orders)

int main(void) {
    const struct CMUnitTest tests[] = {
        twice(cells),
        twice(rows_and_columns),
        twice(replacing),
        twice(names_with_zeros),
        twice(bad_input_changes_nothing),
        twice(blind_writes_do_not_conflict),
        twice(replacing_meets_a_new_cell),
        twice(threads_keep_orders_together),
        cmocka_unit_test(definitions),
        cmocka_unit_test(three_dimensions),
    };
    return cmocka_run_group_tests_name("table", tests, testing_open, testing_close);
}
