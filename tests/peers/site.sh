#!/bin/bash
# make site: every link leads somewhere, and a browser finds nothing to complain
# about at the width of a desk and of a phone. Needs python3-markdown, chromium;
# 77 without. PDL_SHOTS=DIR keeps screenshots.
paradl=$1
here=$(cd "$(dirname "$0")" && pwd)
/usr/bin/python3 -c 'import markdown' 2>/dev/null && command -v chromium >/dev/null || {
    echo "site: no python3-markdown or no chromium: skipped"
    exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
/usr/bin/python3 "$here/../../tools/site.py" "$paradl" "$tmp/site" || exit 1
cd "$tmp/site" || exit 1
python3 "$here/chromium_look.py" ${PDL_SHOTS:+--shots "$PDL_SHOTS"} --widths 1280,390 \
    index.html doc/README.html doc/python.html doc/stability.html commands/plan.html \
    gallery/index.html >"$tmp/log" || { cat "$tmp/log"; exit 1; }
echo "site: $(wc -l <"$tmp/log") views, nothing to complain about"
