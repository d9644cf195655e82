# SPDX-License-Identifier: Apache-2.0
"""docs/operations.md: every command in it is run, one after the other, and prints what stands below it."""
import os

from test_help import check_examples, examples

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs")


def test_operations(keel):
    with open(os.path.join(DOCS, "operations.md"), encoding="utf-8") as file:
        text = file.read()
    assert len(examples(text)) > 15
    check_examples(keel, "docs/operations.md", text)


def test_every_operation_command_is_explained(keel):
    with open(os.path.join(DOCS, "operations.md"), encoding="utf-8") as file:
        text = file.read()
    for name in ("status", "top", "serve", "backup", "restore", "copy", "check", "compact", "bench"):
        assert f" {name}" in text, name
