#!/bin/sh
# Man pages and completions, made by the program from its command tables.
set -eu
paradl=$1
out=$2
rm -rf "$out"
mkdir -p "$out/man1"
"$paradl" help --man >"$out/man1/paradl.1"
"$paradl" help --list | while read -r cmd; do
    "$paradl" help --man "$cmd" >"$out/man1/paradl-$(echo "$cmd" | tr ' ' -).1"
done
for shell in bash zsh fish; do
    "$paradl" completion $shell >"$out/paradl.$shell"
done
