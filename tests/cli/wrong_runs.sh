# wrong input of the commands that run: one line each, 2 usage, 3 bad input
set +e
digits="$data/../../examples/digits.yaml"
say() { "$@" 2>&1 | sed "s|$data/../..|.|g"; echo "= ${PIPESTATUS[0]}"; }
train="$paradl train $digits --data digits --steps 1 --virtual"
mkdir folder
: >empty
head -c 100 "$0" >text
for value in --batch=0 --steps=-1 --ranks=-2 --lr=0 --lr=-1 --clip=nan --warmup=-1 \
    --label-smoothing=1.5 --threads=9999999999 --loss-scale=big --seed=x \
    --resume --every=5 --lr-every=3 --lr-last=0.1 --samples=9 --log-every=2; do
    echo "train $value"
    say $train $value
done
for value in --checkpoint=empty --checkpoint= --trace=folder --timings=no/such \
    --save=weights.bin --outputs=folder --load=empty --load=folder --load=text; do
    echo "train $value"
    say $train $value
done
for file in empty text folder nosuch; do
    echo "train --data $file"
    say $paradl train $digits --data $file
    say $paradl train --plan $file --data digits
done
say $paradl diff-run a b --steps 3
say $paradl diff-run serial data=2 --model $digits --tolerance -1
say $paradl diff-run empty text
say $paradl diff-run folder folder
say $paradl bench allreduce -n 0
say $paradl bench allreduce --iterations -3
say $paradl bench allreduce --profile text --transport memory
say $paradl calibrate --fit text --base abci-v100
say $paradl calibrate -o folder
say $paradl validate $digits --report no/such.html
say $paradl validate $digits --steps 0
say $paradl validate $digits --system abci-v100 --strategy data=1 --steps 1
say $paradl train "$data/../fuzz/corpus/onnx/if_seq.onnx" --data synthetic --steps 1
say $paradl evaluate $digits --data synthetic --threads 4097
