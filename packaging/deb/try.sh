#!/usr/bin/env bash
# Installs a package into a new system, uses it there, and removes it again.
#
#   packaging/deb/try.sh PACKAGE
#
# Needs root, mmdebstrap and 1 GB in /var/tmp. Debian's packages come from the mirror that
# DEBIAN_MIRROR names (a URL), else from the one that mmdebstrap takes by itself. Redis runs under `smcx run` in a network namespace of its own, its benchmark as its client, and the
# statistics must say that shared memory carried every connection. What is missing for that is named,
# and fails.
set -euo pipefail
fail() {
  echo "FAILED: ${0##*/}: $*" >&2
  exit 1
}
[ $# = 1 ] || fail "usage: $0 PACKAGE"
package=$(realpath "$1")
[ -f "$package" ] || fail "there is no package $package; packaging/deb/build.sh makes one"
[ "$(id -u)" = 0 ] || fail "a new system is made by root alone: sudo $0 $1"
for pair in mmdebstrap:mmdebstrap unshare:util-linux ip:iproute2; do
  command -v "${pair%%:*}" >/dev/null ||
    fail "${pair%%:*} is missing: apt-get install ${pair#*:}"
done
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$suite" ] || fail "/etc/os-release names no release (VERSION_CODENAME) to make a new system of"
free=$(df --output=avail -k /var/tmp | tail -n 1)
[ "$free" -ge 1000000 ] || fail "/var/tmp has $((free / 1024)) MB of the 1 GB that a new system takes"
scratch=$(mktemp -d /var/tmp/smcx-deb.XXXXXX)
trap 'rm -rf --one-file-system "$scratch"' EXIT
root=$scratch/root
# Before minutes are spent on what cannot be used.
mkdir "$scratch/proc"
unshare --mount --pid --net --fork sh -c 'ip link set lo up && mount -t proc proc "$1"' sh \
  "$scratch/proc" || fail "namespaces with a /proc of their own are refused: a container needs" \
  "CAP_SYS_ADMIN and CAP_NET_ADMIN, and no masks over /proc (--privileged)"

# Services do not start in a directory.
mmdebstrap --quiet --mode=root --variant=apt --include=redis-server,redis-tools \
  --setup-hook='mkdir -p "$1/usr/sbin"' \
  --essential-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"' \
  --customize-hook="copy-in $package /var/tmp" \
  --customize-hook='chroot "$1" sh -c "find / -xdev -not -path \"/var/*\" -not -path \"/proc/*\" -not -path \"/etc/ld.so.cache\" | LC_ALL=C sort >/var/tmp/before"' \
  --customize-hook='chroot "$1" sh -c "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends /var/tmp/smcx_*.deb" >&2' \
  "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} ||
  fail "no new system of $suite with redis and the package (see above). If packages could not be" \
    "fetched, this machine reaches no mirror of $suite: name one by DEBIAN_MIRROR=URL, or a proxy by" \
    "http_proxy=URL"

cat >"$root/var/tmp/use.sh" <<'USE'
set -eu
cd /
smcx --version
dpkg --verify smcx
smcx policy check /usr/share/doc/smcx/examples/policy.toml | head -n 1
as_redis() { runuser -u redis -- env HOME=/var/lib/redis "$@"; }
cd /var/lib/redis
as_redis smcx run --stats -- redis-server --bind 127.0.0.1 --port 7000 --save '' --daemonize no \
  >/var/tmp/server.log 2>/var/tmp/server.stats &
server=$!
tries=0
until as_redis redis-cli -p 7000 ping >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ $tries -lt 100 ] || { cat /var/tmp/server.log /var/tmp/server.stats >&2; exit 1; }
  sleep 0.1
done
as_redis smcx run --stats --require -- redis-benchmark -p 7000 -q -t get,set -n 20000 -c 10 \
  2>/var/tmp/client.stats
cat /var/tmp/client.stats
grep -q 'SMC' /var/tmp/client.stats
as_redis redis-cli -p 7000 shutdown nosave || true
wait $server
USE
# With an address of the loopback, which a new namespace has not.
unshare --mount --pid --net --fork --kill-child sh -c '
  ip link set lo up && mount -t proc proc "$1/proc" && exec chroot "$1" sh /var/tmp/use.sh' sh "$root"

chroot "$root" env DEBIAN_FRONTEND=noninteractive dpkg --purge smcx
chroot "$root" sh -c 'find / -xdev -not -path "/var/*" -not -path "/proc/*" -not -path "/etc/ld.so.cache" | LC_ALL=C sort' >"$scratch/after"
# What mmdebstrap had there for its own time is gone.
left=$(LC_ALL=C comm -13 "$root/var/tmp/before" "$scratch/after")
[ -z "$left" ] || {
  printf 'FAILED: purged, the package leaves\n%s\n' "$left" >&2
  exit 1
}
echo "$package: installed, used and purged on $suite"
