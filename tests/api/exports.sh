#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports the functions of fdb_c.h, every one of them and nothing else, under the name that bindings load.
#
#   tests/api/exports.sh [build/lib/libfdb_c.so]
set -eu
library=${1:-build/lib/libfdb_c.so}
header=$(dirname "$0")/../../include/foundationdb/fdb_c.h
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What the header declares at its newest and at its oldest API version: function names stand before a parenthesis.
for version in 510 740; do
    ${CC:-cc} -E -P -DFDB_API_VERSION=$version "$header" |
        tr '\n' ' ' | grep -oE '\bfdb_[a-z0-9_]+ *\(' | tr -d ' (' || true
done | sort -u >"$scratch/declared"

nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort -u >"$scratch/exported"

failed=0
missing=$(comm -23 "$scratch/declared" "$scratch/exported")
if [ -n "$missing" ]; then
    echo "declared in fdb_c.h but not exported:" $missing
    failed=1
fi
extra=$(comm -13 "$scratch/declared" "$scratch/exported")
if [ -n "$extra" ]; then
    echo "exported but not declared in fdb_c.h:" $extra
    failed=1
fi
if ! readelf -d "$library" | grep -q 'SONAME.*\[libfdb_c\.so\]'; then
    echo "the SONAME is not libfdb_c.so"
    failed=1
fi
if ! readelf -d "$library" | grep -q 'NODELETE'; then
    echo "the library can be unloaded: link it with -z nodelete"
    failed=1
fi
[ "$failed" = 0 ] && echo "$(wc -l <"$scratch/declared") functions declared and exported"
exit $failed
