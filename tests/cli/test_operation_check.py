# SPDX-License-Identifier: Apache-2.0
"""check: sound databases are sound, and each of a set of planted damages is found and named: in files, directories and structures."""
import glob
import json
import os
import re
import subprocess
import time

from operation_tools import escaped, flipped, hurry, put, random_rows, rows_of, start


def check(keel, *args, code=0):
    result = keel.command("--json", keel.db, "check", *args)
    assert result.code == code, f"exit code {code} expected: {result}"
    return json.loads(result.out)


def test_a_sound_database(keel):
    keel.ok("mkdir", "-p", "/app/users")
    keel.ok("doc", "set", "/app/users", "1", '{"name": "Ann", "tags": ["a", "b"]}')
    put(keel, random_rows(keel.seed, 300)[:200])
    for options in ((), ("--online",)):
        result = check(keel, *options, "--as", "document", "/app/users")
        assert result["sound"] and not result["damages"] and result["directories"] == 2 and result["rows"] > 200, result
        assert result["structures"] == [{"type": "document", "path": "/app/users", "rows": 3, "sound": True}], result
        assert result["online"] == bool(options) and bool(result["files"]) != bool(options), result
    out = keel.ok("check")
    assert "sound" in out and "2 directories" in out, out
    assert check(keel)["checksum"] == keel.json("backup", "x.backup")[0]["checksum"]


def test_usage(keel):
    keel.ok("set", "a", "b")
    assert "there is no type" in keel.fails(2, "check", "--as", "nonsense", "/x")
    assert "needs PATH RECORDS" in keel.fails(2, "check", "--as", "index", "/x")
    keel.fails(2, "check", "--as")
    keel.fails(2, "check", "something")
    keel.fails(3, "check", "--online", "--as", "queue", "/missing")
    assert "no database" in keel.command(keel.path("none.db"), "check").err
    assert {"type": "queue"}.items() <= keel.json("check", "--types")[8 + 1].items()
    assert "taskqueue" in keel.ok("check", "--types")
    assert "commit or rollback" in keel.run(input="begin\nset x y\ncheck\n").err
    assert keel.script("set x y\ncheck\nget x\n").splitlines()[-1].endswith("y")


def test_memory(keel):
    result = keel.command("--json", ":memory:", "check")
    assert result.code == 0 and json.loads(result.out)["online"] is True, result


def test_in_use(keel):
    keel.ok("set", "a", "b")
    process = start(keel, keel.db, stdin=subprocess.PIPE)
    process.stdin.write(b"get a\n")
    process.stdin.flush()
    process.stdout.readline()
    err = keel.fails(1, "check")
    assert "another process" in err and "--online" in err, err
    process.communicate()
    assert check(keel)["sound"]


# ---- Directories ----

def b(data):
    """A byte string in a tuple."""
    return b"\x01" + data.replace(b"\x00", b"\x00\xff") + b"\x00"


def s(text):
    return b"\x02" + text + b"\x00"


ROOT = b"\xfe"


def node(prefix, rest, layer=ROOT):
    return layer + b(prefix) + rest


def entry(prefix, name, layer=ROOT):
    return node(prefix, b"\x14" + s(name), layer)


def make_directories(keel):
    """/app/users, /other, and a partition /part with /part/inside; their prefixes by name."""
    keel.ok("mkdir", "-p", "/app/users")
    keel.ok("mkdir", "/other")
    keel.ok("mkdir", "--layer", "partition", "/part")
    keel.ok("mkdir", "-p", "/part/inside")
    rows = dict(rows_of(keel))
    prefixes = {name: rows[entry(ROOT, name.encode())] for name in ("app", "other", "part")}
    prefixes["users"] = rows[entry(prefixes["app"], b"users")]
    inner = prefixes["part"] + ROOT
    prefixes["inside"] = rows[entry(inner, b"inside", inner)]
    return prefixes, rows


