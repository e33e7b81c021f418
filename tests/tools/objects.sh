#!/bin/sh
# A compiler launcher (CMAKE_C_COMPILER_LAUNCHER) for a second build of the same
# source: objects.sh COMPILER ARGUMENTS takes the object that the build in
# $PDL_OBJECTS has of the very file, unless the file asks how it was configured;
# then, and where there is none, the compiler is called.
root=$(dirname "$0")/../..
out= src= deps= last=
for word; do
    case $last in
    -o) out=$word ;;
    -c) src=$word ;;
    -MF) deps=$word ;;
    esac
    last=$word
done
file=${out#CMakeFiles/*.dir/}
file=${file%.o}
for same in "$root/$file" "$PDL_OBJECTS/$file"; do
    cmp -s "$src" "$same" && [ "$PDL_OBJECTS/$out" -nt "$same" ] || continue
    grep -qE 'PDL_(HAVE|MPIRUN)' "$src" && break
    [ -z "$deps" ] || echo "$out:" >"$deps"
    exec cp "$PDL_OBJECTS/$out" "$out"
done
exec "$@"
