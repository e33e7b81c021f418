# which machine: a question as a file and as options, what is refused and why
set +e
# prices of plans change: the words stay
steady() { grep -E '^(best|within|what|note|stopped|[0-9]+ (design|plan)| *DESIGN)' | sed -E 's/; [0-9.]+ s$/; T s/; s/ +/ /g'; }
$paradl design "$data/../../examples/design.yaml" --threads 1 | steady
$paradl design --model resnet50 --batch 512 --samples 1M --systems 'dgx-h100;dgx-a100' --pes 8,16 --money rent --goal time --top 2 --csv d.csv | steady
head -1 d.csv | tr , ' ' | fold -sw 70; wc -l <d.csv
$paradl design "$data/../../examples/design.yaml" --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["schema"], len(d["designs"]))
best = d["designs"][0]
print(best["front"], best["bill"]["nodes"] > 0, sorted(r["workload"] for r in best["runs"]))
print(all(a["cost"] <= b["cost"] for a, b in zip(d["designs"], d["designs"][1:d["feasible_count"]])))'
one="$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8"
$one --power 10kW; echo "rc $?"
$one --budget 1000; echo "rc $?"
$one --deadline 1s 2>err; echo "rc $?"; grep -c "breaks deadline of resnet50" err
$one --region atlantis; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-gb300 --pes 72 --money rent; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 12; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 99999999; echo "rc $?"
$paradl design --model resnet50 --batch 512 --tokens 1M --systems dgx-h100 --pes 8; echo "rc $?"
$paradl design --model gpt3-175b --batch 8 --tokens 1M --systems dgx-h100 --pes 8; echo "rc $?"
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 16 --networks 'fat-tree:taper=99'; echo "rc $?"
$one --draws 99999999; echo "rc $?"
$one --power 0W; echo "rc $?"
$one --networks nosuch; echo "rc $?"
$one --deadline soon; echo "rc $?"
$one --tokens 1M; echo "rc $?"
$one --top 8589934592 | grep -c '^\*'
$paradl design --model resnet50; echo "rc $?"
$paradl design nothing.yaml; echo "rc $?"
# what was found is kept
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8 --memo m.txt >first
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8 --memo m.txt | grep wanted | steady
echo garbage >m.txt
$paradl design --model resnet50 --batch 512 --samples 1M --systems dgx-h100 --pes 8 --memo m.txt; echo "rc $?"
# all constraints contradict, what would have to give is said
cat >all.yaml <<'END'
budget: 1000
power: 1kW
workloads: [{model: resnet50, batch: 512, samples: 1M}]
designs: [{system: dgx-h100, pes: [8, 16]}]
END
$paradl design all.yaml; echo "rc $?"
cat >spares.yaml <<'END'
repair_time: 2d
workloads: [{model: gpt3-125m, batch: 512, tokens: 300G}]
designs: [{system: dgx-h100, pes: 128, spares: [0, 0.1]}]
END
$paradl design spares.yaml | grep -E 'spare|waiting'
sed -i 1d spares.yaml
$paradl design spares.yaml; echo "rc $?"
cat >sites.yaml <<'END'
site_link: 10GB/s
site_latency: 20ms
workloads: [{model: vgg16, batch: 1024, steps: 1000}]
designs: [{system: dgx-h100, pes: 32, network: fat-tree, sites: [2, "2:local=100"]}]
END
$paradl design sites.yaml --threads 1 | grep -E 'sites|pipe|data' | grep -v '%)'
