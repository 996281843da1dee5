#!/usr/bin/env bash
# Compiles every package, tests and benchmarks included, with exactly the compiler that
# its `rust-version` states, and compares that of the workspace with README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target_dir=${CARGO_TARGET_DIR:-$PWD/target}
source conformance/toolchains.sh

stated=$(stated_version)
grep -qE "Rust ${stated%.0}(\.0)? or later" README.md || {
  echo "README.md does not state Rust $stated, which Cargo.toml does" >&2
  exit 1
}

# Lines of "version package".
packages() {
  cargo metadata --locked --no-deps --format-version 1 --manifest-path "$1" | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    print(package["rust_version"], package["name"])
' | sort
}

for manifest in Cargo.toml conformance/no-std-proof/Cargo.toml; do
  all=$(packages "$manifest")
  for version in $(cut -d " " -f 1 <<<"$all" | sort -u); do
    mapfile -t chosen < <(awk -v of="$version" '$1 == of { print "--package=" $2 }' <<<"$all")
    exact=$(release "$version")
    use_toolchain "$exact"
    cargo "+$exact" check --locked --all-targets --manifest-path "$manifest" \
      --target-dir "$target_dir/oldest" "${chosen[@]}"
  done
done
