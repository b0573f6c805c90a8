#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# dryserve trace, and a run on the sample of every format. Where the public traces are at hand ($DRYSERVE_SHARED, default
# ../shared), their counts, sums, spans and prefix reuse must be those of expected.json, to the token and nanosecond.
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
same() { # description, got, expected
  if [ "$2" = "$3" ]; then ok "$1"; else
    echo "# got $2, expected $3"
    not_ok "$1"
  fi
}
# What is said on standard error, lines that were folded as one again.
ds() {
  local rc=0
  "$program" "$@" 2>"$tmp/folded" || rc=$?
  sed -e ':a' -e 'N' -e '$!ba' -e 's/\n    / /g' "$tmp/folded" >"$tmp/err"
  return $rc
}
# A number of a JSON text on standard input by its key, the k-th of that name.
number() { tr ',{}' '\n' | sed -n "s/^ *\"$1\": *\(-\{0,1\}[0-9.]*\) *$/\1/p" | sed -n "${2:-1}p"; }
# Arrival and lengths of native lines.
core() { sed 's/^{"arrival_ns":\([0-9]*\),"input_tokens":\([0-9]*\),"output_tokens":\([0-9]*\).*/\1 \2 \3/' "$1"; }

cat >"$tmp/s.yaml" <<EOF
scenario: 1
cost: {model: linear, step: 1 ms, prefill_token: 0.001 ms, decode_sequence: 0.01 ms, draft_token: 0 ms}
pools:
  - {name: main, replicas: 2, scheduler: vllm-v1, kv_blocks: 100000, kv_block_tokens: 16}
workload: {trace: x}
EOF
map='{arrival: when:ms, input_tokens: prompt_size_tok, output_tokens: answer_tok, session: user, status: outcome}'
# Sample, format, requests kept.
while read -r sample format kept; do
  extra=()
  [ "$format" = map ] && extra=(--map "$map")
  if ! ds trace info "traces/$sample" "${extra[@]}" >"$tmp/out"; then
    cat "$tmp/err"
    not_ok "$sample: info"
    continue
  fi
  wide=$(awk 'length($0) > 80' "$tmp/out" | wc -l)
  got=$(ds trace info "traces/$sample" "${extra[@]}" --json - | number requests)
  named=$(grep -c "($format)" "$tmp/out")
  same "$sample: $format, $kept requests, 80 columns" "$named $got $wide" "1 $kept 0"
  set -- --set workload.trace="$PWD/traces/$sample"
  [ "$format" = map ] && set -- "$@" --set workload.map="$map"
  ds run "$tmp/s.yaml" "$@" --json - >"$tmp/out"
  same "$sample: run" "$(number completed <"$tmp/out")" "$kept"
  "$program" run "$tmp/s.yaml" "$@" --no-lease --json - >"$tmp/single" 2>/dev/null
  if cmp -s "$tmp/out" "$tmp/single"; then ok "$sample: step by step"; else not_ok "$sample: step by step"; fi
done <<EOF
azure-conv-sample.csv azure 3000
native-sample.jsonl jsonl 18
mooncake-sample.jsonl mooncake 36
mooncake-agentic-sample.jsonl mooncake 16
burstgpt-sample.csv burstgpt 38
bailian-sample.jsonl bailian 25
weka-sample.json weka 15
ragpulse-sample/0_trace.jsonl ragpulse 30
llmservingsim-sample.jsonl llmservingsim 30
tracev2-sample.csv tracev2 29
vidur-sample.csv vidur 30
splitwise-sample.csv splitwise 30
bench-sample.json bench 23
litellm-sample.jsonl litellm 21
otel-sample.json otel 17
dynamo-sample.jsonl dynamo 20
map-sample.csv map 23
servegen-sample-trace.csv servegen 48
EOF

