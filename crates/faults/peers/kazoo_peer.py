"""Drives kazoo's lock for the tests: one command a line on standard input, one answer a line on standard output.

Fields are separated by tabs. Arguments: connection string, session timeout in milliseconds. The first line written is
"ok" once the session stands. The commands are those of CuratorPeer.java.
"""

import re
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

# Between reading and writing the counted file, so that two who are inside at once lose an increment.
INSIDE_SECONDS = 0.001

# What makes kazoo wait for contenders that Curator made.
CURATOR_PATTERN = "-lock-"


class Peer:
    def __init__(self, client):
        self.client = client
        self.locks = {}

    def lock(self, kind, path):
        key = (kind, path)
        if key not in self.locks:
            if kind == "mutex":
                patterns = []
            elif kind == "mixed-mutex":
                patterns = [CURATOR_PATTERN]
            else:
                raise ValueError("kazoo has no " + kind)
            self.locks[key] = self.client.Lock(path, "kazoo peer", extra_lock_patterns=patterns)
        return self.locks[key]

    def do_lock(self, kind, path, millis):
        lock, millis = self.lock(kind, path), int(millis)
        try:
            # For kazoo, no timeout is for ever, and 0 is refused when it blocks.
            timeout = millis / 1000 if millis > 0 else None
            taken = lock.acquire(blocking=millis != 0, timeout=timeout)
        except LockTimeout:
            taken = False
        return ["yes" if taken else "no"]

    def do_release(self, kind, path):
        return ["yes" if self.lock(kind, path).release() else "no"]

    def do_count(self, kind, path, file, rounds):
        lock = self.lock(kind, path)
        for _ in range(int(rounds)):
            lock.acquire()
            try:
                increment(file)
            finally:
                lock.release()
        return []

    def do_participants(self, kind, path):
        pattern = re.compile(r"(?:__lock__|-lock-)(-?\d{10})$")
        found = [(pattern.search(name), name) for name in self.client.get_children(path)]
        return [name for match, name in sorted((int(m.group(1)), n) for m, n in found if m)]

    def do_node(self, kind, path):
        return [path + "/" + self.lock(kind, path).node]

    def do_revoke(self, node):
        self.client.set(node, b"__REVOKE__")
        return []


def increment(file):
    with open(file, "r+", encoding="ascii") as counter:
        number = int(counter.read())
        time.sleep(INSIDE_SECONDS)
        counter.seek(0)
        counter.write(str(number + 1))


def answer(*fields):
    line = "\t".join(fields)
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()


def main():
    connect, session_millis = sys.argv[1:]
    client = KazooClient(hosts=connect, timeout=int(session_millis) / 1000)
    client.start(timeout=30)
    peer = Peer(client)
    answer("ok")
    for line in sys.stdin:
        command, *arguments = line.rstrip("\n").split("\t")
        try:
            answer("ok", *getattr(peer, "do_" + command)(*arguments))
        except Exception as error:
            answer("error", repr(error))
    client.stop()


main()
