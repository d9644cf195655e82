# SPDX-License-Identifier: Apache-2.0
"""status, top, compact, bench."""
import glob
import json
import os
import signal
import subprocess
import time

from run import TIMEOUT_SECONDS
from operation_tools import escaped, put, random_rows, rows_of, start
from terminal import Terminal


def test_status(keel):
    put(keel, random_rows(keel.seed, 200))
    out = keel.ok("status", "--interval", "0.1")
    for word in ("database", "healthy", "version", "a second", "totals", "window", "log", "base", "watches"):
        assert word in out, (word, out)
    assert "a second" not in keel.ok("status", "--interval", "0")
    document = keel.json("status", "--interval", "0.1")[0]
    assert document["cluster"]["database_available"] and document["keel"]["log_bytes"] > 0 and document["keel"]["read_version"] > 0, document
    assert document["rates"]["seconds"] >= 0.1 and document["rates"]["commits"] == 0, document
    assert "rates" not in keel.json("status", "--interval", "0")[0]
    assert keel.command(":memory:", "status", "--interval", "0").out.count("in memory") == 1


def test_status_counts(keel):
    """In one session, what the commands before it did."""
    out = keel.script("set a 1\nset b 2\nget a\nstatus --interval 0 --json\n")
    document = json.loads(out.splitlines()[-1])
    transactions, operations = document["cluster"]["workload"]["transactions"], document["cluster"]["workload"]["operations"]
    assert transactions["committed"]["counter"] == 2 and operations["writes"]["counter"] == 2 and operations["reads"]["counter"] >= 1, document


def test_status_fails(keel):
    keel.ok("set", "a", "1")
    keel.fails(2, "status", "--interval", "x")
    keel.fails(2, "status", "--interval", "-1")
    keel.fails(2, "status", "more")
    keel.fails(2, "status", "--nonsense")
    assert "no database" in keel.command(keel.path("none.db"), "status").err
    keel.write("file", "something else")
    assert keel.command(keel.path("file"), "status").code == 1


def test_top(keel):
    keel.ok("set", "a", "1")
    lines = keel.ok("top", "--count", "3", "--interval", "0.02").splitlines()
    assert len(lines) == 4 and "commits" in lines[0] and "window" in lines[0], lines
    values = keel.json("top", "--count", "2", "--interval", "0.02")
    assert len(values) == 2 and values[1]["commits"] == 0 and values[1]["log_bytes"] > 0, values
    keel.fails(2, "top", "--count", "0")
    keel.fails(2, "top", "--interval", "0")
    keel.fails(2, "top", "more")
    process = start(keel, keel.db, "top", "--interval", "0.05")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0  # Ctrl-C is how it is meant to end


def test_top_on_a_terminal(keel):
    keel.ok("set", "a", "1")
    with Terminal(keel, keel.db, "top", "--count", "2", "--interval", "0.05") as terminal:
        assert terminal.end() == 0
        out = terminal.everything
    assert out.count("\x1b[H\x1b[2J") == 2 and "healthy" in out and "Ctrl-C ends" in out, out


def deleted(keel):
    """A database whose base has many free pages; its rows."""
    keel.environment["KEEL_LIFETIME_MS"] = "100"
    rows = random_rows(keel.seed, 4000, 300)
    put(keel, rows)
    process = start(keel, keel.db, stdin=subprocess.PIPE)

    for line in (b"", b"clearrange --yes a \\xfe\n"):
        process.stdin.write(line)
        window_bytes = 1
        while window_bytes > 0:  # until checkpoints have brought all to the base
            process.stdin.write(b"status --interval 0.05 --json\n")
            process.stdin.flush()
            window_bytes = json.loads(process.stdout.readline())["keel"]["window_bytes"]
    process.communicate()
    return [(key, value) for key, value in rows if not b"a" <= key < b"\xfe"]


def test_compact(keel):
    kept = deleted(keel)
    assert rows_of(keel) == kept
    result = keel.json("compact")[0]
    size = os.path.getsize(os.path.join(keel.db, "base.keel"))
    assert result["bytes_after"] < result["bytes_before"] and result["bytes_after"] <= size, (result, size)
    assert rows_of(keel) == kept
    assert keel.json("check")[0]["sound"]
    assert "the base had" in keel.ok("compact")
    assert rows_of(keel) == kept


def test_compact_fails(keel):
    keel.ok("set", "a", "b")
    keel.fails(2, "compact", "more")
    keel.fails(2, "compact", "--nonsense")
    assert "no database" in keel.command(keel.path("none.db"), "compact").err
    assert "no files to compact" in keel.command(":memory:", "compact").err
    assert "commit or rollback" in keel.run(input="begin\nset x y\ncompact\n").err
    assert keel.script("set a c\ncompact\nget a\n").splitlines()[-1].endswith("c")
    process = start(keel, keel.db, stdin=subprocess.PIPE)
    process.stdin.write(b"get a\n")
    process.stdin.flush()
    process.stdout.readline()
    assert "another process has it open" in keel.fails(1, "compact")
    process.communicate()
    base = os.path.join(keel.db, "base.keel")
    with open(base, "r+b") as file:
        file.truncate(5000)
    before = os.path.getsize(base)
    result = keel.run("compact")
    assert result.code == 4 and os.path.getsize(base) == before, result


def test_bench(keel):
    keel.ok("set", "a", "b")
    out = keel.ok("bench", "--seconds", "0.02")
    for word in ("gets", "range rows", "commits", "16 clients", "sync"):
        assert word in out, (word, out)
    result = keel.json("bench", "--seconds", "0.02", "--clients", "2")[0]
    assert result["gets"] > 0 and result["range_rows"] > 0 and result["commits_1"] > 0 and result["commits_n"] > 0 and result["sync_seconds"] > 0, result
    assert "sync_seconds" not in keel.json("bench", "--seconds", "0.02", "--memory")[0]
    assert sorted(os.listdir(keel.directory)) == ["test.db"]
    assert rows_of(keel) == [(b"a", b"b")]
    keel.fails(2, "bench", "--seconds", "0")
    keel.fails(2, "bench", "--clients", "0")
    keel.fails(2, "bench", "more")
    assert "cannot be made" in keel.command("missing/x.db", "bench", "--seconds", "0.02").err


def test_bench_interrupted(keel):
    process = start(keel, keel.db, "bench", "--seconds", "1000")
    while process.poll() is None and not glob.glob(keel.db + ".bench-*/db/log/*"):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 130 and os.listdir(keel.directory) == []
