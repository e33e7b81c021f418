#!/bin/bash
# make check-peers: cross-checks against other people's tools. Each
# tests/peers/*.sh but this one gets the program's path; exit 77 = skipped. Two
# at a time (most of them wait for one interpreter on one processor): each says
# what it has to say at its end.
paradl=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) || exit 4
trap 'rm -rf "$tmp"' EXIT
export paradl tmp
# Two at a time on two processors: more threads of each only wait.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# Debian's torch dies of an illegal instruction in bfloat16 where a processor
# says that it has AMX and a virtual machine hides its tiles.
export ONEDNN_MAX_CPU_ISA=${ONEDNN_MAX_CPU_ISA:-AVX512_CORE_BF16}
one() { # script
    local name start=$SECONDS
    name=$(basename "$1")
    bash "$1" "$paradl" >"$tmp/$name.log" 2>&1
    echo $? >"$tmp/$name.rc"
    echo "$((SECONDS - start)) s ${name%.sh}" >>"$tmp/seconds"
    flock "$tmp" cat "$tmp/$name.log"
}
export -f one
# The longest first: what begins late and takes long keeps one processor alone.
first=("$here"/{run_torch,packages,ns3_packets,tv_torch,python_torch}.sh)
find "$here" -name '*.sh' ! -name run.sh -print0 | sort -z |
    grep -zvxFf <(printf '%s\n' "${first[@]}") |
    cat <(printf '%s\0' "${first[@]}") - | xargs -0 -P2 -I{} bash -c 'one "$1"' one {}
passed=0 failed=0 skipped=0
for t in "$here"/*.sh; do
    name=$(basename "$t")
    [ "$name" = run.sh ] && continue
    case $(cat "$tmp/$name.rc") in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED $name" ;;
    *) failed=$((failed + 1)); echo "FAILED $name" ;;
    esac
done
sort -rn "$tmp/seconds" | head -n 8 | paste -sd, | sed 's/,/, /g; s/^/peers, longest: /'
echo "peers: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
