# SPDX-License-Identifier: Apache-2.0
"""doc, blob, queue, table, spatial: every sub-command's success, failure and JSON."""
import json
import os
import random
import signal
import subprocess


# ---- What all have in common ----

READS = {
    "doc": [("get", "1"), ("ls",)],
    "blob": [("get", "a"), ("size", "a"), ("ls",)],
    "queue": [("peek",), ("size",), ("ls",)],
    "table": [("get", "a", "b"), ("row", "a"), ("column", "a"), ("ls",)],
    "spatial": [("get", "a"), ("box", "0", "0", "9", "9"), ("radius", "0", "0", "9"), ("nearest", "0", "0"), ("ls",)],
}
REMOVALS = {
    "doc": [("rm", "1")],
    "blob": [("rm", "a"), ("punch", "a", "0", "1")],
    "queue": [("pop",), ("clear",)],
    "table": [("rm", "a", "b"), ("rmrow", "a"), ("rmcolumn", "a")],
    "spatial": [("rm", "a"), ("move", "a", "1", "1")],
}


def test_reads_make_nothing(keel):
    """Reads need the database and the directory, removals the directory; neither makes it."""
    for command, reads in READS.items():
        for sub, *rest in reads:
            assert "no database" in keel.fails(1, command, sub, "/app", *rest)
            assert not os.path.exists(keel.db)
    keel.ok("mkdir", "/other")
    for table in (READS, REMOVALS):
        for command, subs in table.items():
            for sub, *rest in subs:
                error = keel.fails(3, command, sub, "/app/x", *rest)
                assert "/app/x" in error and f"{command} {sub}" in error, error
                assert keel.json(command, sub, "/app/x", *rest, code=3) == []
    assert keel.fails(3, "doc", "exists", "/app/x", "1") == "" and keel.json("doc", "exists", "/app/x", "1", code=3) == [{"exists": False}]
    assert keel.ok("ls") == "other\n"


def test_wrong_usage(keel):
    for command in READS:
        error = keel.fails(2, command)
        assert f"usage: {command} " in error and "ls" in error
        assert "frobnicate" in keel.fails(2, command, "frobnicate", "/app")
        for sub in ("ls", "get"):
            if command == "queue" and sub == "get":
                continue
            assert f"usage: {command} {sub}" in keel.fails(2, command, sub)
            keel.fails(2, command, sub, "--wrong", "/app")
        keel.fails(2, command, "ls", "/app", "too many")
        assert "name one" in keel.fails(2, command, "ls", "/")
        keel.fails(2, command, "ls", "//x")
    assert not os.path.exists(keel.db)


def test_partitions_are_refused(keel):
    keel.ok("mkdir", "-l", "partition", "/p")
    for words in (("doc", "set", "/p", "1", "{}"), ("queue", "push", "/p", "x"), ("table", "set", "/p", "a", "b", "c"),
                  ("spatial", "set", "/p", "a", "1", "1"), ("doc", "ls", "/p")):
        assert "partition" in keel.fails(1, *words)
    keel.ok("queue", "push", "/p/jobs", "x")
    assert keel.ok("queue", "pop", "/p/jobs") == "x\n"


def test_foreign_rows(keel):
    """A directory that another structure uses is told, not misread."""
    keel.ok("mkdir", "/app")
    keel.ok("set", "/app(\"x\")", "y")
    for words in (("queue", "ls"), ("queue", "push"), ("spatial", "get"), ("table", "ls", "--by-rows")):
        extra = {"push": ["z"], "get": ["x"]}.get(words[1], [])
        if words == ("spatial", "get"):
            keel.ok("set", "/app(\"L\", \"x\", \"no place\")", "")
        error = keel.fails(1, *words, "/app", *extra)
        assert "/app" in error and ("not written by this structure" in error or "--by-rows" in error), error
    keel.ok("table", "set", "/t", "a", "b", "c")
    assert "--by-rows" in keel.fails(1, "table", "ls", "--by-rows", "/t")


