# SPDX-License-Identifier: Apache-2.0
"""Data commands, transactions, scripts: what they do, how they fail, what they say with --json."""
import json
import os
import signal
import subprocess

from run import TIMEOUT_SECONDS

LONG = "x" * 10001


def little_endian(number):
    return (number % 2**64).to_bytes(8, "little").hex()


# ---- get, set, clear ----

def test_get_set_clear(keel):
    assert keel.ok("set", "hello", "world") == ""
    assert keel.ok("get", "hello") == "world\n"
    assert keel.ok("clear", "hello") == ""
    assert "hello: there is no such key" in keel.fails(3, "get", "hello")
    assert keel.ok("clear", "hello") == ""  # no error


def test_get_set_clear_json(keel):
    [answer] = keel.json("set", "hello", "world")
    assert answer["committed_version"] > 0
    [answer] = keel.json("get", "hello")
    assert answer == {"key": {"text": "hello", "hex": "68656c6c6f"}, "value": {"text": "world", "hex": "776f726c64"}}
    [answer] = keel.json("clear", "hello")
    assert answer["committed_version"] > 0
    [answer] = keel.json("get", "hello", code=3)
    assert answer["value"] is None


def test_json_anywhere(keel):
    keel.ok("set", "a", "1")
    for args in (("get", "--json", "a"), ("get", "a", "--json"), ("--json", "get", "a")):
        assert json.loads(keel.ok(*args))["value"]["text"] == "1"
    keel.ok("set", "--", "--json", "x")
    assert keel.ok("get", "--", "--json") == "x\n"


def test_usage(keel):
    assert "Which key?" in keel.fails(2, "get")
    assert "usage: get [--raw] KEY" in keel.fails(2, "get", "a", "b")
    assert "Which value?" in keel.fails(2, "set", "a")
    assert "usage: set" in keel.fails(2, "set", "a", "b", "c")
    assert "usage: clear" in keel.fails(2, "clear")
    assert "There is no option --frob" in keel.fails(2, "get", "--frob", "a")
    assert "There is no option -x" in keel.fails(2, "get", "-x", "a")
    assert "takes no value" in keel.fails(2, "get", "--raw=5", "a")
    assert "needs a value" in keel.fails(2, "getrange", "--limit")
    assert not os.path.exists(keel.db), "wrong usage touches nothing"


def test_database_that_is_not_there(keel):
    for args in (("get", "a"), ("getrange",), ("getkey", "ge", "a"), ("getversion",)):
        assert "There is no database at" in keel.fails(1, *args)
    assert not os.path.exists(keel.db)


def test_not_a_database(keel):
    path = keel.write("plain.txt", "no database")
    result = keel.command(path, "get", "a")
    assert result.code == 1 and "(2104)" in result.err, result
    os.mkdir(keel.path("other"))
    keel.write("other/file", "x")
    result = keel.command(keel.path("other"), "set", "a", "b")
    assert result.code == 1 and "(20002)" in result.err and "Give the path" in result.err, result


def test_memory(keel):
    result = keel.command(":memory:", input="set a 1\nget a\n")
    assert result.code == 0 and result.out == "1\n", result


def test_limits_are_named(keel):
    error = keel.fails(1, "set", LONG, "v")
    assert "10,001 bytes" in error and "10,000" in error, error
    keel.write("large", b"x" * 100001)
    error = keel.fails(1, "set", "--file", "large", "my-key")
    assert "my-key" in error and "100,000" in error and "blob" in error, error
    keel.write("fits", b"y" * 100000)
    keel.ok("set", "--file", "fits", "my-key")
    assert keel.run("get", "--raw", "my-key").out_bytes == b"y" * 100000
    key = "k" * 10000
    keel.ok("set", key, "v")
    assert keel.ok("get", key) == "v\n"
    error = keel.fails(1, "set", r"\xff\x00", "v")
    assert "(2004)" in error and "access_system_keys" in error, error


