# SPDX-License-Identifier: Apache-2.0
"""
The directory layer of libkeel against the one of FoundationDB's Python binding, in one process
and on one database.

Each random operation is run twice, by Python in one transaction and by libkeel in another, from
the same state. Both must give the same answer or refuse for the same reason, and leave the same
keys behind, byte for byte where no prefix was allocated. Then one of the two is committed, so
that each layer goes on with what the other has written: trees of either are opened, changed and
removed by the other. Opened directories are kept on both sides, also when they are moved or
removed behind their back.

    LD_LIBRARY_PATH=build/lib \\
        python3 tests/layers/directory_differential.py [SEED [OPERATIONS [DATABASE]]]

Needs the package foundationdb 7.x. The default database is :memory:.
"""

import ctypes
import random
import struct
import sys

import fdb

fdb.api_version(740)

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1
OPERATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
DATABASE = sys.argv[3] if len(sys.argv) > 3 else ":memory:"

# ---- libkeel through ctypes ----

keel = ctypes.CDLL("libkeel.so")


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Path(ctypes.Structure):
    _fields_ = [("names", ctypes.POINTER(Bytes)), ("count", ctypes.c_size_t)]


POINTER = ctypes.c_void_p
OUT = ctypes.POINTER(ctypes.c_void_p)
VISITOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Bytes)
for name, types in {
    "create_or_open": [POINTER, POINTER, Path, Bytes, OUT],
    "open": [POINTER, POINTER, Path, Bytes, OUT],
    "open_snapshot": [POINTER, POINTER, Path, Bytes, OUT],
    "create": [POINTER, POINTER, Path, Bytes, ctypes.POINTER(Bytes), OUT],
    "move": [POINTER, POINTER, Path, Path, OUT],
    "move_to": [POINTER, POINTER, Path, OUT],
    "remove": [POINTER, POINTER, Path],
    "remove_if_exists": [POINTER, POINTER, Path, ctypes.POINTER(ctypes.c_int)],
    "exists": [POINTER, POINTER, Path, ctypes.POINTER(ctypes.c_int)],
    "exists_snapshot": [POINTER, POINTER, Path, ctypes.POINTER(ctypes.c_int)],
    "list": [POINTER, POINTER, Path, VISITOR, POINTER],
    "list_snapshot": [POINTER, POINTER, Path, VISITOR, POINTER],
    "prefix": [POINTER, ctypes.POINTER(Bytes)],
}.items():
    function = getattr(keel, "keel_directory_" + name)
    function.argtypes = types
    function.restype = ctypes.c_int
keel.keel_directory_path.argtypes = [POINTER]
keel.keel_directory_path.restype = Path
keel.keel_directory_layer_of.argtypes = [POINTER]
keel.keel_directory_layer_of.restype = Bytes
keel.keel_directory_is_partition.argtypes = [POINTER]
keel.keel_directory_layer_create.argtypes = [Bytes, Bytes, ctypes.c_int, OUT]
keel.keel_directory_root.argtypes = [POINTER]
keel.keel_directory_root.restype = POINTER
keel.keel_error_text.argtypes = [ctypes.c_int]
keel.keel_error_text.restype = ctypes.c_char_p


def to_bytes(value):
    """A keel_bytes, and what must stay alive for it."""
    buffer = ctypes.create_string_buffer(value, len(value) or 1)
    return Bytes(ctypes.cast(buffer, ctypes.c_void_p), len(value)), buffer


def from_bytes(value):
    return ctypes.string_at(value.data, value.length) if value.length else b""


def to_path(names):
    pairs = [to_bytes(name.encode()) for name in names]
    array = (Bytes * max(1, len(pairs)))(*[pair[0] for pair in pairs])
    path = Path(ctypes.cast(array, ctypes.POINTER(Bytes)), len(pairs))
    path.keep = (array, pairs)
    return path


class KeelError(Exception):
    pass


def check(code):
    if code:
        raise KeelError(code)