def test_one_transaction(keel):
    """Several commands between begin and commit happen together or not at all."""
    keel.script("""begin
doc set /app/users 1 '{"name": "ann"}'
queue push /app/jobs one two
table set /app/scores ann chess won
spatial set /app/pins home 1 2
queue pop /app/jobs
rollback
""")
    assert keel.ok("ls") == ""
    out = keel.script("""begin
doc set /app/users 1 '{"name": "ann"}'
doc set /app/users 1 age 7
queue push /app/jobs one two
queue pop /app/jobs
table set /app/scores ann chess won
spatial set /app/pins home 1 2
doc get /app/users 1 age
commit
""")
    assert "one\n" in out and "7\n" in out
    assert keel.json("doc", "get", "/app/users", "1") == [{"name": "ann", "age": 7}]
    assert keel.ok("queue", "ls", "/app/jobs") == "two\n"
    assert keel.ok("table", "get", "/app/scores", "ann", "chess") == "won\n"
    assert keel.ok("spatial", "get", "/app/pins", "home") == "home  1 2\n"


def test_names(keel):
    """What is a number and what is text; all that is listed reads back."""
    cases = [("7", 7), ("-7", -7), ("ann", "ann"), ('"7"', "7"), ("007", "007"), ("1e5", "1e5"), ("1.5", 1.5), ("2024-01-02", "2024-01-02"),
             ("two words", "two words"), ("\\x41b", "Ab"), ("ünï", "ünï"), ("0x00ff", {"text": "0x00ff"}), ("-", "-"), ("true", "true"),
             ("uuid(00112233-4455-6677-8899-aabbccddeeff)", {"text": "uuid(00112233-4455-6677-8899-aabbccddeeff)"}), ("/x", "/x"),
             ("123456789012345678901234567890", {"text": "123456789012345678901234567890"})]
    for text, value in cases:
        row, = keel.json("doc", "set", "/app", text, "1")
        assert row["id"] == value, (text, row)
    listed = keel.ok("doc", "ls", "/app").splitlines()
    assert len(listed) == len(cases)
    for line in listed:
        assert keel.ok("doc", "get", "/app", line) == "1\n", line
        keel.ok("doc", "rm", "/app", line)
    assert keel.ok("doc", "ls", "/app") == ""
    for wrong in ('"open', "0x0", "uuid(1)", "(1, 2", "\\xzz", "\\xff"):
        assert f"doc set: {wrong}: " in keel.fails(2, "doc", "set", "/app", wrong, "1")
    keel.fails(1, "doc", "set", "/app", "(1, 2)", "1")  # an element, but no id


# ---- doc ----

def test_doc_set_get(keel):
    text = '{"name": "ann", "tags": ["dev", "ops"], "empty": {}, "none": [], "pi": 3.141592653589793, "big": 9223372036854775807, "nul": "a\\u0000b"}'
    assert keel.ok("doc", "set", "/app/users", "7", text) == ""
    assert keel.json("doc", "get", "/app/users", "7") == [json.loads(text)]
    assert json.loads(keel.ok("doc", "get", "/app/users", "7")) == json.loads(text)
    assert keel.ok("doc", "get", "/app/users", "7", "tags") == '[\n  "dev",\n  "ops"\n]\n'
    assert keel.ok("doc", "get", "/app/users", "7", "tags", "1") == '"ops"\n'
    assert keel.ok("doc", "get", "/app/users", "7", "empty") == "{}\n"
    assert keel.ok("doc", "get", "/app/users", "7", "pi") == "3.141592653589793\n"
    keel.ok("doc", "set", "/app/users", "7", "tags", "2", '"more"')
    keel.ok("doc", "set", "/app/users", "7", "address", "city", '"Oslo"')
    row, = keel.json("doc", "set", "/app/users", "7", "tags", "0", "null")
    assert row.pop("committed_version") > 0 and row == {"id": 7, "path": ["tags", 0], "set": True}
    document = keel.json("doc", "get", "/app/users", "7")[0]
    assert document["tags"] == [None, "ops", "more"] and document["address"] == {"city": "Oslo"}


def test_doc_layout_of_strings(keel):
    """Braces, commas and quotes in strings are not laid out."""
    value = {"a{b": 'x,"y\\":[]{}', "c": [[], {}, [1]]}
    keel.ok("doc", "set", "/app", "1", json.dumps(value))
    out = keel.ok("doc", "get", "/app", "1")
    assert json.loads(out) == value and len(out.splitlines()) == 10, out


def test_doc_input(keel):
    keel.ok("doc", "set", "/app", "1", "-", input='{"from": "stdin"}\n')
    keel.ok("doc", "set", "/app", "2", "@" + keel.write("doc.json", '{"from": "file"}'))
    assert keel.json("doc", "get", "/app", "1", "from") == ["stdin"] and keel.json("doc", "get", "/app", "2", "from") == ["file"]
    assert "none.json" in keel.fails(2, "doc", "set", "/app", "3", "@none.json")


