# SPDX-License-Identifier: Apache-2.0
"""One half of the interoperation test; the other is tests/layers/interop.c.

    layers_interop.py API_VERSION write DATABASE     writes the set
    layers_interop.py API_VERSION check DATABASE     compares what is there with the set

The tuple, subspace and directory layers here are the official binding's, in C they are Keel's.
Both programs know the same set of tuples, versionstamps, subspaces and directories, partly a list,
partly drawn from a generator that is the same in both: a change here is a change there. `check`
also creates directories in the trees it finds, or checks those if it did before. One line a check,
then `finished`.
"""

import struct
import sys
import uuid

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

from fdb.tuple import SingleFloat, Versionstamp  # noqa: E402

RANDOM_CASES = 500
MANY = 70
MORE = 10
STAMPS = 3
SIDE = "python"
OTHER = "c"

failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


# --- the tuples ---

WIDEST = (1 << 64) - 1  # the bindings pack it in two ways, so only its value is compared
INFINITY = float("inf")
NAN = float("nan")


def listed():
    counting = uuid.UUID(bytes=bytes(range(16)))
    yield ()
    yield (None,)
    yield (None, None)
    yield (b"",)
    yield (b"\x00",)
    yield (b"\x00\xff\x00",)
    yield ("",)
    yield ("F\u00d4O\x00bar",)
    yield ("\U0001f600\uffff\u7fff",)
    yield ((),)
    yield ((None,),)
    yield (("a", None, b"\x00"), None, ((),))
    yield (((((1,),),),),)
    yield (True,)
    yield (False,)
    yield (counting,)
    yield (Versionstamp(bytes(range(10)), 0x0201),)
    yield ("users", 42, 3.5, None, True, counting, (1, (2, None)))


def numbers():
    for value in (0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 3.14, 2.0**-149, -(2.0**-149)):
        yield (SingleFloat(value),)
    yield (SingleFloat((2 - 2.0**-23) * 2.0**127),)
    for value in (0.0, -0.0, 1.5, -1.5, INFINITY, -INFINITY, NAN, 3.14, 5e-324, -5e-324):
        yield (value,)
    yield (sys.float_info.max,)


def integers():
    for size in range(10):
        for delta in (-1, 0, 1):
            value = (1 << 8 * size) + delta
            if value != WIDEST:
                yield (value,)
                yield (-value,)
    for bits in (31, 63):
        yield ((1 << bits) - 1,)
        yield (-(1 << bits),)
    yield (-(1 << 63), (1 << 63) - 1, (1 << 64) - 2, 7, 65535)
    yield ((1 << 2040) - 1,)
    yield (-((1 << 2040) - 1),)