class KeelDirectory:
    def __init__(self, pointer):
        self.pointer = pointer

    def path(self):
        path = keel.keel_directory_path(self.pointer)
        return tuple(from_bytes(path.names[i]).decode() for i in range(path.count))

    def layer(self):
        return from_bytes(keel.keel_directory_layer_of(self.pointer))

    def key(self):
        prefix = Bytes()
        check(keel.keel_directory_prefix(self.pointer, prefix))
        return from_bytes(prefix)

    def opening(self, function, tr, *arguments):
        result = ctypes.c_void_p()
        check(function(tr.tpointer, self.pointer, *arguments, result))
        return KeelDirectory(result.value)

    def create_or_open(self, tr, path, layer):
        tag, _keep = to_bytes(layer)
        return self.opening(keel.keel_directory_create_or_open, tr, to_path(path), tag)

    def open(self, tr, path, layer, snapshot=False):
        tag, _keep = to_bytes(layer)
        function = keel.keel_directory_open_snapshot if snapshot else keel.keel_directory_open
        return self.opening(function, tr, to_path(path), tag)

    def create(self, tr, path, layer, prefix):
        tag, _keep = to_bytes(layer)
        if prefix is None:
            return self.opening(keel.keel_directory_create, tr, to_path(path), tag, None)
        given, _keep_prefix = to_bytes(prefix)
        return self.opening(keel.keel_directory_create, tr, to_path(path), tag, given)

    def move(self, tr, old, new):
        return self.opening(keel.keel_directory_move, tr, to_path(old), to_path(new))

    def move_to(self, tr, new):
        return self.opening(keel.keel_directory_move_to, tr, to_path(new))

    def remove(self, tr, path):
        check(keel.keel_directory_remove(tr.tpointer, self.pointer, to_path(path)))
        return True

    def flag(self, function, tr, path):
        value = ctypes.c_int(-1)
        check(function(tr.tpointer, self.pointer, to_path(path), value))
        return bool(value.value)

    def remove_if_exists(self, tr, path):
        return self.flag(keel.keel_directory_remove_if_exists, tr, path)

    def exists(self, tr, path, snapshot=False):
        return self.flag(
            keel.keel_directory_exists_snapshot if snapshot else keel.keel_directory_exists,
            tr,
            path,
        )

    def list(self, tr, path, snapshot=False):
        names = []

        def visit(_context, name):
            names.append(from_bytes(name).decode())
            return 0

        function = keel.keel_directory_list_snapshot if snapshot else keel.keel_directory_list
        check(function(tr.tpointer, self.pointer, to_path(path), VISITOR(visit), None))
        return names


def keel_layer(node, content, manual):
    node_bytes, _keep = to_bytes(node)
    content_bytes, _keep_content = to_bytes(content)
    layer = ctypes.c_void_p()
    check(keel.keel_directory_layer_create(node_bytes, content_bytes, manual, layer))
    return KeelDirectory(keel.keel_directory_root(layer))


# ---- Reasons to refuse ----

# Of each code, what the Python layer says.
REASONS = {
    21010: ["at least one byte not equal to 0xFF", "at least one byte not equal to 0xff"],
    21100: ["already exists"],
    21101: ["The directory does not exist", "The source directory does not exist"],
    21102: ["The parent of the destination"],
    21103: ["incompatible layer"],
    21104: ["The root directory cannot be"],
    21105: ["already in use", "manually allocated prefixes"],
    21106: ["has keys stored at the prefix"],
    21107: ["Cannot specify a prefix"],
    21108: ["cannot be a subdirectory"],
    21109: ["Cannot move between partitions"],
    21110: ["Cannot load directory", "unpack requires"],
    21111: ["root of a directory partition"],
    21112: ["is read-only"],
}


def attempt(function):
    """What comes out: ("ok", result) or ("error", what it says)."""
    try:
        return "ok", function()
    except KeelError as error:
        return "error", error.args[0]
    except fdb.FDBError:
        raise
    except Exception as error:
        return "error", str(error)


def agree(python, ours):
    if python[0] != ours[0]:
        return False
    if python[0] == "error":
        return any(reason in python[1] for reason in REASONS.get(ours[1], []))
    if isinstance(python[1], fdb.directory_impl.Directory):
        return same_directory(python[1], ours[1], False)
    return python[1] is None or python[1] == ours[1]