def test_doc_merge(keel):
    keel.ok("doc", "merge", "/app", "1", '{"a": {"b": 1}}')
    keel.ok("doc", "merge", "/app", "1", '{"a": {"c": 2}, "d": [3]}')
    keel.ok("doc", "merge", "/app", "1", "a", '{"b": null}')
    assert keel.json("doc", "get", "/app", "1") == [{"a": {"b": None, "c": 2}, "d": [3]}]
    keel.fails(2, "doc", "merge", "--hierarchy", "/app", "1", "{}")


def test_doc_insert(keel):
    assert keel.ok("doc", "insert", "/app", '{"doc_id": 5, "x": 1}') == "5\n"
    assert keel.ok("doc", "insert", "/app", '{"doc_id": "ann", "x": 1}') == "ann\n"
    drawn = keel.json("doc", "insert", "/app", '{"x": 2}')[0]["id"]
    assert isinstance(drawn, int) and keel.json("doc", "get", "/app", str(drawn), "x") == [2]
    drawn = keel.ok("doc", "insert", "/app", '{"x": 3}').strip()
    assert keel.json("doc", "get", "/app", drawn, "x") == [3]
    assert "object" in keel.fails(1, "doc", "insert", "/app", "[1]")
    keel.fails(1, "doc", "insert", "/app", '{"doc_id": [1]}')
    keel.fails(2, "doc", "insert", "/app", "1", "{}")


def test_doc_exists_and_rm(keel):
    keel.ok("doc", "set", "/app", "1", '{"a": [1, 2, 3]}')
    assert keel.ok("doc", "exists", "/app", "1") == "yes\n"
    assert keel.run("doc", "exists", "/app", "1", "a", "3").out == "no\n"
    keel.fails(3, "doc", "exists", "/app", "1", "a", "3")
    assert keel.json("doc", "exists", "/app", "1", "a") == [{"exists": True}]
    assert keel.json("doc", "exists", "/app", "2", code=3) == [{"exists": False}]
    row, = keel.json("doc", "rm", "/app", "1", "a", "1")
    assert row["removed"] is True and row["path"] == ["a", 1]
    assert keel.json("doc", "get", "/app", "1") == [{"a": [1, 3]}]
    keel.ok("doc", "rm", "/app", "1")
    assert "/app 1" in keel.fails(3, "doc", "rm", "/app", "1")
    assert "/app 1 a" in keel.fails(3, "doc", "get", "/app", "1", "a")


def test_doc_ls(keel):
    keel.script("begin\n" + "".join(f"doc set /app {i} {i}\n" for i in range(1203)) + "commit\n")
    assert keel.ok("doc", "ls", "/app").split() == [str(i) for i in range(1203)]
    assert keel.ok("doc", "ls", "/app", "--after", "5", "-n", "3") == "6\n7\n8\n"
    assert keel.json("doc", "ls", "/app", "--limit", "2") == [{"id": 0}, {"id": 1}]
    rows = keel.json("doc", "ls", "/app", "--values")
    assert rows == [{"id": i, "value": i} for i in range(1203)]
    assert keel.ok("doc", "ls", "-v", "/app", "--after", "1201") == "1202  1202\n"
    assert keel.ok("doc", "ls", "/app", "--after", "1202") == ""
    keel.fails(2, "doc", "ls", "/app", "--limit", "0")
    keel.fails(2, "doc", "ls", "/app", "--after", "0x0")


def test_doc_fails(keel):
    keel.ok("doc", "set", "/app", "1", '{"a": [1], "s": "text"}')
    error = keel.fails(2, "doc", "set", "/app", "1", "ann")
    assert "JSON" in error and '"ann"' in error and "column" in error
    assert "line 2" in keel.fails(2, "doc", "set", "/app", "1", '{"a":\n x}')
    keel.fails(2, "doc", "set", "/app", "1", "")
    assert "/app 1 a 5" in keel.fails(1, "doc", "set", "/app", "1", "a", "5", "1")
    assert "path" in keel.fails(1, "doc", "set", "/app", "1", "s", "x", "1")
    assert "member" in keel.fails(2, "doc", "get", "/app", "1", "1.5")
    keel.fails(2, "doc", "set", "/app", "1")
    keel.fails(2, "doc", "get", "/app")
    assert "21005" in keel.fails(1, "doc", "set", "/app", "1", "123456789012345678901")
    assert "2103" in keel.fails(1, "doc", "set", "/app", "1", "-", input=json.dumps("x" * 100001))
    assert keel.json("doc", "get", "/app", "1") == [{"a": [1], "s": "text"}]


