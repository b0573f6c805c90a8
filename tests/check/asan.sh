#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# All tests under the address, leak and undefined-behaviour sanitizers. Criterion calls a test that leaks "passed"
# whatever the exit code of the leak checker, so the sanitizers write their reports to files and any file is a failure;
# a test that leaks on purpose proves that this works.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS # of a make that called us: what follows is a build of its own
: "${O:=build}"
B=$O/asan
san=$PWD/$B/san
[ "${O#/}" = "$O" ] || san=$B/san
fail=0
verdict() { # status, text
  if [ "$1" -eq 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fail=1; fi
}
with_reports() { # folder of the reports, then a command
  local reports=$1
  shift
  rm -rf "$reports"
  mkdir -p "$reports"
  ASAN_OPTIONS="log_path=$reports/asan:detect_leaks=1:detect_stack_use_after_return=1" \
    UBSAN_OPTIONS="log_path=$reports/ubsan:print_stacktrace=1" "$@"
}

make -s -j"$(nproc)" --no-print-directory O="$O" CONFIG=asan "$B/dryserve" tests "$B/tests/check/leaks_on_purpose" || {
  echo "not ok - builds with sanitizers"
  exit 1
}
with_reports "$san.control" "$B/tests/check/leaks_on_purpose" -j1 >"$B/control.log" 2>&1
grep -qs 'LeakSanitizer' "$san.control"/*
verdict $? "a leak on purpose is seen"

# Random scenarios: a tenth of what the plain run has, so that all of them take minutes.
export DRYSERVE_FEW=1
with_reports "$san" make -s --no-print-directory O="$O" CONFIG=asan TEST_TIMEOUT=600 run-tests >"$B/tests.log" 2>&1
status=$?
[ $status -eq 0 ] || grep -A 60 '^FAIL' "$B/tests.log"
verdict $status "tests under sanitizers: $(cat "$B/tests/summary")"
reports=$(find "$san" -type f | head -n 5)
# shellcheck disable=SC2086
[ -z "$reports" ] || head -n 40 $reports
[ -z "$reports" ]
verdict $? "no sanitizer has anything to report"
exit $fail
