#!/bin/bash
# A browser reads the pages: every chart and table is in its document, every
# mark of the data is drawn, it logs no error, the page's own script is allowed
# by the page's policy, and with the network forbidden by the page itself
# nothing is asked for. chromium_look.py then looks at them as people do, at the
# width of a desk, a tablet and a phone, light, dark and on paper. Pages with
# planted faults must be seen. Needs chromium; 77 without.
# PDL_SHOTS=DIR keeps screenshots, to be looked at.
paradl=$1
command -v chromium >/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
complain() { echo "$*"; bad=1; }

browse() { # page option...: its document to $dir/dom, its messages to $dir/log
    local page=$1
    shift
    rm -rf "$dir/profile"
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-quic \
        --no-first-run --disable-background-networking --disable-component-update \
        --disable-sync --user-data-dir="$dir/profile" --enable-logging=stderr \
        --hide-scrollbars --virtual-time-budget=2000 --v=0 "$@" "file://$page" \
        >"$dir/dom" 2>"$dir/log" </dev/null
}

errors() { grep -E 'CONSOLE' "$dir/log"; }

count() { grep -o "$1" "$dir/dom" | wc -l; }

# what a page must have: charts (for a desk and for a phone), tables, and marks
# counted from its own data
inspect() { # name charts tables
    local name=$1 got tasks
    got=$(count '<svg ')
    [ "$got" = "$2" ] || complain "$name: $got charts, wanted $2"
    got=$(count '<table>')
    [ "$got" = "$3" ] || complain "$name: $got tables, wanted $3"
    [ -z "$(errors)" ] || complain "$name: $(errors | head -n 1)"
    tasks=$(grep -o '"start_s"' "$dir/$name.html" | wc -l)
    if [ "$tasks" -gt 0 ]; then
        grep -q "data-marks=\"$tasks\"" "$dir/dom" ||
            complain "$name: not all of $tasks tasks are painted"
    fi
}

gpt='pipe=4(interleaved,v=2,m=16),data=4,tensor=8+seq,zero=1'
"$paradl" plan resnet50 --system abci-v100 --pes 16 --batch 512 \
    --report "$dir/plan.html" >/dev/null
"$paradl" project gpt3-175b --system dgx-a100 --strategy "$gpt" --batch 64 \
    --report "$dir/project.html" >/dev/null
"$paradl" scale resnet50 --system abci-v100 --strategy data=p --pes 1..64 \
    --batch 2048 --report "$dir/scale.html" >/dev/null
"$paradl" collective compare allreduce --topology 'torus:4x4;torus:8x8;dln:q=3,p=2;fat-tree:down=16x64,up=1x8' \
    --size 4KiB,1MiB --algorithms 'ring;halving-doubling' --report "$dir/compare.html" >/dev/null
"$paradl" simulate allreduce --topology fat-tree:down=8x8,up=1x2,links=1x1,bw=12.5GB/s,lat=1us --algorithm swing --size 1MiB --links --json |
    "$paradl" report - -o "$dir/simulate.html"
cat >"$dir/runs.json" <<'END'
{"schema": "paradl.validate/1", "rows": [
 {"id": "a", "set": "one", "projected_s": 1.0, "measured_s": 1.04},
 {"id": "b", "set": "two", "projected_s": 0.02, "measured_s": 0.03}],
 "mean_accuracy": 0.8, "by": {"set": {"one": {"rows": 1, "mean_accuracy": 0.96,
 "mape": 0.04, "median_error": 0.04, "bias": -0.04, "spearman": 1}}}}
END
"$paradl" report "$dir/runs.json" -o "$dir/validate.html"
"$paradl" design "$(dirname "$0")/../../examples/design.yaml" \
    --report "$dir/design.html" >/dev/null
"$paradl" compare dgx-a100 dgx-h100 --model resnet50 --pes 8 --batch 256 \
    --report "$dir/sides.html" >/dev/null
