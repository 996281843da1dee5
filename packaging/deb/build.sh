#!/usr/bin/env bash
# Builds smcx_VERSION_ARCH.deb: the command, the library that `smcx run` preloads, manual
# pages, completions and examples.
#
#   packaging/deb/build.sh [OUTPUT [BINARIES]]
#
# OUTPUT is a directory, target/debian if it is not given. BINARIES is a directory with smcx and
# deps/libsmc_preload.so, as Cargo leaves them; without it they are built. DEBFULLNAME and
# DEBEMAIL name the maintainer of the package.
#
# Needs dpkg-dev. The same sources and compiler give the same package, byte for byte:
# times are those of the last commit (SOURCE_DATE_EPOCH).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=$(realpath -m "${1:-target/debian}")
binaries=${2:-}
if [ -z "$binaries" ]; then
  cargo build --locked --release -p smcx -p smc-preload
  binaries=${CARGO_TARGET_DIR:-target}/release
fi
binaries=$(realpath "$binaries")
here=$PWD/packaging/deb

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-smcx maintainers} <${DEBEMAIL:-smcx@packages.invalid}>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# Not those of the user: what lies in a package has the rights that it will have.
umask 022
root=$stage/debian/smcx
install -D -m 755 "$binaries/smcx" "$root/usr/bin/smcx"
# Where `smcx run` searches for it, seen from /usr/bin.
install -D -m 644 "$binaries/deps/libsmc_preload.so" "$root/usr/lib/smcx/libsmc-preload.so"
strip --strip-unneeded --remove-section=.comment --remove-section=.note \
  "$root/usr/bin/smcx" "$root/usr/lib/smcx/libsmc-preload.so"

man=$root/usr/share/man/man1
"$binaries/smcx" generate man "$man" >/dev/null
# An alias has a page of its own.
echo ".so man1/smcx-proxy.1" >"$man/smcx-forward.1"
gzip -9n "$man"/*.1
"$binaries/smcx" generate completions "$stage/completions" >/dev/null
install -D -m 644 "$stage/completions/smcx" "$root/usr/share/bash-completion/completions/smcx"
install -D -m 644 "$stage/completions/_smcx" "$root/usr/share/zsh/vendor-completions/_smcx"
install -D -m 644 "$stage/completions/smcx.fish" \
  "$root/usr/share/fish/vendor_completions.d/smcx.fish"

doc=$root/usr/share/doc/smcx
install -D -m 644 "$here/copyright" "$doc/copyright"
install -D -m 644 docs/policy.toml "$doc/examples/policy.toml"
install -D -m 644 "$here/redis-server.service.d/smc.conf" \
  "$doc/examples/redis-server.service.d/smc.conf"
{
  printf 'smcx (%s) unstable; urgency=medium\n\n' "$version"
  printf '  * Built from the sources of this version; their CHANGELOG.md has what is new.\n\n'
  printf -- ' -- %s  %s\n' "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"

# Libraries that the files need; the tool wants to see a source package.
printf 'Source: smcx\n\nPackage: smcx\nArchitecture: any\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O --ignore-missing-info \
  -e debian/smcx/usr/bin/smcx -e debian/smcx/usr/lib/smcx/libsmc-preload.so 2>/dev/null |
  sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "the libraries that smcx needs are unknown" >&2; exit 1; }

find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
size=$(du -k --apparent-size -s "$root" | cut -f 1)
mkdir "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
cat >"$root/DEBIAN/control" <<CONTROL
Package: smcx
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $size
Depends: $depends
Section: net
Priority: optional
Description: Shared Memory Communications for programs that know TCP only
 Runs TCP programs as they are, with connections that are carried by shared
 memory within the host (SMC-D) or by RDMA between hosts (SMC-R, RFC 7609)
 where both ends can, and by TCP where not.
 .
 The command smcx also decodes and checks captures, says why a connection is
 TCP, lists devices, measures connections, and passes TCP connections on over
 SMC for programs that cannot be run like this.
CONTROL
mkdir -p "$output"
package=$output/smcx_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
