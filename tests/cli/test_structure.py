# SPDX-License-Identifier: Apache-2.0
"""ls, tree, mkdir, mv, rm, du: what they do, what they refuse, and their JSON."""
import os
import pty
import random
import select


# ---- ls ----

def test_ls_names_in_order(keel):
    for name in ("b", "a", "c"):
        keel.ok("mkdir", "-p", "/app/" + name)
    assert keel.ok("ls") == "app\n"
    assert keel.ok("ls", "/") == "app\n"
    assert keel.ok("ls", "/app") == "a\nb\nc\n"
    assert keel.ok("ls", "/app/") == "a\nb\nc\n"
    assert keel.ok("ls", "/app/a") == ""


def test_ls_long(keel):
    keel.ok("mkdir", "-p", "/app/users")
    keel.ok("mkdir", "--layer", "queue", "/app/jobs")
    lines = keel.ok("ls", "-l", "/app").splitlines()
    assert [line.split()[:2] for line in lines] == [["name", "layer"], ["jobs", "queue"], ["users", "-"]]
    keel.ok("set", "/app/users(1)", "x")
    prefix = lines[2].split()[2]
    assert keel.ok("get", prefix[:-1] + ", 1)") == "x\n", "the prefix that is shown is the one that is used"


def test_ls_json(keel):
    keel.ok("mkdir", "-p", "/app/users")
    keel.ok("mkdir", "--layer", "queue", "/app/jobs")
    rows = keel.json("ls", "/app")
    assert [(row["path"], row["name"], row["layer"]) for row in rows] == [("/app/jobs", "jobs", "queue"), ("/app/users", "users", "")]
    assert all(len(bytes.fromhex(row["prefix"]["hex"])) > 0 for row in rows)
    assert rows == keel.json("ls", "-l", "/app")


def test_ls_fails(keel):
    error = keel.fails(1, "ls")
    assert "no database" in error and not os.path.exists(keel.db), "a command that reads makes no database"
    keel.ok("mkdir", "/app")
    assert "/none" in keel.fails(3, "ls", "/none")
    assert "usage: ls" in keel.fails(2, "ls", "/app", "/b")
    assert "--wrong" in keel.fails(2, "ls", "--wrong")
    assert "empty name" in keel.fails(2, "ls", "//app")


def test_names_that_need_escapes(keel):
    names = ["a/b", "a(b", "a b", "back\\slash", 'quo"te', "ümläut", "new\nline", "\x7f"]
    for name in names:
        text = "".join("\\x%02x" % byte for byte in name.encode())
        keel.ok("mkdir", "-p", "/app/" + text)
    rows = keel.json("ls", "/app")
    assert sorted(row["name"] for row in rows) == sorted(names)
    shown = keel.ok("ls", "/app").splitlines()
    assert len(shown) == len(names), "a name is one line"
    for row, line in zip(rows, shown):
        assert row["path"] == "/app/" + line
        keel.ok("set", row["path"] + "(1)", "x")
        assert keel.ok("ls", row["path"]) == ""
        keel.ok("rm", "--yes", row["path"])
    assert keel.ok("ls", "/app") == ""


# ---- tree ----

def test_tree(keel):
    for path in ("/app/users/new", "/app/users/old", "/app/jobs", "/zoo"):
        keel.ok("mkdir", "-p", path)
    keel.ok("mkdir", "--layer", "queue", "/app/users/old/mail")
    assert keel.ok("tree") == """/
├── app
│   ├── jobs
│   └── users
│       ├── new
│       └── old
│           └── mail [queue]
└── zoo
"""
    assert keel.ok("tree", "--depth", "1") == "/\n├── app\n└── zoo\n"
    assert keel.ok("tree", "-d", "0", "/app") == "/app\n"
    assert keel.ok("tree", "/app/users") == "/app/users\n├── new\n└── old\n    └── mail [queue]\n"
    assert keel.ok("tree", "-l", "/zoo").startswith("/zoo (")
    rows = keel.json("tree", "/app")
    assert [row["path"] for row in rows] == ["/app", "/app/jobs", "/app/users", "/app/users/new", "/app/users/old", "/app/users/old/mail"]
    assert rows[-1]["layer"] == "queue" and rows[0]["prefix"]["hex"]
    assert "prefix" not in keel.json("tree")[0], "/ has none"


