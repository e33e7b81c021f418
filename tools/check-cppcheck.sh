#!/bin/sh
cd "$(dirname "$0")/.." || exit 5
cppcheck -q -j2 --std=c11 --enable=warning,portability,performance \
    --inline-suppr --error-exitcode=1 -Iinclude \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
    --suppress=unknownMacro src && echo "cppcheck: nothing found"
