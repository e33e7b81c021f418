# what a framework adds and runs; one's own file; what is refused
set +e
$paradl framework list | head -n 4
$paradl framework show megatron-deepspeed
$paradl framework show mxnet --json
$paradl framework show megatorn; echo "rc $?"
cat >mine.yaml <<Y
name: mine
title: our trainer
base: torchtitan
adds:
  - {issue: 20us, kind: profiled, source: our cluster}
Y
$paradl framework show mine.yaml | head -n 3
$paradl project gpt2 --system dgx-h100 --strategy data=8 --batch 64 \
    --framework mine.yaml | head -n 3
printf 'name: x\ntitle: y\nadds:\n  - {isue: 20us, kind: counted, source: z}\n' >bad.yaml
$paradl project gpt2 --system dgx-h100 --strategy data=8 --batch 64 \
    --framework bad.yaml; echo "rc $?"
$paradl project gpt2 --system dgx-h100 --strategy data=4,pipe=2,zero=3 \
    --batch 64 --framework megatron -v | sed -n '/^note/p;/^Rests/,$p'
