# today's job, read back from another program's launch file
set +e
cat >run.sh <<'END'
TP=1
ARGS=(--num-layers 12 --hidden-size 768 --num-attention-heads 12
  --seq-length 1024 --vocab-size 50257 --tensor-model-parallel-size $TP
  --nnodes 2 --nproc-per-node 8 --micro-batch-size 4 --global-batch-size 64
  --overlap-grad-reduce --bf16)
END
p="$paradl project --system dgx-a100 --from"
$p megatron-args run.sh --measured-step 40ms >asked
grep measured asked | sed 's/projected.*/projected .../'
# what the file asks is a command line: it gives the same answer
sed -n '/^the file asks/,/[^\\]$/p' asked | tee question
sed 1d question | PATH=$(dirname "$paradl"):$PATH bash | grep '^  step' >again
grep '^  step' asked | cmp - again && echo the same
$p megatron-args run.sh --json | grep -A8 '"from"'
echo '{"train_batch_size": 64, "zero_optimization": {"stage": 0}}' >ds.json
$p deepspeed ds.json gpt2 --pes 16 | head -n 4
$p deepspeed ds.json --pes 16; echo "rc $?"
$p deepspeed ds.json gpt2; echo "rc $?"
$p megatron-args ds.json; echo "rc $?"
$p megatrn run.sh; echo "rc $?"
$paradl project gpt2 gpt2 --system dgx-a100 --strategy data=8 --batch 8; echo "rc $?"
gpt=gpt:layers=4,hidden=512,heads=8,ffn=2048,vocab=8192,seq=512
p="$paradl project $gpt --system dgx-h200 --strategy serial --batch 8 --kineto"
$p "$data/oracle/kineto_gpt.json.gz" | sed -n '/^of a step/,$p'
$p "$data/oracle/kineto_gpt.json.gz" --json | grep -A4 '"kineto"'
# a trace of something else is not compared silently
for other in "resnet50 --batch 8 --strategy serial" "gpt2 --batch 8 --strategy serial" "$gpt --batch 32 --strategy data=1,accumulate=4"; do
    $paradl project $other --system dgx-h200 --kineto "$data/oracle/kineto_gpt.json.gz" | grep -A1 'the trace has'
done
echo '{"traceEvents": [{"ts": {}}]}' >bad.json
$p bad.json; echo "rc $?"
$p nothing.json; echo "rc $?"
p="$paradl project --system dgx-a100 --from"
# how keys reach the ranks of the context axis
for k in p2p allgather a2a a2a+p2p "a2a p2p a2a" ring; do
    sed "s/--bf16/--bf16 --context-parallel-size 4 --cp-comm-type $k/" run.sh >cp.sh
    $p megatron-args cp.sh --pes 16 2>&1 | grep -E 'context=|cp-comm' | sed 's/ *$//'
done
# nodes that the scheduler is asked for, some layers that recompute
cat >job.sh <<'EOF'
#!/bin/bash
#SBATCH -N 2
#SBATCH --gres=gpu:a100:8
PP=${PP:-2}
ARGS=" \
  --num-layers 8 --hidden-size 1024 --num-attention-heads 16 \
  --seq-length 1024 --vocab-size 51200 --micro-batch-size 1 \
  --global-batch-size 32 --bf16 --pipeline-model-parallel-size $PP \
  --tp-comm-overlap --unknown-flag 3 --rampup-batch-size 16 16 100 \
  --recompute-granularity full --recompute-method block \
  --recompute-num-layers 2"
srun --ntasks-per-node=8 python pretrain_gpt.py $ARGS
EOF
$p megatron-args job.sh | sed -n '/^the file/,/^  note/p'
cat >job.toml <<'EOF'
model.name = "llama3"
model.flavor = "8B"
[training]
seq_len = 4_096
[model]
converters = [
  "float8", # torchao
]
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "InterleavedZeroBubble"
EOF
${p/a100/h100} torchtitan job.toml --pes 16 | sed -n '/^the file/,/^llama/p'
