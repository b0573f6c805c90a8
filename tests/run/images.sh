#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Images from the command line: the study runs as it says, docs/cost.md's comparison is what the program computes, and a run
# without images says nothing of any.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
program=${DRYSERVE:-./dryserve}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail=0
verdict() {
  if [ "$1" -eq 0 ]; then echo "ok - $2"; else
    echo "not ok - $2"
    fail=1
  fi
}
value() { sed -n "s/^ *\"$1\": *\([0-9.e-]*\),*$/\1/p" "$2" | head -n 1; }
more() { awk "BEGIN { exit !($1 > $2) }"; }

"$program" run studies/images.yaml >"$tmp/table" 2>&1
grep -q '^images   577 with 1,296 tokens each, 72 % of the input' "$tmp/table"
verdict $? "the study's table has its images"
[ "$(awk 'length > 80' "$tmp/table")" = "" ]
verdict $? "its lines are of 80 columns"
run() { # name, --set...
  local name=$1 sets=()
  shift
  for s in "$@"; do sets+=(--set "$s"); done
  "$program" run studies/images.yaml "${sets[@]}" --quiet --json "$tmp/$name"
}
run images && run text workload.images=ignore && run small workload.images.resolution=504x504
verdict $? "and runs as its comments say"
more "$(value mean_ttft_ms "$tmp/images")" "$(value mean_ttft_ms "$tmp/small")" &&
  more "$(value mean_ttft_ms "$tmp/small")" "$(value mean_ttft_ms "$tmp/text")"
verdict $? "large images take longer than small ones, these than none"
[ "$(value total_input_tokens "$tmp/images")" = "$(value total_input_tokens "$tmp/text")" ] && [ "$(value num_images "$tmp/images")" = 577 ] &&
  [ "$(value total_image_tokens "$tmp/images")" = 747792 ]
verdict $? "their tokens are among those of the input"
! grep -qE '"(num_images|total_image_tokens|encoder)"' "$tmp/text"
verdict $? "without images nothing is said of any"

cat >"$tmp/one.yaml" <<'YAML'
scenario: 1
model: qwen2.5-vl-7b
pools: [{hardware: h100-sxm, engine: vllm-2026, scheduler: vllm-v1}]
workload:
  requests: [{arrival_ns: 0, input_tokens: 2718, output_tokens: 1, images: {tokens: 2691, at: 15}}]
YAML
"$program" run "$tmp/one.yaml" --quiet --requests "$tmp/one.csv"
column() { awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR == 2 { print $at }' "$tmp/one.csv"; }
encoder=$(printf '%.1f' "$(column blame_encoder_ms)")
engine=$(awk "BEGIN { printf \"%.1f\", $(column blame_encoder_ms) + $(column blame_prefill_own_ms) }")
grep -q "^ *says $engine ms, of which $encoder the encoder" docs/cost.md
verdict $? "docs/cost.md: $engine ms for a picture, of which $encoder the encoder"

"$program" gen "$tmp/one.yaml" -o "$tmp/none" 2>/dev/null
verdict $((! $?)) "stated requests are not generated"
cat >"$tmp/gen.yaml" <<'YAML'
scenario: 1
model: gemma-3-4b
pools: [{hardware: h100-sxm}]
workload:
  generate: {requests: 30, arrivals: {process: poisson, rate: 2 /s}, input_tokens: 30, output_tokens: 8, images: {share: 0.5, count: 2, resolution: 640x480}}
YAML
"$program" gen "$tmp/gen.yaml" -o "$tmp/gen.jsonl" --quiet &&
  sed 's|^  generate:.*|  trace: gen.jsonl|' "$tmp/gen.yaml" >"$tmp/replay.yaml" &&
  "$program" run "$tmp/gen.yaml" --quiet --requests "$tmp/a.csv" && "$program" run "$tmp/replay.yaml" --quiet --requests "$tmp/b.csv" &&
  cut -d, -f4- "$tmp/a.csv" >"$tmp/a" && cut -d, -f4- "$tmp/b.csv" >"$tmp/b"
awk -F, '{ print $2, $3, $NF, $(NF-1), $(NF-2) }' "$tmp/a" | cmp -s - <(awk -F, '{ print $2, $3, $NF, $(NF-1), $(NF-2) }' "$tmp/b")
verdict $? "a generated trace brings the same images when it is replayed"
exit $fail
