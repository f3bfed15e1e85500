"""A pytest plugin: one server, run by the process that started pytest, in the place of the cluster kazoo's own tests start.

The server is asked for over a connection to KAZOO_SUITE_CONTROL (a port on loopback): one of the words run, stop and
wipe on a line, answered by a line. Each test's outcome goes to the file KAZOO_SUITE_OUTCOMES, as outcome, tab, name;
a test left out has the reason in a third column. KAZOO_SUITE_PART, as in 0/2, has every second test run only, from the
first on; the others are another part's.

A test that fails may leave a thread behind that waits for ever, and Python waits for its threads: the process ends
without them once all outcomes are known.
"""

import os
import socket
import sys
import types

# kazoo's cluster makes certificates with these; none is made here.
for module in ("OpenSSL", "jks"):
    sys.modules.setdefault(module, types.ModuleType(module))

import kazoo.testing.harness as harness  # noqa: E402

LEFT_OUT = [
    ("test_gevent_handler.py", "the same operations over gevent, which is a client's matter"),
    ("test_eventlet_handler.py", "the same operations over eventlet, which is a client's matter"),
    ("test_sasl.py", "SASL, which neither server is set up for"),
    ("TestSSLClient", "TLS, which neither server is set up for"),
    ("TestReconfig", "reconfiguration of an ensemble"),
    ("TestReadOnlyMode", "stops two servers of three"),
    ("test_update_host_list", "stops one server of three"),
]


class Server:
    """The server, as kazoo's tests see one of a cluster."""

    address = os.environ["KAZOO_SUITE_ADDRESS"]
    secure_address = address

    def __init__(self):
        self.running = False
        self._lines = None

    def run(self):
        if not self.running:
            self._ask("run")
            self.running = True

    def stop(self):
        if self.running:
            self._ask("stop")
            self.running = False

    def wipe(self):
        self._ask("wipe")
        self.running = False

    def _ask(self, word):
        if self._lines is None:
            port = int(os.environ["KAZOO_SUITE_CONTROL"])
            self._lines = socket.create_connection(("127.0.0.1", port)).makefile("rw")
        self._lines.write(word + "\n")
        self._lines.flush()
        answer = self._lines.readline()
        if answer != "done\n":
            raise RuntimeError("%s: %s" % (word, answer))


class Cluster:
    """A cluster of that one."""

    def __init__(self):
        self.servers = [Server()]

    def __getitem__(self, index):
        return self.servers[index]

    def __iter__(self):
        return iter(self.servers)

    def start(self):
        self.servers[0].run()

    def stop(self):
        self.servers[0].stop()

    def terminate(self):
        self.servers[0].wipe()

    reset = terminate

    def get_logs(self):
        return []


CLUSTER = Cluster()
harness.get_global_cluster = lambda: CLUSTER


def note(*columns):
    with open(os.environ["KAZOO_SUITE_OUTCOMES"], "a") as outcomes:
        outcomes.write("\t".join(columns) + "\n")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, os.environ["KAZOO_SUITE_PART"].split("/"))
    kept, left_out, elsewhere = [], [], []
    for index, item in enumerate(items):
        (kept if index % parts == part else elsewhere).append(item)
    items[:], kept = kept, []
    for item in items:
        reason = next((why for part, why in LEFT_OUT if part in item.nodeid), None)
        if reason is None:
            kept.append(item)
        else:
            left_out.append(item)
            note("left out", item.nodeid, reason)
    config.hook.pytest_deselected(items=left_out + elsewhere)
    items[:] = kept


def pytest_runtest_logreport(report):
    if report.failed:
        note("failed", report.nodeid)
    elif report.skipped:
        note("skipped", report.nodeid)
    elif report.when == "call":
        note("passed", report.nodeid)


def pytest_unconfigure():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
