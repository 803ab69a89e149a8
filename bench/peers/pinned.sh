#!/bin/sh
# pinned PROGRAM ARGUMENT...: starts the program in its own place. The option `--cpu N` among the
# arguments is not handed on, but pins the whole process.
cpu=
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  if [ "$argument" != --cpu ]; then
    set -- "$@" "$argument"
    continue
  fi
  if [ "$left" -eq 0 ] || ! taskset -c "$1" true; then
    echo "pinned: --cpu needs the number of a CPU" >&2
    exit 2
  fi
  cpu=$1
  shift
  left=$((left - 1))
done
[ -z "$cpu" ] || exec taskset -c "$cpu" "$@"
exec "$@"