def test_large_transaction(keel):
    keel.write("large", b"x" * 100000)
    script = "begin\n" + "".join(f"set --file large k{i}\n" for i in range(101)) + "commit\n"
    result = keel.run(input=script)
    assert result.code == 1 and "at most 10,000,000" in result.err and "nothing of it was written" in result.err, result


def test_values_from_files(keel):
    data = bytes(range(256)) * 3
    keel.write("data", data)
    keel.ok("set", "--file", "data", "k")
    assert keel.run("get", "--raw", "k").out_bytes == data
    keel.ok("set", "k2", "-f", "-", input=data)
    assert keel.run("get", "-r", "k2").out_bytes == data
    assert "No such file" in keel.fails(1, "set", "--file", "nothing", "k")
    assert "name a file" in keel.run(input="set --file - k\n").err


# ---- Texts ----

def test_escapes(keel):
    for text, value in ((r"a\x00b", "610062"), (r"\\", "5c"), (r"\"", "22"), (r"a\ b", "612062"), ("a b", "612062"), (r"\n\r\t\0", "0a0d0900"),
                        (r"\(a)", "286129"), ("grün", "6772c3bc6e"), (r"\xFF\xff", "ffff"), ("", ""), (r"\;", "3b"), ("a(b)", "61286229")):
        keel.ok("set", "k", text)
        assert keel.json("get", "k")[0]["value"]["hex"] == value, text
    for text in (r"\q", r"\x", r"\x1", r"\xgg", "\\"):
        error = keel.fails(2, "set", "k", text)
        assert "is no escape" in error, error
        assert "is no escape" in keel.fails(2, "get", text)


def test_tuples(keel):
    for text, shown in (('("users", 42)', None), ("( 1,2 , )", "(1, 2)"), ("(1.5, 2.5f, true, null, 0x00ff)", None), ('(("a", (1)), -7)', None),
                        ("(uuid(00112233-4455-6677-8899-aabbccddeeff))", None), ("(versionstamp(0x00112233445566778899, 7))", None), ('("x\\x00y")', None),
                        ("(123456789012345678901234567890)", None)):
        keel.ok("set", text, text)
        assert keel.ok("get", text) == (shown or text) + "\n"
        assert (shown or text) + " is " in keel.ok("getrange")
    error = keel.fails(2, "get", '("users", ')
    assert "makes no sense" in error and "character 11" in error, error
    assert "write \\(" in keel.fails(2, "get", "(hello)")
    assert "too large" in keel.fails(2, "get", "(" + "9" * 700 + ")")


def test_tuples_in_json(keel):
    text = '("a", 42, -7, 1.5, 2.5f, true, null, 0x00ff, (1, "b"), 18446744073709551615, nan, uuid(00112233-4455-6677-8899-aabbccddeeff),' \
           ' versionstamp(0x00112233445566778899, 7), "\\xff")'
    keel.ok("set", text, "x")
    [answer] = keel.json("get", text)
    assert answer["key"]["tuple"] == ["a", 42, -7, 1.5, {"float": 2.5}, True, None, {"bytes": "00ff"}, [1, "b"], {"integer": "18446744073709551615"},
                                      {"double": "nan"}, {"uuid": "00112233445566778899aabbccddeeff"},
                                      {"versionstamp": "00112233445566778899", "user": 7}, {"string": '"\\xff"'}], answer
    assert answer["value"] == {"text": "x", "hex": "78"}
    deep = "\\x05" * 5000 + "\\x00" * 5000  # a tuple of 5,000 levels
    keel.ok("set", deep, deep)
    [answer] = keel.json("get", deep)
    assert answer["key"]["hex"] == "05" * 5000 + "00" * 5000 and "tuple" not in answer["key"]
    assert keel.ok("get", deep).startswith("((((")


def test_what_only_looks_like_a_tuple(keel):
    for text in ("0123456789abcdefg", "3141592653589", " abcd", "!12345678", "&", "'"):
        keel.ok("set", "k", text)
        shown = keel.ok("get", "k").rstrip("\n")
        assert shown.strip('"') == text, shown
    keel.ok("atomic", "add", "counter", "1")
    assert keel.ok("get", "counter") == r"\x01\x00\x00\x00\x00\x00\x00\x00  # 1" + "\n"


