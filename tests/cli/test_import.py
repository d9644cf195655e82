# SPDX-License-Identifier: Apache-2.0
"""
keel import, export and loads: what goes in comes out, in every format and type; each kind of damaged row is refused with its line and column; an
import that is cut off anywhere and resumed ends with the same bytes as one that was not.
"""
import csv
import io
import json
import os
import random
import re
import signal
import stat
import subprocess
import time
from fcntl import ioctl
from termios import FIONREAD

from run import PATIENCE_SECONDS, TIMEOUT_SECONDS

FIRST = "id,name,city\n7,Ann,Oslo\n8,Bob,Rome\n"


def raw(keel, directory, name, db=None):
    """All pairs of a load, keys without its prefix, as hex."""
    result = keel.command("--json", db or keel.db, "getrange", "--all", f"{directory}/load/{name}()")
    assert result.code == 0, result
    pairs = [json.loads(line) for line in result.out.splitlines()]
    pairs = [(row["key"]["hex"], row["value"]["hex"]) for row in pairs]
    prefix = os.path.commonprefix([key for key, _ in pairs])
    length = 2 * {0x14: 1, 0x15: 2, 0x16: 3}[int(pairs[0][0][:2], 16)]  # of the directory's prefix, a packed integer
    assert len(prefix) >= length, prefix
    return [(key[length:], value) for key, value in pairs]


def rows_of(text, delimiter=","):
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def load_name(keel, directory):
    loads = keel.json("loads", "--into", directory)
    return [load["name"] for load in loads if load["state"] == "active"][0]


# ---- Formats ----

def test_csv_in_and_out(keel):
    keel.write("u.csv", FIRST)
    assert keel.ok("import", "u.csv", "--into", "/app/users", "--name", "x").startswith("2 rows of u.csv are in /app/users, load x, which is active")
    assert keel.ok("export", "app/users") == FIRST
    assert keel.ok("export", "/app/users", "--columns", "city,id", "--no-header") == "Oslo,7\nRome,8\n"
    assert keel.ok("export", "/app/users", "out.tsv") == "2 rows of /app/users are in out.tsv\n"
    assert open(keel.path("out.tsv")).read() == FIRST.replace(",", "\t")
    assert not os.path.exists(keel.path("out.tsv.part"))


