#!/bin/bash
# check-docs.sh BUILD [--update]: the documents say what is true.
#
#  1. The table of commands in README.md, between the two marks, is what the
#     program says (paradl help). --update rewrites it.
#  2. Every relative link in a *.md exists.
#  3. In fenced blocks, a line "$ paradl ..." runs with exit code 0 and prints
#     exactly the lines that follow it, up to the next "$ " or the end of the
#     block. It goes on below where it ends in a backslash. A line "..."
#     stands for any lines. "$ paradl ..." alone in its
#     block only has to run. Other "$ " lines are not run. A line "paradl ..."
#     (with its continuations) has to run too, where the files it reads are
#     there and no word of it stands for others (MODEL, [-n P]).
#  4. Every room of tools/rooms.txt has a row in doc/architecture.md that ends
#     in "here" when it has sources and in "planned" when it has none.
#     --update rewrites that word.
cd "$(dirname "$0")/.." || exit 5
build=$(realpath "$1")
update=${2:-}
paradl=$build/paradl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
complain() { echo "$*"; bad=1; }
export NO_COLOR=1 LC_ALL=C.UTF-8
unset COLUMNS

rows() { # the summary stands on one line in the man page
    echo "| command | what it does |"
    echo "|---|---|"
    "$paradl" help --list | while read -r cmd; do
        printf '| `paradl %s` | %s |\n' "$cmd" \
            "$("$paradl" help --man "$cmd" | sed -n '/^\.SH NAME/{n;s/\\-/-/g;s/^[^ ]* - //p}')"
    done
}

check_table() { # README
    rows >"$work/want"
    if [ "$update" = --update ]; then
        awk -v rows="$work/want" '
            /^<!-- commands: / {print; while ((getline l < rows) > 0) print l; skip = 1; next}
            /^<!-- end of commands -->/ {skip = 0}
            !skip' "$1" >"$work/new" && cp "$work/new" "$1"
    fi
    sed -n '/^<!-- commands: /,/^<!-- end of commands -->/p' "$1" | sed '1d;$d' >"$work/got"
    diff -u --label "the program" --label "$1" "$work/want" "$work/got" ||
        complain "$1: the table of commands is old: tools/check-docs.sh build --update"
}

check_links() { # file
    local link target
    while IFS= read -r link; do
        case $link in
        *://* | mailto:* | \#*) continue ;;
        esac
        target=$(dirname "$1")/${link%%#*}
        [ -e "$target" ] || complain "$1: no such file: $link"
    done < <(sed '/^```/,/^```/d; s/`[^`]*`//g' "$1" | grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//')
}

# Does the text in $2 match the pattern lines in $1 ("..." = any lines)?
matches() {
    awk 'NR == FNR {want[++n] = $0; next} {got[++m] = $0}
        function fits(i, j) {
            if (i > n) return j > m
            if (want[i] == "...") {
                for (; j <= m + 1; j++) if (fits(i + 1, j)) return 1
                return 0
            }
            return j <= m && want[i] == got[j] && fits(i + 1, j + 1)
        }
        END {exit !fits(1, 1)}' "$1" "$2"
}

run_one() { # file, line number, command line, file of wanted lines
    (cd "$work/cwd" && PATH="$build:$PATH" bash -c "$3") >"$work/out" 2>"$work/err" </dev/null
    local rc=$?
    if [ $rc != 0 ]; then
        complain "$1:$2: '$3' exits with $rc: $(head -n1 "$work/err")"
    elif [ -s "$4" ] && ! matches "$4" "$work/out"; then
        complain "$1:$2: '$3' prints something else:"
        diff -u --label "$1" --label "the program" "$4" "$work/out" | sed 1,2d | head -n 20
    fi
}

# What documents call today's job, and what they measured.
samples() { # folder
    cp tests/data/oracle/runs.json tests/data/oracle/layers.json "$1"
    printf '%s\n' 'ARGS="--num-layers 12 --hidden-size 768 --num-attention-heads 12' \
        '--seq-length 1024 --micro-batch-size 4 --global-batch-size 64 --bf16"' \
        'torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py $ARGS' >"$1/run.sh"
    echo '{"train_batch_size": 128, "bf16": {"enabled": true}, // ours
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}' >"$1/ds.json"
}

# Can a plain "paradl ..." line be run here?
can_run() {
    local word last=
    for word in $1; do
        case $last in -o | --output | --report | --emit | --trace | '>') last=$word; continue ;; esac
        case $word in
        *[][]* | [A-Z]*[A-Z] | *'|'*) return 1 ;;
        *.json | *.yaml | *.sh | *.plan | *.onnx) [ -e "$work/cwd/$word" ] || return 1 ;;
        esac
        last=$word
    done
}

