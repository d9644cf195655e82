/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse tables: every cell is a key in each of the orders that the table keeps.
 *
 * Format: see keel/table.h. An order is a permutation of the dimensions; the first order that a
 * table has is where single cells are read.
 *
 * Invariants:
 *   1. A cell is in all orders or in none, with the same value. Whoever sets or deletes one writes
 *      all orders in one transaction; cells are never read for that, so writers do not conflict.
 *   2. Deleting a slice reads its cells in one order, unless every order begins with the fixed
 *      dimensions: their keys are gathered, then cleared. The read is serializable: a cell that
 *      appears in the slice meanwhile is a conflict, not one that survives in half of the orders.
 *   3. All keys are packed once before the first is written, so nothing can fail halfway.
 */
#include <keel/table.h>

#include <stdlib.h>

#include "support.h"

static const fdb_error_t NO_MEMORY = 1501;

/* ---- A table ---- */

KEEL_EXPORT fdb_error_t keel_table_init(const keel_subspace *subspace, size_t dimension_count,
                                        keel_table *table) {
    if (dimension_count == 0 || dimension_count > KEEL_TABLE_DIMENSIONS_MAX)
        return KEEL_ERROR_ARGUMENT;
    table->dimension_count = dimension_count;
    table->order_count = 1;
    table->orders[0].subspace = *subspace;
    for (size_t i = 0; i < dimension_count; i++)
        table->orders[0].dimensions[i] = (uint8_t)i;
    return 0;
}

KEEL_EXPORT fdb_error_t keel_table_add_order(keel_table *table, const keel_subspace *subspace,
                                             const uint8_t *dimensions) {
    uint32_t seen = 0;
    if (table->order_count == KEEL_TABLE_ORDERS_MAX)
        return KEEL_ERROR_ARGUMENT;
    for (size_t i = 0; i < table->dimension_count; i++)
        seen |= dimensions[i] < table->dimension_count ? 1u << dimensions[i] : 0;
    if (seen != (1u << table->dimension_count) - 1)
        return KEEL_ERROR_ARGUMENT;
    keel_table_order *order = &table->orders[table->order_count++];
    order->subspace = *subspace;
    memcpy(order->dimensions, dimensions, table->dimension_count);
    return 0;
}

KEEL_EXPORT fdb_error_t keel_table_rows(const keel_subspace *subspace, keel_table *table) {
    return keel_table_init(subspace, 2, table);
}

KEEL_EXPORT fdb_error_t keel_table_both(const keel_subspace *subspace, keel_table *table) {
    static const uint8_t BY_COLUMN[] = {1, 0};
    keel_element names[] = {keel_element_of_string("R"), keel_element_of_string("C")};
    keel_subspace rows, columns;
    fdb_error_t error = keel_subspace_nested(subspace, keel_tuple_of(&names[0], 1), &rows);
    if (!error)
        error = keel_subspace_nested(subspace, keel_tuple_of(&names[1], 1), &columns);
    if (!error)
        error = keel_table_init(&rows, 2, table);
    return error ? error : keel_table_add_order(table, &columns, BY_COLUMN);
}

/* ---- Keys ---- */

/* The key of a cell in an order, or of its first `count` dimensions there. */
static fdb_error_t pack(const keel_table *table, const keel_table_order *order,
                        keel_tuple coordinates, size_t count, struct recipe_key *key) {
    keel_element elements[KEEL_TABLE_DIMENSIONS_MAX];
    if (coordinates.count != table->dimension_count)
        return KEEL_ERROR_ARGUMENT;
    for (size_t i = 0; i < count; i++)
        elements[i] = coordinates.elements[order->dimensions[i]];
    return recipe_pack(&order->subspace, keel_tuple_of(elements, count), key);
}

static fdb_error_t check_cell(const keel_table *table, keel_tuple coordinates, keel_bytes value) {
    struct recipe_key key;
    fdb_error_t error = recipe_check_value(value);
    for (size_t i = 0; i < table->order_count && !error; i++)
        error = pack(table, &table->orders[i], coordinates, table->dimension_count, &key);
    return error;
}

/* Of a cell that was checked: cannot fail. A NULL value deletes it. */
static void write_cell(FDBTransaction *tr, const keel_table *table, keel_tuple coordinates,
                       const keel_bytes *value) {
    struct recipe_key key;
    for (size_t i = 0; i < table->order_count; i++) {
        if (pack(table, &table->orders[i], coordinates, table->dimension_count, &key))
            abort();
        if (value)
            recipe_set(tr, &key, *value);
        else
            recipe_clear(tr, &key);
    }
}

