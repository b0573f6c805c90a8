#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Same input, same bytes: each case of tests/golden/cases.txt (a name, then the arguments of dryserve; what is hashed is
# its standard output) gives the SHA-256 of tests/golden/hashes.txt from gcc and clang builds at -O0 and -O3, in another
# locale, time zone, working folder and environment, as another user. --update writes hashes.txt from the release build.
set -u
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS # of a make that called us: what follows is a build of its own
: "${O:=build}"
root=$PWD
cases=tests/golden/cases.txt
hashes=${HASHES:-tests/golden/hashes.txt}
fail=0
[ "${O#/}" != "$O" ] || O=$root/$O
export DRYSERVE_DATA=$root # for a build outside the tree

hash_all() { # program; the working folder has the data folders and tests/golden. Prints `hash  name` lines
  local name args sum
  while read -r name args; do
    case $name in '' | \#*) continue ;; esac
    # shellcheck disable=SC2086 # arguments are words, without quotes or patterns
    sum=$("$1" $args 2>/dev/null </dev/null; echo "exit $?") || true
    printf '%s  %s\n' "$(printf '%s\n' "$sum" | sha256sum | cut -d ' ' -f 1)" "$name"
  done <$cases
}

[ -s $cases ] || { echo "ok - same bytes everywhere # SKIP no $cases"; exit 0; }

if [ "${1:-}" = --update ]; then
  {
    echo "# SPDX-License-Identifier: GPL-3.0-or-later"
    echo "# SHA-256 of each case of cases.txt: its standard output and a last line with its exit status. make golden-update"
    hash_all ./dryserve
  } >$hashes.new && mv $hashes.new $hashes
  cat $hashes
  exit 0
fi

if [ ! -s "$hashes" ]; then
  echo "not ok - no $hashes; make golden-update writes it"
  exit 1
fi

same() { # what is tried, file of hashes
  if diff <(grep -v '^#' $hashes) "$2" >"$2.diff"; then
    echo "ok - $1: $(grep -c . "$2") outputs as committed"
  else
    cat "$2.diff"
    echo "not ok - $1: outputs differ from $hashes"
    fail=1
  fi
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# A case that fails has a hash too, so each must also succeed (0), or miss a limit that it states (4).
while read -r name args; do
  case $name in '' | \#*) continue ;; esac
  # shellcheck disable=SC2086
  "$O/release/dryserve" $args >/dev/null 2>"$work/err" </dev/null
  status=$?
  if [ $status -ne 0 ] && [ $status -ne 4 ]; then
    cat "$work/err"
    echo "not ok - case $name: exit status $status"
    fail=1
  fi
done <$cases

for config in gcc-O0 gcc-O3 clang-O0 clang-O3; do
  if make -s -j"$(nproc)" --no-print-directory O="$O" CONFIG=$config DEV=1 "$O/$config/dryserve" >"$work/log" 2>&1; then
    hash_all "$O/$config/dryserve" >"$work/$config"
    same "$config" "$work/$config"
  else
    cat "$work/log"
    echo "not ok - $config does not build"
    fail=1
  fi
done

# Another folder, environment, and where this is root another user. The program is copied, so that it finds its data there.
away="$work/another folder"
mkdir -p "$away/tests"
for folder in models hwprofiles traces studies; do
  [ ! -d $folder ] || cp -R $folder "$away/"
done
cp -R tests/golden "$away/tests/"
cp "$O/clang-O3/dryserve" "$away/dryserve"
chmod -R a+rX "$work"
export -f hash_all
export cases
# A locale with decimal commas, where it can be made.
localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" >/dev/null 2>&1
elsewhere=(env -i "PATH=$PATH" "LOCPATH=$work" LC_ALL=de_DE.UTF-8 LANG=tr_TR.UTF-8 TZ=Asia/Kathmandu HOME=/nonexistent COLUMNS=40)
who=
if [ "$(id -u)" -eq 0 ] && command -v runuser >/dev/null 2>&1; then
  who=", as nobody"
  elsewhere=(runuser -u nobody -- "${elsewhere[@]}")
fi
(cd "$away" && "${elsewhere[@]}" "cases=$cases" bash -c "$(declare -f hash_all); hash_all ./dryserve" 2>/dev/null) >"$work/away"
same "another locale, time zone and folder$who" "$work/away"
exit $fail
