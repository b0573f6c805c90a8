#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What would the other engines have done? One trace, one H100, Llama 3.1 8B, through the scheduler of each scenario here.
#
#   studies/engines/compare.sh [SCENARIO.yaml...]      DRYSERVE=./dryserve RATE=8 SLO_MS=2000
#
# A row each: the highest arrival rate at which p99 TTFT is within SLO_MS (the trace's own arrivals, sped up or slowed down;
# found to 1 %), and percentiles at RATE requests per second.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
dryserve=${DRYSERVE:-$here/../../dryserve}
rate=${RATE:-8}
slo=${SLO_MS:-2000}
own=5.4647 # requests per second of the trace as it is
[ $# -gt 0 ] || set -- "$here"/static.yaml "$here"/triton.yaml "$here"/orca.yaml "$here"/vllm-v0.yaml "$here"/vllm-v1.yaml \
  "$here"/vllm-v1-512.yaml "$here"/sarathi.yaml "$here"/sglang.yaml "$here"/trtllm.yaml "$here"/tgi.yaml

at() { # scenario, rate: p99 TTFT, p99 ITL, p50 TPOT (ms) and output tokens per second
  scale=$(awk -v o=$own -v r="$2" 'BEGIN { printf "%.9g", o / r }')
  "$dryserve" run "$1" --quiet --json - --set "workload.time_scale=$scale" | awk -F: '
    function value(s) { gsub(/[ ,]/, "", s); return s }
    $1 ~ /^ *"p99_ttft_ms"/ { a = value($2) }
    $1 ~ /^ *"p99_itl_ms"/ { b = value($2) }
    $1 ~ /^ *"median_tpot_ms"/ { c = value($2) }
    $1 ~ /^ *"output_throughput"/ { d = value($2) }
    END { if (a == "") exit 1; print a, b, c, d }'
}
holds() { at "$1" "$2" | awk -v slo="$slo" '{ exit !($1 <= slo) }'; }
half_way() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.6g", sqrt(a * b) }'; }

highest() { # doubling until it fails, then halving the ratio down to 1 %
  low=0
  high=0.02
  while holds "$1" $high && awk -v h=$high 'BEGIN { exit !(h < 1000) }'; do
    low=$high
    high=$(awk -v h=$high 'BEGIN { print 2 * h }')
  done
  [ "$low" = 0 ] && { echo 0; return; }
  while awk -v a="$low" -v b="$high" 'BEGIN { exit !(b > 1.01 * a) }'; do
    middle=$(half_way "$low" "$high")
    if holds "$1" "$middle"; then low=$middle; else high=$middle; fi
  done
  echo "$low"
}

printf '%-14s %10s   %32s\n' '' 'req/s with' "at $rate requests per second:"
printf '%-14s %10s   %10s %10s %10s %10s\n' scheduler "p99<=${slo}ms" 'p99 TTFT' 'p99 ITL' 'p50 TPOT' 'output/s'
for scenario in "$@"; do
  name=$(basename "$scenario" .yaml)
  found=$("$dryserve" run "$scenario" --explain-config 2>&1) || {
    printf '%-14s %s\n' "$name" "$(printf %s "$found" | head -1 | sed 's/.*: //')"
    continue
  }
  best=$(highest "$scenario")
  at "$scenario" "$rate" | awk -v n="$name" -v b="$best" '
    { printf "%-14s %10.4g   %7.0f ms %7.1f ms %7.1f ms %10.0f\n", n, b, $1, $2, $3, $4 }'
done
