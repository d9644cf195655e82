# SPDX-License-Identifier: Apache-2.0
"""The spatial index as its document gives it, beside Keel's (tests/recipes/interop_spatial.c).

    recipe_spatial.py API_VERSION write DATABASE     writes the set
    recipe_spatial.py API_VERSION check DATABASE     compares what is there with the set

Between the marks stands the document's code; only fdb.api_version is up here.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

# --- the document's code ---

label_z = fdb.Subspace(('L',))  # label -> z-value
z_label = fdb.Subspace(('Z',))  # z-value -> label

def xy_to_z(x, y):
    """Convert 2D coordinates to Z-order value (Morton code).

    Interleaves bits of x and y to create a single value
    that preserves spatial locality.
    """
    z = 0
    for i in range(32):
        z |= ((x >> i) & 1) << (2 * i)
        z |= ((y >> i) & 1) << (2 * i + 1)
    return z

def z_to_xy(z):
    """Convert Z-order value back to 2D coordinates."""
    x = y = 0
    for i in range(32):
        x |= ((z >> (2 * i)) & 1) << i
        y |= ((z >> (2 * i + 1)) & 1) << i
    return x, y

@fdb.transactional
def set_location(tr, label, x, y):
    """Set or update an item's location."""
    # Remove old location if it exists
    old_z = None
    for k, _ in tr[label_z[label].range()]:
        old_z = label_z.unpack(k)[1]
        break

    if old_z is not None:
        del tr[label_z[label][old_z]]
        del tr[z_label[old_z][label]]

    # Set new location
    new_z = xy_to_z(x, y)
    tr[label_z[label][new_z]] = b''
    tr[z_label[new_z][label]] = b''

@fdb.transactional
def get_location(tr, label):
    """Get an item's current location."""
    for k, _ in tr[label_z[label].range()]:
        z = label_z.unpack(k)[1]
        return z_to_xy(z)
    return None

@fdb.transactional
def get_in_box(tr, x_min, y_min, x_max, y_max):
    """Find all labels within a bounding box.

    Note: Z-order ranges are an approximation. Some false positives
    outside the box may be returned and need filtering.
    """
    results = []
    z_min = xy_to_z(x_min, y_min)
    z_max = xy_to_z(x_max, y_max)

    # Scan the Z-range and filter to exact box
    for k, _ in tr[z_label[z_min] : z_label[z_max + 1]]:
        z, label = z_label.unpack(k)
        x, y = z_to_xy(z)
        if x_min <= x <= x_max and y_min <= y <= y_max:
            results.append((label, x, y))
    return results

# --- end of it ---

# The same set as in interop_spatial.c: each label is set twice, so that it has moved.
LABELS = 300
LARGEST = 2**32 - 1
BOXES = [(0, 0, LARGEST, LARGEST - 1), (100, 100, 50000, 70000), (0, 0, 0, 0),
         (2**31 - 100000, 2**31 - 100000, 2**31 + 100000, 2**31 + 100000)]

failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


def place(i):
    if i == 0:
        return 0, 0
    if i == 1:
        return LARGEST, LARGEST
    x, y = i * 2654435761 % 2**32, i * 40503 * 65599 % 2**32
    if i % 3 == 0:
        return x % 100000, y % 100000
    if i % 3 == 1:
        return 2**31 - 50000 + x % 100000, 2**31 - 50000 + y % 100000
    return x, y


def name(i):
    return "label %d" % i if i % 2 else "\u00e9%d" % i


def inside(box):
    return sorted((name(i),) + place(i) for i in range(LABELS)
                  if box[0] <= place(i)[0] <= box[2] and box[1] <= place(i)[1] <= box[3])


if MODE == "write":
    for i in range(LABELS):
        set_location(db, name(i), *place(i + 7))
    for i in range(LABELS):
        set_location(db, name(i), *place(i))
    check(True, "spatial: Python writes")
else:
    check(all(get_location(db, name(i)) == place(i) for i in range(LABELS)),
          "spatial: Python finds every label")
    check(get_location(db, "nowhere") is None, "spatial: Python finds no other")
    for number, box in enumerate(BOXES):
        check(sorted(get_in_box(db, *box)) == inside(box), "spatial: Python's box %d" % number)
    check(len(list(db[label_z.range()])) == LABELS, "spatial: one row a label")
    check(len(list(db[z_label.range()])) == LABELS, "spatial: one row a place")

print("finished")
sys.exit(1 if failures else 0)
