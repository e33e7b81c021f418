#!/bin/bash
# abi.sh BUILD [--update]: is libparadl.so what programs built against the last
# release expect (abidiff, by the public headers)? New functions are fine.
# --update stores the dump of this build: a release does. 77 without abigail.
cd "$(dirname "$0")/.." || exit 5
build=$1
stored=tests/abi/libparadl.abi.gz
command -v abidw >/dev/null || {
    echo "abi: no abigail-tools: skipped"
    exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
options=(--headers-dir include --no-comp-dir-path --no-show-locs)
dump() { abidw "${options[@]}" --out-file "$1" "$build/libparadl.so.0"; }
if [ "${2:-}" = --update ]; then
    mkdir -p tests/abi
    dump "$tmp/new" && gzip -9n <"$tmp/new" >"$stored"
    exit
fi
gunzip <"$stored" >"$tmp/old" || exit 5
abidiff --headers-dir1 include --headers-dir2 include --no-added-syms \
    "$tmp/old" "$build/libparadl.so.0" >"$tmp/diff"
rc=$?
if [ $((rc & 8)) != 0 ] || [ $((rc & 3)) != 0 ]; then
    cat "$tmp/diff"
    echo "abi: programs built against the last release would break ($rc)"
    exit 1
fi
[ -s "$tmp/diff" ] && head -n 20 "$tmp/diff"
echo "abi: what the last release had is there"
