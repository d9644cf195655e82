#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Proves that the public headers compile without a warning as C90, C11, C17 and C++ at every
# supported API version, that the layouts are those of the official library, that a removed
# function is a compile error from the version that removed it, and that an API version outside
# 510 to 740 is refused. Compilers: $CC and $CXX if set, else each of gcc/g++ and clang/clang++
# that is present. Usage: tests/headers/check_headers.sh
set -u

here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
versions="510 520 600 610 620 630 700 710 720 730 740"
warnings="-Wall -Wextra -Wshadow -Wconversion -Wundef -Wstrict-prototypes -pedantic -Werror"
warnings_cxx="-Wall -Wextra -Wshadow -Wconversion -Wundef -pedantic -Werror"
checks=0
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAIL: $1" >&2
    sed 's/^/    /' "$scratch/output" >&2
}

# must_compile compiler standard-and-flags version
must_compile() {
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    "$1" $2 -DFDB_API_VERSION="$3" -I"$include" -c "$4" -o "$scratch/object.o" \
        >"$scratch/output" 2>&1 || fail "$1 $2, API version $3: ${4##*/}"
}

# must_not_compile compiler standard-and-flags version source
must_not_compile() {
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    if "$1" $2 -DFDB_API_VERSION="$3" -I"$include" -c "$4" -o "$scratch/object.o" \
        >"$scratch/output" 2>&1; then
        fail "$1 $2, API version $3 should have refused ${4##*/}"
    fi
}

# A program that calls one removed function, per line: name, version that removed it, call.
write_removed() {
    while read -r name removed_at call; do
        printf '#include <foundationdb/fdb_c.h>\nint use(void *p);\nint use(void *p) { (void)p; %s; return 0; }\n' \
            "$call" >"$scratch/removed_$name.c"
        echo "$name $removed_at" >>"$scratch/removed"
    done <<'END'
get_version 620 { int64_t v; if (fdb_future_get_version((FDBFuture *)p, &v)) return 1; }
create_cluster 610 if (fdb_create_cluster((const char *)p)) return 1
cluster_destroy 610 fdb_cluster_destroy((FDBCluster *)p)
cluster_set_option 610 if (fdb_cluster_set_option((FDBCluster *)p, FDB_CLUSTER_OPTION_DUMMY_DO_NOT_USE, 0, 0)) return 1
cluster_create_database 610 if (fdb_cluster_create_database((FDBCluster *)p, 0, 0)) return 1
get_cluster 610 { FDBCluster *c; if (fdb_future_get_cluster((FDBFuture *)p, &c)) return 1; }
get_database 610 { FDBDatabase *d; if (fdb_future_get_database((FDBFuture *)p, &d)) return 1; }
is_error 23 if (fdb_future_is_error((FDBFuture *)p)) return 1
END
}

check_c() {
    for version in $versions; do
        for standard in c90 c99 c11 c17; do
            must_compile "$1" "-std=$standard $warnings" "$version" "$here/layout.c"
        done
        while read -r name removed_at; do
            if [ "$version" -lt "$removed_at" ]; then
                must_compile "$1" "-std=c11 $warnings" "$version" "$scratch/removed_$name.c"
            else
                must_not_compile "$1" "-std=c90" "$version" "$scratch/removed_$name.c"
            fi
        done <"$scratch/removed"
    done
    for version in 13 509 741; do
        must_not_compile "$1" "-std=c11" "$version" "$here/layout.c"
    done
}

check_cxx() {
    cp "$here/layout.c" "$scratch/layout.cpp"
    for version in $versions; do
        for standard in c++98 c++11 c++17 c++20; do
            must_compile "$1" "-std=$standard -Wno-long-long $warnings_cxx" "$version" \
                "$scratch/layout.cpp"
        done
    done
}

write_removed
for compiler in ${CC:-gcc clang}; do
    if command -v "$compiler" >/dev/null 2>&1; then check_c "$compiler"; fi
done
for compiler in ${CXX:-g++ clang++}; do
    if command -v "$compiler" >/dev/null 2>&1; then check_cxx "$compiler"; fi
done

# The headers of libkeel: each alone, as C11, C17 and C++.
check_keel() {
    compiler=$1
    extension=$2
    shift 2
    for header in "$here"/../../include/keel/*.h; do
        printf "#include <keel/%s>\nextern int not_empty;\n" "$(basename "$header")" >"$scratch/keel.$extension"
        for standard in "$@"; do
            checks=$((checks + 1))
            if ! "$compiler" "-std=$standard" -Wall -Wextra -pedantic -Werror -fsyntax-only \
                -I"$here/../../include" "$scratch/keel.$extension"; then
                echo "$compiler -std=$standard: $(basename "$header")"
                failures=$((failures + 1))
            fi
        done
    done
}
for compiler in ${CC:-gcc clang}; do
    if command -v "$compiler" >/dev/null 2>&1; then check_keel "$compiler" c c11 c17; fi
done
for compiler in ${CXX:-g++ clang++}; do
    if command -v "$compiler" >/dev/null 2>&1; then check_keel "$compiler" cpp c++11 c++17; fi
done

# keel.h has them all; map.h is what tuple.h and directory.h are made of.
for header in "$include"/keel/*.h; do
    name=$(basename "$header")
    case $name in keel.h | map.h) continue ;; esac
    checks=$((checks + 1))
    grep -q "^#include <keel/$name>" "$include/keel/keel.h" || { : >"$scratch/output"; fail "keel/keel.h does not include $name"; }
done

if [ "$checks" -eq 0 ]; then
    echo "headers: no compiler found" >&2
    exit 1
fi
echo "$((checks - failures)) passed, $failures failed"
[ "$failures" -eq 0 ]
