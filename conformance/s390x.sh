#!/usr/bin/env bash
# Runs the tests of the engine - codecs, cursors, connections, tables - and the
# contract of ISM devices on a big-endian machine: s390x under qemu's user emulation.
#
#   conformance/s390x.sh [arguments of the test programs]
#
# Uses the installed toolchain if it has the target's standard library, or if
# rustup can add it. Otherwise builds the standard library from the sources that
# Debian packages beside a compiler of the same version, unpacked under target/
# and not installed. A second run uses what the first one left there.
#
# S390X_ROUTE=rustup or debian forces one of the two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=s390x-unknown-linux-gnu
target_dir=${CARGO_TARGET_DIR:-$PWD/target}
cache=$target_dir/s390x-toolchain
route=${S390X_ROUTE:-any}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# --- linker, C library and emulator ------------------------------------------
missing=()
command -v s390x-linux-gnu-gcc >/dev/null || missing+=(gcc-s390x-linux-gnu)
[ -e /usr/s390x-linux-gnu/lib/crt1.o ] || missing+=(libc6-dev-s390x-cross)
qemu=$(command -v qemu-s390x-static || command -v qemu-s390x || true)
[ -n "$qemu" ] || missing+=(qemu-user-static)
if [ ${#missing[@]} -gt 0 ]; then
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  qemu=$(command -v qemu-s390x-static || command -v qemu-s390x)
fi

export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc
export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER=".ci/limited $qemu -L /usr/s390x-linux-gnu"
# Emulation is some twenty times slower than the machine.
export PROPTEST_CASES=${PROPTEST_CASES:-16}

# --- standard library ---------------------------------------------------------
has_std() { [ -d "$(rustc --print target-libdir --target $target)" ]; }

by_rustup() {
  has_std && return 0
  command -v rustup >/dev/null && timeout 60 rustup --quiet target add $target 2>/dev/null && has_std
}

# Sets RUSTC to a compiler whose library sources are there.
by_debian() {
  local packages=(rustc-web libstd-rust-web-dev libstd-rust-web-1.96 rust-web-src libllvm22)
  local root=$cache/root
  if [ ! -e "$cache/complete" ]; then
    rm -rf "$cache"
    mkdir -p "$cache/archives" "$root"
    as_root apt-get update -q
    # The owner of a download is not root: leave it to the sandbox user, or to us.
    (cd "$cache/archives" && apt-get download -q "${packages[@]}")
    for archive in "$cache"/archives/*.deb; do dpkg -x "$archive" "$root"; done
    rm -r "$cache/archives"
    touch "$cache/complete"
  fi
  export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export RUSTC=$root/usr/bin/rustc
  # Building the standard library is an unstable feature of cargo.
  export RUSTC_BOOTSTRAP=1
  "$RUSTC" --version
}

build_std=()
# Other builds may run meanwhile, and would wait for each other in one folder.
target_flag=(--target-dir "$target_dir/s390x")
if [ "$route" != debian ] && by_rustup; then
  echo "standard library: the installed toolchain's"
else
  [ "$route" != rustup ] || { echo "rustup has no $target" >&2; exit 1; }
  by_debian
  build_std=(-Zbuild-std=std,panic_unwind,test)
  # Another compiler: keep its results apart.
  target_flag=(--target-dir "$target_dir/s390x-build")
fi

cargo test "${build_std[@]}" "${target_flag[@]}" --locked -p smc-proto --lib --target $target -- "$@"
# What ISM devices promise, on each of them.
cargo test "${build_std[@]}" "${target_flag[@]}" --locked -p smc-transport-ism --test contract --target $target -- "$@"
