# what bash offers when the tab key is pressed; the last word is being typed
. <($paradl completion bash)
complete -p paradl
tab() {
    COMP_WORDS=(paradl "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _paradl
    echo "$* ->" "${COMPREPLY[@]}" | fold -s -w 78 | sed 's/ *$//'
}
tab inf
tab info ''
tab info --j
tab info --color ''
tab info --color = a
tab info --color =
tab completion ''
tab completion z
tab help inf
tab nonsense -
# names of what is built in, where a table says MODEL, SYSTEM, ...
tab plan resnet1
tab plan gpt2 --system dgx-h
tab plan gpt2 --system = dgx-h
tab project gpt2 --framework mega
tab simulate allreduce --algorithm ring-r
tab simulate allreduce -t fat
tab topology show drag
tab framework show nano
tab system show abci
tab plan gpt2 --pes ''
