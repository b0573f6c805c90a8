#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# clang-tidy and cppcheck over the sources of sim/, without one complaint.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
fail=0
# Left out: swappable parameters (every (n, size) pair); sizes of pointers (arrays of pointers grow too); the _s functions
# of Annex K (no C library has them); the result of every printf to stderr; recursion (bounded by depth where input
# nests); branches that say the same twice (a switch over an enum names every case); conversions and widening, which
# -Wconversion judges better; and three that version 14 gets wrong: const through the initializer of a struct, memcpy of
# known lengths, parentheses around macro arguments that are designators or types. A bounded loop over doubles is exact.
checks='-*,bugprone-*,cert-*,clang-analyzer-*,misc-*,readability-inconsistent-declaration-parameter-name'
for left_out in bugprone-easily-swappable-parameters bugprone-sizeof-expression cert-err33-c misc-no-recursion \
  clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling bugprone-branch-clone \
  bugprone-narrowing-conversions bugprone-implicit-widening-of-multiplication-result \
  bugprone-not-null-terminated-result bugprone-macro-parentheses \
  cert-flp30-c clang-analyzer-security.FloatLoopCounter; do
  checks+=,-$left_out
done
tidy() {
  local posix=
  case $1 in
  sim/io/* | sim/stat/* | sim/gen/* | sim/study/* | sim/report/* | sim/cli/*) posix=-D_POSIX_C_SOURCE=200809L ;;
  esac
  # shellcheck disable=SC2086
  clang-tidy --quiet --warnings-as-errors='*' --checks="$checks" "$1" -- -std=c11 -Isim $posix 2>/dev/null
}
export -f tidy
export checks
sources=$(find sim -name '*.c' ! -path 'sim/packaging/*' | sort)
if printf '%s\n' "$sources" | xargs -P "$(nproc)" -I {} bash -c 'tidy {}'; then
  echo "ok - clang-tidy"
else
  echo "not ok - clang-tidy"
  fail=1
fi
# shellcheck disable=SC2086
if cppcheck -q -j "$(nproc)" --enable=warning,performance,portability --std=c11 --error-exitcode=2 --inline-suppr \
  --suppress=missingInclude -Isim --template='{file}:{line}: {severity} {id}: {message}' $sources 2>&1; then
  echo "ok - cppcheck"
else
  echo "not ok - cppcheck"
  fail=1
fi
exit $fail
