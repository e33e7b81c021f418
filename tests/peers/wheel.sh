#!/bin/bash
# The wheel: built, installed into an empty environment by its file alone, the
# package's own tests run there; the tag fits the symbols; it and the sdist are
# the same bits where they are made again. Also the types: mypy.
# 77 without Debian's python3-venv.
paradl=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
python=/usr/bin/python3
$python -c 'import venv, ensurepip' 2>/dev/null || {
    echo "wheel: no python3-venv: skipped"
    exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset PYTHONPATH PARADL_LIBRARY
bad=0
must() { # what, command...
    local what=$1
    shift
    "$@" >"$tmp/log" 2>&1 && return
    echo "FAILED: $what"
    tail -n 15 "$tmp/log"
    bad=1
}
build=$(dirname "$paradl")
# of the objects that were just built: compiled again they would be the same
pack() { # what, folder
    must "$1" env PDL_WHEEL_BUILD="$tmp/$2-build" PDL_WHEEL_LIBRARY="$(realpath "$build/libparadl.a")" \
        "$root/tools/pep517.py" "$1" "$tmp/$2"
}
pack wheel dist
wheel=$(ls "$tmp"/dist/*.whl)
must "environment" $python -m venv "$tmp/env"
must "install" "$tmp/env/bin/pip" install --no-index "$wheel"
must "the package's tests" env -C "$tmp" "$tmp/env/bin/python" "$root/tests/python/package.py"
must "orders" env -C "$tmp" "$tmp/env/bin/python" "$root/tests/python/sampler.py"
needs=$(objdump -T "$tmp"/env/lib/python3*/site-packages/paradl/*.so.* | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n1)
case $(basename "$wheel") in
*"manylinux_2_${needs#GLIBC_2.}_"*) ;;
*) echo "FAILED: $(basename "$wheel") needs $needs"; bad=1 ;;
esac
if command -v mypy >/dev/null; then
    # torch's own types take most of a minute: in make check-long
    must "types" mypy --config-file "$root/pyproject.toml" --cache-dir "$tmp/mypy" \
        $([ -n "${PDL_LONG:-}" ] || echo --follow-imports=skip) "$root"/python/paradl/*.py
else
    echo "wheel: no mypy: types are not checked"
fi
pack sdist dist
pack wheel again
pack sdist again
must "the same bits in another folder" diff -r "$tmp/dist" "$tmp/again"
must "uninstall" "$tmp/env/bin/pip" uninstall -y paradl
must "nothing is left" test -z "$(find "$tmp/env" -path '*paradl*')"
[ $bad = 0 ] && echo "wheel: $(basename "$wheel") works"
exit $bad