def test_planted_damage_of_directories(keel):
    hurry(keel)
    prefixes, rows = make_directories(keel)
    inner = prefixes["part"] + ROOT
    version, layer, hca = node(ROOT, b(b"version")), b(b"layer"), node(ROOT, b(b"hca"))
    counter = next(key for key in rows if key.startswith(hca + b"\x14"))
    some = b"\x15\xc8"  # a prefix nobody has
    cases = [
        ("set", version, b"short", "has 5 bytes and not 12"),
        ("set", version, b"\x02" + bytes(11), "version 2.0"),
        ("clear", version, None, "the version of the directory layer is missing"),
        ("set", entry(ROOT, b"ghost"), some, "leads to the prefix"),
        ("set", entry(prefixes["app"], b"again"), prefixes["other"], "a second entry"),
        ("set", entry(ROOT, b"root"), ROOT, "which is no directory's"),
        ("set", node(some, layer), b"", "cannot be reached from the root"),
        ("clear", node(prefixes["users"], layer), None, "which is no directory's"),
        ("clear", entry(prefixes["app"], b"users"), None, "cannot be reached from the root"),
        ("set", ROOT + b"anything", b"", "not one of theirs"),
        ("set", node(prefixes["app"], s(b"layer")), b"", "not one of theirs"),
        ("set", counter, bytes(8), "the allocator of prefixes has counted 0 draws"),
        ("set", counter, b"x", "not one of theirs"),
        ("set", entry(prefixes["part"], b"lost"), prefixes["other"], "in the layer around it"),
        ("set", node(ROOT, b"\x14\x02\xc3\x28\x00"), prefixes["other"], "not UTF-8"),
        ("clear", node(inner, b(b"version"), inner), None, "the version of the directory layer is missing"),
        ("set", entry(inner, b"outside", inner), prefixes["other"], "which is no directory's"),
    ]
    for action, key, value, expected in cases:
        mend = f"set {escaped(key)} {escaped(rows[key])}" if key in rows else f"clear {escaped(key)}"
        damage_it = f"set {escaped(key)} {escaped(value)}" if action == "set" else f"clear {escaped(key)}"
        out = keel.run(input=f"{damage_it}\ncheck --online --json\n{mend}\n", options=("--keep-going",))
        result = json.loads(out.out.splitlines()[0])
        assert not result["sound"], (expected, result)
        assert any(expected in damage["what"] and damage["kind"] == "directory" for damage in result["damages"]), (expected, result)
    result = check(keel, "--online")
    assert result["sound"] and not result["remarks"], result


def test_planted_damage_in_two_rows(keel):
    """A ring, a prefix inside another's, a prefix outside of its partition: two or more rows each. The output for people names them too."""
    prefixes, rows = make_directories(keel)
    inner, layer = prefixes["part"] + ROOT, b(b"layer")
    one, two, within = b"\x15\xc8", b"\x15\xc9", prefixes["other"] + b"\x01"
    cases = [
        ([(node(one, layer), b""), (node(two, layer), b""), (entry(one, b"x"), two), (entry(two, b"y"), one)], "cannot be reached"),
        ([(node(within, layer), b""), (entry(ROOT, b"within"), within)], "their contents overlap"),
        ([(node(ROOT + b"\x01", layer), b""), (entry(ROOT, b"nodes"), ROOT + b"\x01")], "their contents overlap"),
        ([(node(one, layer, inner), b""), (entry(inner, b"out", inner), one)], "outside of the partition"),
    ]
    for changes, expected in cases:
        put(keel, changes)
        result = keel.run("check", "--online")
        assert result.code == 4 and expected in result.out and "DAMAGE" in result.out, result
        for key, value in changes:
            keel.ok("clear", escaped(key))
    keel.ok("clearrange", "--yes", escaped(node(ROOT, b(b"hca"))), escaped(node(ROOT, b(b"hcb"))))
    result = check(keel, "--online")
    assert result["sound"] and "may try to hand it out again" in result["remarks"][0]["what"], result


