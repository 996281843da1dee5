#!/usr/bin/env python3
"""Runs test suites that others have written for TCP, plain and by `smcx run`.

    suites.py SMCX [--work DIR] [--tree SUITE=DIR ...] [SUITE[/UNIT] ...]

A suite has units, which run one by one: plain twice, and once with the library. Tests that pass both
times without the library and not with it are run once more with it, and are printed if they fail
again. The status is 1 then, unless it is known that a test fails, and why; if such a test passes; and
if no connection of a suite was over SMC.

    python   Python's own tests; needs libpython3.11-testsuite, whose tests are run as installed
    redis    redis' runtest with Debian's programs; needs redis-server, redis-tools and tcl
    libevent regress, with epoll, poll and select; needs cmake, a C compiler and libssl-dev
    libuv    its tests; needs cmake and a C compiler
    nginx    nginx-tests of the tree that --tree names, with Debian's nginx built from source; needs a C
             compiler, prove, libssl-dev, libpcre2-dev and zlib1g-dev
    ltp      the Linux Test Project's tests of calls about descriptors and sockets, of the tree that
             --tree names, and built there; needs a C compiler, autoconf, automake and pkgconf

Without a SUITE those run that need no tree, and those that have one; a UNIT may be a pattern, as of files. Sources come by `apt-get source` (dpkg-dev), with an apt that has
lists and a cache of its own below DIR (target/suites): the system's configuration stays as it is.
SUITES_LOG=PREFIX keeps what each unit printed with the library.
"""

import argparse
import fnmatch
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LIMIT = 1800
HERE = os.path.dirname(os.path.abspath(__file__))
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# "smcx: nginx (18983): 1,023 SMC-D, 7 TCP; ...", of `smcx run --stats`.
COUNTS = re.compile(r"^smcx: \S.*$", re.M)
OVER_SMC = re.compile(r"([\d,]+) SMC-[DR]\b")
# A line of TAP.
TAP = re.compile(r"^(not ok|ok) \d+(?: - (.*?))?(?: # (\w+).*)?$")


def call(words, **options):
    """Runs a command of which only the success counts; ends this program if it fails."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False, **options,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def unique(name, outcomes):
    """A name that has no outcome yet: with a number, unless it is the first one."""
    number, new = 1, name
    while new in outcomes:
        number += 1
        new = f"{name} ({number})"
    return new


def tap(text):
    """The outcome of each test of TAP."""
    outcomes = {}
    for line in text.splitlines():
        found = TAP.match(line)
        if found:
            result, name, directive = found.groups()
            name = unique(name or "a test", outcomes)
            outcomes[name] = directive.lower() if directive else result
    return outcomes


class Sources:
    """Debian's sources, by an apt of its own."""

    def __init__(self, work):
        self.work = work
        self.environment = None

    def configure(self):
        apt = os.path.join(self.work, "apt")
        for path in ("parts", "lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(apt, path), exist_ok=True)
        lists = glob.glob("/etc/apt/sources.list") + glob.glob("/etc/apt/sources.list.d/*")
        for path in lists:
            name = os.path.basename(path)
            if not name.endswith((".list", ".sources")):
                continue
            with open(path) as file:
                text = file.read()
            if name.endswith(".list"):
                text = re.sub(r"^deb\s", "deb-src ", text, flags=re.M)
            else:
                text = re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.M)
            with open(os.path.join(apt, "parts", name), "w") as file:
                file.write(text)
        configuration = os.path.join(apt, "apt.conf")
        with open(configuration, "w") as file:
            file.write(
                'Dir::Etc::sourcelist "/dev/null";\n'
                f'Dir::Etc::sourceparts "{apt}/parts";\n'
                f'Dir::State::lists "{apt}/lists";\n'
                f'Dir::Cache "{apt}/cache";\n'
                # No other user may read the directory.
                'APT::Sandbox::User "root";\n'
            )
        self.environment = dict(os.environ, APT_CONFIG=configuration, LC_ALL="C.UTF-8")
        call(["apt-get", "-q", "update"], env=self.environment)

    def tree(self, package):
        """The unpacked source of a package, of which there is one below the directory."""
        into = os.path.join(self.work, package)
        for attempt in (package, f"{package}/{release()}"):
            trees = [at for at in glob.glob(f"{into}/*/") if os.path.isdir(f"{at}/debian")]
            if trees:
                return trees[0]
            if self.environment is None:
                self.configure()
            shutil.rmtree(into, ignore_errors=True)
            os.makedirs(into)
            # A mirror may lack what is newest: then that of the release itself.
            done = subprocess.run(
                ["apt-get", "-q", "source", attempt], cwd=into, env=self.environment, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True,
            )
        sys.exit(f"apt-get source {package}:\n{done.stdout[-3000:]}")


