#!/bin/sh
# Installs the Debian or Ubuntu packages that are missing for what is named:
#   deps.sh build    to build (make demo)
#   deps.sh check    to build and test (make check)
#   deps.sh peers    for the cross-checks against other tools
# Without root and without sudo it prints the command and exits 4.
set -u
build="gcc cmake make ninja-build pkg-config libjansson-dev libyaml-dev
    libprotobuf-c-dev protobuf-c-compiler libexpat1-dev zlib1g-dev
    libxxhash-dev libhwloc-dev"
check="$build g++ clang libclang-rt-14-dev clang-format clang-tidy cppcheck
    libcmocka-dev python3 man-db"
peers="$check libsimgrid-dev"
case ${1:-build} in
build) want=$build ;;
check) want=$check ;;
peers) want=$peers ;;
*) echo "usage: deps.sh build|check|peers" >&2; exit 2 ;;
esac
if ! command -v dpkg-query >/dev/null; then
    echo "paradl: not a Debian or Ubuntu machine; install the equivalents of:" $want >&2
    exit 0
fi
missing=
for p in $want; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' && continue
    missing="$missing $p"
done
[ -z "$missing" ] && exit 0
# libclang-rt follows the release's clang version
if ! apt-cache show libclang-rt-14-dev >/dev/null 2>&1; then
    v=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*clang-\([0-9]*\)$/\1/p' | head -n1)
    [ -n "$v" ] && missing=$(echo "$missing" | sed "s/libclang-rt-14-dev/libclang-rt-$v-dev/")
fi
cmd="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    run=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    run=sudo
else
    echo "paradl: packages are missing; please run:" >&2
    echo "  sudo $cmd" >&2
    exit 4
fi
echo "paradl: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{ $run apt-get update -qq && $run $cmd; } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "paradl: could not install packages; please run: $cmd" >&2
    exit 4
}
rm -f "$log"
