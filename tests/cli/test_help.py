# SPDX-License-Identifier: Apache-2.0
"""
The help texts: every command has one with an example, and every example does what it says.

An example is a line "    $ COMMAND", or "    keel …"; lines below it with the same indentation are what it prints, standard output and error
together, where "…" stands for anything, also for whole lines; without such lines the exit code alone is looked at, which is 0. All examples of
one help text run one after the other in one fresh directory.
"""
import os
import re
import shutil
import subprocess

from run import TIMEOUT_SECONDS

WITHOUT_EXAMPLE = {"exit", "quit"}


def command_names(keel):
    listing = keel.command("help").out
    return re.findall(r"^  ([a-z]\S*) {2,}\S", listing, re.M)


def examples(text):
    """[(command, [lines of output])] of a help text."""
    found = []
    for line in text.splitlines():
        if line.startswith(("    $ ", "    keel ")):
            found.append((line[4:].removeprefix("$ "), []))
        elif line.startswith("    ") and found and found[-1] is not None:
            found[-1][1].append(line[4:])
        elif found:
            found.append(None)
    return [example for example in found if example]


def matches(expected, printed):
    pattern = ".*".join(re.escape(part) for part in "\n".join(expected).split("…"))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.S) is not None


def check_examples(keel, name, text):
    for command, expected in examples(text):
        done = subprocess.run(["bash", "-c", "set -o pipefail; " + command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=keel.environment, cwd=keel.directory, timeout=TIMEOUT_SECONDS)
        printed = done.stdout.decode("utf-8", "replace")
        assert done.returncode == 0, f"{name}: {command}: exit code {done.returncode}: {printed}"
        assert not expected or matches(expected, printed), f"{name}: {command}\nprinted:\n{printed}\nexpected:\n" + "\n".join(expected)


def test_every_command_has_help_with_examples(keel):
    names = command_names(keel)
    assert len(names) > 15 and "get" in names, names
    for name in names:
        result = keel.command("help", name)
        assert result.code == 0 and result.out.startswith(f"usage: keel DB {name}"), result
        assert keel.command(name, "--help").out == result.out
        assert name in WITHOUT_EXAMPLE or examples(result.out), f"{name} has no example"
        for line in result.out.splitlines():
            assert len(line) <= 150, f"{name}: too long: {line}"


def make_test(name):
    def test(keel):
        check_examples(keel, name, keel.command("help", name).out)
    return test


def add_tests():
    """One test a command, so that a failure names it."""
    import sys
    from run import Keel
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        for name in command_names(Keel(os.path.abspath(sys.argv[1]), directory)):
            globals()["test_examples_of_" + name] = make_test(name)


add_tests()


def test_list(keel):
    listing = keel.command("help").out
    assert keel.command("--help").out == listing
    assert keel.run("--help").out == listing
    assert keel.command("--version").out.startswith("keel ")
    for word in ("--json", "--timeout", "Exit codes"):
        assert word in listing


def test_unknown(keel):
    result = keel.command("help", "gett")
    assert result.code == 2 and "get" in result.err, result
    assert "Did you mean get" in keel.fails(2, "gett", "x")
    assert "There is no command frobnicate" in keel.fails(2, "frobnicate")
    result = keel.command()
    assert result.code == 2 and "keel: Which database" in result.err, result
    for words in (("get", "hello"), ("status",), ("serve",), ("--json", "ls")):
        result = keel.command(*words)
        assert result.code == 2 and "is a command: the database stands before it" in result.err, result
    assert keel.command("./get", "set", "a", "1").code == 0 and keel.command("get", "get", "a").out == "1\n"
    assert keel.command("--frob", "x.db").code == 2


HERE = os.path.dirname(os.path.abspath(__file__))


def test_man_page(keel):
    page = os.path.join(HERE, "../../docs/keel.1")
    with open(page) as file:
        words = set(re.findall(r"[a-z]+", file.read()))
    missing = [name for name in command_names(keel) if name not in words]
    assert not missing, f"docs/keel.1 does not name {missing}"
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0 and not done.stdout, done.stdout.decode()


def bash_completes(keel, line):
    """What bash would offer for the last word of a line."""
    words = line.split(" ")
    script = f"""source {os.path.join(HERE, "../../tools/keel.bash")}
compopt() {{ :; }}
COMP_WORDS=({" ".join("'" + word + "'" for word in words)}); COMP_CWORD={len(words) - 1}
_keel; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return keel.shell(script).out.split()


def test_bash_completion(keel):
    keel.shell("keel my.db mkdir -p /app/users")
    assert bash_completes(keel, "keel --ti") == ["--timeout"]
    assert bash_completes(keel, "keel my") == ["my.db"]
    assert bash_completes(keel, "keel my.db getr") == ["getrange"]
    assert bash_completes(keel, "keel --json --timeout 5 my.db getr") == ["getrange"]
    assert bash_completes(keel, "keel help getr") == ["getrange"]
    assert bash_completes(keel, "keel my.db get /a") == ["/app"]
    assert bash_completes(keel, "keel my.db get /app/") == ["/app/users"]
    assert bash_completes(keel, "keel no.db get /app/") == []
    assert not os.path.exists(keel.path("no.db"))
