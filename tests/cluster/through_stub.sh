#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command on a cluster that is none: KEEL_TEST_CLUSTER names a cluster file, our library finds the stub
# (stub_forward.c) in the official library's place, and that leads to a copy of our library and an embedded database.
#
#   tests/cluster/through_stub.sh LIBRARIES COMMAND...     LIBRARIES holds libfdb_c.so and the stub, libfdb_stub.so (or what STUB names)
set -eu
libraries=$(cd "$1" && pwd)
shift
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stub-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cp "$libraries/libfdb_c.so" "$scratch/copy.so"
echo 'stub:stub@127.0.0.1:1' >"$scratch/some.cluster"
KEEL_FDB_LIBRARY="$libraries/${STUB:-libfdb_stub.so}" STUB_LIBRARY="$scratch/copy.so" STUB_DATABASE="$scratch/database" \
    KEEL_TEST_CLUSTER="$scratch/some.cluster" "$@"
