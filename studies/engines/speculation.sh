#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Output tokens per second with and without speculation by batch size, and the batch at which the gain crosses 1.
# Usage: studies/engines/speculation.sh [BATCH...]   (from the top of the tree; DRYSERVE names the program)
set -eu
cd "$(dirname "$0")/../.."
program=${DRYSERVE:-./dryserve}
[ $# -gt 0 ] || set -- 1 2 4 8 16 32 64 128 256 512
rate() {
  "$program" run "studies/engines/speculation-$1.yaml" --quiet --set "workload.generate.requests=$2" --json - |
    sed -n 's/^ *"output_throughput": \([0-9.e+]*\),*$/\1/p'
}
echo "batch  tokens/s without  with  gain"
for n in "$@"; do
  echo "$n $(rate off "$n") $(rate on "$n")"
done | awk '
  { gain = $3 / $2; printf "%5d  %8.1f  %8.1f  %.3f\n", $1, $2, $3, gain
    if (before >= 1 && gain < 1) {   # straight line between the two batches
      cross = batch + ($1 - batch) * (before - 1) / (before - gain); found = 1 }
    before = gain; batch = $1 }
  END { if (found) printf "gain crosses 1 at a batch of about %.0f\n", cross
        else print "gain does not cross 1 in this range" }'
