#!/bin/bash
# paradl serve in a browser: a form is filled in, the search watched, the report
# read; a file uploaded; what is wrong said; light, dark, wide and narrow. Needs
# chromium and libmicrohttpd; 77 without. PDL_SHOTS=DIR keeps screenshots.
paradl=$1
here=$(cd "$(dirname "$0")" && pwd)
command -v chromium >/dev/null || {
    echo "chromium_serve: no chromium: skipped"
    exit 77
}
exec python3 "$here/chromium_serve.py" "$paradl"
