#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keel-stacktester beside the stack machine on the official Python binding, on programs by seed.

    harness.py TESTER [DIRECTORY]       DIRECTORY is where the databases go, else the current one

The official driver of the binding tester holds the database open while a tester runs; an embedded
database is open in one process at a time. So every case has two databases, filled alike and closed
(--prepare); the two testers run, each on its own; then both are read and compared (--compare). Each
step is a process of its own, and the end of a process is what closes its databases.

What is compared: all rows under scripts.RESULTS byte for byte (the logged stack, the keys that were
written, the logged directories); versionstamps by whether keys and values name each other;
directory trees as the Python binding sees them, with layers and manual prefixes; of the allocator
that no prefix was given twice and that its own counters hold.

Every case prints a line, the last but one counts them, and the last is `finished`. KEEL_SEED is the
first seed (1) and KEEL_ROUNDS the number of cases (80). The seed alone decides what a case is, so a
failure is run again with KEEL_SEED=<seed> KEEL_ROUNDS=1, and its databases stay where they are.

With KEEL_TEST_CLUSTER, a cluster file, keel-stacktester runs on that cluster and the other one on an
embedded database, so that cluster and Keel are compared; KEEL_TEST_SIDE=reference exchanges them.
The cluster has to be empty (KEEL_TEST_ERASE=1 erases it) and is left empty. The cases follow one
another then, each from beginning to end. KEEL_TEST_API_VERSION is the newest API version to select; below
700 the cluster is taken to be as old, and what has changed since is left out.
"""

import os
import random
import re
import shutil
import struct
import subprocess
import sys

import fdb

NEWEST = int(os.environ.get("KEEL_TEST_API_VERSION") or 740)
fdb.api_version(NEWEST)

import fdb.tuple  # noqa: E402 (needs the API version)
import scripts  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("api", "directory", "tuple", "directory", "api", "directory", "allocator", "api")
API_VERSIONS = (740, 740, 510, 740, 710, 740, 630, 740, 740, 520, 740)
SIDES = ("keel", "reference")
TIME_LIMIT_SECONDS = 600
CLUSTER = os.environ.get("KEEL_TEST_CLUSTER")
CLUSTER_SIDE = os.environ.get("KEEL_TEST_SIDE") or "keel"

# Errors that a slow machine may cause on one side only: too old, too new, unknown result.
BY_CHANCE = re.compile(rb"\x01+ERROR\x00\xff*\x01(1007|1009|1021)\x00")

# Prefixes that scripts.py gives; all others are the allocator's.
BY_HAND = re.compile(rb"m[0-9]+-|m|n|na|errors")


class Case:
    def __init__(self, seed, directory):
        self.seed = seed
        self.kind = KINDS[seed % len(KINDS)]
        self.api_version = min(API_VERSIONS[seed % len(API_VERSIONS)], NEWEST)
        self.name = "%s seed %d (API %d)" % (self.kind, seed, self.api_version)
        self.paths = {side: os.path.join(directory, "%s-%d" % (side, seed)) for side in SIDES}
        if CLUSTER:
            self.paths[CLUSTER_SIDE] = CLUSTER

    def script(self):
        rng = random.Random(self.seed)
        rng.api_version = self.api_version
        rng.on_cluster = bool(CLUSTER)
        rng.old_cluster = rng.on_cluster and NEWEST < 700
        return scripts.KINDS[self.kind](rng)


def cases(directory):
    first = int(os.environ.get("KEEL_SEED", "1"))
    count = int(os.environ.get("KEEL_ROUNDS", "80"))
    return [Case(seed, directory) for seed in range(first, first + count)]


# --- emptying and filling ---


def remove(path):
    if path == CLUSTER:
        del fdb.open(path)[b"":b"\xff"]
        fdb.impl.open_databases.clear()
    else:
        shutil.rmtree(path, ignore_errors=True)


def refuse_to_erase():
    """A cluster that holds something is somebody's."""
    db = fdb.open(CLUSTER)
    if os.environ.get("KEEL_TEST_ERASE") != "1" and db.get_range(b"", b"\xff", limit=1):
        sys.exit("%s is not empty: the tests need a database of their own" % CLUSTER)


