#!/bin/bash
# container.sh [FOLDER]: the image of the Containerfile is built, and answers.
# Where no registry is within reach, the image it begins with is made by
# debootstrap from Debian's mirror. Needs root and buildah; 77 without. What is
# built stays in FOLDER where one is named. (Steps run by chroot and files are
# copied, so that a machine without namespaces and overlays will do.)
here=$(cd "$(dirname "$0")/.." && pwd)
base=docker.io/library/debian:bookworm-slim
mirror=${MIRROR:-http://deb.debian.org/debian}
skip() {
    echo "container: $*: skipped"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "only root can"
command -v buildah >/dev/null || skip "no buildah"
tmp=$(mktemp -d) || exit 4
trap 'rm -rf "$tmp"' EXIT
store=${1:-$tmp/store}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
image() { buildah --root "$store" --runroot "$tmp/run" "$@"; }
bad=0
must() { # what, command...
    local what=$1 start=$SECONDS
    shift
    if "$@" >"$tmp/log" 2>&1; then
        echo "container: $what: $((SECONDS - start)) s"
        return
    fi
    echo "FAILED: $what"
    tail -n 15 "$tmp/log"
    bad=1
}
if ! image inspect $base >/dev/null 2>&1 && ! timeout 120 buildah --root "$store" \
    --runroot "$tmp/run" pull -q $base >/dev/null 2>&1; then
    command -v debootstrap >/dev/null || skip "no registry, and no debootstrap"
    debootstrap --variant=minbase bookworm "$tmp/debian" "$mirror" >"$tmp/log" 2>&1 || {
        tail -n 3 "$tmp/log"
        skip "no registry, and no Debian from $mirror"
    }
    new=$(image from scratch)
    must "an image to begin with" image add "$new" "$tmp/debian" /
    must "its name" image commit -q --rm "$new" $base
    rm -rf "$tmp/debian"
fi
must "build" image bud --pull-never --layers -t paradl -f "$here/packaging/Containerfile" "$here"
[ $bad = 0 ] || exit 1
box=$(image from --pull-never localhost/paradl)
inside() { image run "$box" -- "$@"; }
answer() { inside paradl plan resnet50 --system abci-v100 --pes 64 --batch 2048 | grep '^best: data=64'; }
must "an answer" answer
must "from Python" inside python3 -c 'import paradl
assert paradl.plan("resnet50", system="abci-v100", pes=64, batch=2048).best.strategy == "data=64"'
must "as nobody special" inside sh -c 'test "$(id -un)" = paradl'
must "its first command" test "$(image inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' localhost/paradl)" = "[paradl]"
[ $bad = 0 ] && echo "container: built, and answers"
exit $bad