/* ---- Cells ---- */

KEEL_EXPORT fdb_error_t keel_table_set(FDBTransaction *tr, const keel_table *table,
                                       keel_tuple coordinates, keel_bytes value) {
    fdb_error_t error = check_cell(table, coordinates, value);
    if (!error)
        write_cell(tr, table, coordinates, &value);
    return error;
}

KEEL_EXPORT fdb_error_t keel_table_set_element(FDBTransaction *tr, const keel_table *table,
                                               keel_tuple coordinates, keel_element value) {
    keel_tuple_builder builder;
    keel_bytes packed;
    keel_tuple_builder_init(&builder);
    keel_tuple_append(&builder, value);
    fdb_error_t error = keel_tuple_builder_finish(&builder, &packed);
    if (!error)
        error = keel_table_set(tr, table, coordinates, packed);
    keel_tuple_builder_free(&builder);
    return error;
}

KEEL_EXPORT fdb_error_t keel_table_get(FDBTransaction *tr, const keel_table *table,
                                       keel_tuple coordinates, uint8_t **value, size_t *length) {
    struct recipe_key key;
    bool present = false;
    keel_bytes found = {NULL, 0};
    fdb_error_t error =
        pack(table, &table->orders[0], coordinates, table->dimension_count, &key);
    if (error)
        return error;
    FDBFuture *future = recipe_get_start(tr, &key, false);
    error = recipe_get_finish(future, &present, &found);
    uint8_t *copy = !error && present ? malloc(found.length + 1) : NULL;
    if (!error && present && !copy)
        error = NO_MEMORY;
    if (!error) {
        if (found.length)
            memcpy(copy, found.data, found.length);
        *value = copy;
        *length = found.length;
    }
    fdb_future_destroy(future);
    return error;
}

KEEL_EXPORT fdb_error_t keel_table_delete(FDBTransaction *tr, const keel_table *table,
                                          keel_tuple coordinates) {
    fdb_error_t error = check_cell(table, coordinates, keel_bytes_of(NULL, 0));
    if (!error)
        write_cell(tr, table, coordinates, NULL);
    return error;
}

/* ---- Slices ---- */

/* How many of its outermost dimensions are fixed. */
static size_t fixed_prefix(const keel_table *table, const keel_table_order *order, uint32_t fixed) {
    size_t count = 0;
    while (count < table->dimension_count && fixed >> order->dimensions[count] & 1)
        count++;
    return count;
}