# A folder of sessions is what its files are one after the other, in order of their names.
mkdir "$tmp/agents"
sed 's/{"id":"sample-2"/\n&/' traces/weka-sample.json | grep -v '^$' >"$tmp/two"
sed -n 1p "$tmp/two" >"$tmp/agents/a.json"
sed -n 2p "$tmp/two" >"$tmp/agents/b.json"
echo 'no session' >"$tmp/agents/notes.txt"
ds trace info "$tmp/agents" --json - | sed 's/"trace":.*//; s/"sha256":.*//' >"$tmp/folder"
ds trace info traces/weka-sample.json --json - | sed 's/"trace":.*//; s/"sha256":.*//' >"$tmp/file"
if [ -s "$tmp/folder" ] && cmp -s "$tmp/folder" "$tmp/file"; then ok "a folder of sessions"; else not_ok "a folder of sessions"; fi
ds run "$tmp/s.yaml" --set workload.trace="$tmp/agents" --json - >"$tmp/out"
same "a folder of sessions: run" "$(number completed <"$tmp/out")" 15
mkdir "$tmp/empty"
ds trace info "$tmp/empty" >/dev/null
same "a folder without sessions is refused" "$? $(grep -c 'without .json files' "$tmp/err")" "3 1"
ds trace info traces/azure-conv-sample.csv --format azur >/dev/null
same "a wrong value names the option that was typed" "$? $(sed -n 1p "$tmp/err") $(grep -c 'did you mean azure?' "$tmp/err")" \
  "3 dryserve: --format: 'azur' 1"
same "a long message is folded at 80 columns" "$(awk 'length($0) > 80' "$tmp/folded" | wc -l) $(($(wc -l <"$tmp/folded") > 4))" "0 1"
ds run studies/images.yaml --set pools.main.scheduler_options.max_queue_size=-1 >/dev/null
same "a message after a place that nearly fills its line begins on the next" \
  "$? $(awk 'length($0) > 80' "$tmp/folded" | wc -l) $(sed -n 2p "$tmp/folded" | cut -c1-15)" "3 0     unknown key"
ds trace merge - - </dev/null >/dev/null
same "standard input twice is refused" "$? $(grep -c 'standard input is named twice' "$tmp/err")" "2 1"
ds trace info traces/azure-conv-sample.csv --import leniant >/dev/null
same "a word that is no import" "$? $(grep -c "^dryserve: --import: 'leniant'" "$tmp/err") $(grep -c 'did you mean lenient?' "$tmp/err")" "3 1 1"
ds trace convert traces/azure-conv-sample.csv -o /dev/full
same "a full disk: no account of rows" "$? $(grep -c 'rows read' "$tmp/err") $(grep -c 'No space left' "$tmp/err")" "1 0 1"
ds list nonsense >/dev/null
same "an unknown kind: what there is" "$? $(grep -c 'expected one of models, hardware' "$tmp/err")" "2 1"

# Round trips: what both formats hold comes back to the nanosecond.
native=traces/native-sample.jsonl
ds trace convert $native -o "$tmp/native" && ds trace convert "$tmp/native" -o "$tmp/again"
if cmp -s "$tmp/native" "$tmp/again"; then ok "native to native: the same bytes"; else not_ok "native to native"; fi
for to in azure mooncake burstgpt vidur; do
  for sample in native-sample.jsonl burstgpt-sample.csv bailian-sample.jsonl otel-sample.json dynamo-sample.jsonl; do
    ds trace convert traces/$sample -o "$tmp/a.jsonl"
    ds trace convert traces/$sample --to $to -o "$tmp/b"
    size=$(sed -n 's/.*"block_tokens":\([0-9]*\).*/\1/p' "$tmp/a.jsonl" | head -n 1)
    set -- --set replay=open-loop
    [ $to = mooncake ] && set -- "$@" --set import.block_tokens="${size:-512}"
    ds trace convert "$tmp/b" "$@" -o "$tmp/c.jsonl"
    same "$sample to $to and back" "$(core "$tmp/c.jsonl" | cksum)" "$(core "$tmp/a.jsonl" | cksum)"
  done
done
ds trace convert $native --to mooncake -o "$tmp/m"
lost=$(tr '\n' ' ' <"$tmp/err" | tr -s ' ') # lines are wrapped
ds trace convert "$tmp/m" --set import.block_tokens=16 --set replay=open-loop -o "$tmp/n"
same "ids, sessions, pauses, classes and blocks through mooncake" "$(cksum <"$tmp/n")" \
  "$(sed 's/,"max_tokens":[0-9]*//; s/,"turn":[0-9]*//' "$tmp/native" | cksum)"
case $lost in
*"lost, which this format cannot hold: turns (18 of 18 requests), output caps (18 of 18 requests)"*"import: {block_tokens: 16}"*) ok "what is lost is said" ;;
*)
  echo "$lost"
  not_ok "what is lost is said"
  ;;
esac

