# SPDX-License-Identifier: Apache-2.0
"""backup and restore: round trips, damage of every kind, interruptions, and backups beside writers."""
import json
import os
import re
import signal
import subprocess
import time

from run import PATIENCE_SECONDS, Skip, TIMEOUT_SECONDS
from operation_tools import escaped, exists, flipped, put, random_rows, read_backup, rows_of, start


def small(keel):
    """A database of a few rows and a backup of it."""
    rows = [(b"a", b"1"), (b"b", b""), (b"bb", b"3")]
    put(keel, rows)
    keel.ok("backup", "small.backup")
    with open(keel.path("small.backup"), "rb") as file:
        return rows, file.read()


def test_round_trip_byte_for_byte(keel):
    """100,000 rows through a backup, and through two copies (fewer under a sanitizer, where KEEL_ROUNDS is set)."""
    rows = random_rows(keel.seed, 10000 if "KEEL_ROUNDS" in os.environ else 100000, 12)
    put(keel, rows)
    made = keel.json("backup", "all.backup")[0]
    header, stored = read_backup(keel.path("all.backup"))
    assert stored == rows
    assert made["rows"] == len(rows) and made["version"] == header["version"] and header["blocks"] > (len(rows) > 50000) * 5, made
    assert made["file_bytes"] == os.path.getsize(keel.path("all.backup"))
    restored = keel.command("--json", keel.path("new.db"), "restore", "all.backup")
    assert restored.code == 0, restored
    assert json.loads(restored.out)["checksum"] == made["checksum"]
    assert not exists(keel, "all.backup.partial")
    for source, destination in (("new.db", "there.db"), ("there.db", "back.db")):
        copied = keel.command("--json", "copy", source, destination)
        assert copied.code == 0 and json.loads(copied.out)["checksum"] == made["checksum"], copied
    assert rows_of(keel, keel.path("back.db")) == rows


def test_through_a_pipe(keel):
    rows = random_rows(keel.seed + 1, 3000)
    put(keel, rows)
    result = keel.shell(f"set -o pipefail; keel --json test.db backup - | gzip | gunzip | keel --json pipe.db restore -")
    assert json.loads(result.out)["rows"] == json.loads(result.err.splitlines()[-1])["rows"] == len(rows)
    assert rows_of(keel, keel.path("pipe.db")) == rows
    result = keel.shell("keel pipe.db restore --force < <(keel test.db backup -) -")
    assert rows_of(keel, keel.path("pipe.db")) == rows


def test_verify(keel):
    rows, data = small(keel)
    assert "whole" in keel.ok("backup", "--verify", "small.backup")
    assert keel.json("backup", "--verify", "small.backup")[0]["rows"] == 3
    assert keel.command(keel.path("none.db"), "backup", "--verify", "small.backup").code == 0 and not exists(keel, "none.db")
    assert "whole" in keel.ok("backup", "--verify", "-", input=data)
    keel.write("damaged", flipped(data, 120))
    result = keel.json("backup", "--verify", "damaged", code=4)[0]
    assert result["whole"] is False and "damaged" in result["problem"]
    assert "cannot be read" in keel.fails(1, "backup", "--verify", "missing")


def test_every_flipped_byte_is_found(keel):
    rows, data = small(keel)
    for at in range(len(data)):
        keel.write("damaged", flipped(data, at, 1 << at % 8))
        error = keel.fails(4, "backup", "--verify", "damaged")
        assert "damaged" in error or "KEELBACK" in error or "newer" in error, (at, error)


def test_truncations_are_found(keel):
    rows, data = small(keel)
    for length in [*range(0, len(data), 3), len(data) - 1]:
        keel.write("short", data[:length])
        error = keel.fails(4, "backup", "--verify", "short")
        assert "cut off" in error or "empty" in error or "KEELBACK" in error, (length, error)
    keel.write("long", data + b"x")
    assert "behind its end" in keel.fails(4, "backup", "--verify", "long")


