nginx() {
  head -c 4096 "$scratch/data" >"$scratch/small"
  # Shared memory is between processes of one user, which root's workers are not by default.
  local user=
  [ "$(id -u)" != 0 ] || user="user root;"
  cat >"$scratch/nginx.conf" <<CONFIGURATION
$user
worker_processes 2;
daemon off;
pid $scratch/nginx.pid;
error_log $scratch/nginx.log;
events {}
http {
  access_log off;
  client_body_temp_path $scratch/body;
  proxy_temp_path $scratch/proxy;
  fastcgi_temp_path $scratch/fastcgi;
  uwsgi_temp_path $scratch/uwsgi;
  scgi_temp_path $scratch/scgi;
  sendfile on;
  server { listen 127.0.0.1:$port; root $scratch; }
}
CONFIGURATION
  serve nginx -c "$scratch/nginx.conf"
  [ "$(client curl -sS "http://127.0.0.1:$port/data" | digest)" = "$expected" ] || fail "curl"
  requests 5000 20
  judge
}
