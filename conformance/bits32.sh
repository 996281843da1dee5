#!/usr/bin/env bash
# Machines of 32 bits: compiles the engine for a bare-metal ARM with warnings as errors,
# and runs the tests of the engine and of shared memory as programs of an i686.
# The compiler is the oldest one that is supported.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target_dir=${CARGO_TARGET_DIR:-$PWD/target}
source conformance/toolchains.sh

bare=(thumbv7em-none-eabi thumbv7em-none-eabihf)
small=i686-unknown-linux-gnu
version=$(stated_version)
use_toolchain "$version" "${bare[@]}" $small

# Macros and build scripts are the same as for conformance/oldest.sh, by the same compiler.
target_dir=$target_dir/oldest
# Their own std is not there, so nothing can ask for it.
RUSTFLAGS=-Dwarnings cargo "+$version" build --locked --release -p smc-proto --no-default-features \
  "${bare[@]/#/--target=}" --target-dir "$target_dir"

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
if ! command -v i686-linux-gnu-gcc >/dev/null || [ ! -e /usr/i686-linux-gnu/lib/libc.a ]; then
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends gcc-i686-linux-gnu libc6-dev-i386-cross
fi
# Static: a machine of 64 bits has no loader for these.
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUNNER=.ci/limited
export RUSTFLAGS="-Dwarnings -Ctarget-feature=+crt-static"
on_i686() { cargo "+$version" test --locked --target $small --target-dir "$target_dir" "$@"; }
on_i686 -p smc-proto --lib
# Both packages in each call: what they depend on is then built once, with the same features.
on_i686 -p smc-transport-ism -p smc-sockets --test contract
# A thousand connections do not fit into 4 GiB of addresses.
on_i686 -p smc-transport-ism -p smc-sockets --test streams streams:: -- --skip a_thousand
