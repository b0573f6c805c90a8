#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The studies of the KV cache: what studies/kv/README.md says, line by line, against what the program computes. `--print` prints
# the lines as they must be. Then claims that must hold whatever the figures are, and a worked example of a tier.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
program=${DRYSERVE:-./dryserve}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail=0
lines=0
print=${1:-}
ok() { [ -n "$print" ] || echo "ok - $1"; }
not_ok() {
  echo "not ok - $1"
  fail=1
}
run() { # scenario, --set...: the report is $tmp/out.json
  local scenario=$1 sets=()
  shift
  for s in "$@"; do sets+=(--set "$s"); done
  rm -f "$tmp/out.json"
  if ! "$program" run "$scenario" "${sets[@]}" --quiet --json "$tmp/out.json" 2>"$tmp/stderr"; then
    cat "$tmp/stderr"
    not_ok "$scenario ${sets[*]}"
  fi
}
number() { sed -n "s/^ *\"$1\": *\([0-9.e-]*\),*$/\1/p" "$tmp/out.json" | head -n 1; }
of() { awk "BEGIN { printf \"$1\", $2 }"; } # printf form, expression
says() { # a line of the README
  lines=$((lines + 1))
  if [ -n "$print" ]; then
    printf '%s\n' "$1"
  elif ! grep -qxF -- "$1" studies/kv/README.md; then
    not_ok "studies/kv/README.md does not say: $1"
  fi
}
holds() { # description, awk condition
  if awk "BEGIN { exit !($2) }"; then ok "$1"; else not_ok "$1: $2"; fi
}

# Reserved at maximum length, and paged.
run studies/kv/reserved.yaml
reserved=$(number kv_token_fraction) slow=$(number mean_normalized_latency_ms)
run studies/kv/paged.yaml "workload.generate.arrivals.rate=1.8 /s"
paged=$(number kv_token_fraction) fast=$(number mean_normalized_latency_ms)
says "Reserved at maximum length, $(of '%.0f' "100 * $reserved") % of the KV memory in use holds tokens; in pages, $(of '%.0f' "100 * $paged") %."
says "In pages, 1.8 requests/s have a latency of $(of '%.0f' "$fast") ms a token; reserved, a third of that, 0.6 requests/s, has $(of '%.0f' "$slow") ms."
holds "reservation wastes most of the memory, as published (20.4 to 38.2 % held tokens)" "$reserved > 0.15 && $reserved < 0.382"
holds "pages waste less than 4 %, as published" "$paged > 0.96"
holds "pages serve three times the requests at the same latency (published: 2 to 4 times)" "$fast <= $slow"

# Nothing is too low by more than 100 %: so wide a band of errors is a factor.
"$program" run studies/kv/paged.yaml --set pools.main.hardware=max-1550 2>/dev/null >"$tmp/table"
if grep -q '^trust .*within a factor of' "$tmp/table" && ! grep -q '+-[0-9]\{3,\} %' "$tmp/table"; then
  ok "a band of more than 100 % is a factor"
else
  not_ok "a band of more than 100 % is a factor"
fi

# Size of the cache.
last=0
for blocks in 500 1000 2000 4000 8000; do
  run studies/kv/chat.yaml pools.main.kv_blocks=$blocks
  rate=$(number prefix_cache_hit_rate) ttft=$(number mean_ttft_ms)
  says "| chat | $blocks | $(of '%.0f' "100 * $rate") % | $(of '%.0f' "$ttft") ms | $(of '%.0f' "$(number p99_ttft_ms)") ms |"
  holds "chat: $blocks blocks find no less than fewer" "$rate >= $last"
  last=$rate
done
last=0
for blocks in 12000 20000 30000 40000; do
  run studies/kv/agents.yaml pools.main.kv_blocks=$blocks
  rate=$(number prefix_cache_hit_rate) ttft=$(number mean_ttft_ms)
  says "| agents | $blocks | $(of '%.0f' "100 * $rate") % | $(of '%.0f' "$ttft") ms | $(of '%.0f' "$(number p99_ttft_ms)") ms |"
  holds "agents: $blocks blocks find no less than fewer" "$rate >= $last"
  last=$rate
  [ $blocks != 12000 ] || small=$ttft
done
says "For these agents, 40,000 blocks instead of 12,000 make the mean TTFT $(of '%.0f' "$small / $ttft") times shorter."

