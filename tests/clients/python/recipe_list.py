# SPDX-License-Identifier: Apache-2.0
"""Linked lists, beside tests/recipes/interop_list.c.

    recipe_list.py API_VERSION write|check DATABASE

Between the two lines the code is that of the data modelling document, as it stands there, but for
'' that has to be b'' in Python 3, where values are bytes.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

Subspace = fdb.Subspace

# ---- from the documents ----

node_space = Subspace(('node',))

@fdb.transactional
def remove_next_node(tr, node_ID):
    next_ID = tr[node_space.pack((node_ID, 'next'))]
    if next_ID != b'':
        next_next_ID = tr[node_space.pack((next_ID, 'next'))]
        tr[node_space.pack((node_ID, 'next'))] = next_next_ID
        del tr[node_space.range((next_ID,))]

# ---- end of it ----

NODES = 20
LEFT = [i for i in range(NODES) if i not in (0, 5, 19)]
failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


def node(number):
    return b"node\x00%02d" % number


@fdb.transactional
def build(tr):
    ids = [b''] + [node(i) for i in range(NODES)] + [b'']
    for i in range(NODES + 1):
        tr[node_space.pack((ids[i], 'next'))] = ids[i + 1]
    for i in range(NODES):
        tr[node_space.pack((node(i), 'value'))] = b"value %d" % i


def write():
    build(db)
    remove_next_node(db, b'')
    remove_next_node(db, node(4))
    remove_next_node(db, node(18))
    remove_next_node(db, node(18))  # nothing is behind it any more


@fdb.transactional
def walk(tr):
    found = []
    at = tr[node_space.pack((b'', 'next'))][:]
    while at != b'':
        found.append((at, tr[node_space.pack((at, 'value'))][:]))
        at = tr[node_space.pack((at, 'next'))][:]
    return found


def verify():
    expected = [(node(i), b"value %d" % i) for i in LEFT]
    check(walk(db) == expected, "list in Python: the nodes in order")
    check(len(list(db[node_space.range()])) == 2 * len(LEFT) + 1, "list in Python: no other keys")

    tr = db.create_transaction()  # takes three away, and does not commit
    for _ in range(3):
        remove_next_node(tr, b'')
    check(walk(tr) == expected[3:], "list in Python: removing the first three")


write() if MODE == "write" else verify()
print("finished")
sys.exit(failures != 0)
