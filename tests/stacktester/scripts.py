# SPDX-License-Identifier: Apache-2.0
"""Random programs for the stack machine, by seed.

A program is a `Script`: instructions by thread, a prefix each, and what to look at afterwards. What
it pushes must not depend on anything but the program: so reads are waited for before their
transaction ends, versions and versionstamps are never logged (only what is found with them), and
prefixes that the allocator chose are stripped.

Rows under `RESULTS` are compared byte for byte; `STAMPED` and `PREFIX_LOG` have checks of their own
in harness.py. KINDS maps names to functions from a random.Random to a Script. The random.Random has
an attribute more, api_version.
"""

import math
import struct
import uuid

import fdb
import fdb.tuple

RESULTS = fdb.Subspace(("results",))
WORKSPACE = RESULTS["workspace"]
STACK = RESULTS["stack"]
DIRECTORY_LOG = RESULTS["directories"]
SUBSPACE_LOG = RESULTS["subspaces"]
STAMPED = fdb.Subspace(("stamped",))
STAMPED_VALUES = STAMPED["values"]
STAMPED_KEYS = STAMPED["keys"]
PREFIX_LOG = fdb.Subspace(("prefixes",))
BARRIERS = fdb.Subspace(("barriers",))
MAIN = b"main"
UNSET = b"\xff" * 10
EXCEPTION = 2**64 - 1  # the Python binding alone packs it, and its negative, longer than need be


class Script:
    def __init__(self, rng):
        self.rng = rng
        self.threads = {MAIN: []}
        self.code = self.threads[MAIN]
        self.depth = 0  # of the main thread's stack
        self.pending = []  # depths at which futures may lie
        self.directories = []  # (path, layer) to be there beforehand
        self.tree = False  # whether directory trees are compared
        self.prefixes = False  # whether the prefix log is checked

    def push(self, *items):
        """The first item is popped first."""
        for item in reversed(items):
            self.code.append(("PUSH", item))
            self.depth += 1

    def op(self, name, pops=0, pushes=0, future=False):
        self.code.append((name,))
        self.depth += pushes - pops
        self.pending = [depth for depth in self.pending if depth < self.depth]
        if future:
            self.pending.append(self.depth - 1)

    def call(self, name, *items, pushes=0, future=False):
        self.push(*items)
        self.op(name, len(items), pushes, future)

    def settle(self):
        """Waits for every future on the stack, where it lies."""
        for depth in self.pending:
            distance = self.depth - 1 - depth
            if distance:
                self.call("SWAP", distance)
            self.op("WAIT_FUTURE")
            if distance:
                self.call("SWAP", distance)
        self.pending = []

    def commit(self, version=True):
        self.settle()
        self.op("COMMIT", pushes=1)
        self.op("WAIT_FUTURE")
        self.op("RESET")
        if version:  # so that what it conflicts with depends on nothing else
            self.op("GET_READ_VERSION", pushes=1)

    def finish(self):
        self.settle()
        self.call("LOG_STACK", STACK.key())

    def chance(self, probability):
        return self.rng.random() < probability


# --- random data ---


def random_bytes(rng, length_max):
    alphabet = rng.choice([range(256), (0, 1, 0xFE, 0xFF), b"abc"])
    return bytes(rng.choice(alphabet) for _ in range(rng.randint(0, length_max)))


def random_text(rng, length_max):
    alphabet = rng.choice(["abc", "\0\x01a\xff", "é漢\U0001f600\uffff\ud7ff\ue000\U0010ffff"])
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(0, length_max)))


def random_int(rng):
    bits = rng.choice([0, 1, 7, 8, 15, 16, 31, 32, 62, 63, 64, 65, 100, 255, 1000, 2039, 2040])
    number = rng.choice([(1 << bits) + rng.randint(-2, 2), rng.getrandbits(bits) if bits else 0])
    number = max(-(2**2040) + 1, min(2**2040 - 1, number * rng.choice([1, -1])))
    return number // 2 if abs(number) == EXCEPTION else number


def random_double(rng):
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -2.2250738585072014e-308, 1.5]
    if rng.random() < 0.3:
        return rng.choice(special)
    return rng.choice([1, -1]) * rng.random() * 2.0 ** rng.randint(-1074, 1000)