# ---- Structures: rows as the headers describe them, and rows that break a rule ----

R20, R20B, ID1, ID2 = "0x" + "01" * 20, "0x" + "02" * 20, "0x" + "aa" * 16, "0x" + "bb" * 16
STAMP = "versionstamp(0x%s, %d)"
LOG_HEAD = escaped(b"\x33" + bytes(8) + b"\x00\x05" + b"\x00\x01")

SOUND = {
    "blob": [("(0)", "abc"), ("(3)", "de"), ("(10)", "")],
    "counter": [("(0)", "\\x01" + "\\x00" * 7), ("(3)", "\\xff" * 8)],
    "document": [("(7)", "(1,)"), ("(8, -2)", "(null,)"), ('(9, "a", 0)', '("x",)'), ('(9, "a", 1, "b")', "(2.5,)"), ('(9, "a", 1, "c", -1)', "(null,)"),
                 ('(9, "d")', "(true,)")],
    "list": [('(0x, "next")', "a"), ('(0x, "previous")', "b"), ('(0x61, "next")', "b"), ('(0x61, "previous")', ""), ('(0x61, "value")', "1"), ('(0x62, "next")', ""),
             ('(0x62, "previous")', "a"), ('(0x62, "value")', "2")],
    "log": [("", LOG_HEAD), ("(%s)" % (STAMP % ("00" * 8 + "0004", 0)), "x"), ("(%s)" % (STAMP % ("00" * 8 + "0005", 1)), "y")],
    "multimap": [('("k", "v")', ""), ('("k", "w")', "\\x02" + "\\x00" * 7)],
    "pqueue": [(f"(5, 0, {R20})", "x"), (f'("low", 1, {R20})', "y")],
    "queue": [(f"(0, {R20})", "x"), (f"(1, {R20B})", "y")],
    "spatial": [('("L", "home", 12)', ""), ('("Z", 12, "home")', "")],
    "table": [('("R", "r", "c")', "v"), ('("C", "c", "r")', "v"), ('("x", "y")', "z")],
    "taskqueue": [(f'("payload", {ID1})', "work"), (f'("ready", 1, 5, {ID1})', "(0, 3, 0)"), (f'("payload", {ID2})', "more"), (f'("lease", {ID2})', "(99, 4)"),
                  (f'("timer", 99, {ID2})', "(true, 1, 1, 3, 4)"), ('("signal",)', "\\x01" + "\\x00" * 7)],
    "vector": [("(0)", "a"), ("(7)", "b")],
}

