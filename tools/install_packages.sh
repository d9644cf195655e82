#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages named as arguments that are missing, as root or through sudo; says in one line what is
# missing where it cannot.
set -u
missing=""
for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

run=""
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        run="sudo"
    else
        echo "keel: please install these packages and run make again: apt-get install$missing" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "keel: these packages are needed (Debian's names):$missing" >&2
    exit 1
fi
echo "keel: installing$missing"
log=$(mktemp)
if $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -q $missing >"$log" 2>&1 ||
    { $run apt-get update -q >"$log" 2>&1 && $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -q $missing >>"$log" 2>&1; }; then
    rm -f "$log"
    exit 0
fi
tail -n 20 "$log" >&2
rm -f "$log"
echo "keel: could not install:$missing" >&2
exit 1
