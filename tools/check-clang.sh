#!/bin/bash
# check-clang.sh BUILD: what gcc compiles in BUILD, clang takes without a
# warning too. Nothing is made of it: 'make check-long' builds and links with
# clang. A file that was clean is not looked at again until it, a header or its
# command changes.
cd "$(dirname "$0")/.." || exit 5
build=$(realpath "$1")
dir=$build/clang-syntax
mkdir -p "$dir"
{
    clang --version
    find include src tests "$build/onnx" -name '*.h' -print0 | sort -z |
        xargs -0 cat tools/check-clang.sh
} | sha256sum >"$dir/new"
cmp -s "$dir/new" "$dir/headers" || cp "$dir/new" "$dir/headers"
# libgomp is gcc's: without clang's own OpenMP its pragmas are comments
openmp=
clang -fopenmp -fsyntax-only -x c - <<<'#include <omp.h>' 2>/dev/null || openmp='s/ -fopenmp / /'
sed -n 's/^  "command": "\(.*\)",$/\1/p' "$build/compile_commands.json" | sed 's/\\\(.\)/\1/g' |
    sed -E "s/^([^ ]*ccache )?[^ ]+ //; s/ -o [^ ]+ -c / /; $openmp" | sort -u >"$dir/commands"
n=$(wc -l <"$dir/commands")
[ "$n" -gt 100 ] || { echo "only $n files in $build/compile_commands.json"; exit 1; }
look() { # each: clang's arguments as a shell reads them, the last one the file
    local line file ok bad=0
    for line; do
        file=${line##* }
        ok=$dir/${file//\//_}.${#line}
        [ "$ok" -nt "$file" ] && [ "$ok" -nt "$dir/headers" ] && [ "$(<"$ok")" = "$line" ] && continue
        eval "clang -fsyntax-only $line" && echo "$line" >"$ok" || bad=1
    done
    return $bad
}
export -f look
export dir
# a check that never says no proves nothing
echo 'int f(int unused) { return 1; }' >"$dir/wrong.c"
look "-Wall -Wextra -Werror $dir/wrong.c" 2>/dev/null && { echo "clang takes anything"; exit 1; }
tr '\n' '\0' <"$dir/commands" | (cd "$build" && xargs -0 -P2 -n40 bash -c 'look "$@"' look) || exit 1
echo "clang: $n files without a warning"
