# SPDX-License-Identifier: Apache-2.0
"""The priority queue recipe as its document gives it, beside Keel's (tests/recipes/interop_pqueue.c).

    recipe_pqueue.py API_VERSION write DATABASE    pushes ITEMS values: i with priority i * 7 % 11 - 5
    recipe_pqueue.py API_VERSION check DATABASE    pops half from either end, whoever wrote them
    recipe_pqueue.py API_VERSION rest DATABASE     finds it empty

Between the two marks stands the document's code; only fdb.api_version is up here.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])
ITEMS = 220

# --- the document's code ---

import os  # noqa: E402

pq = fdb.Subspace(('P',))

@fdb.transactional
def push(tr, value, priority):
    """Add item with given priority."""
    tr[pq[priority][_next_count(tr, priority)][os.urandom(20)]] = value

@fdb.transactional
def _next_count(tr, priority):
    """Get next count for a priority level (snapshot read for conflict-free)."""
    r = pq[priority].range()
    for key, _ in tr.snapshot.get_range(r.start, r.stop,
                                         limit=1, reverse=True):
        return pq[priority].unpack(key)[0] + 1
    return 0

@fdb.transactional
def pop(tr, max=False):
    """Remove and return min (default) or max priority item."""
    r = pq.range()
    for item in tr.get_range(r.start, r.stop, limit=1, reverse=max):
        del tr[item.key]
        return item.value
    return None

@fdb.transactional
def peek(tr, max=False):
    """Return min (default) or max priority item without removing."""
    r = pq.range()
    for item in tr.get_range(r.start, r.stop, limit=1, reverse=max):
        return item.value
    return None

# Convenience functions
def pop_min(tr): return pop(tr, max=False)
def pop_max(tr): return pop(tr, max=True)
def peek_min(tr): return peek(tr, max=False)
def peek_max(tr): return peek(tr, max=True)

# --- end of it ---

failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


def priority_of(i):
    return i * 7 % 11 - 5


if MODE == "write":
    for i in range(ITEMS):
        push(db, b"python %d" % i, priority_of(i))
    check(True, "pqueue: Python pushes")
elif MODE == "check":
    wanted = [b"c %d" % i for i in sorted(range(ITEMS), key=lambda i: (priority_of(i), i))]
    check(peek_min(db) == wanted[0] and peek_max(db) == wanted[-1],
          "pqueue: Python peeks at what C pushed")
    check([pop_min(db) for _ in range(ITEMS // 2)] == wanted[:ITEMS // 2],
          "pqueue: Python pops from the small end what C pushed")
    check([pop_max(db) for _ in range(ITEMS // 2)] == wanted[:ITEMS // 2 - 1:-1],
          "pqueue: Python pops from the large end what C pushed")
else:
    check(pop_min(db) is None and pop_max(db) is None, "pqueue: Python finds it empty")

print("finished")
sys.exit(1 if failures else 0)