# Other commands.
ds trace anonymise $native -o "$tmp/anon"
same "anonymous: nothing but numbers" "$(grep -c 'chat\|"r[0-9]' "$tmp/anon")" 0
same "anonymous: the same reuse" "$(ds trace info "$tmp/anon" --json - | number prefix_hit_blocks)" "$(ds trace info $native --json - | number prefix_hit_blocks)"
ds trace merge $native traces/vidur-sample.csv -o "$tmp/merged"
same "merged: all of both, in order" "$(wc -l <"$tmp/merged") $(core "$tmp/merged" | sort -n -k 1,1 -s | cksum)" "48 $(core "$tmp/merged" | cksum)"
ds trace cut traces/azure-conv-sample.csv --first 100 --to azure -o "$tmp/cut"
same "cut: the first hundred" "$(wc -l <"$tmp/cut")" 101
ds trace cut traces/azure-conv-sample.csv --window '60 s .. 120 s' -o "$tmp/cut"
if awk -F '[:,]' '$2 < 0 || $2 >= 60000000000 { bad = 1 } END { exit bad }' "$tmp/cut"; then ok "cut: a window"; else not_ok "cut: a window"; fi
ds trace scale traces/vidur-sample.csv --time 0.5 -o "$tmp/half"
whole=$(ds trace info traces/vidur-sample.csv --json - | number span_ns)
same "scaled: half the span" "$(ds trace info "$tmp/half" --json - | number span_ns)" $((whole / 2))
ds trace scale traces/azure-conv-sample.csv --share 0.5 -o "$tmp/share"
n=$(wc -l <"$tmp/share")
if [ "$n" -gt 1350 ] && [ "$n" -lt 1650 ]; then ok "thinned: about half"; else not_ok "thinned: $n of 3000"; fi
printf 'arrived_at,num_prefill_tokens,num_decode_tokens\n0,5,6\n1,x,7\n' >"$tmp/bad.csv"
ds trace convert "$tmp/bad.csv" -o "$tmp/none" >/dev/null
same "a bad row: exit 3, nothing written" "$? $(find "$tmp" -name 'none*')" "3 "
ds trace convert "$tmp/bad.csv" --import lenient -o "$tmp/some" >/dev/null
same "lenient: the rest, counted" "$? $(wc -l <"$tmp/some") $(grep -c '2 rows read = 1 kept + 1 unreadable' "$tmp/err")" "0 1 1"
for wrong in "trace" "trace inf x" "trace info" "trace cut $native" "trace merge $native" "trace convert $native --to excel" "trace scale $native" "trace info $native -o x"; do
  # shellcheck disable=SC2086
  ds $wrong >/dev/null
  same "usage: $wrong" $? 2
done

# Reuse within agent sessions, by hand: 3 + 5 + 4 and 2 + 3 blocks of 64; of the first session's, 3 and 2 were there before (its
# third turn was edited after two), of the second's 2, and none of them is the other's although the ids are the same.
cat >"$tmp/agents.json" <<'EOF'
{"id":"one","block_size":64,"hash_id_scope":"local","requests":[
 {"t":0,"type":"n","in":200,"out":5,"hash_ids":[1,2,3],"api_time":1},
 {"t":5,"type":"n","in":330,"out":5,"hash_ids":[1,2,3,4,5],"api_time":1,"think_time":4},
 {"t":9,"type":"n","in":260,"out":5,"hash_ids":[1,2,6,7],"api_time":1,"think_time":3}]}
{"id":"two","block_size":64,"hash_id_scope":"local","requests":[
 {"t":0,"type":"n","in":130,"out":5,"hash_ids":[1,2],"api_time":1},
 {"t":2,"type":"n","in":200,"out":5,"hash_ids":[1,2,3],"api_time":1,"think_time":1}]}
EOF
everything() { # trace: what a run finds that has room for everything
  ds run "$tmp/s.yaml" --set workload.trace="$1" --set pools.main.kv_block_tokens=64 --set pools.main.replicas=1 \
    --set pools.main.kv_blocks=2000000 --set workload.import.zero=clamp --json - >"$tmp/run"
  echo "$(number prefix_cache_hits <"$tmp/run") $(number prefix_cache_queries <"$tmp/run") $(number prefix_cache_resident_blocks <"$tmp/run")"
}
ds trace info "$tmp/agents.json" --json - >"$tmp/info"
same "agent sessions by hand: blocks, different ones, hits" \
  "$(number blocks <"$tmp/info") $(number unique_blocks <"$tmp/info") $(number prefix_hit_blocks <"$tmp/info")" "17 10 7"
same "and a run finds them" "$(everything "$tmp/agents.json")" "$((7 * 64)) $((200 + 330 + 260 + 130 + 200)) 10"

