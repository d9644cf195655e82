#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that a document quotes its program truly.

    check_excerpts.py DOCUMENT PROGRAM...

Every ```c block of the document stands in one of the programs, line by line; a line of the document that is just "…" (or a comment of it)
stands for any number of lines. The last line counts the blocks.
"""
import re
import sys

ELLIPSIS = re.compile(r"^\s*(/\*\s*)?…(\s*\*/)?\s*$")


def blocks(text):
    for match in re.finditer(r"^```c\n(.*?)^```$", text, re.M | re.S):
        yield text[: match.start()].count("\n") + 1, match.group(1).rstrip("\n").split("\n")


def pieces(lines):
    """The runs of lines between ellipses."""
    piece = []
    for line in lines + ["…"]:
        if ELLIPSIS.match(line):
            if piece:
                yield [p.rstrip() for p in piece]
            piece = []
        else:
            piece.append(line)


def stands_in(lines, program):
    position = 0
    for piece in pieces(lines):
        for start in range(position, len(program) - len(piece) + 1):
            if program[start : start + len(piece)] == piece:
                position = start + len(piece)
                break
        else:
            return False
    return True


def main():
    document, programs = sys.argv[1], sys.argv[2:]
    sources = [[line.rstrip() for line in open(name, encoding="utf-8").read().split("\n")] for name in programs]
    passed = failed = 0
    for line, block in blocks(open(document, encoding="utf-8").read()):
        if any(stands_in(block, source) for source in sources):
            passed += 1
        else:
            failed += 1
            print(f"{document}:{line}: this block is in none of {', '.join(programs)}")
    if not passed and not failed:
        print(f"{document}: no blocks")
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
