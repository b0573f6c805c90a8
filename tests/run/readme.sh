#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Every block of README.md and docs/ that opens with "```sh run" is run in a folder that looks like the root of a built tree;
# it must succeed, and print what the "```text" block after it shows, where there is one. --update writes what they print instead.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
program=${DRYSERVE:-./dryserve}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/w"
for folder in models hwprofiles traces studies; do
  [ ! -d $folder ] || cp -R $folder "$tmp/w/" || exit 1
done
cp "$program" "$tmp/w/dryserve" || exit 1
unset DRYSERVE_DATA
fail=0
blocks=0
run_blocks() { # a document; as it should be is $tmp/shown.md
  local state=text # text | run (collecting commands) | shown (skipping what the file shows) | other (another fence)
  local ready='' line commands status # 1: a block has run and its output may be shown next
  : >"$tmp/shown.md"
  while IFS= read -r line || [ -n "$line" ]; do
    case $state in
    text)
      printf '%s\n' "$line" >>"$tmp/shown.md"
      case $line in
      '```sh run')
        state=run
        commands=
        ;;
      '```text')
        if [ -n "$ready" ]; then
          cat "$tmp/out" >>"$tmp/shown.md"
          state=shown
          ready=
        else
          state=other
        fi
        ;;
      '```'*)
        state=other
        ready=
        ;;
      esac
      ;;
    run)
      printf '%s\n' "$line" >>"$tmp/shown.md"
      if [ "$line" = '```' ]; then
        state=text
        ready=1
        blocks=$((blocks + 1))
        (cd "$tmp/w" && printf '%s' "$commands" | bash -e) >"$tmp/out" 2>"$tmp/err"
        status=$?
        if [ $status -eq 0 ]; then
          echo "ok - ${commands%%$'\n'*}"
        else
          cat "$tmp/err"
          echo "not ok - exit status $status: ${commands%%$'\n'*}"
          fail=1
        fi
      else
        commands+=$line$'\n'
      fi
      ;;
    shown | other)
      [ "$state" = other ] && printf '%s\n' "$line" >>"$tmp/shown.md"
      if [ "$line" = '```' ]; then
        [ "$state" = other ] || printf '%s\n' "$line" >>"$tmp/shown.md"
        state=text
      fi
      ;;
    esac
  done <"$1"
}
for doc in docs/*.md README.md; do
  run_blocks "$doc"
  if [ "${1:-}" = --update ]; then
    [ $fail -eq 0 ] && cp "$tmp/shown.md" "$root/$doc"
  elif diff "$doc" "$tmp/shown.md"; then
    [ "$doc" != README.md ] || echo "ok - the answers shown are those given"
  else
    echo "not ok - $doc: the answers shown are not those given (> above); make golden-update writes them anew"
    fail=1
  fi
done
[ $blocks -gt 0 ] || { echo "not ok - no command to run in README.md"; fail=1; }
broken=
for doc in README.md docs/*.md studies/*/*.md traces/README.md sim/README.md; do
  for link in $(grep -oE '\]\([^):]+\)' "$doc" | sed 's/^](//; s/)$//' | sort -u); do
    [ -e "$(dirname "$doc")/${link%%#*}" ] || broken+="$doc: $link"$'\n'
  done
done
if [ -n "$broken" ]; then
  printf '%s' "$broken"
  echo "not ok - links lead to files that are not there"
  fail=1
else
  echo "ok - links lead to files that are there"
fi
# The tour of the code names files that exist.
lost=$(grep -oE '`[a-z]+/[a-z0-9_]+\.[ch]`' sim/README.md | tr -d '\140' | sort -u | while read -r f; do [ -e "sim/$f" ] || echo "$f"; done)
if [ -n "$lost" ]; then
  printf '%s\n' "$lost"
  echo "not ok - sim/README.md names files that are not there"
  fail=1
else
  echo "ok - sim/README.md names files that are there"
fi
exit $fail
