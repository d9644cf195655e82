# SPDX-License-Identifier: Apache-2.0
"""One half of the interoperation test of the table recipe; the other is
tests/recipes/interop_table.c.

    recipe_table.py API_VERSION write DATABASE     writes with the documents' Python code
    recipe_table.py API_VERSION check DATABASE     reads with it what is there, whoever wrote it

The functions are those of the documents. Changed for Python 3 alone: values are bytes, so text is
encoded, and iteritems is items; the functions of the data modelling document are in classes, since
three tables have functions of the same names.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])
failures = 0


def verify(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


# --- tables, from the recipes: both orders, packed values ---

table = fdb.Subspace(("T",))
row_index = table["R"]
col_index = table["C"]


def _pack(value):
    return fdb.tuple.pack((value,))


def _unpack(value):
    return fdb.tuple.unpack(value)[0]


@fdb.transactional
def table_set_cell(tr, row, column, value):
    """Set a cell, updating both row and column indexes."""
    tr[row_index[row][column]] = _pack(value)
    tr[col_index[column][row]] = _pack(value)


@fdb.transactional
def table_get_cell(tr, row, column):
    """Get a single cell value."""
    return _unpack(tr[row_index[row][column]])


@fdb.transactional
def table_get_row(tr, row):
    """Get all cells in a row with a single range read."""
    cols = {}
    for k, v in tr[row_index[row].range()]:
        r, c = row_index.unpack(k)
        cols[c] = _unpack(v)
    return cols


@fdb.transactional
def table_get_col(tr, col):
    """Get all cells in a column with a single range read."""
    rows = {}
    for k, v in tr[col_index[col].range()]:
        c, r = col_index.unpack(k)
        rows[r] = _unpack(v)
    return rows


@fdb.transactional
def table_set_row(tr, row, cols):
    """Replace an entire row."""
    del tr[row_index[row].range()]
    for c, v in cols.items():
        table_set_cell(tr, row, c, v)


# --- tables, from the data modelling document: by rows alone ---


class ByRows:
    @staticmethod
    @fdb.transactional
    def table_set_cell(tr, table_space, row, column, value):
        tr[table_space.pack((row, column))] = str(value).encode()

    @staticmethod
    @fdb.transactional
    def table_get_cell(tr, table_space, row, column):
        return tr[table_space.pack((row, column))]

    @staticmethod
    @fdb.transactional
    def table_set_row(tr, table_space, row, cols):
        del tr[table_space.range((row,))]
        for c, v in cols.items():
            ByRows.table_set_cell(tr, table_space, row, c, v)

    @staticmethod
    @fdb.transactional
    def table_get_row(tr, table_space, row):
        cols = {}
        for k, v in tr[table_space.range((row,))]:
            _, c = table_space.unpack(k)
            cols[c] = v
        return cols


# --- composite models, from the same: both orders, plain values ---


class Composite:
    table_space = fdb.Subspace(("table",))
    row_index = table_space["row_idx"]
    col_index = table_space["col_idx"]

    @staticmethod
    @fdb.transactional
    def table_set_cell(tr, row_index, col_index, row, column, value):
        tr[row_index.pack((row, column))] = str(value).encode()
        tr[col_index.pack((column, row))] = str(value).encode()

    @staticmethod
    @fdb.transactional
    def table_get_row(tr, row_index, row):
        cols = {}
        for k, v in tr[row_index.range((row,))]:
            r, c = row_index.unpack(k)
            cols[c] = v
        return cols

    @staticmethod
    @fdb.transactional
    def table_get_col(tr, col_index, col):
        rows = {}
        for k, v in tr[col_index.range((col,))]:
            c, r = col_index.unpack(k)
            rows[r] = v
        return rows


# --- the set that both programs know: cell (row, column) where their sum is even ---

ROWS, COLUMNS = 8, 6
space = fdb.Subspace(("by rows",))
cells = [(r, c) for r in range(ROWS) for c in range(COLUMNS) if (r + c) % 2 == 0]


def value(r, c):
    return r * 100 + c if c % 3 else "text %d" % r


def write():
    for r, c in cells:
        table_set_cell(db, "row%d" % r, c, value(r, c))
        ByRows.table_set_cell(db, space, "row%d" % r, c, value(r, c))
        Composite.table_set_cell(
            db, Composite.row_index, Composite.col_index, "row%d" % r, c, value(r, c)
        )
    table_set_row(db, "row0", {c: value(0, c) for c in range(0, COLUMNS, 2)})
    ByRows.table_set_row(db, space, "row0", {c: value(0, c) for c in range(0, COLUMNS, 2)})


def row(r):
    return {c: value(r, c) for c in range(COLUMNS) if (r + c) % 2 == 0}


def column(c):
    return {"row%d" % r: value(r, c) for r in range(ROWS) if (r + c) % 2 == 0}


def plain(values):
    return {k: str(v).encode() for k, v in values.items()}


def check():
    verify(
        all(table_get_cell(db, "row%d" % r, c) == value(r, c) for r, c in cells), "table: cells"
    )
    verify(all(table_get_row(db, "row%d" % r) == row(r) for r in range(ROWS)), "table: rows")
    verify(all(table_get_col(db, c) == column(c) for c in range(COLUMNS)), "table: columns")
    verify(
        all(
            {k: bytes(v) for k, v in ByRows.table_get_row(db, space, "row%d" % r).items()}
            == plain(row(r))
            for r in range(ROWS)
        ),
        "table, by rows alone: rows",
    )
    verify(
        all(
            {k: bytes(v) for k, v in
             Composite.table_get_row(db, Composite.row_index, "row%d" % r).items()}
            == plain(row(r))
            for r in range(ROWS)
        ),
        "table, composite: rows",
    )
    verify(
        all(
            {k: bytes(v) for k, v in
             Composite.table_get_col(db, Composite.col_index, c).items()} == plain(column(c))
            for c in range(COLUMNS)
        ),
        "table, composite: columns",
    )


if MODE == "write":
    write()
else:
    check()
print("finished")
sys.exit(failures != 0)
