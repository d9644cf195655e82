# SPDX-License-Identifier: Apache-2.0
"""
docs/command.md: every example in it does what it says. A line "$ COMMAND" in a fenced block is run by bash; lines "> …" behind it belong to the
command, all others are what it prints, where "…" stands for anything. All blocks run in one directory, one after the other.
"""
import os
import re
import subprocess

from run import TIMEOUT_SECONDS

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "command.md")


def examples(text):
    """[(command, [lines of output])]"""
    found = []
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], []])
            elif line.startswith("> ") and not found[-1][1]:
                found[-1][0] += "\n" + line[2:]
            else:
                found[-1][1].append(line)
    return found


def test_every_example(keel):
    with open(PAGE, encoding="utf-8") as file:
        found = examples(file.read())
    assert len(found) > 25
    for command, expected in found:
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=keel.environment, cwd=keel.directory, timeout=TIMEOUT_SECONDS)
        printed = done.stdout.decode("utf-8", "replace")
        pattern = ".*".join(re.escape(part) for part in "\n".join(expected).split("…"))
        assert done.returncode == 0, f"{command}: exit code {done.returncode}: {printed}"
        assert re.fullmatch(pattern, printed.rstrip("\n"), re.S), f"{command}\nprinted:\n{printed}\nexpected:\n" + "\n".join(expected)


def test_every_command_is_there(keel):
    """The page names each command on directories and structures, and each of their sub-commands."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    for command in ("ls", "tree", "mkdir", "mv", "rm", "du", "doc", "blob", "queue", "table", "spatial"):
        usage = keel.command("help", command).out.splitlines()[0]
        subs = re.match(rf"usage: keel DB {command} ([a-z]+(?:\|[a-z]+)+) ", usage)
        assert f"`{command}" in text or f"### {command}" in text, command
        section = text.split(f"### {command}\n")[-1].split("###")[0]
        for sub in subs.group(1).split("|") if subs else []:
            assert f"`{sub}`" in section, f"{command} {sub}"
