#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every function that is handed on to the official library was called through to it by the tests before this one.
#
#   tests/cluster/check_calls.sh CALLS       the file the stub wrote (STUB_CALLS)
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
for name in $(sed -nE 's/^    X\((.*)\).*/fdb_\1/p' src/cluster/functions.h tests/cluster/stub.h); do
    if grep -qx "$name" "$1"; then
        passed=$((passed + 1))
    else
        echo "not called: $name"
        failed=$((failed + 1))
    fi
done
[ $passed -gt 90 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