def random_float(rng):
    number = rng.choice([0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, rng.uniform(-1e30, 1e30)])
    return fdb.tuple.SingleFloat(struct.unpack(">f", struct.pack(">f", number))[0])


def random_stamp(rng, incomplete=0.0):
    version = UNSET if rng.random() < incomplete else bytes(rng.randint(0, 254) for _ in range(10))
    return fdb.tuple.Versionstamp(version, rng.randint(0, 65535))


def random_element(rng, depth=2, incomplete=0.0):
    kind = rng.randrange(11 if depth else 9)
    if kind == 0:
        return None
    if kind == 1:
        return random_bytes(rng, 40)
    if kind == 2:
        return random_text(rng, 20)
    if kind in (3, 4):
        return random_int(rng)
    if kind == 5:
        return random_float(rng)
    if kind == 6:
        return random_double(rng)
    if kind == 7:
        return rng.random() < 0.5
    if kind == 8:
        return uuid.UUID(int=rng.getrandbits(128))
    if kind == 9:
        return random_stamp(rng, incomplete)
    return random_tuple(rng, 4, depth - 1, incomplete)


def random_tuple(rng, count_max, depth=2, incomplete=0.0):
    return tuple(random_element(rng, depth, incomplete) for _ in range(rng.randint(0, count_max)))


def count_incomplete(items):
    count = 0
    for item in items:
        if isinstance(item, tuple):
            count += count_incomplete(item)
        elif isinstance(item, fdb.tuple.Versionstamp):
            count += not item.is_complete()
    return count


# --- tuples ---


def tuple_instruction(script):
    rng = script.rng
    kind = rng.randrange(10)
    items = random_tuple(rng, 6)
    if kind == 0:
        script.call("TUPLE_PACK", len(items), *items, pushes=1)
    elif kind == 1:
        script.call("TUPLE_PACK", len(items), *items, pushes=1)
        script.op("TUPLE_UNPACK", 1, len(items))
    elif kind == 2:
        script.call("TUPLE_RANGE", len(items), *items, pushes=2)
    elif kind == 3:
        tuples = [random_tuple(rng, 4) for _ in range(rng.randint(1, 10))]
        tuples += [t[:-1] for t in tuples[:3] if t]
        for packed in tuples:
            script.call("TUPLE_PACK", len(packed), *packed, pushes=1)
        script.call("TUPLE_SORT", len(tuples))
    elif kind == 4:
        left, right = random_int(rng) // 2, random_int(rng) // 2
        if abs(left - right) != EXCEPTION:
            script.call("SUB", left, right, pushes=1)
    elif kind == 5:
        make = rng.choice([random_bytes, random_text])
        script.call("CONCAT", make(rng, 9), make(rng, 9), pushes=1)
    elif kind == 6:
        script.call("ENCODE_DOUBLE", struct.pack(">d", random_double(rng)), pushes=1)
        script.call("DECODE_DOUBLE", random_double(rng), pushes=1)
    elif kind == 7:
        script.call("ENCODE_FLOAT", struct.pack(">f", random_float(rng).value), pushes=1)
        script.call("DECODE_FLOAT", random_float(rng), pushes=1)
    else:
        items = random_tuple(rng, 5, incomplete=0.4)
        pushes = 2 if count_incomplete(items) == 1 else 1
        prefix = random_bytes(rng, 9)
        script.call("TUPLE_PACK_WITH_VERSIONSTAMP", prefix, len(items), *items, pushes=pushes)


def tuple_script(rng):
    script = Script(rng)
    script.op("NEW_TRANSACTION")
    for _ in range(120):
        tuple_instruction(script)
    script.finish()
    return script


# --- reads and writes ---

ATOMIC = "ADD BIT_AND BIT_OR BIT_XOR MAX MIN BYTE_MAX BYTE_MIN APPEND_IF_FITS COMPARE_AND_CLEAR"
READS = ("GET", "GET_KEY", "GET_RANGE", "GET_RANGE_STARTS_WITH", "GET_RANGE_SELECTOR")
WRITES = ("SET", "SET", "SET", "CLEAR", "CLEAR_RANGE", "CLEAR_RANGE_STARTS_WITH", "ATOMIC_OP")
NAMES = (b"one", b"two", b"three")


def random_key(rng):
    return WORKSPACE.pack(tuple(rng.randint(0, 9) for _ in range(rng.randint(1, 2))))


