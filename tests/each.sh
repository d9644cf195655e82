#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs cmocka programs one after the other and adds up what they counted; what a failing one says is shown.
#
#   tests/each.sh PROGRAM...
passed=0
failed=0
output=$(mktemp "${TMPDIR:-/tmp}/each-XXXXXX")
trap 'rm -f "$output"' EXIT
for program in "$@"; do
    "$program" >"$output" 2>&1
    status=$?
    good=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) test\(s\)\..*/\1/p' "$output" | awk '{n += $1} END {print n + 0}')
    bad=$(sed -nE 's/^\[  FAILED  \] ([0-9]+) test\(s\).*/\1/p' "$output" | awk '{n += $1} END {print n + 0}')
    [ $status -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    passed=$((passed + good))
    failed=$((failed + bad))
    [ "$bad" -eq 0 ] || { echo "== $program (exit $status)"; grep -aE -B 4 'FAILED|ERROR' "$output" | head -n 60; tail -n 20 "$output"; }
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