# Host tier, on and off; load or compute by the speed of the link.
run studies/kv/host-tier.yaml
on=$(number mean_ttft_ms) on_rate=$(number prefix_cache_hit_rate)
run studies/kv/host-tier.yaml tiers.host.fetch=never
off=$(number mean_ttft_ms) off_rate=$(number prefix_cache_hit_rate)
says "With host memory behind 12,000 blocks, $(of '%.0f' "100 * $on_rate") % of the prompt tokens are found instead of $(of '%.0f' "100 * $off_rate") %, and the mean TTFT is $(of '%.2f' "$on / 1000") s instead of $(of '%.2f' "$off / 1000") s."
holds "a host tier pays over a fast link" "$on < $off / 4"
run studies/kv/host-tier.yaml "tiers.host.write_bandwidth=50 MB/s"
says "Copying out takes the other direction of the link. At 50 MB/s much comes too late to be found: $(of '%.0f' "100 * $(number prefix_cache_hit_rate)") % are, and the mean TTFT is $(of '%.2f' "$(number mean_ttft_ms) / 1000") s."
holds "a slow way out finds less than a fast one, and more than no tier" "$(number prefix_cache_hit_rate) < $on_rate && $(number prefix_cache_hit_rate) > $off_rate"
for speed in 0.5 2 10 50; do
  run studies/kv/host-tier.yaml "tiers.host.bandwidth=$speed GB/s" tiers.host.fetch=always
  always=$(number mean_ttft_ms)
  run studies/kv/host-tier.yaml "tiers.host.bandwidth=$speed GB/s"
  auto=$(number mean_ttft_ms)
  says "| $speed GB/s | $(of '%.2f' "$off / 1000") s | $(of '%.2f' "$always / 1000") s | $(of '%.2f' "$auto / 1000") s | $(number loads) |"
  holds "at $speed GB/s, loading only where it is faster is never worse than not loading" "$auto <= $off"
  [ $speed != 0.5 ] || holds "over a slow link, always loading is worse than computing again" "$always > 4 * $off"
done
says "Over 0.5 GB/s it is better to compute again; from 10 GB/s on nearly everything is loaded."

# A repeated workload.
run studies/kv/repeated.yaml
warm=$(number total_token_throughput)
run studies/kv/repeated.yaml pools.main.initial_cache=empty
cold=$(number total_token_throughput)
run studies/kv/repeated.yaml pools.main.prefix_cache=false pools.main.initial_cache=empty
none=$(number total_token_throughput)
says "Against a warm cache the benchmark claims $(of '%.1f' "$warm / 1000") thousand tokens/s, against an empty one $(of '%.1f' "$cold / 1000"), without a cache $(of '%.1f' "$none / 1000")."
holds "a warm cache inflates the throughput" "$warm > 1.1 * $cold && $cold > $none"

# A tier, by hand: eight blocks of four tokens are loaded in 0.1 + 8 x 0.2 = 1.7 ms, computed in 3.2 ms; one token is always computed.
tier() { # load time per block, further keys
  cat >"$tmp/tier.yaml" <<YAML
scenario: 1
pools: [{name: main, scheduler: vllm-v1, kv_blocks: 10, kv_block_tokens: 4, prefix_cache: true}]
cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}
tiers: [{name: host, blocks: 100, load_time_per_block: $1, latency: 0.1 ms${2:+, $2}}]
workload: {requests: [
    {id: R1, arrival_ns: 0, input_tokens: 33, output_tokens: 1, prefix: [same, 33]},
    {id: R2, arrival_ns: 20000000, input_tokens: 37, output_tokens: 1},
    {id: R3, arrival_ns: 40000000, input_tokens: 33, output_tokens: 1, prefix: [same, 33]},
    {id: R4, arrival_ns: 60000000, input_tokens: 33, output_tokens: 1, prefix: [same, 33]}]}
