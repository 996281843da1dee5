#!/usr/bin/env python3
"""Kills redis-server or redis-benchmark at random moments under load, both by `smcx run`.

    kills.py SMCX [KILLS]

A server that outlives its clients has to serve the next ones at once, over SMC, and must keep no
descriptor and no connection of them; clients whose server was killed have to end. The status is 1
if one of that was not so.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time

LIMIT = 20.0
CLIENTS = 20
STARTED = []


def start(words, **streams):
    STARTED.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    **streams))
    return STARTED[-1]


def end_all():
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def command(port, *words):
    """The answer to a command, over TCP."""
    text = f"*{len(words)}\r\n" + "".join(f"${len(at)}\r\n{at}\r\n" for at in words)
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
        connection.sendall(text.encode())
        answer = b""
        while b"\r\n" not in answer or (answer[:1] == b"$" and not answer.endswith(b"\r\n")):
            more = connection.recv(65536)
            if not more:
                raise ConnectionError("the server ends")
            answer += more
        return answer.decode()


def until(what, condition):
    """Waits until a condition holds; fails after a while."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        if time.monotonic() > end:
            raise RuntimeError(what)
        time.sleep(0.005)


class Server:
    def __init__(self, smcx):
        self.port = free_port()
        words = [smcx, "run", "--", "redis-server", "--port", str(self.port), "--save", "",
                 "--appendonly", "no", "--bind", "127.0.0.1", "--daemonize", "no"]
        self.process = start(words)
        until("the server does not begin", lambda: command(self.port, "PING") == "+PONG\r\n")
        self.descriptors = None

    def open(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def clients(self):
        lines = command(self.port, "INFO", "clients").splitlines()
        return next(int(at.split(":")[1]) for at in lines if at.startswith("connected_clients"))

    def memory(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4


class Load:
    def __init__(self, smcx, port):
        words = [smcx, "run", "--", "redis-benchmark", "-p", str(port), "-c", str(CLIENTS),
                 "-n", "1000000000", "-t", "set,get", "-r", "1000", "-q"]
        self.process = start(words, stderr=subprocess.DEVNULL)


def is_over_smc(smcx):
    shown = subprocess.run([smcx, "ss"], capture_output=True, text=True, check=True)
    return "SMCD" in shown.stdout


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    smcx, kills = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200
    chance = random.Random(int(os.environ.get("SEED", "1")))
    server, first_memory, of_server, slowest, served = Server(smcx), None, 0, 0.0, 0
    for round in range(kills):
        load = Load(smcx, server.port)
        until("no client connects", lambda: server.clients() > CLIENTS // 2)
        served += is_over_smc(smcx)
        time.sleep(chance.random() * 0.15)
        began = time.monotonic()
        if chance.random() < 0.3:
            of_server += 1
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            load.process.wait(LIMIT)
            server, first_memory = Server(smcx), None
        else:
            load.process.send_signal(signal.SIGKILL)
            load.process.wait()
            until("clients stay", lambda: server.clients() == 1)
            # A descriptor is of the question itself.
            if server.descriptors is None:
                time.sleep(0.2)
                server.descriptors, first_memory = server.open(), server.memory()
            until(f"descriptors stay: {server.open()}, before {server.descriptors}",
                  lambda: server.open() <= server.descriptors + 4)
        slowest = max(slowest, time.monotonic() - began)
    print(f"{kills} kills, {of_server} of them of the server, {served} of them over SMC;"
          f" the slowest end took {slowest:.2f} s;"
          f" the last server grew from {first_memory} to {server.memory()} KiB")


if __name__ == "__main__":
    try:
        main()
    finally:
        end_all()