pages=("plan 15 14" "project 9 8" "scale 4 3" "compare 16 12" "simulate 5 4" "validate 2 3"
    "design 6 11" "sides 2 3")
for page in "${pages[@]}"; do
    read -r name charts tables <<<"$page"
    browse "$dir/$name.html" --dump-dom --window-size=1280,1000 ||
        complain "$name: the browser failed"
    inspect "$name" "$charts" "$tables"
    # the bars, boxes and points of the file are those of the document
    for mark in '<rect ' '<circle ' '<polyline ' '<polygon '; do
        [ "$(count "$mark")" = "$(grep -o "$mark" "$dir/$name.html" | wc -l)" ] ||
            complain "$name: $mark are missing"
    done
    grep -oE '(src|href)="[^"#][^"]*"|https?://[^" ]*|url\([^)]*\)' "$dir/$name.html" |
        grep -vxE 'href="data:,"|http://www.w3.org/2000/svg' &&
        complain "$name: refers to something outside"
done
# as people look at them
names=()
for page in "${pages[@]}"; do names+=("$dir/${page%% *}.html"); done
"$paradl" plan llama-3-8b --system dgx-h100 --pes 64 --batch 128 \
    --report "$dir/llm.html" >/dev/null
look=$(dirname "$0")/chromium_look.py
python3 "$look" ${PDL_SHOTS:+--shots "$PDL_SHOTS"} "${names[@]}" "$dir/llm.html" \
    >"$dir/looks" || { grep -v ' charts, ' "$dir/looks"; complain "not fit to be looked at"; }
browse "$dir/project.html" --print-to-pdf="$dir/project.pdf"
[ -z "$(errors)" ] || complain "paper: $(errors | head -n 1)"
[ "$(head -c 5 "$dir/project.pdf")" = "%PDF-" ] || complain "paper: no pages"
[ -z "${PDL_SHOTS:-}" ] || cp "$dir/project.pdf" "$PDL_SHOTS"
# test the tester: a script error, a reference outside and a lost task
sed 's|</body>|<script>nosuchthing()</script><img src="http://localhost/x"></body>|' \
    "$dir/plan.html" >"$dir/wrong.html"
browse "$dir/wrong.html" --dump-dom
[ "$(errors | wc -l)" -ge 2 ] || complain "planted errors were not seen"
sed "s|'sha256-|'sha256-x|" "$dir/project.html" >"$dir/wrong.html"
browse "$dir/wrong.html" --dump-dom
grep -q 'data-marks' "$dir/dom" && complain "a script that the policy forbids ran"
# and what only eyes see: each of these faults is one line of chromium_look.py
plant() { # name of the fault, what it says, sed script
    sed "$3" "$dir/scale.html" >"$dir/$1.html"
    python3 "$look" --widths 390 "$dir/$1.html" >"$dir/looks" &&
        complain "chromium_look.py does not see: $1"
    grep -q "$2" "$dir/looks" || complain "chromium_look.py does not say '$2' of: $1"
}
plant wide 'px wide on a screen' 's|</h1>|</h1><div style="width:700px">x</div>|'
plant over 'lies over' 's|</svg>|<text x="5" y="50">one</text><text x="6" y="51">two</text></svg>|'
plant outside 'lies outside of its chart' 's|</svg>|<text x="340" y="50">far to the right</text></svg>|'
plant pale 'has a contrast of' 's|</svg>|<text x="100" y="90" style="fill:#ddd">pale</text></svg>|'
plant small 'px high' 's|</svg>|<text x="5" y="50" style="font-size:5px">small</text></svg>|'
plant nothing 'is not drawn' 's|</svg>|<circle cx="9" cy="9" r="0"/></svg>|'
plant script 'Refused\|violates' 's|</body>|<script>x()</script></body>|'
echo "chromium_report: ${#pages[@]} pages"
[ $bad = 0 ]
