#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Tests of the keel command: runs the functions test_*(keel) of all files tests/cli/test_*.py.

    tests/cli/run.py KEEL [WORD...]     KEEL is the binary; only tests whose file:name holds one of the words

A test gets a Keel (below): a fresh directory, in it the path of a database that does not exist yet (keel.db), and ways to run the command there. It
passes if it returns; assert or raise otherwise; raise Skip(reason) where the machine lacks something. Its docstring is its name in the output.
Python's standard library is all there is. For tests on a terminal see terminal.py.

    def test_get(keel):
        keel.ok("set", "hello", "world")                    # keel DB set hello world, exit code 0; returns what it printed
        assert keel.ok("get", "hello") == "world\\n"
        assert "no such key" in keel.fails(3, "get", "x")   # exit code 3; returns standard error
        assert keel.json("get", "hello")[0]["value"]["text"] == "world"

Random tests take their seed from KEEL_SEED (1 by default) and their number of rounds from KEEL_ROUNDS. The examples in the commands' help are run
by test_help.py. What failed is said again at the end. The last line counts: "N passed, N failed".
"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

TIMEOUT_SECONDS = 300  # for a command that hangs; never a measure of anything
# How long a process gets to do something that cannot be seen from outside. A test tries one after the other, anew, until it was enough.
PATIENCE_SECONDS = (0.3, 1, 4, 16, 64)


class Skip(Exception):
    pass


class Result:
    def __init__(self, args, code, out, err):
        self.args, self.code, self.out_bytes, self.err_bytes = args, code, out, err

    @property
    def out(self):
        return self.out_bytes.decode("utf-8", "surrogateescape")

    @property
    def err(self):
        return self.err_bytes.decode("utf-8", "surrogateescape")

    def __repr__(self):
        return f"{self.args} -> {self.code}\n  stdout: {self.out[-2000:]!r}\n  stderr: {self.err[-4000:]!r}"


class Keel:
    """The command, and a directory of a test's own."""

    def __init__(self, binary, directory):
        self.binary, self.directory = binary, directory
        self.db = os.path.join(directory, "test.db")
        self.seed = int(os.environ.get("KEEL_SEED", "1"))
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("FDB_", "LC_", "LANG"))}
        self.environment.update(HOME=directory, TMPDIR=directory, LC_ALL="C.UTF-8", TERM="xterm",
                                PATH=os.path.dirname(binary) + os.pathsep + os.environ.get("PATH", "/usr/bin:/bin"))

    def rounds(self, usual):
        return int(os.environ.get("KEEL_ROUNDS", usual))

    def path(self, name):
        return os.path.join(self.directory, name)

    def forget(self, *names):
        """Removes files and databases of the test, its own database if none is named."""
        for path in map(self.path, names or ("test.db",)):
            shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def command(self, *args, input=None, options=(), cwd=None):
        """keel OPTIONS ARGS as they are: no database is put in."""
        data = input.encode() if isinstance(input, str) else input
        words = [self.binary, *options, *args]
        done = subprocess.run(words, input=data if data is not None else b"", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment, cwd=cwd or self.directory, timeout=TIMEOUT_SECONDS)
        return Result(words[1:], done.returncode, done.stdout, done.stderr)

    def run(self, *args, input=None, options=()):
        """keel OPTIONS DB ARGS."""
        return self.command(self.db, *args, input=input, options=options)

    def ok(self, *args, input=None, options=()):
        """Succeeds; returns standard output."""
        result = self.run(*args, input=input, options=options)
        assert result.code == 0, result
        return result.out

    def fails(self, code, *args, input=None, options=()):
        """Ends with this code; returns standard error."""
        result = self.run(*args, input=input, options=options)
        assert result.code == code, f"exit code {code} expected: {result}"
        return result.err

    def json(self, *args, code=0, input=None, options=()):
        """With --json; returns the values it printed, one a line."""
        result = self.run(*args, input=input, options=("--json", *options))
        assert result.code == code, f"exit code {code} expected: {result}"
        return [json.loads(line) for line in result.out.split("\n")[:-1]]

    def script(self, text, code=0, options=()):
        """keel DB < text; returns standard output."""
        result = self.run(input=text, options=options)
        assert result.code == code, f"exit code {code} expected: {result}"
        return result.out

    def shell(self, command, code=0):
        """A command line of bash, in the test's directory, with keel on the PATH."""
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment,
                              cwd=self.directory, timeout=TIMEOUT_SECONDS)
        result = Result(command, done.returncode, done.stdout, done.stderr)
        assert code is None or result.code == code, f"exit code {code} expected: {result}"
        return result


def load(path):
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


failures = []


def run_test(binary, label, function):
    directory = tempfile.mkdtemp(prefix="keel-cli-")
    try:
        function(Keel(binary, directory))
    except Skip as reason:
        print(f"skip  {label}: {reason}")
        return None
    except Exception:
        failures.append(f"FAIL  {label}  (again: tests/cli/run.py {binary} {label})\n{traceback.format_exc()}")
        print(failures[-1], end="")
        return False
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"ok    {label}")
    return True


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    sys.modules["run"] = sys.modules["__main__"]  # tests say: from run import Skip
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    sys.dont_write_bytecode = True
    passed = failed = 0
    for file in sorted(os.listdir(here)):
        if not (file.startswith("test_") and file.endswith(".py")):
            continue
        module = load(os.path.join(here, file))
        for name, function in list(vars(module).items()):
            label = f"{file[:-3]}:{name}"
            if not name.startswith("test_") or not callable(function) or (wanted and not any(word in label for word in wanted)):
                continue
            outcome = run_test(binary, label, function)
            passed += outcome is True
            failed += outcome is False
            sys.stdout.flush()
    print("".join(["\n", *failures] if failures else []), end="")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
