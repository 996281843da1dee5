# Sourced, not run: compilers of stated versions, apart from those that the machine
# uses otherwise. Expects `target_dir`.

# What Cargo.toml states, as the number of a release.
stated_version() {
  local stated
  stated=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
  release "$stated"
}

# 1.88 is 1.88.0: later releases of the same series do not show that the first one does.
release() {
  case $1 in
    *.*.*) echo "$1" ;;
    *.*) echo "$1.0" ;;
    *) echo "no version of Rust: \"$1\"" >&2; return 1 ;;
  esac
}

# Makes `cargo +VERSION` work with these targets, in a home of rustup's under target/:
# the toolchains of the user, and which of them is the default, stay as they are.
use_toolchain() {
  local version=$1 at
  shift
  command -v rustup >/dev/null || {
    echo "rustup is missing: it fetches Rust $version, see https://rustup.rs" >&2
    return 1
  }
  export RUSTUP_HOME=$target_dir/rustup
  unset RUSTUP_TOOLCHAIN
  # The mark is made after an installation that has ended.
  [ -e "$RUSTUP_HOME/$version.complete" ] || {
    rustup --quiet toolchain install "$version" --profile minimal --no-self-update
    touch "$RUSTUP_HOME/$version.complete"
  }
  for at in "$@"; do
    [ -d "$(rustc "+$version" --print target-libdir --target "$at")" ] ||
      rustup --quiet target add --toolchain "$version" "$at"
  done
  rustc "+$version" --version | grep -F "rustc $version "
}

host() { echo "$(uname -m)-unknown-linux-gnu"; }
