# SPDX-License-Identifier: Apache-2.0
"""What the tests of the operation commands share: many rows in and out, and a reader of backup files that knows nothing but docs/backup.md."""
import os
import random
import struct
import subprocess


WORDS = [chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in range(256)]


def escaped(data):
    return "".join(map(WORDS.__getitem__, data)) if data else '""'


def random_rows(seed, count, value_bytes=40):
    """Sorted rows of any bytes: short and long keys, many with long common beginnings, some values empty."""
    source = random.Random(seed)
    rows = {b"": b"the empty key", b"\xfe\xff\xff": b"near the end"}
    while len(rows) < count:
        kind = source.randrange(4)
        if kind == 0:
            key = source.randbytes(source.randrange(1, 12))
        elif kind == 1:
            key = b"users/" + str(source.randrange(count)).encode()
        else:
            key = b"shared/beginning/" * kind + source.randbytes(4)
        if key < b"\xff":
            rows[key] = source.randbytes(source.randrange(0, 2 * value_bytes))
    return sorted(rows.items())


def put(keel, rows, db=None, batch=5000):
    """Writes rows in transactions of many, by one process."""
    lines = []
    for at in range(0, len(rows), batch):
        lines += ["begin", *(f"set {escaped(key)} {escaped(value)}" for key, value in rows[at:at + batch]), "commit"]
    hurry(keel)
    result = keel.command(db or keel.db, input="\n".join(lines) + "\n", options=("--quiet",))
    keel.environment.pop("KEEL_DURABILITY")
    assert result.code == 0, result


def hurry(keel):
    """Commits do not wait for the disk: for tests that are about something else."""
    keel.environment["KEEL_DURABILITY"] = "none"


def read_backup(path):
    """(header, rows) of a backup file, without looking at checksums."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, header_bytes = struct.unpack_from("<8sII", data)
    assert (magic, version, header_bytes) == (b"KEELBACK", 1, 72), data[:72]
    database_version, time_us, estimate = struct.unpack_from("<qQQ", data, 32)
    rows, at, block = [], header_bytes, 0
    while True:
        kind, payload_bytes, number = struct.unpack_from("<IIQ", data, at)
        assert number == block and kind in (1, 2), (number, kind, at)
        payload = data[at + 32:at + 32 + payload_bytes]
        at += 32 + payload_bytes
        if kind == 2:
            break
        (count,), offset, key = struct.unpack_from("<I", payload), 4, b""
        for _ in range(count):
            shared, rest, value_bytes = struct.unpack_from("<HHI", payload, offset)
            offset += 8
            key = key[:shared] + payload[offset:offset + rest]
            offset += rest
            rows.append((key, payload[offset:offset + value_bytes]))
            offset += value_bytes
        assert offset == len(payload)
        block += 1
    totals = struct.unpack("<QQQQQ", payload)
    assert at == len(data) and totals[0] == len(rows) and totals[3] == block
    assert totals[1] == sum(len(key) + len(value) for key, value in rows)
    return {"version": database_version, "time_us": time_us, "blocks": block}, rows


def rows_of(keel, db=None, name="rows.of"):
    """All rows of a database, by way of a backup."""
    path = keel.path(name)
    result = keel.command(db or keel.db, "backup", "--force", path)
    assert result.code == 0, result
    return read_backup(path)[1]


def start(keel, *args, **options):
    """The command as a process of its own."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([keel.binary, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=keel.environment, cwd=keel.directory, **options)


def flipped(data, at, mask=0x01):
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1:]


def exists(keel, name):
    return os.path.exists(keel.path(name))
