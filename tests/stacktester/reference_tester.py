#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same stack machine a second time, on the official Python binding and its layers.

    reference_tester.py PREFIX API_VERSION DATABASE...

Written from the specification, in another language and on other layers than keel-stacktester, so
that what the two agree on is worth something. Several databases are worked through one after
another, since a process can select only one API version and takes a while to start. Method names
are the instructions, in lower case. An unknown instruction ends the process.

A value on the stack is what the binding's tuple layer unpacks; a future is itself and waited for
when it is popped. FDBError becomes the packed tuple (b"ERROR", code); in a directory instruction
anything that goes wrong becomes DIRECTORY_ERROR.
"""

import gc
import struct
import sys
import threading

import fdb

API_VERSION = int(sys.argv[2]) if len(sys.argv) > 2 else 740
fdb.api_version(API_VERSION)

import fdb.tuple  # noqa: E402 (needs the API version)
from fdb import tenant_management  # noqa: E402
from fdb.impl import strinc  # noqa: E402

NOT_PRESENT = b"RESULT_NOT_PRESENT"
LOGGED_BYTES_MAX = 40000


def error_tuple(error):
    return fdb.tuple.pack((b"ERROR", b"%d" % error.code))


class Stack:
    """Pairs (instruction number, value), the top last."""

    def __init__(self):
        self.items = []

    def push(self, number, value):
        self.items.append((number, value))

    def pop(self):
        number, value = self.items.pop()
        if isinstance(value, fdb.Future):
            try:
                value = value.wait()
                if value is None or (hasattr(value, "present") and not value.present()):
                    value = NOT_PRESENT
                elif not isinstance(value, bytes):
                    value = bytes(value)
            except fdb.FDBError as error:
                value = error_tuple(error)
        return number, value


class Shared:
    """What all machines on one database have in common."""

    def __init__(self, db):
        self.db = db
        self.transactions = {}
        self.lock = threading.Lock()
        self.failures = []


class Machine:
    def __init__(self, shared, prefix):
        self.shared = shared
        self.db = shared.db
        self.prefix = prefix
        self.name = prefix
        self.stack = Stack()
        self.last_version = 0
        self.tenant = None
        self.threads = []
        self.directories = [fdb.directory]
        self.directory_index = 0
        self.error_index = 0
        with shared.lock:
            shared.transactions[prefix] = None

    # --- running ---

    def run(self):
        rows = list(self.db.get_range_startswith(fdb.tuple.pack((self.prefix,))))
        for self.number, row in enumerate(rows):
            words = fdb.tuple.unpack(row.value)
            self.step(words[0], words[1:])
        for thread in self.threads:
            thread.join()

    def step(self, name, arguments):
        self.alone = self.snapshot = False
        where = None
        for suffix in ("_DATABASE", "_TENANT", "_SNAPSHOT"):
            if name.endswith(suffix):
                name = name[: -len(suffix)]
                self.alone = suffix != "_SNAPSHOT"
                self.snapshot = suffix == "_SNAPSHOT"
                where = self.tenant if suffix == "_TENANT" and self.tenant else self.db
                break
        if not self.alone:
            with self.shared.lock:
                where = self.shared.transactions.get(self.name)
        self.target = where.snapshot if self.snapshot else where
        try:
            if name.startswith("DIRECTORY_"):
                self.directory_step(name)
            else:
                getattr(self, name.lower())(*arguments)
        except fdb.FDBError as error:
            self.give(error_tuple(error))
        self.target = None

    def take(self):
        return self.stack.pop()[1]

    def take_many(self, count):
        return [self.take() for _ in range(count)]

    def take_tuple(self):
        return tuple(self.take_many(self.take()))

    def give(self, value):
        self.stack.push(self.number, value)

    def give_if_alone(self):
        if self.alone:
            self.give(NOT_PRESENT)

    # --- data ---

    def push(self, item):
        self.give(item)

    def dup(self):
        self.stack.items.append(self.stack.items[-1])

    def empty_stack(self):
        self.stack = Stack()

    def swap(self):
        depth, items = self.take(), self.stack.items
        items[-1], items[-1 - depth] = items[-1 - depth], items[-1]

    def pop(self):
        self.take()

    def sub(self):
        left, right = self.take_many(2)
        self.give(left - right)

    def concat(self):
        left, right = self.take_many(2)
        self.give(left + right)

    def wait_future(self):
        self.stack.push(*self.stack.pop())

    def log_stack(self):
        prefix = self.take()
        rows = {}
        while self.stack.items:
            index = len(self.stack.items) - 1
            number, value = self.stack.pop()
            packed = fdb.tuple.pack((value,))[:LOGGED_BYTES_MAX]
            rows[prefix + fdb.tuple.pack((index, number))] = packed
            if len(rows) == 100 or not self.stack.items:
                self.write_rows(self.db, rows)
                rows = {}

    @fdb.transactional
    def write_rows(self, tr, rows):
        for key, value in rows.items():
            tr[key] = value

    # --- transactions ---

    def new_transaction(self):
        transaction = (self.tenant or self.db).create_transaction()
        with self.shared.lock:
            self.shared.transactions[self.name] = transaction

    def use_transaction(self):
        self.name = self.take()
        with self.shared.lock:
            known = self.name in self.shared.transactions
        if not known:
            self.new_transaction()

    def on_error(self):
        self.give(self.target.on_error(self.take()))

    def commit(self):
        self.give(self.target.commit())

    def reset(self):
        self.target.reset()

    def cancel(self):
        self.target.cancel()

    def get_read_version(self):
        self.last_version = self.target.get_read_version().wait()
        self.give(b"GOT_READ_VERSION")

    def set_read_version(self):
        self.target.set_read_version(self.last_version)

    def get_committed_version(self):
        self.last_version = self.target.get_committed_version()
        self.give(b"GOT_COMMITTED_VERSION")

    def get_approximate_size(self):
        self.target.get_approximate_size().wait()
        self.give(b"GOT_APPROXIMATE_SIZE")

    def get_versionstamp(self):
        self.give(self.target.get_versionstamp())

    # --- reads ---

    def get(self):
        value = self.target.get(self.take())
        self.give(NOT_PRESENT if value is None else value)

    def get_key(self):
        key, or_equal, offset, prefix = self.take_many(4)
        found = bytes(self.target.get_key(fdb.KeySelector(key, or_equal, offset)))
        if not found.startswith(prefix):
            found = prefix if found < prefix else strinc(prefix)
        self.give(found)

    def give_rows(self, rows, prefix=b""):
        flat = []
        for key, value in rows:
            if key.startswith(prefix):
                flat += [key, value]
        self.give(fdb.tuple.pack(tuple(flat)))

    def get_range(self):
        self.give_rows(self.target.get_range(*self.take_many(5)))

    def get_range_starts_with(self):
        self.give_rows(self.target.get_range_startswith(*self.take_many(4)))

    def get_range_selector(self):
        begin = fdb.KeySelector(*self.take_many(3))
        end = fdb.KeySelector(*self.take_many(3))
        limit, reverse, mode, prefix = self.take_many(4)
        self.give_rows(self.target.get_range(begin, end, limit, reverse, mode), prefix)

    def get_estimated_range_size(self):
        self.target.get_estimated_range_size_bytes(*self.take_many(2)).wait()
        self.give(b"GOT_ESTIMATED_RANGE_SIZE")

    def get_range_split_points(self):
        self.target.get_range_split_points(*self.take_many(3)).wait()
        self.give(b"GOT_RANGE_SPLIT_POINTS")

    # --- writes ---

    def set(self):
        self.target.set(*self.take_many(2))
        self.give_if_alone()

    def clear(self):
        self.target.clear(self.take())
        self.give_if_alone()

    def clear_range(self):
        self.target.clear_range(*self.take_many(2))
        self.give_if_alone()

    def clear_range_starts_with(self):
        self.target.clear_range_startswith(self.take())
        self.give_if_alone()

    def atomic_op(self):
        kind, key, value = self.take_many(3)
        getattr(self.target, kind.lower())(key, value)
        self.give_if_alone()

    def read_conflict_range(self):
        self.target.add_read_conflict_range(*self.take_many(2))
        self.give(b"SET_CONFLICT_RANGE")

    def write_conflict_range(self):
        self.target.add_write_conflict_range(*self.take_many(2))
        self.give(b"SET_CONFLICT_RANGE")

    def read_conflict_key(self):
        self.target.add_read_conflict_key(self.take())
        self.give(b"SET_CONFLICT_KEY")

    def write_conflict_key(self):
        self.target.add_write_conflict_key(self.take())
        self.give(b"SET_CONFLICT_KEY")

    def disable_write_conflict(self):
        self.target.options.set_next_write_no_write_conflict_range()

    # --- tuples ---

    def tuple_pack(self):
        self.give(fdb.tuple.pack(self.take_tuple()))

    def tuple_pack_with_versionstamp(self):
        prefix = self.take()
        items = self.take_tuple()
        try:
            packed = fdb.tuple.pack_with_versionstamp(items, prefix=prefix)
        except ValueError as error:
            missing = str(error).startswith("No incomplete")
            self.give(b"ERROR: NONE" if missing else b"ERROR: MULTIPLE")
            return
        self.give(b"OK")
        self.give(packed)

    def tuple_unpack(self):
        for item in fdb.tuple.unpack(self.take()):
            self.give(fdb.tuple.pack((item,)))

    def tuple_range(self):
        keys = fdb.tuple.range(self.take_tuple())
        self.give(keys.start)
        self.give(keys.stop)

    def tuple_sort(self):
        for packed in sorted(fdb.tuple.pack(fdb.tuple.unpack(p)) for p in self.take_tuple()):
            self.give(packed)

    def encode_float(self):
        self.give(fdb.tuple.SingleFloat(struct.unpack(">f", self.take())[0]))

    def encode_double(self):
        self.give(struct.unpack(">d", self.take())[0])

    def decode_float(self):
        self.give(struct.pack(">f", self.take().value))

    def decode_double(self):
        self.give(struct.pack(">d", self.take()))

    # --- threads ---

    def start_thread(self):
        machine = Machine(self.shared, self.take())
        thread = threading.Thread(target=self.run_thread, args=(machine,))
        thread.start()
        self.threads.append(thread)

    def run_thread(self, machine):
        try:
            machine.run()
        except BaseException as error:
            self.shared.failures.append(error)
            raise

    def wait_empty(self):
        self.wait_until_empty(self.db, self.take())
        self.give(b"WAITED_FOR_EMPTY")

    @fdb.transactional
    def wait_until_empty(self, tr, prefix):
        if list(tr.get_range_startswith(prefix, 1)):
            raise fdb.FDBError(1020)

    def unit_tests(self):
        pass  # what they test is the C API, and keel-stacktester's half does

    # --- tenants ---

    def tenant_create(self):
        tenant_management.create_tenant(self.db, self.take())
        self.give(NOT_PRESENT)

    def tenant_delete(self):
        tenant_management.delete_tenant(self.db, self.take())
        self.give(NOT_PRESENT)

    def tenant_set_active(self):
        self.tenant = self.db.open_tenant(self.take())
        self.tenant.get_id().wait()
        self.give(b"SET_ACTIVE_TENANT")

    def tenant_clear_active(self):
        self.tenant = None

    def tenant_list(self):
        found = tenant_management.list_tenants(self.db, *self.take_many(3))
        self.give(fdb.tuple.pack(tuple(row.key for row in found)))

    def tenant_get_id(self):
        if self.tenant:
            self.tenant.get_id().wait()
        self.give(b"GOT_TENANT_ID" if self.tenant else b"NO_ACTIVE_TENANT")

    # --- directories ---

    APPENDING = {
        "DIRECTORY_CREATE_SUBSPACE",
        "DIRECTORY_CREATE_LAYER",
        "DIRECTORY_CREATE_OR_OPEN",
        "DIRECTORY_CREATE",
        "DIRECTORY_OPEN",
        "DIRECTORY_MOVE",
        "DIRECTORY_MOVE_TO",
        "DIRECTORY_OPEN_SUBSPACE",
    }

    def directory_step(self, name):
        result = None
        try:
            directory = self.directories[self.directory_index]
            result = getattr(self, name.lower())(directory)
        except Exception:
            self.give(b"DIRECTORY_ERROR")
        if name in self.APPENDING:
            self.directories.append(result)

    def directory_create_subspace(self, _):
        path = self.take_tuple()
        return fdb.Subspace(path, self.take())

    def directory_create_layer(self, _):
        nodes, contents, manual = self.take_many(3)
        nodes, contents = self.directories[nodes], self.directories[contents]
        if nodes is None or contents is None:
            return None
        return fdb.DirectoryLayer(nodes, contents, manual == 1)

    def directory_create_or_open(self, directory):
        path = self.take_tuple()
        return directory.create_or_open(self.target, path, self.take() or b"")

    def directory_create(self, directory):
        path = self.take_tuple()
        layer, prefix = self.take_many(2)
        return directory.create(self.target, path, layer or b"", prefix)

    def directory_open(self, directory):
        path = self.take_tuple()
        return directory.open(self.target, path, self.take() or b"")

    def directory_change(self, _):
        index = self.take()
        missing = self.directories[index] is None
        self.directory_index = self.error_index if missing else index

    def directory_set_error_index(self, _):
        self.error_index = self.take()

    def directory_move(self, directory):
        old, new = self.take_tuple(), self.take_tuple()
        return directory.move(self.target, old, new)

    def directory_move_to(self, directory):
        return directory.move_to(self.target, self.take_tuple())

    def optional_path(self):
        return (self.take_tuple(),) if self.take() else ()

    def directory_remove(self, directory):
        directory.remove(self.target, *self.optional_path())

    def directory_remove_if_exists(self, directory):
        directory.remove_if_exists(self.target, *self.optional_path())

    def directory_list(self, directory):
        self.give(fdb.tuple.pack(tuple(directory.list(self.target, *self.optional_path()))))

    def directory_exists(self, directory):
        self.give(int(bool(directory.exists(self.target, *self.optional_path()))))

    def directory_pack_key(self, directory):
        self.give(directory.pack(self.take_tuple()))

    def directory_unpack_key(self, directory):
        for item in directory.unpack(self.take()):
            self.give(item)

    def directory_range(self, directory):
        keys = directory.range(self.take_tuple())
        self.give(keys.start)
        self.give(keys.stop)

    def directory_contains(self, directory):
        self.give(int(directory.contains(self.take())))

    def directory_open_subspace(self, directory):
        return directory.subspace(self.take_tuple())

    def directory_log_subspace(self, directory):
        prefix = self.take()
        self.target[prefix + fdb.tuple.pack((self.directory_index,))] = directory.key()

    def directory_log_directory(self, directory):
        log = fdb.Subspace((self.directory_index,), self.take())
        exists = directory.exists(self.target)
        children = tuple(directory.list(self.target)) if exists else ()
        self.target[log["path"]] = fdb.tuple.pack(directory.get_path())
        self.target[log["layer"]] = fdb.tuple.pack((bytes(directory.get_layer()),))
        self.target[log["exists"]] = fdb.tuple.pack((int(bool(exists)),))
        self.target[log["children"]] = fdb.tuple.pack(children)

    def directory_strip_prefix(self, directory):
        key = self.take()
        if not key.startswith(directory.key()):
            raise ValueError("the key does not begin with the prefix")
        self.give(key[len(directory.key()) :])


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: %s PREFIX API_VERSION DATABASE..." % sys.argv[0])
    for path in sys.argv[3:]:
        shared = Shared(fdb.open(path))
        Machine(shared, sys.argv[1].encode()).run()
        if shared.failures:
            sys.exit(1)
        # The binding keeps databases open; an embedded one is to be let go.
        del shared
        fdb.impl.open_databases.clear()
        gc.collect()


if __name__ == "__main__":
    main()
