# libuv: an event loop of its own, edge-triggered in part, and a pool of threads.
node() {
  cat >"$scratch/server.js" <<'JAVASCRIPT'
const fs = require("fs"), http = require("http");
http.createServer((request, response) => {
  if (request.method === "PUT") {
    request.pipe(fs.createWriteStream(process.argv[3] + "/put"))
      .on("finish", () => response.end("stored"));
  } else {
    fs.createReadStream(process.argv[3] + "/data").pipe(response);
  }
}).listen(Number(process.argv[2]), "127.0.0.1");
JAVASCRIPT
  cat >"$scratch/client.js" <<'JAVASCRIPT'
const fs = require("fs"), http = require("http");
const [port, directory] = [process.argv[2], process.argv[3]];
http.get({ port, host: "127.0.0.1" }, (response) => {
  response.pipe(fs.createWriteStream(directory + "/got")).on("finish", () => {
    const put = http.request({ port, host: "127.0.0.1", method: "PUT" }, (answer) => {
      answer.resume().on("end", () => process.exit(0));
    });
    fs.createReadStream(directory + "/data").pipe(put);
  });
});
JAVASCRIPT
  rm -f "$scratch/got" "$scratch/put"
  serve node "$scratch/server.js" "$port" "$scratch"
  client node "$scratch/client.js" "$port" "$scratch" || fail "requests"
  [ "$(digest <"$scratch/got")" = "$expected" ] || fail "what was received differs"
  [ "$(digest <"$scratch/put")" = "$expected" ] || fail "what was stored differs"
  judge
}
