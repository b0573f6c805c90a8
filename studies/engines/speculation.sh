#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Does speculation pay, and up to which batch? Usage: studies/engines/speculation.sh [BATCH...]   (DRYSERVE names the program)
#
# gain: mean time per output token without speculation over that with it, each batch served from start to end. by step: what the
# cost model says of one step, the tokens that a verify step yields (1 + a + ... + a^4, each of four drafts accepted with
# chance a = 0.6) times the time of a plain step over that of a verify step, both at the batch's own size.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/../.."
program=${DRYSERVE:-./dryserve}
[ $# -gt 0 ] || set -- 1 2 4 8 16 32 64 96 128 192 256
figures() { # on or off, batch, acceptance: time per output token and mean gap between steps, ms
  "$program" run "studies/engines/speculation-$1.yaml" --quiet --set "workload.generate.requests=$2" ${3:+--set "$3"} --json - |
    awk -F: '{ gsub(/[ ,]/, "", $2) } $1 ~ /"mean_tpot_ms"/ { a = $2 } $1 ~ /"mean_itl_ms"/ { b = $2 } END { print a, b }'
}
echo "batch  ms a token without      with    gain  by step"
for n in "$@"; do
  # With no draft accepted nobody is done before the others, so every verify step has the whole batch in it.
  echo "$n $(figures off "$n") $(figures on "$n") $(figures on "$n" pools.main.speculative.acceptance=0)"
done | awk '
  function cross(now, before, mark) { # straight line between two batches
    if (before >= 1 && now < 1) at[mark] = batch + (n - batch) * (before - 1) / (before - now)
    return now
  }
  BEGIN { for (k = 0; k <= 4; k++) yield += 0.6 ^ k }
  { n = $1; gain = $2 / $4; step = yield * $3 / $7
    printf "%5d  %18.2f  %8.2f  %6.3f  %7.3f\n", n, $2, $4, gain, step
    g = cross(gain, g, 1); s = cross(step, s, 2); batch = n }
  END { if (1 in at) printf "gain crosses 1 at a batch of about %.0f\n", at[1]
        else print "gain does not cross 1 in this range"
        if (2 in at) printf "by step it does at a batch of about %.0f\n", at[2] }'