static size_t count_bits(uint32_t bits) {
    size_t count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

static const keel_table_order *best_order(const keel_table *table, uint32_t fixed) {
    const keel_table_order *best = &table->orders[0];
    for (size_t i = 1; i < table->order_count; i++)
        if (fixed_prefix(table, &table->orders[i], fixed) > fixed_prefix(table, best, fixed))
            best = &table->orders[i];
    return best;
}

/* The keys of an order that hold a slice, and maybe others. */
static fdb_error_t span_of_slice(const keel_table *table, const keel_table_order *order,
                                 keel_tuple coordinates, uint32_t fixed,
                                 struct recipe_span *span) {
    struct recipe_key key;
    size_t count = fixed_prefix(table, order, fixed);
    if (coordinates.count != table->dimension_count || fixed >> table->dimension_count)
        return KEEL_ERROR_ARGUMENT;
    if (count == 0)
        return recipe_span_of(&order->subspace, keel_tuple_of(NULL, 0), span);
    fdb_error_t error = pack(table, order, coordinates, count, &key);
    if (!error)
        recipe_span_with(&key, span); /* with the key itself: all dimensions may be fixed */
    return error;
}

/* Takes a key apart, back into the order of the dimensions. */
static fdb_error_t unpack(const keel_table *table, const keel_table_order *order, keel_bytes key,
                          keel_element *elements) {
    keel_tuple_iterator it;
    fdb_error_t error = keel_subspace_unpack(&order->subspace, key, &it);
    for (size_t i = 0; i < table->dimension_count && !error; i++)
        error = keel_tuple_next(&it, &elements[order->dimensions[i]]);
    return error || !keel_tuple_at_end(&it) ? KEEL_ERROR_STORED_FORMAT : 0;
}

static bool in_slice(keel_tuple cell, keel_tuple coordinates, uint32_t fixed) {
    for (size_t i = 0; i < coordinates.count; i++)
        if (fixed >> i & 1 &&
            keel_element_compare(&cell.elements[i], &coordinates.elements[i]) != 0)
            return false;
    return true;
}

static fdb_error_t walk(struct recipe_scan *scan, const keel_table *table,
                        const keel_table_order *order, keel_tuple coordinates, uint32_t fixed,
                        keel_table_visit visit, void *context) {
    keel_element elements[KEEL_TABLE_DIMENSIONS_MAX];
    keel_table_cell cell = {{elements, table->dimension_count}, {NULL, 0}};
    keel_bytes key;
    bool found;
    for (;;) {
        fdb_error_t error = recipe_scan_next(scan, &key, &cell.value, &found);
        if (error || !found)
            return error;
        error = unpack(table, order, key, elements);
        if (!error && in_slice(cell.coordinates, coordinates, fixed))
            error = visit(&cell, context);
        if (error)
            return error;
    }
}

KEEL_EXPORT fdb_error_t keel_table_slice(FDBTransaction *tr, const keel_table *table,
                                         keel_tuple coordinates, uint32_t fixed,
                                         keel_table_visit visit, void *context) {
    struct recipe_span span;
    struct recipe_scan scan;
    const keel_table_order *order = best_order(table, fixed);
    fdb_error_t error = span_of_slice(table, order, coordinates, fixed, &span);
    if (error)
        return error;
    recipe_scan_open(&scan, tr, &span, 0, false, false);
    error = walk(&scan, table, order, coordinates, fixed, visit, context);
    recipe_scan_close(&scan);
    return error;
}

/* Whether the slice is one range in every order, so that nobody needs to know what is in it. */
static bool is_range_everywhere(const keel_table *table, uint32_t fixed) {
    for (size_t i = 0; i < table->order_count; i++)
        if (fixed_prefix(table, &table->orders[i], fixed) != count_bits(fixed))
            return false;
    return true;
}

static fdb_error_t clear_ranges(FDBTransaction *tr, const keel_table *table,
                                keel_tuple coordinates, uint32_t fixed) {
    struct recipe_span span;
    fdb_error_t error = 0;
    for (size_t i = 0; i < table->order_count && !error; i++)
        error = span_of_slice(table, &table->orders[i], coordinates, fixed, &span);
    for (size_t i = 0; i < table->order_count && !error; i++) {
        error = span_of_slice(table, &table->orders[i], coordinates, fixed, &span);
        if (!error)
            recipe_clear_span(tr, &span);
    }
    return error;
}

/* Keys of cells that are to be deleted, one behind the other, each with its length before it. */
struct doomed {
    const keel_table *table;
    uint8_t *bytes;
    size_t length, capacity;
};

static fdb_error_t doom_key(struct doomed *doomed, const struct recipe_key *key) {
    size_t needed = doomed->length + sizeof key->length + key->length;
    if (needed > doomed->capacity) {
        size_t capacity = needed * 2;
        uint8_t *bytes = realloc(doomed->bytes, capacity);
        if (!bytes)
            return NO_MEMORY;
        doomed->bytes = bytes;
        doomed->capacity = capacity;
    }
    memcpy(doomed->bytes + doomed->length, &key->length, sizeof key->length);
    memcpy(doomed->bytes + doomed->length + sizeof key->length, key->data, key->length);
    doomed->length = needed;
    return 0;
}

static fdb_error_t doom_cell(const keel_table_cell *cell, void *context) {
    struct doomed *doomed = context;
    struct recipe_key key;
    fdb_error_t error = 0;
    for (size_t i = 0; i < doomed->table->order_count && !error; i++) {
        error = pack(doomed->table, &doomed->table->orders[i], cell->coordinates,
                     doomed->table->dimension_count, &key);
        if (!error)
            error = doom_key(doomed, &key);
    }
    return error;
}

static void clear_doomed(FDBTransaction *tr, const struct doomed *doomed) {
    size_t length;
    for (size_t at = 0; at < doomed->length; at += sizeof length + length) {
        memcpy(&length, doomed->bytes + at, sizeof length);
        fdb_transaction_clear(tr, doomed->bytes + at + sizeof length, (int)length);
    }
}

KEEL_EXPORT fdb_error_t keel_table_delete_slice(FDBTransaction *tr, const keel_table *table,
                                                keel_tuple coordinates, uint32_t fixed) {
    struct doomed doomed = {.table = table};
    if (fixed >> table->dimension_count)
        return KEEL_ERROR_ARGUMENT;
    if (is_range_everywhere(table, fixed))
        return clear_ranges(tr, table, coordinates, fixed);
    fdb_error_t error = keel_table_slice(tr, table, coordinates, fixed, doom_cell, &doomed);
    if (!error)
        clear_doomed(tr, &doomed);
    free(doomed.bytes);
    return error;
}

KEEL_EXPORT fdb_error_t keel_table_set_slice(FDBTransaction *tr, const keel_table *table,
                                             keel_tuple coordinates, uint32_t fixed,
                                             const keel_table_cell *cells, size_t cell_count) {
    fdb_error_t error = 0;
    if (coordinates.count != table->dimension_count)
        return KEEL_ERROR_ARGUMENT;
    for (size_t i = 0; i < cell_count && !error; i++) {
        error = check_cell(table, cells[i].coordinates, cells[i].value);
        if (!error && !in_slice(cells[i].coordinates, coordinates, fixed))
            error = KEEL_ERROR_ARGUMENT;
    }
    if (!error)
        error = keel_table_delete_slice(tr, table, coordinates, fixed);
    for (size_t i = 0; i < cell_count && !error; i++)
        write_cell(tr, table, cells[i].coordinates, &cells[i].value);
    return error;
}

/* ---- Rows and columns ---- */

enum { ROW = 0, COLUMN = 1 };

/* The slice of a table with two dimensions that has `name` in dimension `which`. */
static fdb_error_t line(const keel_table *table, keel_element name, keel_element *elements,
                        int which, keel_tuple *coordinates) {
    if (table->dimension_count != 2)
        return KEEL_ERROR_ARGUMENT;
    elements[which] = name;
    elements[1 - which] = keel_element_null();
    *coordinates = keel_tuple_of(elements, 2);
    return 0;
}

static fdb_error_t visit_line(FDBTransaction *tr, const keel_table *table, keel_element name,
                              int which, keel_table_visit visit, void *context) {
    keel_element elements[2];
    keel_tuple coordinates;
    fdb_error_t error = line(table, name, elements, which, &coordinates);
    return error ? error : keel_table_slice(tr, table, coordinates, 1u << which, visit, context);
}

static fdb_error_t delete_line(FDBTransaction *tr, const keel_table *table, keel_element name,
                               int which) {
    keel_element elements[2];
    keel_tuple coordinates;
    fdb_error_t error = line(table, name, elements, which, &coordinates);
    return error ? error : keel_table_delete_slice(tr, table, coordinates, 1u << which);
}

static fdb_error_t set_line(FDBTransaction *tr, const keel_table *table, keel_element name,
                            int which, const keel_table_entry *entries, size_t count) {
    keel_element elements[2];
    keel_tuple coordinates;
    fdb_error_t error = line(table, name, elements, which, &coordinates);
    for (size_t i = 0; i < count && !error; i++) {
        elements[1 - which] = entries[i].name;
        error = check_cell(table, coordinates, entries[i].value);
    }
    if (!error)
        error = keel_table_delete_slice(tr, table, coordinates, 1u << which);
    for (size_t i = 0; i < count && !error; i++) {
        elements[1 - which] = entries[i].name;
        write_cell(tr, table, coordinates, &entries[i].value);
    }
    return error;
}

KEEL_EXPORT fdb_error_t keel_table_row(FDBTransaction *tr, const keel_table *table,
                                       keel_element row, keel_table_visit visit, void *context) {
    return visit_line(tr, table, row, ROW, visit, context);
}

KEEL_EXPORT fdb_error_t keel_table_column(FDBTransaction *tr, const keel_table *table,
                                          keel_element column, keel_table_visit visit,
                                          void *context) {
    return visit_line(tr, table, column, COLUMN, visit, context);
}

KEEL_EXPORT fdb_error_t keel_table_set_row(FDBTransaction *tr, const keel_table *table,
                                           keel_element row, const keel_table_entry *entries,
                                           size_t entry_count) {
    return set_line(tr, table, row, ROW, entries, entry_count);
}

KEEL_EXPORT fdb_error_t keel_table_set_column(FDBTransaction *tr, const keel_table *table,
                                              keel_element column, const keel_table_entry *entries,
                                              size_t entry_count) {
    return set_line(tr, table, column, COLUMN, entries, entry_count);
}

KEEL_EXPORT fdb_error_t keel_table_delete_row(FDBTransaction *tr, const keel_table *table,
                                              keel_element row) {
    return delete_line(tr, table, row, ROW);
}

KEEL_EXPORT fdb_error_t keel_table_delete_column(FDBTransaction *tr, const keel_table *table,
                                                 keel_element column) {
    return delete_line(tr, table, column, COLUMN);
}
