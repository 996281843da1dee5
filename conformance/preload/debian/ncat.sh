ncat() {
  serve ncat -l 127.0.0.1 "$port" --sh-exec "cat $scratch/data" --keep-open
  [ "$(client ncat --recv-only 127.0.0.1 "$port" </dev/null | digest)" = "$expected" ] ||
    fail "receive"
  judge
}
