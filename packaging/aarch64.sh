#!/bin/bash
# aarch64.sh [PARADL]: what somebody on an aarch64 machine gets from the sdist,
# without such a machine: Debian's compiler for it builds, its Python (under
# qemu) makes the wheel, installs it in an environment and runs the package's
# tests; the program and the runtime answer as PARADL here does. Needs
# gcc-aarch64-linux-gnu, qemu-user-static and a mirror that has arm64; no root.
# 77 without. About 150 MB are fetched.
paradl=$(realpath "${1:-build/paradl}") || exit 2
here=$(cd "$(dirname "$0")/.." && pwd)
skip() {
    echo "aarch64: $*: skipped"
    exit 77
}
for tool in aarch64-linux-gnu-gcc qemu-aarch64-static apt-get cmake ninja; do
    command -v $tool >/dev/null || skip "no $tool"
done
[ -x "$paradl" ] || skip "no program here to compare with: make"
tmp=$(mktemp -d) || exit 4
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root
bad=0
must() { # what, command...
    local what=$1 start=$SECONDS
    shift
    if "$@" >"$tmp/log" 2>&1; then
        echo "aarch64: $what: $((SECONDS - start)) s"
        return
    fi
    echo "FAILED: $what"
    tail -n 15 "$tmp/log"
    bad=1
}

# arm64's libraries and Python, from apt with lists of its own
mkdir -p "$root" "$tmp"/apt/{state/lists/partial,cache/archives/partial}
: >"$tmp/apt/status"
apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State="$tmp/apt/state" -o Dir::State::status="$tmp/apt/status" \
        -o Dir::Cache="$tmp/apt/cache" -o APT::Sandbox::User="$(id -un)" \
        -o Debug::NoLocking=true "$@" >"$tmp/log" 2>&1
}
apt update && apt install -y --download-only --no-install-recommends \
    libc6-dev libjansson-dev libyaml-dev libprotobuf-c-dev libexpat1-dev \
    zlib1g-dev libxxhash-dev libopenmpi-dev libdnnl-dev python3-minimal \
    python3-distutils python3-pip-whl || {
    tail -n 3 "$tmp/log"
    skip "no arm64 packages"
}
for deb in "$tmp"/apt/cache/archives/*.deb; do
    dpkg-deb -x "$deb" "$root"
done
find "$root" -type l -lname '/*' | while read -r link; do
    ln -sfn "$root$(readlink "$link")" "$link"
done

# a machine of that kind, to CMake and to what tools/pep517.py calls
cat >"$tmp/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_SYSROOT $root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
END
mkdir "$tmp/bin"
for tool in strip objdump; do
    ln -s "$(command -v aarch64-linux-gnu-$tool)" "$tmp/bin/$tool"
done
cat >"$tmp/bin/ldd" <<END
#!/bin/sh
qemu-aarch64-static $root/lib/ld-linux-aarch64.so.1 --list "\$@" | sed 's|=> /|=> $root/|'
END
chmod +x "$tmp/bin/ldd"
export QEMU_LD_PREFIX=$root CMAKE_TOOLCHAIN_FILE=$tmp/toolchain.cmake
export PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
unset PYTHONPATH PARADL_LIBRARY
there() { qemu-aarch64-static "$@"; }

must "sdist" python3 "$here/tools/pep517.py" sdist "$tmp"
tar xf "$tmp"/paradl-*.tar.gz -C "$tmp"
source=$(echo "$tmp"/paradl-*/)
must "wheel" env PATH="$tmp/bin:$PATH" PDL_WHEEL_BUILD="$tmp/build" qemu-aarch64-static \
    "$root/usr/bin/python3" "$source/tools/pep517.py" wheel "$tmp/dist"
must "its tag" ls "$tmp"/dist/paradl-*-manylinux_2_*_aarch64.whl
must "environment" there "$root/usr/bin/python3" -m venv --without-pip "$tmp/env"
python=$tmp/env/bin/python
must "install" env PYTHONPATH="$(echo "$root"/usr/share/python-wheels/pip-*.whl)" \
    qemu-aarch64-static "$python" -m pip install --no-index "$tmp"/dist/*.whl
# but what starts another Python, which this machine cannot
must "the package's tests" env -C "$tmp" qemu-aarch64-static "$python" \
    "$here/tests/python/package.py" -k Examples -k Results -k Jobs -k Watches \
    -k test_kinds -k test_file -k test_pickle -k test_arguments
must "orders" env -C "$tmp" qemu-aarch64-static "$python" "$here/tests/python/sampler.py"

must "the program and the runtime" cmake -DPDL_RUN=ON -DPDL_STATIC_DEPS=OFF "$tmp/build"
must "compiled" ninja -C "$tmp/build" paradl paradl-run paradl_comm
same() { # arguments: the same answer there and here, but for what was measured
    local times='s/"\(search_s\|wall_s\)": [^,]*,//'
    diff <("$paradl" "$@" | sed "$times") <(there "$tmp/build/paradl" "$@" | sed "$times")
}
for question in "plan resnet50 --system abci-v100 --pes 64 --batch 2048 --json" \
    "plan llama3.1-8b --system dgx-h100 --pes 64 --batch 512 --json" \
    "project gpt3-175b --system dgx-a100 --strategy data=16,tensor=8,pipe=8(1f1b,m=96) --batch 1536 --json" \
    "simulate allreduce --algorithm ring --topology torus:8x8 --size 64MiB --json" \
    "collective verify --algorithm shd --ranks 1..64 --json"; do
    # shellcheck disable=SC2086
    must "${question%% --*}" same $question
done
# a plan of here, trained there: losses as here
"$paradl" train lenet5 --batch 16 --strategy data=2 --virtual --emit "$tmp/plan" >/dev/null
losses() { "$@" train --plan "$tmp/plan" --data synthetic --samples 64 --virtual \
    --backend ref --no-test --json | sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' | cut -c1-7; }
must "losses" grep -q . <(losses "${paradl}-run")
must "training" diff <(losses "${paradl}-run") <(losses qemu-aarch64-static "$tmp/build/paradl-run")
[ $bad = 0 ] && echo "aarch64: $(basename "$tmp"/dist/*.whl) works, as here"
exit $bad
