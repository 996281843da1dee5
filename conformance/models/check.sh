#!/usr/bin/env bash
# Checks each model of this folder with Spin, in all orders: as it is, without an error; and with
# each of the faults that it names (`-DNAME ... must fail`), with one.
#
#   conformance/models/check.sh [folder for what is built]
set -euo pipefail
models=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-$(mktemp -d)}
mkdir -p "$build"
cd "$build"

# Errors that the checker finds, with the given definitions.
errors() {
  spin -a "$@" >/dev/null
  cc -O1 -DSAFETY -w -o pan pan.c
  ./pan -m1000000 | tee last.txt | sed -n 's/.*errors: \([0-9]*\).*/\1/p'
}

for model in "$models"/*.pml; do
  name=$(basename "$model")
  cp "$model" .
  found=$(errors "$name")
  if [ "$found" != 0 ] || ! grep -q 'states, stored' last.txt || grep -q 'truncated' last.txt; then
    echo "$name: $found errors" >&2
    exit 1
  fi
  states=$(sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' last.txt)
  echo "$name: no error in $states states"
  for fault in $(sed -n 's/.*FAULTS: \(.*\)\..*/\1/p' "$model"); do
    if ! [ "$(errors "-D$fault" "$name")" -gt 0 ]; then
      echo "$name: the fault $fault was not found" >&2
      exit 1
    fi
    echo "$name: the fault $fault is found"
  done
done
