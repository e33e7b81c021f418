#!/bin/bash
# check-width.sh BUILD: text for people fits a terminal of 80 columns.
#
#  1. The golden outputs of the command line (tests/cli/*.out), but for the
#     lines below. Messages on standard error (*.err) are one line each,
#     whatever their length, and are not looked at.
#  2. The help of every command, the overview and the lists.
#  3. Projected beside measured, of the runs that ship with the tests.
#  4. Sources, but for tables inside a fence (clang-format off), and the
#     comments of scripts.
cd "$(dirname "$0")/.." || exit 5
paradl=$(realpath "$1")/paradl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NO_COLOR=1 LC_ALL=C.UTF-8
unset COLUMNS

# CASE  EXPRESSION: what may be wider, each with its reason.
cat >"$work/allowed" <<'END'
# JSON: rows of lists stand on one line
.* ^ *[{"]
# other programs' formats: MSCCL, SimGrid, a schedule as a table of commas
collective ^ *<
topology ^ *<
schedules ^[0-9,FIWB]*$
# HTML of a report
report ^<
# a file that is written says how it was made, on one line for grep
export ^# made by: 
# a model and a strategy are each one word of a command line, which cannot be
# broken
from ^  paradl project gpt:.* \\$
from ^    --strategy '[^']*' \\$
# the layers of a stage in torchtitan's form
export ^ *\[".*"\],?$
# a layer's name is not cut where nobody reads along
model_show ^xception_features\.block
# --routes: one line a pair, for programs
topology ^[0-9]+ [0-9]+ [0-9.e-]+ 
# not the program's: the test's own words around it
trace ^(data|pipe)=.* \[\(
transformer ^[a-z0-9=+,():-]+: [0-9]+ operations
wrong ^[0-9]+ \[1\]
# messages, which stand beside their exit codes here
wrong_runs ^paradl: 
# a counterexample of a proof, behind the row of its algorithm
collective ^allreduce +ring .*rank 0 ends with
END
grep -v '^#' "$work/allowed" >"$work/rules"

too_wide() { # case; reads lines, prints those that are too wide
    LC_ALL=C awk -v name="$1" '
        NR == FNR {at = index($0, " "); n++; of[n] = "^" substr($0, 1, at - 1) "$"
                   form[n] = substr($0, at + 1); next}
        {points = $0; gsub(/[\200-\277]/, "", points)} # the rest of UTF-8
        length(points) > 80 {
            for (i = 1; i <= n; i++) if (name ~ of[i] && $0 ~ form[i]) next
            print name ":" FNR ": " length(points) " columns: " substr($0, 1, 60) "..."
        }' "$work/rules" -
}

# Sources: what is wide outside a fence.
wide_source() { # reads names of files
    LC_ALL=C xargs awk '
        FNR == 1 {fence = 0}
        /clang-format off/ {fence = 1}
        /clang-format on/ {fence = 0}
        {points = $0; gsub(/[\200-\277]/, "", points)}
        !fence && length(points) > 80 {
            print FILENAME ":" FNR ": " length(points) " columns"
        }'
}

wide_comments() { # of scripts; reads names of files
    xargs grep -EHn '^ *#.{80}' | while IFS=: read -r file line text; do
        [ ${#text} -le 80 ] || echo "$file:$line: ${#text} columns"
    done
}

# A check that never says no proves nothing.
long=$(printf 'x%.0s' {1..81})
for wrong in "plan $long" "wrong $long" "plan 3 [1] $long"; do
    [ -n "$(echo "${wrong#* }" | too_wide "${wrong%% *}")" ] ||
        { echo "check-width.sh does not see: $wrong"; exit 1; }
done
[ -z "$(echo "  \"$long" | too_wide plan)$(printf 'ä%.0s' {1..80} | too_wide plan)" ] ||
    { echo "check-width.sh sees what is allowed"; exit 1; }

printf '/* %s */\n// clang-format off\n%s\n// clang-format on\n' "$long" "$long" >"$work/wide.c"
[ "$(echo "$work/wide.c" | wide_source)" = "$work/wide.c:1: 87 columns" ] ||
    { echo "check-width.sh does not see a wide source, or what is fenced"; exit 1; }

printf 'echo %s\n  # %s\n' "$long" "$long" >"$work/wide.sh"
[ "$(echo "$work/wide.sh" | wide_comments)" = "$work/wide.sh:2: 85 columns" ] ||
    { echo "check-width.sh does not see a wide comment of a script"; exit 1; }

{
    find src include examples -name '*.[ch]' | sort | wide_source
    {
        echo .ci/run
        find tools tests bench packaging examples -name '*.sh' -o -name '*.bash'
    } | sort | wide_comments
    for out in tests/cli/*.out; do
        too_wide "$(basename "$out" .out)" <"$out"
    done
    "$paradl" --help | too_wide overview
    "$paradl" help --list | while read -r cmd; do
        # shellcheck disable=SC2086
        "$paradl" help $cmd | too_wide "help $cmd"
    done
    for list in model system topology collective; do
        "$paradl" $list list --verbose | too_wide "$list list"
    done
    for measured in runs layers published; do
        "$paradl" validate --measured tests/data/oracle/$measured.json |
            too_wide "validate $measured"
    done
} >"$work/found"
cat "$work/found"
[ -s "$work/found" ] && exit 1
echo "width: outputs, help, lists and sources fit 80 columns"