# type, rows that are added (None: cleared), what is said
BROKEN = [
    ("blob", [("(2)", "overlaps")], "begins before the one in front"),
    ("blob", [("(20)", "behind")], "behind an empty chunk"),
    ("blob", [('("x")', "y")], "is not (offset)"),
    ("counter", [("(1)", "short")], "has not 8 bytes"),
    ("counter", [('("x", 1)', "12345678")], "neither the counter's own key"),
    ("document", [('(9, "a", 5)', "(1,)")], "leaves a gap in an array"),
    ("document", [('(9, "a", "name")', "(1,)")], "a name beside indexes"),
    ("document", [('(9, "d", "e")', "(1,)")], "lies inside of a value"),
    ("document", [('(10, 3)', "(1,)")], "gap at the beginning"),
    ("document", [('(8, "x")', "(1,)")], "beside"),
    ("document", [("(9, 2.5)", "(1,)")], "neither a name nor an index"),
    ("document", [('(11, "x")', '"plain text"')], "not a tuple of one JSON scalar"),
    ("document", [('(11, "x")', "(1, 2)")], "not a tuple of one JSON scalar"),
    ("list", [('(0x61, "next")', "zz")], "the next node is not in the list"),
    ("list", [('(0x62, "previous")', "")], "has another neighbour"),
    ("list", [('(0x63, "value")', "3")], "of a node that is not in the list"),
    ("list", [('(0x63, "next")', ""), ('(0x63, "previous")', "b")], "neighbour"),
    ("log", [("(%s)" % (STAMP % ("00" * 8 + "0009", 0)), "z")], "behind the newest position"),
    ("log", [('("x")', "z")], "is not (versionstamp)"),
    ("log", [("", "junk")], "not a versionstamp"),
    ("multimap", [('("k", "x")', "\\x00" * 8)], "not positive"),
    ("multimap", [('("k", "x")', "abc")], "neither empty nor a count"),
    ("multimap", [('("k")', "")], "is not (key, value)"),
    ("pqueue", [("(5, 0, 0x01)", "x")], "as the keys of a priority queue are"),
    ("queue", [("(0, 0x01)", "x")], "as the keys of a queue are"),
    ("queue", [(f"(-1, {R20})", "x")], "as the keys of a queue are"),
    ("spatial", [('("L", "home", 13)', ""), ('("Z", 13, "home")', "")], "at a second place"),
    ("spatial", [('("L", "lost", 5)', "")], "missing in the other order"),
    ("spatial", [('("Z", 5, "lost")', "")], "missing in the other order"),
    ("spatial", [('("Q", 5, "lost")', "")], "is neither"),
    ("table", [('("R", "r", "c2")', "v")], "missing in the other order"),
    ("table", [('("C", "c", "r")', "other")], "another value in the other order"),
    ("table", [('("R", "a", "b", "c")', "other")], "is neither (row, column)"),
    ("taskqueue", [(f'("payload", {ID1})', None)], "has no payload"),
    ("taskqueue", [(f'("ready", 1, 5, {ID1})', None)], "neither ready nor delayed"),
    ("taskqueue", [(f'("ready", 2, 5, {ID1})', "(0, 3, 0)")], "in a second place"),
    ("taskqueue", [(f'("lease", {ID2})', None)], "a lease that is not there"),
    ("taskqueue", [(f'("timer", 99, {ID2})', None)], "without the timer"),
    ("taskqueue", [(f'("lease", {ID2})', "(98, 4)")], "another end"),
    ("taskqueue", [(f'("ready", 1, 6, {ID2})', "text")], "is not (\"ready\""),
    ("taskqueue", [('("other")', "x")], "no part of a task queue"),
    ("vector", [("(1, 2)", "a")], "another number of indexes"),
    ("vector", [('("x")', "a")], "is not (index"),
]


def write_line(directory, key, value):
    key = f"{directory}{key or '()'}"
    return f"clear {key}" if value is None else f"set {key} " + (value if value else '""')


def test_planted_damage_of_structures(keel):
    lines, named = ["begin"], []
    for kind, rows in SOUND.items():
        lines.append(f"mkdir /sound-{kind}")
        lines += [write_line(f"/sound-{kind}", *row) for row in rows]
        named += ["--as", kind, f"/sound-{kind}"]
    for number, (kind, changes, expected) in enumerate(BROKEN):
        directory = f"/broken-{number}"
        lines.append(f"mkdir {directory}")
        lines += [write_line(directory, *row) for row in SOUND[kind] + changes]
        named += ["--as", kind, directory]
    keel.script("\n".join([*lines, "commit", ""]))
    result = check(keel, "--online", *named, code=4)
    found = {}
    for damage in result["damages"]:
        found.setdefault(damage["where"], []).append(damage)
    for kind in SOUND:
        assert f"/sound-{kind}" not in found, found[f"/sound-{kind}"]
    for number, (kind, changes, expected) in enumerate(BROKEN):
        damages = found.get(f"/broken-{number}", [])
        assert any(expected in damage["what"] and damage["kind"] == kind for damage in damages), (kind, changes, expected, damages)
    assert len(result["structures"]) == len(SOUND) + len(BROKEN)


