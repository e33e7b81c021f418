#!/bin/bash
# The network simulator against the clock and, where it is installed, against
# SimGrid: CPU seconds on one core, run in turn. Where SimGrid takes minutes it
# is run with PDL_LONG=1 only; without, the table has what it took once (an
# idle EPYC of the same kind, SimGrid 3.32), marked with a star.
paradl=$(realpath "$1")
build=$(dirname "$paradl")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck disable=SC2046
cc -O2 -std=c11 -D_GNU_SOURCE -I"$here/../include" -o "$tmp/ours" \
    "$here/net_ours.c" "$build/libparadl.a" \
    $(pkg-config --libs jansson yaml-0.1 libprotobuf-c libxxhash) \
    -lexpat -lz -lm || exit 4
g++ -O2 -std=c++17 -o "$tmp/simgrid" "$here/net_simgrid.cpp" -lsimgrid \
    2>/dev/null || echo "(no SimGrid here: apt install libsimgrid-dev)"
config="--cfg=network/model:CM02 --cfg=network/crosstraffic:0
    --cfg=network/weight-S:0 --cfg=network/TCP-gamma:1e30
    --cfg=contexts/stack-size:64 --log=root.thres:error"
# SimGrid's default solver is the faster one for allreduces, and wrong for
# several flows from one host in one instant.
full=--cfg=network/optim:Full

platform() { # leaf: the fat tree of leaf * leaf hosts
    cat <<XML
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><cluster id="c" prefix="node-" suffix=""
radical="0-$(($1 * $1 - 1))" speed="1Gf" bw="12.5GBps" lat="1us"
topology="FAT_TREE" topo_parameters="2;$1,$1;1,$1;1,1"/></platform>
XML
}

# case LEAF JOB SIMGRID [KNOWN]: yes, long, or no; KNOWN: its CPU seconds then
case_() {
    local ours theirs leaf=$1 job=$2 known=$4 best=1e9 t
    for _ in 1 2 3; do
        ours=$("$tmp/ours" $((leaf * leaf)) "$job") || exit 1
        t=$(echo "$ours" | cut -d' ' -f3)
        best=$(echo "$best $t" | awk '{print ($2 < $1) ? $2 : $1}')
    done
    theirs="- - ${known:--} -"
    if [ -x "$tmp/simgrid" ] &&
        { [ "$3" = yes ] || { [ "$3" = long ] && [ -n "$PDL_LONG" ]; }; }; then
        platform "$leaf" >"$tmp/p.xml"
        case $job in permutation*) set -- "$full" ;; *) set -- ;; esac
        # shellcheck disable=SC2086
        theirs=$("$tmp/simgrid" "$tmp/p.xml" "$job" $config "$@") ||
            theirs="- - - -"
    fi
    echo "$((leaf * leaf)) $job $ours $best $theirs" | awk '{
        ratio = $10 == "-" ? "-" : sprintf("%.0fx", $10 / ($7 > 0.001 ? $7 : 0.001))
        if ($10 != "-" && $9 == "-") $10 = $10 "*"
        printf "%6d %-22s %11s %13.9f %8.3f %7.1f %13s %8s %7s %6s\n",
            $1, $2, $3, $4, $7, $6, $9, $10, $11, ratio}'
}

echo " hosts job                       messages    time or mean    cpu s     MiB       SimGrid    cpu s     MiB  ratio"
case_ 16 permutation:8 yes
case_ 32 permutation:4 yes
case_ 32 permutation:8 yes
case_ 64 permutation:2 long 12.4
case_ 64 permutation:4 long 170
case_ 16 ring:104857600 yes
case_ 32 ring:104857600 yes
case_ 64 ring:104857600 long 270
case_ 64 ring:104857999 no
case_ 32 halving:104857600 yes
case_ 64 halving:104857600 yes
case_ 256 ring:104857600 no
case_ 256 halving:104857600 no

# as commands, with the bounds and the table of rounds
command_() {
    local best=1e9 t
    TIMEFORMAT=%U
    for _ in 1 2 3; do
        t=$({ time "$paradl" simulate allreduce -s 100MiB -q "$@" >/dev/null; } 2>&1)
        best=$(echo "$best $t" | awk '{print ($2 < $1) ? $2 : $1}')
    done
    printf '%8s s  paradl simulate allreduce %s\n' "$best" "$*"
}
command_ -a ring -t fat-tree:down=64x64,up=1x64
command_ -a halving-doubling-far -t fat-tree:down=64x64,up=1x64
command_ -a ring -t fat-tree:down=256x256,up=1x256
command_ -a shd -t dln:q=10,p=6
