# A proxy, whose connections to its clients and to its servers have the library at the same end.
haproxy() {
  local behind origin
  behind=$(free_port)
  cat >"$scratch/haproxy.conf" <<CONFIGURATION
global
  nbthread 2
defaults
  mode http
  timeout connect 10s
  timeout client 60s
  timeout server 60s
frontend clients
  bind 127.0.0.1:$port
  default_backend servers
backend servers
  server origin 127.0.0.1:$behind
CONFIGURATION
  python3 -m http.server --bind 127.0.0.1 --directory "$scratch" "$behind" \
    >"$scratch/origin.log" 2>&1 &
  origin=$!
  servers+=("$origin")
  listens "$origin" "$behind"
  serve haproxy -db -f "$scratch/haproxy.conf"
  [ "$(client curl -sS "http://127.0.0.1:$port/data" | digest)" = "$expected" ] || fail "curl"
  judge
  kill "$origin"
  wait "$origin" || true
}
