#!/usr/bin/env python3
"""Storms of connections, threads, children and requests, by `smcx run` at both ends.

    storms.py SMCX [--requests N] [--seconds S] [CASE ...]

The cases of programs/storms.c, as long as a campaign has them: 64 threads that open and close 400
times each, 5,000 children, 10,000 connections at a time, 256 descriptors, and requests over four
connections beside others that come and go: N of them (100,000,000) and S seconds (600) at least. What
each end counted is printed, and in the last case what it had a tenth into it and at the end:
descriptors and KiB of memory. The status is 1 if a role fails, or keeps more than it had.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

CASES = ["many-threads", "forks", "many", "of-256", "lasting"]
HERE = os.path.dirname(os.path.abspath(__file__))
# "smcx: storms (4506): 1 SMC-D, 2 TCP; ...", of `smcx run --stats`.
COUNT = re.compile(r"([\d,]+) (SMC-D|SMC-R|TCP)(?=[,;])")
# Of memory, in KiB: allocators keep what threads have used.
MOST = 4096


def program_of(process, name):
    """The process with this name below a process, once it runs."""
    while process.poll() is None:
        waiting = [process.pid]
        while waiting:
            pid = waiting.pop()
            try:
                with open(f"/proc/{pid}/comm") as file:
                    if file.read().strip() == name:
                        return pid
                with open(f"/proc/{pid}/task/{pid}/children") as file:
                    waiting += [int(at) for at in file.read().split()]
            except FileNotFoundError:
                continue
        time.sleep(0.01)
    return None


def possessions(pid):
    """Descriptors and memory of a process; none if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:
            memory = re.search(r"^VmRSS:\s+(\d+)", file.read(), re.M)
        return len(os.listdir(f"/proc/{pid}/fd")), int(memory[1]) if memory else 0
    except (FileNotFoundError, ProcessLookupError):
        return None


def run(smcx, program, case, environment):
    """Runs both ends of a case; returns whether all was as it has to be."""
    start = [smcx, "run", "--stats", "--", program, case]
    errors = [tempfile.TemporaryFile("w+") for _ in range(2)]
    server = subprocess.Popen(
        [*start, "server"], stdout=subprocess.PIPE, stderr=errors[1], text=True, env=environment
    )
    port = server.stdout.readline().removeprefix("port ").strip()
    client = subprocess.Popen(
        [*start, "client", port], stdout=subprocess.PIPE, stderr=errors[0], text=True,
        env=environment,
    )
    ends, kept = {"server": server, "client": client}, {}
    if case == "lasting":
        kept = watch({name: program_of(end, "storms") for name, end in ends.items()}, client)
    good = True
    for name, file in zip(("client", "server"), errors):
        lines, _ = ends[name].communicate()
        file.seek(0)
        said = file.read()
        file.close()
        print(f"{case} {name}: {', '.join(lines.splitlines())} (status {ends[name].returncode})")
        counts = {kind: 0 for kind in ("SMC-D", "SMC-R", "TCP")}
        for line in said.splitlines():
            if line.startswith("smcx: "):
                for count, kind in COUNT.findall(line):
                    counts[kind] += int(count.replace(",", ""))
            else:
                print(f"    {line}")
        print(f"    connections: {', '.join(f'{at:,} {of}' for of, at in counts.items() if at)}")
        good &= ends[name].returncode == 0
    for name, (first, last) in kept.items():
        print(f"{case} {name}: {first[0]} descriptors and {first[1]} KiB, then {last[0]} and {last[1]}")
        good &= last[0] <= first[0] + 8 and last[1] <= first[1] + MOST
    sys.stdout.flush()
    return good


def watch(pids, client):
    """What the processes have early, and last."""
    seen = {name: [] for name in pids}
    while client.poll() is None:
        for name, pid in pids.items():
            now = possessions(pid)
            if now:
                seen[name].append(now)
        time.sleep(0.5)
    # At the very end connections have ended.
    return {
        name: (max(of[len(of) // 10 : len(of) // 5 + 1]), of[-2 if len(of) > 1 else -1])
        for name, of in seen.items() if of
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("smcx")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--requests", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=int, default=600)
    arguments = parser.parse_intermixed_args()
    environment = dict(
        os.environ, SMC_POLICY="", STORM="1", STORM_REQUESTS=str(arguments.requests),
        STORM_SECONDS=str(arguments.seconds),
    )
    with tempfile.TemporaryDirectory(prefix="smc-storms-") as scratch:
        program = os.path.join(scratch, "storms")
        source = os.path.join(HERE, "programs", "storms.c")
        subprocess.run(
            ["cc", "-std=gnu11", "-pthread", "-w", "-O2", "-o", program, source], check=True
        )
        smcx = os.path.abspath(arguments.smcx)
        results = [run(smcx, program, case, environment) for case in arguments.cases or CASES]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