traces=$shared/data/traces
if [ -e "$traces/expected.json" ]; then
  traces=$(cd "$traces" && pwd)
  flat=$(tr -d '\n' <"$traces/expected.json")
  want() { echo "$flat" | sed "s/.*\"$1\": *{//" | number "$2"; }
  holds() { # name in expected.json, file, options...: requests, sums, span where there is one
    local name=$1 file=$2
    shift 2
    if ! ds trace info "$traces/$file" --json - "$@" >"$tmp/info"; then
      cat "$tmp/err"
      not_ok "$file"
      return
    fi
    same "$file: requests and tokens" "$(number requests <"$tmp/info") $(number sum <"$tmp/info") $(number sum 2 <"$tmp/info")" \
      "$(want "$name" requests) $(want "$name" sum_input_tokens) $(want "$name" sum_output_tokens)"
  }
  reuse() { # name: of the file that holds() read last
    local got="" wanted="" k
    for k in blocks unique_blocks prefix_hit_blocks prefix_hit_tokens full_hit_requests 1000 3000 10000 30000 50000 100000; do
      got="$got $(number $k <"$tmp/info")"
      wanted="$wanted $(want "$1" $k)"
    done
    same "$1: prefix reuse" "$got" "$wanted"
  }
  for name in conv code; do
    holds azure2023_$name azure/AzureLLMInferenceTrace_$name.csv
    same "Azure $name: span and gaps" "$(number span_ns <"$tmp/info") $(number min_gap_ns <"$tmp/info") $(number max_gap_ns <"$tmp/info")" \
      "$(want azure2023_$name duration_ns) $(want azure2023_$name min_iat_ns) $(want azure2023_$name max_iat_ns)"
  done
  holds mooncake_conversation mooncake/conversation_trace.jsonl
  reuse mooncake_conversation
  same "Mooncake: span and equal arrivals" "$(number span_ns <"$tmp/info") $(number equal_arrivals <"$tmp/info")" "3536999000000 $(want mooncake_conversation zero_interarrivals)"
  holds llmservingsim_sharegpt300 llmservingsim/sharegpt-llama-3.1-8b-300-sps10.hash16.jsonl --set import.block_tokens=16
  reuse llmservingsim_sharegpt300
  holds ragpulse ragpulse/0_trace.jsonl
  same "RAGPulse: sessions and span" "$(number sessions <"$tmp/info") $(number span_ns <"$tmp/info")" "$(want ragpulse sessions) 604603000000000"
  holds vidur_sharegpt vidur/sharegpt_8k_filtered_stats_llama2_tokenizer.csv
  same "ShareGPT lengths: copies" "$(number copies <"$tmp/info")" "$(want vidur_sharegpt exact_duplicate_rows)"
  # The one row without output counts as a token there.
  ds trace info "$traces/cc-weka/cc_traces_shared60.tar.zst" --json - --set import.zero=clamp >"$tmp/info"
  same "sixty agent sessions" \
    "$(number requests <"$tmp/info") $(number sum <"$tmp/info") $(($(number sum 2 <"$tmp/info") - 1)) $(number sessions <"$tmp/info") $(number blocks <"$tmp/info")" \
    "$(want cc_weka_shared60 requests) $(want cc_weka_shared60 sum_input_tokens) $(want cc_weka_shared60 sum_output_tokens) $(($(want cc_weka_shared60 sessions) + $(want cc_weka_shared60 subagents))) $(want cc_weka_shared60 blocks64)"
  hits=$(number prefix_hit_blocks <"$tmp/info") blocks=$(number blocks <"$tmp/info")
  same "sixty agent sessions: reuse within a session" "$hits $(awk "BEGIN { printf \"%.1f %%\", 100 * $hits / $blocks }")" "$(want cc_weka_shared60 seen_prefix_blocks) 95.2 %"
  same "and a run finds it all" "$(everything "$traces/cc-weka/cc_traces_shared60.tar.zst")" \
    "$((hits * 64)) $(want cc_weka_shared60 sum_input_tokens) $(number unique_blocks <"$tmp/info")"
  # The rest of the folder: sums by other programs.
  while read -r file requests input output; do
    ds trace info "$traces/$file" --json - >"$tmp/info"
    same "$file" "$(number requests <"$tmp/info") $(number sum <"$tmp/info") $(number sum 2 <"$tmp/info")" "$requests $input $output"
  done <<EOF
