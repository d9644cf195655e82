#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The package as its users meet it: built, installed into an empty root by dpkg, used from there, removed.
#
#   tests/package/check_package.sh BUILD PACKAGE.deb
#
# The root holds nothing else, so what is missing in the package is missing here; programs run with the system's libc and the libraries the
# package depends on, found on this machine. The last line counts.
set -u
build=$(cd "$1" && pwd)
package=$2
here=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
multiarch=$(gcc -print-multiarch)
libdir=$root/usr/lib/$multiarch
passed=0
failed=0
check() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$scratch/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $name"
        sed 's/^/    /' "$scratch/log"
    fi
}
absent() { ! ls -d "$@" 2>/dev/null; }
package_tool() { dpkg --root="$root" --force-script-chrootless --force-depends --force-not-root --log="$scratch/dpkg.log" "$@"; }
run() { LD_LIBRARY_PATH="$libdir" "$@"; } # the system would look in /usr/lib

mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" && touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
check "installs" package_tool -i "$package"
check "names what it depends on" sh -c "dpkg-deb -f '$package' Depends | grep -q libc6 && dpkg-deb -f '$package' Depends | grep -q liblmdb0"
check "does not hide an official library" absent "$libdir/libfdb_c.so" "$root/usr/include/foundationdb" "$libdir/pkgconfig/foundationdb-client.pc"
check "the command runs" sh -c "'$root/usr/bin/keel' --version | grep -q '[0-9]'"
check "the command stores" "$root/usr/bin/keel" "$scratch/a.db" set hello world
check "the command finds" sh -c "'$root/usr/bin/keel' '$scratch/a.db' get hello | grep -q world"
check "the man page is there" sh -c "gzip -dc '$root/usr/share/man/man1/keel.1.gz' | grep -q '^.TH KEEL 1'"
links() { # every link between the pages leads to a file; prints those that do not
    (cd "$root/usr/share/doc/keel" && for page in *.md decisions/*.md; do
        grep -oE '\]\([^)#[:space:]]+' "$page" | cut -c3- | while read -r target; do
            case $target in http*) ;; *) [ -e "$(dirname "$page")/$target" ] || echo "$page: $target" ;; esac
        done
    done)
}
check "the pages are there, and their links lead somewhere" sh -c "[ -e '$root/usr/share/doc/keel/tutorial.md' ] && [ -z '$(links)' ]"
links
check "the completion is there" bash -n "$root/usr/share/bash-completion/completions/keel"

# A program, with nothing but what pkg-config says.
flags() { PKG_CONFIG_LIBDIR="$libdir/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" pkg-config "$@" keel; }
compile() { # SOURCE OUTPUT
    # shellcheck disable=SC2046
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -pthread $(flags --cflags) "$1" -o "$2" $(flags --libs) -lm
}
check "pkg-config knows it" flags --modversion
check "an example compiles" compile "$root/usr/share/doc/keel/examples/queue.c" "$scratch/queue"
check "and runs" run env LD_LIBRARY_PATH="$libdir:$libdir/keel" "$scratch/queue"
cat >"$scratch/plain.c" <<'END'
#define FDB_API_VERSION 740
#include <foundationdb/fdb_c.h>
int main(void) {
    return fdb_select_api_version(740) != 0;
}
END
check "a program on fdb_c alone compiles" compile "$scratch/plain.c" "$scratch/plain"
check "every header compiles by itself" sh -c "for header in '$root'/usr/include/keel/*.h; do
    echo \"#include <keel/\${header##*/}>\" >'$scratch/one.c'
    ${CC:-cc} -std=c11 -Werror -fsyntax-only -I'$root/usr/include' -I'$root/usr/include/keel-fdb_c' '$scratch/one.c' || exit 1; done"
check "removes" package_tool -P keel
check "and leaves nothing" sh -c "[ -z \"\$(find '$root/usr' -type f 2>/dev/null)\" ]"

# make install, and in the place of the official library where that is asked for.
check "installs beside" "$here/tools/install.sh" "$build" "$scratch/plain-root" /opt/keel /opt/keel/lib
check "and hides nothing" absent "$scratch/plain-root/opt/keel/lib/libfdb_c.so" "$scratch/plain-root/opt/keel/include/foundationdb"
check "installs in place" "$here/tools/install.sh" "$build" "$scratch/shadow-root" /opt/keel /opt/keel/lib shadow
check "and is found there" test -e "$scratch/shadow-root/opt/keel/lib/libfdb_c.so" -a -e "$scratch/shadow-root/opt/keel/include/foundationdb/fdb_c.h"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
