# Standard streams of the C library over sockets, and a second connection for the data, in both
# directions. Sessions of vsftpd may make no thread, and have no SMC.
ftp() {
  rm -rf "$scratch/ftp"
  mkdir -p "$scratch/ftp/empty"
  cp "$scratch/data" "$scratch/ftp/data"
  mkdir -p "$scratch/ftp/incoming"
  [ "$(id -u)" != 0 ] || chown ftp "$scratch/ftp/incoming"
  cat >"$scratch/vsftpd.conf" <<CONFIGURATION
background=NO
listen=YES
listen_address=127.0.0.1
listen_port=$port
anonymous_enable=YES
anon_root=$scratch/ftp
anon_upload_enable=YES
write_enable=YES
no_anon_password=YES
secure_chroot_dir=$scratch/ftp/empty
vsftpd_log_file=$scratch/vsftpd.log
pasv_address=127.0.0.1
seccomp_sandbox=NO
$([ "$(id -u)" = 0 ] || echo run_as_launching_user=YES)
CONFIGURATION
  serve vsftpd "$scratch/vsftpd.conf"
  client tnftp -V -o "$scratch/received" "ftp://127.0.0.1:$port/data" </dev/null \
    >"$scratch/client.out.log" 2>&1 || fail "retrieve"
  [ "$(digest <"$scratch/received")" = "$expected" ] || fail "what was received differs"
  client tnftp -V -u "ftp://127.0.0.1:$port/incoming/sent" "$scratch/data" </dev/null \
    >"$scratch/client.out.log" 2>&1 || fail "store"
  [ "$(digest <"$scratch/ftp/incoming/sent")" = "$expected" ] || fail "what was stored differs"
  carrier=TCP judge
}