def test_directories_in_keys(keel):
    keel.ok("mkdir", "-p", "/app/users")
    keel.ok("set", '/app/users("id", 7)', "Ada")
    assert keel.ok("get", '/app/users("id", 7)') == "Ada\n"
    assert '/app/users("id", 7) is Ada\n' in keel.ok("getrange")
    assert keel.ok("getrange", "/app/users()") == '/app/users("id", 7) is Ada\n'
    [answer] = keel.json("get", '/app/users("id", 7)')
    assert answer["key"]["directory"] == "/app/users" and answer["key"]["tuple"] == ["id", 7]
    assert answer["key"]["text"] == '/app/users("id", 7)'
    error = keel.fails(3, "get", "/app/nobody(1)")
    assert "There is no directory /app/nobody" in error and "mkdir" in error, error
    assert "root directory" in keel.fails(1, "get", "/(1)")
    assert "makes no sense" in keel.fails(2, "get", "/app/users(")
    assert "empty name" in keel.fails(2, "get", "/app//users(1)")
    keel.ok("set", "/plain/text", "a")  # no parenthesis, no directory
    assert keel.ok("get", "/plain/text") == "a\n"
    keel.ok("set", "/plain/text", "/a(b)")  # a value is no path
    assert keel.ok("get", "/plain/text") == "/a\\(b)\n"
    keel.ok("mv", "/app/users", "/app/people")
    assert keel.ok("getrange", "/app/people()") == '/app/people("id", 7) is Ada\n'


def test_odd_names_of_directories(keel):
    for name in ("with space", "a\\/b", "a\\(b", 'quo\\"te', "semi;colon", "grün", "back\\\\slash"):
        keel.ok("mkdir", "/" + name)
        keel.ok("set", f"/{name}(1)", "x")
    keys = keel.ok("getrange", "--keys", "--all").splitlines()
    keys = [key for key in keys if key.startswith("/")]
    assert len(keys) == 7, keys
    for key in keys:
        assert keel.script(f"get {key}\n") == "x\n", key


# ---- Ranges ----

def fill(keel, count, prefix="k"):
    keel.script("begin\n" + "".join(f"set {prefix}{i:04} {i}\n" for i in range(count)) + "commit\n")


def test_getrange(keel):
    fill(keel, 40)
    lines = [f"k{i:04} is {i}" for i in range(40)]
    assert keel.ok("getrange", "k0003", "k0005").splitlines() == lines[3:5]
    assert keel.ok("getrange", "k000").splitlines() == lines[:10]
    assert keel.ok("getrange").splitlines() == lines[:25]
    assert keel.ok("getrange", "k", "l", "3").splitlines() == lines[:3]
    assert keel.ok("getrange", "--limit", "40").splitlines() == lines
    assert keel.ok("getrange", "-n", "40", "--reverse").splitlines() == lines[::-1]
    assert keel.ok("getrange", "--all", "--keys").splitlines() == [line.split()[0] for line in lines]
    assert keel.ok("getrange", "x") == ""
    result = keel.run("getrange", "--limit", "2")
    assert "the next page begins at k0001\\x00" in result.err, result
    result = keel.run("getrange", "--limit", "2", "--reverse")
    assert "the next page ends at k0038" in result.err, result
    assert keel.run("getrange", "--limit", "40").err == ""
    assert keel.run("getrange", options=("--quiet",)).err == ""


def test_getrange_json(keel):
    fill(keel, 5)
    rows = keel.json("getrange", "--limit", "2")
    assert [row["key"]["text"] for row in rows[:2]] == ["k0000", "k0001"] and rows[0]["value"]["text"] == "0"
    assert rows[2]["more"] is True and rows[2]["next"]["hex"] == b"k0001\0".hex()
    rows = keel.json("getrange", "--all", "--keys")
    assert len(rows) == 5 and "value" not in rows[0] and "more" not in rows[4]


