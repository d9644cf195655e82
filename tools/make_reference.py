#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the API reference out of the headers, which are the contracts: one page a header, one index.

    tools/make_reference.py OUTPUT-DIRECTORY HEADER...

A page is the header's opening comment, then every declaration under its section's heading, each with the comment that stands before it; declarations
that follow each other without a comment of their own share the one before. Exits with 1 if a function has no words at all.
"""
import os
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
HEADING = re.compile(r"^/\*+\s*-{2,}\s*(.+?)\s*-*\s*(\*/|\n)", re.S)


def words(comment):
    """The text of a comment, its indentation kept where it is an example."""
    lines = comment[2:-2].strip("\n").split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line) for line in lines]
    return "\n".join(lines).strip()


def items(text):
    """Comments and top-level statements, in order."""
    position, statement, depth = 0, "", 0
    while position < len(text):
        if text.startswith("/*", position):
            end = text.index("*/", position) + 2
            if depth == 0 and not statement.strip():
                yield "comment", text[position:end], position
                statement = ""
            else:
                statement += text[position:end]
            position = end
            continue
        if text[position] == "#" and not statement.strip():  # a directive, with its continuations
            end = position
            while True:
                end = text.find("\n", end)
                end = len(text) if end < 0 else end
                if text[end - 1] != "\\":
                    break
                end += 1
            yield "directive", text[position:end], position
            statement, position = "", end
            continue
        character = text[position]
        statement += character
        position += 1
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0 and (character == ";" or (character == "}" and re.search(r"\)\s*\{[^{}]*(\{[^{}]*\}[^{}]*)*\}$", statement))):
            yield "statement", statement.strip("\n"), position
            statement = ""


def strip_cplusplus(text):
    text = re.sub(r"#ifdef __cplusplus\s+extern \"C\" \{\s+#endif", "", text)
    return re.sub(r"#ifdef __cplusplus\s+\}\s+#endif", "", text)


def name_of(statement):
    bare = COMMENT.sub("", statement)
    if bare.lstrip().startswith("typedef"):
        found = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", bare) or re.search(r"(\w+)\s*;\s*$", bare)
        return found.group(1) if found else None
    found = re.search(r"\b((?:keel|fdb)_\w+)\s*\(", bare)
    return found.group(1) if found else None


def shown(statement):
    """An inline function is shown by its head, what a macro makes it is not part of the contract."""
    statement = re.sub(r"\b(DLLEXPORT|WARN_UNUSED_RESULT)\s+", "", statement.strip())
    if statement.startswith("static inline"):
        statement = statement[: statement.index("{")].rstrip() + ";"
    return statement


def page(path):
    text = strip_cplusplus(open(path, encoding="utf-8").read())
    include = re.search(r"include/(.+)$", path).group(1)
    lines, undocumented, names = [f"# <{include}>", ""], [], []
    last_comment, opening, pending = None, True, None
    for kind, source, _ in items(text):
        if kind == "directive":
            macro = re.match(r"#define (KEEL_\w+|FDB_\w+)(\([^)]*\))?", source)
            if pending and macro and not macro.group(1).endswith("_H"):
                lines += [f"    {macro.group(0)[8:]}", "", words(pending), ""]
                names.append(macro.group(1))
                pending = None
            continue
        if kind == "comment":
            if "SPDX" in source:
                continue
            heading = HEADING.match(source)
            if heading:
                lines += [f"## {heading.group(1).strip()}", ""]
                rest = words(source).split("\n", 1)
                if len(rest) > 1 and rest[1].strip():
                    lines += [rest[1].strip(), ""]
                last_comment = pending = source if len(rest) > 1 and rest[1].strip() else None
            elif opening:
                lines += [words(source), ""]
                opening = False
            else:
                last_comment = pending = source
            continue
        name = name_of(source)
        if not name or re.match(r"^(struct|union|enum) \w+;$", source.strip()) or name.endswith("_"):
            continue
        names.append(name)
        lines += ["```c", shown(source), "```", ""]
        if pending and not HEADING.match(pending):
            lines += [words(pending), ""]
        elif not last_comment and "(" in source and "typedef" not in source:
            undocumented.append(name)
        pending = None
    return include, "\n".join(lines), names, undocumented


def main():
    output, headers = sys.argv[1], sys.argv[2:]
    os.makedirs(output, exist_ok=True)
    index, failed, count = ["# Keel's API", "", "Made from the headers by `make reference`.", ""], 0, 0
    for path in headers:
        include, text, names, undocumented = page(path)
        file = include.replace("/", "-").replace(".h", ".md")
        open(os.path.join(output, file), "w", encoding="utf-8").write(text)
        index.append(f"- [{include}]({file}): " + ", ".join(f"`{name}`" for name in dict.fromkeys(names)))
        for name in undocumented:
            failed += 1
            print(f"{path}: {name} has no words")
        count += len(set(names))
    open(os.path.join(output, "index.md"), "w", encoding="utf-8").write("\n".join(index) + "\n")
    print(f"{count} names in {len(headers)} headers")
    return 1 if failed else 0


sys.exit(main())
