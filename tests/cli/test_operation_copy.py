# SPDX-License-Identifier: Apache-2.0
"""copy: round trips, what it refuses, going on after a kill."""
import glob
import hashlib
import json
import os
import signal
import time

from operation_tools import escaped, exists, put, random_rows, rows_of, start


def copy(keel, *args, code=0):
    result = keel.command("--json", keel.db, "copy", *args)
    assert result.code == code, result
    return json.loads(result.out) if code == 0 else result.err


def test_round_trip_byte_for_byte(keel):
    """There and back, directories and all."""
    keel.ok("mkdir", "-p", "/app/users")
    rows = random_rows(keel.seed, 3000)
    put(keel, rows)
    there = copy(keel, "there.db")
    back = keel.command("--json", keel.path("there.db"), "copy", "back.db")
    assert back.code == 0 and json.loads(back.out)["checksum"] == there["checksum"], (there, back)
    assert there["rows"] > len(rows) and there["passes"] == 1 and there["written"] == there["rows"], there
    first = rows_of(keel)
    assert dict(rows).items() <= dict(first).items()
    assert rows_of(keel, keel.path("back.db")) == first
    assert "users" in keel.command(keel.path("back.db"), "tree").out


def test_a_million_rows(keel):
    """There and back, byte for byte (fewer rows under a sanitizer, where KEEL_ROUNDS is set)."""
    count = 20000 if "KEEL_ROUNDS" in os.environ else 1000000
    keel.write("rows.csv", "id,value\n" + "".join(f"{i},{i * 7919 % 1000003:x}\n" for i in range(count)))
    keel.ok("import", keel.path("rows.csv"), "--into", "/rows", options=("--quiet",))
    assert copy(keel, "there.db")["rows"] >= count
    result = keel.command("copy", "there.db", "back.db")
    assert result.code == 0, result

    def digest(db):
        sums = hashlib.sha256()
        rows = rows_of(keel, db)
        for key, value in rows:
            sums.update(b"%d %d " % (len(key), len(value)) + key + value)
        return len(rows), sums.hexdigest()
    first = digest(keel.db)
    assert first[0] >= count and digest(keel.path("back.db")) == first


def test_two_names(keel):
    put(keel, [(b"a", b"1")])
    result = keel.command("copy", keel.db, "other.db")
    assert result.code == 0 and "verified" in result.out, result
    assert rows_of(keel, keel.path("other.db")) == [(b"a", b"1")]
    result = keel.command(keel.path("any.db"), "copy", keel.db, "third.db")
    assert result.code == 0 and not exists(keel, "any.db"), result
    assert rows_of(keel, keel.path("third.db")) == [(b"a", b"1")]


def test_refusals(keel):
    put(keel, [(b"a", b"1")])
    put(keel, [(b"a", b"mine"), (b"z", b"own")], db=keel.path("other.db"))
    other = keel.path("other.db")
    err = copy(keel, "other.db", code=1)
    assert "--force" in err and "--merge" in err, err
    assert rows_of(keel, other) == [(b"a", b"mine"), (b"z", b"own")]
    assert copy(keel, "--merge", "other.db")["rows"] == 1
    assert rows_of(keel, other) == [(b"a", b"1"), (b"z", b"own")]
    assert copy(keel, "--force", "other.db")["rows"] == 1
    assert rows_of(keel, other) == [(b"a", b"1")]
    assert "the same database" in copy(keel, "./test.db", code=1)
    assert "the same database" in copy(keel, "test.db/", code=1)
    assert ":memory:" in copy(keel, ":memory:", code=1)
    assert "no such database" in keel.command("copy", "missing.db", "new.db").err
    assert not exists(keel, "missing.db") and not exists(keel, "new.db")
    keel.fails(2, "copy")
    assert keel.command("copy", "other.db").code == 2 and keel.command("copy", "--force", "other.db").code == 2
    assert not exists(keel, "keel.db") and rows_of(keel, other) == [(b"a", b"1")]
    keel.fails(2, "copy", "a", "b", "c")
    keel.fails(2, "copy", "--force", "--merge", "other.db")
    keel.fails(2, "copy", "--passes", "0", "other.db")
    keel.write("not.a.db", "something else")
    assert copy(keel, "not.a.db", code=1)


def test_an_empty_database(keel):
    keel.ok("set", "a", "1")
    keel.ok("clear", "a")
    assert copy(keel, "empty.db")["rows"] == 0
    assert rows_of(keel, keel.path("empty.db")) == []


def log_holds(db, data):
    """Whether some file of the log has these bytes: the copy is under way."""
    for path in glob.glob(os.path.join(db, "log", "*")):
        try:
            with open(path, "rb") as file:
                if data in file.read():
                    return True
        except FileNotFoundError:
            pass
    return False


def kill_in_the_middle(keel, data):
    """Starts a copy into copy.db and kills it once `data` has arrived there; False if it was faster."""
    keel.shell("rm -rf copy.db")
    process = start(keel, "--json", keel.db, "copy", "copy.db")
    while process.poll() is None and not log_holds(keel.path("copy.db"), data):
        time.sleep(0.001)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_goes_on_after_a_kill(keel):
    """Killed in the middle, with changes of the source before it goes on: the copy is the source as it is then."""
    rows = dict(random_rows(keel.seed, 14000, 400))
    put(keel, sorted(rows.items()))
    keys = sorted(rows)
    resumed = False
    for round_number in range(30):
        if not kill_in_the_middle(keel, rows[keys[500]]):
            continue
        changes = []
        for key in (keys[1 + round_number], keys[-2 - round_number], keys[len(keys) // 2 + round_number]):
            changes.append(f"clear {escaped(key)}")
            rows.pop(key)
        keel.script("\n".join([*changes, f"set {escaped(keys[100 + round_number])} changed", ""]))
        rows[keys[100 + round_number]] = b"changed"
        done = copy(keel, "copy.db")
        assert done["rows"] == len(rows), done
        assert rows_of(keel, keel.path("copy.db")) == sorted(rows.items())
        resumed = resumed or (done["resumed"] and 0 < done["written"] < len(rows))
        if resumed:
            break
    assert resumed, "no copy was ever killed in the middle"


def test_an_unfinished_copy_is_somebodys(keel):
    put(keel, [(b"a", b"1")])
    put(keel, [(b"b", b"2")], db=keel.path("second.db"))
    result = keel.command("--option", "access_system_keys", keel.path("copy.db"), "set", escaped(b"\xff\x02/keel/transfer/job"),
                 f'(1, "copy", 0x{keel.path("second.db").encode().hex()}, 0x00, false, 0x, 1700000000000)')
    assert result.code == 0, result
    err = copy(keel, "copy.db", code=1)
    assert "an unfinished copy from" in err and "second.db" in err, err
    result = keel.command("--json", keel.path("second.db"), "copy", "copy.db")
    assert result.code == 0 and json.loads(result.out)["resumed"] is True, result
    assert copy(keel, "--force", "copy.db")["resumed"] is False


def test_bounded(keel):
    rows = random_rows(keel.seed, 3000)
    put(keel, rows)
    assert copy(keel, "--bounded", "copy.db")["passes"] == 1
    assert rows_of(keel, keel.path("copy.db")) == rows
