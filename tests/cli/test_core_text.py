# SPDX-License-Identifier: Apache-2.0
"""What is shown can be typed again: random keys and values of every kind, shown and read back, are the same bytes."""
import json
import random
import struct

MARKS = "\"'\\/()#;-,= \t.:*?[]{}$`~!&|<>@%^+_0123456789abcXYZ"


def random_tuple(random_, depth=0):
    """Packed."""
    parts = b""
    for _ in range(random_.randrange(4)):
        kind = random_.randrange(9 if depth < 3 else 8)
        if kind == 0:
            parts += b"\0\xff" if depth else b"\0"
        elif kind in (1, 2):
            text = "".join(random_.choice(MARKS + "äß€😀\0\x1f\x7f\u202e") for _ in range(random_.randrange(6))).encode()
            parts += (b"\x02" if kind == 1 else b"\x01") + text.replace(b"\0", b"\0\xff") + b"\0"
        elif kind == 3:
            size = random_.randrange(1, 9)
            number = random_.randrange(256 ** (size - 1), 256 ** size)
            parts += bytes([0x14 + size]) + number.to_bytes(size, "big")
        elif kind == 4:
            parts += b"\x14"
        elif kind == 5:
            parts += b"\x21" + struct.pack(">Q", random_.getrandbits(64))
        elif kind == 6:
            parts += bytes([random_.choice((0x26, 0x27))])
        elif kind == 7:
            parts += random_.choice((b"\x30" + random_.randbytes(16), b"\x33" + random_.randbytes(12), b"\x20" + random_.randbytes(4)))
        else:
            parts += b"\x05" + random_tuple(random_, depth + 1) + b"\0"
    return parts


def random_bytes(random_):
    kind = random_.randrange(6)
    if kind == 0:
        return random_.randbytes(random_.randrange(20))
    if kind == 1:
        return "".join(random_.choice(MARKS) for _ in range(random_.randrange(1, 12))).encode()
    if kind == 2:
        return random_tuple(random_)
    if kind == 3:
        return random_tuple(random_)[:-1] + random_.randbytes(1)
    if kind == 4:
        return "".join(chr(random_.choice((random_.randrange(32, 0x300), random_.randrange(0x2000, 0x2100)))) for _ in range(random_.randrange(8))).encode()
    return random_.randrange(2 ** random_.randrange(1, 64)).to_bytes(8, "little")


def escaped(data):
    return "".join(f"\\x{byte:02x}" for byte in data) or '""'


def rows_of(keel, *range_):
    return [(bytes.fromhex(row["key"]["hex"]), bytes.fromhex(row["value"]["hex"])) for row in keel.json("getrange", "--all", *range_)]


def test_random_keys_and_values_read_back(keel):
    random_ = random.Random(keel.seed)
    rows = {}
    for _ in range(keel.rounds(3000)):
        key = random_bytes(random_)
        if not key.startswith((b"\xff", b"\xfe")):
            rows[key] = random_bytes(random_)
    lines = [f"set {escaped(key)} {escaped(value)}\n" for key, value in rows.items()]
    keel.ok("mkdir", "-p", "/app/dir")  # its prefix is an integer's tuple: some random tuples lie in it
    before = rows_of(keel)
    keel.script("begin\n" + "".join(lines) + "commit\n")
    expected = sorted({**dict(before), **rows}.items())
    assert rows_of(keel) == expected
    keys = keel.ok("getrange", "--all", "--keys").split("\n")[:-1]
    people = keel.ok("getrange", "--all").split("\n")[:-1]
    assert len(keys) == len(people) == len(expected)
    for line in people:
        assert all(ord(c) >= 32 and not 127 <= ord(c) < 160 and not "\u2028" <= c <= "\u202e" for c in line), repr(line)
    # Keys: get each as it was shown.
    shown = keel.script("".join(f"get {key}\n" for key in keys), options=("--json",)).split("\n")[:-1]
    for key, answer, (bytes_, value) in zip(keys, shown, expected):
        answer = json.loads(answer)
        assert bytes.fromhex(answer["key"]["hex"]) == bytes_ and bytes.fromhex(answer["value"]["hex"]) == value, (keel.seed, key, bytes_)
    assert len(shown) == len(expected)
    # Values: set each as it was shown, comment and all.
    values = []
    for key, line in zip(keys, people):
        assert line.startswith(key + " is "), (keel.seed, line)
        values.append(line[len(key) + 4:])
    keel.script("begin\n" + "".join(f"set (\"copy\", {i}) {value}\n" for i, value in enumerate(values)) + "commit\n")
    copies = rows_of(keel, '("copy")')
    for i, (_, copy) in enumerate(copies[:len(expected)]):
        assert copy == expected[i][1], (keel.seed, values[i], expected[i])
    # And as arguments, where the shell that splits is bash and not ours: the text of --json.
    texts = [json.loads(line)["key"]["text"] for line in shown[:40]]
    for text, (bytes_, _) in zip(texts, expected):
        assert bytes.fromhex(json.loads(keel.ok("--json", "get", "--", text))["key"]["hex"]) == bytes_, (keel.seed, text)


def test_directories_and_partitions_read_back(keel):
    keel.ok("mkdir", "/plain")
    keel.ok("mkdir", "--layer", "partition", "/part")
    keel.ok("mkdir", "/part/inner")
    random_ = random.Random(keel.seed)
    for directory in ("/plain", "/part/inner"):
        prefix = keel.json("set", f"{directory}()", "root") and bytes.fromhex(keel.json("get", f"{directory}()")[0]["key"]["hex"])
        lines = [f"set {escaped(prefix + random_tuple(random_))} x\n" for _ in range(200)]
        keel.script("begin\n" + "".join(lines) + f"set {escaped(prefix + bytes([255, 7]))} x\ncommit\n")
        keys = keel.ok("getrange", f"{directory}()", "--all", "--keys").split("\n")[:-1]
        plain = [key for key in keys if not key.startswith(directory + "(")]
        assert len(keys) > 100 and len(plain) < 40 and all("\\xe2\\x80\\xae" in key or key.strip('"').endswith("\\xff\\x07") for key in plain), plain
        shown = [json.loads(line)["key"]["hex"] for line in keel.script("".join(f"get {key}\n" for key in keys), options=("--json",)).split("\n")[:-1]]
        assert shown == [row["key"]["hex"] for row in keel.json("getrange", f"{directory}()", "--all", "--keys")]
    assert "partition" in keel.fails(1, "get", "/part(1)")
