#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The keel command on a cluster that does not answer: it gives up with a text that says so, and Ctrl-C ends it. Run by through_stub.sh.
#
#   tests/cluster/silent.sh KEEL
set -u
keel=$1
directory=$(dirname "$KEEL_TEST_CLUSTER")
. "$(dirname "$0")/check.sh"

"$keel" "$KEEL_TEST_CLUSTER" set a 1 >/dev/null
check "a cluster that answers: set" $? 0
"$keel" "$directory/embedded" set b 2 >/dev/null
export STUB_SILENT="$directory/asked"

# gives_up NAME ARGUMENTS...: with 1 s to wait. What hangs is ended by timeout, with status 124.
gives_up() {
    name=$1
    shift
    rm -f "$STUB_SILENT"
    said=$(timeout --kill-after=5 300 "$keel" --timeout 1 "$@" 2>&1)
    check "$name: status" $? 1
    check "$name: the cluster was asked" "$([ -e "$STUB_SILENT" ] && echo yes)" yes
    case $said in
    *"$KEEL_TEST_CLUSTER: no answer within 1 s. Is the cluster running"*"--timeout SECONDS waits longer"*) check "$name: text" said said ;;
    *) check "$name: text" "$said" "...$KEEL_TEST_CLUSTER: no answer within 1 s. ..." ;;
    esac
}
gives_up get "$KEEL_TEST_CLUSTER" get a
gives_up set "$KEEL_TEST_CLUSTER" set a 2
gives_up getrange "$KEEL_TEST_CLUSTER" getrange a b
gives_up status "$KEEL_TEST_CLUSTER" status
gives_up ls "$KEEL_TEST_CLUSTER" ls
gives_up watch "$KEEL_TEST_CLUSTER" watch a
gives_up script "$KEEL_TEST_CLUSTER" <<END
begin
get a
END
gives_up "copy to it" copy "$directory/embedded" "$KEEL_TEST_CLUSTER"
gives_up "copy from it" copy "$KEEL_TEST_CLUSTER" "$directory/back"

# interrupted NAME ARGUMENTS...: one Ctrl-C while it waits, of which it would have ten minutes.
interrupted() {
    name=$1
    shift
    rm -f "$STUB_SILENT"
    timeout --foreground --kill-after=5 300 "$keel" --timeout 600 "$@" >"$directory/said" 2>&1 </dev/null &
    limit=$!
    for _ in $(seq 2000); do
        [ -e "$STUB_SILENT" ] && break
        sleep 0.1
    done
    check "$name, Ctrl-C: the cluster was asked" "$([ -e "$STUB_SILENT" ] && echo yes)" yes
    kill -INT $limit # which hands it on
    wait $limit
    check "$name, Ctrl-C: status" $? 130
    check "$name, Ctrl-C: says nothing of no answer" "$(grep -c 'no answer' "$directory/said")" 0
}
interrupted get "$KEEL_TEST_CLUSTER" get a
interrupted set "$KEEL_TEST_CLUSTER" set a 2
interrupted "copy to it" copy "$directory/embedded" "$KEEL_TEST_CLUSTER"
interrupted "copy from it" copy "$KEEL_TEST_CLUSTER" "$directory/back"

unset STUB_SILENT
check "what was there before" "$("$keel" "$KEEL_TEST_CLUSTER" get a)" 1
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
