#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Includes point downwards only: api, cluster > remote > txn > engine > database > os > util; lmdb.h and xxhash.h have one file each; errno and system headers for
# files stay in src/os.
cd "$(dirname "$0")/.." || exit 1
failed=0
passed=0
complain() {
    echo "$1"
    failed=$((failed + 1))
}
rank() {
    case "$1" in
        util) echo 1 ;; os) echo 2 ;; database) echo 3 ;; engine) echo 4 ;; txn) echo 5 ;; remote) echo 6 ;; api | cluster) echo 7 ;; *) echo 0 ;;
    esac
}
for file in src/*/*.[ch]; do
    folder=$(basename "$(dirname "$file")")
    for target in $(sed -nE 's/^#include "([a-z]+)\/[a-z_]+\.h"$/\1/p' "$file" | sort -u); do
        [ "$target" = foundationdb ] && continue
        if [ "$(rank "$target")" -eq 0 ] || [ "$(rank "$target")" -gt "$(rank "$folder")" ]; then
            complain "$file includes $target/: upwards"
        fi
    done
    passed=$((passed + 1))
done
for pair in lmdb.h:src/engine/base_lmdb.h xxhash.h:src/util/checksum.c; do
    header=${pair%%:*}
    owner=${pair#*:}
    others=$(grep -l "#include <$header>" src/*/*.[ch] | grep -v "^$owner\$")
    [ -z "$others" ] || complain "$header belongs to $owner alone, but: $others"
done
# What cluster needs of api is how entry points tell objects apart, futures that hold an error, and the version; nothing else.
others=$(grep -nE '^#include "api/' src/cluster/*.[ch] | grep -vE '"api/(export|foreign|future|api_version)\.h"')
[ -z "$others" ] || complain "cluster includes more of api than it may: $others"
for header in dlfcn.h errno.h fcntl.h unistd.h sys/stat.h sys/file.h sys/socket.h sys/epoll.h poll.h dirent.h; do
    others=$(grep -l "#include <$header>" src/*/*.[ch] | grep -v '^src/os/' | grep -v '^src/engine/base_lmdb.h')
    [ -z "$others" ] || complain "$header belongs to src/os, but: $others"
done
others=$(grep -nE '\b(malloc|calloc|realloc|free)\(' src/*/*.c | grep -v '^src/util/memory.c' | grep -v '^[^:]*:[0-9]*: *\*' | grep -v '/\*')
[ -z "$others" ] || complain "allocation outside the gate: $others"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