def random_span(rng):
    return sorted([random_key(rng), random_key(rng)])


def range_parameters(rng, suffix):
    limit = rng.choice([0, 1, 2, rng.randint(3, 30), 2**31 - 1])
    reverse = rng.randint(0, 1)
    if not suffix and getattr(rng, "old_cluster", False):
        reverse = 0  # 6.3 takes all of the range for read, where a limit ended it before
    return limit, reverse, rng.randint(-2, 4)


def selector(rng):
    return random_key(rng), rng.randint(0, 1), rng.choice([0, 1, rng.randint(-9, 9), 60, -60])


def read(script, name, suffix):
    rng = script.rng
    future = name == "GET" and suffix != "_DATABASE"
    if name == "GET":
        items = (random_key(rng),)
    elif name == "GET_KEY":
        items = selector(rng) + (WORKSPACE.key(),)
    elif name == "GET_RANGE":
        items = tuple(random_span(rng)) + range_parameters(rng, suffix)
    elif name == "GET_RANGE_STARTS_WITH":
        items = (random_key(rng),) + range_parameters(rng, suffix)
    else:
        items = selector(rng) + selector(rng) + range_parameters(rng, suffix) + (WORKSPACE.key(),)
    script.call(name + suffix, *items, pushes=1, future=future)


def write(script, name, suffix):
    rng = script.rng
    if name == "SET":
        items = (random_key(rng), random_bytes(rng, 20))
    elif name == "CLEAR_RANGE":
        items = tuple(random_span(rng))
    elif name == "ATOMIC_OP":
        operation = rng.choice(ATOMIC.split())
        if not suffix and getattr(rng, "on_cluster", False) and operation == "COMPARE_AND_CLEAR":
            operation = "BYTE_MAX"  # selectors of its ranges would count the key: docs/differences.md
        items = (operation, random_key(rng), random_bytes(rng, 9))
    else:
        items = (random_key(rng),)
    if suffix:
        script.settle()
    script.call(name + suffix, *items, pushes=1 if suffix else 0)


def offset(api_version, position):
    return struct.pack("<H" if api_version < 520 else "<L", position)


def versionstamps(script):
    """A stamped key and value that name each other, and the stamp itself, to find them."""
    rng, api = script.rng, script.rng.api_version
    name = rng.randbytes(12)
    key = STAMPED_KEYS.key()
    script.call(
        "ATOMIC_OP", "SET_VERSIONSTAMPED_KEY", key + UNSET + name + offset(api, len(key)), name
    )
    value = UNSET + name + (offset(api, 0) if api >= 520 else b"")
    script.call("ATOMIC_OP", "SET_VERSIONSTAMPED_VALUE", STAMPED_VALUES.pack((name,)), value)
    if script.chance(0.5):
        return
    script.push(name)
    script.settle()
    script.op("GET_VERSIONSTAMP", pushes=1)  # not settled: it is waited for after the commit
    script.op("COMMIT", pushes=1)
    script.op("WAIT_FUTURE")
    script.op("RESET")
    script.op("POP", 1)
    script.call("CONCAT", key)  # key + stamp, whatever a failed commit made of it
    script.op("CONCAT", 2, 1)
    script.op("GET_DATABASE", 1, 1)
    script.op("GET_READ_VERSION", pushes=1)


def conflict(script):
    rng = script.rng
    kind = rng.choice(["READ", "WRITE"])
    if script.chance(0.5):
        script.call(kind + "_CONFLICT_KEY", random_key(rng), pushes=1)
    else:
        begin, end = random_key(rng), random_key(rng)  # in any order: inverted is an error
        script.call(kind + "_CONFLICT_RANGE", begin, end, pushes=1)


def renew(script):
    script.op("NEW_TRANSACTION")
    script.op("GET_READ_VERSION", pushes=1)