def test_blocks_of_another_place_are_found(keel):
    """A block is valid in one place of one backup only: exchanged, repeated, left out, or from another backup of the same rows."""
    put(keel, random_rows(keel.seed, 5000, 300))
    keel.ok("backup", "one")
    keel.ok("backup", "two")
    blocks = {}
    for name in ("one", "two"):
        with open(keel.path(name), "rb") as file:
            data = file.read()
        parts, at = [data[:72]], 72
        while at < len(data):
            end = at + 32 + int.from_bytes(data[at + 4:at + 8], "little")
            parts.append(data[at:end])
            at = end
        blocks[name] = parts
    one, two = blocks["one"], blocks["two"]
    assert len(one) > 4
    for parts in ([one[0], one[2], one[1], *one[3:]], [*one[:2], one[1], *one[2:]], [one[0], *one[2:]], [*one[:2], two[2], *one[3:]], [two[0], *one[1:]],
                  [*one[:-1], two[-1]], [*one[:-2], one[-1]]):
        keel.write("mixed", b"".join(parts))
        assert "damaged" in keel.fails(4, "backup", "--verify", "mixed")


def test_damage_is_refused_before_anything_is_written(keel):
    rows, data = small(keel)
    put(keel, [(b"own", b"row")], db=keel.path("other.db"))
    for bad in (b"", data[:50], data[:130], data[:-1], data + b"x", flipped(data, 3), flipped(data, 9), flipped(data, 66), flipped(data, 80), flipped(data, 110),
                flipped(data, len(data) - 5), b"something else"):
        keel.write("bad", bad)
        result = keel.command(keel.path("other.db"), "restore", "--force", "bad")
        assert result.code == 4 and "Nothing was restored" in result.err, (bad, result)
        result = keel.command(keel.path("new.db"), "restore", "bad")
        assert result.code == 4, result
    assert rows_of(keel, keel.path("other.db")) == [(b"own", b"row")]
    assert not exists(keel, "new.db")


def test_restore_refuses_rows(keel):
    rows, data = small(keel)
    put(keel, [(b"a", b"mine"), (b"own", b"row")], db=keel.path("other.db"))
    other = keel.path("other.db")
    result = keel.command(other, "restore", "small.backup")
    assert result.code == 1 and "--force" in result.err and "--merge" in result.err, result
    assert rows_of(keel, other) == [(b"a", b"mine"), (b"own", b"row")]
    assert keel.command(other, "restore", "--merge", "small.backup").code == 0
    assert rows_of(keel, other) == rows + [(b"own", b"row")]
    assert keel.command(other, "restore", "--force", "small.backup").code == 0
    assert rows_of(keel, other) == rows
    assert keel.command(other, "restore", "--force", "--merge", "small.backup").code == 2
    assert keel.command(other, "restore").code == 2
    assert keel.command(other, "restore", "--nonsense", "small.backup").code == 2
    assert "cannot be read" in keel.command(other, "restore", "missing").err
    assert "commit or rollback" in keel.command(other, input="begin\nset x y\nrestore --force small.backup\n").err


def test_restore_behind_a_prefix(keel):
    rows, data = small(keel)
    keel.ok("restore", "--into", '("copy",)', "small.backup")
    prefix = b"\x02copy\x00"
    assert rows_of(keel) == [(prefix + key, value) for key, value in rows] + rows
    assert keel.run("restore", "--into", '("copy",)', "small.backup").code == 1
    keel.ok("restore", "--force", "--into", '("copy",)', "small.backup")
    assert rows_of(keel) == [(prefix + key, value) for key, value in rows] + rows
    keel.ok("mkdir", "/inside")
    keel.ok("restore", "--into", "/inside", "small.backup")
    assert len(rows_of(keel)) > 9
    assert "/missing" in keel.fails(3, "restore", "--into", "/missing", "small.backup")


def test_backup_refuses(keel):
    rows, data = small(keel)
    assert "exists" in keel.fails(1, "backup", "small.backup")
    keel.ok("backup", "--force", "small.backup")
    assert "No such file" in keel.fails(1, "backup", "missing/x.backup")
    os.mkdir(keel.path("directory"))
    keel.fails(1, "backup", "--force", "directory")
    assert not exists(keel, "directory.partial")
    keel.fails(2, "backup")
    keel.fails(2, "backup", "a", "b")
    assert "no database" in keel.command(keel.path("none.db"), "backup", "x").err
    assert not exists(keel, "none.db") and not exists(keel, "x")