def test_tree_fails(keel):
    keel.ok("mkdir", "/app")
    keel.fails(3, "tree", "/none")
    assert "whole number" in keel.fails(2, "tree", "--depth", "x")
    keel.fails(2, "tree", "--depth", "-1")
    keel.fails(2, "tree", "/app", "/app")


def test_tree_of_many(keel):
    keel.script("begin\n" + "".join(f"mkdir -p /d{i % 20}/e{i % 7}/f{i}\n" for i in range(400)) + "commit\n")
    lines = keel.ok("tree").splitlines()
    assert len(lines) == 1 + 20 + 140 + 400
    assert sum("f" in line for line in lines) == 400
    assert sum(line.startswith("└") for line in lines) == 1
    rows, branch = keel.json("tree"), {}
    for row in rows[1:]:
        parent, name = row["path"].rsplit("/", 1)
        branch.setdefault(parent, []).append(name)
    for row, line in zip(rows[1:], lines[1:]):
        names = row["path"].split("/")[1:]
        last = [branch["".join("/" + name for name in names[:i])][-1] == names[i] for i in range(len(names))]
        assert line == "".join("    " if ended else "│   " for ended in last[:-1]) + ("└── " if last[-1] else "├── ") + names[-1]


# ---- mkdir ----

def test_mkdir(keel):
    assert keel.ok("mkdir", "/app") == ""
    assert "mkdir -p" in keel.fails(1, "mkdir", "/app")
    assert "mkdir -p" in keel.fails(3, "mkdir", "/a/b/c")
    assert keel.ok("ls") == "app\n", "nothing of /a/b/c was made"
    keel.ok("mkdir", "-p", "/a/b/c")
    keel.ok("mkdir", "-p", "/a/b/c")
    assert keel.ok("ls", "/a/b") == "c\n"
    keel.ok("mkdir", "-p", "/")
    keel.fails(1, "mkdir", "/")
    assert "usage: mkdir" in keel.fails(2, "mkdir")


def test_mkdir_layer(keel):
    keel.ok("mkdir", "--layer", "queue", "/app")
    keel.ok("mkdir", "-p", "--layer=queue", "/app")
    keel.ok("mkdir", "-p", "/app")
    assert "ls -l" in keel.fails(1, "mkdir", "-p", "-l", "table", "/app")


def test_mkdir_json(keel):
    row, = keel.json("mkdir", "-p", "--layer", "queue", "/app/jobs")
    assert row["path"] == "/app/jobs" and row["name"] == "jobs" and row["layer"] == "queue" and row["committed_version"] > 0
    assert row["prefix"] == keel.json("ls", "/app")[0]["prefix"]
    assert keel.json("mkdir", "/app", code=1) == []


# ---- mv ----

def test_mv(keel):
    keel.ok("mkdir", "-p", "/app/users/old")
    keel.ok("mkdir", "/archive")
    keel.ok("set", "/app/users(7)", "ann")
    assert keel.ok("mv", "/app/users", "/archive/people") == ""
    assert keel.ok("get", "/archive/people(7)") == "ann\n"
    assert keel.ok("ls", "/archive/people") == "old\n"
    assert keel.ok("ls", "/app") == ""
    row, = keel.json("mv", "/archive/people", "/people")
    assert (row["from"], row["to"]) == ("/archive/people", "/people") and row["committed_version"] > 0


def test_mv_fails(keel):
    keel.ok("mkdir", "-p", "/a/b")
    keel.ok("mkdir", "/c")
    keel.ok("mkdir", "-l", "partition", "/p")
    assert "/none" in keel.fails(3, "mv", "/none", "/d")
    assert "exists" in keel.fails(1, "mv", "/a", "/c")
    assert "parent" in keel.fails(3, "mv", "/a", "/d/e")
    assert "partition" in keel.fails(1, "mv", "/a", "/p/a")
    assert "into" in keel.fails(1, "mv", "/a", "/a/b/c")
    keel.fails(1, "mv", "/", "/d")
    assert "usage: mv" in keel.fails(2, "mv", "/a")
    keel.fails(2, "mv", "/a", "/b", "/c")
    assert keel.ok("ls") == "a\nc\np\n"