def same_directory(python, ours, with_key):
    same = python.get_path() == ours.path() and (python.get_layer() or b"") == ours.layer()
    return same and (not with_key or attempt_key(python, ours))


def attempt_key(python, ours):
    return agree(attempt(python.key), attempt(ours.key))


# ---- The state ----


def is_allocators(key):
    return b"\x01hca\x00" in key


def image(tr):
    """All keys but those of the allocators."""
    return [(kv.key, kv.value) for kv in tr.get_range(b"", b"\xff") if not is_allocators(kv.key)]


def tree(tr, directory, path=()):
    """All paths with their layers, as Python sees them."""
    found = []
    for name in directory.list(tr, path):
        inner = directory.open(tr, path + (name,))
        found.append((path + (name,), inner.get_layer()))
        found += tree(tr, directory, path + (name,))
    return found


# ---- Random operations ----

rng = random.Random(SEED)
db = fdb.open(DATABASE)
if DATABASE != ":memory:":
    db.clear_range(b"", b"\xff")

roots = []
for node, content, manual in [
    (b"\xfe", b"", False),
    (b"\xfe", b"", True),
    (b"n\x00odes\xff", b"c\x00", True),
]:
    layer = fdb.DirectoryLayer(
        fdb.Subspace(rawPrefix=node), fdb.Subspace(rawPrefix=content), manual
    )
    roots.append((layer, keel_layer(node, content, manual)))
handles = list(roots)


def random_path():
    length = int(rng.random() * rng.random() * 5)
    return tuple(rng.choice(["1", "2", "3", "ü\0", ""]) for _ in range(length))


def random_layer():
    return rng.choice([b"", b"", b"", b"tag", b"\x00\xff", b"partition", b"partition"])


def random_prefix():
    choice = rng.randrange(8)
    if choice < 5:
        return None
    if choice == 5:
        return b"abcdefg"[: rng.randrange(8)]
    if choice == 6:
        return rng.choice(
            [b"\xff", b"\xff\xff", b"\xfe", b"\xfe\x01", b"n", b"n\x00odes\xffx", b"\x15", b"c"]
        )
    return bytes(rng.randrange(256) for _ in range(rng.choice([1, 2, 20, 300, 600])))


def random_operation():
    """A name for messages, the same call for both layers, and whether it may allocate."""
    path, layer, other = random_path(), random_layer(), random_path()
    kind = rng.choice(
        ["create_or_open"] * 4
        + [
            "open",
            "create",
            "create",
            "move",
            "move",
            "move_to",
            "move_to_near",
            "remove",
            "remove_if_exists",
            "exists",
            "list",
            "snapshot",
        ]
    )
    if kind == "create_or_open":
        return (kind, path, layer), lambda d, tr: d.create_or_open(tr, path, layer), True
    if kind == "open":
        return (kind, path, layer), lambda d, tr: d.open(tr, path, layer), False
    if kind == "create":
        prefix = random_prefix()
        return (kind, path, layer, prefix), lambda d, tr: d.create(tr, path, layer, prefix), True
    if kind == "move":
        return (kind, path, other), lambda d, tr: d.move(tr, path, other), False
    if kind == "move_to":
        return (kind, path), lambda d, tr: d.move_to(tr, path), False
    if kind == "move_to_near":

        def near(d, tr):
            own = d.get_path() if isinstance(d, fdb.directory_impl.Directory) else d.path()
            return d.move_to(tr, own[:-1] + path)

        return (kind, path), near, False
    if kind == "remove":
        return (kind, path), lambda d, tr: d.remove(tr, path), False
    if kind == "remove_if_exists":
        return (kind, path), lambda d, tr: d.remove_if_exists(tr, path), False
    if kind == "exists":
        return (kind, path), lambda d, tr: d.exists(tr, path), False
    if kind == "list":
        return (kind, path), lambda d, tr: d.list(tr, path), False

    def snapshots(d, tr):
        if isinstance(d, fdb.directory_impl.Directory):
            return (
                d.exists(tr.snapshot, path),
                d.open(tr.snapshot, path, layer).get_path(),
                d.list(tr.snapshot, path),
            )
        return (
            d.exists(tr, path, True),
            d.open(tr, path, layer, True).path(),
            d.list(tr, path, True),
        )

    return (kind, path, layer), snapshots, False