def test_export_destinations(keel):
    """a device or a pipe is written to and not replaced; a link stays a link"""
    keel.write("u.csv", FIRST)
    keel.ok("import", "u.csv", "--into", "/u")
    os.mkfifo(keel.path("pipe"))
    reader = subprocess.Popen(["cat", keel.path("pipe")], stdout=subprocess.PIPE)
    keel.ok("export", "/u", "pipe", "--format", "csv")
    assert reader.communicate()[0].decode() == FIRST
    assert stat.S_ISFIFO(os.stat(keel.path("pipe")).st_mode)
    keel.ok("export", "/u", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert "No space left" in keel.fails(1, "export", "/u", "/dev/full")
    keel.write("real.csv", "old")
    os.symlink("real.csv", keel.path("link.csv"))
    keel.ok("export", "/u", "link.csv")
    assert os.path.islink(keel.path("link.csv")) and open(keel.path("real.csv")).read() == FIRST


def test_csv_syntax(keel):
    """quotes, embedded newlines, CR LF, a byte order mark, blank lines, no newline at the end, NUL"""
    text = b'\xef\xbb\xbfid,"a ""b"",\nc"\r\n1,"x\r\ny"\r\n\r\n2,"say ""hi"""\n3, blank \n4,\n5,""\n6,\x00z\n"7",last'
    keel.write("s.csv", text)
    keel.ok("import", "s.csv", "--into", "/s")
    assert keel.ok("export", "/s", "--format", "jsonl") == "".join(
        json.dumps({"id": key, 'a "b",\nc': value}, separators=(",", ":")).replace("\\n", "\\u000a").replace("\\r", "\\u000d") + "\n"
        for key, value in [("1", "x\r\ny"), ("2", 'say "hi"'), ("3", " blank "), ("4", None), ("5", ""), ("6", "\0z"), ("7", "last")])
    again = keel.ok("export", "/s")
    keel.write("again.csv", again.encode())
    keel.ok("import", "again.csv", "--into", "/again")
    assert keel.ok("export", "/again") == again


def test_delimiter_and_quote(keel):
    keel.write("a.txt", "id|n\n1|it's 5\" long\n")
    keel.ok("import", "a.txt", "--into", "/a", "--delimiter", "|", "--quote", "none")
    assert keel.ok("export", "/a", "--delimiter", "|") == 'id|n\n1|"it\'s 5"" long"\n'
    keel.write("b.tsv", "id\tn\n1\t'x\ty'\n")
    keel.ok("import", "b.tsv", "--into", "/b", "--quote", "'")
    assert keel.ok("export", "/b") == "id,n\n1,x\ty\n"


def test_no_header(keel):
    keel.write("n.csv", "1,a\n2,b\n")
    keel.ok("import", "n.csv", "--into", "/n", "--no-header", "--columns", "id,name", "--key", "name")
    assert keel.ok("export", "/n") == "id,name\n1,a\n2,b\n"
    assert "--columns" in keel.fails(2, "import", "n.csv", "--into", "/n", "--no-header")


def test_empty_files(keel):
    """an empty file has no header; a header alone is an import of no rows"""
    keel.write("empty.csv", "")
    assert "empty.csv is empty: there is no header" in keel.fails(1, "import", "empty.csv", "--into", "/e")
    keel.write("header.csv", "id,x\n")
    assert keel.ok("import", "header.csv", "--into", "/e").startswith("0 rows")
    assert keel.ok("export", "/e") == "id,x\n"
    keel.write("empty.jsonl", "\n")
    assert keel.ok("import", "empty.jsonl", "--key", "id", "--into", "/j").startswith("0 rows")
    assert keel.ok("export", "/j") == ""


def test_headers_refused(keel):
    for text, word in (("a,,c\n", "column 2 has no name"), ("a,b,a\n", "columns 1 and 3 have the same name, a"), ("a,\xff\n".encode("latin-1"), "UTF-8"),
                       ('a,"b\n', "never closed"), (b"\xff\xfei\0d\0\n\0", "UTF-16")):
        keel.write("h.csv", text)
        assert word in keel.fails(1, "import", "h.csv", "--into", "/h"), text
    assert "No such file" in keel.fails(1, "import", "missing.csv", "--into", "/h")


def test_wide(keel):
    """two thousand columns, whose names do not fit in one value, and fields of many bytes"""
    names = [f"a column with a long name {i}" for i in range(2000)]
    row = [f"v{i}" for i in range(2000)]
    text = ",".join(names) + "\n" + ",".join(row) + "\n"
    keel.write("w.csv", text)
    keel.ok("import", "w.csv", "--into", "/w", "--types", names[5] + ":text")
    assert keel.ok("export", "/w") == text


def test_types(keel):
    text = ("id,i,f,b,h,s,d,t,u,j\n"
            "1,-9223372036854775808,1.5,true,00ff,AP8=,2024-02-29,2024-02-29T12:30:00.5+01:00,00112233-4455-6677-8899-aabbccddeeff,\"{\"\"a\"\": [1, 2]}\"\n"
            "2,9223372036854775807,-2e300,f,,QQ==,1899-12-31,1899-12-31 23:59:59,00112233445566778899AABBCCDDEEFF,null\n"
            "3,,,,,,,,,\n")
    keel.write("t.csv", text)
    types = "id:int,i:int,f:float,b:bool,h:bytes,s:base64,d:date,t:timestamp,u:uuid,j:json"
    keel.ok("import", "t.csv", "--into", "/t", "--types", types)
    assert keel.ok("export", "/t") == (
        "id,i,f,b,h,s,d,t,u,j\n"
        "1,-9223372036854775808,1.5,true,00ff,AP8=,2024-02-29,2024-02-29T11:30:00.500000Z,00112233-4455-6677-8899-aabbccddeeff,\"{\"\"a\"\": [1, 2]}\"\n"
        "2,9223372036854775807,-2e+300,false,,QQ==,1899-12-31,1899-12-31T23:59:59Z,00112233-4455-6677-8899-aabbccddeeff,null\n"
        "3,,,,,,,,,\n")
    lines = [json.loads(line) for line in keel.ok("export", "/t", "--format", "jsonl").splitlines()]
    assert lines[0]["j"] == {"a": [1, 2]} and lines[0]["i"] == -2**63 and lines[0]["b"] is True and lines[1]["f"] == -2e300
    assert lines[2] == {"id": 3, **{name: None for name in "ifbhsdtuj"}}
    keel.ok("export", "/t", "t.jsonl")
    keel.ok("import", "t.jsonl", "--into", "/t2", "--as", "records", "--key", "id", "--types", types)
    assert keel.ok("export", "/t2", "--format", "csv").replace('"{""a"":[1,2]}"', '"{""a"": [1, 2]}"').splitlines()[:2] == keel.ok("export", "/t").splitlines()[:2]


def test_types_refused(keel):
    cases = {"int": ["x", "1.0", "9223372036854775808", "-", " 1"], "float": ["x", "1e999", "nan", "0x1p3", "1,5"], "bool": ["maybe", "2"],
             "hex": ["0", "zz"], "base64": ["A", "A===", "!!!!"], "date": ["2023-02-29", "2023-13-01", "23-1-1"],
             "timestamp": ["2023-01-01", "2023-01-01T25:00:00", "2023-01-01T00:00:00.1234567"], "uuid": ["1234"], "json": ["{", "'x'"]}
    for kind, bad in cases.items():
        with open(keel.path("b.csv"), "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["id", "v"]] + [[i, value] for i, value in enumerate(bad)])
        error = keel.fails(1, "import", "b.csv", "--into", "/b", "--types", "v:" + kind, "--dry-run")
        for i in range(len(bad)):
            assert f"b.csv: line {i + 2}, column v: " in error, (kind, bad[i], error)
        assert f"{len(bad)}  not a value of the column's type" in error


def test_types_auto(keel):
    keel.write("g.csv", "id,n,f,b,zip,mixed,none\n1,-5,1.5,true,0123,1,\n2,,2,false,9999,x,\n")
    keel.ok("import", "g.csv", "--into", "/g", "--types", "auto")
    line = json.loads(keel.ok("export", "/g", "--format", "jsonl").splitlines()[0])
    assert line == {"id": 1, "n": -5, "f": 1.5, "b": True, "zip": "0123", "mixed": "1", "none": None}
    assert "standard input" in keel.fails(2, "import", "-", "--format", "csv", "--into", "/g", "--types", "auto", input="id\n")


def test_types_auto_needs_a_file(keel):
    """what a guess reads from a pipe would be missing from the import"""
    os.mkfifo(keel.path("pipe.csv"))
    writer = subprocess.Popen(["sh", "-c", "printf 'id,n\\n1,2\\n' > " + keel.path("pipe.csv")])
    error = keel.fails(1, "import", "pipe.csv", "--into", "/x", "--types", "auto")
    writer.wait()
    assert "--types auto reads the beginning twice" in error, error


def test_json_documents(keel):
    """nested documents, ids of every kind, unknown members; the document recipe reads them"""
    documents = [{"id": 1, "tags": ["a", {"deep": [1, 2.5, None]}], "empty": {}, "none": []}, {"id": "x", "é": "ü\n\0"}, {"id": -3.5, "id2": True}]
    keel.write("d.jsonl", "".join(json.dumps(d, ensure_ascii=i % 2 == 0) + "\n" for i, d in enumerate(documents)))
    keel.ok("import", "d.jsonl", "--key", "id", "--into", "/d", "--name", "one", "--index", "id2")
    exported = [json.loads(line) for line in keel.ok("export", "/d").splitlines()]
    assert exported == [documents[1], documents[0], documents[2]]  # strings before integers before doubles
    assert keel.ok("export", "/d", "--format", "csv", "--columns", "id,id2,tags").splitlines()[1:] == ["x,,", '1,,"[""a"",{""deep"":[1,2.5,null]}]"', "-3.5,true,"]
    assert "--columns" in keel.fails(1, "export", "/d", "--format", "csv")
    assert json.loads(keel.ok("doc", "get", "/d/load/one", "1")) == documents[0]
    entries = [key for key, _ in raw(keel, "/d", "one") if key.startswith("ff02")]
    assert len(entries) == 1 and entries[0].startswith("ff02" + b"id2".hex() + "00" + "27")  # only one document has the member


def test_json_records(keel):
    keel.write("r.jsonl", '{"id": 1, "n": "x", "v": 1.0}\n{"v": true, "id": 2}\n\n{"id": 3, "n": null, "v": "1"}\n')
    keel.ok("import", "r.jsonl", "--key", "id", "--as", "records", "--into", "/r")
    assert keel.ok("export", "/r", "--format", "jsonl") == '{"id":1,"n":"x","v":1.0}\n{"id":2,"n":null,"v":true}\n{"id":3,"n":null,"v":"1"}\n'
    keel.write("s.jsonl", '{"id": 1}\n{"id": 2, "more": 3}\n{"id": [1]}\n{"n": 1}\n{"id": null}\n')
    error = keel.fails(1, "import", "s.jsonl", "--key", "id", "--as", "records", "--into", "/s", "--dry-run")
    assert "line 2, column more: there is no such column" in error and "line 3, column id: an object or array" in error
    assert "line 4" in error and "line 5, column id: the key is empty" in error


def test_csv_documents(keel):
    keel.write("c.csv", 'id,name,more\n1,Ann,"{""x"": [1]}"\n2,,null\n')
    keel.ok("import", "c.csv", "--into", "/c", "--as", "documents", "--types", "id:int,more:json")
    assert keel.ok("export", "/c") == '{"id":1,"more":{"x":[1]},"name":"Ann"}\n{"id":2,"more":null,"name":null}\n'
    assert keel.ok("export", "/c", "--format", "csv") == 'id,name,more\n1,Ann,"{""x"":[1]}"\n2,,\n'
    assert "JSON has no uuid" in keel.fails(1, "import", "c.csv", "--into", "/x", "--as", "documents", "--types", "id:uuid")


def test_key_auto(keel):
    keel.write("k.csv", "a,b\nx,1\nx,2\ny,3\n")
    keel.ok("import", "k.csv", "--into", "/k", "--key", "auto", "--name", "k")
    assert keel.ok("export", "/k") == "a,b\nx,1\nx,2\ny,3\n"
    assert [key for key, _ in raw(keel, "/k", "k")][:3] == ["1501", "1502", "1503"]
    keel.write("k.jsonl", '{"a": 1}\n{}\n')
    keel.ok("import", "k.jsonl", "--into", "/kd", "--key", "auto")
    assert keel.ok("export", "/kd") == '{"a":1}\n{}\n'


def test_composite_key_and_indexes(keel):
    """the pairs are exactly those that docs/import.md promises"""
    keel.write("p.csv", "a,b,c,d\nx,1,Oslo,NO\ny,2,,IT\n")
    keel.ok("import", "p.csv", "--into", "/p", "--key", "b,a", "--types", "b:int", "--index", "c", "--index=d,c", "--name", "p")
    text = lambda word: "02" + word.encode().hex() + "00"
    nested = ["05" + "1501" + text("x") + "00", "05" + "1502" + text("y") + "00"]
    pairs = raw(keel, "/p", "p")
    assert pairs[:2] == [(nested[0], text("Oslo") + text("NO")), (nested[1], "00" + text("IT"))]
    assert pairs[2:6] == [("ff" + text("c") + "00" + nested[1], ""), ("ff" + text("c") + text("Oslo") + nested[0], ""),
                          ("ff" + text("d,c") + text("IT") + "00" + nested[1], ""), ("ff" + text("d,c") + text("NO") + text("Oslo") + nested[0], "")]
    assert len(pairs) == 7 and pairs[6][0] == "ff1414" and json.loads(bytes.fromhex(pairs[6][1]))["key"] == ["b", "a"]
    assert keel.ok("export", "/p") == "a,b,c,d\nx,1,Oslo,NO\ny,2,,IT\n"


def test_programs_read_it(keel):
    """the C program of docs/import.md, on an import of its own file"""
    here = os.path.dirname(os.path.abspath(__file__))
    text = open(os.path.join(here, "..", "..", "docs", "import.md")).read()
    program = re.search(r"```c\n(.*?)```", text, re.S).group(1)
    expected = re.search(r"```text\n(.*?)```", text, re.S).group(1)
    keel.write("program.c", program)
    build = os.path.dirname(os.path.dirname(keel.binary))
    root = os.path.join(here, "..", "..")
    sanitized = re.search(r"/sanitize-([a-z-]+)$", build)
    flags = ["-fsanitize=" + sanitized.group(1).replace("-", ",")] if sanitized else []
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, f"-I{root}/include", keel.path("program.c"), "-o",
                    keel.path("program"), f"-L{build}/lib", "-lkeel", "-lfdb_c", f"-Wl,-rpath,{build}/lib", "-pthread"], check=True)
    keel.write("users.csv", FIRST + "9,Cid,Oslo\n")
    keel.write("docs.jsonl", '{"id": 1, "tags": ["dev", "ops"]}\n')
    keel.ok("import", "users.csv", "--into", "/app/users", "--types", "id:int", "--index", "city")
    keel.ok("import", "docs.jsonl", "--into", "/app/docs", "--key", "id")
    done = subprocess.run([keel.path("program"), keel.db], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0 and done.stdout.decode() == expected, done


def random_text(generator):
    alphabet = ["a", "Z", "0", " ", ",", ";", "'", '"', '""', "\n", "\r\n", "\r", "\t", "é", "漢", "😀", "\0", "\\", "{", "null", "\ufeff", "\x7f", "ß"]
    return "".join(generator.choice(alphabet) for _ in range(generator.choice((0, 1, 2, 5, 30))))


def test_round_trip(keel):
    """random rows with everything in them: out, and in again, as CSV, as JSON lines, as documents"""
    for round_number in range(keel.rounds(4)):
        generator = random.Random(keel.seed * 1000 + round_number)
        columns = generator.randint(2, 6)
        names = [f"c{i}" + random_text(generator).replace("\0", "") for i in range(columns)]
        names[0] = "id"
        rows = {}
        for _ in range(generator.randint(1, 60)):
            row = [generator.choice((None, random_text(generator), random_text(generator))) for _ in range(columns)]
            row[0] = random_text(generator)
            rows[row[0]] = row
        def field(value):
            if value is None:
                return ""
            needed = value == "" or re.search(r'[",\r\n]', value) or generator.random() < 0.2 or value.startswith("\ufeff")
            return '"' + value.replace('"', '""') + '"' if needed else value
        text = "".join(",".join(map(field, row)) + generator.choice(("\n", "\r\n")) for row in [names] + list(rows.values()))
        keel.write("r.csv", text.encode())
        expected = [dict(zip(names, row)) for _, row in sorted(rows.items(), key=lambda item: item[0].encode())]
        directory = f"/r{round_number}"
        keel.ok("import", "r.csv", "--into", directory + "/csv")
        keel.ok("export", directory + "/csv", "r.jsonl")
        lines = open(keel.path("r.jsonl"), encoding="utf-8", newline="\n").read()
        assert [json.loads(line) for line in lines.split("\n")[:-1]] == expected, keel.seed
        keel.ok("export", directory + "/csv", "again.csv")
        keel.ok("import", "again.csv", "--into", directory + "/again")
        assert keel.run("export", directory + "/again").out_bytes == open(keel.path("again.csv"), "rb").read()
        keel.ok("import", "r.jsonl", "--into", directory + "/jsonl", "--as", "records", "--key", "id")
        assert keel.ok("export", directory + "/jsonl", "--format", "jsonl") == lines
        keel.ok("import", "r.jsonl", "--into", directory + "/documents", "--key", "id")
        assert [json.loads(line) for line in keel.ok("export", directory + "/documents").split("\n")[:-1]] == expected


# ---- Refused rows ----

DAMAGED = (b"id,a,b\n"            # 1
           b"1,x,y\n"             # 2
           b"2,x\n"               # 3  too few
           b"3,x,y,z\n"           # 4  too many
           b"4,x,\xff\n"          # 5  UTF-8
           b"5,x\"y,z\n"          # 6  quote inside
           b"6,\"x\"y,z\n"        # 7  behind the quote
           b",x,y\n"              # 8  no key
           b"7,\"multi\nline\",y\n"  # 9, 10
           b"1,again,y\n"         # 11 duplicate
           b"8,a\rb,c\n"          # 12 CR
           b"9,x,y\n"             # 13
           b"10,\"never\n"        # 14
           b"11,x,y\n")           # 15


def check_damaged(error):
    for words in ("line 3, column b: the row ends here: 2 fields of 3", "line 4: 4 fields, but there are 3 columns", "line 5, column b: not valid UTF-8",
                  "line 6, column a: a quote inside a field", "line 7, column a: something other than the delimiter", "line 8, column id: the key is empty",
                  "line 12, column a: a carriage return without", "line 14, column a: the quote that opens this field is never closed"):
        assert "x.csv: " + words in error, (words, error)
    for words in ("9 rows were refused:", "4  broken quotes or lines", "2  wrong number of fields", "1  not UTF-8", "1  no key", "1  a key that was there before"):
        assert words in error, (words, error)


def test_damaged_skip(keel):
    keel.write("x.csv", DAMAGED)
    result = keel.run("import", "x.csv", "--into", "/x", "--on-error", "skip", "--errors-to", "bad.csv")
    assert result.code == 0, result
    check_damaged(result.err)
    assert 'line 11, column id: the key ("1") was there before' in result.err, result.err
    assert keel.ok("export", "/x") == 'id,a,b\n1,x,y\n11,x,y\n7,"multi\nline",y\n9,x,y\n'
    lines = DAMAGED.split(b"\n")
    bad = open(keel.path("bad.csv"), "rb").read().split(b"\n")
    assert bad[0] == lines[0] and sorted(bad[1:-1]) == sorted(lines[i - 1] for i in (3, 4, 5, 6, 7, 8, 11, 12, 14))
    result = keel.json("import", "x.csv", "--into", "/x", "--on-error", "skip")
    assert result[0]["rows"] == 4 and result[0]["refused"] == 9 and result[0]["active"] is True


def test_damaged_dry_run(keel):
    keel.write("x.csv", DAMAGED)
    error = keel.fails(1, "import", "x.csv", "--into", "/x", "--dry-run")
    check_damaged(error)
    assert "line 11, column id: the key was there before, in line 2" in error
    assert not os.path.exists(keel.db)
    keel.ok("set", "a", "b")
    before = keel.ok("getrange", "--all")
    keel.fails(1, "import", "x.csv", "--into", "/x", "--dry-run")
    keel.write("u.csv", FIRST)
    assert keel.ok("import", "u.csv", "--into", "/x", "--dry-run") == "2 rows of u.csv can be imported; nothing was written\n"
    assert keel.ok("getrange", "--all") == before


def test_errors_file(keel):
    """the file of refused rows is never the input; it has the header from a pipe too, and a kill takes no row out of it"""
    keel.write("x.csv", "id,n\n1,2\n2,x\n3,4\n")
    os.link(keel.path("x.csv"), keel.path("same.csv"))
    for name in ("x.csv", "./x.csv", "same.csv"):
        error = keel.fails(1, "import", "x.csv", "--into", "/x", "--types", "n:int", "--on-error", "skip", "--errors-to", name)
        assert "this is the file that is imported" in error, error
    assert open(keel.path("x.csv")).read() == "id,n\n1,2\n2,x\n3,4\n"
    process = start(keel, "-", "--format", "csv", "--into", "/x", "--types", "n:int", "--on-error", "skip", "--errors-to", "bad.csv", stdin=subprocess.PIPE)
    process.stdin.write(b"id,n\n1,2\n2,x\n3,4\n")
    process.stdin.flush()
    while not os.path.exists(keel.path("bad.csv")) or open(keel.path("bad.csv")).read() != "id,n\n2,x\n":
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()


def test_error_lines(keel):
    keel.write("x.csv", "id,n\n" + "".join(f"{i},x\n" for i in range(50)))
    error = keel.fails(1, "import", "x.csv", "--into", "/x", "--types", "n:int", "--on-error", "skip", "--error-lines", "3")
    assert error.count("not an integer") == 3 and "50 rows were refused" in error and "all rows were refused" in error
    assert keel.json("loads", "--into", "/x")[0]["state"] == "validated"  # nothing readers see
    assert "no active load" in keel.fails(3, "export", "/x")


def test_dry_run_row_too_large(keel):
    keel.write("d.jsonl", json.dumps({"id": 1, "m": ["v" * 90000] * 40}) + "\n" + json.dumps({"id": 2, "m": ["v" * 90000] * 50}) + "\n")
    for extra in (["--dry-run"], ["--on-error", "skip"]):
        result = keel.run("import", "d.jsonl", "--key", "id", "--into", "/d", *extra)
        assert "line 2, column m: the document is larger" in result.err and "line 1" not in result.err, result
        assert result.out.startswith("1 rows of d.jsonl"), result


def test_stop_mend_resume(keel):
    """the first refused row stops; mended in the file, the import goes on behind it"""
    rows = [f"{i},name {i}\n" for i in range(1000)]
    broken = "id,n\n" + "".join(rows[:500]) + "500\n" + "".join(rows[501:])
    keel.write("x.csv", broken)
    error = keel.fails(1, "import", "x.csv", "--into", "/x", "--types", "id:int")
    assert "x.csv: line 502, column n: the row ends here" in error and "500 rows are prepared" in error
    command = error.splitlines()[-1].split("keel:")[-1].strip() if "--resume" in error.splitlines()[-1] else re.search(r"  (keel .*--resume.*)", error).group(1)
    keel.write("x.csv", "id,n\n" + "".join(rows))
    done = keel.shell(command)
    assert "1,000 rows" in done.out, done
    assert keel.ok("export", "/x") == "id,n\n" + "".join(rows)


def test_duplicates_stop(keel):
    keel.write("x.csv", "id,n\n" + "".join(f"{i},x\n" for i in range(100)) + "50,again\n" + "".join(f"{i},x\n" for i in range(100, 200)))
    error = keel.fails(1, "import", "x.csv", "--into", "/x")
    assert 'x.csv: line 102, column id: the key ("50") was there before' in error, error
    keel.write("d.jsonl", '{"id": 1, "a": 1}\n{"id": 1, "b": 2}\n')
    error = keel.fails(1, "import", "d.jsonl", "--key", "id", "--into", "/d")
    assert "d.jsonl: line 2, column id: the key" in error, error


def test_too_large(keel):
    long_key, long_value = "k" * 10001, "v" * 100001
    keel.write("x.csv", f"id,v\n{long_key},x\n2,{long_value}\n3,{'w' * 9999}\n4,ok\n")
    error = keel.fails(1, "import", "x.csv", "--into", "/x", "--index", "v", "--dry-run")
    assert "line 2, column id: the key is larger" in error and "line 3, column v: the record is larger" in error
    assert "line 4, column v: too large for an index" in error
    result = keel.run("import", "x.csv", "--into", "/x", "--index", "v", "--on-error", "skip")
    assert result.code == 0 and "3  too large" in result.err, result
    assert keel.ok("export", "/x") == "id,v\n4,ok\n"
    keel.write("x.jsonl", json.dumps({"id": 1, "a": "small", "v": long_value}) + "\n" + json.dumps({"id": 2, "v": ["v" * 90000] * 50}) + "\n" +
               '{"id": 3}\n' + '{"id": 4, "x": "' + "y" * 17000000 + '"}\n' + '{"id": 5}\n')
    result = keel.run("import", "x.jsonl", "--key", "id", "--into", "/d", "--on-error", "skip")
    assert "line 1, column v: a string is longer" in result.err and "line 2, column v: the document is larger" in result.err, result
    assert "line 4: the line is longer than 16 MB" in result.err
    assert keel.ok("export", "/d") == '{"id":3}\n{"id":5}\n'
    keel.write("q.csv", b'id,v\n1,"' + (b"abc" * 1000 + b"\n") * 6000 + b"2,x\n")
    result = keel.run("import", "q.csv", "--into", "/q", "--on-error", "skip", "--error-lines", "1", "--types", "id:int")
    assert "line 2, column v: the row does not end within 16 MB" in result.err and keel.ok("export", "/q") == "id,v\n2,x\n", result.err[:500]


def test_damaged_json(keel):
    keel.write("x.jsonl", b'{"id": 1}\n{"id": 2\n[1]\n{"id": null}\n{"a": 1}\n{"id": 3, "x": 99999999999999999999}\n{"id": 4, "x": "\xff"}\n"x"\n' +
               b'{"id": 5, "x": ' + b"[" * 1500 + b"]" * 1500 + b'}\nnot json\n{"id": 6}')
    result = keel.run("import", "x.jsonl", "--key", "id", "--into", "/x", "--on-error", "skip")
    for words in ("line 2: not JSON, at character", "line 3: the line is JSON, but not an object", "line 4, column id: the key is null", "line 5, column id: the key is missing",
                  "line 6: a number does not fit", "line 7: the line is not valid UTF-8", "line 8: the line is JSON, but not an object",
                  "line 9: more levels", "line 10: not JSON"):
        assert words in result.err, (words, result)
    assert keel.ok("export", "/x") == '{"id":1}\n{"id":6}\n'


def test_memory(keel):
    """does not grow with the file: looked at when all rows but the last have been read"""
    peaks = []
    for rows in (5000, 200000):
        lines = big_file(keel, "big.csv", rows)
        process = start(keel, "-", "--format", "csv", "--into", "/x", "--index", "city", "--dry-run", stdin=subprocess.PIPE)
        process.stdin.write(("id,name,city,n\n" + "".join(lines)).encode())
        process.stdin.flush()
        while ioctl(process.stdin, FIONREAD, bytes(4)) != bytes(4):  # until it has read all
            time.sleep(0.1)
        with open(f"/proc/{process.pid}/status") as file:
            peaks.append(int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)))
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0 and f"{rows:,} rows" in out.decode(), err
    assert peaks[1] < peaks[0] + 1024, peaks


