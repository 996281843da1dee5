memcached() {
  # Root's becomes another user before it executes the server, as scripts of containers do.
  local as=()
  [ "$(id -u)" != 0 ] || as=(setpriv --reuid www-data --regid www-data --clear-groups)
  serve "${as[@]}" memcached -l 127.0.0.1 -p "$port" -I 4m -m 256
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