def life(script):
    rng = script.rng
    kind = rng.randrange(9)
    if kind == 0:
        script.settle()
        renew(script)
    elif kind == 1:
        script.settle()
        code = rng.choice([1007, 1020, 1021, 1025, 1031, 2000, 2101, 0])
        script.call("ON_ERROR", code, pushes=1, future=True)
        script.settle()
        renew(script)
    elif kind == 2:
        script.settle()
        script.op("CANCEL")
        read(script, "GET", "")
        script.commit()
    elif kind == 3:
        script.settle()
        script.op("RESET")
        script.op("GET_READ_VERSION", pushes=1)
    elif kind == 4:
        script.settle()
        script.op("COMMIT", pushes=1)
        script.op("WAIT_FUTURE")
        script.op("GET_COMMITTED_VERSION", pushes=1)
        script.op("RESET")
        script.op("GET_READ_VERSION", pushes=1)
    elif kind == 5:
        script.op("GET_READ_VERSION_SNAPSHOT", pushes=1)
        script.settle()
        script.op("NEW_TRANSACTION")
        script.op("SET_READ_VERSION")
    elif kind == 6:
        script.op("GET_APPROXIMATE_SIZE", pushes=1)
    elif kind == 7 and rng.api_version >= 630:
        begin, end = random_span(rng)
        script.call("GET_ESTIMATED_RANGE_SIZE", begin, end + b"\0", pushes=1)
        if rng.api_version >= 700:
            script.call("GET_RANGE_SPLIT_POINTS", begin, end + b"\0", 10000000, pushes=1)
    else:
        script.op("DISABLE_WRITE_CONFLICT")
        write(script, "SET", "")


def stack_instruction(script):
    rng = script.rng
    kind = rng.randrange(4)
    if kind == 0:
        script.op("DUP", pushes=1)
        if script.depth - 2 in script.pending:
            script.pending.append(script.depth - 1)
    elif kind == 1 and script.depth > 3:
        script.settle()
        script.call("SWAP", rng.randint(0, script.depth - 1))
    elif kind == 2 and script.depth > 3:
        script.op("POP", 1)
    else:
        tuple_instruction(script)


def api_instruction(script):
    rng = script.rng
    choice = rng.random()
    if choice < 0.35:
        read(script, rng.choice(READS), rng.choice(["", "", "_SNAPSHOT", "_DATABASE"]))
    elif choice < 0.65:
        write(script, rng.choice(WRITES), rng.choice(["", "", "", "_DATABASE"]))
    elif choice < 0.73:
        script.commit()
    elif choice < 0.80:
        script.call("USE_TRANSACTION", rng.choice(NAMES))
    elif choice < 0.85:
        conflict(script)
    elif choice < 0.90:
        life(script)
    elif choice < 0.93:
        versionstamps(script)
    else:
        stack_instruction(script)


def api_script(rng):
    script = Script(rng)
    for name in NAMES:
        script.call("USE_TRANSACTION", name)
        for _ in range(30):
            write(script, "SET", "")
        script.commit()
    script.op("NEW_TRANSACTION")
    for _ in range(250):
        api_instruction(script)
    for name in NAMES:
        script.call("USE_TRANSACTION", name)
        script.commit()
    script.finish()
    return script


# --- directories ---


class DirectoryScript(Script):
    def __init__(self, rng):
        super().__init__(rng)
        self.tree = True
        self.entries = []  # dictionaries: kind, known (prefix), partition (maybe)
        self.serial = 0
        self.append("layer")

    def append(self, kind, known=False, partition=False):
        self.entries.append({"kind": kind, "known": known, "partition": partition})
        return len(self.entries) - 1

    def removed(self):
        """A partition that may be gone is not used again: its allocator would start anew."""
        for entry in self.entries:
            if entry["partition"]:
                entry["kind"] = "lost"

    def change(self, index):
        self.call("DIRECTORY_CHANGE", index)
        self.current = self.entries[index]


def random_path(rng, shortest=0):
    return tuple(rng.choice(["a", "b", "c", "", "é"]) for _ in range(rng.randint(shortest, 3)))


def random_layer(rng):
    return rng.choice([None, None, b"", b"", b"red", b"blue"])


def with_count(items):
    return (len(items),) + tuple(items)


def create_directory(script, suffix):
    rng = script.rng
    if script.chance(0.5):
        script.call(
            "DIRECTORY_CREATE_OR_OPEN" + suffix, *with_count(random_path(rng)), random_layer(rng)
        )
        script.append("directory", partition=True)
        return
    script.serial += 1
    partition = script.chance(0.25)
    manual = partition or script.chance(0.3)
    prefix = (
        b"m%d-" % script.serial
        if partition or script.chance(0.7)
        else rng.choice([b"m", b"n", b"na", b""])
    )
    layer = b"partition" if partition else random_layer(rng)
    path = with_count(random_path(rng))
    script.call("DIRECTORY_CREATE" + suffix, *path, layer, prefix if manual else None)
    script.append("directory", known=bool(manual), partition=partition)


