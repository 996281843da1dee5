# A process for each connection that is waited for, all of which accept (prefork).
apache() {
  mkdir -p "$scratch/apache"
  head -c 4096 "$scratch/data" >"$scratch/small"
  local user=
  # The workers read files of the user that runs this.
  [ "$(id -u)" != 0 ] || user="User www-data
Group www-data"
  cat >"$scratch/apache/apache.conf" <<CONFIGURATION
ServerRoot $scratch/apache
ServerName localhost
DefaultRuntimeDir $scratch/apache
PidFile $scratch/apache/pid
ErrorLog $scratch/apache.log
Mutex file:$scratch/apache default
Listen 127.0.0.1:$port
$user
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
StartServers 3
DocumentRoot $scratch
<Directory $scratch>
  Require all granted
</Directory>
CONFIGURATION
  # It ends its whole process group.
  serve setsid apache2 -d "$scratch/apache" -f "$scratch/apache/apache.conf" -D FOREGROUND
  [ "$(client wget -q -O - "http://127.0.0.1:$port/data" | digest)" = "$expected" ] || fail "wget"
  requests 2000 3
  judge
}