YAML
  "$program" run "$tmp/tier.yaml" --quiet --requests - |
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { printf "%s %s %s %s; ", $c["id"], $c["cached_tokens"], $c["ttft_ms"], $c["blame_kv_load_ms"] }'
}
exactly() {
  if [ "$2" = "$3" ]; then ok "$1"; else
    printf '%s\n' "$2" "$3"
    not_ok "$1"
  fi
}
exactly "what was evicted is loaded from the tier" "$(tier '0.2 ms')" "R1 0 13.3 0; R2 0 13.7 0; R3 32 11.8 1.7; R4 32 10.1 0; "
# The eight blocks are sent when R1 leaves, at 13.3 ms: there at 13.4 + 8 x 3.3 = 39.8 ms, or at 45.4 ms, too late for R3.
exactly "what has arrived there is loaded" "$(tier '0.2 ms' 'store_time_per_block: 3.3 ms')" "R1 0 13.3 0; R2 0 13.7 0; R3 32 11.8 1.7; R4 32 10.1 0; "
exactly "what is on its way is not" "$(tier '0.2 ms' 'store_time_per_block: 4 ms')" "R1 0 13.3 0; R2 0 13.7 0; R3 0 13.3 0; R4 32 10.1 0; "
# At 33.7 ms three of them are on their way: with the nine of R2 that would be more than the pool has.
sed 's/input_tokens: 37, output_tokens: 1/&, prefix: [other, 37]/' "$tmp/tier.yaml" >"$tmp/lost.yaml"
"$program" run "$tmp/lost.yaml" --quiet --json "$tmp/out.json"
exactly "what waits too long is lost" "$(number stored_blocks) $(number lost_blocks)" "8 9"
# B's turn comes at 10.5 ms, before A's KV is there at 13.3 ms.
cat >"$tmp/shared.yaml" <<YAML
scenario: 1
pools:
  - {name: main, scheduler: vllm-v1, replicas: 2, kv_blocks: 20, kv_block_tokens: 4, prefix_cache: true, scheduler_options: {max_num_seqs: 1}}
router: {policy: round-robin}
cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}
tiers: [{name: all, scope: cluster, blocks: 100, load_time_per_block: 0.01 ms}]
workload: {requests: [
    {id: A, arrival_ns: 0, input_tokens: 33, output_tokens: 1, prefix: [same, 33]},
    {id: C, arrival_ns: 0, input_tokens: 5, output_tokens: 1},
    {id: D, arrival_ns: 0, input_tokens: 5, output_tokens: 1},
    {id: B, arrival_ns: 0, input_tokens: 33, output_tokens: 1, prefix: [same, 33]}]}
YAML
exactly "nobody finds in a shared tier what another replica has yet to compute" \
  "$("$program" run "$tmp/shared.yaml" --quiet --requests - | awk -F, '$1 == "B" { print $7, $NF != "" }')" "0 1"

exactly "unless computing it is faster" "$(tier '0.5 ms')" "R1 0 13.3 0; R2 0 13.7 0; R3 0 13.3 0; R4 32 10.1 0; "

# KV over time: the readings at every full second, from the log of all iterations.
cat >"$tmp/over.yaml" <<YAML
scenario: 1
pools: [{name: main, replicas: 2, scheduler: vllm-v1, kv_blocks: 1000, kv_block_tokens: 16}]
cost: {model: linear, step: 15 ms, prefill_token: 0.05 ms, decode_sequence: 0.5 ms}
workload: {trace: $PWD/traces/azure-conv-sample.csv}
YAML
"$program" run "$tmp/over.yaml" --quiet --steps "$tmp/steps" --json "$tmp/out.json"
"$program" run "$tmp/over.yaml" --quiet --json "$tmp/leased.json"
if cmp -s "$tmp/out.json" "$tmp/leased.json"; then ok "KV over time: the same with leases"; else not_ok "KV over time: the same with leases"; fi
sed -n '/"used_fraction"/,/]/s/^ *\([0-9.e-]*\),*$/\1/p' "$tmp/out.json" >"$tmp/used"
tr ',:}' '   ' <"$tmp/steps" | awk -v points="$(wc -l <"$tmp/used")" -v width="$(number point_s)" '
  { for (i = 1; i < NF; i++) v[$i] = $(i + 1)
    for (k = int(v["\"start_ns\""] / 1e9) + 1; k <= v["\"end_ns\""] / 1e9; k++) {
      used[int((k - 1) / width)] += 1000 - v["\"free_blocks\""]
      if (k > last) last = k
    } }
  END { for (p = 0; p * width < last; p++) {
      n = last - p * width < width ? last - p * width : width
      printf "%.9f\n", used[p] / n / 2000
    } }' >"$tmp/wanted"
awk '{ printf "%.9f\n", $1 }' "$tmp/used" >"$tmp/used9"
if [ "$(wc -l <"$tmp/used")" -gt 20 ] && cmp -s "$tmp/used9" "$tmp/wanted"; then
  ok "KV over time: as the iterations have it"
else
  paste "$tmp/used9" "$tmp/wanted" | head -n 5
  not_ok "KV over time: as the iterations have it"
fi

[ $fail -ne 0 ] || ok "studies/kv/README.md says what the program computes ($lines lines)"
exit $fail
