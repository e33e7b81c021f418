#!/bin/bash
# make demo: what ParaDL does, on real networks and machines, in a minute.
set -eu
paradl=$1
show() {
    printf '\n$ paradl'
    printf ' %s' "$@"
    printf '\n'
    "$paradl" "$@"
}
show info
