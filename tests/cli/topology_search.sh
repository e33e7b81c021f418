# which network: fronts, rivals, a plan's traffic, what is refused
set +e
$paradl topology search --hosts 16 --radix 8 --size 1KiB,1MiB --against 'dln:q=2,p=2+shd;star:hosts=16' --threads 1
$paradl topology search --hosts 16 --radix 8 --size 64KiB --collective alltoall --duplex shared --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["schema"], len(d["answers"]))
front = d["answers"][0]["front"]
print(all(a["cost"] < b["cost"] and a["time_s"] > b["time_s"] for a, b in zip(front, front[1:])))'
$paradl project gpt2 --system dgx-h100 --strategy 'pipe=2(m=4),data=8' --batch 32 --emit p.plan -q >/dev/null
$paradl topology search --plan p.plan --node 2 --radix 16 --threads 1 | head -7
# as many threads as one likes: the same bytes
for t in 1 2 4; do
  $paradl topology search --hosts 16 --radix 8 --size 64KiB --collective reduce-scatter --threads $t --json | cksum
done | uniq | wc -l
$paradl topology search --hosts 8 --radix 8 --size 1KiB --latency 0s | head -1
$paradl topology search --hosts 8 --radix 8 --size 1KiB --against "$(printf 'torus:2x4;%.0s' $(seq 33))"; echo "rc $?"
# what is bought at the prices of designs: ports, cables, optics
cat >prices.yaml <<'END'
name: ours
currency: EUR
items:
  - {item: switch, value: 10, kind: list, date: 2026, source: offer}
  - {item: copper, value: 1, kind: list, date: 2026, source: offer}
  - {item: optic, value: 0, kind: list, date: 2026, source: offer}
  - {item: fibre, value: 0, kind: list, date: 2026, source: offer}
END
$paradl topology search --hosts 16 --radix 16 --size 1MiB --bandwidth 10GB/s --prices prices.yaml --threads 1 | sed -n '3,4p'
sed -i /fibre/d prices.yaml
$paradl topology search --hosts 16 --size 1MiB --prices prices.yaml; echo "rc $?"
$paradl topology search --hosts 16; echo "rc $?"
$paradl topology search --hosts 1 --size 1MiB; echo "rc $?"
$paradl topology search --hosts 99999999 --size 1MiB; echo "rc $?"
$paradl topology search --hosts 16 --radix 2 --size 1MiB; echo "rc $?"
$paradl topology search --hosts 16 --size much; echo "rc $?"
$paradl topology search --hosts 16 --size 1MiB --collective sum; echo "rc $?"
$paradl topology search --hosts 16 --radix 8 --size 1MiB --against 'torus:2x2'; echo "rc $?"
$paradl topology search --hosts 16 --radix 8 --size 1MiB --bandwidth 0; echo "rc $?"
$paradl topology search --plan nothing.plan; echo "rc $?"
