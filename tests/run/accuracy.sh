#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# dryserve validate and calibrate from the command line, on a file that the simulator made itself: what it predicts, it must find again.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
program=${DRYSERVE:-./dryserve}
case $program in /*) ;; *) program=$PWD/$program ;; esac
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fail=0
verdict() {
  if [ "$1" -eq 0 ]; then echo "ok - $2"; else
    echo "not ok - $2"
    fail=1
  fi
}
head='id,split,engine,engine_version,model,weight_precision,kv_precision,gpu,n_gpus,tp,workload_kind,isl_mean,osl_mean,concurrency,e2e_mean_ms'
row() { echo "$1,$2,vLLM,0.11.0,llama-3.1-8b,bf16,fp16,h100-sxm,1,1,offline,$3,$4,$5,$6"; }
{
  echo "$head"
  i=0
  for in in 32 500 2000 8000; do for out in 1 40; do for batch in 1 8 32; do
    i=$((i + 1))
    row "SELF-$i" calibrate $in $out $batch 1
  done; done; done
} >"$tmp/blank.csv"
"$program" validate "$tmp/blank.csv" --json "$tmp/first.json" --quiet --jobs 2
verdict $? "every row is simulated"
"$program" validate "$tmp/blank.csv" --json "$tmp/again.json" --quiet --jobs 1 && cmp -s "$tmp/first.json" "$tmp/again.json"
verdict $? "the number of workers changes no byte"
# The predictions become the measurements.
sed -n '/"predicted"/,/}/s/.*"e2e_mean": \([0-9.e+-]*\),*/\1/p' "$tmp/first.json" >"$tmp/e2e"
{
  echo "$head"
  tail -n +2 "$tmp/blank.csv" | paste -d, - "$tmp/e2e" | sed 's/,1,\([0-9.e+-]*\)$/,\1/; s/,calibrate,/,validate,/'
} >"$tmp/self.csv"
"$program" validate "$tmp/self.csv" --bar e2e=0.01 >"$tmp/out" 2>"$tmp/err"
verdict $? "its own predictions have no error"
grep -q '24 simulated (100.0 %)' "$tmp/out" && grep -q 'A end to end' "$tmp/out"
verdict $? "the report counts them"
awk -F, -v OFS=, 'NR > 1 { $15 *= 1.25 } 1' "$tmp/self.csv" >"$tmp/slow.csv"
"$program" validate "$tmp/slow.csv" --bar e2e=10 --quiet 2>"$tmp/err"
[ $? -eq 4 ] && grep -q -- '--bar e2e: the error is 20.0 %' "$tmp/err"
verdict $? "a bar that is missed: exit status 4"
"$program" validate "$tmp/self.csv" --only gpu=abacus >"$tmp/out" 2>"$tmp/err"
[ $? -eq 3 ] && grep -q 'no row is left' "$tmp/err"
verdict $? "a filter that leaves nothing: exit status 3"
"$program" validate "$tmp/self.csv" --only colour=red >"$tmp/out" 2>"$tmp/err"
[ $? -eq 2 ] && grep -q 'names no column' "$tmp/err"
verdict $? "an unknown column: exit status 2"
for n in 0 257 -1 2x ''; do "$program" validate "$tmp/self.csv" --jobs "$n" 2>"$tmp/err" && break; [ $? -eq 2 ] && grep -q '1 to 256' "$tmp/err" || break; done
[ -z "$n" ] && "$program" calibrate "$tmp/self.csv" --hardware h100-sxm --jobs 65 2>"$tmp/err"
[ $? -eq 2 ] && grep -q '1 to 64' "$tmp/err"
verdict $? "--jobs out of its range: exit status 2"
cut -d, -f1-14 "$tmp/self.csv" >"$tmp/none.csv"
"$program" validate "$tmp/none.csv" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 3 ] && grep -q 'no measured column' "$tmp/err"
verdict $? "nothing measured: exit status 3"

"$program" calibrate "$tmp/slow.csv" --hardware h100-sxm >"$tmp/out" 2>"$tmp/err"
[ $? -eq 3 ] && grep -q 'no measured run on h100-sxm' "$tmp/err"
verdict $? "rows kept for validation are not fitted"
sed 's/,validate,/,calibrate,/' "$tmp/slow.csv" >"$tmp/fit.csv"
"$program" calibrate "$tmp/fit.csv" --hardware h100-sxm --fit gemm_bf16.e,allreduce.e2 -o "$tmp/mine.yaml" >"$tmp/out" 2>"$tmp/err" &&
  grep -q 'gemm_bf16.em .* to ' "$tmp/out" && grep -q 'allreduce.e2 .*refused: moves 0 figures, needs 3' "$tmp/out"
verdict $? "calibrate fits what the rows tell and refuses the rest"
grep -q '^name: mine$' "$tmp/mine.yaml" && grep -q 'CALIBRATED: "dryserve calibrate fit.csv' "$tmp/mine.yaml" &&
  "$program" run --model llama-3.1-8b --hardware "$tmp/mine.yaml" --rate 1/s >"$tmp/out" 2>"$tmp/err"
verdict $? "the card says where its numbers are from, and serves"
"$program" calibrate --plan --hardware h100-sxm >"$tmp/out" 2>"$tmp/err" && [ "$(grep -c '^vllm bench latency --model' "$tmp/out")" -eq 5 ]
verdict $? "--plan names five measurements"
exit $fail