def change_directory_tree(script):
    rng = script.rng
    suffix = rng.choice(["", "_DATABASE"])
    kind = rng.randrange(6)
    # In a transaction of the script: nothing else is in it, so that allocations do not overlap.
    script.commit()
    if kind < 3:
        create_directory(script, suffix)
    elif kind == 3:
        paths = with_count(random_path(rng)) + with_count(random_path(rng))
        script.call("DIRECTORY_MOVE" + suffix, *paths)
        script.append("directory", partition=True)
    elif kind == 4:
        script.call("DIRECTORY_MOVE_TO" + suffix, *with_count(random_path(rng)))
        script.append("directory", partition=True)
    else:
        name = rng.choice(["DIRECTORY_REMOVE", "DIRECTORY_REMOVE_IF_EXISTS"]) + suffix
        if script.chance(0.8):
            script.call(name, 1, *with_count(random_path(rng)))
        else:
            script.call(name, 0)
        script.removed()
    if not suffix:
        script.commit()


def look_at_directories(script):
    rng = script.rng
    suffix = rng.choice(["", "_DATABASE", "_SNAPSHOT"])
    kind = rng.randrange(3)
    if kind == 0:
        script.call("DIRECTORY_OPEN" + suffix, *with_count(random_path(rng)), random_layer(rng))
        script.append("directory", partition=True)
        return
    name = ("DIRECTORY_LIST" if kind == 1 else "DIRECTORY_EXISTS") + suffix
    if script.chance(0.6):
        script.call(name, 1, *with_count(random_path(rng)))
    else:
        script.call(name, 0)


def look_and_conflict(script):
    """A transaction that looks, writes something else, and commits after another has changed the
    tree: whether it conflicts shows what it has read, which is nothing for a snapshot."""
    script.commit()
    for _ in range(script.rng.randint(1, 2)):
        look_at_directories(script)
    script.call("SET", random_key(script.rng), b"looked")
    if script.chance(0.7):
        path = with_count(random_path(script.rng, 1))
        script.call("DIRECTORY_CREATE_OR_OPEN_DATABASE", *path, b"")
        script.append("directory", partition=True)
    else:
        path = with_count(random_path(script.rng, 1))
        script.call("DIRECTORY_REMOVE_IF_EXISTS_DATABASE", 1, *path)
        script.removed()
    script.commit()


def use_subspace(script):
    """Whatever is pushed has its prefix stripped: the allocator chose it."""
    rng = script.rng
    items = random_tuple(rng, 4)
    kind = rng.randrange(5)
    if kind == 0:
        script.call("DIRECTORY_PACK_KEY", *with_count(items))
        script.op("DIRECTORY_STRIP_PREFIX")
    elif kind == 1:
        script.call("DIRECTORY_PACK_KEY", *with_count(items))
        script.op("DIRECTORY_UNPACK_KEY")
    elif kind == 2:
        script.call("DIRECTORY_RANGE", *with_count(items))
        script.op("DIRECTORY_STRIP_PREFIX")
        script.code.append(("PUSH", 1))
        script.op("SWAP")
        script.op("DIRECTORY_STRIP_PREFIX")
    elif kind == 3:
        script.call("DIRECTORY_PACK_KEY", *with_count(items))
        script.op("DIRECTORY_CONTAINS")
        script.call("DIRECTORY_CONTAINS", b"\x7fnowhere")
    else:
        script.call("DIRECTORY_OPEN_SUBSPACE", *with_count(items))
        script.append("subspace", known=script.current["known"])


def make_layer(script):
    rng = script.rng
    indices = []
    for _ in range(2):
        script.serial += 1
        raw = b"\x7flayer%d" % script.serial
        script.call("DIRECTORY_CREATE_SUBSPACE", *with_count(random_tuple(rng, 2, 0)), raw)
        indices.append(script.append("subspace", known=True))
    script.call("DIRECTORY_CREATE_LAYER", *indices, rng.randint(0, 1))
    script.append("layer")


