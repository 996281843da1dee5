#!/usr/bin/env python3
"""Measures Debian's programs over TCP, a Unix socket and `smcx run`, interleaved.

    measure.py SMCX [--rounds N] [--only REGEX] [--requests N]

Each round measures every carrier once, in an order that rotates from round to round, so
that a machine that becomes busier affects all of them. Medians are printed with the least
and the greatest value, the ratio to TCP, and the load of the machine before and after.
Servers run for the whole measurement, one for each carrier, and serve one carrier at a
time. Needs redis, nginx, apache2-utils and iperf3; `postgres pgbench` is measured where
PostgreSQL is installed, and named as left out elsewhere.
"""

import argparse
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Servers:
    """Servers that this program started, and ends."""

    def __init__(self, scratch):
        self.scratch, self.all = scratch, []

    def start(self, command, port):
        log = open(os.path.join(self.scratch, f"{port}.log"), "wb")
        self.all.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self.all[-1].poll() is None:
            with open("/proc/net/tcp") as sockets:
                if f":{port:04X} 00000000:0000 0A" in sockets.read():
                    return
            time.sleep(0.05)
        sys.exit(f"{command}: does not listen; see its log:\n" + open(log.name).read())

    def stop(self):
        for server in self.all:
            server.send_signal(signal.SIGTERM)
        for server in self.all:
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def run(command):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        timeout=LIMIT, check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout.decode()


class Redis:
    name = "redis"
    unit = "thousand requests/s"
    loads = {
        "get -c 1": ["-t", "get", "-c", "1"],
        "get -c 10": ["-t", "get", "-c", "10"],
        "get -c 50": ["-t", "get", "-c", "50"],
        "set -c 50": ["-t", "set", "-c", "50"],
        "get -c 200": ["-t", "get", "-c", "200"],
        "set -c 200": ["-t", "set", "-c", "200"],
        "get -c 512": ["-t", "get", "-c", "512"],
        "set -c 512": ["-t", "set", "-c", "512"],
        "get -c 50 -P 16": ["-t", "get", "-c", "50", "-P", "16"],
        "set -c 50 -d 4096": ["-t", "set", "-c", "50", "-d", "4096"],
        "get -c 50 -d 4096": ["-t", "get", "-c", "50", "-d", "4096"],
    }

    def __init__(self, servers, smcx, requests):
        self.requests, self.carriers, first = requests, {}, len(servers.all)
        common = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", servers.scratch]
        unix = os.path.join(servers.scratch, "redis.sock")
        plain, over = free_port(), free_port()
        servers.start(common + ["--port", str(plain), "--unixsocket", unix], plain)
        servers.start(smcx + common + ["--port", str(over)], over)
        self.started = servers.all[first:]
        bench = ["redis-benchmark", "--csv"]
        self.carriers["TCP"] = bench + ["-p", str(plain)]
        self.carriers["Unix"] = bench + ["-s", unix]
        self.carriers["smcx"] = smcx + bench + ["-p", str(over)]

    def measure(self, carrier, load):
        options = self.loads[load]
        alone = options[options.index("-c") + 1] == "1"
        requests = self.requests // 5 if alone else self.requests
        command = self.carriers[carrier] + self.loads[load] + ["-n", str(requests)]
        # "test","rps",... and a line with the figures.
        return float(run(command).splitlines()[1].split(",")[1].strip('"')) / 1000


class SharedCpus(Redis):
    """Both programs on one CPU, and on all with a process that never sleeps beside them."""

    loads = {
        f"get -c {clients}, {where}": ["-t", "get", "-c", clients]
        for where in ("one CPU", "beside a hog") for clients in ("1", "50")
    }

    def measure(self, carrier, load):
        if load.endswith("beside a hog"):
            with self.hog():
                return super().measure(carrier, load)
        return self.on_one_cpu(carrier, load)

    @staticmethod
    @contextlib.contextmanager
    def hog():
        hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            yield
        finally:
            hog.kill()
            hog.wait()

    def on_one_cpu(self, carrier, load):
        # Children inherit it; the servers' threads are moved and moved back.
        before = os.sched_getaffinity(0)
        self.move({min(before)})
        try:
            return super().measure(carrier, load)
        finally:
            self.move(before)

    def move(self, cpus):
        os.sched_setaffinity(0, cpus)
        for server in self.started:
            for thread in os.listdir(f"/proc/{server.pid}/task"):
                os.sched_setaffinity(int(thread), cpus)


