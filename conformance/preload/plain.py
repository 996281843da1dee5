#!/usr/bin/env python3
"""What `smcx run` costs a program whose connections stay TCP.

    plain.py SMCX [--requests N]

One side of redis-benchmark and redis-server runs by `smcx run`, the other one without, so that
no connection is SMC. Each is run with two numbers of requests: what the larger one takes more,
for each request, is compared with that of the program alone. Fails if the library adds a system
call (strace), or more than 2 % of instructions in user space (callgrind). Needs redis, strace and
valgrind.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial

from measure import LIMIT, Servers, free_port, run

# Of instructions in user space.
MOST = 0.02
# Runs of which the one with the fewest instructions counts: hash tables with random seeds make some
# of them longer.
ROUNDS = 3
# What timers do while requests are served is no matter of requests.
TIMERS = 0.01


def system_calls(path):
    """How often each system call was made, as strace -c has it."""
    calls = {}
    with open(path) as table:
        for line in table:
            cells = line.split()
            if len(cells) >= 5 and re.fullmatch(r"[\d.]+", cells[0]) and cells[3].isdigit():
                calls[cells[-1]] = int(cells[3])
    calls.pop("total", None)
    return calls


def instructions(path):
    with open(path) as report:
        found = re.search(r"^(?:summary|totals): (\d+)", report.read(), re.M)
    return int(found[1])


class Tool:
    def __init__(self, scratch):
        self.report = os.path.join(scratch, "report")


class Strace(Tool):
    def command(self):
        return ["strace", "-f", "-c", "-o", self.report]

    def read(self):
        return sum(system_calls(self.report).values())


class Callgrind(Tool):
    def command(self):
        return [
            "valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={self.report}",
        ]

    def read(self):
        return instructions(self.report)


def server_of(tool, prefix, scratch, requests):
    """Serves so many requests under a tool: what that counts."""
    servers, port = Servers(scratch), free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--hz", "1", "--dir", scratch]
    servers.start(prefix + tool.command() + command + ["--port", str(port)], port)
    run(["redis-benchmark", "--csv", "-c", "1", "-t", "get", "-p", str(port), "-n", str(requests)])
    # The tool is the parent, or the process itself.
    subprocess.run(
        ["redis-cli", "-p", str(port), "shutdown", "nosave"], check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT,
    )
    for server in servers.all:
        server.wait(LIMIT)
    return tool.read()


def client_of(tool, prefix, scratch, requests):
    """Makes so many requests under a tool: what that counts."""
    servers, port = Servers(scratch), free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", scratch]
    servers.start(command + ["--port", str(port)], port)
    try:
        client = ["redis-benchmark", "--csv", "-c", "1", "-t", "get", "-p", str(port)]
        run(prefix + tool.command() + client + ["-n", str(requests)])
        return tool.read()
    finally:
        servers.stop()


def for_each(measure, count):
    """What each request or connection takes, by what so many and three times as many take."""
    few, many = (measure(times * count) for times in (1, 3))
    return (many - few) / (2 * count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("smcx")
    parser.add_argument("--requests", type=int, default=5_000)
    arguments = parser.parse_args()
    smcx = [os.path.abspath(arguments.smcx), "run", "--"]
    os.environ["SMC_POLICY"] = ""
    scratch = tempfile.mkdtemp(prefix="smc-plain-")
    is_over = False
    try:
        for name, side in (("redis-server", server_of), ("redis-benchmark", client_of)):
            for tool, unit in ((Strace(scratch), "system calls"), (Callgrind(scratch), "instructions")):
                is_strace = isinstance(tool, Strace)
                alone, preloaded = (
                    min(
                        for_each(partial(side, tool, prefix, scratch), arguments.requests)
                        for _ in range(1 if is_strace else ROUNDS)
                    )
                    for prefix in ([], smcx)
                )
                share = preloaded / alone - 1
                print(
                    f"{name}, {unit} for each request: {alone:.3f}, by smcx run {preloaded:.3f} "
                    f"({share:+.2%})", flush=True,
                )
                is_over |= preloaded - alone > TIMERS if is_strace else share > MOST
    finally:
        shutil.rmtree(scratch)
    if is_over:
        sys.exit("the library costs more than it may")


if __name__ == "__main__":
    main()
