#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The command line from outside: help, usage errors, exit statuses, where output goes, and that nothing half-written stays.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
program=${DRYSERVE:-./dryserve}
program=$(cd "$(dirname "$program")" && pwd)/$(basename "$program")
export DRYSERVE_DATA=$root
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
fail=0

verdict() { # status, what
  if [ "$1" -eq 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fail=1; fi
}
show() { printf '  %s\n' "$@" >&2; sed 's/^/  | /' out err >&2; }
# Run the program; status, out and err are kept.
ds() { "$program" "$@" >out 2>err; status=$?; }
# What must hold after a run: status, and texts that standard error must contain.
refused() { # status, what, texts...
  local want=$1 what=$2 text good=0
  shift 2
  narrow err || good=1
  sed -i -e ':a' -e 'N' -e '$!ba' -e 's/\n    / /g' err # lines that were folded as one again
  [ "$status" -eq "$want" ] && [ ! -s out ] || good=1
  for text in "$@"; do grep -qF -e "$text" err || good=1; done
  [ "$(wc -l <err)" -le 4 ] || good=1
  grep -qE 'Sanitizer|runtime error' err && good=1
  [ $good -eq 0 ] || show "status $status, expected $want, and: $*"
  verdict $good "$what"
}
same() { cmp -s "$1" "$2" || { diff "$1" "$2" | head -n 20 >&2; return 1; }; }
narrow() { awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' "$1" >&2; }
only() { # the files of a folder
  local folder=$1
  shift
  local there
  there=$(find "$folder" -mindepth 1 -printf '%f\n' | sort | tr '\n' ' ')
  [ "$there" = "$* " ] || { echo "  there: $there" >&2; return 1; }
}

cat >two.yaml <<'END'
scenario: 1
pools:
  - {name: main, replicas: 1, scheduler: vllm-v1, kv_blocks: 100, kv_block_tokens: 4, prefix_cache: false,
     scheduler_options: {max_num_batched_tokens: 16, max_num_seqs: 4}}
cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}
workload:
  requests:
    - {id: "R,1", arrival_ns: 0, input_tokens: 10, output_tokens: 4}
    - {id: R2, arrival_ns: 0, input_tokens: 20, output_tokens: 2}
    - {id: R3, arrival_ns: 5000000000, input_tokens: 1, output_tokens: 1}
END

# --- help ----------------------------------------------------------------------------------------------------------------
ds --version
[ "$status" -eq 0 ] && [ "$(cat out)" = "dryserve $(sed -n 's/.*DS_VERSION "\(.*\)"/\1/p' "$root/sim/core/dryserve.h")" ]
verdict $? "--version"
ds --help
[ "$status" -eq 0 ] && [ ! -s err ] && narrow out && grep -q '^  run ' out && grep -q 'dryserve list' out
verdict $? "--help names the commands and fits 80 columns"
good=0
for option in timeline plots html prometheus metrics-compat; do grep -q -e "--$option" out && good=1; done
for command in sweep capacity compare claim explain lesson; do
  grep -q "^  $command" out && good=1
done
verdict $good "--help lists only what works"
good=0
"$program" --help | sed -n '/^Commands$/,/^$/s/^  \([a-z]*\) .*/\1/p' >commands
[ "$(wc -l <commands)" -ge 7 ] || good=1
declare -A operand=([run]=two.yaml [new]=--tp\ 2 [list]=models)
for command in $(cat commands); do
  ds "$command" --help
  [ "$status" -eq 0 ] && [ ! -s err ] && grep -q '^Examples' out && grep -q '^Options' out || good=1
  narrow out || good=1
  cp out first
  read -ra words <<<"${operand[$command]-}"
  ds "$command" "${words[@]}" -h
  same first out || good=1
done
verdict $good "COMMAND --help has examples and options, wherever it stands, and fits 80 columns"
"$program" run --help | grep -oE '^  --[a-z-]+' >options
good=0
while read -r option; do
  ds run "$option="
  grep -q "unknown option" err && good=1
done <options
[ "$(wc -l <options)" -ge 20 ] || good=1
rm options
verdict $good "every option that help lists is understood"

# --- usage errors ----------------------------------------------------------------------------------------------------------
ds; refused 2 "no command" "no command given"
good=0
while read -r command; do grep -qE "expected one of .*$command(,|\$)" err || good=1; done <commands
rm commands
verdict $good "without a command, every command that help lists is named"
ds rnu; refused 2 "a command that does not exist" "unknown command 'rnu'" "did you mean run?"
ds --verison; refused 2 "an option that does not exist" "unknown option '--verison'" "did you mean --version?"
ds sweep study.yaml; refused 2 "a command of a later version" "command sweep is not part of this version"
ds run; refused 2 "no scenario" "no scenario given" "see dryserve run --help"
ds run two.yaml three.yaml; refused 2 "two scenarios" "one scenario at a time" "three.yaml"
ds run two.yaml --quite; refused 2 "an option with a typing error" "unknown option '--quite'" "did you mean --quiet?"
ds run two.yaml --timeline t.json; refused 2 "an option of a later version" "option --timeline is not part of this version"
ds run two.yaml --json; refused 2 "an option without its value" "option --json needs a value" "expected --json FILE"
ds run two.yaml --quiet=yes; refused 2 "a switch with a value" "option --quiet takes no value"
ds run two.yaml --model llama-2-7b; refused 2 "flags beside a scenario" "--model cannot be used with a scenario file"
ds run two.yaml --json a --json b; refused 2 "an output twice" "option --json is given twice"
ds run two.yaml --json a --requests a; refused 2 "two outputs in one file" "two outputs go to 'a'"
ds run two.yaml --json - --steps -; refused 2 "two outputs on standard output" "two outputs go to"
ds run two.yaml --json - --steps /dev/stdout 2>err; refused 2 "the same by another name" "two outputs go to standard output"
ds run two.yaml --requests a.txt; refused 2 "a format of requests that is not known" "'.txt'" ".csv or .jsonl"
ds run two.yaml --set; refused 2 "--set without its value" "option --set needs a value" "PATH=VALUE"
ds run two.yaml --json two.yaml; refused 2 "an output that is the scenario" "output 'two.yaml' would replace"
ds new two.yaml; refused 2 "new takes no file" "two.yaml"
ds run missing.yaml; refused 3 "a scenario that is not there" "missing.yaml" "No such file"
ds run two.yaml --seed many; refused 3 "a seed that is no number" "many"
ds run -- --odd.yaml; refused 3 "after -- everything is a file" "--odd.yaml"
only . err first out two.yaml
verdict $? "none of these left a file"

# --- results ---------------------------------------------------------------------------------------------------------------
ds run two.yaml --requests r.csv --quiet
sed 's/"R,1"/"R;1"/' r.csv | cut -d, -f1-17 | sed 's/;/,/' >got
cat >want <<'END'
id,session,class,arrival_s,input_tokens,output_tokens,cached_tokens,status,replica,scheduled_s,first_token_s,finish_s,ttft_ms,tpot_ms,e2el_ms,max_itl_ms,preemptions
"R,1",,,0,10,4,0,ok,0,0,0.0116,0.047,11.6,11.8,47,12.4,0
R2,,,0,20,2,0,ok,0,0,0.024,0.036,24,12,36,12,0
R3,,,5,1,1,0,ok,0,5,5.0101,5.0101,10.1,,10.1,0,0
END
[ "$status" -eq 0 ] && [ ! -s out ] && [ ! -s err ] && same want got
verdict $? "--requests: exact decimals, quoted ids, an empty tpot for one token"
tail -n +2 r.csv | sed 's/^"R,1"/R1/' | awk -F, '{ s = 0; for (i = 18; i <= NF; i++) s += $i; d = s - $15; if (NF != 33 || d > 1e-9 || d < -1e-9) exit 1 }'
verdict $? "blame columns add up to e2el_ms"
ds run two.yaml --requests r.jsonl --quiet
cut -c1-300 r.jsonl | sed 's/,"blame.*//' >got
cat >want <<'END'
{"id":"R,1","session":null,"class":null,"arrival_s":0,"input_tokens":10,"output_tokens":4,"cached_tokens":0,"status":"ok","replica":0,"scheduled_s":0,"first_token_s":0.0116,"finish_s":0.047,"ttft_ms":11.6,"tpot_ms":11.8,"e2el_ms":47,"max_itl_ms":12.4,"preemptions":0
{"id":"R2","session":null,"class":null,"arrival_s":0,"input_tokens":20,"output_tokens":2,"cached_tokens":0,"status":"ok","replica":0,"scheduled_s":0,"first_token_s":0.024,"finish_s":0.036,"ttft_ms":24,"tpot_ms":12,"e2el_ms":36,"max_itl_ms":12,"preemptions":0
{"id":"R3","session":null,"class":null,"arrival_s":5,"input_tokens":1,"output_tokens":1,"cached_tokens":0,"status":"ok","replica":0,"scheduled_s":5,"first_token_s":5.0101,"finish_s":5.0101,"ttft_ms":10.1,"tpot_ms":null,"e2el_ms":10.1,"max_itl_ms":0,"preemptions":0
END
same want got && sed 's/.*"itl_ms"://' r.jsonl | tr '\n' ' ' | grep -qxF '[12.4,12,11]} [12]} []} '
verdict $? "--requests as JSON lines, with every gap"
ds run two.yaml --steps - --quiet
head -n 2 out >got
cat >want <<'END'
{"replica":0,"start_ns":0,"end_ns":11600000,"prefill_tokens":16,"decode_sequences":0,"prefill":[["R,1",10],["R2",6]],"decode":[],"preempted":[],"free_blocks":95}
{"replica":0,"start_ns":11600000,"end_ns":24000000,"prefill_tokens":14,"decode_sequences":1,"prefill":[["R2",14]],"decode":["R,1"],"preempted":[],"free_blocks":92}
END
same want got
verdict $? "--steps: a line per iteration"
sed '/requests:/,$d' two.yaml >numbered.yaml
echo '  trace: t.csv' >>numbered.yaml
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,10,2\n2023-11-16 18:15:46.69,5,1\n' >t.csv
ds run numbered.yaml --steps - --quiet
grep -q '"prefill":\[\[0,10\]\]' out && ds run numbered.yaml --requests - && [ "$(cut -d, -f1 out | tr '\n' ' ')" = "id 0 1 " ]
verdict $? "a trace without ids numbers its requests"

# R1 and R2 would end at 48 and 36 ms; R1 is not counted at all.
ds run two.yaml --set workload.client.timeout='30 ms' --set workload.warmup.requests=1 --requests - --json j --quiet
cut -d, -f8 <(tail -n +2 out | sed 's/"R,1"/R1/') | tr '\n' ' ' >got
ds run two.yaml --set workload.client.timeout='30 ms' --set workload.warmup.requests=1 --requests r.jsonl --quiet
printf 'warmup timeout ok ' >want
same want got && grep -q '"failed": 1,' j && grep -q '"completed": 1,' j &&
  [ "$(grep -o '"status":"[a-z]*"' r.jsonl | cut -d'"' -f4 | tr '\n' ' ')" = "$(cat want)" ]
verdict $? "each request of a file says whether it counts: warmup, timeout, ok"

# Prompts of 30 and 60 tokens in a pool of 40: R1 and R3 can never run as they are.
sed '/requests:/,$d' two.yaml >large.yaml
echo '  {trace: large.jsonl, import: {oversize: reject}}' >>large.yaml
cat >large.jsonl <<'END'
{"id": "R0", "arrival_ns": 0, "input_tokens": 10, "output_tokens": 1}
{"id": "R1", "arrival_ns": 1, "input_tokens": 30, "output_tokens": 20}
{"id": "R2", "arrival_ns": 2, "input_tokens": 10, "output_tokens": 2}
{"id": "R3", "arrival_ns": 3, "input_tokens": 60, "output_tokens": 2}
END
ds run large.yaml --set pools.main.kv_blocks=10 --requests - --quiet
cut -d, -f1,5,6,8,9,15 out | tail -n +2 | tr '\n' ' ' >got
printf 'R0,10,1,ok,0,11 R1,30,20,rejected,, R2,10,2,ok,0,32.999998 R3,60,2,rejected,, ' >want
same want got && [ "$(awk -F, '{ print NF }' out | sort -u)" = 33 ] && ds run large.yaml --set pools.main.kv_blocks=10 --steps - --quiet &&
  grep -q '"decode":\["R2"\]' out && ds run large.yaml --set pools.main.kv_blocks=10 --json - && grep -q '"completed": 2' out &&
  grep -q '"failed": 2' out && grep -q '"rejected": 2' out && grep -q 'requests were rejected' out &&
  ds run large.yaml --set pools.main.kv_blocks=10 --requests r.jsonl --quiet && grep -q '^{"id":"R1",.*"status":"rejected","replica":null,.*"itl_ms":\[\]}$' r.jsonl
verdict $? "import.oversize: reject"
ds run large.yaml --set pools.main.kv_blocks=10 --set workload.import.oversize=truncate --requests - --quiet
cut -d, -f1,5,6,8 out | tail -n +2 | tr '\n' ' ' >got
printf 'R0,10,1,ok R1,30,11,ok R2,10,2,ok R3,40,1,ok ' >want # 41 tokens: the newest needs no block
same want got
verdict $? "import.oversize: truncate"
ds run large.yaml --set pools.main.kv_blocks=10 --set workload.import.oversize=error
refused 3 "import.oversize: error" "large.jsonl:2: request R1: a request needs 13 KV blocks, more than the whole pool of 10"
ds run large.yaml --set pools.main.kv_blocks=1
refused 3 "nothing fits" "no request of the workload fits a replica"

# --- where output goes -----------------------------------------------------------------------------------------------------
ds run two.yaml
[ "$status" -eq 0 ] && [ ! -s err ] && narrow out
good=$?
for text in 'linear cost model on 1 replica' SLO 'why ' trust assumed next TTFT TPOT ITL E2E p50 p90 p95 p99 'KV 100 blocks'; do
  grep -qF "$text" out || { echo "no $text" >&2; good=1; }
done
verdict $good "the answer and the table, in 80 columns, without colour"
{ echo 'title: A title of so many words that they do not fit into one line of the usual eighty columns'; cat two.yaml; } >titled.yaml
ds run titled.yaml
rm titled.yaml
[ "$status" -eq 0 ] && narrow out && [ "$(sed -n 2p out)" = "  columns" ]
verdict $? "a long title wraps"
printf '%s\n' 'scenario: 1' 'pools: [{name: main, scheduler: vllm-v1, kv_blocks: 100, kv_block_tokens: 4}]' \
  'cost: {model: linear, step: 10 ms, prefill_token: 0.1 ms, decode_sequence: 1 ms}' >said.yaml
generate() { ds run said.yaml --set workload="{generate: {$1, input_tokens: 5, output_tokens: 2}}"; }
generate 'requests: 1, arrivals: {process: burst-at-zero}'
[ "$status" -eq 0 ] && grep -q ', 1 request at once,' out
good=$?
generate 'requests: 20, arrivals: {process: users, users: 7}'
[ "$status" -eq 0 ] && grep -q ', 7 users at ' out || good=1
rm said.yaml
verdict $good "one request is one request, and users are counted"
# shellcheck disable=SC2016
ds run --model llama-3.1-8b --weights fp8 --hardware 2xh100-sxm --rate 4/s --slo 'p99 ttft 2s, p99 tpot 100ms'
[ "$status" -eq 0 ] && narrow out
good=$?
for text in 'SLO      p99 TTFT <= 2 s ' 'p99 TPOT <= 100 ms' ' met' 'goodput  ' 'breaks first: ' '% of busy time' '$/M output tokens at ' \
  'measured runs' 'next     dryserve run --model llama-3.1-8b'; do
  grep -qF "$text" out || { echo "no $text" >&2; good=1; }
done
verdict $good "an answer with an SLO, a cost and what breaks first"
good=0
sed -n '/^next/,/^$/p' out | sed 's/^next    //; s/#.*//' >commands
awk '/\\$/ { sub(/\\$/, ""); line = line $0; next } NF { print line $0; line = "" }' commands >whole
[ "$(wc -l <whole)" -eq 3 ] || good=1
while read -r word rest; do
  [ "$word" = dryserve ] || good=1
  (eval "\"\$program\" $rest" >out2 2>err2) || { cat err2 >&2; good=1; }
done <whole
verdict $good "the three commands that it names work"
ds run two.yaml --json -
cp out j1
[ "$status" -eq 0 ] && [ ! -s err ] && [ "$(head -c 1 out)" = '{' ] && [ "$(tail -n 1 out)" = '}' ]
verdict $? "--json -: nothing else on standard output"
ds run two.yaml --json j2
[ -s out ] && same j1 j2 && ds run two.yaml --json=j3 --quiet && [ ! -s out ] && same j1 j3
verdict $? "--json FILE, --json=FILE and --quiet: the same bytes"
ds run two.yaml --json /dev/stdout
same j1 out && ! grep -q 'TTFT ' out
verdict $? "/dev/stdout is standard output, too"
ds run - --json - <two.yaml
sed '/run_hash/d; /"path"/d; /sha256/d' j1 >want
sed '/run_hash/d; /"path"/d; /sha256/d' out >got
[ "$status" -eq 0 ] && same want got
verdict $? "- reads the scenario from standard input"
(TZ=Asia/Tokyo LC_ALL=de_DE.UTF-8 NO_COLOR=1 "$program" run two.yaml --no-lease --json j4 >out 2>err) && same j1 j4
verdict $? "--no-lease, another locale and time zone: the same bytes"
ds run two.yaml --set workload.max_tokens=1
tr -s '\n ' ' ' <out | grep -q 'outputs are longer than max_tokens says; they are not cut'
verdict $? "a cap that outputs exceed cuts nothing, and the answer says so"
good=0
ds run --model llama-3.1-8b --hardware 4xl40s --tp 4 --rate 4/s --input 100 --output 20
tr -s '\n ' ' ' <out | grep -q '4 devices of l40s share their way through the host' || good=1
ds run --model llama-3.1-8b --hardware 2xl40s --tp 2 --rate 4/s --input 100 --output 20
grep -q 'through the host' out && good=1
verdict $good "devices that crowd in the host are warned of"
good=0
for key in dryserve_version schema run_hash scenario inputs warnings saturated bottleneck bounds blame_s method duration completed failed \
  total_input_tokens total_output_tokens request_throughput request_goodput output_throughput total_token_throughput mean_ttft_ms \
  median_tpot_ms std_itl_ms p50_e2el_ms p90_ttft_ms p95_ttft_ms p99_ttft_ms max_output_tokens_per_s max_concurrent_requests; do
  [ "$(grep -c "^  \"$key\":" j1)" -eq 1 ] || { echo "$key" >&2; good=1; }
done
grep -q '"request_goodput": null' j1 && grep -q '"bounds": null' j1 || good=1
verdict $good "--json has the names of the contract, null without a meaning"
ds run two.yaml --explain-config
[ "$status" -eq 0 ] && grep -qE '^pools\.main\.kv_blocks +100 +# two\.yaml:3$' out && grep -qE '^seed +1 +# default$' out &&
  ds run two.yaml --explain-config --seed 7 --set pools.main.replicas=2 && grep -qE '^seed +7 +# command line' out &&
  grep -qE '^pools\.main\.replicas +2 +# command line' out && [ "$(awk 'length > 80' out | wc -l)" -eq 0 ]
verdict $? "--explain-config: every value and where it came from"
sed 's/^workload:/slo: {run: {p50_ttft: 11.599999 ms}}\n&/' two.yaml >slo.yaml
ds run slo.yaml --json j5
[ "$status" -eq 4 ] && grep -q missed out && grep -q '"slo_met": false' j5 && ds run slo.yaml --set slo.run.p50_ttft='11.6 ms' --quiet
[ "$status" -eq 0 ]
verdict $? "a missed limit of the run: status 4, and the files are there"

# --- what cannot be written ----------------------------------------------------------------------------------------------------
mkdir w && cd w && cp ../two.yaml . || exit 1
s=two.yaml
"$program" run $s >/dev/full 2>err; status=$?; : >out
refused 1 "a full disk behind standard output" "cannot write standard output: No space left on device"
"$program" run $s --json j >/dev/full 2>err; status=$?; : >out
refused 1 "then the files do not appear either" "standard output"
"$program" run $s >&- 2>err; status=$?
refused 1 "closed standard output" "cannot write standard output"
"$program" run $s --help >&- 2>err; status=$?
refused 1 "closed standard output, for help" "cannot write standard output"
"$program" run $s --json j --quiet >&- 2>&- <&- && same j ../j1 && rm j
verdict $? "closed standard streams do no harm when nothing goes there"
ds run $s --json /dev/full; refused 1 "a full disk" "cannot write '/dev/full': No space left on device"
ds run $s --json j --requests r.csv --steps /dev/full; refused 1 "one file of three on a full disk" "cannot write '/dev/full'"
ds run $s --json .; refused 2 "a folder as output" "cannot write '.': Is a directory" "the name of a file"
ds run $s --json j --requests missing/r.csv; refused 2 "a folder that does not exist" "missing/r.csv" "does not exist"
ds run $s --json $s/j; refused 2 "a file for a folder" "Not a directory"
ds run $s --json ''; refused 2 "an empty name" "cannot write ''"
# shellcheck disable=SC2216
{ "$program" run $s --steps - 2>err; echo $? >../rc; } | :
[ "$(cat ../rc)" -le 1 ] # what is short enough may fit into the pipe before it closes
verdict $? "a reader that goes away"
only . err out two.yaml
verdict $? "none of these left a file"
if [ "$(id -u)" -ne 0 ]; then
  mkdir locked && chmod 500 locked
  ds run $s --json locked/j
  refused 1 "a folder without permission" "locked/j" "Permission denied"
  rmdir locked
else
  echo "ok - a folder without permission # SKIP root may write anywhere"
fi
ds run $s --json j --requests r.csv --set pools.main.kv_blocks=1
refused 3 "a failing run leaves no files" "KV blocks"
only . err out two.yaml
verdict $? "none at all"
mkfifo pipe
cat pipe >through &
ds run $s --json pipe
wait
[ "$status" -eq 0 ] && same through ../j1 && [ -p pipe ] && rm pipe through
verdict $? "a named pipe is written in place"
echo old >real && ln -s real link && ln -s later dangling && chmod 640 real
ds run $s --json link --requests dangling
[ "$status" -eq 0 ] && [ -L link ] && same real ../j1 && [ "$(stat -c %a real)" = 640 ] && [ -L dangling ] && [ -s later ]
verdict $? "symbolic links are followed, and stay"
rm real link later dangling

# A run that would take minutes is told to stop once its temporary file is there.
sed '/requests:/,$d' two.yaml >../long.yaml
cat >>../long.yaml <<'END'
  generate: {requests: 5000000, arrivals: {process: poisson, rate: 50 /s}, input_tokens: {law: fixed, value: 4}, output_tokens: {law: fixed, value: 8}}
END
for signal in INT TERM; do
  (trap - INT; exec "$program" run ../long.yaml --steps s.jsonl --json j.json >out 2>err) &
  pid=$!
  for _ in $(seq 200); do
    [ "$(find . -name '.dryserve-*' | wc -l)" -eq 2 ] && break
    sleep 0.05
  done
  seen=$(find . -name '.dryserve-*' | wc -l)
  kill -s $signal $pid
  wait $pid 2>/dev/null
  status=$?
  if [ $status -eq 0 ] || [ "$seen" -ne 2 ]; then
    verdict 1 "SIG$signal: status $status, $seen temporary files seen"
  else
    only . err out two.yaml
    verdict $? "SIG$signal removes temporary files"
  fi
done
cd ..

# --- terminals -------------------------------------------------------------------------------------------------------------------
if command -v script >out && script -qec true /dev/null </dev/null >out 2>&1; then
  script -qec "'$program' run slo.yaml" /dev/null </dev/null >terminal 2>&1
  NO_COLOR=1 script -qec "'$program' run slo.yaml" /dev/null </dev/null >plain 2>&1
  grep -qF $'\033[31mmissed\033[0m' terminal && ! grep -q $'\033' plain
  verdict $? "colour on a terminal, unless NO_COLOR"
else
  echo "ok - colour on a terminal # SKIP no script(1)"
fi
exit $fail