def test_structures_by_their_tag(keel):
    keel.ok("mkdir", "--layer", "keel.queue", "/jobs")
    keel.ok("mkdir", "--layer", "queue", "/not-ours")
    keel.ok("set", "/not-ours(1)", "x")
    keel.ok("queue", "push", "/jobs", "x")
    assert [structure["path"] for structure in check(keel)["structures"]] == ["/jobs"]
    keel.ok("set", "/jobs(1)", "x")
    assert check(keel, code=4)["damages"][0]["where"] == "/jobs"


def test_what_the_recipes_write_is_sound(keel):
    keel.write("hello.txt", "hello" * 10000)
    keel.script("""
        doc set /docs 1 '{"a":[1,{"b":[]},"x"],"c":{}}'
        doc insert /docs '{"name":"Ann"}'
        blob put /blobs name hello.txt
        queue push /queue a
        queue push /queue b
        table set /table r c v
        spatial set /spatial home 10 20
        spatial set /spatial home 11 21
        """)
    result = check(keel, *(word for kind, path in (("document", "/docs"), ("blob", '/blobs("name")'), ("queue", "/queue"),
                                                      ("table", "/table"), ("spatial", "/spatial"))
                           for word in ("--as", kind, path)))
    assert result["sound"] and all(structure["rows"] for structure in result["structures"]), result


def test_bulk_targets(keel):
    keel.write("users.csv", "id,name\n7,Ann\n8,Bob\n9,Eve\n")
    keel.ok("import", "users.csv", "--into", "/users", "--name", "one")
    keel.ok("import", "users.csv", "--into", "/users", "--name", "two", "--no-activate")
    result = check(keel, "--as", "bulk", "/users")
    assert result["sound"] and not result["remarks"], result
    before = dict(rows_of(keel))
    rows = {}
    for name in (b"one", b"two"):
        prefix = next(value for key, value in before.items() if key.startswith(b"\xfe") and key.endswith(s(name)))
        rows[name] = sorted(key for key in before if key.startswith(prefix))
        assert len(rows[name]) >= 3, (name, before)
    keel.ok("clear", escaped(rows[b"one"][0]))
    assert "were changed since it was loaded" in check(keel, "--as", "bulk", "/users")["remarks"][0]["what"]
    keel.ok("set", escaped(rows[b"two"][0]), "damaged")
    assert "is not what was loaded" in check(keel, "--as", "bulk", "/users", code=4)["damages"][0]["what"]
    keel.ok("set", '/users("active")', '("two", 0x00)')
    texts = [damage["what"] for damage in check(keel, "--as", "bulk", "/users", code=4)["damages"]]
    assert any("does not name an active load" in text for text in texts), texts
    keel.ok("clear", '/users("active")')
    assert any("nothing points to it" in damage["what"] for damage in check(keel, "--as", "bulk", "/users", code=4)["damages"])


def test_index_and_relation(keel):
    keel.script("""
        begin
        mkdir /records
        mkdir /index
        mkdir /model
        mkdir /reverse
        set /records(1) Oslo
        set /records(2, "more") x
        set /index("Oslo", 1) ""
        set /index("covering", 1) Oslo
        set /index("by", 2) ""
        set /model("acme", "name") Acme
        set /model("employs", "acme", "ann") ""
        set /reverse("employs", "ann", "acme") ""
        commit
        """)
    named = ("--as", "index", "/index", "/records", "--as", "relation", "/model", "/reverse")
    assert check(keel, *named)["sound"]
    keel.script('set /index("Rome", 3) ""\nset /index("covering", 1) Rome\nset /model("employs", "acme", "bob") ""\nset /reverse("employs", "eve", "acme") ""\n')
    texts = [damage["what"] for damage in check(keel, *named, code=4)["damages"]]
    for expected in ("a record that is not there", "another value than the record", "bob", "eve"):
        assert any(expected in text for text in texts), (expected, texts)
    assert len(texts) == 4, texts


# ---- Files ----

