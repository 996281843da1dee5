#!/usr/bin/env python3
"""What a new connection costs under `smcx run`, in system calls and instructions.

    connections.py SMCX [--connections N] [--concurrent N]

nginx serves ab by `smcx run`, a connection for each request of 4 KiB; run by root, also with a worker
that has become a user of its own, `www-data`. Each side is run under
strace, then the client under callgrind, with two numbers of connections: what the larger one takes
more, for each connection, is printed beside the same programs over TCP. Fails if a side makes more
system calls than it may. Needs nginx, apache2-utils, strace and valgrind.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial

from measure import LIMIT, Servers, free_port, nginx_configuration, run
from plain import Callgrind, Strace, for_each

# Most system calls of a connection. An idle loop sleeps and is woken more often under strace, which
# makes a few more of them now and then.
MOST = {"server": 28, "client": 26}


def worker_of(master):
    """The process that serves."""
    with open(f"/proc/{master}/task/{master}/children") as children:
        return int(children.read().split()[0])


def measured(side, tool, prefix, user, concurrent, scratch, count):
    """What a tool counts of one side for so many connections to a worker of this user."""
    servers, port = Servers(scratch), free_port()
    configuration = nginx_configuration(scratch, port, user=user)
    servers.start(prefix + ["nginx", "-c", configuration], port)
    client = ["ab", "-q", "-c", str(concurrent), "-n", str(count)]
    client.append(f"http://127.0.0.1:{port}/small")
    try:
        if side == "client":
            text = run(prefix + tool.command() + client)
        else:
            pid = worker_of(servers.all[0].pid)
            traced = subprocess.Popen(
                tool.command() + ["-p", str(pid)], stderr=subprocess.PIPE, text=True
            )
            # It says that it is attached.
            traced.stderr.readline()
            text = run(prefix + client)
            traced.send_signal(signal.SIGINT)
            traced.communicate(timeout=LIMIT)
        if not re.search(r"Failed requests: +0\n", text):
            sys.exit(text)
        return tool.read()
    finally:
        servers.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("smcx")
    parser.add_argument("--connections", type=int, default=300)
    parser.add_argument("--concurrent", type=int, default=10)
    arguments = parser.parse_args()
    smcx = [os.path.abspath(arguments.smcx), "run", "--"]
    os.environ["SMC_POLICY"] = ""
    scratch = tempfile.mkdtemp(prefix="smc-connections-")
    is_over = False
    try:
        for side, tool, unit in (
            ("server", Strace(scratch), "system calls"),
            ("client", Strace(scratch), "system calls"),
            ("client", Callgrind(scratch), "instructions"),
        ):
            cases = [([], "root"), (smcx, "root")]
            if os.getuid() == 0:
                cases.append((smcx, "www-data"))
            tcp, *smc = (
                for_each(
                    partial(measured, side, tool, *case, arguments.concurrent, scratch),
                    arguments.connections,
                )
                for case in cases
            )
            users = "".join(f", to another user {count:.1f}" for count in smc[1:])
            print(
                f"{side}, {unit} for each connection: TCP {tcp:.1f}, by smcx run {smc[0]:.1f}{users}",
                flush=True,
            )
            is_over |= isinstance(tool, Strace) and max(smc) > MOST[side]
    finally:
        shutil.rmtree(scratch)
    if is_over:
        sys.exit("a connection takes more system calls than it may")


if __name__ == "__main__":
    main()