check_commands() { # file
    local n=0 line fence= cmd= at=0 joined= wrapped=
    rm -rf "$work/cwd"; cp -r examples "$work/cwd" 2>/dev/null || mkdir "$work/cwd"
    samples "$work/cwd"
    : >"$work/lines"
    while IFS= read -r line || [ -n "$line" ]; do
        n=$((n + 1))
        if [ -z "$cmd" ] && [ -n "$fence" ]; then
            case $joined$line in
            'paradl '*\\) joined="$joined${line%\\} "; continue ;;
            'paradl '*)
                can_run "$joined$line" && : >"$work/none" &&
                    run_one "$1" $n "$joined$line" "$work/none"
                joined=
                continue ;;
            esac
        fi
        case $wrapped in
        1)
            cmd="${cmd%\\}${line#"${line%%[! ]*}"}"
            case $line in *\\) ;; *) wrapped= ;; esac
            continue ;;
        esac
        case $line in
        '```'*)
            [ -n "$cmd" ] && run_one "$1" $at "$cmd" "$work/lines"
            cmd=
            [ -n "$fence" ] && fence= || fence=1 ;;
        '$ '*)
            [ -n "$cmd" ] && run_one "$1" $at "$cmd" "$work/lines"
            cmd=
            : >"$work/lines"
            case "$fence$line" in '1$ paradl '*) cmd=${line#\$ } at=$n ;; esac
            case "$cmd" in *\\) wrapped=1 ;; esac ;;
        *) [ -n "$cmd" ] && printf '%s\n' "$line" >>"$work/lines" ;;
        esac
    done <"$1"
}

check_rooms() { # architecture
    local room row state
    for room in $(sed -n 's/^\([a-z]*\):.*/\1/p' tools/rooms.txt); do
        state=planned
        [ -n "$(find src/"$room" -name '*.[ch]' 2>/dev/null)" ] && state=here
        [ "$update" = --update ] &&
            sed -i "/^| \`$room\` |/s/| [a-z]* |\$/| $state |/" "$1"
        row=$(grep "^| \`$room\` |" "$1")
        case $row in
        *"| $state |") ;;
        "") complain "$1: room '$room' is missing" ;;
        *) complain "$1: room '$room' is $state: tools/check-docs.sh build --update" ;;
        esac
    done
}

# A check that never says no proves nothing: a document with one of each fault.
cat >"$work/wrong.md" <<'EOF'
[gone](no/such/file.md)
```
$ paradl --version
paradl 99
$ paradl nonsense
$ paradl \
    --version
paradl 98
```
```
paradl nonsense \
    --more
paradl nonsense MODEL
paradl nonsense gone.json
```
<!-- commands: -->
| `paradl gone` | away |
<!-- end of commands -->
| `base` | planned |
EOF
self_test() {
    local faults
    faults=$(
        update=
        check_links "$work/wrong.md"
        check_commands "$work/wrong.md"
        check_table "$work/wrong.md"
        check_rooms "$work/wrong.md"
    )
    for fault in "no such file: no/such/file.md" "wrong.md:3: 'paradl --version' prints" \
        "wrong.md:5: 'paradl nonsense' exits with 2" "table of commands is old" \
        "wrong.md:6: 'paradl --version' prints" "wrong.md:12: 'paradl nonsense      --more' exits with 2" \
        "room 'base' is here" "room 'cli' is missing"; do
        grep -qF -- "$fault" <<<"$faults" || complain "check-docs.sh does not see: $fault"
    done
    grep -qE 'MODEL|gone.json' <<<"$faults" && complain "check-docs.sh runs what it cannot"
}

self_test
check_table README.md
while IFS= read -r f; do
    check_links "$f"
    check_commands "$f"
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' | sort)
check_rooms doc/architecture.md
[ $bad = 0 ] && echo "docs: tables, links, commands and rooms are true"
exit $bad
