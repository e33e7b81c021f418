#!/bin/bash
# Allreduce against MPI's own, and against the bars of doc/comm.md:
# bench_comm.sh PARADL [ROUNDS]. Prints the table of doc/comm.md (the median of
# the rounds' ratios, and the lowest) and says which bars are met.
paradl=$(realpath "$1")
rounds=${2:-3}
[ -x "$(dirname "$paradl")/paradl-run" ] || { echo "comm: no MPI, not built"; exit 0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for round in $(seq "$rounds"); do
    "$paradl" bench allreduce -n 2 -t window --size 1KiB..64MiB --seconds 0.15s \
        --against mpi --json >"$tmp/window.$round.json" || exit 1
    "$paradl" bench allreduce -n 2 --size 1KiB..64MiB --seconds 0.15s \
        --against mpi --json >"$tmp/any.$round.json" || exit 1
    "$paradl" bench allreduce -n 4 --size 1KiB..64MiB --seconds 0.15s \
        --against mpi --json >"$tmp/four.$round.json" || exit 1
done
python3 - "$tmp" "$rounds" <<'END'
import json, os, statistics, sys

tmp, rounds = sys.argv[1], int(sys.argv[2])
KINDS = ["window", "any", "four"]
ratio, of_limit, ours, trips = {}, {}, {}, []
for kind in KINDS:
    for r in range(1, rounds + 1):
        d = json.load(open(os.path.join(tmp, f"{kind}.{r}.json")))
        if kind != "four":
            trips.append(d["probe"]["round_trip_s"] * 1e9)
        for x in d["results"]:
            assert x["wrong"] == 0, x
            key = kind, x["bytes"]
            ratio.setdefault(key, []).append(x["mpi_s"] / x["ours_s"])
            of_limit.setdefault(key, []).append(x["limit_s"] / x["ours_s"])
            ours.setdefault(key, []).append(x["ours_s"])
sizes = sorted({b for _, b in ratio})


def name(b):
    return f"{b >> 20} MiB" if b >> 20 else f"{b >> 10} KiB"


def bar(kind, b):
    """MPI's time over ours, at least; None: no bar."""
    K, M = 1 << 10, 1 << 20
    if kind == "four":
        return 1.0
    if kind == "any":
        if b < 64 * K:
            return None
        return 1.05 if 8 * M <= b <= 32 * M else 1.2
    if b <= 4 * K:
        return 1.0
    return {64 * K: 1.5, M: 2.0, 16 * M: 1.5, 64 * M: 2.0}.get(b)


print(f"core to core and back: {min(trips):.0f} to {max(trips):.0f} ns")
print("| bytes | windows | any memory | 4 ranks | windows, of the limit |")
print("|---|---|---|---|---|")
for b in sizes:
    cells = [f"{statistics.median(ratio[k, b]):.2f} ({min(ratio[k, b]):.2f})"
             for k in KINDS]
    share = statistics.median(of_limit["window", b])
    print(f"| {name(b)} | {' | '.join(cells)} | {100 * share:.0f} % |")
missed = 0
for kind in KINDS:
    for b in sizes:
        want = bar(kind, b)
        got = statistics.median(ratio[kind, b])
        if want and got < want:
            missed += 1
            print(f"MISSED: {kind}, {name(b)}: {got:.2f}, bar {want}")
print(f"allreduce bars  {missed} missed  (median of {rounds} runs, "
      f"{len(sizes)} sizes)")
big = sizes[-1]
print(f"allreduce {name(big)} 2 ranks windows  "
      f"{1e3 * statistics.median(ours['window', big]):.2f} ms  (any memory "
      f"{1e3 * statistics.median(ours['any', big]):.2f} ms)")
END
