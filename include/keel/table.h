/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse tables of any number of dimensions, readable along each of them that is asked for.
 *
 *     keel_table scores;
 *     error = keel_table_both(&subspace, &scores);
 *     ...
 *     error = keel_table_set(tr, &scores, KEEL_TUPLE("ann", "chess"), value);
 *     error = keel_table_row(tr, &scores, KEEL_ELEMENT("ann"), visit, context);
 *     error = keel_table_column(tr, &scores, KEEL_ELEMENT("chess"), visit, context);
 *
 * Keys. A cell is named by its coordinates, one element a dimension: (row, column) in a table of
 * two. It is stored once in every order that the table keeps, whole each time:
 *
 *     (table, row, column)                = value     keel_table_rows
 *     (table, "R", row, column)           = value     keel_table_both
 *     (table, "C", column, row)           = value
 *     (order's subspace, coordinates...)  = value     keel_table_init, keel_table_add_order
 *
 * A cell that was never set takes no room. Values are bytes; what they mean is the program's. Where
 * they are packed tuples of one element, as some documents have it, keel_table_set_element writes
 * them and keel_tuple_iterate reads them.
 *
 * Slices. A slice is the cells that agree with given coordinates in some dimensions, `fixed`, a bit
 * each: bit 0 for the first. It is read from the order that begins with most of these. If that
 * begins with all of them, only the cells of the slice are read; otherwise the rest is read and
 * passed over.
 *
 * Conflicts. set and delete of a cell are blind: they never conflict with each other. What replaces
 * or deletes a slice reads it first where other orders have to follow, and then conflicts with
 * changes in it; a row of a table by rows alone needs no read.
 *
 * Every function takes the transaction, never commits it, and on an error has written nothing. A
 * table is a value; functions keep no pointer to it. Any thread.
 */
#ifndef KEEL_TABLE_H
#define KEEL_TABLE_H

#include <keel/run.h>
#include <keel/subspace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KEEL_TABLE_DIMENSIONS_MAX = 8, KEEL_TABLE_ORDERS_MAX = 8 };

/* ---- A table ---- */

/* Private. */
typedef struct keel_table_order {
    keel_subspace subspace;
    uint8_t dimensions[KEEL_TABLE_DIMENSIONS_MAX]; /* which comes first, second, ... in the key */
} keel_table_order;

typedef struct keel_table {
    size_t dimension_count, order_count;
    keel_table_order orders[KEEL_TABLE_ORDERS_MAX];
} keel_table;

/* Rows and columns, by rows alone. */
fdb_error_t keel_table_rows(const keel_subspace *subspace, keel_table *table);
/* Rows and columns, in both orders. BUFFER_TOO_SMALL if the subspace leaves no room for "R". */
fdb_error_t keel_table_both(const keel_subspace *subspace, keel_table *table);
/*
 * Any number of dimensions up to KEEL_TABLE_DIMENSIONS_MAX, stored in their own order under
 * `subspace`; KEEL_ERROR_ARGUMENT otherwise.
 */
fdb_error_t keel_table_init(const keel_subspace *subspace, size_t dimension_count,
                            keel_table *table);
/*
 * One more order, under a subspace of its own: `dimensions` are the numbers of all dimensions, the
 * outermost first. {1, 0} is by columns. KEEL_ERROR_ARGUMENT if a number is missing or there are
 * too many orders. For a table without cells: those that are there do not appear in it.
 */
fdb_error_t keel_table_add_order(keel_table *table, const keel_subspace *subspace,
                                 const uint8_t *dimensions);

/* ---- Cells ---- */

/*
 * KEEL_ERROR_ARGUMENT if the coordinates are not one for each dimension, key_too_large (2102),
 * value_too_large (2103), errors of keel_tuple_pack.
 */
fdb_error_t keel_table_set(FDBTransaction *tr, const keel_table *table, keel_tuple coordinates,
                           keel_bytes value);
/* The value is the packed tuple of this one element. */
fdb_error_t keel_table_set_element(FDBTransaction *tr, const keel_table *table,
                                   keel_tuple coordinates, keel_element value);
/* *value is NULL and *length 0 if there is no such cell; else free() it. 1501 without memory. */
fdb_error_t keel_table_get(FDBTransaction *tr, const keel_table *table, keel_tuple coordinates,
                           uint8_t **value, size_t *length);
/* Deletes a cell; one that is not there is no error. */
fdb_error_t keel_table_delete(FDBTransaction *tr, const keel_table *table, keel_tuple coordinates);

/* ---- Slices ---- */

/* The coordinates and the value, which live as long as the call. */
typedef struct keel_table_cell {
    keel_tuple coordinates;
    keel_bytes value;
} keel_table_cell;

/* Anything but 0 ends the walk and is returned by it. */
typedef fdb_error_t (*keel_table_visit)(const keel_table_cell *cell, void *context);

/*
 * Visits the cells of a slice, in the order of the keys. `coordinates` has an element for each
 * dimension; those that are not `fixed` are ignored. 0: the whole table. KEEL_ERROR_STORED_FORMAT
 * if there is a key that is no cell's.
 */
fdb_error_t keel_table_slice(FDBTransaction *tr, const keel_table *table, keel_tuple coordinates,
                             uint32_t fixed, keel_table_visit visit, void *context);
/* Deletes all cells of a slice. */
fdb_error_t keel_table_delete_slice(FDBTransaction *tr, const keel_table *table,
                                    keel_tuple coordinates, uint32_t fixed);
/*
 * Replaces a slice by these cells. KEEL_ERROR_ARGUMENT if one of them does not lie in it. Of two
 * with the same coordinates the later one counts.
 */
fdb_error_t keel_table_set_slice(FDBTransaction *tr, const keel_table *table,
                                 keel_tuple coordinates, uint32_t fixed,
                                 const keel_table_cell *cells, size_t cell_count);

/* ---- Rows and columns of a table with two dimensions (KEEL_ERROR_ARGUMENT for others) ---- */

/* A cell of a row, named by its column, or of a column, named by its row. */
typedef struct keel_table_entry {
    keel_element name;
    keel_bytes value;
} keel_table_entry;

fdb_error_t keel_table_row(FDBTransaction *tr, const keel_table *table, keel_element row,
                           keel_table_visit visit, void *context);
/* In a table without an order by columns this reads all of it. */
fdb_error_t keel_table_column(FDBTransaction *tr, const keel_table *table, keel_element column,
                              keel_table_visit visit, void *context);
/* Replaces all cells of a row, or of a column. */
fdb_error_t keel_table_set_row(FDBTransaction *tr, const keel_table *table, keel_element row,
                               const keel_table_entry *entries, size_t entry_count);
fdb_error_t keel_table_set_column(FDBTransaction *tr, const keel_table *table, keel_element column,
                                  const keel_table_entry *entries, size_t entry_count);
fdb_error_t keel_table_delete_row(FDBTransaction *tr, const keel_table *table, keel_element row);
fdb_error_t keel_table_delete_column(FDBTransaction *tr, const keel_table *table,
                                     keel_element column);

#ifdef __cplusplus
}
#endif

#endif
