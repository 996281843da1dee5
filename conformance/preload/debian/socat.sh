socat() {
  serve socat "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr,fork" "OPEN:$scratch/data,rdonly"
  [ "$(client socat -u "TCP:127.0.0.1:$port" - | digest)" = "$expected" ] || fail "receive"
  judge
}