def release():
    with open("/etc/os-release") as file:
        return re.search(r'^VERSION_CODENAME="?(\w+)', file.read(), re.M)[1]


class Suite:
    """A suite: its units, the command that runs one of them, and how to read what it prints."""

    needs = []
    units = []
    # Tests that fail with the library, by a pattern of their names, and why (docs/programs.md).
    known = {}

    def prepare(self, sources):
        """Gets and builds what the suite consists of."""

    def command(self, unit, tests):
        """The words of a command that runs these tests of a unit, or all, and its directory."""
        raise NotImplementedError

    def environment(self, unit):
        """Variables that the command gets."""
        return {}

    def outcomes(self, text):
        """The outcome of each test, by its name; "ok" if it passed."""
        raise NotImplementedError

    def reason(self, test):
        """Why it is known that a test fails with the library; none if it is not."""
        fitting = (why for pattern, why in self.known.items() if re.search(pattern, test))
        return next(fitting, None)


class Python(Suite):
    # Debian's, which the package is for, whatever else is installed.
    needs = ["/usr/bin/python3.11"]
    units = [
        "test_socket", "test_selectors", "test_ssl", "test_asyncio", "test_socketserver",
        "test_httplib",
    ]
    # "test_name (test.test_socket.Class.test_name) ... ok", where a test may have printed before "ok".
    begun = re.compile(r"^(\w+) \(([\w.]+)\)")
    ended = re.compile(r"(?:\.\.\. |^)(ok|skipped .*|expected failure|FAIL|ERROR)$")

    def command(self, unit, tests):
        # Some kernels have VSOCK and nothing that answers there: its tests wait for ever.
        words = [*self.needs, "-m", "test", "-v", "-u", "network", "-i", "*VSOCK*", unit]
        for name in tests or ():
            words += ["-m", name]
        return words, tempfile.gettempdir()

    def environment(self, unit):
        return {"PYTHONUNBUFFERED": "1"}

    def outcomes(self, text):
        outcomes, current = {}, None
        for line in text.splitlines():
            begun = self.begun.match(line)
            if begun:
                name = begun.group(2)
                current = name if name.endswith(begun.group(1)) else f"{name}.{begun.group(1)}"
            ended = self.ended.search(line)
            if ended and current:
                outcomes[current] = ended.group(1).split()[0]
                current = None
        return outcomes


class Redis(Suite):
    needs = ["redis-server", "redis-cli", "redis-benchmark", "tclsh"]
    # Those about clients first, then the rest.
    units = [
        "unit/networking", "unit/pubsub", "unit/pubsubshard", "unit/multi", "unit/protocol",
        "unit/quit", "unit/querybuf", "unit/obuf-limits", "unit/limits", "unit/tracking",
        "unit/pause", "unit/wait", "unit/shutdown", "unit/introspection", "unit/introspection-2",
        "unit/auth", "unit/other", "unit/info", "unit/scan", "unit/dump", "unit/keyspace",
        "unit/expire", "unit/sort", "unit/aofrw", "unit/acl", "unit/acl-v2", "unit/slowlog",
        "unit/scripting", "unit/functions", "unit/maxmemory", "unit/client-eviction",
        "unit/pendingquerybuf", "unit/replybufsize", "unit/lazyfree", "unit/latency-monitor",
        "unit/memefficiency", "unit/bitops", "unit/bitfield", "unit/geo", "unit/hyperloglog",
        "unit/type/string", "unit/type/incr", "unit/type/list", "unit/type/list-2",
        "unit/type/list-3", "unit/type/set", "unit/type/zset", "unit/type/hash",
        "unit/type/stream", "unit/type/stream-cgroups", "unit/cluster", "unit/cluster/misc",
        "unit/cluster/links", "unit/cluster-scripting", "integration/redis-cli",
        "integration/redis-benchmark", "integration/replication", "integration/replication-2",
        "integration/replication-3", "integration/replication-4",
        "integration/replication-psync", "integration/replication-buffer",
        "integration/block-repl", "integration/psync2", "integration/psync2-reg",
        "integration/psync2-pingoff", "integration/psync2-master-restart",
        "integration/failover", "integration/shutdown", "integration/aof", "integration/rdb",
        "integration/logging",
    ]
    # "[ok]: name (12 ms)", "[err]: name in tests/unit/multi.tcl".
    line = re.compile(r"^\[(ok|err|skip|ignore|exception)\]: (.*?)(?: \(\d+ ms\)| in tests/\S+)?$")

    def prepare(self, sources):
        self.tree = sources.tree("redis")
        for name in ("server", "cli", "benchmark", "check-aof", "check-rdb", "sentinel"):
            link = os.path.join(self.tree, "src", f"redis-{name}")
            if not os.path.lexists(link):
                os.symlink(shutil.which(f"redis-{name}") or "/nonexistent", link)

    def command(self, unit, tests):
        # A test builds on those before it: all of the unit run.
        return ["./runtest", "--clients", "1", "--single", unit], self.tree

    def outcomes(self, text):
        outcomes = {}
        for line in text.splitlines():
            found = self.line.match(line)
            # Of several tests of a name all have to pass.
            if found and outcomes.get(found.group(2), "ok") == "ok":
                outcomes[found.group(2)] = found.group(1)
        return outcomes


