# SPDX-License-Identifier: Apache-2.0
"""The official Python binding on an embedded database.

    client.py API_VERSION PATH           everything, on a fresh database (PATH `-`: the default one)
    client.py API_VERSION PATH --again   what the first run left, read by a second process

The binding is the published one, unmodified; only the shared library it loads is Keel's. The same
program runs under bindings from 6.0 to 7.4 and at API versions from 510 to 740, so it keeps to the
calls all of them have and asks the version where behaviour differs. One line a check, then
`finished`, which tells a program that ran to its end from one that was cut short.
"""

import json
import os
import struct
import sys
import threading
import time
import traceback

import fdb

API_VERSION = int(sys.argv[1])
PATH = None if sys.argv[2] == "-" else sys.argv[2]
AGAIN = "--again" in sys.argv[3:]

ROWS = 1000
THREADS = 8
INCREMENTS_PER_THREAD = 25

fdb.api_version(API_VERSION)

checks = []
failures = 0


def check(name):
    """Registers a function as a check; its assertions decide."""

    def register(function):
        checks.append((name, function))
        return function

    return register


def run_checks():
    global failures
    for name, function in checks:
        try:
            function()
            print("ok - " + name, flush=True)
        except BaseException as error:  # whatever happens in a check is that check's failure
            failures += 1
            line = traceback.extract_tb(sys.exc_info()[2])[1].lineno  # in the check itself
            text = "%s: %s (line %d)" % (type(error).__name__, error, line)
            print("not ok - " + name + ": " + text.replace("\n", " "), flush=True)


def equal(actual, expected):
    assert actual == expected, "got %r, expected %r" % (actual, expected)


def fails_with(code, function):
    """The call must raise FDBError with this code."""
    try:
        function()
    except fdb.FDBError as error:
        assert error.code == code, "error %d (%s), expected %d" % (
            error.code, error.description, code)
        return
    raise AssertionError("no error, expected %d" % code)


def number(row):
    return struct.pack(">I", row)


def stamped(prefix, suffix=b""):
    """A key or value with room for a versionstamp; its offset has four bytes since API 520."""
    offset = struct.pack("<H" if API_VERSION < 520 else "<L", len(prefix))
    return prefix + b"\x00" * 10 + suffix + offset


def row_keys(begin, end):
    return [b"row/" + number(i) for i in range(begin, end)]


db = None


@check("opens")
def opens():
    global db
    db = fdb.open(PATH) if PATH is not None else fdb.open()
    if API_VERSION >= 610:
        db.options.set_transaction_timeout(60000)
    equal(db[b"never written"], None)


