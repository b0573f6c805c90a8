#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# run-tests.sh TEST...   Run each test, JOBS at a time; a line for each with its time, the output of those that fail,
# and at the end `N passed, N failed, N skipped`. A test is a program or a script: Criterion programs (.../unit/test_*)
# count each of their tests, what prints TAP lines (ok, not ok, ok ... # SKIP) counts each of those, and anything else
# counts once: exit status 0 passed, 77 skipped, other failed. Totals are also left in $BUILD/tests/summary.
set -u
export LC_ALL=C
: "${BUILD:=build/release}" "${JOBS:=2}" "${TEST_TIMEOUT:=300}"
logs=$BUILD/tests/logs
rm -rf "$logs" "$BUILD/tests/summary"
mkdir -p "$logs"
# Tests may change folder, so they get absolute paths.
summary=$BUILD/tests/summary
BUILD=$(cd "$BUILD" && pwd)
[ -z "${DRYSERVE:-}" ] || DRYSERVE=$(cd "$(dirname "$DRYSERVE")" && pwd)/$(basename "$DRYSERVE")
export BUILD DRYSERVE
# A build outside the tree (O=dir) finds its cards here all the same.
export DRYSERVE_DATA="${DRYSERVE_DATA:-$PWD}"

# Counts of one test, from its TAP lines and its exit status: passed, failed, skipped.
tally() { # file, status
  awk -v rc="$2" '
    /^ok/ { if ($0 ~ /# *[Ss][Kk][Ii][Pp]/) s++; else p++ }
    /^not ok/ { f++ }
    END {
      if (p + f + s == 0) { if (rc == 0) p = 1; else if (rc == 77) s = 1; else f = 1 }
      else if (rc != 0 && f == 0) f = 1 # it died after its last line
      print p + 0, f + 0, s + 0
    }' "$1"
}

one() { # path of a test
  local test=$1 name log rc start end counts p f s word
  name=$(basename "$test")
  log=$logs/$name
  start=${EPOCHREALTIME/./}
  case $test in
  */unit/test_*)
    timeout "$TEST_TIMEOUT" "$test" -j1 --tap="$log.tap" </dev/null >"$log" 2>&1
    rc=$?
    [ -e "$log.tap" ] || : >"$log.tap"
    ;;
  *)
    case $test in
    */*) ;;
    *) test=./$test ;;
    esac
    timeout "$TEST_TIMEOUT" "$test" </dev/null >"$log" 2>&1
    rc=$?
    cp "$log" "$log.tap"
    ;;
  esac
  end=${EPOCHREALTIME/./}
  counts=$(tally "$log.tap" "$rc")
  read -r p f s <<<"$counts"
  echo "$counts" >"$log.counts"
  word=ok
  [ "$p" -gt 0 ] || word=skip
  [ "$f" -eq 0 ] || word=FAIL
  {
    printf '%-4s %-32s %4d passed %4d failed %4d skipped %9d.%03d s\n' "$word" "$name" "$p" "$f" "$s" \
      $(((end - start) / 1000000)) $(((end - start) / 1000 % 1000))
    if [ "$f" -gt 0 ]; then
      [ "$rc" -ne 124 ] || echo "     | stopped after $TEST_TIMEOUT s"
      grep -av '^ok' "$log" | tail -n 60 | sed 's/^/     | /'
      echo "     | exit status $rc; all of it: $log"
    fi
  } >"$log.line"
  cat "$log.line"
}
# shellcheck disable=SC2317 # called by xargs
export -f one tally
export logs TEST_TIMEOUT

started=${EPOCHREALTIME/./}
if [ $# -gt 0 ]; then
  printf '%s\0' "$@" | xargs -0 -P "$JOBS" -I {} bash -c 'one "$1"' _ {}
fi
ended=${EPOCHREALTIME/./}
cat "$logs"/*.counts 2>/dev/null | awk -v n="$#" -v t="$(((ended - started) / 100000))" '
  { p += $1; f += $2; s += $3; seen++ }
  END {
    if (seen < n) f += n - seen # a test that left no count did not run
    printf "%d tests in %.1f s\n", seen, t / 10
    printf "%d passed, %d failed, %d skipped\n", p, f, s
    exit f > 0
  }' | tee "$summary.new"
status=${PIPESTATUS[1]}
tail -n 1 "$summary.new" >"$summary"
rm -f "$summary.new"
exit "$status"
