#!/bin/bash
# deb.sh BUILD: Debian source and binary packages of this tree, in BUILD/deb.
# Built in a copy with one date for all files: a second build has the same bits
# (PDL_DEB_DIR: elsewhere, to try that).
set -eu
cd "$(dirname "$0")/.."
root=$PWD
out=${PDL_DEB_DIR:-$(realpath "$1")/deb}
version=$(sed -n 's/^project(paradl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH
unset PYTHONPATH PARADL_LIBRARY
if [ "$(dpkg-parsechangelog -l debian/changelog -S Version)" != "$version-1" ]; then
    echo "deb: debian/changelog is of another version than $version" >&2
    exit 3
fi
rm -rf "$out"
mkdir -p "$out"
"$root/tools/pep517.py" sdist "$out" >/dev/null
cd "$out"
mv "paradl-$version.tar.gz" "paradl_$version.orig.tar.gz"
tar xf "paradl_$version.orig.tar.gz"
cp -r "$root/debian" "paradl-$version/"
cd "paradl-$version"
if ! dpkg-buildpackage -us -uc ${PDL_DEB_FLAGS:-} >"$out/build.log" 2>&1; then
    tail -n 30 "$out/build.log" >&2
    echo "deb: failed; the whole log is $out/build.log" >&2
    exit 1
fi
cd ..
rm -rf "paradl-$version"
ls -- *.deb
