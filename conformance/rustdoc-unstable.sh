#!/bin/sh
# Rustdoc with its unstable options, by a stable toolchain: for RUSTDOC of cargo.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
