#!/bin/bash
# make install, seen from outside: install.sh BUILD. A program is compiled
# against the installed files by pkg-config and by CMake and run, then all of
# it again after the prefix has moved.
set -u
build=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
must() { # what, command...
    local what=$1
    shift
    "$@" >"$work/log" 2>&1 && return
    echo "FAILED: $what: $*"
    sed 's/^/    /' "$work/log" | tail -n 15
    bad=1
}
version=$(sed -n 's/^project(paradl VERSION \([0-9.]*\).*/\1/p' "$here/../../CMakeLists.txt")

must "install" cmake --install "$build" --prefix "$work/one"

users() { # prefix: everything a user of the library does
    local p=$1 lib pc odd
    pc=$(find "$p" -name paradl.pc)
    lib=$(dirname "$(dirname "$pc")")
    export PKG_CONFIG_PATH="$lib/pkgconfig"
    export LD_LIBRARY_PATH="$lib"
    must "pkg-config finds the version" test "$(pkg-config --modversion paradl)" = "$version"
    case "$(pkg-config --cflags paradl) " in
    *"/include "*) ;;
    *) echo "FAILED: no include folder in: $(pkg-config --cflags paradl)"; bad=1 ;;
    esac
    # shellcheck disable=SC2046
    must "compile by pkg-config" gcc -Wall -Werror "$here/user.c" -o "$work/user" \
        $(pkg-config --cflags --libs paradl)
    must "run" "$work/user" "$version"
    # shellcheck disable=SC2046
    must "compile examples/plan.c" gcc -Wall -Werror "$here/../../examples/plan.c" \
        -o "$work/plan" $(pkg-config --cflags --libs paradl)
    must "examples/plan.c says why" grep -q '^- ' <("$work/plan" lenet5 dgx-a100 8 64)
    must "it uses the shared library" grep -q "$lib/libparadl.so.0" <(ldd "$work/user")
    # shellcheck disable=SC2046
    must "link the archive" gcc "$here/user.c" -o "$work/static" \
        $(pkg-config --cflags paradl) "$lib/libparadl.a" \
        $(pkg-config --libs jansson yaml-0.1 libprotobuf-c libxxhash expat zlib) -lm
    must "run with the archive" "$work/static" "$version"
    if [ -e "$lib/pkgconfig/paradl-run.pc" ]; then # where MPI was found
        # shellcheck disable=SC2046
        must "compile against libparadl-run" gcc -Wall -Werror \
            "$here/../../examples/allreduce.c" -o "$work/allreduce" \
            $(pkg-config --cflags --libs paradl-run)
        must "the preloaded library" test -s "$lib/libparadl-mpi.so"
        odd=$(nm -D --defined-only "$lib/libparadl-comm.so.0" | awk '$2 != "A" {print $3}' |
            grep -vE '^pdl_(comm|sparse|topk|feedback)_')
        must "libparadl-comm.so shows collectives alone, not: $odd" test -z "$odd"
    fi
    rm -rf "$work/cmake"
    must "configure by find_package" cmake -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$p"
    must "build by find_package" cmake --build "$work/cmake"
    must "run what CMake built" "$work/cmake/user" "$version"
    unset LD_LIBRARY_PATH # the program carries its library
    must "the program runs" test "$("$p/bin/paradl" --version)" = "paradl $version"
    for page in paradl $("$p/bin/paradl" help --list | tr ' ' - | sed 's/^/paradl-/'); do
        must "man page $page" test -s "$p/share/man/man1/$page.1"
        must "man -l $page" grep -q NAME <(man -l "$p/share/man/man1/$page.1" 2>&1)
    done
    must "bash completion" bash -n "$p/share/bash-completion/completions/paradl"
    must "zsh completion" grep -q '^#compdef paradl' "$p/share/zsh/site-functions/_paradl"
    must "fish completion" test -s "$p/share/fish/vendor_completions.d/paradl.fish"
    must "soname" grep -q 'SONAME.*\[libparadl\.so\.0\]' <(readelf -d "$lib/libparadl.so")
    must "no build folder inside" test -z "$(grep -rlI "$build" "$p")"
    odd=$(nm -D --defined-only "$lib/libparadl.so.0" | awk '$2 != "A" {print $3}' |
        grep -v '^pdl_')
    must "only pdl_ names are exported, not: $odd" test -z "$odd"
    # what is exported is declared, under a name that says something: a header
    # of ours and four letters after pdl_ at least, but for those of base.h
    nm -D --defined-only "$lib/libparadl.so.0" | sed -n 's/.* [TDRB] \(pdl_[a-z0-9_]*\).*/\1/p' |
        sort -u >"$work/exported"
    cat "$p"/include/paradl/*.h | grep -o 'pdl_[a-z0-9_]*' | sort -u >"$work/declared"
    odd=$(comm -23 "$work/exported" "$work/declared")
    must "what is exported is declared, not: $odd" test -z "$odd"
    grep -o 'pdl_[a-z0-9_]*' "$p/include/paradl/base.h" | sort -u >"$work/base"
    odd=$(comm -23 "$work/exported" "$work/base" | grep -E '^pdl_.{0,4}$')
    must "names are long enough, not: $odd" test -z "$odd"
    for name in price lanes match part select; do
        must "pdl_$name is too short a name" test -z "$(grep -x "pdl_$name" "$work/declared")"
    done
    # test hooks are no part of the interface
    odd=$(grep -nwE 'fault|fault_op' "$p"/include/paradl/*.h)
    must "no test hooks in headers, not: $odd" test -z "$odd"
    must "some pdl_ names are exported" grep -q ' T pdl_version' <(nm -D "$lib/libparadl.so.0")
}

users "$work/one"
# what make uninstall does: nothing is left
must "install elsewhere" cmake --install "$build" --prefix "$work/three"
must "uninstall" "$here/../../tools/uninstall.sh" "$build/install_manifest.txt"
must "nothing is left" test -z "$(find "$work/three" -type f -o -type l -o -name 'paradl*')"
# the same below a folder that is not the root, as packagers do it
export DESTDIR=$work/stage
must "install with DESTDIR" cmake --install "$build" --prefix /opt/paradl
must "it is there" test -x "$work/stage/opt/paradl/bin/paradl"
must "uninstall with DESTDIR" "$here/../../tools/uninstall.sh" "$build/install_manifest.txt"
must "nothing is left there" test -z "$(find "$work/stage" -type f -o -type l -o -name 'paradl*')"
unset DESTDIR
mv "$work/one" "$work/two"
users "$work/two"
[ $bad = 0 ] && echo "install: works, and works after moving"
exit $bad
