http_server() {
  serve python3 -m http.server --bind 127.0.0.1 --directory "$scratch" "$port"
  [ "$(client curl -sS "http://127.0.0.1:$port/data" | digest)" = "$expected" ] || fail "curl"
  judge INT
}