def directory_instruction(script):
    rng = script.rng
    if script.chance(0.4):
        usable = [i for i, e in enumerate(script.entries) if e["kind"] != "lost"]
        script.change(rng.choice(usable))
    choice = rng.random()
    if script.current["kind"] == "lost":
        script.change(0)
    if choice < 0.04:
        make_layer(script)
    elif script.current["kind"] == "subspace" or (
        choice < 0.3 and script.current["kind"] == "directory"
    ):
        use_subspace(script)
    elif choice < 0.65:
        change_directory_tree(script)
    elif choice < 0.75:
        look_and_conflict(script)
    else:
        look_at_directories(script)


def log_directories(script):
    script.commit()
    for index, entry in enumerate(script.entries):
        script.change(index)
        if entry["kind"] in ("layer", "directory"):
            script.call("DIRECTORY_LOG_DIRECTORY", DIRECTORY_LOG.key())
        if entry["known"] and entry["kind"] != "lost":
            script.call("DIRECTORY_LOG_SUBSPACE", SUBSPACE_LOG.key())
    script.commit()
    script.call("LOG_STACK", STACK.key())


def directory_script(rng):
    script = DirectoryScript(rng)
    script.directories = [
        (random_path(rng, 1), rng.choice([b"", b"red", b"partition"])) for _ in range(4)
    ]
    script.op("NEW_TRANSACTION")
    script.op("GET_READ_VERSION", pushes=1)
    # Entry 3: the default layer's tree with manual prefixes. Entry 4: a directory for errors.
    script.call("DIRECTORY_CREATE_SUBSPACE", 0, b"\xfe")
    script.append("subspace", known=True)
    script.call("DIRECTORY_CREATE_SUBSPACE", 0, b"")
    script.append("subspace", known=True)
    script.call("DIRECTORY_CREATE_LAYER", 1, 2, 1)
    script.append("layer")
    script.change(3)
    script.call("DIRECTORY_CREATE_DATABASE", 1, "errors", b"", b"errors")
    script.append("directory", known=True)
    script.call("DIRECTORY_SET_ERROR_INDEX", 4)
    for _ in range(110):
        directory_instruction(script)
    log_directories(script)
    return script


# --- the allocator, and threads ---


def record_prefix(script, index):
    """PREFIX_LOG[packed key of the directory][unique] in the same transaction."""
    script.push(script.rng.randbytes(8), b"")
    script.call("DIRECTORY_CHANGE", index)
    script.call("DIRECTORY_PACK_KEY", 0)
    script.push(3, "prefixes")
    script.op("TUPLE_PACK")
    script.op("SET")
    script.call("DIRECTORY_CHANGE", 0)


def allocator_thread(script, name, mine):
    rng = script.rng
    script.code = script.threads.setdefault(name, [])
    index = 1
    script.op("NEW_TRANSACTION")
    for step in range(12):
        if mine and step % 4 == 3:  # one that several threads fill at the same time
            script.call("USE_TRANSACTION", b"shared")
        for _ in range(rng.randint(1, 4)):
            script.call("DIRECTORY_CREATE", 1, rng.randbytes(6).hex(), b"", None)
            record_prefix(script, index)
            index += 1
        if mine and step % 4 == 3:
            script.call("USE_TRANSACTION", name)
        else:
            script.op("COMMIT")
            script.op("WAIT_FUTURE")
            script.op("RESET")
    script.call("CLEAR_DATABASE", BARRIERS.pack((name,)))


def allocator_script(rng):
    script = Script(rng)
    script.prefixes = True
    main = script.code
    count = rng.choice([0, 3, 3])
    names = [b"thread%d" % i for i in range(count)]
    script.call("USE_TRANSACTION", b"shared")
    for name in names:
        script.call("SET_DATABASE", BARRIERS.pack((name,)), b"")
    for name in names:
        script.call("START_THREAD", name)
    for name in names:
        allocator_thread(script, name, True)
    script.code = main
    if not names:
        allocator_thread(script, MAIN, False)
        script.code = main
        return script
    script.call("WAIT_EMPTY", BARRIERS.key())
    script.op("COMMIT")
    script.op("WAIT_FUTURE")
    script.op("UNIT_TESTS")
    return script


KINDS = {
    "api": api_script,
    "tuple": tuple_script,
    "directory": directory_script,
    "allocator": allocator_script,
}
