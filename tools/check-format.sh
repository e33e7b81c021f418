#!/bin/sh
# clang-format has nothing to change.
cd "$(dirname "$0")/.." || exit 5
files=$(find src include tests examples -name '*.[ch]' 2>/dev/null | sort)
# shellcheck disable=SC2086
clang-format --dry-run --Werror $files || { echo "run 'make format'"; exit 1; }
echo "format: nothing to change"
