# SPDX-License-Identifier: Apache-2.0
"""The queue recipe as its document gives it, beside Keel's (tests/recipes/interop_queue.c).

    recipe_queue.py API_VERSION write DATABASE     enqueues ITEMS values
    recipe_queue.py API_VERSION check DATABASE     dequeues as many, whoever wrote them, enqueues one
    recipe_queue.py API_VERSION rest DATABASE      dequeues one value, the other side's

Between the two marks stands the document's code; only fdb.api_version is up here.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])
ITEMS = 300

# --- the document's code ---

import os  # noqa: E402

queue = fdb.Subspace(('Q',))

@fdb.transactional
def enqueue(tr, value):
    """Add item to the queue (conflict-free via snapshot read)."""
    tr[queue[last_index(tr) + 1][os.urandom(20)]] = value

@fdb.transactional
def dequeue(tr):
    """Remove and return the first item, or None if empty."""
    item = first_item(tr)
    if item is None:
        return None
    del tr[item.key]
    return item.value

@fdb.transactional
def last_index(tr):
    """Find the highest index using a reverse range read."""
    r = queue.range()
    for key, _ in tr.snapshot.get_range(r.start, r.stop,
                                         limit=1, reverse=True):
        return queue.unpack(key)[0]
    return 0

@fdb.transactional
def first_item(tr):
    """Get the first item in the queue."""
    r = queue.range()
    for kv in tr.get_range(r.start, r.stop, limit=1):
        return kv
    return None

# --- end of it ---

failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


def value_of(side, i):
    return b"%s %d" % (side, i) + (b"" if i % 3 else b"\x00\xff")


if MODE == "write":
    for i in range(ITEMS):
        enqueue(db, value_of(b"python", i))
    check(True, "queue: Python enqueues")
elif MODE == "check":
    values = [dequeue(db) for _ in range(ITEMS)]
    check(values == [value_of(b"c", i) for i in range(ITEMS)],
          "queue: Python dequeues what C enqueued, in order")
    enqueue(db, value_of(b"python", ITEMS))
else:
    check(dequeue(db) == value_of(b"c", ITEMS), "queue: Python dequeues what C enqueued behind")
    check(dequeue(db) is None, "queue: Python finds it empty")

print("finished")
sys.exit(1 if failures else 0)
