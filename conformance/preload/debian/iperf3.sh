iperf3() {
  serve iperf3 -s -B 127.0.0.1 -p "$port"
  # Its receiver may stop counting a little before the last byte.
  client iperf3 -c 127.0.0.1 -p "$port" -n 200M -J >"$scratch/client.out.log" || fail "sending"
  python3 - "$scratch/client.out.log" <<'PYTHON' || fail "bytes are missing"
import json, sys
end = json.load(open(sys.argv[1]))["end"]
assert end["sum_sent"]["bytes"] >= 200 << 20, end
assert end["sum_received"]["bytes"] > end["sum_sent"]["bytes"] * 0.9, end
PYTHON
  judge
}
