#!/bin/bash
# bare.sh DEBS [FOLDER]: what 'make deb' left in DEBS (build/deb), installed on
# a Debian that has nothing else, asked, and removed: the second half of the
# Containerfile, for machines without podman. The wheel in DEBS/../dist comes
# first, where 'make wheel' has left one. Needs root, debootstrap and Debian's
# mirror; 77 without. FOLDER (a temporary one unless told) is the new system's
# root; one that is there is used again.
debs=$(realpath "$1") || exit 2
root=${2:-}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
skip() {
    echo "bare: $*: skipped"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "only root can"
[ -s "$(echo "$debs"/libparadl0_*.deb)" ] || skip "no packages in $debs: make deb"
python='import paradl
assert paradl.plan("resnet50", system="abci-v100", pes=64, batch=2048).best.strategy == "data=64"'
bad=0
own=
tmp=$(mktemp -d) || exit 4
[ -n "$root" ] || { root=$tmp/root; own=1; }
away() {
    mountpoint -q "$root/proc" && { umount "$root/proc" || return; }
    rm -rf "$tmp"
}
trap away EXIT
if [ ! -e "$root/etc/debian_version" ]; then
    command -v debootstrap >/dev/null || skip "no debootstrap"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$tmp/log" 2>&1 || {
        tail -n 3 "$tmp/log"
        skip "no Debian from $mirror"
    }
fi
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc" || exit 4
inside() { chroot "$root" env LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
must() { # what, command...
    local what=$1 start=$SECONDS
    shift
    if "$@" >"$tmp/log" 2>&1; then
        echo "bare: $what: $((SECONDS - start)) s"
        return
    fi
    echo "FAILED: $what"
    tail -n 15 "$tmp/log"
    bad=1
}
packages() { inside dpkg-query -W -f '${Package} ${Status}\n' | grep ' installed$' | sort; }
wheel=$(echo "$debs"/../dist/paradl-*.whl)
rm -rf "$root/debs"
mkdir "$root/debs"
cp "$debs"/{libparadl0,libparadl-dev,paradl,paradl-run,python3-paradl}_*.deb "$root/debs/"
must "list of packages" inside apt-get update
packages >"$tmp/before"
if [ -s "$wheel" ]; then # before anything that it could lean on is there
    cp "$wheel" "$root/debs/"
    start=$SECONDS
    must "python3-venv" inside apt-get install -y --no-install-recommends python3-venv
    must "pip install" inside sh -c 'python3 -m venv /debs/env &&
        /debs/env/bin/pip install --no-index /debs/*.whl'
    must "the wheel's answer" inside /debs/env/bin/python -c "$python"
    echo "bare: from nothing to the wheel's answer in $((SECONDS - start)) s"
    # with the certificates that pip wants and apt would like to keep
    must "no python3-venv" inside apt-get purge -y --auto-remove \
        -o APT::AutoRemove::RecommendsImportant=false python3-venv
fi
start=$SECONDS
must "apt install" inside sh -c 'apt-get install -y --no-install-recommends \
    /debs/libparadl0_*.deb /debs/paradl_*.deb /debs/python3-paradl_*.deb'
must "first answer" inside sh -c 'paradl plan resnet50 --system abci-v100 \
    --pes 64 --batch 2048 | grep "^best: data=64"'
echo "bare: from nothing to an answer in $((SECONDS - start)) s"
must "from Python" inside python3 -c "$python"
must "as somebody else" inside setpriv --reuid=65534 --regid=65534 --clear-groups \
    paradl model show resnet50
must "what runs it" inside sh -c 'apt-get install -y --no-install-recommends \
    /debs/paradl-run_*.deb /debs/libparadl-dev_*.deb'
must "training" inside paradl train lenet5 --data synthetic --samples 64 \
    --batch 16 --strategy data=2 --virtual
must "apt purge" inside apt-get purge -y libparadl0 libparadl-dev paradl \
    paradl-run python3-paradl
must "autoremove" inside apt-get autoremove -y --purge
rm -rf "$root/debs"
packages >"$tmp/after"
must "the packages of before" diff "$tmp/before" "$tmp/after"
must "nothing is left" test -z "$(find "$root" -path "$root/proc" -prune -o \
    -name '*paradl*' -print | head)"
[ $bad = 0 ] && echo "bare: installed, ran, removed on a bare $suite${own:+ made for it}"
exit $bad