# ---- rm ----

def test_rm(keel):
    keel.ok("mkdir", "-p", "/app/empty")
    assert keel.ok("rm", "/app/empty") == "", "what is empty goes without a question"
    assert keel.ok("ls", "/app") == ""
    keel.ok("mkdir", "/app/data")
    keel.ok("set", "/app/data(1)", "x")
    assert "--yes" in keel.fails(1, "rm", "/app/data"), "nobody is there to ask"
    assert "1 directory" in keel.fails(1, "rm", "/app")
    assert keel.ok("get", "/app/data(1)") == "x\n"
    keel.ok("rm", "-r", "/app/data")
    keel.ok("mkdir", "/app/data")
    keel.fails(3, "get", "/app/data(1)")
    keel.ok("rm", "/app", options=["--yes"])
    assert keel.ok("ls") == ""


def test_rm_fails(keel):
    keel.ok("mkdir", "/app")
    assert "/none" in keel.fails(3, "rm", "/none")
    keel.fails(3, "rm", "-r", "/none")
    assert "root" in keel.fails(1, "rm", "--yes", "/")
    assert "usage: rm" in keel.fails(2, "rm")
    keel.fails(2, "rm", "-r", "/app", "/app")
    assert keel.ok("ls") == "app\n"


def test_rm_json(keel):
    keel.ok("mkdir", "-p", "/app/a")
    assert keel.json("rm", "/app", code=1) == []
    row, = keel.json("rm", "-r", "/app")
    assert row["path"] == "/app" and row["removed"] is True and row["committed_version"] > 0


