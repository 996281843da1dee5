#!/usr/bin/env bash
# Bytes of code and constants of one program with smc-proto on a bare-metal ARM, without and with
# each feature that leaves a part out: the table of smc-proto/README.md. Needs the target
# thumbv7em-none-eabi and python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:+$CARGO_TARGET_DIR/size}
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}

printf '%-20s %9s %9s\n' features .text .rodata
for features in "" smc-d; do
  cargo build --quiet --locked --release --target thumbv7em-none-eabi --features "$features"
  python3 - "${features:-none}" "$CARGO_TARGET_DIR/thumbv7em-none-eabi/release/smc-size" <<'PYTHON'
import struct, sys
features, path = sys.argv[1:]
elf = open(path, "rb").read()
# ELF of 32 bits, little-endian: where its section headers are, and which of them has the names.
start, = struct.unpack_from("<I", elf, 32)
size, count, names = struct.unpack_from("<HHH", elf, 46)
sections = [struct.unpack_from("<10I", elf, start + size * i) for i in range(count)]
base = sections[names][4]
sizes = {}
for section in sections:
    name = elf[base + section[0]:elf.index(0, base + section[0])].decode()
    sizes[name] = section[5]
print(f"{features:20} {sizes['.text']:9,} {sizes['.rodata']:9,}")
PYTHON
done
