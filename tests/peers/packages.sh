#!/bin/bash
# Debian packages: built, lintian has nothing to say, and what is in them runs
# from where it was unpacked: program, Python, a program of one's own. What is
# tried is how it is packed: objects are those that were just built, with
# PDL_LONG=1 they are compiled as Debian does. 77 where Debian's tools are
# missing.
paradl=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
for tool in dpkg-buildpackage dh lintian; do
    command -v $tool >/dev/null || {
        echo "packages: no $tool: skipped"
        exit 77
    }
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset PYTHONPATH PARADL_LIBRARY
bad=0
must() { # what, command...
    local what=$1
    shift
    "$@" >"$tmp/log" 2>&1 && return
    echo "FAILED: $what"
    tail -n 15 "$tmp/log"
    bad=1
}
build=$(dirname "$paradl")
if [ -z "${PDL_LONG:-}" ]; then
    export DEB_BUILD_OPTIONS=noautodbgsym PDL_OBJECTS=$build
    export CMAKE_C_COMPILER_LAUNCHER=$root/tests/tools/objects.sh
fi
must "build" env PDL_DEB_DIR="$tmp/deb" "$root/tools/deb.sh" "$build"
[ $bad = 0 ] || exit 1
lintian "$tmp"/deb/*.changes 2>/dev/null >"$tmp/lintian"
[ -s "$tmp/lintian" ] && { head -n 20 "$tmp/lintian"; bad=1; }
for name in libparadl0 libparadl-dev paradl paradl-run python3-paradl; do
    must "unpack $name" dpkg-deb -x "$(echo "$tmp/deb/$name"_*.deb)" "$tmp/root"
done
lib=$(dirname "$(find "$tmp/root" -name libparadl.so.0)")
export LD_LIBRARY_PATH=$lib
must "paradl" grep -q 'best: data=64' <("$tmp/root/usr/bin/paradl" plan resnet50 \
    --system abci-v100 --pes 64 --batch 2048)
must "paradl-run" "$tmp/root/usr/bin/paradl-run" --version
must "Python" env -C "$tmp" PYTHONPATH="$tmp/root/usr/lib/python3/dist-packages" /usr/bin/python3 -c '
import paradl
assert paradl.plan("resnet50", system="abci-v100", pes=64, batch=2048).best.strategy == "data=64"'
export PKG_CONFIG_PATH=$lib/pkgconfig
# shellcheck disable=SC2046
must "compile" gcc "$root/examples/plan.c" -o "$tmp/plan" $(pkg-config --cflags --libs paradl)
must "run it" grep -q 'best of' <("$tmp/plan" resnet50 dgx-a100 8 256)
must "man page" test -s "$tmp/root/usr/share/man/man1/paradl.1.gz"
must "no build folder inside" test -z "$(grep -rlF -e "$tmp/deb/paradl-" -e "$build" "$tmp/root")"
[ $bad = 0 ] && echo "packages: $(ls "$tmp"/deb/*.deb | grep -vc dbgsym) packages, lintian silent"
exit $bad