def fail(what, python, ours):
    print("seed %d: %r\n  Python: %r\n  Keel:   %r" % (SEED, what, python, ours))
    if ours[0] == "error":
        print("          " + keel.keel_error_text(ours[1]).decode())
    sys.exit(1)


def random_damage(tr):
    """Another version of the tree, in one of the layers."""
    node = rng.choice([b"\xfe\x01\xfe\x00", b"n\x00odes\xff\x01n\x00\xffodes\xff\x00"])
    version = rng.choice(
        [
            b"",
            struct.pack("<III", 1, 1, 0),
            struct.pack("<III", 2, 0, 0),
            struct.pack("<III", 0, 0, 5),
        ]
    )
    tr[node + b"\x01version\x00"] = version


def step():
    damaged = rng.random() < 0.05
    what, call, may_allocate = random_operation()
    python_directory, keel_directory = rng.choice(handles if rng.random() < 0.6 else roots)
    one, two = db.create_transaction(), db.create_transaction()
    if damaged:
        state = rng.getstate()
        random_damage(one)
        rng.setstate(state)
        random_damage(two)
    python = attempt(lambda: call(python_directory, one))
    ours = attempt(lambda: call(keel_directory, two))
    what = (python_directory, what)
    # The allocators draw at random, so which prefixes are in the way is not the same for both.
    by_chance = (
        may_allocate
        and "error" in (python[0], ours[0])
        and any(
            result[0] == "error"
            and (result[1] in (21105, 21106) or "automatic prefix allocator" in str(result[1]))
            for result in (python, ours)
        )
    )
    if not agree(python, ours) and not by_chance:
        fail(what, python, ours)
    if by_chance or damaged:
        return python[0]
    images = image(one), image(two)
    if images[0] != images[1]:
        if not may_allocate or len(images[0]) != len(images[1]):
            fail(
                what,
                ("keys", set(images[0]) - set(images[1])),
                ("keys", set(images[1]) - set(images[0])),
            )
        for layer, _ in roots[1:]:
            if tree(one, layer) != tree(two, layer):
                fail(what, ("tree", tree(one, layer)), ("tree", tree(two, layer)))
    (one if rng.random() < 0.5 else two).commit().wait()
    if python[0] == "ok" and isinstance(python[1], fdb.directory_impl.Directory):
        remember(python_directory, keel_directory, python[1])
    return python[0]


def remember(python_directory, keel_directory, opened):
    """Opens what was just written by both, and keeps it."""
    layer, ours = roots[2] if root_of(python_directory) is roots[2][0] else roots[0]
    tr = db.create_transaction()
    path = opened.get_path()
    results = attempt(lambda: layer.open(tr, path)), attempt(lambda: ours.open(tr, path, b""))
    if not agree(*results):
        fail(("opening", path), *results)
    if results[0][0] == "error":
        return  # written through a partition that is gone
    pair = results[0][1], results[1][1]
    if not same_directory(*pair, True):
        fail(
            ("opened", opened),
            ("ok", pair[0]),
            ("ok", (pair[1].path(), pair[1].layer(), pair[1].key())),
        )
    pair[0].root = root_of(python_directory)
    if len(handles) < 40:
        handles.append(pair)
    else:
        handles[rng.randrange(len(roots), 40)] = pair


def root_of(directory):
    return getattr(directory, "root", directory)


outcomes = {}
for _ in range(OPERATIONS):
    outcome = step()
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
final = db.create_transaction()
print(
    "ok - seed %d: %d operations, %s, %d directories at the end"
    % (SEED, OPERATIONS, outcomes, sum(len(tree(final, layer)) for layer, _ in roots[1:]))
)
print("finished")