class Built(Suite):
    """A suite that cmake builds."""

    needs = ["cmake", "cc"]
    package = target = ""
    options = []

    def prepare(self, sources):
        self.tree = sources.tree(self.package)
        self.build = os.path.join(self.tree, "build")
        call(["cmake", "-S", self.tree, "-B", self.build, "-DCMAKE_BUILD_TYPE=Release", *self.options])
        call(["cmake", "--build", self.build, "--target", self.target, "-j", str(os.cpu_count())])


class Libevent(Built):
    package, target = "libevent", "regress"
    options = [
        "-DEVENT__LIBRARY_TYPE=STATIC", "-DEVENT__DISABLE_BENCHMARK=ON",
        "-DEVENT__DISABLE_SAMPLES=ON", "-DEVENT__DISABLE_MBEDTLS=ON",
    ]
    # What it waits with, by the variables of its test.sh.
    waits = {
        "epoll": [],
        "changelist": ["EVENT_EPOLL_USE_CHANGELIST"],
        "poll": ["EVENT_NOEPOLL"],
        "select": ["EVENT_NOEPOLL", "EVENT_NOPOLL"],
    }
    units = list(waits)
    # "http/basic: [forking] OK", where a test may have printed before "OK".
    begun = re.compile(r"^(\w+/\w+): ")
    ended = re.compile(r"(?:^|[\] ])(OK|SKIPPED|DISABLED)$|\[\w+ (FAILED)\]$")

    def command(self, unit, tests):
        return [os.path.join(self.build, "bin", "regress"), *(tests or ())], self.build

    def environment(self, unit):
        return dict.fromkeys(self.waits[unit], "yes")

    def outcomes(self, text):
        outcomes, current = {}, None
        for line in text.splitlines():
            begun = self.begun.match(line)
            current = begun.group(1) if begun else current
            ended = self.ended.search(line)
            if ended and current:
                outcomes[current] = (ended.group(1) or ended.group(2)).lower()
                current = None
        return outcomes


class Libuv(Built):
    package, target = "libuv1", "uv_run_tests_a"
    units = ["all"]
    known = {
        "^tcp_try_write_error$": "wants to be connected in the turn of its loop in which the server,"
        " in the same thread, closes the connection without a use",
    }

    def command(self, unit, tests):
        program = os.path.join(self.build, self.target)
        if not tests:
            return [program], self.tree
        # It takes one name.
        return ["sh", "-c", 'for at; do "$0" "$at"; done', program, *sorted(tests)], self.tree

    def environment(self, unit):
        return {"UV_RUN_AS_ROOT": "1", "UV_TEST_TIMEOUT_MULTIPLIER": "2"}

    def outcomes(self, text):
        return tap(text)