def test_doc_hierarchy(keel):
    keel.ok("doc", "insert", "--hierarchy", "/tree", '{"norway": {"capital": "Oslo"}}')
    keel.ok("doc", "insert", "-H", "/tree", '{"norway": {"people": 5}}')
    row, = keel.json("doc", "set", "--hierarchy", "/tree", "sweden", "capital", '"Stockholm"')
    assert "id" not in row and row["path"] == ["sweden", "capital"]
    assert keel.json("doc", "get", "-H", "/tree") == [{"norway": {"capital": "Oslo", "people": 5}, "sweden": {"capital": "Stockholm"}}]
    keel.ok("doc", "rm", "-H", "/tree", "norway", "capital")
    assert keel.json("doc", "get", "-H", "/tree", "norway") == [{"people": 5}]
    keel.fails(3, "doc", "get", "-H", "/tree", "norway", "capital")
    keel.fails(2, "doc", "exists", "-H", "/tree", "norway")


# ---- blob ----

def test_blob_put_get(keel):
    data = bytes(range(256)) * 10
    row, = keel.json("blob", "put", "/files", "a", "-", input=data)
    assert row.pop("committed_version") > 0 and row == {"name": "a", "written": len(data)}
    assert keel.run("blob", "get", "/files", "a").out_bytes == data
    assert keel.run("blob", "get", "/files", "a", "-").out_bytes == data
    keel.ok("blob", "get", "/files", "a", keel.path("out"))
    with open(keel.path("out"), "rb") as file:
        assert file.read() == data
    assert keel.run("blob", "get", "/files", "a", "--offset", "250", "--length", "10").out_bytes == data[250:260]
    assert keel.run("blob", "get", "/files", "a", "--offset", "2550").out_bytes == data[2550:]
    assert keel.run("blob", "get", "/files", "a", "--offset", "99999").out_bytes == b""
    assert keel.ok("blob", "size", "/files", "a") == "2560\n"
    assert keel.json("blob", "size", "/files", "a") == [{"name": "a", "size": 2560}]
    row, = keel.json("blob", "get", "/files", "a")
    assert bytes.fromhex(row["data"]["hex"]) == data and row["size"] == 2560
    row, = keel.json("blob", "get", "/files", "a", keel.path("out"))
    assert row == {"name": "a", "file": keel.path("out"), "read": 2560}


def test_blob_parts(keel):
    keel.ok("blob", "put", "/files", "a", keel.write("in", "hello world"))
    keel.ok("blob", "put", "/files", "a", "-", "--offset", "6", input="there")
    assert keel.ok("blob", "get", "/files", "a") == "hello there"
    keel.ok("blob", "append", "/files", "a", "-", "--chunk-bytes", "3", input="!!")
    keel.ok("blob", "append", "/files", "new", "-", input="made by append")
    assert keel.ok("blob", "get", "/files", "a") == "hello there!!" and keel.ok("blob", "get", "/files", "new") == "made by append"
    row, = keel.json("blob", "truncate", "/files", "a", "5")
    assert row["size"] == 5 and keel.ok("blob", "get", "/files", "a") == "hello"
    keel.ok("blob", "truncate", "/files", "a", "7")
    assert keel.run("blob", "get", "/files", "a").out_bytes == b"hello\0\0"
    row, = keel.json("blob", "punch", "/files", "a", "1", "3")
    assert row["size"] == 7 and keel.run("blob", "get", "/files", "a").out_bytes == b"h\0\0\0o\0\0"
    row, = keel.json("blob", "rm", "/files", "a")
    assert row["removed"] == 7
    for sub in (("get",), ("size",), ("rm",)):
        assert "blob ls" in keel.fails(3, "blob", sub[0], "/files", "a")
    assert keel.ok("blob", "ls", "/files") == "            14  new\n"


def test_blob_large(keel):
    """Several megabytes go through in steps, and come back the same; a shorter one leaves nothing of it behind."""
    data = random.Random(keel.seed).randbytes(3210987)
    name = keel.write("in", data)
    keel.ok("blob", "put", "/files", "large", name)
    assert keel.run("blob", "get", "/files", "large").out_bytes == data
    keel.ok("blob", "append", "/files", "large", name)
    assert keel.ok("blob", "size", "/files", "large") == "6421974\n"
    assert keel.run("blob", "get", "/files", "large", "--offset", "3210987").out_bytes == data
    keel.ok("blob", "put", "/files", "large", "-", input="short")
    assert keel.ok("blob", "get", "/files", "large") == "short"
    assert keel.json("du", "--exact", "/files")[0]["rows"] == 1
    done = keel.shell(f"cat in | keel {keel.db} --quiet blob put /files piped - && keel {keel.db} blob get /files piped | cmp - in")
    assert done.err == ""


