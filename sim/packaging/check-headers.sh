#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Each header compiles alone and twice, with the flags of its layer, without a warning, and has the guard that its path asks for.
set -u
export LC_ALL=C
cd "${ROOT:-$(dirname "$0")/../..}" || exit 1
cc=${CC:-gcc}
command -v "$cc" >/dev/null 2>&1 || cc=cc
flags='-std=c11 -Isim -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wundef'
fail=0
n=0
for header in $(find sim -name '*.h' ! -path 'sim/packaging/*' | sort); do
  name=${header#sim/}
  n=$((n + 1))
  posix=
  case $name in
  io/* | stat/* | gen/* | study/* | report/* | cli/*) posix=-D_POSIX_C_SOURCE=200809L ;;
  esac
  # shellcheck disable=SC2086
  if ! printf '#include "%s"\n#include "%s"\nextern int ds_not_empty;\n' "$name" "$name" |
    "$cc" $flags $posix -fsyntax-only -x c -; then
    echo "not ok - $name does not compile alone and twice"
    fail=1
  fi
  guard=DS_$(printf '%s' "$name" | tr 'a-z/.' 'A-Z__')
  if ! grep -q "^#ifndef $guard\$" "$header"; then
    echo "not ok - $name: its guard is not $guard"
    fail=1
  fi
done
[ $fail -ne 0 ] || echo "ok - $n headers compile alone and twice"
exit $fail
