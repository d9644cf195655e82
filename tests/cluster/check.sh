# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it, which read it with ".": check NAME FOUND EXPECTED counts in $passed and $failed.
passed=0
failed=0
check() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'not ok - %s\n  found    %s\n  expected %s\n' "$1" "$2" "$3"
    fi
}