def test_blob_ls(keel):
    keel.script("begin\n" + "".join(f"doc set /other {i} 1\n" for i in range(3)) + "commit\n")
    path = keel.write("one", "x")
    keel.script("begin\n" + "".join(f"blob put /files {i} {path}\n" for i in range(1100)) + f"blob put /files b {path}\ncommit\n")
    keel.ok("blob", "put", "/files", "(1, \"nested\")", "-", input="xy")
    rows = keel.json("blob", "ls", "/files")
    assert rows[:1] == [{"name": "b", "size": 1}] and len(rows) == 1102
    assert rows[1] == {"name": {"text": '(1, "nested")'}, "size": 2} and rows[2:] == [{"name": i, "size": 1} for i in range(1100)]
    assert keel.ok("blob", "ls", "/files").splitlines()[0].split() == ["1", "b"]


def test_blob_fails(keel):
    assert "none" in keel.fails(1, "blob", "put", "/files", "a", "none")
    assert keel.run("ls", "/").code == 1, "nothing was made"
    keel.ok("blob", "put", "/files", "a", "-", input="x")
    path = keel.write("kept", "precious")
    keel.fails(3, "blob", "get", "/files", "none", path)
    with open(path) as file:
        assert file.read() == "precious", "a wrong name destroys no file"
    assert "directory" in keel.fails(1, "blob", "get", "/files", "a", keel.path("no/such/directory"))
    keel.fails(1, "blob", "put", "/files", "a", keel.directory)
    keel.ok("blob", "put", "/files", "a", "-", input="x")
    for words in (("put", "/files", "a"), ("truncate", "/files", "a", "-1"), ("truncate", "/files", "a", "x"), ("punch", "/files", "a", "1"),
                  ("put", "/files", "a", "-", "--chunk-bytes", "100001"), ("get", "/files", "a", "--offset", "-1"), ("size", "/files")):
        keel.fails(2, "blob", *words)
    assert keel.ok("blob", "get", "/files", "a") == "x"
    keel.ok("blob", "put", "/files", "a", "-", input="")
    keel.fails(3, "blob", "get", "/files", "a")


def interrupted(keel, *args):
    """Runs a command that reads from the pipe `fifo`, sends Ctrl-C while it does, and returns its exit code and standard error."""
    os.mkfifo(keel.path("fifo"))
    child = subprocess.Popen([keel.binary, keel.db, *args], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=keel.environment, cwd=keel.directory)
    with open(keel.path("fifo"), "wb") as fifo:  # opened when the command has opened it
        fifo.write(b"1234")
        fifo.flush()
        child.send_signal(signal.SIGINT)
    _, error = child.communicate()
    os.unlink(keel.path("fifo"))
    return child.returncode, error.decode()


def test_ctrl_c_while_input_is_read(keel):
    for words in (("blob", "put", "/app", "a", "fifo"), ("doc", "set", "/app", "1", "@fifo"), ("queue", "push", "/app", "@fifo"),
                  ("table", "setrow", "/app", "r", "@fifo")):
        code, error = interrupted(keel, *words)
        assert code == 130 and "interrupted" in error, (words, code, error)
    keel.ok("set", "x", "y")
    assert keel.ok("ls") == "", "nothing was written"


def test_blob_name_too_long(keel):
    assert "510 bytes" in keel.fails(1, "blob", "put", "/files", "n" * 520, "-", input="x")
    keel.ok("blob", "put", "/files", "n" * 490, "-", input="x")
    assert keel.json("blob", "ls", "/files") == [{"name": "n" * 490, "size": 1}]


def test_blob_in_a_transaction(keel):
    path = keel.write("in", b"x" * 2500000)
    keel.script(f"begin\nblob put /files a {path}\nrollback\n")
    keel.fails(3, "blob", "size", "/files", "a")
    keel.script(f"begin\nblob put /files a {path}\nblob append /files a {path}\ncommit\n")
    assert keel.ok("blob", "size", "/files", "a") == "5000000\n"
    huge = keel.write("huge", b"x" * 11000000)
    result = keel.run(input=f"begin\nblob put /files b {huge}\ncommit\n")
    assert result.code == 1 and "10,000,000" in result.err, result
    keel.fails(3, "blob", "size", "/files", "b")