def test_foreign_directory(keel):
    """a directory that holds something else is not touched"""
    keel.ok("doc", "set", "/docs", "1", "--", '{"a": 1}')
    keel.write("u.csv", FIRST)
    assert "holds keys of something else" in keel.fails(1, "import", "u.csv", "--into", "/docs")
    assert json.loads(keel.ok("doc", "get", "/docs", "1")) == {"a": 1}


def test_usage(keel):
    keel.write("u.csv", FIRST)
    for arguments in (["u.csv"], ["--into", "/x"], ["u.csv", "--into", "/x", "--as", "rows"], ["u.csv", "--into", "/x", "--format", "xml"],
                      ["-", "--into", "/x"], ["u.csv", "u.csv", "--into", "/x"], ["u.csv", "--into", "/x", "--delimiter", "ab"],
                      ["u.csv", "--into", "/x", "--delimiter", '"'], ["u.csv", "--into", "/x", "--columns", "a"], ["u.csv", "--into", "/x", "--bogus"],
                      ["u.csv", "--into", "/x", "--format", "jsonl"], ["u.csv", "--into", "/x", "--dry-run", "--resume"]):
        keel.fails(2, "import", *arguments)
    for option, word in (("--key", "nope"), ("--index", "nope"), ("--types", "nope:int"), ("--types", "id:nope"), ("--types", "id"), ("--key", "id,id")):
        keel.fails(1, "import", "u.csv", "--into", "/x", option, word)
    assert not os.path.exists(keel.db)


