#!/bin/bash
# Programs built against the last release still run: abidiff. 77 without it.
exec "$(dirname "$0")/../../tools/abi.sh" "$(dirname "$1")"
