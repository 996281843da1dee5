#!/usr/bin/env bash
# Debian's programs, untouched, under `smcx run`: each transfers data that is compared byte
# by byte, with the library at both ends, in the server only and in the client only.
#
#   conformance/preload/debian.sh SMCX [CASE...]
#
# With the library at both ends the statistics of both must have connections over SMC (of ftp and sshd,
# none); with it at one end, none. Every wait is bounded. The programs have to be installed:
#
#   redis memcached nginx http_server ncat socat iperf3   the cases without an argument, with
#   apache haproxy ftp                                    curl, wget, ab, tnftp and python3
#   node java_streams java_channels postgresql sshd       the larger ones
#
# Each case is a file in debian/.
set -euo pipefail

smcx=$(realpath "$1")
shift
cases=("$@")
[ ${#cases[@]} -gt 0 ] ||
  cases=(redis memcached nginx http_server ncat socat iperf3 apache haproxy ftp)
here=$(dirname "$(realpath "$0")")

scratch=$(mktemp -d)
chmod 755 "$scratch"
servers=()
# Ends what was started here, and only that.
finish() {
  for process in "${servers[@]}"; do
    kill "$process" 2>/dev/null || true
  done
  rm -rf "$scratch"
}
trap finish EXIT
export SMC_POLICY=
unset SMC_DEBUG SMC_STATS LD_PRELOAD

# Data that does not repeat, and what it is when it arrives.
head -c 20000000 /dev/urandom >"$scratch/data"
digest() { sha256sum | cut -d ' ' -f 1; }
expected=$(digest <"$scratch/data")

fail() {
  echo "FAILED: $case ($way): $*" >&2
  for log in "$scratch"/*.log "$scratch"/*.stats; do
    [ ! -s "$log" ] || { echo "--- ${log##*/}" && tail -n 20 "$log"; } >&2
  done
  exit 1
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Runs a command with the library if this end has it, and with statistics in a file.
with_library() {
  local end=$1
  shift
  case $way in
  both | "$end") exec "$smcx" run --stats -- "$@" 2>"$scratch/$end.stats" ;;
  *) exec "$@" 2>"$scratch/$end.log" ;;
  esac
}

# Waits, for a bounded time, until a process that runs listens at a port.
listens() {
  for _ in $(seq 300); do
    ! grep -q ":$(printf %04X "$2") 00000000:0000 0A" /proc/net/tcp || return 0
    ! grep -q ":$(printf %04X "$2") 0*:0000 0A" /proc/net/tcp6 || return 0
    kill -0 "$1" 2>/dev/null || fail "the server ended"
    sleep 0.1
  done
  fail "the server does not listen"
}

# Starts a server in the background and waits until it listens.
serve() {
  with_library server "$@" >"$scratch/server.out.log" &
  server=$!
  servers+=("$server")
  listens "$server" "$port"
}

# Runs a client for a bounded time; its output is the caller's.
client() {
  (with_library client timeout 120 "$@")
}

# Makes so many requests for a file of 4096 bytes that the server has, by ab, over so many connections
# that are kept.
requests() {
  client ab -q -n "$1" -c "$2" -k "http://127.0.0.1:$port/small" >"$scratch/client.out.log" ||
    fail "ab"
  grep -q 'Failed requests: *0$' "$scratch/client.out.log" || fail "requests failed"
  grep -q "HTML transferred: *$(($1 * 4096)) bytes" "$scratch/client.out.log" ||
    fail "bytes are missing"
}

# Ends the server, and compares what carried the connections with what was to: SMC if both
# ends have the library.
judge() {
  kill -"${1:-TERM}" "$server" 2>/dev/null || true
  wait "$server" || true
  local end
  for end in server client; do
    if [ "$way" = both ] && [ "${carrier:-SMC}" = SMC ]; then
      grep -q SMC-D "$scratch/$end.stats" || fail "no SMC at the $end"
    elif [ "$way" = both ] || [ "$way" = "$end" ]; then
      ! grep -q SMC-D "$scratch/$end.stats" || fail "SMC at the $end"
    fi
  done
  printf '%-12s %-7s ok  %s\n' "$case" "$way" "$(sed -n 's/^smcx: \(.*SMC\)$/\1/p' \
    "$scratch"/*.stats 2>/dev/null | head -n 1)"
  rm -f "$scratch"/*.stats "$scratch"/*.log
}

for file in "$here"/debian/*.sh; do
  # shellcheck source=/dev/null
  . "$file"
done

for case in "${cases[@]}"; do
  for way in both server client; do
    port=$(free_port)
    "$case"
  done
done
