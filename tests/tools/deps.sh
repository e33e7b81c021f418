#!/bin/bash
# tools/deps.sh on machines we do not have: dpkg-query, apt-get, apt-cache,
# id, sudo and clang are stubs that say what was asked of them.
set -u
tool=$(cd "$(dirname "$0")/../../tools" && pwd)/deps.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
mkdir "$work/bin"
for c in sh env true sed head grep mktemp tail cat rm; do ln -s "$(type -P $c)" "$work/bin/$c"; done
stub() { # name, body
    { echo '#!/bin/sh'; echo "$2"; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
# $work/have: the packages installed, one a line; $work/known: those apt knows
stub dpkg-query 'for p; do :; done; grep -qx -- "$p" '"$work"'/have && echo "install ok installed"'
stub apt-get 'echo "apt-get $*" >>'"$work"'/calls
case $1 in update) cp '"$work"'/later '"$work"'/known;; esac
[ ! -f '"$work"'/broken ]'
stub apt-cache 'case "$1 $2" in
"depends clang") sed -n "s/^clang-\([0-9]*\)$/  Depends: clang-\1/p" '"$work"'/known;;
show*) for p; do :; done; grep -x -- "$p" '"$work"'/known;;
esac'
stub sudo 'echo "sudo $*" >>'"$work"'/calls; [ "$1" = -n ] || exit 1; shift; exec "$@"'
ln -s "$(command -v cp)" "$work/bin/cp"

machine() { # uid, sudo works (yes|no), clang version apt knows, has runtime
    : >"$work/have"; : >"$work/calls"; rm -f "$work/broken"
    { echo "clang-$3"; [ "$4" = yes ] && echo "libclang-rt-$3-dev"; } >"$work/known"
    cp "$work/known" "$work/later"
    stub id "echo $1"
    if [ "$2" = yes ]; then
        chmod +x "$work/bin/sudo"
    else
        chmod -x "$work/bin/sudo"
    fi
}
deps() { env -i PATH="$work/bin" "$work/bin/sh" "$tool" "$@" >"$work/out" 2>"$work/err"; rc=$?; }
expect() { # what, wanted, got
    [ "$2" = "$3" ] && return
    echo "FAILED: $1"
    diff <(echo "$2") <(echo "$3")
    bad=1
}
base="gcc libc6-dev cmake make ninja-build pkg-config libjansson-dev libyaml-dev libprotobuf-c-dev protobuf-c-compiler libexpat1-dev zlib1g-dev libxxhash-dev libopenmpi-dev openmpi-bin libdnnl-dev libhdf5-dev libjpeg-dev"
test_more="g++ clang RT clang-format clang-tidy cppcheck libcmocka-dev libhwloc-dev libmicrohttpd-dev libonnx-testdata python3 man-db libmpich-dev mpich"
all() { echo "$base ${test_more/RT/$1}" | tr -s ' '; }
said="apt-get install -y --no-install-recommends"
install="apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends"

machine 1000 no 14 yes
deps build
expect "not root, no sudo: exit code" 4 $rc
expect "not root, no sudo: the exact command" "paradl: packages are missing; please run:
  sudo apt-get update && sudo $said $base" "$(cat "$work/err")"
expect "not root, no sudo: apt-get is not called" "" "$(cat "$work/calls")"
deps check
expect "Debian 12's runtime" "  sudo apt-get update && sudo $said $(all libclang-rt-14-dev)" \
    "$(tail -n1 "$work/err")"
machine 1000 no 18 yes
deps check
expect "Ubuntu 24.04's runtime" "  sudo apt-get update && sudo $said $(all libclang-rt-18-dev)" \
    "$(tail -n1 "$work/err")"
machine 1000 no 14 no
deps check
expect "Ubuntu 22.04 has no such package" "  sudo apt-get update && sudo $said $(all '')" \
    "$(tail -n1 "$work/err")"

machine 1000 yes 14 yes
deps build
expect "sudo: exit code" 0 $rc
expect "sudo: calls" "sudo -n true
sudo -n env apt-get update -qq
apt-get update -qq
sudo -n env DEBIAN_FRONTEND=noninteractive $install $base
$install $base" "$(cat "$work/calls")"

machine 0 no 14 yes
echo "$base" | tr ' ' '\n' | grep -v cmake >"$work/have"
deps build
expect "root: installs only what is missing" "apt-get update -qq
$install cmake" "$(cat "$work/calls")"
expect "root: says so" "paradl: installing cmake" "$(cat "$work/err")"

machine 0 no 18 yes
: >"$work/known" # a fresh container: apt knows nothing before the update
deps check
expect "root on a fresh machine: the runtime is found after the update" \
    "$install $(all libclang-rt-18-dev)" "$(tail -n1 "$work/calls")"

machine 1000 yes 14 yes
all libclang-rt-14-dev | tr ' ' '\n' >"$work/have"
deps check
expect "all there: exit code" 0 $rc
expect "all there: nothing is called" "" "$(cat "$work/calls")"
expect "all there: nothing is said" "" "$(cat "$work/out" "$work/err")"

machine 0 no 14 yes
touch "$work/broken"
deps build
expect "apt fails: exit code" 4 $rc
expect "apt fails: the exact command" "  sudo apt-get update && sudo $said $base" \
    "$(tail -n1 "$work/err")"

deps nonsense
expect "wrong usage" 2 $rc
rm "$work/bin/dpkg-query"
deps build
expect "another system: goes on" 0 $rc
expect "another system: says what it needs" "paradl: not a Debian or Ubuntu machine; it needs the equivalents of: $base" \
    "$(cat "$work/err")"
[ $bad = 0 ] && echo "deps: right on every machine"
exit $bad
