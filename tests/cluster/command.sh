#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The keel command on a cluster, and what it says where there is no library for one. Run by through_stub.sh.
#
#   tests/cluster/command.sh KEEL
set -u
keel=$1
directory=$(dirname "$KEEL_TEST_CLUSTER")
. "$(dirname "$0")/check.sh"
contains() {
    case $2 in
    *"$3"*) check "$1" yes yes ;;
    *) check "$1" "$2" "...$3..." ;;
    esac
}
missing=$(KEEL_FDB_LIBRARY=/nowhere/libfdb_c.so "$keel" "$KEEL_TEST_CLUSTER" get a 2>&1)
check "no library: status" $? 1
contains "no library: what to install" "$missing" foundationdb-clients
contains "no library: how to name it" "$missing" KEEL_FDB_LIBRARY

"$keel" "$KEEL_TEST_CLUSTER" set a 1 >/dev/null
check "set" $? 0
check "get" "$("$keel" "$KEEL_TEST_CLUSTER" get a)" 1

"$keel" "$directory/embedded" set '("b", 1)' 2 >/dev/null
"$keel" "$KEEL_TEST_CLUSTER" clear a >/dev/null
"$keel" copy "$directory/embedded" "$KEEL_TEST_CLUSTER" >"$directory/output" 2>&1
check "copy to the cluster" $? 0
check "what was copied" "$("$keel" "$KEEL_TEST_CLUSTER" get '("b", 1)')" 2
"$keel" "$KEEL_TEST_CLUSTER" set c 3 >/dev/null
"$keel" copy "$KEEL_TEST_CLUSTER" "$directory/back" >>"$directory/output" 2>&1
check "copy back" $? 0
check "what came back" "$("$keel" "$directory/back" get c)" 3
[ $failed -eq 0 ] || cat "$directory/output"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
