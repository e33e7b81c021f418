# colour: at a terminal, where it is asked for, never in a pipe
export TERM=xterm
plain() { ! grep -q $'\033' && echo plain; }
ask="plan lenet5 --system abci-v100 --pes 2 --batch 8 --top 2"
$paradl $ask --color always | sed 's/[0-9.]* [mu]s/T/g;s/  */ /g' | head -n 4 | cat -v
unset NO_COLOR
$paradl $ask | plain
$paradl $ask --json --color always | plain
script -qec "$paradl $ask" /dev/null </dev/null | grep -c $'\033\[1;32m'
NO_COLOR=1 script -qec "$paradl $ask" /dev/null </dev/null | plain
TERM=dumb script -qec "$paradl $ask" /dev/null </dev/null | plain
$paradl project vgg16 --system abci-v100 --strategy serial --batch 4096 --color always | grep $'\033' | cat -v | cut -c 1-70
