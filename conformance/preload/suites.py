#!/usr/bin/env python3
"""Runs test suites that others have written for TCP, plain and by `smcx run`.

    suites.py SMCX [SUITE ...]

Each suite of Python's own tests (Debian's package libpython3.11-testsuite) runs plain twice and
once with the preloaded library. A test that passes both times without the library, and not with
it, is run once more with it by itself, and is printed if it fails again; the status is 1 then.
"""

import os
import re
import subprocess
import sys
import tempfile

SUITES = ["test_socket", "test_selectors", "test_ssl", "test_asyncio", "test_socketserver",
          "test_httplib"]
# Debian's, which the package is for, whatever else is installed.
PYTHON = "/usr/bin/python3.11"
LIMIT = 900
# "test_name (test.test_socket.Class.test_name) ... ok", where a test may have printed before "ok".
BEGUN = re.compile(r"^(\w+) \(([\w.]+)\)")
ENDED = re.compile(r"(?:\.\.\. |^)(ok|skipped .*|expected failure|FAIL|ERROR)$")


def run(command, suite, matching=()):
    """The outcome of each test, by its full name."""
    # Some kernels have VSOCK and nothing that answers there: its tests wait for ever.
    arguments = command + [PYTHON, "-m", "test", "-v", "-u", "network", "-i", "*VSOCK*", suite]
    for name in matching:
        arguments += ["-m", name]
    environment = dict(os.environ, PYTHONUNBUFFERED="1", LC_ALL="C.UTF-8")
    outcomes, current = {}, None
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, env=environment,
                                 cwd=tempfile.gettempdir())
        try:
            status = child.wait(LIMIT)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            status = "it does not end"
        output.seek(0)
        text = output.read()
    for line in text.splitlines():
        begun = BEGUN.match(line)
        if begun:
            name = begun.group(2)
            current = name if name.endswith(begun.group(1)) else f"{name}.{begun.group(1)}"
        ended = ENDED.search(line)
        if ended and current:
            outcomes[current] = ended.group(1).split()[0]
            current = None
    return outcomes, status, text


def passed(outcomes):
    return {name for name, outcome in outcomes.items() if outcome == "ok"}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    smcx, suites = os.path.abspath(sys.argv[1]), sys.argv[2:] or SUITES
    has_lost = False
    for suite in suites:
        (first, status, text), (second, _, _) = run([], suite), run([], suite)
        plain = passed(first) & passed(second)
        if not plain:
            sys.exit(f"{suite}: no test passes without the library ({status})\n{text[-2000:]}")
        with_library, status, text = run([smcx, "run", "--"], suite)
        lost = plain - passed(with_library)
        again = {}
        for name in sorted(lost):
            again.update(run([smcx, "run", "--"], suite, [name])[0])
        lost -= passed(again)
        has_lost |= bool(lost)
        print(f"{suite}: {len(plain)} pass without the library, {len(plain - lost)} of them with it"
              f" (status {status})", flush=True)
        for name in sorted(lost):
            print(f"    {name}: {again.get(name) or with_library.get(name, 'not run')}")
        log = os.environ.get("SUITES_LOG")
        if log:
            with open(f"{log}-{suite}.log", "w") as file:
                file.write(text)
    sys.exit(has_lost)


if __name__ == "__main__":
    main()
