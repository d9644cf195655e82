#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts what was built into place: the work of `make install`.
#
#   tools/install.sh BUILD ROOT PREFIX LIBDIR [shadow]
#
# ROOT is DESTDIR (or empty), PREFIX and LIBDIR are where things will be found at run time. The fdb_c library and its headers go to directories of
# Keel's own, so that an official client that is installed beside it is not hidden; with `shadow` they also take its place.
set -eu
build=$1
root=$2
prefix=$3
libdir=$4
shadow=${5:-}
here=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -nE 's/^#define KEEL_VERSION "(.*)"$/\1/p' "$here/include/keel/version.h")

directory() { install -d "$root$1"; }
file() { # MODE SOURCE... TARGET-DIRECTORY
    mode=$1
    shift
    for target; do :; done
    directory "$target"
    while [ $# -gt 1 ]; do
        install -m "$mode" "$1" "$root$target/"
        shift
    done
}

file 755 "$build/bin/keel" "$prefix/bin"
file 755 "$build/lib/libfdb_c.so" "$libdir/keel"
file 644 "$build/lib/libkeel.so" "$libdir"
mv "$root$libdir/libkeel.so" "$root$libdir/libkeel.so.$version"
soname=$(readelf -d "$root$libdir/libkeel.so.$version" | sed -nE 's/.*SONAME.*\[(.*)\]/\1/p')
ln -sf "libkeel.so.$version" "$root$libdir/$soname"
ln -sf "$soname" "$root$libdir/libkeel.so"
file 644 "$here"/include/keel/*.h "$prefix/include/keel"
file 644 "$here"/include/foundationdb/*.h "$prefix/include/keel-fdb_c/foundationdb"
file 644 "$here/docs/keel.1" "$prefix/share/man/man1"
directory "$prefix/share/bash-completion/completions"
install -m 644 "$here/tools/keel.bash" "$root$prefix/share/bash-completion/completions/keel"
file 644 "$here/tools/keel@.service" "$here/tools/keel@.socket" "$prefix/share/doc/keel/systemd"
file 644 "$here"/README.md "$here"/CHANGELOG.md "$here"/LICENSE "$here"/docs/*.md "$prefix/share/doc/keel"
file 644 "$here"/docs/decisions/*.md "$prefix/share/doc/keel/decisions"
file 644 "$here"/examples/*.c "$prefix/share/doc/keel/examples"
# Pages that lie side by side here link to each other as such; the sources are not here, so links to them become text.
for page in "$root$prefix"/share/doc/keel/*.md "$root$prefix"/share/doc/keel/decisions/*.md; do
    sed -E -i 's#\]\(docs/#](#g; s#\]\(\.\./examples/#](examples/#g; s#\[([^][]*)\]\((\.\./)*(include|src|cli|layers|recipes|tests|bench|tools|Makefile|CONTRIBUTING\.md)[^)]*\)#\1#g' "$page"
done

directory "$libdir/pkgconfig"
cat >"$root$libdir/pkgconfig/keel.pc" <<END
prefix=$prefix
libdir=$libdir
includedir=\${prefix}/include

Name: keel
Description: FoundationDB's programming model as an embedded database, with layers and data structures
Version: $version
Libs: -L\${libdir} -lkeel -L\${libdir}/keel -lfdb_c -Wl,-rpath,\${libdir}/keel
Cflags: -I\${includedir} -I\${includedir}/keel-fdb_c
END

[ "$shadow" = shadow ] || exit 0
directory "$prefix/include"
ln -sfn keel-fdb_c/foundationdb "$root$prefix/include/foundationdb"
ln -sf keel/libfdb_c.so "$root$libdir/libfdb_c.so"
cat >"$root$libdir/pkgconfig/foundationdb-client.pc" <<END
prefix=$prefix
libdir=$libdir
includedir=\${prefix}/include

Name: foundationdb-client
Description: Keel in place of FoundationDB's client library
Version: 7.4.0
Libs: -L\${libdir} -lfdb_c
Cflags: -I\${includedir}
END
