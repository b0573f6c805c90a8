#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The pure core, built by gcc -O2 (BUILD=folder of libdscore.a): needs nothing but mem* and str*, has no writable
# globals, and builds for wasm32 with no imports. NEED_WASM=1: a missing clang or wasm-ld fails instead of skipping.
set -u
export LC_ALL=C
cd "${ROOT:-$(dirname "$0")/../..}" || exit 1
archive=${BUILD:-build/release}/libdscore.a
tables=${BUILD:-build/release}/gen/registry_tables.c
fail=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
[ -e "$archive" ] || { echo "not ok - no $archive"; exit 1; }

nm -P "$archive" | awk '
  NF < 2 { next }
  $2 == "U" { needs[$1] = 1; next }
  $2 ~ /[A-Z]/ { has[$1] = 1 }
  END { for (s in needs) if (!(s in has)) print s }' | sort |
  grep -vx _GLOBAL_OFFSET_TABLE_ | # the linker's own, in position-independent code
  grep -vxE 'memcpy|memmove|memset|memcmp|memchr|strlen|strcmp|strncmp|strchr' >"$tmp/needs"
if [ -s "$tmp/needs" ]; then
  nm -A "$archive" | grep -wFf "$tmp/needs" | grep ' U '
  echo "not ok - the core needs $(tr '\n' ' ' <"$tmp/needs")"
  fail=1
else
  echo "ok - the core needs nothing but mem* and str*"
fi

# Constant tables of pointers live in .data.rel.ro, so the sections tell, not the letters of nm.
size -A "$archive" | awk '
  /^[^ ]+ .*:$/ || / :$/ { object = $1 }
  ($1 ~ /^\.(data|bss|tdata|tbss)/ && $1 !~ /^\.data\.rel\.ro/ && $2 > 0) || $1 == "COMMON" { print object ": " $1 " " $2 " bytes" }' >"$tmp/writable"
if [ -s "$tmp/writable" ]; then
  cat "$tmp/writable"
  echo "not ok - the core has writable globals"
  fail=1
else
  echo "ok - the core has no writable globals"
fi

if ! command -v clang >/dev/null 2>&1 || ! command -v wasm-ld >/dev/null 2>&1; then
  if [ "${NEED_WASM:-}" = 1 ]; then
    echo "not ok - the core builds for wasm32: no clang or no wasm-ld"
    exit 1
  fi
  echo "ok - the core builds for wasm32 # SKIP no clang or no wasm-ld"
  exit $fail
fi
objects=
for source in $(for l in base spec cost kv metric engine sched route core; do ls "sim/$l"/*.c 2>/dev/null; done) \
  "$tables" sim/packaging/wasm-include/wasm_string.c; do
  object=$tmp/$(basename "$source" .c).o
  if ! clang --target=wasm32 -std=c11 -O2 -ffreestanding -fno-builtin -nostdlibinc -Isim/packaging/wasm-include -Isim \
    -ffp-contract=off -fno-math-errno -w -c -o "$object" "$source"; then
    echo "not ok - $source does not compile for wasm32"
    exit 1
  fi
  objects="$objects $object"
done
# shellcheck disable=SC2086
if wasm-ld --no-entry --export-all -o "$tmp/core.wasm" $objects; then
  # makes every missing symbol an error; the import section (id 2) must be absent too.
  imports=$(od -An -v -tu1 -w1 "$tmp/core.wasm" | awk '
    { b[NR - 1] = $1 }
    END {
      for (i = 8; i < NR; i += size) { # magic and version, then sections: id, length in LEB128, bytes
        id = b[i++]; size = 0
        for (shift = 1; ; shift *= 128) { byte = b[i++]; size += (byte % 128) * shift; if (byte < 128) break }
        if (id == 2) { print "some"; exit }
      }
      print "none"
    }')
  if [ "$imports" = none ]; then
    echo "ok - the core builds for wasm32 without imports ($(wc -c <"$tmp/core.wasm") bytes)"
  else
    echo "not ok - the wasm32 module has imports"
    fail=1
  fi
else
  echo "not ok - the core links for wasm32"
  fail=1
fi
exit $fail