class Nginx(Suite):
    needs = ["cc", "make", "prove"]
    # Debian's source, without its modules, of which the tests want those that are built in.
    options = [
        "--with-threads", "--with-stream", "--with-mail", "--with-http_ssl_module",
        "--with-stream_ssl_module", "--with-mail_ssl_module", "--with-http_v2_module",
        "--with-http_realip_module", "--with-stream_realip_module", "--with-http_sub_module",
        "--with-http_addition_module", "--with-http_auth_request_module",
        "--with-http_gunzip_module", "--with-http_gzip_static_module", "--with-http_dav_module",
        "--with-http_slice_module", "--with-http_secure_link_module",
        "--with-http_stub_status_module", "--with-http_random_index_module",
        "--with-stream_ssl_preread_module", "--with-http_flv_module", "--with-http_mp4_module",
    ]

    def __init__(self, tree):
        self.tree = tree
        if tree:
            self.units = sorted(os.path.basename(at)[:-2] for at in glob.glob(f"{tree}/*.t"))

    def prepare(self, sources):
        if not self.units:
            sys.exit("nginx: --tree names no tree of nginx-tests")
        source = sources.tree("nginx")
        self.binary = os.path.join(source, "objs", "nginx")
        if not os.path.exists(self.binary):
            call(["./configure", *self.options], cwd=source)
            call(["make", "-j", str(os.cpu_count())], cwd=source)

    def command(self, unit, tests):
        return ["prove", "-v", f"{unit}.t"], self.tree

    def environment(self, unit):
        variables = {"TEST_NGINX_BINARY": self.binary}
        if os.geteuid() == 0:
            # Its workers would be user nobody's, which can neither read what the tests write nor have SMC.
            variables["TEST_NGINX_GLOBALS"] = "user root;"
        return variables

    def outcomes(self, text):
        return tap(text)


class Ltp(Suite):
    needs = ["cc", "make", "autoconf", "automake"]
    units = [
        "accept", "accept4", "bind", "close", "close_range", "connect", "dup", "dup2", "dup3",
        "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait", "fcntl",
        "getpeername", "getsockname", "getsockopt", "listen", "poll", "ppoll", "preadv",
        "pselect", "pwritev", "read", "readv", "recv", "recvfrom", "recvmmsg", "recvmsg",
        "select", "send", "sendfile", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
        "socket", "socketpair", "sockioctl", "splice", "write", "writev",
    ]
    known = {
        "io uring": "smcx run answers io_uring_setup with ENOSYS",
        "^connect01.c: ": "a pointer that leads nowhere ends the process, and the tests behind that",
        "^dup(06|205).c: ": "counts all descriptors up to the hard limit, of which the library has"
        " the last quarter",
    }
    # "accept01.c:92: TPASS: text", "accept01    1  TPASS  :  text".
    line = re.compile(r"^(\S+?)(?::\d+: | +\d+ +)(T[A-Z]+) *: *(.*)$")
    # What differs from run to run.
    number = re.compile(r"0x[0-9a-f]+|\d+")

    def __init__(self, tree):
        self.tree = tree

    def directory(self, unit):
        return os.path.join(self.tree, "testcases", "kernel", "syscalls", unit)

    def prepare(self, sources):
        if not self.tree or not os.path.isdir(self.directory("accept")):
            sys.exit("ltp: --tree names no tree of the Linux Test Project")
        if not os.path.exists(os.path.join(self.tree, "include", "mk", "config.mk")):
            call(["make", "autotools"], cwd=self.tree)
            call(["./configure"], cwd=self.tree)
        for directory in (os.path.join(self.tree, "lib"), *map(self.directory, self.units)):
            call(["make", "-C", directory])

    def command(self, unit, tests):
        # Races in the kernel are searched for by minutes of attempts, which say nothing here.
        each = (
            'for at in *; do [ -f "$at" -a -x "$at" ] || continue;'
            ' grep -qs tst_fuzzy_sync "$at.c" || timeout 120 "./$at"; done'
        )
        return ["sh", "-c", each], self.directory(unit)

    def environment(self, unit):
        return {"LTP_COLORIZE_OUTPUT": "n", "KCONFIG_SKIP_CHECK": "1"}

    def outcomes(self, text):
        outcomes = {}
        for line in text.splitlines():
            found = self.line.match(line)
            if found and found.group(2) != "TINFO":
                name = unique(f"{found.group(1)}: {self.number.sub('#', found.group(3))}", outcomes)
                outcomes[name] = "ok" if found.group(2) == "TPASS" else found.group(2).lower()
        return outcomes