def test_disk_full(keel):
    put(keel, random_rows(keel.seed, 4000, 300))
    result = keel.shell("keel test.db backup - > /dev/full", code=1)
    assert "the disk is full" in result.err, result
    os.mkdir(keel.path("disk"))
    small_disk = "unshare --map-root-user --mount sh -c 'mount -t tmpfs -o size=1m none disk || exit 99; "
    if keel.shell(small_disk + "'", code=None).code != 0:
        raise Skip("no small disk can be mounted here")
    result = keel.shell(small_disk + "keel test.db backup disk/full.backup; code=$?; ls disk; exit $code'", code=1)
    assert "the disk is full" in result.err and "Make room" in result.err and result.out == "", result


def test_closed_pipe(keel):
    put(keel, random_rows(keel.seed, 4000, 300))
    result = keel.shell("keel test.db backup - | head -c 1000 > /dev/null; exit ${PIPESTATUS[0]}", code=1)
    assert "closed the pipe" in result.err, result


def test_interrupted_backup_leaves_nothing(keel):
    put(keel, random_rows(keel.seed, 4000, 300))
    process = start(keel, keel.db, "backup", "-")  # nobody reads: it waits in the pipe
    process.stdout.read(100)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_SECONDS) == 130
    process.stdout.close()
    process.stderr.close()
    for round_number in range(8):
        process = start(keel, keel.db, "backup", "some.backup")
        time.sleep(0.002 * round_number)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        if exists(keel, "some.backup"):
            assert process.returncode == 0, err
            keel.ok("backup", "--verify", "some.backup")
            os.remove(keel.path("some.backup"))
        else:
            assert process.returncode in (130, -signal.SIGINT), (process.returncode, err)
        assert not exists(keel, "some.backup.partial")


def feed(keel, db, data, signal_number, seconds):
    """restore from a pipe that gets `data`; the signal comes `seconds` later, when it should have been taken in."""
    process = start(keel, db, "restore", "-", stdin=subprocess.PIPE)
    process.stdin.write(data)
    process.stdin.flush()
    time.sleep(seconds)
    process.send_signal(signal_number)
    out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    return process.returncode, err.decode()


