# the axes of transformers: lowered, written, read, checked, proved
set +e
gpt=gpt:layers=2,hidden=8,heads=4,vocab=11,positions=6,seq=6
moe=llama:layers=1,hidden=4,heads=2,head_dim=2,ffn=3,vocab=5,seq=4,experts=4,topk=2
keys=llama:layers=1,hidden=8,heads=8,kv_heads=2,head_dim=2,ffn=8,vocab=8,seq=8
prove() {
    $paradl project "$1" --system dgx-a100 --strategy "$2" --batch 4 --emit x.plan >/dev/null &&
        $paradl plan check x.plan --prove | sed "s|^x.plan|$2|"
}
prove $gpt tensor=4
prove $gpt data=2,tensor=2+seq
prove $gpt data=2,tensor=2+seq,save=gathered
prove $gpt data=4,zero=1
prove $gpt data=4,zero=2
prove $gpt data=4,zero=3:2
prove $gpt 'pipe=2(interleaved,m=4,v=2),tensor=2'
prove $gpt data=2,recompute=full,zero=3
prove $gpt recompute=selective-op
prove $gpt context=3,tensor=2
prove $gpt 'context=3(gather),tensor=2'
prove $gpt 'context=4(a2a)'
prove $keys tensor=4
prove $keys context=2,tensor=8+seq
prove $moe data=2,expert=2
grep -c alltoallv x.plan
prove $moe tensor=2+seq,expert=2
$paradl project $gpt --system dgx-a100 --strategy tensor=8 --batch 4; echo "rc $?"
$paradl project $keys --system dgx-a100 --strategy tensor=6 --batch 4 >/dev/null; echo "rc $?"
$paradl project $keys --system dgx-a100 --strategy tensor=5 --batch 4; echo "rc $?"
$paradl project $gpt --system dgx-a100 --strategy data=4,zero=3:3 --batch 4; echo "rc $?"
$paradl project $gpt --system dgx-a100 --strategy 'pipe=4(interleaved,m=6)' --batch 12; echo "rc $?"
