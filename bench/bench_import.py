#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
keel import beside sqlite3's .import: the same CSV file, a primary key and one index in both, durable in both, one after the other in one run.

    bench/bench_import.py KEEL DIRECTORY [ROWS [ROUNDS]]       1000000 rows, 3 rounds

The file is generated (id, name, email, city, score; about 60 bytes a row, ids in random order with the second word "shuffled"). Each round imports it into a
fresh database of each kind, in turn; the best of the rounds is printed: rows/s by the wall clock, processor time, the peak of the process's memory
(VmHWM, which counts pages of the database file that are mapped, as keel does, but not those that are read, as sqlite3 does) and the peak of the memory
that is its own (RssAnon), both looked at every 10 ms. keel validates what it has loaded before it is made active, which is part of its time; both end
when the process has ended.
"""
import os
import random
import shutil
import subprocess
import sys
import threading
import time

CITIES = ["Oslo", "Rome", "Bern", "Lima", "Cairo", "Quito", "Tokyo", "Delhi", "Accra", "Paris"]


def generate(path, rows, shuffled):
    numbers = list(range(rows))
    generator = random.Random(1)
    if shuffled:
        generator.shuffle(numbers)
    with open(path, "w") as file:
        file.write("id,name,email,city,score\n")
        for i in numbers:
            file.write(f"{i},User Number {i},user{i}@example.com,{CITIES[i * 7 % 10]},{i % 1000 / 8}\n")


def watch_memory(pid, peak):
    """The largest VmHWM and RssAnon of a process, in KB, until it ends. (wait4's ru_maxrss would count this script too, from before the exec.)"""
    while peak["going"]:
        try:
            with open(f"/proc/{pid}/status") as file:
                found = {line.split(":")[0]: int(line.split()[1]) for line in file if line.startswith(("VmHWM", "RssAnon"))}
        except OSError:
            return
        peak["all"] = max(peak["all"], found.get("VmHWM", 0))
        peak["own"] = max(peak["own"], found.get("RssAnon", 0))
        time.sleep(0.01)


def run(words, script=None):
    """Seconds, processor seconds, peak memory and own memory of a process, in MB."""
    began = time.monotonic()
    process = subprocess.Popen(words, stdin=subprocess.PIPE if script else subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = {"all": 0, "own": 0, "going": True}
    watcher = threading.Thread(target=watch_memory, args=(process.pid, peak))
    watcher.start()
    if script:
        process.stdin.write(script.encode())
        process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    peak["going"] = False
    watcher.join()
    if status:
        sys.exit(f"{words}: {process.stderr.read().decode()}")
    return seconds, usage.ru_utime + usage.ru_stime, peak["all"] / 1024, peak["own"] / 1024


def import_keel(keel, directory, file):
    database = os.path.join(directory, "keel.db")
    shutil.rmtree(database, ignore_errors=True)
    return run([keel, database, "import", file, "--into", "/users", "--types", "id:int,score:float", "--index", "city", "--quiet"])


def import_sqlite(directory, file, journal):
    database = os.path.join(directory, "sqlite.db")
    for end in ("", "-wal", "-shm", "-journal"):
        if os.path.exists(database + end):
            os.remove(database + end)
    script = f"""PRAGMA journal_mode={journal};
PRAGMA synchronous=FULL;
CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT, email TEXT, city TEXT, score REAL);
CREATE INDEX users_city ON users(city);
.mode csv
.import --skip 1 {file} users
"""
    return run(["sqlite3", "-batch", database], script)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    keel, directory = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    rows = int(sys.argv[3]) if len(sys.argv) > 3 else 1000000
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    os.makedirs(directory, exist_ok=True)
    print(f"{rows} rows, primary key and one index, durable; best of {rounds} rounds; processors: {os.cpu_count()}, load before: {os.getloadavg()[0]:.1f}")
    print(f"{'':54} {'rows/s':>10} {'seconds':>8} {'CPU s':>6} {'peak MB':>8} {'own MB':>8}")
    for shuffled in (False, True):
        file = os.path.join(directory, "users.csv")
        generate(file, rows, shuffled)
        kinds = {"keel import": lambda: import_keel(keel, directory, file),
                 "sqlite3 .import, synchronous=FULL": lambda: import_sqlite(directory, file, "DELETE"),
                 "sqlite3 .import, synchronous=FULL, WAL": lambda: import_sqlite(directory, file, "WAL")}
        best = {}
        for _ in range(rounds):
            for name, function in kinds.items():
                result = function()
                best[name] = min(best.get(name, result), result)
        for name, (seconds, processor, peak, own) in best.items():
            print(f"{name + (', ids shuffled' if shuffled else ', ids in order'):54} {rows / seconds:10.0f} {seconds:8.2f} {processor:6.2f} {peak:8.0f} {own:8.0f}")
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