def test_restore_from_a_pipe_that_breaks(keel):
    rows = random_rows(keel.seed, 5000, 300)
    put(keel, rows)
    keel.ok("backup", "all.backup")
    with open(keel.path("all.backup"), "rb") as file:
        data = file.read()
    other = keel.path("other.db")
    for bad in (data[:len(data) // 2], flipped(data, len(data) * 2 // 3), data[:-10]):
        result = keel.command(other, "restore", "--force", "-", input=bad)
        assert result.code == 4 and "unfinished" in result.err and "whole rows before that are in" in result.err, result
        result = keel.command(other, "backup", "half.backup")
        assert result.code == 1 and "unfinished restore" in result.err, result
        check = keel.command("--json", other, "check", "--online")
        assert "unfinished restore" in json.loads(check.out)["remarks"][0]["what"], check
        result = keel.command(other, "backup", "--force", "half.backup")
        assert result.code == 0, result
        half = read_backup(keel.path("half.backup"))[1]
        assert half == rows[:len(half)] and len(half) < len(rows) + (bad == data[:-10])
    result = keel.command("--json", other, "restore", "all.backup")
    assert result.code == 0 and json.loads(result.out)["resumed"] is True, result
    assert rows_of(keel, other) == rows


def test_restore_is_continued_after_a_kill(keel):
    rows = random_rows(keel.seed, 5000, 300)
    put(keel, rows)
    keel.ok("backup", "all.backup")
    put(keel, [(b"another", b"row")])
    keel.ok("backup", "another.backup")
    with open(keel.path("all.backup"), "rb") as file:
        data = file.read()
    other = keel.path("other.db")
    for seconds in PATIENCE_SECONDS:
        keel.forget("other.db")
        code, err = feed(keel, other, data[:len(data) * 2 // 3], signal.SIGKILL, seconds)
        assert code == -signal.SIGKILL
        result = keel.command(other, "restore", "another.backup")
        if result.code == 1:  # otherwise it had not begun
            break
    assert result.code == 1 and "unfinished restore" in result.err, result
    for seconds in PATIENCE_SECONDS:
        code, err = feed(keel, other, data[:len(data) * 4 // 5], signal.SIGINT, seconds)
        if code == 130 and "goes on from there" in err:
            break
    else:
        assert False, (code, err)
    result = keel.command(other, "restore", "-", input=data)
    assert result.code == 0 and "goes on behind" in result.err, result
    assert rows_of(keel, other) == rows
    result = keel.command(other, "restore", "--force", "another.backup")
    assert result.code == 0, result
    assert len(rows_of(keel, other)) == len(rows) + 1


def load(keel, *args, lifetime="100", shows=lambda out: True):
    """What operation-load says. If the writers and the command did not happen to meet, so that nothing was shown, once more."""
    program = os.path.join(os.path.dirname(keel.binary), "operation-load")
    environment = dict(keel.environment, KEEL_LIFETIME_MS=lifetime)
    for _ in range(10):
        keel.forget("load.db", "load.backup", "copy.db")
        done = subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=keel.directory, timeout=TIMEOUT_SECONDS)
        out, met = done.stdout.decode(), b"nothing was shown" not in done.stderr
        if met and (done.returncode != 0 or shows(out)):
            break
    assert done.returncode == 0 and met and shows(out), (args, done.returncode, out, done.stderr)
    return out


def test_a_transfer_that_is_taken_over_writes_nothing_more(keel):
    assert load(keel, "load.db", "0", "takeover", "some source") == "taken over\n"
    assert rows_of(keel, keel.path("load.db")) == [(b"key", b"value"), (b"other", b"second")]


def test_backup_beside_writers_is_a_state_that_existed(keel):
    """Versions that live a tenth of a second: without long reads this could not succeed."""
    assert "the state after commit" in load(keel, "load.db", "60000", "backup", "load.backup")
    result = keel.command(keel.path("restored.db"), "restore", "load.backup")
    assert result.code == 0, result
    restored = dict(rows_of(keel, keel.path("restored.db")))
    assert restored == dict(read_backup(keel.path("load.backup"))[1])
    balances = [int.from_bytes(value, "little", signed=True) for key, value in restored.items() if len(key) == len("account/000")]
    assert len(balances) == 50 and sum(balances) == 50 * 1000


def test_backup_by_another_process_is_a_state_that_existed(keel):
    out = load(keel, "load.db", "30000", "exec", f"{keel.binary} load.db backup load.backup", "load.backup")
    found = re.match(r".*: (30,05[0-4]) rows", out)  # the padding, the accounts, and a row of each writer that has committed by then
    assert found and "the state after commit" in out, out


def owner(keel):
    """A process that owns the database and serves the others; what it says when it is there has been read."""
    process = start(keel, keel.db, stdin=subprocess.PIPE)
    process.stdin.write(b"set owner here\nget owner\n")
    process.stdin.flush()
    process.stdout.readline()
    return process


def test_while_another_process_has_the_database(keel):
    rows = random_rows(keel.seed, 3000)
    put(keel, rows)
    process = owner(keel)
    rows = sorted([*rows, (b"owner", b"here")])
    assert rows_of(keel) == rows
    while True:
        status = keel.json("status", "--interval", "0")[0]["keel"]
        assert status["process_id"] == process.pid and status["clients"] >= 1 and status["connections"] >= 1, status
        if status["connections"] == 1:  # this command's; those of the commands before it are gone, if not at once
            break
    assert keel.json("check", "--online")[0]["rows"] == len(rows)
    assert keel.json("copy", "copy.db")[0]["rows"] == len(rows)
    keel.ok("backup", "some.backup")
    keel.ok("restore", "--force", "some.backup")
    assert rows_of(keel) == rows
    process.communicate()


def test_the_owner_dies_during_a_backup(keel):
    put(keel, random_rows(keel.seed, 4000, 300))
    process = owner(keel)
    backup = start(keel, keel.db, "backup", "-")
    backup.stdout.read(100)
    time.sleep(0.05)
    process.kill()
    process.communicate()
    out, err = backup.communicate(timeout=TIMEOUT_SECONDS)
    assert backup.returncode == 1 and b"run the same command again" in err, (backup.returncode, err)
    keel.ok("backup", "again.backup")


def test_copy_beside_writers_is_a_state_that_existed(keel):
    assert "the state after commit" in load(keel, "load.db", "40000", "copy", "copy.db")


def test_copy_in_bounded_transactions_beside_writers(keel):
    """As from a cluster: several versions, passes until nothing differs."""
    sanitized = "KEEL_ROUNDS" in os.environ
    load(keel, "load.db", "15000" if sanitized else "100000", "copy", "--bounded", "--json", "--passes", "100", "copy.db",
         shows=lambda out: json.loads(out.splitlines()[0])["passes"] > 1 or sanitized)
