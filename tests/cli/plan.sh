# strategies ranked
set +e
$paradl plan vgg16 --system abci-v100 --pes 8 --batch 256 --top 5
$paradl plan resnet50 --system abci-v100 --pes 16 --batch 512 --strategies data,filter --space
$paradl plan resnet50 --system abci-v100 --pes 16; echo "rc $?"
# what is ranked by has a column, and must be known
p="$paradl plan gpt2 --pes 8 --batch 64 --top 2 --strategies data,tensor -q"
$p --system dgx-h100 --goal cost; echo "rc $?"
$p --system dgx-h100:pe.price_per_hour=2.5 --goal cost | grep STRATEGY
$p --system dgx-h100 --goal energy | grep STRATEGY
# as many PEs as are best; more to choose from is never slower
for n in 1 3 4 8; do
    $paradl plan resnet50 --system abci-v100 --max-pes $n --batch 32 --top 1 --strategies data,spatial --json -q |
        python3 -c 'import json, sys; x = json.load(sys.stdin); print(x["pes"], x["plans"][0]["strategy"])'
done
$paradl plan lenet5 --system abci-v100 --pes 4 --max-pes 8 --batch 8; echo "rc $?"
# what no framework runs is labelled; an unknown one is told the others
$paradl plan gpt2 --system dgx-h100 --pes 8 --batch 64 --top 1 --strategies data -q --framework none | head -1
$paradl plan gpt2 --system dgx-h100 --pes 8 --batch 64 --framework xyz; echo "rc $?"
$paradl plan gpt2 --system dgx-h100 --pes 8 --batch 64 --top 1 --strategies data -q --framework in-house | head -2
# a file takes parameters, too
cat >my.yaml <<Y
name: mine
nodes: 1
pe: {name: core, peak: {fp32: 30GFLOP/s}, memory: 1GiB, memory_bandwidth: 10GB/s}
node: {pes: 2, links: {type: memory, shape: switch, bandwidth: 2GB/s, latency: 1us}}
network: {levels: []}
Y
$paradl project lenet5 --system my.yaml:pe.memory=1MiB --batch 512 --strategy data=2 | grep -i 'fit'
$paradl project lenet5 --system my.yaml:pe.memroy=1MiB --batch 64 --strategy data=2; echo "rc $?"
# larger than memory: decided block by block, with the reasons
$paradl plan resnet50 --system abci-v100 --pes 1 --batch 384 --offload auto | sed -n '/^   STRAT/,/^x/p;/decided/,/^best/p;/^Out of core/,/proved/p'
$paradl plan gpt2 --system abci-v100 --pes 1 --batch 32 --precision fp32 --offload none --framework own --top 60 | grep -c 'offload=\|swap=' || :
# blocks that differ, and the text beside a tower of images: states are shared
for m in gpt-oss-20b gemma-4-31b-it; do
    $paradl plan $data/hf/$m.json --system dgx-h100 --pes 64 --batch 128 --top 1 | grep -A1 '^\*'
done
$paradl plan $data/hf/gpt-oss-20b.json --system dgx-h100 --pes 64 --batch 128 --report oss.html >/dev/null && grep -m1 -o ' tokens, .*</title>' oss.html
$paradl project gpt2 --system dgx-h100 --strategy data=8 --batch 64 --framework megatron --report p.html >/dev/null && grep -m1 -o ' tokens, .*</title>' p.html
$paradl plan gpt2 --system dgx-h100:pe.price_per_hour=2.5 --pes 8 --batch 64 --tokens 15T --top 1 | grep -A1 'tokens:'
# very many micro-batches are no work; bytes that cannot be counted are refused
$paradl plan llama3.1-8b --system dgx-h100 --pes 64 --batch 1000000 --top 1 -q | grep -A1 '^\*'
$paradl plan llama3.1-8b --system dgx-h100 --pes 64 --batch 9223372036854775807; echo "rc $?"
# nothing fits: the nearest first, and who knows what would
$paradl plan llama3.1-70b --system dgx-h100 --pes 4 --batch 64 --top 1 -q; echo "rc $?"
