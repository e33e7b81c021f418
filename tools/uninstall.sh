#!/bin/bash
# uninstall.sh LIST: removes the files of an install (CMake's manifest), and
# folders of our own that are empty then. DESTDIR as when it was installed.
list=${1:?}
[ -f "$list" ] || { echo "$list: nothing was installed from here"; exit 3; }
while IFS= read -r file || [ -n "$file" ]; do
    rm -f -- "${DESTDIR:-}$file" || exit 4
    own=$file
    while own=$(dirname "$own"); [[ $own/ == */paradl/* ]]; do
        rmdir -- "${DESTDIR:-}$own" 2>/dev/null || break
    done
done <"$list"
rm -f -- "$list"
