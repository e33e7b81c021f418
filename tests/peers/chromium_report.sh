#!/bin/bash
# A browser reads the pages: every chart and table is in its document, it logs
# no error, and with the network forbidden by the page itself nothing is asked
# for. A page with a planted error must be seen. Needs chromium; 77 without.
paradl=$1
command -v chromium >/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
complain() { echo "$*"; bad=1; }

browse() { # page: its document to $dir/dom, its messages to $dir/log
    rm -rf "$dir/profile"
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-quic \
        --no-first-run --disable-background-networking --disable-component-update \
        --disable-sync --user-data-dir="$dir/profile" --enable-logging=stderr \
        --v=0 --dump-dom "file://$1" >"$dir/dom" 2>"$dir/log" </dev/null
}

errors() { grep -E 'CONSOLE' "$dir/log"; }

"$paradl" plan resnet50 --system abci-v100 --pes 16 --batch 512 \
    --report "$dir/plan.html" >/dev/null
"$paradl" collective compare allreduce --topology 'torus:4x4;torus:8x8;dln:q=3,p=2;fat-tree:down=16x64,up=1x8' \
    --size 4KiB,1MiB --algorithms 'ring;halving-doubling' --report "$dir/compare.html" >/dev/null
"$paradl" simulate allreduce --topology torus:4x4 --size 1MiB --links --json |
    "$paradl" report - -o "$dir/simulate.html"
for page in "plan 2 3" "compare 9 10" "simulate 3 4"; do
    read -r name charts tables <<<"$page"
    browse "$dir/$name.html" || complain "$name: the browser failed"
    got=$(grep -c '<svg ' "$dir/dom")
    [ "$got" -ge "$charts" ] || complain "$name: $got charts, wanted $charts"
    got=$(grep -c '<table>' "$dir/dom")
    [ "$got" -ge "$tables" ] || complain "$name: $got tables, wanted $tables"
    [ -z "$(errors)" ] || complain "$name: $(errors | head -n 1)"
    grep -oE '(src|href)="[^"#][^"]*"|https?://[^" ]*|url\([^)]*\)' "$dir/$name.html" |
        grep -vxE 'href="data:,"|http://www.w3.org/2000/svg' &&
        complain "$name: refers to something outside"
done
# test the tester: a script error and a reference outside are noticed
sed 's|</body>|<script>nosuchthing()</script><img src="http://localhost/x"></body>|' \
    "$dir/plan.html" >"$dir/wrong.html"
browse "$dir/wrong.html"
[ "$(errors | wc -l)" -ge 2 ] || complain "planted errors were not seen"
echo "chromium_report: 3 pages"
[ $bad = 0 ]