def nginx_configuration(scratch, port, workers=1, user="root"):
    """Path of a configuration of nginx that serves `small`, a file of 4 KiB. Started by root, its
    workers become `user`."""
    os.chmod(scratch, 0o755)
    with open(os.path.join(scratch, "small"), "wb") as file:
        file.write(os.urandom(4096))
    path = os.path.join(scratch, f"nginx-{port}")
    paths = " ".join(
        f"{name}_temp_path {path}-{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    with open(f"{path}.conf", "w") as file:
        file.write(
            (f"user {user}; " if os.getuid() == 0 else "")
            + f"worker_processes {workers}; daemon off; pid {path}.pid; error_log {path}.log;"
            "events {} http { access_log off; sendfile on; keepalive_requests 1000000;"
            f"{paths} server {{ listen 127.0.0.1:{port}; root {scratch}; }} }}"
        )
    return f"{path}.conf"


class Nginx:
    name = "nginx"
    unit = "thousand requests/s"
    loads = {
        "ab -k -c 10, 4 KiB": ["-k", "-c", "10"],
        "ab -c 10, a connection each": ["-c", "10"],
    }
    workers, user = 1, "root"

    def __init__(self, servers, smcx, requests):
        self.requests, self.carriers = requests // 5, {}
        for carrier, prefix in (("TCP", []), ("smcx", smcx)):
            port = free_port()
            path = nginx_configuration(servers.scratch, port, self.workers, self.user)
            servers.start(prefix + ["nginx", "-c", path], port)
            self.carriers[carrier] = prefix + ["ab", "-q"], f"http://127.0.0.1:{port}/small"

    def measure(self, carrier, load):
        command, url = self.carriers[carrier]
        requests = self.requests if "-k" in load else self.requests // 4
        text = run(command + self.loads[load] + ["-n", str(requests), url])
        if not re.search(r"Failed requests: +0\n", text):
            sys.exit(text)
        return float(re.search(r"Requests per second: +([\d.]+)", text)[1]) / 1000


class OtherUser(Nginx):
    name = "nginx, a worker of www-data,"
    user = "www-data"


class FourWorkers(Nginx):
    name = "nginx, four workers,"
    workers = 4


class Postgres:
    name = "postgres"
    binaries = "/usr/lib/postgresql/*/bin"
    unit = "thousand transactions/s"
    loads = {"pgbench -S -c 1": ["-c", "1"], "pgbench -S -c 8": ["-c", "8"]}

    def __init__(self, servers, smcx, requests):
        self.requests, self.carriers = requests // 10, {}
        binaries = sorted(glob.glob(self.binaries))[-1]
        data = os.path.join(servers.scratch, "postgres")
        os.mkdir(data)
        os.chmod(servers.scratch, 0o755)
        # PostgreSQL does not run as root.
        user = []
        if os.getuid() == 0:
            shutil.chown(data, "postgres", "postgres")
            user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        # A directory for each server: one process may serve it.
        for carrier, prefix in (("TCP", []), ("smcx", smcx)):
            port, directory = free_port(), os.path.join(data, carrier)
            run(user + [f"{binaries}/initdb", "-A", "trust", "-U", "tester", "--no-sync", "-D", directory])
            servers.start(
                prefix + user
                + [f"{binaries}/postgres", "-D", directory, "-h", "127.0.0.1", "-p", str(port)]
                + ["-k", "", "-c", "fsync=off"],
                port,
            )
            url = f"postgresql://tester@127.0.0.1:{port}/postgres"
            run([f"{binaries}/pgbench", "-i", "-q", url])
            self.carriers[carrier] = prefix + [f"{binaries}/pgbench", "-S"], url

    def measure(self, carrier, load):
        command, url = self.carriers[carrier]
        clients = int(self.loads[load][1])
        # A thread of pgbench waits for all its connections.
        text = run(command + self.loads[load] + ["-t", str(self.requests // clients), url])
        return float(re.search(r"tps = ([\d.]+)", text)[1]) / 1000


class Iperf3:
    name = "iperf3"
    unit = "Gbit/s"
    loads = {"one stream": []}

    def __init__(self, servers, smcx, _requests):
        self.carriers = {}
        for carrier, prefix in (("TCP", []), ("smcx", smcx)):
            port = free_port()
            servers.start(prefix + ["iperf3", "-s", "-B", "127.0.0.1", "-p", str(port)], port)
            self.carriers[carrier] = prefix + ["iperf3", "-c", "127.0.0.1", "-p", str(port)]

    def measure(self, carrier, _load):
        report = json.loads(run(self.carriers[carrier] + ["-t", "1", "-J"]))
        return report["end"]["sum_received"]["bits_per_second"] / 1e9


def load_average():
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


def show(program, load, values):
    tcp = statistics.median(values["TCP"])
    cells = []
    for carrier, all_of in values.items():
        median = statistics.median(all_of)
        cells.append(
            f"{carrier} {median:.1f} ({min(all_of):.1f}–{max(all_of):.1f})"
            + ("" if carrier == "TCP" else f" ×{median / tcp:.2f}")
        )
    print(f"{program.name} {load}, {program.unit}: " + " · ".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("smcx")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="of PROGRAM LOAD, as printed")
    parser.add_argument("--requests", type=int, default=100_000)
    arguments = parser.parse_args()
    smcx = [os.path.abspath(arguments.smcx), "run", "--"]
    os.environ["SMC_POLICY"] = ""
    print(f"load {load_average()}, {os.cpu_count()} CPUs, {arguments.rounds} rounds", flush=True)
    programs = [Redis, SharedCpus, Nginx, OtherUser, FourWorkers, Iperf3]
    if glob.glob(Postgres.binaries):
        programs.append(Postgres)
    else:
        print("postgres: left out, as it is not installed")
    for program in programs:
        loads = [
            load for load in program.loads
            if re.search(arguments.only, f"{program.name} {load}")
        ]
        if not loads:
            continue
        scratch = tempfile.mkdtemp(prefix="smc-measure-")
        servers = Servers(scratch)
        try:
            measured = program(servers, smcx, arguments.requests)
            for load in loads:
                carriers = list(measured.carriers)
                values = {carrier: [] for carrier in carriers}
                for round_ in range(arguments.rounds):
                    shift = round_ % len(carriers)
                    for carrier in carriers[shift:] + carriers[:shift]:
                        values[carrier].append(measured.measure(carrier, load))
                show(program, load, values)
        finally:
            servers.stop()
            shutil.rmtree(scratch)
    print(f"load {load_average()}")


if __name__ == "__main__":
    main()
