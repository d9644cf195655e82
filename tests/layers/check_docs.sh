#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Proves that docs/layers.md tells the truth: every ```c block in it compiles without a warning,
# links with libkeel and libfdb_c and runs with exit code 0, in an empty directory of its own; where
# a ```text block follows, that is what it prints.
#
#   tests/layers/check_docs.sh BUILD_DIR [DOCUMENT]...      (the libraries are in BUILD_DIR/lib)
#
# A block with `int main` is compiled as it stands. Any other is a fragment: it becomes the body of
# a function that keel_run runs on an empty database, with
#
#     FDBTransaction *tr;         the transaction
#     FDBDatabase *database;      the database, for fragments that run transactions themselves
#     fdb_error_t error;          0 at the beginning; what it is at the end must be 0
#
# and <keel/keel.h>, <stdio.h>, <stdlib.h> and <string.h> included. Its lines up to the end of the
# last definition at the left margin (from `static`, `struct`, `union`, `enum` or `typedef` to `}`)
# stay outside the function.
#
# $CC and $CFLAGS are used if set (sanitized libraries need their flags). The last line counts.
set -u

build=$(cd "${1:?usage: $0 BUILD_DIR [DOCUMENT]...}" && pwd) || exit 2
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -gt 0 ] || set -- "$root/docs/layers.md"
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# Takes a document apart: NUMBER.block for each, .line with where it begins, .expected for output.
extract() {
    awk -v out="$scratch" '
        /^```/ && !inside {
            kind = substr($0, 4); inside = 1
            file = ""
            if (kind == "c") file = out "/" ++n ".block"
            if (kind == "text" && fresh) file = out "/" n ".expected"
            if (file) printf "" > file
            if (kind == "c") print FNR > (out "/" n ".line")
            fresh = kind == "c"
            next
        }
        /^```/ { inside = 0; if (file) close(file); file = ""; next }
        inside && file { print > file; next }
        /[^ ]/ && !/:$/ { fresh = 0 } # a line such as "It prints:" may stand between the two
    ' "$1"
}

# wrap BLOCK: the program of a fragment.
wrap() {
    border=$(awk '/^(static|struct|union|enum|typedef) .*\{$/ { open = 1 }
                  /^}/ && open { last = NR; open = 0 } END { print last + 0 }' "$1")
    printf '#include <keel/keel.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
    awk -v border="$border" 'NR <= border' "$1"
    cat <<'END'
static fdb_error_t fragment(FDBTransaction *tr, void *context) {
    FDBDatabase *database = context;
    fdb_error_t error = 0;
    (void)tr, (void)database;
END
    awk -v border="$border" 'NR > border { print "    " $0 }' "$1"
    cat <<'END'
    return error;
}
int main(void) {
    keel_db *db = NULL;
    fdb_error_t error = keel_open(":memory:", &db);
    if (!error)
        error = keel_run(keel_fdb(db), fragment, keel_fdb(db));
    if (error)
        fprintf(stderr, "%d: %s\n", error, keel_error_text(error));
    keel_close(db);
    return error != 0;
}
END
}

# check NUMBER: whether that block holds; what was wrong is in its .log.
check() {
    block=$scratch/$1
    if grep -q 'int main' "$block.block"; then
        cp "$block.block" "$block.c"
    else
        wrap "$block.block" >"$block.c"
    fi
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 -g -Wall -Wextra -Werror ${CFLAGS:-} -I"$root/include" "$block.c" \
        -o "$block.program" -L"$build/lib" -lkeel -lfdb_c -pthread >"$block.log" 2>&1 || return 1
    mkdir "$block.directory"
    (cd "$block.directory" && LD_LIBRARY_PATH="$build/lib" exec timeout 600 "$block.program") \
        >"$block.output" 2>"$block.log" </dev/null || return 1
    [ ! -e "$block.expected" ] || diff "$block.expected" "$block.output" >"$block.log" 2>&1
}

for document in "$@"; do
    rm -rf "${scratch:?}"/*
    extract "$document"
    number=1
    while [ -e "$scratch/$number.block" ]; do
        name="${document##*/}, line $(cat "$scratch/$number.line")"
        if check "$number"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "FAIL: $name"
            sed 's/^/    /' "$scratch/$number.log"
        fi
        number=$((number + 1))
    done
done
[ $((passed + failed)) -gt 0 ] || { echo "no blocks found"; failed=1; }
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
