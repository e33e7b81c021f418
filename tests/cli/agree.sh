# --help, the man page and the three completions tell the same options for
# every command of the program: they are made from one table, and here is the
# proof that none of the five leaves one out.
for shell in bash zsh fish; do $paradl completion $shell >$shell; done
$paradl help --list >commands

help_options() { # of a command, from --help
    $paradl help "$1" | sed -n '/^Options:/,/^Example:/s/^ \{2,6\}\(-[a-zA-Z], \)\{0,1\}--\([a-z0-9-]*\).*/\2/p' |
        sed 's/ .*//' | sort
}
man_options() {
    $paradl help --man "$1" | sed 's/\\-/-/g' |
        sed -n '/^\.SH OPTIONS/,/^\.SH EXAMPLE/s/^\.B .*--\([a-z0-9-]*\).*/\1/p' | sort
}
bash_options() {
    sed -n "/^    '$1')\$/,/^    '/s/^        options='\(.*\)'/\1/p" "$2" |
        tr ' ' '\n' | sed 's/^--//' | sort
}
zsh_options() {
    awk -v at="'$1')" '$0 == at {on = 1; next} /^\x27/ {on = 0} on' "$2" |
        sed -n "s/^    '--\([a-z0-9-]*\).*/\1/p" | sort
}
fish_options() {
    sed -n "s/^complete -c paradl -n '__paradl_at $1' -l \([a-z0-9-]*\).*/\1/p" "$2" | sort
}
differ() { # what, command, want, got
    [ "$3" = "$4" ] && return 1
    echo "$2: $1 differs from --help: $(comm -3 <(echo "$3") <(echo "$4") | tr -s '\n\t' ' ')"
}
agree() { # the completions to look at
    local bad=0 cmd want
    while read -r cmd; do
        want=$(help_options "$cmd")
        [ -n "$want" ] || { echo "$cmd: no options in --help"; bad=1; }
        differ "the man page" "$cmd" "$want" "$(man_options "$cmd")" && bad=1
        differ bash "$cmd" "$want" "$(bash_options "$cmd" "$1")" && bad=1
        differ zsh "$cmd" "$want" "$(zsh_options "$cmd" "$2")" && bad=1
        differ fish "$cmd" "$want" "$(fish_options "$cmd" "$3")" && bad=1
    done <commands
    return $bad
}
agree bash zsh fish && echo "all agree"

# a check that never says no proves nothing
echo info >commands
sed "s/ --verbose//" bash >bash.less
grep -v -- "'--quiet" zsh >zsh.less
sed 's/-l help/-l halp/' fish >fish.less
agree bash.less zsh.less fish.less
echo "rc $?"

# the overviews name every command
$paradl help --list >commands
while read -r cmd; do
    $paradl --help | grep -q "^  $cmd  *[a-z]" || echo "$cmd: not in --help"
    $paradl help | grep -q "^  $cmd  *[a-z]" || echo "$cmd: not in help"
    $paradl help --man | grep -qx "\.B $cmd" || echo "$cmd: not in the man page"
    $paradl $cmd --help | cmp -s - <($paradl help $cmd) || echo "$cmd: --help differs"
    $paradl help $cmd | awk 'length > 80 {print FILENAME ": " $0}' | grep -v '^: *paradl'
done <commands

$paradl --help | awk 'length > 80'
$paradl help | awk 'length > 80'

# an example is a command line that runs as it is (that it gives 0 is for the
# tests of its command), and roff has nothing to say about a page
while read -r cmd; do
    $paradl help $cmd | sed -n '/^Example:/{n;p}' | grep -q '^  .*paradl ' ||
        echo "$cmd: the example is no paradl command"
    $paradl help --man $cmd | LC_ALL=C.UTF-8 man --warnings -l - 2>&1 >/dev/null
done <commands
