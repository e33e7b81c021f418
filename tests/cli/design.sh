# which machine: a question as a file and as options, what is refused and why
set +e
steady() { sed -E 's/; [0-9.]+ s$/; T s/; s/[0-9.]+ s$/T s/'; }
$paradl design "$data/../../examples/design.yaml" --threads 1 | steady
$paradl design --model resnet50 --batch 512 --samples 1M --systems 'dgx-h100;dgx-a100' --pes 8,16 --money rent --goal time --top 2 --csv d.csv | steady
cut -d, -f1,2,5-7 d.csv
$paradl design "$data/../../examples/design.yaml" --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["schema"], d["feasible_count"], len(d["designs"]), d["tie"])
best = d["designs"][0]
print(best["name"], best["front"], best["bill"]["nodes"], sorted(r["workload"] for r in best["runs"]))'
one="$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8"
$one --power 10kW; echo "rc $?"
$one --budget 1000; echo "rc $?"
$one --deadline 1s; echo "rc $?"
$one --region atlantis; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-gb300 --pes 72 --money rent; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 12; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 99999999; echo "rc $?"
$paradl design --model resnet50 --batch 512 --tokens 1M --systems dgx-h100 --pes 8; echo "rc $?"
$paradl design --model gpt3-175b --batch 8 --tokens 1M --systems dgx-h100 --pes 8; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 16 --networks 'fat-tree:taper=99'; echo "rc $?"
$paradl design --model resnet50; echo "rc $?"
$paradl design nothing.yaml; echo "rc $?"
# what was found is kept
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8 --memo m.txt >first
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8 --memo m.txt | grep wanted | steady
echo garbage >m.txt
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8 --memo m.txt; echo "rc $?"