# ---- Loads ----

def test_loads(keel):
    keel.write("u.csv", FIRST)
    keel.ok("import", "u.csv", "--into", "/u", "--name", "one")
    keel.write("v.csv", "id,name,city\n1,Zoe,Bern\n")
    assert "prepared and validated" in keel.ok("import", "v.csv", "--into", "/u", "--name", "two", "--no-activate")
    assert keel.ok("export", "/u") == FIRST and keel.ok("export", "/u", "--name", "two") == "id,name,city\n1,Zoe,Bern\n"
    assert [(load["name"], load["state"], load["rows"]) for load in keel.json("loads", "--into", "/u")] == [("one", "active", 2), ("two", "validated", 1)]
    assert keel.ok("loads", "--into", "/u", "--activate", "two") == "load two of /u is active\n"
    assert keel.ok("export", "/u") == "id,name,city\n1,Zoe,Bern\n"
    assert keel.ok("loads", "--into", "/u", "--cleanup", "--older-than", "1h") == "0 loads of /u were removed\n"
    keel.ok("loads", "--into", "/u", "--activate", "one")
    assert keel.ok("loads", "--into", "/u", "--cleanup") == "1 loads of /u were removed\n"
    assert [load["name"] for load in keel.json("loads", "--into", "/u")] == ["one"]
    keel.ok("import", "v.csv", "--into", "/u", "--name", "two", "--no-activate")
    keel.ok("loads", "--into", "/u", "--abandon", "two")
    keel.fails(1, "loads", "--into", "/u", "--abandon", "one")  # is active
    assert keel.ok("loads", "--into", "/u", "--cleanup") == "1 loads of /u were removed\n"
    assert keel.ok("export", "/u") == FIRST
    keel.fails(3, "loads", "--into", "/missing")
    for option in ("--activate", "--abandon"):
        assert "/u has no load nope" in keel.fails(3, "loads", "--into", "/u", option, "nope")
    keel.fails(2, "loads", "--into", "/u", "--older-than", "1h")


