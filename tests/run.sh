#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs test programs and scripts one after the other and adds up what they counted.
#
#   tests/run.sh LOGS NAME=COMMAND…
#
# A test says how many of its cases passed and failed in its last line "N passed, N failed", or in cmocka's words; one that says neither
# counts as one, by its exit code. One that ends badly without naming a failure counts as one failure. The output of each goes to a
# file under LOGS. When all have run, those that failed are shown: the places that say so, then the end. The last line is the sum.
set -u
logs=$1
shift
mkdir -p "$logs"
# How test programs say that something failed: cmocka, python, our own, the sanitizers.
failure='^(FAIL|not ok|Traceback|Assertion)|FAILED|\[  ERROR|[Aa]ssertion .*failed|Sanitizer|runtime error:'
total_passed=0
total_failed=0
failed_names=
for entry in "$@"; do
    name=${entry%%=*}
    command=${entry#*=}
    log="$logs/$name.log"
    sh -c "$command" >"$log" 2>&1 </dev/null
    status=$?
    passed=0
    failed=0
    line=$(grep -aE '^([A-Za-z]+: )?[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -n "$line" ]; then
        line=${line#*: }
        passed=${line%% passed*}
        failed=${line#*passed, }
        failed=${failed%% failed*}
    elif grep -aq '^\[==========\].*test(s) run' "$log"; then
        passed=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) test\(s\)\..*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
        failed=$(sed -nE 's/^\[  FAILED  \] ([0-9]+) test\(s\).*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
    elif [ $status -eq 0 ]; then
        passed=1
    fi
    if [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    if [ "$failed" -eq 0 ]; then
        printf 'ok    %-32s %s passed\n' "$name" "$passed"
    else
        failed_names="$failed_names $name"
        printf 'FAIL  %-32s %s passed, %s failed (exit %s), see %s\n' "$name" "$passed" "$failed" "$status" "$log"
    fi
done
for name in $failed_names; do
    echo "---- $name failed"
    grep -anE -B 4 -A 16 "$failure" "$logs/$name.log" | head -n 120 | cut -c 1-2000 | sed 's/^/      > /'
    tail -n 20 "$logs/$name.log" | cut -c 1-2000 | sed 's/^/      | /'
done
[ -z "$failed_names" ] || echo "failed:$failed_names"
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ]