if not AGAIN:

    @check("writes and reads back")
    def writes():
        db[b"hello"] = b"world"
        equal(db[b"hello"], b"world")
        db[b""] = b"the empty key"
        equal(db[b""], b"the empty key")
        db[b"empty value"] = b""
        equal(db[b"empty value"], b"")

    @check("writes the largest key and the largest value")
    def largest():
        key, value = b"k" * 10000, os.urandom(100000)
        db[key] = value
        equal(db[key], value)
        db.clear(key)
        equal(db[key], None)

    @check("reads its own writes")
    def reads_own_writes():
        tr = db.create_transaction()
        tr[b"own"] = b"1"
        equal(tr[b"own"].value, b"1")
        tr.add(b"own counter", struct.pack("<q", 5))
        equal(tr[b"own counter"].value, struct.pack("<q", 5))
        del tr[b"own"]
        equal(tr[b"own"].present(), False)
        equal(db[b"own counter"], None)

    @fdb.transactional
    def fill(tr):
        for i in range(ROWS):
            tr[b"row/" + number(i)] = number(i * i % 1000003)

    @check("reads a range forwards, in every streaming mode")
    def range_forwards():
        fill(db)
        modes = [fdb.StreamingMode.iterator, fdb.StreamingMode.want_all, fdb.StreamingMode.small,
                 fdb.StreamingMode.medium, fdb.StreamingMode.large, fdb.StreamingMode.serial]
        for mode in modes:
            tr = db.create_transaction()
            rows = list(tr.get_range(b"row/", b"row0", streaming_mode=mode))
            equal([row.key for row in rows], row_keys(0, ROWS))
            equal([row.value for row in rows], [number(i * i % 1000003) for i in range(ROWS)])

    @check("reads a range backwards and with a limit")
    def range_backwards():
        rows = list(db.get_range(b"row/", b"row0", limit=7, reverse=True))
        equal([row.key for row in rows], row_keys(ROWS - 7, ROWS)[::-1])
        rows = list(db.get_range(b"row/", b"row0", limit=3))
        equal([row.key for row in rows], row_keys(0, 3))
        rows = list(db.get_range_startswith(b"row/" + number(256)[:3]))
        equal([row.key for row in rows], row_keys(256, 512))

    @check("resolves key selectors")
    def selectors():
        select = fdb.KeySelector
        key = b"row/" + number(500)
        equal(db.get_key(select.first_greater_or_equal(key)), key)
        equal(db.get_key(select.first_greater_than(key)), b"row/" + number(501))
        equal(db.get_key(select.last_less_than(key)), b"row/" + number(499))
        equal(db.get_key(select.last_less_or_equal(key)), key)
        equal(db.get_key(select.first_greater_or_equal(key) + 100), b"row/" + number(600))
        rows = list(db.get_range(select.last_less_than(key), select.first_greater_than(key) + 2))
        equal([row.key for row in rows], row_keys(499, 503))

    @check("clears a key and a range")
    def clears():
        @fdb.transactional
        def clear_some(tr):
            del tr[b"row/" + number(10)]
            del tr[b"row/" + number(20):b"row/" + number(30)]

        clear_some(db)
        kept = [i for i in range(40) if i != 10 and not 20 <= i < 30]
        rows = list(db.get_range(b"row/", b"row/" + number(40)))
        equal([row.key for row in rows], [b"row/" + number(i) for i in kept])
        fill(db)
        equal(len(list(db.get_range(b"row/", b"row0"))), ROWS)

    @check("applies atomic operations")
    def atomics():
        @fdb.transactional
        def mutate(tr):
            tr.add(b"atomic/add", struct.pack("<q", 40))
            tr.add(b"atomic/add", struct.pack("<q", 2))
            tr[b"atomic/bits"] = b"\x0f"
            tr.bit_or(b"atomic/bits", b"\xf0")
            tr.bit_and(b"atomic/bits", b"\x3c")
            tr.bit_xor(b"atomic/bits", b"\x01")
            tr.max(b"atomic/max", struct.pack("<Q", 9))
            tr.max(b"atomic/max", struct.pack("<Q", 3))
            tr.min(b"atomic/min", struct.pack("<Q", 9))
            tr.min(b"atomic/min", struct.pack("<Q", 3))
            tr.byte_max(b"atomic/byte_max", b"pear")
            tr.byte_max(b"atomic/byte_max", b"apple")
            tr.byte_min(b"atomic/byte_min", b"pear")
            tr.byte_min(b"atomic/byte_min", b"apple")

        mutate(db)
        equal(db[b"atomic/add"], struct.pack("<q", 42))
        equal(db[b"atomic/bits"], b"\x3d")
        equal(db[b"atomic/max"], struct.pack("<Q", 9))
        equal(db[b"atomic/min"], struct.pack("<Q", 3))
        equal(db[b"atomic/byte_max"], b"pear")
        equal(db[b"atomic/byte_min"], b"apple")
        db.add(b"atomic/add", struct.pack("<q", -42))
        equal(db[b"atomic/add"], struct.pack("<q", 0))

    @check("compare_and_clear clears only on a match")
    def compare_and_clear():
        if API_VERSION < 610 or not hasattr(fdb.Transaction, "compare_and_clear"):
            return
        db[b"compare"] = b"old"
        db.compare_and_clear(b"compare", b"other")
        equal(db[b"compare"], b"old")
        db.compare_and_clear(b"compare", b"old")
        equal(db[b"compare"], None)

    @check("versionstamps a key and a value")
    def versionstamps():
        tr = db.create_transaction()
        tr.set_versionstamped_key(stamped(b"stamp/", b"/end"), b"key")
        tr.set_versionstamped_value(b"stamped value",
                                    b"\x00" * 10 if API_VERSION < 520 else stamped(b"", b""))
        future = tr.get_versionstamp()
        tr.commit().wait()
        stamp = future.wait().value
        equal(len(stamp), 10)
        equal(struct.unpack(">Q", stamp[:8])[0], tr.get_committed_version())
        rows = list(db.get_range_startswith(b"stamp/"))
        equal([(row.key, row.value) for row in rows], [(b"stamp/" + stamp + b"/end", b"key")])
        equal(db[b"stamped value"], stamp)

    @check("versionstamps grow from commit to commit")
    def versionstamps_grow():
        for i in range(5):
            tr = db.create_transaction()
            tr.set_versionstamped_key(stamped(b"log/"), number(i))
            tr.commit().wait()
        rows = list(db.get_range_startswith(b"log/"))
        equal([row.value for row in rows], [number(i) for i in range(5)])

    @check("a versionstamped key cannot be read before its commit (1036)")
    def unreadable():
        tr = db.create_transaction()
        tr.set_versionstamped_value(b"unread",
                                    b"\x00" * 10 if API_VERSION < 520 else stamped(b"", b""))
        fails_with(1036, lambda: tr[b"unread"].value)

    @check("of two conflicting transactions the second is refused (1020), then retries")
    def conflict():
        db[b"conflict"] = b"0"
        first, second = db.create_transaction(), db.create_transaction()
        equal(first[b"conflict"].value, b"0")
        equal(second[b"conflict"].value, b"0")
        first[b"conflict"] = b"1"
        second[b"conflict"] = b"2"
        first.commit().wait()
        try:
            second.commit().wait()
            raise AssertionError("the second commit must fail")
        except fdb.FDBError as error:
            equal(error.code, 1020)
            assert fdb.predicates.is_retryable(error)
            second.on_error(error).wait()
        equal(second[b"conflict"].value, b"1")
        second[b"conflict"] = b"2"
        second.commit().wait()
        equal(db[b"conflict"], b"2")

    @check("a snapshot read does not conflict, an added conflict key does")
    def snapshot():
        reader, writer = db.create_transaction(), db.create_transaction()
        equal(reader.snapshot[b"conflict"].value, b"2")
        reader[b"other"] = b"1"
        writer[b"conflict"] = b"3"
        writer.commit().wait()
        reader.commit().wait()
        reader, writer = db.create_transaction(), db.create_transaction()
        equal(reader.snapshot[b"conflict"].value, b"3")
        reader.add_read_conflict_key(b"conflict")
        reader[b"other"] = b"2"
        writer[b"conflict"] = b"4"
        writer.commit().wait()
        fails_with(1020, lambda: reader.commit().wait())

    @check("a transaction reads one version, whatever is committed meanwhile")
    def isolation():
        tr = db.create_transaction()
        before = tr[b"isolated"].value
        db[b"isolated"] = b"new"
        equal(tr[b"isolated"].value, before)
        later = db.create_transaction()
        assert later.get_read_version().wait() >= tr.get_read_version().wait()
        equal(later[b"isolated"].value, b"new")

    @check("a counter of %d threads loses no increment" % THREADS)
    def counter():
        attempts = [0] * THREADS

        @fdb.transactional
        def increment(tr, thread):
            attempts[thread] += 1
            value = tr[b"counter"]
            count = struct.unpack("<q", value.value)[0] if value.present() else 0
            tr[b"counter"] = struct.pack("<q", count + 1)

        def work(thread):
            for _ in range(INCREMENTS_PER_THREAD):
                increment(db, thread)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        total = THREADS * INCREMENTS_PER_THREAD
        equal(struct.unpack("<q", db[b"counter"])[0], total)
        assert sum(attempts) >= total

    @check("a watch fires when the value changes, not before")
    def watch():
        db[b"watched"] = b"1"
        tr = db.create_transaction()
        future = tr.watch(b"watched")
        tr.commit().wait()
        db[b"unwatched"] = b"1"
        time.sleep(0.05)
        equal(future.is_ready(), False)
        fired = threading.Event()
        future.on_ready(lambda _: fired.set())
        db[b"watched"] = b"2"
        assert fired.wait(20), "the watch did not fire"
        future.wait()

    @check("a cancelled watch says so (1101)")
    def watch_cancelled():
        future = db.get_and_watch(b"watched")[1]
        future.cancel()
        fails_with(1101, future.wait)

    @check("callbacks of many futures run once each")
    def callbacks():
        tr = db.create_transaction()
        seen, lock, done = [], threading.Lock(), threading.Event()
        futures = [tr.get(key) for key in row_keys(0, 200)]

        def ready(i):
            with lock:
                seen.append(i)
                if len(seen) == len(futures):
                    done.set()

        for i, future in enumerate(futures):
            future.on_ready(lambda _, i=i: ready(i))
        assert done.wait(20), "%d of %d callbacks ran" % (len(seen), len(futures))
        equal(sorted(seen), list(range(200)))

    @check("a key too large is refused (2102)")
    def key_too_large():
        tr = db.create_transaction()
        tr[b"x" * 10001] = b""
        fails_with(2102, lambda: tr.commit().wait())

    @check("a value too large is refused (2103)")
    def value_too_large():
        tr = db.create_transaction()
        tr[b"large"] = b"x" * 100001
        fails_with(2103, lambda: tr.commit().wait())
        equal(db[b"large"], None)

    @check("a transaction too large is refused whole (2101)")
    def transaction_too_large():
        tr = db.create_transaction()
        for i in range(101):
            tr[b"bulk/" + number(i)] = b"x" * 100000
        fails_with(2101, lambda: tr.commit().wait())
        equal(list(db.get_range_startswith(b"bulk/")), [])

    @check("a transaction cannot be used after its commit (2017)")
    def used():
        tr = db.create_transaction()
        tr[b"used"] = b"1"
        tr.commit().wait()
        fails_with(2017, lambda: tr[b"used"].value)
        tr.reset()
        equal(tr[b"used"].value, b"1")

    @check("a cancelled transaction says so (1025)")
    def cancelled():
        tr = db.create_transaction()
        tr.cancel()
        fails_with(1025, lambda: tr[b"hello"].value)

    @check("a transaction past its timeout says so (1031)")
    def timed_out():
        tr = db.create_transaction()
        tr.options.set_timeout(20)
        time.sleep(0.1)
        fails_with(1031, lambda: tr[b"hello"].value)

    @check("the retry limit ends the retries (1020)")
    def retry_limit():
        tr = db.create_transaction()
        for _ in range(2):
            tr.options.set_retry_limit(2)  # before API version 610 a retry forgets the limit
            tr.on_error(fdb.FDBError(1020)).wait()
        tr.options.set_retry_limit(2)
        fails_with(1020, lambda: tr.on_error(fdb.FDBError(1020)).wait())

    @check("an error that cannot be retried comes back from on_error (2102)")
    def not_retryable():
        tr = db.create_transaction()
        fails_with(2102, lambda: tr.on_error(fdb.FDBError(2102)).wait())

    @check("a read version in the future (1009) or impossible (2011) is refused")
    def read_versions():
        tr = db.create_transaction()
        tr.set_read_version(0)
        fails_with(2011, lambda: tr[b"hello"].value)
        tr = db.create_transaction()
        version = tr.get_read_version().wait()
        tr = db.create_transaction()
        tr.set_read_version(version + 1000 * 1000 * 1000)
        fails_with(1009, lambda: tr[b"hello"].value)

    @check("an inverted range reads as nothing, cannot be cleared (2005); system keys fail (2004)")
    def illegal_ranges():
        tr = db.create_transaction()
        equal(list(tr.get_range(b"b", b"a")), [])
        fails_with(2005, lambda: tr.add_read_conflict_range(b"b", b"a"))
        tr = db.create_transaction()
        tr.clear_range(b"b", b"a")
        fails_with(2005, lambda: tr.commit().wait())
        tr = db.create_transaction()
        tr[b"\xff/keel"] = b""
        fails_with(2004, lambda: tr.commit().wait())

    @check("the committed version follows the read version")
    def committed_version():
        tr = db.create_transaction()
        read_version = tr.get_read_version().wait()
        tr[b"version"] = b"1"
        tr.commit().wait()
        assert tr.get_committed_version() > read_version
        later = db.create_transaction()
        assert later.get_read_version().wait() >= tr.get_committed_version()

    @check("sizes, split points and addresses answer")
    def sizes():
        tr = db.create_transaction()
        if hasattr(tr, "get_approximate_size") and API_VERSION >= 620:
            empty = tr.get_approximate_size().wait()
            tr[b"size"] = b"x" * 1000
            assert tr.get_approximate_size().wait() >= empty + 1000
        if hasattr(tr, "get_estimated_range_size_bytes") and API_VERSION >= 630:
            assert tr.get_estimated_range_size_bytes(b"row/", b"row0").wait() >= 0
        if hasattr(tr, "get_range_split_points") and API_VERSION >= 700:
            points = tr.get_range_split_points(b"row/", b"row0", 10000).wait()
            equal(points[0], b"row/")
            equal(points[-1], b"row0")
            equal(points, sorted(points))
        assert len(fdb.locality.get_addresses_for_key(tr, b"hello").wait()) >= 1

    @check("status is JSON")
    def status():
        tr = db.create_transaction()
        document = json.loads(tr[b"\xff\xff/status/json"].value.decode())
        assert isinstance(document, dict)
        assert "client" in document or "cluster" in document, sorted(document)
        if API_VERSION >= 730:
            client = db.get_client_status().value  # empty from a single-version client
            assert client == b"" or isinstance(json.loads(client.decode()), dict)

    @check("the tuple layer keeps order")
    def tuples():
        values = [None, b"\x00bytes", u"text", -(1 << 40), -1, 0, 1, 1 << 40, 1.5, False, True]
        space = fdb.Subspace(("tuples",))

        @fdb.transactional
        def store(tr):
            for value in values:
                tr[space.pack((value,))] = b""

        store(db)
        equal([space.unpack(row.key)[0] for row in db[space.range()]], values)

    @check("the directory layer creates, lists, moves and removes")
    def directories():
        app = fdb.directory.create_or_open(db, (u"app",))
        users = app.create_or_open(db, (u"users",))
        db[users.pack((1,))] = b"Ada"
        equal(list(fdb.directory.list(db, (u"app",))), [u"users"])
        equal(fdb.directory.open(db, (u"app", u"users")).key(), users.key())
        moved = fdb.directory.move(db, (u"app", u"users"), (u"app", u"people"))
        equal(db[moved.pack((1,))], b"Ada")
        assert moved.key() != app.key()
        equal(fdb.directory.exists(db, (u"app", u"users")), False)
        fdb.directory.remove(db, (u"app", u"people"))
        equal(db[moved.pack((1,))], None)

    @check("directories created by many threads have prefixes of their own")
    def directories_contended():
        prefixes, lock = [], threading.Lock()

        def create(i):
            directory = fdb.directory.create_or_open(db, (u"many", u"%d" % i))
            with lock:
                prefixes.append(directory.key())

        threads = [threading.Thread(target=create, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(len(set(prefixes)), 12)

    @check("leaves data for a second process")
    def leaves():
        @fdb.transactional
        def leave(tr):
            del tr[b"again/":b"again0"]
            for i in range(100):
                tr[b"again/" + number(i)] = number(i + 1)

        leave(db)
        equal(len(list(db.get_range_startswith(b"again/"))), 100)

else:

    @check("finds the rows of the first process")
    def finds_rows():
        rows = list(db.get_range_startswith(b"again/"))
        equal([row.key for row in rows], [b"again/" + number(i) for i in range(100)])
        equal([row.value for row in rows], [number(i + 1) for i in range(100)])
        equal(len(list(db.get_range_startswith(b"row/"))), ROWS)

    @check("finds the counter of the first process")
    def finds_counter():
        equal(struct.unpack("<q", db[b"counter"])[0], THREADS * INCREMENTS_PER_THREAD)
        equal(db[b"empty value"], b"")
        equal(db[b""], b"the empty key")

    @check("a read version too old is refused (1007)")
    def too_old():
        tr = db.create_transaction()
        tr.set_read_version(1)
        fails_with(1007, lambda: tr[b"hello"].value)

    @check("versions go on where the first process stopped")
    def versions_go_on():
        last = list(db.get_range_startswith(b"log/"))[-1].key[4:12]
        tr = db.create_transaction()
        assert tr.get_read_version().wait() > struct.unpack(">Q", last)[0]
        tr.set_versionstamped_key(stamped(b"log/"), b"again")
        tr.commit().wait()
        equal(list(db.get_range_startswith(b"log/"))[-1].value, b"again")


run_checks()
print("finished", flush=True)
sys.exit(1 if failures else 0)
