# A process for each connection, forked after it was accepted.
postgresql() {
  local bin data=$scratch/postgresql as=()
  bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)
  # PostgreSQL does not run as root. Its user and the client's are different ones then.
  [ "$(id -u)" != 0 ] || as=(setpriv --reuid postgres --regid postgres --clear-groups)
  rm -rf "$data"
  mkdir "$data"
  [ "$(id -u)" != 0 ] || chown postgres "$data"
  "${as[@]}" "$bin/initdb" -A trust -U tester -D "$data" --no-sync >"$scratch/initdb.log" 2>&1 ||
    fail "initdb"
  serve "${as[@]}" "$bin/postgres" -D "$data" -h 127.0.0.1 -p "$port" -k '' -c fsync=off
  local url=postgresql://tester@127.0.0.1:$port/postgres
  client "$bin/pgbench" -i -s 1 -q "$url" >"$scratch/client.out.log" 2>&1 || fail "pgbench -i"
  client "$bin/pgbench" -S -c 8 -t 250 "$url" >"$scratch/client.out.log" 2>&1 || fail "pgbench -S"
  grep -q 'number of transactions actually processed: 2000/2000' "$scratch/client.out.log" ||
    fail "transactions are missing"
  # Both ways through psql: a large object of the whole file, and its digest there.
  client "$bin/psql" -X -q -v ON_ERROR_STOP=1 "$url" -c "\\lo_import $scratch/data" >/dev/null ||
    fail "lo_import"
  [ "$(client "$bin/psql" -X -A -t "$url" \
    -c "SELECT encode(sha256(lo_get(oid)), 'hex') FROM pg_largeobject_metadata")" = "$expected" ] ||
    fail "the large object differs"
  local oid
  oid=$(client "$bin/psql" -X -A -t "$url" -c "SELECT oid FROM pg_largeobject_metadata")
  client "$bin/psql" -X -q "$url" -c "\\lo_export $oid $scratch/exported" >/dev/null ||
    fail "lo_export"
  [ "$(digest <"$scratch/exported")" = "$expected" ] || fail "what was exported differs"
  judge INT
}
