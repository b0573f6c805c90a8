#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Traces through the program itself: the sample, the public Azure traces and hand-made dirty files where they are at hand
# ($DRYSERVE_SHARED, default ../shared), packed files, standard input. Counts must be exact; what is refused says why.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
program=${DRYSERVE:-./dryserve}
case $program in /*) ;; *) program=$PWD/$program ;; esac
shared=${DRYSERVE_SHARED:-../shared}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail=0
ok() { echo "ok - $1"; }
not_ok() {
  echo "not ok - $1"
  fail=1
}

# A toy cost model, so that no card matters: only what is read does.
scenario() { # workload in YAML flow style
  cat >"$tmp/s.yaml" <<EOF
scenario: 1
cost: {model: linear, step: 1 ms, prefill_token: 0.001 ms, decode_sequence: 0.01 ms, draft_token: 0 ms}
pools:
  - {name: main, replicas: 4, scheduler: vllm-v1, kv_blocks: 100000, kv_block_tokens: 16}
router: {policy: round-robin}
workload: $1
EOF
}
run() {
  rm -f "$tmp/out.json"
  "$program" run "$tmp/s.yaml" --json "$tmp/out.json" --quiet >"$tmp/stdout" 2>"$tmp/stderr"
}
# A number from a JSON file by its key, wherever it stands.
number() { tr ',{}' '\n' <"$1" | sed -n "s/^ *\"$2\": *\([0-9.]*\) *$/\1/p" | head -n 1; }

counts() { # description, workload, requests, input tokens, output tokens
  scenario "$2"
  if ! run; then
    cat "$tmp/stderr"
    not_ok "$1"
    return
  fi
  local got
  got="$(number "$tmp/out.json" completed) $(number "$tmp/out.json" total_input_tokens) $(number "$tmp/out.json" total_output_tokens)"
  if [ "$got" = "$3 $4 $5" ]; then ok "$1"; else
    echo "$got, expected $3 $4 $5"
    not_ok "$1"
  fi
}
refused() { # description, workload, text that the message holds...
  local what=$1
  scenario "$2"
  shift 2
  run
  local status=$?
  if [ $status -ne 3 ] || [ -e "$tmp/out.json" ]; then
    cat "$tmp/stderr"
    not_ok "$what: exit status $status"
    return
  fi
  local text
  for text in "$@"; do
    if ! sed -e ':a' -e 'N' -e '$!ba' -e 's/\n    / /g' "$tmp/stderr" | grep -qF -- "$text"; then
      cat "$tmp/stderr"
      not_ok "$what: no \"$text\" in the message"
      return
    fi
  done
  ok "$what"
}

sample=$PWD/traces/azure-conv-sample.csv
# Summed by awk, from the text.
sums=$(tail -n +2 "$sample" | tr -d '\r' | awk -F, '{ n++; i += $2; o += $3 } END { printf "%d %d %d", n, i, o }')
# shellcheck disable=SC2086
counts "the sample" "{trace: $sample}" $sums
gzip -c "$sample" >"$tmp/packed"
# shellcheck disable=SC2086
counts "the sample, packed" "{trace: $tmp/packed}" $sums
scenario '{trace: "-"}'
if "$program" run "$tmp/s.yaml" --json "$tmp/out.json" --quiet <"$sample" >/dev/null 2>"$tmp/stderr" &&
  [ "$(number "$tmp/out.json" completed)" = "${sums%% *}" ]; then
  ok "the sample from standard input"
else
  cat "$tmp/stderr"
  not_ok "the sample from standard input"
fi
first=$(sed -n '2,101p' "$sample" | tr -d '\r' | awk -F, '{ n++; i += $2; o += $3 } END { printf "%d %d %d", n, i, o }')
# shellcheck disable=SC2086
counts "the sample's first hundred" "{trace: $sample, select: {first: 100}}" $first

printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n' >"$tmp/header.csv"
refused "header only" "{trace: $tmp/header.csv}" header.csv "a header and nothing else"
: >"$tmp/empty.csv"
refused "empty file" "{trace: $tmp/empty.csv}" empty.csv "empty"
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,5,six\n' >"$tmp/text.csv"
refused "text for a number" "{trace: $tmp/text.csv}" "text.csv:2:23" '"six"' "a whole number"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' >"$tmp/lfs.csv"
refused "Git LFS pointer" "{trace: $tmp/lfs.csv}" "lfs.csv" "Git LFS pointer"

traces=$shared/data/traces
if [ -e "$traces/expected.json" ]; then
  traces=$(cd "$traces" && pwd)
  for name in conv code; do
    tr -d '\n' <"$traces/expected.json" | sed "s/.*\"azure2023_$name\": *{//; s/\"input\".*//" >"$tmp/expected"
    counts "Azure 2023 $name" "{trace: $traces/azure/AzureLLMInferenceTrace_$name.csv}" \
      "$(number "$tmp/expected" requests)" "$(number "$tmp/expected" sum_input_tokens)" "$(number "$tmp/expected" sum_output_tokens)"
  done
  dirty=$traces/fixtures/dirty
  refused "dirty Azure file" "{trace: $dirty/azure_dirty.csv}" "azure_dirty.csv:4:1" "TIMESTAMP" "earlier" "unsorted: sort"
  refused "dirty Azure file, sorted" "{trace: $dirty/azure_dirty.csv, import: {unsorted: sort, zero: drop}}" \
    "azure_dirty.csv:8:22" '"91.0"' "4 more rows that cannot be read" "a whole number"
  # Its rows that can be read, without the two that have no tokens: 374, 374, 396, 879, 2162, 100 in, 44, 44, 109, 55, 5, 20 out.
  grep -vE '91\.0|abc|4294967296|,-5,|,100.$' "$dirty/azure_dirty.csv" >"$tmp/half.csv"
  counts "dirty Azure file, its readable rows" "{trace: $tmp/half.csv, import: {unsorted: sort, zero: drop}}" 6 4285 277
else
  echo "ok - public traces # SKIP not at $shared"
fi
exit $fail
