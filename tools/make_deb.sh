#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian package: the work of `make deb`.
#
#   tools/make_deb.sh BUILD
#
# One package with the command, the libraries, the headers and the documentation. What it depends on is read off the binaries by dpkg-shlibdeps.
# The same tree gives the same bytes: files are dated by the last commit (SOURCE_DATE_EPOCH).
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -nE 's/^#define KEEL_VERSION "(.*)"$/\1/p' "$here/include/keel/version.h")
architecture=$(dpkg --print-architecture)
multiarch=$(gcc -print-multiarch)
: "${SOURCE_DATE_EPOCH:=$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH

stage=$build/deb
rm -rf "$stage"
mkdir -p "$stage/root" "$stage/work/debian"
umask 022
"$here/tools/install.sh" "$build" "$stage/root" /usr "/usr/lib/$multiarch"
for binary in usr/bin/keel "usr/lib/$multiarch/keel/libfdb_c.so" "usr/lib/$multiarch/libkeel.so.$version"; do
    strip --strip-unneeded "$stage/root/$binary"
done
gzip -9n "$stage/root/usr/share/man/man1/keel.1"
install -m 644 "$here/LICENSE" "$stage/root/usr/share/doc/keel/copyright"
rm "$stage/root/usr/share/doc/keel/LICENSE"

# dpkg-shlibdeps wants to stand in a source package.
printf 'Source: keel\n\nPackage: keel\nArchitecture: any\n' >"$stage/work/debian/control"
depends=$(cd "$stage/work" && dpkg-shlibdeps -O --ignore-missing-info -l"$stage/root/usr/lib/$multiarch/keel" \
    -e"$stage/root/usr/bin/keel" -e"$stage/root/usr/lib/$multiarch/keel/libfdb_c.so" \
    -e"$stage/root/usr/lib/$multiarch/libkeel.so.$version" 2>"$stage/shlibdeps.log" | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { cat "$stage/shlibdeps.log" >&2; exit 1; }

mkdir "$stage/root/DEBIAN"
cat >"$stage/root/DEBIAN/control" <<END
Package: keel
Version: $version
Architecture: $architecture
Maintainer: The Keel engineers <keel@localhost>
Installed-Size: $(du -sk "$stage/root/usr" | cut -f 1)
Depends: $depends
Recommends: pkg-config
Section: database
Priority: optional
Description: FoundationDB's programming model as an embedded database
 A durable, strictly serializable, ordered key-value database that lives inside
 the process, behind the fdb_c API; tuple, subspace and directory layers; data
 structures; and the keel command. The fdb_c library lies in a directory of its
 own and does not hide an official one.
END
cat >"$stage/root/DEBIAN/triggers" <<END
activate-noawait ldconfig
END
(cd "$stage/root" && find usr -type f -exec md5sum {} + | sort -k 2) >"$stage/root/DEBIAN/md5sums"
find "$stage/root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
package=$build/keel_${version}_$architecture.deb
dpkg-deb --root-owner-group -b "$stage/root" "$package" >/dev/null
rm -rf "$stage"
echo "$package"