def test_getrange_refuses(keel):
    keel.ok("set", "a", "1")
    for limit in ("0", "-1", "x", "", "1.5", "99999999999999999999"):
        assert keel.run("getrange", "--limit", limit).code == 2, limit
    assert "exclude" in keel.fails(2, "getrange", "--all", "--limit", "3")
    assert "twice" in keel.fails(2, "getrange", "a", "b", "3", "--limit", "3")
    assert keel.run("getrange", "a", "b", "3", "4").code == 2
    assert "(2004)" in keel.fails(1, "getrange", r"\xff")
    assert keel.ok("getrange", "b", "a") == ""  # empty, no error


def test_getrange_all_in_bounded_batches(keel):
    fill(keel, 2500)
    for order in ((), ("--reverse",)):
        lines = keel.ok("getrange", "--all", *order).splitlines()
        assert sorted(lines) == [f"k{i:04} is {i}" for i in range(2500)]
    assert keel.ok("getrange", "--limit", "1000").count("\n") == 1000
    assert keel.ok("getrange", "--limit", "1001").count("\n") == 1001


def test_getrange_all_outlives_its_transaction(keel):
    """A reader that is slower than five seconds gets every row once; inside begin it is told."""
    keel.script("".join(f"begin\n{''.join(f'set k{i:05} {i:0150}' + chr(10) for i in range(at, at + 1000))}commit\n" for at in range(0, 6000, 1000)))
    result = keel.shell("keel test.db getrange --all | (sleep 6; cat)")
    assert result.out.splitlines() == [f"k{i:05} is {i:0150}" for i in range(6000)] and result.err == "", result.err
    result = keel.shell("(echo begin; echo getrange --all) | keel test.db | (sleep 6; cat) > /dev/null; exit ${PIPESTATUS[1]}", code=1)
    assert "(1007)" in result.err and "reset" in result.err, result.err


def test_more(keel):
    fill(keel, 10)
    out = keel.script("getrange --limit 4\nmore\nmore\n", options=("--quiet",))
    assert out.splitlines() == [f"k{i:04} is {i}" for i in range(10)]
    out = keel.script("getrange --limit 4 --reverse --keys\nmore 1\nmore 100\n", options=("--quiet",))
    assert out.splitlines() == [f"k{i:04}" for i in range(9, -1, -1)]
    assert "no rows left" in keel.fails(1, "more")
    assert "no rows left" in keel.run(input="getrange --limit 20\nmore\n").err
    assert keel.run(input="getrange --limit 2\nmore x\n").code == 2
    rows = [json.loads(line) for line in keel.script("getrange --limit 9\nmore\n", options=("--json",)).splitlines()]
    assert rows[9]["more"] is True and rows[10]["key"]["text"] == "k0009"


def test_clearrange(keel):
    fill(keel, 30)
    assert "BEGIN and END" in keel.fails(2, "clearrange")
    error = keel.fails(1, "clearrange", "k")
    assert "more than 25 rows" in error and "--yes" in error and "nothing was cleared" in error, error
    assert keel.ok("getrange", "--all").count("\n") == 30
    assert keel.ok("clearrange", "k0000", "k0005") == ""
    assert keel.ok("getrange", "--all").count("\n") == 25
    [answer] = keel.json("clearrange", "k000")
    assert answer["committed_version"] > 0
    assert keel.ok("getrange", "--all").count("\n") == 20
    fill(keel, 30)
    keel.ok("clearrange", "k", options=("--yes",))
    assert keel.ok("getrange") == ""
    assert "(2005)" in keel.fails(1, "clearrange", "b", "a")


# ---- getkey, getversion ----

def test_getkey(keel):
    keel.script("set a 1\nset c 2\nset e 3\n")
    for selector, key, found in (("lt", "c", "a"), ("le", "c", "c"), ("gt", "c", "e"), ("ge", "c", "c"), ("<", "b", "a"), (">=", "b", "c"), ("<=", "b", "a"),
                                 (">", "b", "c"), ("first_greater_than", "a", "c"), ("last_less_or_equal", "d", "c")):
        assert keel.ok("getkey", selector, key) == found + "\n", (selector, key)
    assert keel.ok("getkey", "ge", "a", "--offset", "2") == "e\n"
    assert keel.ok("getkey", "ge", "e", "--offset", "-1") == "c\n"
    assert "before the first" in keel.fails(3, "getkey", "lt", "a")
    assert "behind the last" in keel.fails(3, "getkey", "gt", "e")
    assert keel.json("getkey", "gt", "a")[0]["key"]["text"] == "c"
    assert keel.json("getkey", "gt", "e", code=3) == [{"key": None}]
    assert "no selector" in keel.fails(2, "getkey", "eq", "a")
    assert keel.run("getkey", "ge").code == 2
    assert keel.run("getkey", "ge", "a", "--offset", "x").code == 2


