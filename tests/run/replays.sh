#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Recorded serving runs replayed request by request, where they are at hand ($DRYSERVE_SHARED, default ../shared): how far mean and p99
# of TTFT and end-to-end latency are from the record. All are held to 10 % end to end and 20 % (or 10 ms) of mean TTFT, the one whose
# engine and client share a process to 5 and 10.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
program=${DRYSERVE:-./dryserve}
case $program in /*) ;; *) program=$PWD/$program ;; esac
shared=${DRYSERVE_SHARED:-../shared}
blis=$shared/data/measured/raw/blis
lss=$shared/data/traces/llmservingsim/measured/RTXPRO6000_Llama-3.1-8B
if [ ! -d "$blis" ] || [ ! -d "$lss" ]; then
  echo "ok - replays # SKIP no recorded runs at hand"
  exit 0
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail=0

number() { tr ',{}' '\n' <"$1" | sed -n "s/^ *\"$2\": *\([0-9.eE+-]*\) *$/\1/p" | head -n 1; }
# mean and p99 of a file of numbers, one a line
measured() { sort -g "$1" | awk '{ x[NR] = $1; s += $1 } END { k = (NR - 1) * 0.99; i = int(k); printf "%.6f %.6f\n", s / NR, x[i + 1] + (k - i) * (x[(i + 2 > NR) ? NR : i + 2] - x[i + 1]) }'; }

replay() { # name, model, hardware, tensor parallel, options of the pool, engine, bar on end to end in %, bar on TTFT in %
  cat >"$tmp/s.yaml" <<END
scenario: 1
model: $2
weights: bf16
pools:
  - {name: main, hardware: $3, engine: $6, tensor_parallel: $4, scheduler: vllm-v1, prefix_cache: true, $5}
workload: {trace: $tmp/trace.jsonl}
END
  if ! "$program" run "$tmp/s.yaml" --json "$tmp/out.json" --quiet 2>"$tmp/err"; then
    echo "not ok - $1: $(head -n 1 "$tmp/err")"
    fail=1
    return
  fi
  { measured "$tmp/ttft" && measured "$tmp/e2e"; } | tr '\n' ' ' >"$tmp/m"
  echo "$(number "$tmp/out.json" mean_ttft_ms) $(number "$tmp/out.json" p99_ttft_ms) $(number "$tmp/out.json" mean_e2el_ms) $(number "$tmp/out.json" p99_e2el_ms) $(cat "$tmp/m") $7 $8" |
    awk -v name="$1" -v judged="${7:-0}" '
      function off(p, m) { return 100 * (p - m) / m }
      function bad(p, m, bar) { d = p - m; if (d < 0) d = -d; return d > bar / 100 * m }
      { printf "  %-34s TTFT mean %+6.1f %% p99 %+6.1f %%, end to end mean %+6.1f %% p99 %+6.1f %%\n", name, off($1, $5), off($2, $6), off($3, $7), off($4, $8)
        t = $1 - $5; if (t < 0) t = -t
        exit judged > 0 && (bad($3, $7, $9) || bad($4, $8, $9) || (t > 10 && bad($1, $5, $10))) }'
  if [ $? -eq 0 ]; then echo "ok - $1"; else
    echo "not ok - $1: off by more than $7 % end to end or $8 % and 10 ms of TTFT"
    fail=1
  fi
}

# A hundred prompts take turns (their lengths repeat with that period in all six files), and all begin with one system prompt: whole
# blocks of 16, named by their place in the prompt. Outputs have the nominal length; every one is new.
recorded() { # file, tokens of the system prompt, output tokens
  awk -F, -v system_tokens="$2" -v out="$3" -v ttft="$tmp/ttft" -v e2e="$tmp/e2e" '
    NR > 1 && $5 == 0 {
      p = $1 % 100; shared = int(system_tokens / 16); n = int($3 / 16)
      printf "{\"id\": \"%d\", \"arrival_ns\": %.0f, \"input_tokens\": %d, \"output_tokens\": %d, \"block_tokens\": 16, \"blocks\": [", $1, $2 * 1000, $3, out
      for (b = 0; b < n; b++) printf "%s%d", (b ? ", " : ""), (b < shared ? b + 1 : 1000 * (p + 1) + b)
      printf "]}\n"
      print $6 * 1000 >ttft; print $7 * 1000 >e2e }' "$1" >"$tmp/trace.jsonl"
}
blis_run() { # file stem, model, tensor parallel, blocks, cached, output
  recorded "$blis/$1.csv" "$5" "$6"
  replay "$1" "$2" h100-sxm "$3" "max_model_len: none, kv_blocks: $4, scheduler_options: {max_num_seqs: 128, max_num_batched_tokens: 2048}" vllm-2026 10 20
}
blis_run 20260217-155451-llama-2-7b-tp1-codegen llama-2-7b 1 7462 100 247
blis_run 20260217-162547-llama-2-7b-tp1-roleplay llama-2-7b 1 7462 150 251
blis_run 20260217-231439-llama-2-7b-tp1-general llama-2-7b 1 7462 100 248
blis_run 20260218-150956-codellama-34b-tp2-codegen codellama-34b 2 26602 100 247
blis_run 20260218-155500-codellama-34b-tp2-roleplay codellama-34b 2 26602 150 251
blis_run 20260218-150304-codellama-34b-tp2-general codellama-34b 2 26602 100 248

# The client was in the engine's process: no front end.
sed -e 's/^name: .*/name: in-process/' -e 's/^api_per_request: {value: [^,]*/api_per_request: {value: 0 us/' \
  -e 's/^api_per_token: {value: [^,]*/api_per_token: {value: 0 us/' -e '/^tokenise:/d' models/engines/vllm-2025.yaml >"$tmp/in-process.yaml"
sed 's/[{},]/ /g; s/"[a-z_]*"://g' "$lss/requests.jsonl" | awk -v ttft="$tmp/ttft" -v e2e="$tmp/e2e" '
  NR == 1 { t0 = $4 }
  { printf "%.0f {\"id\": \"%d\", \"arrival_ns\": %.0f, \"input_tokens\": %d, \"output_tokens\": %d}\n", ($4 - t0) * 1e9, NR, ($4 - t0) * 1e9, $2, $3
    print ($7 - $5) * 1000 >ttft; print ($8 - $5) * 1000 >e2e }' | sort -n | cut -d' ' -f2- >"$tmp/trace.jsonl"
replay rtx-pro-6000-llama-3.1-8b llama-3.1-8b rtx-pro-6000 1 \
  "scheduler_options: {max_num_seqs: 128, max_num_batched_tokens: 2048}" "$tmp/in-process.yaml" 5 10
exit $fail
