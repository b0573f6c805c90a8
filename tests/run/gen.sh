#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# dryserve gen: what it writes is what a run of the scenario replays, and can be replayed itself.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$(cd "$(dirname "$DRYSERVE")" && pwd)/$(basename "$DRYSERVE")
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export DRYSERVE_DATA=$root
cd "$tmp" || exit 1
fail=0
verdict() { # status, name
  if [ "$1" -eq 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fail=1; fi
}

cat >s.yaml <<'YAML'
scenario: 1
model: llama-3.1-8b
pools: [{name: main, hardware: h100-sxm, scheduler: vllm-v1}]
workload:
  class: chat
  generate: {requests: 200, arrivals: {process: gamma, rate: 5 /s, cv: 2}, input_tokens: {law: exponential, mean: 400}, output_tokens: {law: zipf, theta: 1, min: 5, max: 90}}
YAML
"$program" gen s.yaml -o a.jsonl 2>err && "$program" gen s.yaml >b.jsonl 2>/dev/null && cmp -s a.jsonl b.jsonl &&
  [ "$(wc -l <a.jsonl)" -eq 200 ] && grep -q '^generated 200 requests at' err && grep -q 'input tokens: mean' err
verdict $? "the same bytes twice, with what was made on standard error"

"$program" run s.yaml --quiet --requests direct.csv &&
  "$program" run s.yaml --quiet --requests replayed.csv --set 'workload={trace: ./a.jsonl, class: chat}' 2>/dev/null
cut -d, -f4-6 direct.csv >x
cut -d, -f4-6 replayed.csv >y
# A generated run counts from its start, a trace from its first request: lengths and order are the same.
cut -d, -f2- x | cmp -s - <(cut -d, -f2- y) && [ "$(wc -l <y)" -eq 201 ]
verdict $? "the trace replays the same requests"

"$program" gen s.yaml --seed 2 --quiet 2>err | cmp -s - a.jsonl
[ $? -eq 1 ] && [ ! -s err ]
verdict $? "another seed gives others, and --quiet says nothing"

"$program" gen s.yaml --quiet --set 'workload.generate.session={turns: 3, think: 2 s, input_tokens: 50}' \
    >c.jsonl &&
  head -3 c.jsonl | grep -c '"session":"s1","turn":[012]' | grep -qx 3 &&
  grep -c '"think_ns":2000000000' c.jsonl | grep -qx 133 && grep -q '"prefix":\["s1.0",' c.jsonl &&
  "$program" gen s.yaml --quiet --set 'workload.generate.prefix={groups: 2, tokens: 64}' >d.jsonl &&
  [ "$(grep -c '"prefix":\["p[12]",64\]' d.jsonl)" -eq 200 ]
verdict $? "sessions, think time and prefixes are written"

"$program" run s.yaml --quiet --requests direct.csv \
  --set 'workload.generate.session={turns: 3, think: 2 s, input_tokens: 50}' &&
  "$program" run s.yaml --quiet --requests replayed.csv \
    --set 'workload={trace: ./c.jsonl, class: chat, replay: closed-loop}' 2>/dev/null &&
  cmp -s <(cut -d, -f5-6 direct.csv) <(cut -d, -f5-6 replayed.csv) &&
  [ "$(awk -F, 'NR > 1 && $7 > 0' replayed.csv | wc -l)" -ge 120 ]
verdict $? "sessions replay as a closed loop and find their earlier turns"

"$program" gen s.yaml --set 'workload={requests: [{arrival: 0 s, input_tokens: 1, output_tokens: 1}]}' >out 2>err
[ $? -eq 3 ] && [ ! -s out ] && grep -q 'not generated' err
verdict $? "a workload that is not generated is refused"

good=0
for kind in presets protocols; do
  "$program" list $kind >out || good=1
  [ "$(awk 'length > 80' out | wc -l)" -eq 0 ] || good=1
  "$program" list $kind --json >out || good=1
  grep -q '"name"' out || good=1
done
verdict $good "presets and protocols are listed"
exit $fail