# ---- queue ----

def test_queue(keel):
    assert keel.ok("queue", "push", "/jobs", "first") == ""
    row, = keel.json("queue", "push", "/jobs", '("resize", 17)', "two words", "\\x00\\xff")
    assert row["pushed"] == 3 and row["committed_version"] > 0
    assert keel.ok("queue", "size", "/jobs") == "4\n" and keel.json("queue", "size", "/jobs") == [{"size": 4}]
    assert keel.ok("queue", "peek", "/jobs") == "first\n" and keel.ok("queue", "pop", "/jobs") == "first\n"
    assert keel.ok("queue", "ls", "/jobs") == '("resize", 17)\n"two words"\n\\x00\\xff\n'
    assert keel.ok("queue", "ls", "/jobs", "--limit", "1") == '("resize", 17)\n'
    assert [bytes.fromhex(row["value"]["hex"]) for row in keel.json("queue", "ls", "/jobs")][1:] == [b"two words", b"\0\xff"]
    row, = keel.json("queue", "peek", "/jobs")
    assert row["value"]["tuple"] == ["resize", 17]
    assert [row["value"]["text"] for row in keel.json("queue", "pop", "/jobs", "--count", "2")] == ['("resize", 17)', "two words"]
    assert keel.ok("queue", "pop", "/jobs", "-n", "100") == "\\x00\\xff\n"
    for sub in ("pop", "peek"):
        assert "empty" in keel.fails(3, "queue", sub, "/jobs")
        assert keel.json("queue", sub, "/jobs", code=3) == []
    assert keel.ok("queue", "size", "/jobs") == "0\n" and keel.ok("queue", "ls", "/jobs") == ""


def test_queue_input(keel):
    data = bytes(range(256))
    keel.ok("queue", "push", "/jobs", "@" + keel.write("value", data))
    keel.ok("queue", "push", "/jobs", "-", input=data[::-1])
    keel.ok("queue", "push", "/jobs", "")
    values = [bytes.fromhex(row["value"]["hex"]) for row in keel.json("queue", "pop", "/jobs", "-n", "3")]
    assert values == [data, data[::-1], b""]


def test_queue_order_and_clear(keel):
    for part in range(3):
        keel.script("begin\n" + "".join(f"queue push /jobs {part * 800 + i}\n" for i in range(800)) + "commit\n")
    assert keel.ok("queue", "ls", "/jobs").split() == [str(i) for i in range(2400)]
    assert keel.ok("queue", "ls", "/jobs", "-n", "1500").split() == [str(i) for i in range(1500)]
    assert keel.json("queue", "clear", "/jobs")[0]["cleared"] is True
    assert keel.ok("queue", "size", "/jobs") == "0\n"
    keel.ok("queue", "clear", "/jobs")


def test_queue_many_consumers(keel):
    """Each value goes to one of several scripts in one process after the other; all of them together get all."""
    keel.ok("queue", "push", "/jobs", *[str(i) for i in range(20)])
    seen = []
    while True:
        result = keel.run("queue", "pop", "/jobs", "-n", "3")
        if result.code == 3:
            break
        seen += result.out.split()
    assert seen == [str(i) for i in range(20)]


def test_queue_fails(keel):
    assert "2103" in keel.fails(1, "queue", "push", "/jobs", "-", input="x" * 100001)
    assert keel.run("ls").out == "", "the directory was not made either"
    for words in (("push", "/jobs"), ("pop", "/jobs", "-n", "0"), ("pop", "/jobs", "x"), ("push", "/jobs", "\\q"), ("ls", "/jobs", "--limit", "x")):
        keel.fails(2, "queue", *words)
    assert "none" in keel.fails(2, "queue", "push", "/jobs", "@none")


# ---- table ----

def test_table_cells(keel):
    for options in ([], ["--by-rows"]):
        path = "/both" if not options else "/rows"
        assert keel.ok("table", "set", *options, path, "ann", "chess", "won") == ""
        row, = keel.json("table", "set", *options, path, "7", "go", "(3)")
        assert row.pop("committed_version") > 0 and row == {"row": 7, "column": "go", "set": True}
        assert keel.ok("table", "get", *options, path, "ann", "chess") == "won\n"
        row, = keel.json("table", "get", *options, path, "7", "go")
        assert (row["row"], row["column"], row["value"]["tuple"]) == (7, "go", [3])
        keel.ok("table", "set", *options, path, "ann", "raw", "-", input=b"\0\xff")
        assert keel.ok("table", "get", *options, path, "ann", "raw") == "\\x00\\xff\n"
        assert keel.ok("table", "ls", *options, path) == "ann  chess  won\nann  raw  \\x00\\xff\n7  go  (3)\n"
        row, = keel.json("table", "rm", *options, path, "ann", "raw")
        assert row["removed"] is True
        assert f"{path} ann raw" in keel.fails(3, "table", "rm", *options, path, "ann", "raw")
        assert keel.json("table", "get", *options, path, "ann", "raw", code=3) == []