class Generator:
    """The same numbers as the generator in interop.c, in the same order."""

    CHARACTERS = "aZ\x7f\x80\xff\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"

    def __init__(self):
        self.state = 7

    def draw(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        return self.state >> 33

    def draw_64(self):
        high, middle, low = self.draw(), self.draw(), self.draw()
        return (high << 33 ^ middle << 11 ^ low) & (1 << 64) - 1

    def bytes(self, count):
        drawn = [self.draw() for _ in range(count)]
        return bytes(0 if number % 4 == 0 else (number >> 2) & 0xFF for number in drawn)

    def string(self):
        return "".join(self.CHARACTERS[self.draw() % 12] for _ in range(self.draw() % 8))

    def integer(self):
        bits = self.draw_64()
        value = bits >> self.draw() % 64
        return -value if self.draw() % 2 else value

    def big(self):
        magnitude = bytearray(self.bytes(9 + self.draw() % 247))
        magnitude[0] |= 1
        value = int.from_bytes(magnitude, "big")
        return -value if self.draw() % 2 else value

    def float(self):
        bits = self.draw_64() & 0xFFFFFFFF
        if bits & 0x7F800000 == 0x7F800000:
            bits &= 0xFF800000
        return SingleFloat(struct.unpack(">f", struct.pack(">I", bits))[0])

    def double(self):
        bits = self.draw_64()
        if bits & 0x7FF0000000000000 == 0x7FF0000000000000:
            bits &= 0xFFF0000000000000
        return struct.unpack(">d", struct.pack(">Q", bits))[0]

    def element(self, depth):
        kind = self.draw() % (11 if depth < 3 else 10)
        if kind == 0:
            return None
        if kind == 1:
            return self.bytes(self.draw() % 12)
        if kind == 7:
            return bool(self.draw() % 2)
        if kind == 8:
            return uuid.UUID(bytes=self.bytes(16))
        if kind == 9:
            return Versionstamp.from_bytes(self.bytes(12))
        if kind == 10:
            return self.tuple(4, depth + 1)
        return (self.string, self.integer, self.big, self.float, self.double)[kind - 2]()

    def tuple(self, below, depth):
        return tuple(self.element(depth) for _ in range(self.draw() % below))


generator = Generator()
CASES = list(listed()) + list(numbers()) + list(integers())
CASES += [generator.tuple(6, 0) for _ in range(RANDOM_CASES)]
PACKED = [fdb.tuple.pack(case) for case in CASES]
NAN_CASES = [i for i, case in enumerate(CASES) if repr(case) in ("(nan,)", "(SingleFloat(nan),)")]

INTEROP = fdb.Subspace(("interop",))
VALUES = INTEROP["value"]
KEYS = INTEROP["key"]


@fdb.transactional
def write_tuples(tr):
    for i, case in enumerate(CASES):
        tr[VALUES[i]] = PACKED[i]
        tr[KEYS.pack(case)] = fdb.tuple.pack((i,))
    tr[INTEROP["widest"]] = fdb.tuple.pack((WIDEST, -WIDEST))


@fdb.transactional
def check_tuples(tr):
    rows = [(VALUES.unpack(row.key), bytes(row.value)) for row in tr[VALUES.range()]]
    check(len(rows) == len(CASES), "as many tuples as the set has")
    wanted = [((i,), packed) for i, packed in enumerate(PACKED)]
    check(rows == wanted, "every tuple has the same bytes")
    unpacked = [fdb.tuple.unpack(value) for _, value in rows]
    differing = [i for i, case in enumerate(unpacked) if case != CASES[i]]
    check(set(differing) <= set(NAN_CASES), "every tuple has the same elements")

    rows = [(bytes(row.key), fdb.tuple.unpack(row.value)[0]) for row in tr[KEYS.range()]]
    prefix = len(KEYS.key())
    agreed = all(key[prefix:] == PACKED[i] for key, i in rows)
    distinct = set(PACKED) - {b""}  # the empty tuple's key is the subspace's own, not in its range
    check(
        agreed and len(rows) == len(distinct),
        "every key unpacks into the tuple of its number",
    )
    tuples = [CASES[i] for _, i in rows]
    ordered = all(fdb.tuple.compare(a, b) < 0 for a, b in zip(tuples, tuples[1:]))
    check(ordered, "keys are in the order of their tuples")
    widest = fdb.tuple.unpack(bytes(tr[INTEROP["widest"]]))
    check(widest == (WIDEST, -WIDEST), "the widest integers of 64 bits unpack")


# --- versionstamps ---


def write_versionstamps():
    tr = db.create_transaction()
    for user in range(STAMPS):
        key = INTEROP.pack_with_versionstamp(("stamped", Versionstamp(user_version=user), "x"))
        tr.set_versionstamped_key(key, fdb.tuple.pack((user,)))
    key = INTEROP.pack_with_versionstamp(("nested", ("in", None, Versionstamp(user_version=700))))
    tr.set_versionstamped_key(key, fdb.tuple.pack((700,)))
    value = fdb.tuple.pack_with_versionstamp(("v", Versionstamp(user_version=9)))
    tr.set_versionstamped_value(INTEROP["stampvalue"], value)
    stamp = tr.get_versionstamp()
    tr.commit().wait()
    db[INTEROP["stamp"]] = stamp.wait()


@fdb.transactional
def check_versionstamps(tr):
    stamp = bytes(tr[INTEROP["stamp"]])
    rows = [(INTEROP.unpack(row.key), bytes(row.value)) for row in tr[INTEROP["stamped"].range()]]
    wanted = [
        (("stamped", Versionstamp(stamp, user), "x"), fdb.tuple.pack((user,)))
        for user in range(STAMPS)
    ]
    check(len(stamp) == 10, "the versionstamp has ten bytes")
    check(rows == wanted, "versionstamps in keys")
    nested = tr[INTEROP.pack(("nested", ("in", None, Versionstamp(stamp, 700))))]
    check(nested == fdb.tuple.pack((700,)), "a versionstamp in a nested tuple")
    value = fdb.tuple.unpack(bytes(tr[INTEROP["stampvalue"]]))
    check(value == ("v", Versionstamp(stamp, 9)), "a versionstamp in a value")


# --- a subspace with a raw prefix ---

RAW = fdb.Subspace(("a", 1), rawPrefix=b"\x01raw\x00")


@fdb.transactional
def write_raw(tr):
    tr[RAW] = b"root"
    tr[RAW["x"][2]] = b"x2"
    tr[RAW.pack((None,))] = b"null"


@fdb.transactional
def check_raw(tr):
    check(tr[RAW] == b"root", "the subspace's own key")
    rows = [(RAW.unpack(row.key), bytes(row.value)) for row in tr[RAW.range()]]
    wanted = [((None,), b"null"), (("x", 2), b"x2")]
    check(rows == wanted, "the range of a subspace with a raw prefix")


# --- directories ---

TREE = [
    (("app",), b""),
    (("app", "users"), b"table"),
    (("app", "gr\u00f6\u00dfe \u2603"), b""),
    (("part",), b"partition"),
    (("part", "inner", "deep"), b"x"),
    (("part", "sub"), b"partition"),
    (("part", "sub", "leaf"), b""),
    (("app", "moved"), b""),
    (("part", "new"), b"moving"),
]
TREE += [(("many", str(i)), b"") for i in range(MANY)]
ALTERNATIVE = fdb.DirectoryLayer(
    fdb.Subspace(rawPrefix=b"\x03nodes"), fdb.Subspace(rawPrefix=b"\x03content"), True
)


def joined(path):
    return "/".join(path).encode("utf-8")


def fill(tr, directory):
    if directory.get_layer() != b"partition":
        tr[directory.pack(("path",))] = joined(directory.get_path())


@fdb.transactional
def write_directories(tr):
    fdb.directory.create(tr, ("app", "tmp"))
    fdb.directory.move(tr, ("app", "tmp"), ("app", "moved"))
    fdb.directory.create(tr, ("part",), layer=b"partition")
    fdb.directory.create(tr, ("part", "old"), layer=b"moving")
    fdb.directory.move(tr, ("part", "old"), ("part", "new"))
    fdb.directory.create(tr, ("app", "gone", "child"))
    fdb.directory.remove(tr, ("app", "gone"))
    for path, layer in TREE:
        fill(tr, fdb.directory.create_or_open(tr, path, layer=layer))
    fill(tr, ALTERNATIVE.create_or_open(tr, ("x", "y"), layer=b"alt"))
    fill(tr, ALTERNATIVE.create(tr, ("manual",), prefix=b"\x03manual"))


def look(tr, root, path, layer):
    """Whether the directory has its layer, path and contents; and its prefix."""
    try:
        directory = root.open(tr, path, layer=layer)
    except ValueError as error:
        print(path, error)
        return False, None
    if directory.get_layer() != layer or tuple(directory.get_path()) != tuple(path):
        print(path, directory.get_layer(), directory.get_path())
        return False, None
    if layer == b"partition":
        return True, None
    return tr[directory.pack(("path",))] == joined(path), directory.key()


@fdb.transactional
def check_directories(tr):
    seen = [look(tr, fdb.directory, path, layer) for path, layer in TREE]
    others = [
        look(tr, ALTERNATIVE, ("x", "y"), b"alt"),
        look(tr, ALTERNATIVE, ("manual",), b""),
    ]
    check(
        all(holds for holds, _ in seen + others),
        "every directory has its layer, its path and its contents",
    )
    names = [name for name in fdb.directory.list(tr, ("many",)) if not name.startswith("by-")]
    check(names == sorted(str(i) for i in range(MANY)), "a directory lists its children")
    prefixes = sorted(prefix for _, prefix in seen if prefix is not None)
    free = all(not b.startswith(a) for a, b in zip(prefixes, prefixes[1:]))
    check(free, "no prefix begins with another")
    absent = [("app", "tmp"), ("part", "old"), ("app", "gone")]
    check(
        not any(fdb.directory.exists(tr, path) for path in absent),
        "what was moved or removed is not there",
    )
    check(sorted(fdb.directory.list(tr)) == ["app", "many", "part"], "the root lists its children")
    try:
        fdb.directory.open(tr, ("app", "users"), layer=b"other")
        check(False, "another layer is refused")
    except ValueError:
        check(True, "another layer is refused")


def additions(who):
    for i in range(MORE):
        yield fdb.directory, ("many", "by-%s-%d" % (who, i))
    yield fdb.directory, ("app", "users", "by-%s-%d" % (who, MORE))
    yield fdb.directory, ("part", "sub", "by-%s-%d" % (who, MORE + 1))
    yield ALTERNATIVE, ("x", "by-%s-%d" % (who, MORE + 2))


@fdb.transactional
def check_additions(tr):
    if fdb.directory.exists(tr, ("many", "by-%s-0" % OTHER)):
        seen = [look(tr, root, path, b"extended") for root, path in additions(OTHER)]
        check(all(holds for holds, _ in seen), "the other side's additions")
    for root, path in additions(SIDE):
        fill(tr, root.create_or_open(tr, path, layer=b"extended"))
    seen = [look(tr, root, path, b"extended") for root, path in additions(SIDE)]
    check(all(holds for holds, _ in seen), "directories of our own in the tree")


# --- the two modes ---

STEPS = {
    "write": [write_tuples, write_raw, write_directories],
    "check": [check_tuples, check_versionstamps, check_raw, check_directories, check_additions],
}

for step in STEPS[MODE]:
    step(db)
if MODE == "write":
    write_versionstamps()
    check(True, "written")
print("finished")
sys.exit(failures != 0)
