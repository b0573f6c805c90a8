#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# What `make check` runs: the quick tests (unless SKIP_TEST=1, where they have just been run), then the slower checks of
# this folder one after the other. Ends in one line `N passed, N failed, N skipped` over both; exit status 1 if any failed.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS # of a make that called us: what follows is a build of its own
: "${O:=build}"
export O
total=()
count() { # summary file of a stage that has run
  if [ -s "$1" ]; then total+=("$(cat "$1")"); else total+=("0 passed, 1 failed, 0 skipped"); fi
}
if [ "${SKIP_TEST:-}" != 1 ]; then
  rm -f "$O/release/tests/summary"
  make --no-print-directory test
  count "$O/release/tests/summary"
fi
make -s --no-print-directory all || exit 1
BUILD=$O/check JOBS=1 TEST_TIMEOUT=1200 DRYSERVE=$O/release/dryserve sim/packaging/run-tests.sh \
  tests/check/warnings.sh tests/check/pure.sh tests/check/asan.sh tests/check/determinism.sh tests/check/lint.sh
count "$O/check/tests/summary"
printf '%s\n' "${total[@]}" | awk '
  { p += $1; f += $3; s += $5 }
  END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 }' | tee "$O/check/summary.new"
status=${PIPESTATUS[1]}
mv "$O/check/summary.new" "$O/check/summary"
exit "$status"
