#!/usr/bin/env bash
# Debian's programs, untouched, under `smcx run`: each transfers data that is compared byte
# by byte, with the library at both ends, in the server only and in the client only.
#
#   conformance/preload/debian.sh SMCX [CASE...]
#
# With the library at both ends the statistics of both must have connections over SMC; with
# it at one end, none. Every wait is bounded. The programs have to be installed: redis,
# memcached, nginx, apache2-utils, curl, iperf3, python3, socat, ncat.
set -euo pipefail

smcx=$(realpath "$1")
shift
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(redis memcached nginx http_server ncat socat iperf3)

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

# Starts a server in the background and waits, for a bounded time, until it listens.
serve() {
  with_library server "$@" >"$scratch/server.out.log" &
  server=$!
  servers+=("$server")
  for _ in $(seq 300); do
    ! grep -q ":$(printf %04X "$port") 00000000:0000 0A" /proc/net/tcp || return 0
    ! grep -q ":$(printf %04X "$port") 0*:0000 0A" /proc/net/tcp6 || return 0
    kill -0 "$server" 2>/dev/null || fail "the server ended"
    sleep 0.1
  done
  fail "the server does not listen"
}

# Runs a client for a bounded time; its output is the caller's.
client() {
  (with_library client timeout 120 "$@")
}

# Ends the server, and compares what carried the connections with what was to.
judge() {
  kill -"${1:-TERM}" "$server" 2>/dev/null || true
  wait "$server" || true
  local end
  for end in server client; do
    [ "$way" = both ] || [ "$way" = "$end" ] || continue
    if [ "$way" = both ]; then
      grep -q SMC-D "$scratch/$end.stats" || fail "no SMC at the $end"
    elif grep -q SMC-D "$scratch/$end.stats"; then
      fail "SMC at the $end, whose peer has none"
    fi
  done
  printf '%-12s %-7s ok  %s\n' "$case" "$way" "$(sed -n 's/^smcx: \(.*SMC\)$/\1/p' \
    "$scratch"/*.stats 2>/dev/null | head -n 1)"
  rm -f "$scratch"/*.stats "$scratch"/*.log
}

redis() {
  serve redis-server --port "$port" --bind 127.0.0.1 --save '' --daemonize no --dir "$scratch"
  [ "$(client redis-cli -p "$port" -x set data <"$scratch/data")" = OK ] || fail "set"
  # redis-cli ends what it prints with a newline of its own.
  [ "$(client redis-cli -p "$port" --raw get data | head -c 20000000 | digest)" = "$expected" ] ||
    fail "get"
  client redis-benchmark -p "$port" -n 20000 -c 50 -t get,set -q >"$scratch/client.out.log" ||
    fail "redis-benchmark"
  judge
}

memcached() {
  local user=()
  [ "$(id -u)" != 0 ] || user=(-u root)
  serve memcached -l 127.0.0.1 -p "$port" -I 4m -m 256 "${user[@]}"
  client python3 - "$port" "$scratch/data" <<'PYTHON' || fail "values differ"
import socket, sys
data = open(sys.argv[2], "rb").read()
connections = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(4)]
size = 1_000_000
for at in range(20):
    value, to = data[at * size:(at + 1) * size], connections[at % 4]
    to.sendall(b"set k%d 0 0 %d\r\n%s\r\n" % (at, size, value))
    with to.makefile("rb") as lines:
        assert lines.readline() == b"STORED\r\n"
for at in range(20):
    by = connections[(at + 1) % 4]
    by.sendall(b"get k%d\r\n" % at)
    with by.makefile("rb") as lines:
        assert lines.readline() == b"VALUE k%d 0 %d\r\n" % (at, size)
        assert lines.read(size) == data[at * size:(at + 1) * size]
        assert lines.read(7) == b"\r\nEND\r\n"
PYTHON
  judge
}

nginx() {
  head -c 4096 "$scratch/data" >"$scratch/small"
  # Shared memory is between processes of one user, which root's workers are not by default.
  local user=
  [ "$(id -u)" != 0 ] || user="user root;"
  cat >"$scratch/nginx.conf" <<CONFIGURATION
$user
worker_processes 2;
daemon off;
pid $scratch/nginx.pid;
error_log $scratch/nginx.log;
events {}
http {
  access_log off;
  client_body_temp_path $scratch/body;
  proxy_temp_path $scratch/proxy;
  fastcgi_temp_path $scratch/fastcgi;
  uwsgi_temp_path $scratch/uwsgi;
  scgi_temp_path $scratch/scgi;
  sendfile on;
  server { listen 127.0.0.1:$port; root $scratch; }
}
CONFIGURATION
  serve nginx -c "$scratch/nginx.conf"
  [ "$(client curl -sS "http://127.0.0.1:$port/data" | digest)" = "$expected" ] || fail "curl"
  client ab -q -n 5000 -c 20 -k "http://127.0.0.1:$port/small" >"$scratch/client.out.log" ||
    fail "ab"
  grep -q 'Failed requests: *0$' "$scratch/client.out.log" || fail "requests failed"
  grep -q 'HTML transferred: *20480000 bytes' "$scratch/client.out.log" || fail "bytes are missing"
  judge
}

http_server() {
  serve python3 -m http.server --bind 127.0.0.1 --directory "$scratch" "$port"
  [ "$(client curl -sS "http://127.0.0.1:$port/data" | digest)" = "$expected" ] || fail "curl"
  judge INT
}

ncat() {
  serve ncat -l 127.0.0.1 "$port" --sh-exec "cat $scratch/data" --keep-open
  [ "$(client ncat --recv-only 127.0.0.1 "$port" </dev/null | digest)" = "$expected" ] ||
    fail "receive"
  judge
}

socat() {
  serve socat "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr,fork" "OPEN:$scratch/data,rdonly"
  [ "$(client socat -u "TCP:127.0.0.1:$port" - | digest)" = "$expected" ] || fail "receive"
  judge
}

iperf3() {
  serve iperf3 -s -B 127.0.0.1 -p "$port"
  # Its receiver may stop counting a little before the last byte.
  client iperf3 -c 127.0.0.1 -p "$port" -n 200M -J >"$scratch/client.out.log" || fail "sending"
  python3 - "$scratch/client.out.log" <<'PYTHON' || fail "bytes are missing"
import json, sys
end = json.load(open(sys.argv[1]))["end"]
assert end["sum_sent"]["bytes"] >= 200 << 20, end
assert end["sum_received"]["bytes"] > end["sum_sent"]["bytes"] * 0.9, end
PYTHON
  judge
}

for case in "${cases[@]}"; do
  for way in both server client; do
    port=$(free_port)
    "$case"
  done
done
