# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/*.md: the commands in the README do what it says (as test_command_doc does for its page), and no link leads nowhere."""
import os
import re
import subprocess

from run import TIMEOUT_SECONDS

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def test_readme_commands(keel):
    count = 0
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", read("README.md"), re.M | re.S):
        if kind:
            continue
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, expected = part.partition("\n")
            done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=keel.environment,
                                  cwd=keel.directory, timeout=TIMEOUT_SECONDS)
            printed = done.stdout.decode("utf-8", "replace")
            pattern = ".*".join(re.escape(piece) for piece in expected.rstrip("\n").split("…"))
            assert done.returncode == 0 and re.fullmatch(pattern, printed.rstrip("\n"), re.S), f"{command}\nprinted:\n{printed}"
            count += 1
    assert count >= 5


def test_links(keel):
    pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] + ["docs/" + name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", read(page)):
            if not target.startswith("http") and not os.path.exists(os.path.join(ROOT, os.path.dirname(page), target)):
                broken.append(f"{page}: {target}")
    assert not broken, broken