def test_second_import_refused(keel):
    keel.write("x.csv", "id,n\n1,x\nbad\n")
    keel.fails(1, "import", "x.csv", "--into", "/x", "--name", "first")
    keel.write("y.csv", "id\n1\n")
    error = keel.fails(1, "import", "y.csv", "--into", "/x")
    for words in ("unfinished load, first, of x.csv (1 rows so far)", "--resume", "loads --into /x --abandon first", "--name NAME"):
        assert words in error, (words, error)
    keel.ok("import", "y.csv", "--into", "/x", "--name", "beside")
    error = keel.fails(1, "import", "x.csv", "--into", "/x", "--name", "beside")
    assert "beside" in error and "active" in error
    assert "no load other" in keel.fails(1, "import", "y.csv", "--into", "/x", "--resume", "--name", "other")
    keel.ok("loads", "--into", "/x", "--abandon", "first")
    assert "no unfinished load" in keel.fails(1, "import", "y.csv", "--into", "/x", "--resume")
    keel.ok("import", "y.csv", "--into", "/x")


# ---- Interruptions ----

def big_file(keel, name, rows, seed=1):
    generator = random.Random(seed)
    lines = [f"{generator.randrange(10**12)}-{i},name of {i},{generator.choice(('Oslo', 'Rome', 'Bern'))},{i}\n" for i in range(rows)]
    keel.write(name, "id,name,city,n\n" + "".join(lines))
    return lines


