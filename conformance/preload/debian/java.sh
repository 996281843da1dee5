# The JVM closes by `dup2` over the descriptor. Streams block; channels use edge-less epoll, and
# `sendfile` to send the file.
java_copies() {
  rm -f "$scratch/copy"
  [ -e "$scratch/Copy.class" ] || javac -d "$scratch" "$here/debian/Copy.java" || fail "javac"
  serve java -cp "$scratch" Copy "serve-$1" "$port"
  client java -cp "$scratch" Copy "copy-$1" "$port" "$scratch/data" "$scratch/copy" ||
    fail "copying"
  [ "$(digest <"$scratch/copy")" = "$expected" ] || fail "the copy differs"
  judge
}

java_streams() {
  java_copies streams
}

java_channels() {
  java_copies channels
}