def test_getversion(keel):
    keel.ok("set", "a", "1")
    first, second = int(keel.ok("getversion")), keel.json("getversion")[0]["version"]
    assert 0 < first < second
    out = keel.script("begin\ngetversion\ngetversion\nrollback\n").split()
    assert out[0] == out[1]
    assert keel.run("getversion", "x").code == 2


# ---- atomic ----

def value_hex(keel, key="k"):
    return keel.json("get", key)[0]["value"]["hex"]


def test_atomic_numbers(keel):
    for operation, operand, expected in (("add", "5", 5), ("add", "-7", -2), ("add", "18446744073709551615", -3), ("max", "1", -3), ("min", "9", 9), ("max", "12", 12)):
        keel.ok("atomic", operation, "k", operand)
        assert value_hex(keel) == little_endian(expected), (operation, operand)
    keel.ok("atomic", "--bytes", "add", "k", r"\x01")
    assert value_hex(keel) == "0d"
    for wrong in ("x", "", "1.5", "18446744073709551616", "-9223372036854775809"):
        assert keel.run("atomic", "add", "k", wrong).code == 2, wrong


def test_atomic_bytes(keel):
    for operation, operand, expected in (("byte_max", "m", "6d"), ("byte_max", "a", "6d"), ("byte_min", "b", "62"), ("or", r"\x05", "67"), ("and", r"\x0f", "07"),
                                         ("xor", r"\x01", "06"), ("append_if_fits", "xy", "067879"), ("compare_and_clear", "no", "067879")):
        keel.ok("atomic", operation, "k", operand)
        assert value_hex(keel) == expected, operation
    keel.ok("atomic", "compare_and_clear", "k", r"\x06xy")
    keel.fails(3, "get", "k")
    assert keel.json("atomic", "or", "k", "a")[0]["committed_version"] > 0


def test_versionstamps(keel):
    [answer] = keel.json("atomic", "set_versionstamped_key", '("log", incomplete(3), "x")', "line")
    stamp = answer["versionstamp"]
    assert len(stamp) == 20 and int(stamp[:16], 16) == answer["committed_version"]
    assert keel.ok("getrange", '("log")') == f'("log", versionstamp(0x{stamp}, 3), "x") is line\n'
    out = keel.ok("atomic", "set_versionstamped_value", "k", "(incomplete(0))")
    assert out.startswith("versionstamp 0x") and out[15:35] in keel.ok("get", "k")
    out = keel.ok("atomic", "set_versionstamped_key", "raw" + "\\xff" * 10 + "end", "v")
    assert keel.json("getrange", "raw")[0]["key"]["hex"] == b"raw".hex() + out[15:35] + b"end".hex()
    keel.ok("mkdir", "/log")
    out = keel.ok("atomic", "set_versionstamped_key", "/log(incomplete(0))", "v")
    assert keel.ok("getrange", "/log()") == f"/log(versionstamp(0x{out[15:35]}, 0)) is v\n"
    assert "incomplete(0)" in keel.fails(1, "atomic", "set_versionstamped_key", '("log", 1)', "v")
    assert keel.run("atomic", "set_versionstamped_value", "k", "nothing").code == 2
    assert keel.run("atomic", "set_versionstamped_value", "k", "(incomplete(0), incomplete(1))").code == 2
    assert "not clear" in keel.fails(2, "atomic", "set_versionstamped_value", "k", "\\xff" * 11)
    keel.script("begin\natomic set_versionstamped_key (\"in\", incomplete(0)) v\ncommit\n")
    assert "versionstamp(" in keel.ok("getrange", '("in")')


