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
