# SPDX-License-Identifier: Apache-2.0
"""Counters, beside tests/recipes/interop_counter.c.

    recipe_counter.py API_VERSION write|check DATABASE

The lines that add and the function that sums are those of the best practices, as they stand there,
in functions that give them an amount.
"""

import random
import struct
import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

NUM_SHARDS = 7
counter_subspace = fdb.Subspace(('counter',))


@fdb.transactional
def add(tr, amount):
    tr.add(b'global_counter', struct.pack('<q', amount))


@fdb.transactional
def add_sharded(tr, amount):
    shard = random.randint(0, NUM_SHARDS - 1)
    tr.add(counter_subspace.pack((shard,)), struct.pack('<q', amount))


# ---- from the documents ----

# To read total, sum all shards (can use snapshot for approximate)
def get_counter(tr):
    total = 0
    for k, v in tr.snapshot[counter_subspace.range()]:
        total += struct.unpack('<q', v)[0]
    return total

# ---- end of it ----

ADDITIONS = 500
failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


@fdb.transactional
def write(tr):
    for i in range(ADDITIONS):
        add(tr, i % 3 - 2)
        add_sharded(tr, i)


@fdb.transactional
def verify(tr):
    check(struct.unpack('<q', tr[b'global_counter'][:])[0] ==
          sum(i % 3 - 2 for i in range(ADDITIONS)), "counter in Python: of one key")
    check(get_counter(tr) == sum(range(ADDITIONS)), "counter in Python: the sum of the shards")


write(db) if MODE == "write" else verify(db)
print("finished")
sys.exit(failures != 0)
