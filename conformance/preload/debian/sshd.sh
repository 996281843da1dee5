# sshd executes itself for each connection, and gives the connection to a child in a sandbox: it
# has to work, over TCP.
sshd() {
  mkdir -p "$scratch/ssh"
  [ -e "$scratch/ssh/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$scratch/ssh/key"
  cp "$scratch/ssh/key.pub" "$scratch/ssh/authorized"
  [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
  cat >"$scratch/ssh/sshd_config" <<CONFIGURATION
ListenAddress 127.0.0.1:$port
HostKey $scratch/ssh/key
PidFile $scratch/ssh/pid
AuthorizedKeysFile $scratch/ssh/authorized
StrictModes no
UsePAM no
PermitRootLogin yes
Subsystem sftp internal-sftp
CONFIGURATION
  serve /usr/sbin/sshd -D -e -f "$scratch/ssh/sshd_config"
  local options=(-F none -i "$scratch/ssh/key" -o StrictHostKeyChecking=no
    -o "UserKnownHostsFile=$scratch/ssh/known" -o BatchMode=yes -o LogLevel=ERROR)
  [ "$(client ssh "${options[@]}" -p "$port" "$(id -un)@127.0.0.1" "cat $scratch/data" </dev/null |
    digest)" = "$expected" ] || fail "ssh"
  client scp -q "${options[@]}" -P "$port" "$scratch/data" "$(id -un)@127.0.0.1:$scratch/ssh/copy" ||
    fail "scp"
  [ "$(digest <"$scratch/ssh/copy")" = "$expected" ] || fail "the copy differs"
  carrier=TCP judge
}