def fill(keel):
    """Rows in the base and rows in the log."""
    keel.environment["KEEL_LIFETIME_MS"] = "100"
    put(keel, [(b"key%03d" % row, b"value-%03d-abcdefgh" % row) for row in range(300)])
    for _ in range(100):
        process = start(keel, keel.db, stdin=subprocess.PIPE)
        process.stdin.write(b"get key000\n")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.3)  # for a checkpoint; if that was too short, once more
        process.communicate()
        if check(keel)["files"]["base_rows"] >= 300:
            break
    keel.ok("set", "later", "row")


def change_file(path, change):
    """Changes a file, or removes it (None); returns what brings it back."""
    if os.path.isdir(path):
        os.rename(path, path + ".aside")
        return lambda: os.rename(path + ".aside", path)
    with open(path, "rb") as file:
        before = file.read()

    def write(data):
        with open(path, "wb") as file:
            file.write(data)

    if change is None:
        os.remove(path)
    else:
        write(change(before))
    return lambda: write(before)


def test_planted_damage_of_files(keel):
    fill(keel)
    sound = check(keel)
    assert sound["sound"] and sound["files"]["base_rows"] >= 300 and sound["rows"] == 301, sound
    log, base = sorted(glob.glob(os.path.join(keel.db, "log/log-*.keel")))[-1], os.path.join(keel.db, "base.keel")
    clock = os.path.join(keel.db, "clock.keel")
    cases = [
        (log, lambda data: flipped(data, 20), "log-header"),
        (base, lambda data: data.replace(b"value-111-abcdefgh", b"value-111-abcdefgH"), "row-checksum"),
        (base, lambda data: data[:len(data) // 4096 // 2 * 4096], "page-number"),
        (base, lambda data: data.replace(b"key200", b"kez200"), "row-checksum"),
        (base, lambda data: b"", "base-"),
        (base, None, "base-missing"),
        (clock, lambda data: bytes(len(data)), "lease-damaged"),
        (clock, None, "lease-missing"),
        (os.path.join(keel.db, "log"), None, "log-missing"),
    ]
    for path, change, kind in cases:
        restore = change_file(path, change)
        result = check(keel, code=4)
        damages = [damage for damage in result["damages"] if damage["kind"].startswith(kind)]
        assert damages and not result["sound"], (path, kind, result)
        assert any(os.path.basename(path) in damage["where"] for damage in damages), (path, kind, result)
        if kind == "row-checksum":
            assert any(re.search(r"at byte \d+, row ke[yz](111|200)", damage["where"]) for damage in damages), damages
        text = keel.run("check")
        assert text.code == 4 and f"DAMAGE ({damages[0]['kind']})" in text.out and "DAMAGED" in text.out, text
        restore()
    keel.write("test.db/extra", "somebody's")
    result = check(keel)
    assert result["sound"] and result["remarks"][0]["kind"] == "directory-file", result


def test_a_damaged_log_record(keel):
    """The first of several synced records is changed: what follows it proves that it was there."""
    keel.environment["KEEL_LIFETIME_MS"] = "300000"  # no checkpoint brings them to the base
    process = start(keel, keel.db, stdin=subprocess.PIPE)
    process.stdin.write(b"set first row-that-is-damaged\nset second row\nset third row\nget third\n")
    process.stdin.flush()
    process.stdout.readline()
    process.kill()  # one that closes the database may move its rows to the base, and then the log is not needed
    process.communicate()
    log = sorted(glob.glob(os.path.join(keel.db, "log/log-*.keel")))
    holders = [path for path in log if b"row-that-is-damaged" in open(path, "rb").read()]
    assert holders, log
    change_file(holders[0], lambda data: data.replace(b"row-that-is-damaged", b"row-that-is-Damaged"))
    damages = check(keel, code=4)["damages"]
    assert any(damage["kind"].startswith("log-") and "log/log-" in damage["where"] for damage in damages), damages


def test_not_a_database(keel):
    os.mkdir(keel.db)
    keel.write("test.db/something", "else")
    assert "20002" in keel.fails(1, "check")
    assert sorted(os.listdir(keel.db)) == ["something"]
