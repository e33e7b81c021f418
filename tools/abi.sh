#!/bin/bash
# abi.sh BUILD [--update]: is libparadl.so what programs built against the last
# release expect (abidiff)? New functions are fine.
# --update stores the dump of this build: a release does. While CHANGELOG.md has
# no date for the stored version it is none yet: differences are only said. 77
# without abigail.
build=$(realpath "$1") || exit 2
cd "$(dirname "$0")/.." || exit 5
[ -e "$build/libparadl.so.0" ] || {
    echo "abi: no libparadl.so.0 in $build"
    exit 3
}
version=$(sed -n 's/^project(paradl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
stored=$(ls tests/abi/libparadl-*.abi.gz 2>/dev/null | sort -V | tail -n1)
command -v abidw >/dev/null || {
    echo "abi: no abigail-tools: skipped"
    exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# What no public header defines is opaque: it may change.
options=(--headers-dir include --drop-private-types --no-comp-dir-path --no-show-locs)
dump() { abidw "${options[@]}" --out-file "$1" "$build/libparadl.so.0"; }
dump "$tmp/new" || exit 5
if [ "${2:-}" = --update ]; then
    rm -f tests/abi/*.abi.gz
    gzip -9n <"$tmp/new" >"tests/abi/libparadl-$version.abi.gz"
    exit
fi
gunzip <"$stored" >"$tmp/old" || exit 5
abidiff --no-added-syms "$tmp/old" "$tmp/new" >"$tmp/diff"
rc=$?
if [ $((rc & 3)) != 0 ]; then
    echo "abi: abidiff failed ($rc)"
    exit 5
fi
if [ $rc != 0 ]; then
    head -n 60 "$tmp/diff"
    of=$(basename "$stored" .abi.gz)
    of=${of#libparadl-}
    if ! grep -q "^## $of, [0-9]" CHANGELOG.md; then
        echo "abi: not what is stored of $of, which is not released yet ($rc)"
        exit 0
    fi
    echo "abi: programs built against $of would break ($rc)"
    exit 1
fi
echo "abi: what the last release had is there"