def test_table_rows_and_columns(keel):
    for options in ([], ["--by-rows"]):
        path = "/both" if not options else "/rows"
        keel.ok("table", "setrow", path, *options, "ann", '{"chess": "won", "go": 3, "7": true, "x": null, "pi": 3.5, "raw": {"hex": "00ff"}}')
        keel.ok("table", "setrow", path, *options, "bob", "-", input='{"chess": "lost"}')
        row, = keel.json("table", "row", path, *options, "ann")
        columns = row["columns"]
        assert row["row"] == "ann" and sorted(columns) == ["7", "chess", "go", "pi", "raw", "x"]
        assert columns["go"]["tuple"] == [3] and columns["7"]["hex"] == "27" and columns["pi"]["tuple"] == [3.5] and columns["raw"]["hex"] == "00ff"
        assert columns["chess"]["text"] == "won" and columns["x"]["hex"] == "00"
        keel.ok("table", "setrow", path, *options, "eve", json.dumps(columns))
        assert keel.json("table", "row", path, *options, "eve")[0]["columns"] == columns, "what is printed can be read back"
        assert keel.ok("table", "column", path, *options, "chess") == "ann  won\nbob  lost\neve  won\n"
        row, = keel.json("table", "column", path, *options, "chess")
        assert row["column"] == "chess" and [value["text"] for value in row["rows"].values()] == ["won", "lost", "won"]
        keel.ok("table", "setrow", path, *options, "ann", '{"go": "new"}')
        assert keel.ok("table", "row", path, *options, "ann") == "go  new\n", "a row is replaced"
        assert keel.json("table", "setcolumn", path, *options, "chess", '{"ann": "A", "zoe": "Z"}')[0]["set"] is True
        assert keel.ok("table", "column", path, *options, "chess") == "ann  A\nzoe  Z\n"
        keel.ok("table", "rmrow", path, *options, "eve")
        assert keel.json("table", "rmcolumn", path, *options, "go")[0]["removed"] is True
        rows = keel.json("table", "ls", path, *options)
        assert [(row["row"], {name: value["text"] for name, value in row["columns"].items()}) for row in rows] == \
            [("ann", {"chess": "A"}), ("zoe", {"chess": "Z"})]
        for words in (("row", "eve"), ("column", "go"), ("rmrow", "eve"), ("rmcolumn", "go")):
            keel.fails(3, "table", words[0], path, *options, words[1])


def test_table_fails(keel):
    keel.ok("table", "set", "/t", "a", "b", "c")
    assert "JSON" in keel.fails(2, "table", "setrow", "/t", "a", "{")
    assert "object" in keel.fails(2, "table", "setrow", "/t", "a", "[1]")
    assert "hex" in keel.fails(2, "table", "setrow", "/t", "a", '{"x": [1]}')
    for wrong in ('{"x": {"hex": "0"}}', '{"x": {"hex": "zz"}}', '{"x": {"hex": 1}}', '{"x": 1, "x": 2}', '{"0x0": 1}', '{"x": {"hex": "+1"}}'):
        keel.fails(2, "table", "setrow", "/t", "a", wrong)
    for words in (("set", "/t", "a", "b"), ("get", "/t", "a"), ("row", "/t"), ("setrow", "/t", "a"), ("row", "/t", "a", "b")):
        keel.fails(2, "table", *words)
    assert "2103" in keel.fails(1, "table", "set", "/t", "a", "b", "-", input="x" * 100001)
    assert "2102" in keel.fails(1, "table", "set", "/t", "a" * 10001, "b", "c")
    assert keel.ok("table", "ls", "/t") == "a  b  c\n"


# ---- spatial ----

