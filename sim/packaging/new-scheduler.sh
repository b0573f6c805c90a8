#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Write sim/sched/NAME.c: a scheduler to fill in, which already works as first come first served.
set -eu
export LC_ALL=C

name=${1:-}
case $name in
'' | *[!a-z0-9-]* | [!a-z]* | *-)
  echo "new-scheduler: NAME must be lower-case letters, digits and dashes, e.g. make new-scheduler NAME=my-policy (found '$name')" >&2
  exit 2
  ;;
esac
symbol=$(printf %s "$name" | tr - _)
file=sim/sched/$symbol.c
if [ -e "$file" ]; then
  echo "new-scheduler: $file exists" >&2
  exit 2
fi
sed -e "s/@NAME@/$name/g" -e "s/@SYMBOL@/$symbol/g" sim/packaging/new-scheduler.txt >"$file.new"
mv "$file.new" "$file"
echo "$file is written: first come first served until you change it."
echo "make test runs it with the others; dryserve run ... --set pools.main.scheduler=$name tries it."
