# what bash offers when the tab key is pressed; the last word is being typed
. <($paradl completion bash)
complete -p paradl
tab() {
    COMP_WORDS=(paradl "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _paradl
    echo "$* ->" "${COMPREPLY[@]}"
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
