#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What libkeel.so shows is what its headers declare, and what it showed before is still there: tests/api/libkeel.abi lists the functions and the sizes
# of public types that programs were compiled against. Adding is free (run with --update); taking away or changing a size needs a new SONAME.
#
#   tests/api/libkeel_abi.sh build/lib/libkeel.so [--update]
set -eu
library=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
recorded=$here/tests/api/libkeel.abi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

{
    for header in "$here"/include/keel/*.h; do echo "#include <keel/${header##*/}>"; done
} >"$scratch/all.c"
${CC:-cc} -std=c11 -E -P -I"$here/include" "$scratch/all.c" >"$scratch/all.i"

# Declarations, not inline definitions: a name before a parenthesis in a statement that ends in a semicolon at the outermost level.
python3 - "$scratch/all.i" "$here" >"$scratch/declared" 2>"$scratch/types" <<'END'
import re, sys
text = re.sub(r"\s+", " ", open(sys.argv[1]).read())
depth, statement, names, types = 0, "", set(), set()
for character in text:
    if character == "{":
        depth += 1
    if depth == 0:
        statement += character
    if character == "}":
        depth -= 1
        if depth == 0:
            statement += "{}"
            if re.search(r"\)\s*\{\}$", statement):
                statement = ""  # an inline function
    if depth == 0 and character == ";":
        function = re.search(r"\b(keel_[a-z0-9_]+)\s*\(", statement)
        if function and "typedef" not in statement and "static" not in statement:
            names.add(function.group(1))
        kind = re.match(r".*typedef (?:struct|union)\b.*\{\}\s*(keel_[a-z0-9_]+)\s*;", statement)
        if kind:
            types.add(kind.group(1))
        statement = ""
print("\n".join(sorted(names)))
print("\n".join(sorted(types)), file=sys.stderr)
END
nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort -u >"$scratch/exported"
sort -u -o "$scratch/declared" "$scratch/declared"

failed=0
complain() {
    echo "$1"
    failed=1
}
missing=$(comm -23 "$scratch/declared" "$scratch/exported")
[ -z "$missing" ] || complain "declared but not exported: $(echo $missing)"
extra=$(comm -13 "$scratch/declared" "$scratch/exported")
[ -z "$extra" ] || complain "exported but not declared: $(echo $extra)"

{
    cat "$scratch/all.c"
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    while read -r type; do
        [ -z "$type" ] || printf 'printf("%%s %%zu%%c", "%s", sizeof(%s), 10);\n' "$type" "$type"
    done <"$scratch/types"
    echo 'return 0; }'
} >"$scratch/sizes.c"
${CC:-cc} -std=c11 -I"$here/include" "$scratch/sizes.c" -o "$scratch/sizes"
{
    readelf -d "$library" | sed -nE 's/.*(SONAME).*\[(.*)\]/\1 \2/p'
    cat "$scratch/exported"
    "$scratch/sizes"
} | LC_ALL=C sort >"$scratch/abi"
if [ "${2:-}" = --update ]; then
    cp "$scratch/abi" "$recorded"
fi
gone=$(LC_ALL=C comm -23 "$recorded" "$scratch/abi")
[ -z "$gone" ] || complain "the ABI has lost or changed: $(echo "$gone" | tr '\n' ',')"
new=$(LC_ALL=C comm -13 "$recorded" "$scratch/abi")
[ -z "$new" ] || complain "not recorded yet, run $0 $library --update: $(echo "$new" | tr '\n' ',')"
[ "$failed" = 0 ] && echo "$(wc -l <"$recorded") names and sizes as recorded"
exit $failed
