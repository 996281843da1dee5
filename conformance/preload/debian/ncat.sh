# Plain ncat drops what is left in the pipe of its command if the command ends at once: in 4 of 480 runs
# on a busy machine, and in none of 360 where the command ends later.
ncat() {
  serve ncat -l 127.0.0.1 "$port" --sh-exec "cat $scratch/data; sleep 1" --keep-open
  [ "$(client ncat --recv-only 127.0.0.1 "$port" </dev/null | digest)" = "$expected" ] ||
    fail "receive"
  judge
}