def test_spatial(keel):
    assert keel.ok("spatial", "set", "/pins", "home", "10", "20") == ""
    row, = keel.json("spatial", "set", "/pins", "7", "300", "400")
    assert row.pop("committed_version") > 0 and row == {"label": 7, "x": 300, "y": 400}
    keel.ok("spatial", "set", "/pins", "far", "4294967295", "0")
    assert keel.ok("spatial", "get", "/pins", "home") == "home  10 20\n"
    assert keel.json("spatial", "get", "/pins", "7") == [{"label": 7, "x": 300, "y": 400}]
    assert keel.ok("spatial", "box", "/pins", "0", "0", "299", "400") == "home  10 20\n"
    assert keel.ok("spatial", "box", "/pins", "0", "0", "5", "5") == ""
    assert {row["label"] for row in keel.json("spatial", "box", "/pins", "10", "20", "300", "400")} == {"home", 7}
    assert keel.json("spatial", "radius", "/pins", "13", "24", "5") == [{"label": "home", "x": 10, "y": 20}]
    assert keel.ok("spatial", "radius", "/pins", "13", "24", "4") == ""
    assert keel.ok("spatial", "nearest", "/pins", "250", "350") == "7  300 400\n"
    assert [row["label"] for row in keel.json("spatial", "nearest", "-n", "9", "/pins", "0", "0")] == ["home", 7, "far"]
    assert len(keel.ok("spatial", "ls", "/pins").splitlines()) == 3 and len(keel.json("spatial", "ls", "/pins")) == 3
    keel.ok("spatial", "set", "/pins", "home", "11", "21")
    keel.ok("spatial", "move", "/pins", "7", "12", "22")
    assert len(keel.ok("spatial", "box", "/pins", "11", "21", "12", "22").splitlines()) == 2
    assert "none" in keel.fails(3, "spatial", "move", "/pins", "none", "1", "1")
    row, = keel.json("spatial", "rm", "/pins", "home")
    assert row["label"] == "home" and (row["x"], row["y"]) == (11, 21)
    for sub in ("get", "rm"):
        assert "home" in keel.fails(3, "spatial", sub, "/pins", "home")
    assert len(keel.json("spatial", "ls", "/pins")) == 2


def test_spatial_degrees(keel):
    keel.ok("spatial", "set", "-d", "/cities", "sydney", "-33.8688", "151.2093")
    keel.ok("spatial", "set", "--degrees", "/cities", "oslo", "59.9139", "10.7522")
    assert keel.ok("spatial", "get", "-d", "/cities", "sydney") == "sydney  -33.868800 151.209300\n"
    row, = keel.json("spatial", "get", "-d", "/cities", "oslo")
    assert abs(row["latitude"] - 59.9139) < 1e-6 and abs(row["longitude"] - 10.7522) < 1e-6 and row["x"] > 0
    assert [row["label"] for row in keel.json("spatial", "radius", "-d", "/cities", "59.9", "10.7", "5000.5")] == ["oslo"]
    assert keel.json("spatial", "radius", "-d", "/cities", "59.9", "10.7", "100") == []
    assert [row["label"] for row in keel.json("spatial", "box", "-d", "/cities", "-40", "150", "-30", "152")] == ["sydney"]
    assert [row["label"] for row in keel.json("spatial", "nearest", "-d", "-n", "2", "/cities", "0", "100")] == ["sydney", "oslo"]
    assert len(keel.ok("spatial", "ls", "-d", "/cities").splitlines()) == 2
    keel.ok("spatial", "move", "-d", "/cities", "oslo", "60", "11")
    for words in (("set", "x", "91", "0"), ("set", "x", "0", "181"), ("set", "x", "nan", "0"), ("set", "x", "abc", "0"), ("box", "1", "1", "0", "0"),
                  ("radius", "0", "0", "-1"), ("radius", "0", "0", "inf"), ("radius", "0", "0", "x")):
        keel.fails(2, "spatial", words[0], "--degrees", "/cities", *words[1:])


def test_spatial_fails(keel):
    keel.ok("spatial", "set", "/pins", "a", "1", "1")
    for words in (("set", "b", "-1", "0"), ("set", "b", "4294967296", "0"), ("set", "b", "1.5", "0"), ("set", "b", "1"), ("box", "2", "0", "1", "0"),
                  ("box", "0", "0", "1"), ("nearest", "0", "0", "-n", "0"), ("radius", "0", "0"), ("get",)):
        assert ("count" if "-n" in words else "usage: spatial " + words[0]) in keel.fails(2, "spatial", words[0], "/pins", *words[1:])
    assert "empty" in keel.fails(1, "spatial", "set", "/pins", "", "1", "1")
    assert keel.ok("spatial", "ls", "/pins") == "a  1 1\n"
