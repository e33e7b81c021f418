#!/bin/sh
# fuzz.sh BUILD SECONDS [TARGET...]: runs libFuzzer targets from the stored
# corpus; a finding stops it and is printed.
build=$1
seconds=$2
shift 2
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls fuzz_*.c | sed 's/fuzz_\(.*\)\.c/\1/')
for name; do
    mkdir -p "$build/corpus/$name"
    echo "fuzzing $name for $seconds s"
    "$build/fuzz_$name" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$build/" "$build/corpus/$name" \
        "tests/fuzz/corpus/$name" >"$build/fuzz_$name.log" 2>&1 || {
        tail -n 40 "$build/fuzz_$name.log"
        exit 1
    }
    grep -E 'stat::number_of_executed_units|stat::peak_rss' "$build/fuzz_$name.log"
done
