#!/usr/bin/env bash
# Builds, inspects and runs the no_std proof. Needs a stable toolchain, binutils
# and python3, on Linux and x86_64.
#
#   conformance/no-std-proof/check.sh          everything
#   conformance/no-std-proof/check.sh panic    no reachable panic, right results
#   conformance/no-std-proof/check.sh reach    every public function is reached
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
what=${1:-all}

target=${CARGO_TARGET_DIR:+$CARGO_TARGET_DIR/no-std-proof}
export CARGO_TARGET_DIR=${target:-$PWD/target}
# The mangling that has whole paths, whatever this toolchain's own is.
export RUSTFLAGS="-C symbol-mangling-version=v0"
release=$CARGO_TARGET_DIR/release/no-std-proof
debug=$CARGO_TARGET_DIR/debug/no-std-proof
scratch=$CARGO_TARGET_DIR/check
mkdir -p "$scratch"

fail() { echo "FAILED: $*" >&2; exit 1; }

# Inputs: none, one octet, captures of real peers, the same noise each time, and
# noise that is new each time.
inputs() {
  rm -f "$scratch"/{none,zero,ones,noise-*,random-*,captured-*}
  : >"$scratch/none"
  printf '\0' >"$scratch/zero"
  printf '\377' >"$scratch/ones"
  python3 - "$scratch" <<'PYTHON'
import random, sys
for seed in range(24):
    with open(f"{sys.argv[1]}/noise-{seed}", "wb") as noise:
        noise.write(random.Random(seed).randbytes(random.Random(seed).randrange(1, 4097)))
PYTHON
  zcat ../vectors/*.pcap.gz | split --bytes=4096 - "$scratch/captured-"
  for number in $(seq 24); do head -c 4096 /dev/urandom >"$scratch/random-$number"; done
}

run_all() {
  local program=$1 count=0 status started
  shift
  started=$(date +%s%N)
  for input; do
    status=0
    "$program" <"$input" || status=$?
    if [ $status -ne 0 ]; then
      cp "$input" "$scratch/failed"
      fail "$program exits with $status on $scratch/failed"
    fi
    count=$((count + 1))
  done
  echo "ok: $count runs of $(basename "$(dirname "$program")"), $((($(date +%s%N) - started) / 1000000)) ms, every octet right"
}

# Unoptimised: with symbols of every function, overflow checks, debug assertions.
build_debug() {
  local features=panics${1:+,$1}
  cargo rustc --quiet --locked --features "$features" -- --print link-args >"$scratch/link-args"
  [ -s "$scratch/link-args" ] || {
    # Cargo prints them only when it links.
    touch src/main.rs
    cargo rustc --quiet --locked --features "$features" -- --print link-args >"$scratch/link-args"
  }
}

# Builds the optimised program, with a feature if one is named, and checks it for panics.
build_release() {
  cargo build --quiet --locked --release ${1:+--features "$1"}
  nm --demangle "$release" >"$scratch/release.symbols"
  if grep -E 'panic|unwrap_failed|expect_failed|slice_index|_fail\b|begin_unwind' "$scratch/release.symbols"; then
    fail "panic symbols in $release"
  fi
  [ -z "$(nm --undefined-only "$release")" ] || fail "undefined symbols in $release"
  if readelf --wide --program-headers "$release" | grep -E 'INTERP|DYNAMIC'; then
    fail "$release is linked dynamically"
  fi
  grep -q 'smc_proto::' "$scratch/release.symbols" || fail "$release has no engine in it"
  echo "ok: $(stat --format %s "$release") octets, of these $(size --format=sysv "$release" | awk '$1 == ".text" { print $2 }') of code;" \
    "no panic symbol among $(wc -l <"$scratch/release.symbols")"
}

no_panic() {
  inputs
  echo "-- optimised, overflow checks on: no panic may link"
  build_release
  echo "-- two engines, from connect to abort"
  run_all "$release" "$scratch"/{none,zero,ones,noise-*,random-*,captured-*}

  echo "-- the same with events, and a flight recorder of each engine"
  build_release trace
  grep -q 'smc_proto::trace::' "$scratch/release.symbols" || fail "$release has no events in it"
  # Slower, since each event is printed: a part of them.
  run_all "$release" "$scratch"/{none,zero,ones,noise-*,captured-?[am]}

  echo "-- nothing is linked but core"
  build_debug trace
  local libraries
  libraries=$(tr ' "' '\n\n' <"$scratch/link-args" | grep -E '\.rlib$|^-l' | xargs -n1 basename | sed 's/-[0-9a-f]*\.rlib$//' | sort -u)
  if echo "$libraries" | grep -E '^(lib(std|alloc|panic_.*|unwind|proc_macro|test|c)|-l.*)$'; then
    fail "more than core is linked"
  fi
  echo "$libraries" | grep -q '^libcore$' || fail "no link line to check"
  echo "ok:" $libraries

  echo "-- the check can fail: an index that may be out of bounds"
  if cargo build --quiet --locked --release --features canary 2>"$scratch/canary"; then
    fail "the canary links: a panic would go unseen"
  fi
  grep -q 'undefined symbol: a_panic_is_reachable\|undefined reference to .a_panic_is_reachable' "$scratch/canary" \
    || { cat "$scratch/canary" >&2; fail "the canary does not link for another reason"; }
  echo "ok: it does not link"

  echo "-- unoptimised: a part of the inputs, with events and without"
  run_all "$debug" "$scratch"/{none,zero,ones,noise-?}
  build_debug
  run_all "$debug" "$scratch"/{none,zero,ones,noise-*,captured-a[ab]}
}

reach() {
  echo "-- public functions that the program does not reach"
  # With events there are more of them, and none is missing.
  build_debug trace
  nm --demangle "$debug" >"$scratch/debug.symbols"
  # Rustdoc's machine-readable output is unstable, which this lifts on stable.
  RUSTC_BOOTSTRAP=1 RUSTFLAGS='' RUSTDOCFLAGS='--cap-lints allow' cargo rustdoc --quiet --locked \
    --manifest-path ../../smc-proto/Cargo.toml --lib --features trace -- -Z unstable-options --output-format json
  if python3 ../check-public-api.py "$CARGO_TARGET_DIR/doc/smc_proto.json" /dev/null >/dev/null; then
    fail "the check finds nothing missing in nothing"
  fi
  python3 ../check-public-api.py "$CARGO_TARGET_DIR/doc/smc_proto.json" \
    "$scratch/debug.symbols" public-api-allowed.txt || fail "public functions are not in the proof"
}

case $what in
  panic) no_panic ;;
  reach) reach ;;
  all)
    no_panic
    reach
    ;;
  *) fail "$what?" ;;
esac
