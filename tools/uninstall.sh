#!/bin/bash
# uninstall.sh LIST: removes the files of an install (CMake's manifest), and
# folders of our own that are empty then. DESTDIR as when it was installed.
list=${1:?}
[ -f "$list" ] || { echo "$list: nothing was installed from here"; exit 3; }
while IFS= read -r file || [ -n "$file" ]; do
    rm -f -- "${DESTDIR:-}$file" || exit 4
    case $file in
    */paradl/*) rmdir --ignore-fail-on-non-empty -- "$(dirname "${DESTDIR:-}$file")" 2>/dev/null ;;
    esac
done <"$list"
rm -f -- "$list"