def test_atomic_refuses(keel):
    assert "There is no operation" in keel.fails(2, "atomic", "frob", "k", "1")
    assert keel.run("atomic", "add", "k").code == 2
    assert keel.run("atomic").code == 2


def test_set_refuses_an_incomplete_versionstamp(keel):
    assert "set_versionstamped_key" in keel.fails(2, "set", '("log", incomplete(0))', "v")
    assert "set_versionstamped_value" in keel.fails(2, "set", "k", "(incomplete(0))")


# ---- Transactions ----

def test_transactions(keel):
    out = keel.script("begin\nset a 1\nget a\nreset\nset b 2\ncommit\ngetrange\nbegin\nset c 3\nrollback\ngetrange\n")
    assert out == "1\nb is 2\nb is 2\n", out
    for word in ("commit", "rollback", "reset", "conflict"):
        assert "no transaction is open" in keel.fails(1, word)
        assert keel.run(word, "x").code == 2
    assert "shell (keel DB) or a script" in keel.fails(1, "begin")
    assert "open already" in keel.run(input="begin\nbegin\n").err
    assert keel.run("begin", "--read-version", "x").code == 2


def test_transaction_json(keel):
    answers = [json.loads(line) for line in keel.script("begin\nset a 1\nget a\ncommit\n", options=("--json",)).splitlines()]
    assert answers[0] == {"committed_version": None} and answers[1]["value"]["text"] == "1" and answers[2]["committed_version"] > 0


def test_transaction_that_is_not_committed(keel):
    result = keel.run(input="begin\nset a 1\n")
    assert result.code == 1 and "was not committed" in result.err, result
    keel.ok("set", "b", "2")
    assert keel.ok("getrange") == "b is 2\n"


def slowly(keel):
    """Transactions may take as long as they like: for tests whose steps are processes."""
    keel.environment["KEEL_LIFETIME_MS"] = "300000"


