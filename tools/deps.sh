#!/bin/sh
# Installs the Debian or Ubuntu packages that are missing for what is named:
#   deps.sh build    to build (make demo)
#   deps.sh check    to build and test (make check)
#   deps.sh peers    for the cross-checks against other tools
#   deps.sh deb      to build Debian packages (make deb)
# Does nothing when all is there. Without root and without sudo it prints the
# exact command and exits 4.
set -u
build="gcc libc6-dev cmake make ninja-build pkg-config libjansson-dev
    libyaml-dev libprotobuf-c-dev protobuf-c-compiler libexpat1-dev zlib1g-dev
    libxxhash-dev libopenmpi-dev openmpi-bin libdnnl-dev libhdf5-dev
    libjpeg-dev"
check="$build g++ clang clang-runtime clang-format clang-tidy cppcheck
    libcmocka-dev libhwloc-dev libmicrohttpd-dev libonnx-testdata python3
    man-db libmpich-dev mpich"
packaging="build-essential debhelper dh-python dpkg-dev lintian abigail-tools"
peers="$check python3-yaml libsimgrid-dev libns3-dev hpcc python3-torch
    python3-torchvision chromium coinor-cbc python3-jsonschema python3-markdown
    python3-venv mypy $packaging"
deb="$build libmicrohttpd-dev python3 $packaging"
case ${1:-build} in
build) want=$build ;;
check) want=$check ;;
peers) want=$peers ;;
deb) want=$deb ;;
*) echo "usage: deps.sh build|check|peers|deb" >&2; exit 2 ;;
esac
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "paradl: not a Debian or Ubuntu machine; it needs the equivalents of:" \
        $want >&2
    exit 0
fi

installed() {
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
    *"ok installed") return 0 ;;
    esac
    # pkg-config is a package, or what pkgconf provides
    [ "$1" = pkg-config ] && command -v pkg-config >/dev/null 2>&1
}

# The sanitizers' and libFuzzer's libraries are in a package named after
# clang's version (Debian 12: libclang-rt-14-dev, Ubuntu 24.04: -18-) or, on
# Ubuntu 22.04, in what clang itself depends on. Prints the name or nothing.
clang_runtime() {
    v=$(clang --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p' | head -n1)
    [ -n "$v" ] || v=$(apt-cache depends clang 2>/dev/null |
        sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n1)
    [ -n "$v" ] || return 0
    installed "libclang-rt-$v-dev" && { echo "libclang-rt-$v-dev"; return 0; }
    [ -n "$(apt-cache show --no-all-versions "libclang-rt-$v-dev" 2>/dev/null)" ] &&
        echo "libclang-rt-$v-dev"
}

find_missing() {
    missing=
    for p in $want; do
        [ "$p" = clang-runtime ] && p=$(clang_runtime)
        [ -z "$p" ] || installed "$p" || missing="$missing $p"
    done
}

find_missing
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ]; then
    run=env
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    run="sudo -n env"
else
    echo "paradl: packages are missing; please run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 4
fi
echo "paradl: installing$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
$run apt-get update -qq >"$log" 2>&1
find_missing # a fresh machine knows clang's version only now
if ! $run DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
    install -y --no-install-recommends $missing >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "paradl: could not install packages; please run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 4
fi