class Runner:
    def __init__(self, smcx, log):
        self.smcx, self.log = smcx, log
        self.has_failed = False

    def run(self, suite, unit, tests=None, by_library=False):
        """Runs a unit; returns its outcomes, its connections over SMC, its status, its output."""
        words, directory = suite.command(unit, tests)
        if by_library:
            words = [self.smcx, "run", "--stats", "--", *words]
        environment = dict(os.environ, LC_ALL="C.UTF-8", **suite.environment(unit))
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            child = subprocess.Popen(
                words, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )
            try:
                status = child.wait(LIMIT)
            except subprocess.TimeoutExpired:
                status = "it does not end"
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            output.seek(0)
            text = COLOUR.sub("", output.read())
        counts = OVER_SMC.findall("\n".join(COUNTS.findall(text)))
        over_smc = sum(int(at.replace(",", "")) for at in counts)
        return suite.outcomes(text), over_smc, status, text

    def compare(self, name, suite, unit):
        """Runs a unit in both ways; returns the counts of tests that pass, and of connections."""
        (first, _, status, text), (second, *_) = (self.run(suite, unit) for _ in range(2))
        plain = passed(first) & passed(second)
        if not plain:
            print(f"{name}/{unit}: no test passes without the library ({status})", flush=True)
            return 0, 0, 0
        with_library, over_smc, status, text = self.run(suite, unit, by_library=True)
        lost, again = plain - passed(with_library), {}
        if lost:
            again = self.run(suite, unit, sorted(lost), by_library=True)[0]
            lost -= passed(again)
        print(
            f"{name}/{unit}: {len(plain)} pass without the library, {len(plain - lost)} of them"
            f" with it, {over_smc} connections over SMC (status {status})", flush=True,
        )
        for test in sorted(lost):
            outcome = again.get(test) or with_library.get(test, "not run")
            print(f"    {test}: {suite.reason(test) or outcome}", flush=True)
            self.has_failed |= not suite.reason(test)
        for test in filter(suite.reason, sorted(plain - lost)):
            print(f"    {test}: passes, which was not expected", flush=True)
            self.has_failed = True
        if self.log:
            with open(f"{self.log}-{name}-{unit.replace('/', '-')}.log", "w") as file:
                file.write(text)
        return len(plain), len(plain - lost), over_smc


def passed(outcomes):
    return {name for name, outcome in outcomes.items() if outcome == "ok"}


def chosen(names, suites):
    """The units to run of each suite: all, or those that a pattern fits."""
    units = {}
    for name in names:
        suite, _, pattern = name.partition("/")
        fitting = fnmatch.filter(suites[suite].units, pattern or "*") if suite in suites else []
        if not fitting:
            sys.exit(f"{name}: no such suite or unit")
        units.setdefault(suite, []).extend(fitting)
    return units


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("smcx")
    parser.add_argument("names", nargs="*", metavar="SUITE[/UNIT]")
    parser.add_argument("--work", default=os.path.join(HERE, "../../target/suites"))
    parser.add_argument("--tree", action="append", default=[], metavar="SUITE=DIR")
    arguments = parser.parse_intermixed_args()
    trees = dict(at.split("=", 1) if "=" in at else ("", at) for at in arguments.tree)
    trees = {name: os.path.abspath(at) for name, at in trees.items()}
    suites = {
        "python": Python(), "redis": Redis(), "libevent": Libevent(), "libuv": Libuv(),
        "nginx": Nginx(trees.get("nginx")), "ltp": Ltp(trees.get("ltp")),
    }
    if not trees.keys() <= suites.keys():
        sys.exit("--tree SUITE=DIR")
    names = arguments.names or [
        name for name in suites if name not in ("nginx", "ltp") or name in trees
    ]
    sources = Sources(os.path.abspath(arguments.work))
    runner = Runner(os.path.abspath(arguments.smcx), os.environ.get("SUITES_LOG"))
    for name, units in chosen(names, suites).items():
        suite = suites[name]
        missing = [need for need in suite.needs if not shutil.which(need)]
        if missing:
            sys.exit(f"{name}: {', '.join(missing)} missing")
        suite.prepare(sources)
        counts = [runner.compare(name, suite, unit) for unit in units]
        plain, kept, over_smc = (sum(column) for column in zip(*counts))
        print(
            f"{name}: {plain} pass without the library, {kept} of them with it,"
            f" {over_smc} connections over SMC", flush=True,
        )
        runner.has_failed |= not over_smc
    sys.exit(runner.has_failed)


if __name__ == "__main__":
    main()
