# SPDX-License-Identifier: Apache-2.0
"""Vectors, beside tests/recipes/interop_vector.c.

    recipe_vector.py API_VERSION write|check DATABASE

Between the two lines the code is that of the design recipes and of the data modelling document, as
it stands there, but for the encoding of str(value) that Python 3 forces. (Its vector_scan is left
out: Subspace.range takes one tuple and gives what lies below it, so it finds nothing.)
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

Subspace = fdb.Subspace

# ---- from the documents ----

vector = fdb.Subspace(('V',))

@fdb.transactional
def vector_get(tr, index):
    """Get element at index."""
    return tr[vector[index]]

@fdb.transactional
def vector_set(tr, index, value):
    """Set element at index."""
    tr[vector[index]] = value

@fdb.transactional
def vector_push(tr, value):
    """Append to end of vector."""
    tr[vector[vector_size(tr)]] = value

@fdb.transactional
def vector_size(tr):
    """Get vector length."""
    r = vector.range()
    for key, _ in tr.get_range(r.start, r.stop, limit=1, reverse=True):
        return vector.unpack(key)[0] + 1
    return 0

@fdb.transactional
def vector_truncate(tr, new_size):
    """Remove elements from new_size onwards."""
    r = vector.range()
    del tr[vector[new_size].key():r.stop]

@fdb.transactional
def array_set(tr, array_space, index, value):
    tr[array_space[index]] = str(value).encode()

@fdb.transactional
def array_get(tr, array_space, index):
    return tr[array_space[index]]

temp_array = Subspace(('temps2012',))

@fdb.transactional
def add_temp(tr, day, temp):
    array_set(tr, temp_array, day, temp)

@fdb.transactional
def get_temp(tr, day):
    val = array_get(tr, temp_array, day)
    if val.present():
        return int(val)
    else:
        return None

# ---- end of it ----

ELEMENTS, SPARSE, ROWS, COLUMNS, DAYS = 300, 70000, 3, 4, 365
matrix = Subspace(('matrix',))
failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


@fdb.transactional
def write(tr):
    vector_truncate(tr, 0)
    for i in range(ELEMENTS + 10):
        vector_push(tr, b"element %d" % i)
    vector_truncate(tr, ELEMENTS)
    vector_set(tr, SPARSE, b"\x00\xff")
    for i in range(ROWS * COLUMNS):
        array_set(tr, matrix[i // COLUMNS], i % COLUMNS, i)
    for day in range(1, DAYS + 1):
        add_temp(tr, day, day % 40)


@fdb.transactional
def verify(tr):
    check(vector_size(tr) == SPARSE + 1, "vector in Python: the size")
    check(all(vector_get(tr, i) == b"element %d" % i for i in range(ELEMENTS)),
          "vector in Python: the elements")
    check(vector_get(tr, SPARSE) == b"\x00\xff", "vector in Python: the last element")
    check(not vector_get(tr, ELEMENTS).present(), "vector in Python: a hole")
    check(all(int(array_get(tr, matrix[i // COLUMNS], i % COLUMNS)) == i
              for i in range(ROWS * COLUMNS)), "vector in Python: two dimensions")
    check(len(list(tr[matrix.range()])) == ROWS * COLUMNS, "vector in Python: no more cells")
    check([get_temp(tr, day) for day in range(0, DAYS + 2)] ==
          [None] + [day % 40 for day in range(1, DAYS + 1)] + [None],
          "vector in Python: the array of days")


write(db) if MODE == "write" else verify(db)
print("finished")
sys.exit(failures != 0)