@fdb.transactional
def insert(tr, thread, code):
    for number, instruction in enumerate(code):
        tr[fdb.tuple.pack((thread, number))] = fdb.tuple.pack(instruction)


def prepare(case):
    script = case.script()
    for path in case.paths.values():
        remove(path)
        db = fdb.open(path)
        for thread, code in script.threads.items():
            insert(db, thread, code)
        for place, layer in script.directories:
            try:
                fdb.directory.create_or_open(db, place, layer)
            except ValueError:
                pass  # it is there with another layer
        fdb.impl.open_databases.clear()


# --- running ---


def run(command):
    """None, or what went wrong."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "not done after %d seconds" % TIME_LIMIT_SECONDS
    if done.returncode == 0:
        return None
    text = done.stdout.decode(errors="replace").strip().splitlines()
    return "status %d: %s" % (done.returncode, text[-1] if text else "it said nothing")


def run_keel(tester, case):
    main = scripts.MAIN.decode()
    return run([tester, main, str(case.api_version), case.paths["keel"]])


def run_reference(api_version, paths):
    program = os.path.join(HERE, "reference_tester.py")
    return run([sys.executable, program, scripts.MAIN.decode(), str(api_version)] + paths)


# --- comparing ---


def read_rows(db, subspace):
    rows = {}
    begin = subspace.key()
    while True:
        some = db.get_range(begin, subspace.key() + b"\xff", limit=1000)
        if not some:
            return rows
        rows.update((row.key, row.value) for row in some)
        begin = some[-1].key + b"\0"


def stamped_names(db):
    """The names of stamped keys whose stamped value agrees; a wrong one is a failure."""
    keys = read_rows(db, scripts.STAMPED_KEYS)
    values = read_rows(db, scripts.STAMPED_VALUES)
    prefix = scripts.STAMPED_KEYS.key()
    for key, value in values.items():
        name = scripts.STAMPED_VALUES.unpack(key)[0]
        if (
            keys.pop(prefix + value, None) != name
            or value[10:] != name
            or value[:10] == scripts.UNSET
        ):
            return "the versionstamp of %r is wrong" % name
    if keys:
        return "%d versionstamped keys without a value" % len(keys)
    return sorted(values)


def tree(db, directory, path=()):
    """Every directory below: (path, layer, prefix if it was given by hand)."""
    found = []
    for name in directory.list(db, path):
        below = path + (name,)
        child = directory.open(db, below)
        layer = bytes(child.get_layer())
        prefix = child.rawPrefix if BY_HAND.fullmatch(child.rawPrefix) else None
        found.append((below, layer, prefix))
        found += tree(db, directory, below)
    return found


def allocator_state(db):
    """What is wrong, or None: two directories with one prefix, or counters that are too low."""
    log = read_rows(db, scripts.PREFIX_LOG)
    prefixes = [scripts.PREFIX_LOG.unpack(key)[0] for key in log]
    prefixes = [prefix for prefix in prefixes if prefix != b"DIRECTORY_ERROR"]
    if len(set(prefixes)) != len(prefixes):
        return "a prefix was allocated twice"
    listed = fdb.directory.list(db)
    if not prefixes or len(prefixes) != len(listed):
        return "%d prefixes for %d directories" % (len(prefixes), len(listed))
    allocator = fdb.Subspace((b"\xfe", b"hca"), b"\xfe")
    counters = read_rows(db, allocator[0])
    start, counted = 0, 0
    for key, value in counters.items():
        start, counted = allocator[0].unpack(key)[0], struct.unpack("<q", value)[0]
    recent = [key for key in read_rows(db, allocator[1]) if allocator[1].unpack(key)[0] >= start]
    if len(recent) > counted:
        return "the allocator counts %d of %d" % (counted, len(recent))
    return None


def first_difference(keel, reference):
    for key in sorted(set(keel) | set(reference)):
        if keel.get(key) != reference.get(key):
            return "at %r: keel %r, reference %r" % (
                fdb.tuple.unpack(key),
                keel.get(key),
                reference.get(key),
            )
    return None


def difference(case):
    """What is wrong with a case that has run, or None."""
    script = case.script()
    found = {}
    for side, path in case.paths.items():
        db = fdb.open(path)
        problem = allocator_state(db) if script.prefixes else None
        names = stamped_names(db)
        if problem is None and isinstance(names, str):
            problem = names
        if problem:
            return "%s: %s" % (side, problem)
        found[side] = (
            read_rows(db, scripts.RESULTS),
            names,
            tree(db, fdb.directory) if script.tree else [],
        )
        del db
        fdb.impl.open_databases.clear()
    keel, reference = found["keel"], found["reference"]
    problem = first_difference(keel[0], reference[0])
    if problem is None and keel[1] != reference[1]:
        problem = "other versionstamped keys"
    if problem is None and keel[2] != reference[2]:
        problem = "other directories: %r" % sorted(set(keel[2]) ^ set(reference[2]))[0:3]
    if problem and any(BY_CHANCE.search(v) for rows, _, _ in found.values() for v in rows.values()):
        print("%s: disregarded, a transaction was too old on one side" % case.name)
        return None
    return problem


# --- all of it ---


def run_all(tester, directory):
    """The problems that running found, by seed."""
    problems = {}
    every = cases(directory)
    for version in sorted({case.api_version for case in every}):
        group = [case for case in every if case.api_version == version]
        problem = run_reference(version, [case.paths["reference"] for case in group])
        if problem:
            problems.update((case.seed, "reference_tester.py: " + problem) for case in group)
    for case in every:
        problem = run_keel(tester, case)
        if problem:
            problems[case.seed] = "keel-stacktester: " + problem
    return problems


def compare_all(directory, known):
    """Prints a line for each case; `known` are seeds that have already failed."""
    for case in cases(directory):
        if str(case.seed) in known:
            continue
        problem = difference(case)
        print(
            "%s - %s%s"
            % ("not ok" if problem else "ok", case.name, ": " + problem if problem else "")
        )
        if not problem:
            for path in case.paths.values():
                remove(path)


def one_by_one():
    """There is one cluster for all cases: each is a run of its own, which leaves it empty."""
    again = [sys.executable, os.path.abspath(__file__)]
    subprocess.run(again + ["--refuse"], check=True)
    passed = failed = 0
    for case in cases("."):
        environment = dict(os.environ, KEEL_SEED=str(case.seed), KEEL_ROUNDS="1", KEEL_TEST_ERASE="1")
        done = subprocess.run(again + sys.argv[1:], stdout=subprocess.PIPE, text=True, env=environment)
        lines = [line for line in done.stdout.splitlines() if " - " in line]
        print("\n".join(lines) or "not ok - %s: it said nothing" % case.name)
        passed += done.returncode == 0
        failed += done.returncode != 0
    print("%d passed, %d failed" % (passed, failed))
    print("finished")
    return 1 if failed else 0


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--prepare":
        for case in cases(sys.argv[2]):
            prepare(case)
        return 0
    if len(sys.argv) > 2 and sys.argv[1] == "--compare":
        compare_all(sys.argv[2], sys.argv[3:])
        return 0
    if len(sys.argv) > 1 and sys.argv[1] == "--refuse":
        refuse_to_erase()
        return 0
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: %s TESTER [DIRECTORY]" % sys.argv[0])
    if CLUSTER and len(cases(".")) > 1:
        return one_by_one()
    tester, directory = sys.argv[1], os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else ".")
    os.makedirs(directory, exist_ok=True)
    again = [sys.executable, os.path.abspath(__file__)]
    subprocess.run(again + ["--prepare", directory], check=True)
    problems = run_all(tester, directory)
    lines = [
        "not ok - %s: %s" % (case.name, problems[case.seed])
        for case in cases(directory)
        if case.seed in problems
    ]
    compared = subprocess.run(
        again + ["--compare", directory] + [str(seed) for seed in problems],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    lines += compared.stdout.splitlines()
    print("\n".join(lines))
    failed = sum(line.startswith("not ok - ") for line in lines)
    passed = sum(line.startswith("ok - ") for line in lines)
    print("%d passed, %d failed" % (passed, failed))
    print("finished")
    return 1 if failed or passed + failed != len(cases(directory)) else 0


if __name__ == "__main__":
    sys.exit(main())
