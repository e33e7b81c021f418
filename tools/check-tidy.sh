#!/bin/bash
# check-tidy.sh BUILD: clang-tidy with the checks of .clang-tidy over the
# library and the program: the files that this build compiles (without CUDA's
# headers its device is not among them; they are named). A file that was clean
# and has not changed since, nor any header, nor the checks, is not looked at
# again.
# The analyser follows a function for 30,000 states, which takes a fraction of
# the time of its default, 225,000 (with 10,000 it loses sight of MPI requests);
# PDL_LONG=1 gives it those.
cd "$(dirname "$0")/.." || exit 5
build=$1
mkdir -p "$build/tidy"
nodes=30000
[ -n "$PDL_LONG" ] && nodes=225000
export nodes
common=$(cat .clang-tidy tools/check-tidy.sh include/paradl/*.h $(find src -name "*.h" | sort) | sha256sum)
tidy_one() { # build, common, file
    local log=$1/tidy/${3//\//_}.log ok=$1/tidy/${3//\//_}.ok sum
    sum="$2 $nodes $(sha256sum "$3")"
    [ "$(cat "$ok" 2>/dev/null)" = "$sum" ] && return 0
    rm -f "$ok"
    if clang-tidy --quiet -p "$1" --extra-arg=-Xclang \
        --extra-arg=-analyzer-config --extra-arg=-Xclang \
        --extra-arg="max-nodes=$nodes" "$3" >"$log" 2>"$log.err" &&
        ! grep -qE 'warning:|error:' "$log"; then
        echo "$sum" >"$ok"
        return 0
    fi
    grep -E 'warning:|error:' "$log" || tail -n 5 "$log.err"
    return 1
}
export -f tidy_one
compiled() { # the file of every entry of the build's list, from this folder on
    sed -n "s|^ *\"file\": \"$PWD/\(src/.*\.c\)\",\?$|\1|p" \
        "$build/compile_commands.json" | sort -u
}
if [ -z "$(compiled)" ]; then
    echo "check-tidy: $build/compile_commands.json names no file of src"
    exit 1
fi
comm -13 <(compiled) <(find src -name '*.c' | sort) |
    sed 's/^/clang-tidy: not compiled here, left out: /'
compiled |
    xargs -P2 -n1 bash -c 'tidy_one "$0" "$1" "$2"' "$build" "$common"
rc=$?
[ $rc = 0 ] && echo "clang-tidy: nothing found"
exit $rc