def on_terminal(keel, answer, *args):
    """Runs the command on a terminal and answers its first question. Returns the exit code and what was shown."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(keel.directory)
        os.execve(keel.binary, [keel.binary, keel.db, *args], keel.environment)
    shown, answered = b"", False
    while True:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"nothing came for a minute: {shown}"
        try:
            data = os.read(terminal, 4096)
        except OSError:
            data = b""
        if not data:
            break
        shown += data
        if not answered and b"[y/N]" in shown:
            os.write(terminal, answer)
            answered = True
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_rm_asks_on_a_terminal(keel):
    keel.ok("mkdir", "-p", "/app/a")
    keel.ok("mkdir", "/app/b")
    code, shown = on_terminal(keel, b"n\n", "rm", "/app")
    assert code == 1 and "2 directories" in shown and keel.ok("ls") == "app\n", shown
    code, shown = on_terminal(keel, b"y\n", "rm", "/app")
    assert code == 0 and keel.ok("ls") == "", shown
    keel.ok("mkdir", "/app")
    code, shown = on_terminal(keel, b"", "rm", "/app")
    assert code == 0 and "[y/N]" not in shown, "what is empty goes without a question: " + shown


# ---- du ----

def test_du_adds_up(keel):
    """The own sizes of all directories are the whole database, exact and to the byte."""
    randomness = random.Random(keel.seed)
    keel.ok("mkdir", "-l", "partition", "/p")
    keel.ok("mkdir", "-p", "/p/q/r")
    keel.ok("mkdir", "-l", "partition", "/p/q/inner")
    keel.ok("mkdir", "-p", "/p/q/inner/z")
    keel.ok("mkdir", "-p", "/app/users")
    script, rows, size = "begin\n", {}, {}
    for path in ("/app", "/app/users", "/p/q", "/p/q/r", "/p/q/inner/z"):
        rows[path] = randomness.randrange(1, 40)
        script += "".join(f"set {path}({i}) {'v' * randomness.randrange(1, 50)}\n" for i in range(rows[path]))
    keel.script(script + "set loose row\ncommit\n")
    printed = {row["path"]: row for row in keel.json("du", "--exact")}
    for path, count in rows.items():
        assert printed[path]["rows"] == count, (path, printed[path])
    assert printed["/app"]["total_rows"] == rows["/app"] + rows["/app/users"]
    assert printed["/p/q"]["total_bytes"] == sum(printed[path]["bytes"] for path in ("/p/q", "/p/q/r", "/p/q/inner", "/p/q/inner/z"))
    every = keel.json("getrange", "", "\\xff", "--all")
    every = [row for row in every if "key" in row]
    size = sum(len(row["key"]["hex"]) // 2 + len(row["value"]["hex"]) // 2 for row in every)
    assert printed["/"]["total_rows"] == len(every) and printed["/"]["total_bytes"] == size
    assert sum(row["rows"] for row in printed.values()) == len(every)
    assert printed["/"]["rows"] > 0 and printed["/p"]["rows"] > 0, "the trees of directories lie in no directory"


def test_du_of_a_part(keel):
    keel.ok("mkdir", "-p", "/app/users")
    keel.ok("set", "/app/users(1)", "ann")
    keel.ok("set", "loose", "row")
    rows = keel.json("du", "--exact", "/app")
    assert [(row["path"], row["rows"], row["total_rows"]) for row in rows] == [("/app", 0, 1), ("/app/users", 1, 1)]
    assert [row["path"] for row in keel.json("du", "--depth", "0", "/app")] == ["/app"]
    lines = keel.ok("du", "-e", "/app").splitlines()
    assert lines[0].split() == ["rows", "bytes", "in", "all", "directory"]
    assert lines[2].split()[0] == "1" and lines[2].endswith("  /app/users")


def test_du_estimates(keel):
    keel.ok("mkdir", "-p", "/small")
    keel.ok("mkdir", "-p", "/large")
    keel.script("begin\n" + "".join(f"set /large({i}) {'x' * 5000}\n" for i in range(400)) + "set /small(1) x\ncommit\n")
    rows = {row["path"]: row for row in keel.json("du")}
    assert rows["/large"]["exact"] is False and "rows" not in rows["/large"]
    assert 1000000 < rows["/large"]["bytes"] < 4000000 and rows["/small"]["bytes"] < 100000
    assert rows["/"]["total_bytes"] == sum(row["bytes"] for row in rows.values())
    assert keel.ok("du").splitlines()[0].split() == ["bytes", "in", "all", "directory"]


def test_du_counts_more_than_a_transaction_reads(keel):
    keel.ok("mkdir", "/app")
    for part in range(3):
        keel.script("begin\n" + "".join(f"set /app({part},{i}) {'x' * 90000}\n" for i in range(90)) + "commit\n")
    row, = keel.json("du", "--exact", "/app")
    assert row["rows"] == 270 and 270 * 90000 < row["bytes"] < 270 * 90020
    assert keel.run("du", "--exact", "/app", options=["--quiet"]).err == ""


def test_du_fails(keel):
    keel.fails(1, "du")
    keel.ok("mkdir", "/app")
    assert "/none" in keel.fails(3, "du", "/none")
    assert "usage: du" in keel.fails(2, "du", "/app", "/app")
    keel.fails(2, "du", "--depth", "x")


# ---- Transactions ----

def test_directories_in_one_transaction(keel):
    out = keel.script("begin\nmkdir -p /app/a\nmv /app/a /app/b\nset /app/b(1) x\nls /app\ncommit\n")
    assert "b\n" in out
    assert keel.ok("get", "/app/b(1)") == "x\n"
    keel.script("begin\nrm -r /app\nmkdir /other\nrollback\n")
    assert keel.ok("ls") == "app\n", "what was not committed did not happen"
    row = keel.script("begin\nmkdir /x\nrollback\n", options=["--json"]).splitlines()
    assert any('"committed_version": null' in line for line in row), row


def test_options_in_a_script(keel):
    """Options among the words of a line, before and behind arguments."""
    out = keel.script("mkdir -p --layer queue /a/b\nls -l /a\ntree --depth 1 /a\ntree /a -d 0\n")
    assert out.endswith("/a\n└── b [queue]\n/a\n"), out


def test_partition_in_partition_removed(keel):
    keel.ok("mkdir", "-l", "partition", "/p")
    keel.ok("mkdir", "-l", "partition", "/p/q")
    keel.ok("mkdir", "/p/q/r")
    keel.ok("set", "/p/q/r(1)", "x")
    assert keel.ok("tree") == "/\n└── p [partition]\n    └── q [partition]\n        └── r\n"
    assert "1 directory" in keel.fails(1, "rm", "/p")
    keel.ok("rm", "/p/q/r", "-r")
    keel.ok("rm", "/p/q")
    keel.ok("rm", "/p")
    assert keel.ok("tree") == "/\n"