vidur/splitwise_conv.csv 19366 22361870 4088665
burstgpt/BurstGPT_3_head105_conversation.csv 105 123925 21098
llmservingsim/measured/RTXPRO6000_Llama-3.1-8B/requests.jsonl 300 257239 195753
fixtures/azure2023_code_head200.csv 200 414215 4907
fixtures/azure2023_conv_head200.csv 200 180695 47050
fixtures/vidur_splitwise_conv_head200.csv 200 180695 47050
fixtures/mooncake_conversation_head200.jsonl 200 2782179 71379
fixtures/ragpulse_rows3700_3899.jsonl 200 539394 52393
fixtures/weka_trace_0103.json 3 49384 618
fixtures/weka_trace_0187.json 3 35830 788
fixtures/weka_trace_0291.json 32 2254119 19504
fixtures/weka_trace_0504.json 3 33739 337
EOF
  ds trace info "$traces/fixtures/servegen_deepseek-r1_chunk-0-trace.csv" >"$tmp/out"
  same "a ServeGen client" "$? $(grep -c '(servegen)' "$tmp/out")" "0 1"
  # What is no trace by itself, and why.
  while read -r file text; do
    ds trace info "$traces/$file" >/dev/null
    same "$file is refused" "$? $(grep -c -- "$text" "$tmp/err")" "3 1"
  done <<EOF
cc-weka/cc_requests_index_shared60.csv a flat CSV in no known format
fixtures/servegen_deepseek-r1_chunk-0-dataset.json the lengths of a ServeGen client
servegen/servegen_reason_multimodal_full.tar.zst no session of an agent
EOF
  # No file of the folder is left out, but for licences, notes, the parts of RAGPulse and the records of a run.
  find "$traces" -type f | sed "s|^$traces/||" | grep -vE 'LICENSE|README|expected.json|split_shared60|ragpulse/[1-5]_|meta.json|summary.txt|timeseries|fixtures/dirty/' |
    while read -r file; do
      grep -q -- "${file##*/}" tests/run/trace_command.sh || grep -q -- "${file##*/}" tests/run/traces.sh || echo "$file"
    done | grep -v 'AzureLLMInferenceTrace_co' >"$tmp/left"
  same "every file of the folder is read here" "$(cat "$tmp/left")" ""
  # Every line of the dirty files, alone behind the first: k kept, z dropped without tokens, m dropped as unreadable, s kept
  # and sorted, - no row, or the column of the complaint.
  fate() { # file, line number
    local first=1 text r
    case $1 in *.csv) first=2 ;; esac
    text=$(sed -n "$2p" "$1")
    sed -n "1,${first}p" "$1" >"$tmp/line"
    [ "$2" -le $first ] || printf '%s\n' "$text" >>"$tmp/line"
    for r in "{}" lenient; do
      if ! ds trace info "$tmp/line" --json - --set import="$r" >"$tmp/info"; then
        sed -n '1s/^[^:]*: [^:]*:[0-9]*:\([0-9]*\)\{0,1\}.*/\1/p' "$tmp/err"
        continue
      fi
      if grep -q dropped_zero "$tmp/info"; then echo z
      elif grep -q dropped_malformed "$tmp/info"; then echo m
      elif grep -q out_of_order "$tmp/info"; then echo s
      elif [ "$(number kept <"$tmp/info")" = 2 ] || [ "$2" -le $first ]; then echo k
      else echo -; fi
    done | tr '\n' '/'
  }
  while read -r file from fates; do
    got=""
    lines=$(awk 'END { print NR }' "$traces/fixtures/dirty/$file")
    for ((i = from; i <= lines; i++)); do got="$got $(fate "$traces/fixtures/dirty/$file" "$i")"; done
    same "$file, line by line" "$got" " $fates"
  done <<EOF
azure_dirty.csv 2 k/k/ k/k/ 1/s/ k/k/ k/k/ 30/z/ 22/m/ 23/z/ -/-/ 23/m/ 23/m/ 23/m/ 23/m/ k/k/
burstgpt6_dirty.csv 2 k/k/ k/k/ k/k/ z/z/ z/z/ k/k/
mooncake_dirty.jsonl 1 k/k/ k/k/ -/-/ k/k/ 73/m/ k/k/ k/k/ k/k/ 35/z/ 57/z/ k/k/ k/k/ /m/ 37/m/
bailian_min.jsonl 1 k/k/ k/k/ k/k/ k/k/
EOF
  ds trace info "$traces/litellm/litellm_appworld_stripped.jsonl" >/dev/null
  same "a log of completion times is refused" "$? $(grep -c 'log of completion times' "$tmp/err")" "3 1"
else
  echo "ok - public traces # SKIP not at $shared"
fi
exit $fail
