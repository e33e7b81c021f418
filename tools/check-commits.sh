#!/bin/bash
# Commit titles: "room: what changes" (or "room, room: ..."), at most 60
# characters, no final dot. Looks at the last 50 commits that this check could
# have looked at: those after the one that brought it. Without history there is
# nothing to check.
cd "$(dirname "$0")/.." || exit 5
check() { # a title; says what is wrong with it
    [ ${#1} -le 60 ] || { echo "'$1': ${#1} characters, 60 are allowed"; return 1; }
    [[ $1 =~ ^[a-z][a-z0-9/-]*(,\ ?[a-z0-9/-]+)*:\ [^\ ] ]] || { echo "'$1': not 'room: what changes'"; return 1; }
    [[ $1 != *. ]] || { echo "'$1': ends with a dot"; return 1; }
}
# a check that never says no proves nothing
for wrong in "no room here" "base: ends with a dot." "base:no blank" "Base: a capital" \
    "base: $(printf 'x%.0s' {1..60})"; do
    check "$wrong" >/dev/null && { echo "the check accepts '$wrong'"; exit 1; }
done
if ! git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    echo "commits: no history here, nothing to check"
    exit 0
fi
first=$(git log --diff-filter=A --format=%H -- tools/check-commits.sh | tail -n1)
bad=0 n=0
while IFS= read -r title; do
    n=$((n + 1))
    check "$title" || bad=1
done < <(git log -50 --no-merges --format=%s ${first:+"$first..HEAD"})
[ $bad = 0 ] && echo "commits: $n titles are well formed"
exit $bad
