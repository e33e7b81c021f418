#!/bin/sh
# check-cppcheck.sh BUILD: cppcheck over the sources. What it knows of files
# that have not changed is kept in BUILD/cppcheck.
cd "$(dirname "$0")/.." || exit 5
mkdir -p "$1/cppcheck"
cppcheck -q -j2 --std=c11 --enable=warning,portability,performance \
    --cppcheck-build-dir="$1/cppcheck" \
    --inline-suppr --error-exitcode=1 -Iinclude \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
    --suppress=unknownMacro src && echo "cppcheck: nothing found"
