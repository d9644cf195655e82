# SPDX-License-Identifier: Apache-2.0
"""One half of the interoperation test of the multimap recipe; the other is
tests/recipes/interop_multimap.c.

    recipe_multimap.py API_VERSION write DATABASE     writes with the document's Python code
    recipe_multimap.py API_VERSION check DATABASE     reads with it what is there, whoever wrote it

The functions are those of the data modelling document. Changed for Python 3 alone: '' is b''. The
counted map has no code there: it is written with the binding's own atomic addition.
"""

import struct
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


@fdb.transactional
def multi_set(tr, multi_space, index, value):
    tr[multi_space.pack((index, value))] = b""


@fdb.transactional
def multi_get(tr, multi_space, index):
    pairs = tr[multi_space.range((index,))]
    return [multi_space.unpack(k)[-1] for k, v in pairs]


@fdb.transactional
def multi_is_element(tr, multi_space, index, value):
    val = tr[multi_space.pack((index, value))]
    return val.present()


enroll_space = fdb.Subspace(("enroll",))


@fdb.transactional
def add_class(tr, student, class_name):
    multi_set(tr, enroll_space, student, class_name)


@fdb.transactional
def get_classes(tr, student):
    return multi_get(tr, enroll_space, student)


# --- the set that both programs know ---

STUDENTS, CLASSES = 20, 9
counted = fdb.Subspace(("counted",))


def takes(student, number):
    return (student * 7 + number) % 3 == 0


@fdb.transactional
def add_count(tr, key, value, times):
    tr.add(counted.pack((key, value)), struct.pack("<q", times))


def write():
    for s in range(STUDENTS):
        for c in range(CLASSES):
            if takes(s, c):
                add_class(db, "student %d" % s, "class %d" % c)
    for c in range(CLASSES):
        add_count(db, "words", c, c + 1)
        add_count(db, "words", c, 1)


def check():
    verify(
        all(
            get_classes(db, "student %d" % s)
            == ["class %d" % c for c in range(CLASSES) if takes(s, c)]
            for s in range(STUDENTS)
        ),
        "multimap: the values of each key",
    )
    verify(
        all(
            multi_is_element(db, enroll_space, "student %d" % s, "class %d" % c) == takes(s, c)
            for s in range(STUDENTS)
            for c in range(CLASSES)
        ),
        "multimap: whether a value is there",
    )
    verify(
        [(counted.unpack(k), struct.unpack("<q", v)[0]) for k, v in db[counted.range()]]
        == [(("words", c), c + 2) for c in range(CLASSES)],
        "multimap: counts",
    )


if MODE == "write":
    write()
else:
    check()
print("finished")
sys.exit(failures != 0)