def test_conflict_names_the_keys(keel):
    slowly(keel)
    keel.ok("set", "a", "1")
    with subprocess.Popen([keel.binary, "--keep-going", keel.db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=keel.environment) as shell:
        shell.stdin.write(b"getversion\n")
        shell.stdin.flush()
        version = int(shell.stdout.readline())
        script = f"set (\"users\", 7) changed\nbegin --read-version {version}\nget (\"users\", 7)\nset b 2\ncommit\nget b\n"
        out, err = shell.communicate(script.encode(), timeout=TIMEOUT_SECONDS)
    assert shell.returncode == 3 and b"(1020)" in err and b"nothing of it was written" in err, (out, err)
    assert b'conflict ("users", 7)\n' in out, out


def test_conflict_ranges(keel):
    out = keel.script('begin\nset ("x", 1) 2\nget ("x", 1)\nconflict read a\nconflict read b c\nconflict write d\nconflict\nrollback\n')
    assert out == '2\nread a\nread b c\nwrite d\nwrite ("x", 1)\n' or out == '2\nread a\nread b c\nwrite ("x", 1)\nwrite d\n', out
    rows = [json.loads(line) for line in keel.script("begin\nconflict read b c\nconflict\nrollback\n", options=("--json",)).splitlines()]
    assert rows[-1]["conflict"] == "read" and rows[-1]["begin"]["text"] == "b" and rows[-1]["end"]["text"] == "c"
    assert keel.run(input="begin\nconflict frob a\n").code == 2
    assert keel.run(input="begin\nconflict read\n").code == 2
    assert "(2005)" in keel.run(input="begin\nconflict read b a\n").err


def test_options(keel):
    keel.ok("set", "a", "1")
    listing = keel.ok("option")
    assert "access_system_keys" in listing and "timeout" in listing
    assert len(keel.json("option")) == listing.count("\n")
    assert "keel --option" in keel.fails(1, "option", "access_system_keys")
    assert keel.run("getrange", r"\xff", options=("--option", "read_system_keys")).code == 0
    assert keel.run("getrange", r"\xff", options=("--option=read_system_keys",)).code == 0
    assert keel.script("option read_system_keys\ngetrange \\xff\noption\n").count("* read_system_keys") == 1
    result = keel.run(input="option on read_system_keys\noption off read_system_keys\ngetrange \\xff\n")
    assert result.code == 1 and "(2004)" in result.err, result
    assert "is not set" in keel.run(input="option off timeout\n").err
    assert keel.script("option timeout 1000\noption off\nget a\n") == "1\n"
    assert "no transaction option frob" in keel.run(input="option frob\n").err
    assert "needs a value" in keel.run(input="option timeout\n").err
    assert "takes no value" in keel.run(input="option lock_aware 1\n").err
    assert "not a whole number" in keel.run(input="option timeout soon\n").err
    result = keel.run(input="begin\noption size_limit 40\nset abcdefghij abcdefghijabcdefghijabcdefghij\ncommit\n")
    assert result.code == 1 and "(2101)" in result.err, result
    assert keel.command("--option", "frob", keel.db, "get", "a").code == 2
    assert keel.command("--option").code == 2


def test_timeout(keel):
    keel.ok("set", "a", "1")
    error = keel.fails(1, "watch", "a", options=("--timeout", "0.2"))
    assert "(1031)" in error and "--timeout" in error, error
    for wrong in ("0", "-1", "x", ""):
        assert keel.command("--timeout", wrong, keel.db, "get", "a").code == 2, wrong
    assert keel.ok("get", "a", options=("--timeout=100",)) == "1\n"


# ---- watch ----

def test_watch_in_the_background(keel):
    out = keel.script("watch --background a\nset b 1\nset a 1\nwatch -b a\nclear a\nset a 2\n")
    assert out == "a is now 1\na is gone\n", out
    rows = [json.loads(line) for line in keel.script("watch -b a\nset a 3\n", options=("--json",)).splitlines()]
    assert rows[-1]["value"]["text"] == "3" and rows[-1]["key"]["text"] == "a"
    assert "shell or a script" in keel.fails(1, "watch", "-b", "a")
    assert "commit or rollback first" in keel.run(input="begin\nwatch -b a\n").err
    assert keel.run("watch").code == 2
    assert keel.run("watch", "--count", "x", "a").code == 2


def start_shell(keel, *options):
    return subprocess.Popen([keel.binary, *options, keel.db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=keel.environment)


def test_watch_from_another_process(keel):
    keel.ok("set", "a", "1")
    with start_shell(keel) as watcher:
        watcher.stdin.write(b"get a\nwatch a\n")
        watcher.stdin.close()
        assert watcher.stdout.readline() == b"1\n"
        while watcher.poll() is None:  # perhaps it has not begun to watch: again
            keel.ok("atomic", "add", "a", "1")
        out, err = watcher.stdout.read(), watcher.stderr.read()
    assert watcher.returncode == 0 and b"a is now" in out, (watcher.returncode, out, err)


def test_conflict_with_another_process(keel):
    slowly(keel)
    keel.ok("set", "a", "1")
    with start_shell(keel) as shell:
        shell.stdin.write(b"begin\nget a\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == b"1\n"
        keel.ok("set", "a", "2")
        out, err = shell.communicate(b"set b 1\ncommit\n", timeout=TIMEOUT_SECONDS)
    assert shell.returncode == 1 and out == b"conflict a\n" and b"(1020)" in err, (out, err)
    keel.fails(3, "get", "b")


def test_owner_ends_and_another_takes_over(keel):
    keel.ok("set", "a", "1")
    with start_shell(keel) as owner, start_shell(keel) as joined:
        for shell in (owner, joined):
            shell.stdin.write(b"get a\n")
            shell.stdin.flush()
            assert shell.stdout.readline() == b"1\n"
        owner.kill()
        owner.wait(timeout=TIMEOUT_SECONDS)
        out, err = joined.communicate(b"set b 2\nget b\n", timeout=TIMEOUT_SECONDS)
    assert joined.returncode == 0 and out == b"2\n", (out, err)


# ---- Scripts ----

def test_script_stops_at_the_first_error(keel):
    result = keel.run(input="set a 1\nget nothing\nset b 2\n")
    assert result.code == 3 and "ended at line 2" in result.err, result
    assert keel.ok("getrange") == "a is 1\n"
    result = keel.run(input="set c 1\nget nothing\nfrob\nset d 2\n", options=("--keep-going",))
    assert result.code == 3, result
    assert keel.ok("getrange", "--keys") == "a\nc\nd\n"


def test_script_syntax(keel):
    out = keel.script("# a comment\n\n  set a 1 # another\nset \"b c\" 'd \"e\"'; get b\\ c\nset (\"x\", 1) y;get (\"x\", 1)\nset k a;get k\nget k")
    assert out == "d\\ \\\"e\\\"\ny\na\na\n" or out == '"d \\"e\\""\ny\na\na\n', out
    assert keel.script("set a 1\r\nget a\r\n") == "1\n"
    for line in ('get "x', "get 'x", 'get ("x"', "get x\\", 'get /a("x"'):
        result = keel.run(input=line)
        assert result.code == 2 and "line 1" in result.err, result
    result = keel.run(input=b"get a\0b\n")
    assert result.code == 2 and "NUL" in result.err, result
    assert keel.script("") == ""
    assert keel.script("exit\nfrob\n") == ""
    assert keel.script("set a 1; quit; frob\n") == ""
    long_key = "x" * 9000
    assert keel.script(f"set {long_key} 1\nget {long_key}\n") == "1\n"


def test_script_of_bytes_that_are_no_text(keel):
    keel.run(input=b"set \xff\xfe \x80\n")
    keel.run(input=b"set caf\xe9 \x80\x01\n")
    assert keel.ok("getrange") == "caf\\xe9 is \\x80\\x01\n"


def test_interrupting_a_script(keel):
    with subprocess.Popen([keel.binary, keel.db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=keel.environment) as shell:
        shell.stdin.write(b"set a 1\nget a\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == b"1\n"
        shell.send_signal(signal.SIGINT)
        shell.wait(timeout=TIMEOUT_SECONDS)
    assert shell.returncode == 130


def test_interrupting_a_script_that_waits_for_nothing(keel):
    """Its commands take no time: the signal comes between two of them as well as into one."""
    keel.ok("set", "a", "1")
    keel.write("script", "get a\n" * 1000000)
    with open(keel.path("script")) as script, subprocess.Popen([keel.binary, keel.db], stdin=script, stdout=subprocess.PIPE, env=keel.environment) as shell:
        assert shell.stdout.readline() == b"1\n"
        shell.send_signal(signal.SIGINT)
        out = shell.stdout.read()
    assert shell.returncode == 130 and len(out) < 2 * 999999, (shell.returncode, len(out))


# ---- Output ----

def test_broken_pipe(keel):
    fill(keel, 3000)
    result = keel.shell("keel test.db getrange --all | head -n 1")
    assert result.out == "k0000 is 0\n" and result.err == "", result


def test_full_disk_of_the_output(keel):
    keel.ok("set", "a", "1")
    result = keel.shell("keel test.db get a > /dev/full", code=1)
    assert "could not be written" in result.err, result


def test_default_place(keel):
    result = keel.command("-", "set", "a", "1")
    assert result.code == 0, result
    assert os.path.isdir(keel.path("keel.db"))
    assert keel.command("keel.db", "get", "a").out == "1\n"


def test_completions_for_bash(keel):
    keel.ok("mkdir", "-p", "/app/users")
    assert keel.run("--complete", "getr").out == "getrange\n"
    assert keel.run("--complete", "help getr").out == "getrange\n"
    assert keel.run("--complete", "get /a").out == "/app\n"
    assert keel.run("--complete", "get /app").out == "/app/\n"
    assert keel.run("--complete", "get /app/").out == "/app/users\n"
    assert keel.run("--complete", "get x").out == ""
    assert keel.command(keel.path("nothing.db"), "--complete", "get /").out == ""
    assert not os.path.exists(keel.path("nothing.db"))