OPTIONS = ("--into", "/x", "--types", "n:int", "--index", "city", "--name", "x", "--quiet")


def start(keel, *arguments, stdin=subprocess.DEVNULL):
    return subprocess.Popen([keel.binary, keel.db, "import", *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=keel.environment,
                            cwd=keel.directory)


def test_kill_and_resume(keel):
    """killed at random points, resumed, killed again: the same bytes as without"""
    big_file(keel, "big.csv", 20000)
    whole = keel.path("whole.db")
    began = time.monotonic()
    result = keel.command(whole, "import", "big.csv", *OPTIONS)
    took = time.monotonic() - began
    assert result.code == 0, result
    expected = raw(keel, "/x", "x", whole)
    assert len(expected) == 40001
    generator = random.Random(keel.seed)
    kills, resumes, finished = 0, 0, False
    for _ in range(200):
        if finished:  # before the first kill, or all came before there was a load: once more, with another measure
            keel.forget()
            took = took * 2 if kills else took / 2
            kills = 0
        resume = kills > 0 and keel.run("loads", "--into", "/x").out.startswith("x ")
        process = start(keel, "big.csv", *OPTIONS, *(["--resume"] if resume else []))
        try:
            out, err = process.communicate(timeout=generator.uniform(0, took * 1.2) if kills < keel.rounds(6) else TIMEOUT_SECONDS)
            finished = True
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            finished = process.returncode == 0
        assert process.returncode in (0, -signal.SIGKILL), (process.returncode, out, err)
        kills += not finished
        resumes += resume
        if finished and resumes > 0:
            break
    assert finished and resumes > 0, (kills, took)
    assert raw(keel, "/x", "x") == expected
    assert "20,000 rows" in keel.ok("import", "big.csv", *OPTIONS, "--resume")  # once more changes nothing
    assert raw(keel, "/x", "x") == expected


def interrupted(keel, text, words, *arguments):
    """An import of a pipe that gets `text`, interrupted when it has read it, so that it says `words`; returns what it says. Its pipe stays open."""
    for seconds in PATIENCE_SECONDS:
        keel.forget()
        process = start(keel, *arguments, stdin=subprocess.PIPE)
        process.stdin.write(text)
        process.stdin.flush()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        process.wait(TIMEOUT_SECONDS)
        error = process.communicate()[1].decode()
        if process.returncode == 130 and words in error:
            return error
    assert False, (process.returncode, error)


def test_interrupt_and_resume(keel):
    """Ctrl-C leaves what was read, and says how to go on; a changed beginning is refused"""
    lines = big_file(keel, "big.csv", 3000)
    text = open(keel.path("big.csv"), "rb").read()
    half = text.index(lines[2000].encode())
    err = interrupted(keel, text[:half], "2,000 rows are prepared", "-", "--format", "csv", *OPTIONS)
    assert "interrupted" in err and "2,000 rows are prepared in load x" in err and "feeding the same input again" in err, err
    assert f"keel {keel.db} import - --format csv --into /x" in err and err.rstrip().endswith("--resume"), err
    resume = ("import", "-", "--format", "csv", *OPTIONS, "--resume")
    error = keel.fails(1, *resume, input=text[:100] + b"9" + text[101:])
    assert "not the file that this load was begun with" in error
    error = keel.fails(1, *resume, input=text[: half // 2])
    assert "not the file that this load was begun with" in error
    error = keel.fails(1, *[word for word in resume if word != "n:int" and word != "--types"], input=text)
    assert "begun with other columns, types" in error
    assert "3,000 rows" in keel.ok(*resume, input=text)
    whole = keel.path("whole.db")
    assert keel.command(whole, "import", "big.csv", *OPTIONS).code == 0
    assert raw(keel, "/x", "x") == raw(keel, "/x", "x", whole)


def test_interrupt_while_waiting(keel):
    """Ctrl-C ends an import that waits for a pipe, and leaves a load to resume"""
    for text, words in ((b"", ""), (b"id,n\n1,2\n2,3\n", "2 rows are prepared")):
        interrupted(keel, text, words, "-", "--format", "csv", "--into", "/p", "--name", "p")
    done = keel.ok("import", "-", "--format", "csv", "--into", "/p", "--name", "p", "--resume", input="id,n\n1,2\n2,3\n3,4\n")
    assert done.startswith("3 rows"), done


def test_taken_over(keel):
    """an import whose load another one resumes says so, and does not ask to take it back"""
    first = start(keel, "-", "--format", "csv", "--into", "/t", "--name", "t", stdin=subprocess.PIPE)
    first.stdin.write(b"id,n\n1,2\n")
    first.stdin.flush()
    while not os.path.exists(keel.db) or '"preparing"' not in keel.run("--json", "loads", "--into", "/t").out:
        time.sleep(0.02)
    keel.ok("import", "-", "--format", "csv", "--into", "/t", "--name", "t", "--resume", input="id,n\n5,6\n")
    error = first.communicate(b"2,3\n")[1].decode()
    assert first.returncode == 1 and "taken over by another import" in error and "--resume" not in error, error
    assert keel.ok("export", "/t") == "id,n\n5,6\n"


def test_changed_file_refused(keel):
    rows = "".join(f"{i},x\n" for i in range(1000))
    keel.write("x.csv", "id,n\n" + rows + "bad\n")
    keel.fails(1, "import", "x.csv", "--into", "/x")
    keel.write("x.csv", "id,n\n" + rows.replace("500,x", "500,y") + "bad,x\n")
    assert "its first part has changed" in keel.fails(1, "import", "x.csv", "--into", "/x", "--resume")
    keel.write("x.csv", "id,m\n" + rows + "bad,x\n")
    assert "begun with other columns" in keel.fails(1, "import", "x.csv", "--into", "/x", "--resume")
    keel.write("x.csv", "id,n\n" + rows + "good,x\n")
    os.utime(keel.path("x.csv"), (0, 0))
    assert "1,001 rows" in keel.ok("import", "x.csv", "--into", "/x", "--resume")


def test_skip_and_resume(keel):
    """what was refused before an interruption is counted after it too"""
    keel.write("x.csv", "id,n\nbad\n1,1\nbad\n2,2\n3,x\n4,4\n")
    text = open(keel.path("x.csv"), "rb").read()
    interrupted(keel, text[: text.index(b"3,x")], "2 rows are prepared", "-", "--format", "csv", "--into", "/x", "--types", "n:int", "--on-error", "skip", "--quiet")
    result = keel.run("import", "-", "--format", "csv", "--into", "/x", "--types", "n:int", "--on-error", "skip", "--resume", input=text)
    assert result.code == 0 and "2 rows were refused before the import was interrupted" in result.err and "1 rows were refused" in result.err, result
    assert keel.ok("export", "/x") == "id,n\n1,1\n2,2\n4,4\n"


# ---- Exports ----

def test_export_refused(keel):
    keel.ok("mkdir", "/plain")
    assert "no active load" in keel.fails(3, "export", "/plain")
    keel.fails(3, "export", "/missing")
    keel.write("u.csv", FIRST)
    keel.ok("import", "u.csv", "--into", "/u")
    keel.fails(3, "export", "/u", "--name", "nope")
    keel.fails(1, "export", "/u", "--columns", "nope")
    keel.fails(1, "export", "/u", "no/such/place.csv")
    keel.fails(2, "export", "/u", "--format", "xml")
    keel.fails(2, "export")


def test_slow_export(keel):
    """whoever reads the export stalls for longer than the database keeps a version: held, or going on at a later one, all rows come"""
    rows = 5000
    keel.write("x.csv", "id,v\n" + "".join(f"{i},{'v' * 60}\n" for i in range(rows)))
    keel.write("x.jsonl", "".join(json.dumps({"id": i, "v": "v" * 60}, separators=(",", ":")) + "\n" for i in range(rows)))
    exports = []
    for number, (file, key, arguments) in enumerate((("x.csv", "--types=id:int", []), ("x.csv", "--types=id:int", ["--no-hold"]),
                                                     ("x.jsonl", "--key=id", ["--no-hold"]))):
        db = keel.path(f"{number}.db")
        assert keel.command(db, "import", file, "--into", "/x", key, "--quiet").code == 0
        process = subprocess.Popen([keel.binary, "--quiet", db, "export", "/x", *arguments], bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=keel.environment)
        exports.append((process, process.stdout.read(100), open(keel.path(file), "rb").read()))
    time.sleep(6)
    for process, first, expected in exports:
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0 and first + out == expected, err


def test_export_plain_documents(keel):
    """documents that no import wrote"""
    keel.ok("mkdir", "/docs")
    keel.ok("doc", "set", "/docs", "1", "--", '{"a": [1, 2]}')
    assert keel.ok("export", "/docs", "--as", "documents") == '{"a":[1,2]}\n'


def test_progress(keel):
    """rate and rows on a terminal, nothing with --quiet"""
    lines = big_file(keel, "big.csv", 2000)
    for seconds in PATIENCE_SECONDS:
        keel.forget()
        master, terminal = os.openpty()
        process = subprocess.Popen([keel.binary, keel.db, "import", "-", "--format", "csv", "--into", "/x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=terminal, env=keel.environment, cwd=keel.directory)
        process.stdin.write(("id,name,city,n\n" + "".join(lines[:1000])).encode())
        process.stdin.flush()
        time.sleep(seconds)
        process.communicate("".join(lines[1000:]).encode(), timeout=TIMEOUT_SECONDS)
        os.write(terminal, b"end")  # so that there is something to read
        shown = os.read(master, 100000).decode()
        os.close(terminal)
        os.close(master)
        assert process.returncode == 0, shown
        if re.search(r"importing: \S+ \wB, [0-9,]+ rows, \S+ \wB/s", shown):
            break
    else:
        assert False, shown
    assert keel.run("import", "big.csv", "--into", "/x", "--quiet").err == ""
