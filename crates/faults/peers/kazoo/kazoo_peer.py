"""Drives kazoo's locks for the tests: one command a line on standard input, one answer a line on standard output.

Fields are separated by tabs. Arguments: connection string, session timeout in milliseconds. The first line written is
"ok" once the session stands. The commands are those of CuratorPeer.java, but for barriers, shared counts and most
that are timed.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient

from ground import Ground, increment
from locks import FOR_EVER, Locks


class Peer:
    def __init__(self, client):
        self.client = client
        self.locks = Locks(client)

    def do_lock(self, kind, path, millis):
        return yes_or_no(self.locks.of(kind, path).acquire(int(millis)))

    def do_release(self, kind, path):
        return yes_or_no(self.locks.of(kind, path).release())

    def do_acquire(self, kind, path, permits, millis):
        return yes_or_no(self.locks.semaphore(kind, path).acquire_many(int(permits), int(millis)))

    def do_return(self, kind, path, permits):
        return yes_or_no(self.locks.semaphore(kind, path).release_many(int(permits)))

    def do_count(self, kind, path, file, rounds):
        lock = self.locks.of(kind, path)
        for _ in range(int(rounds)):
            lock.acquire(FOR_EVER)
            try:
                increment(file)
            finally:
                lock.release()
        return []

    def do_time_alone(self, kind, path, count, micros):
        lock, times = self.locks.of(kind, path), []
        for _ in range(int(count)):
            start = time.perf_counter_ns()
            lock.acquire(FOR_EVER)
            lock.release()
            times.append(str(time.perf_counter_ns() - start))
            time.sleep(int(micros) / 1e6)
        return times

    def do_turns(self, kind, path, folder, threads, rounds):
        ground, mode = Ground(folder), mode_of(kind)
        outcomes = []

        def take(who, lock):
            try:
                most = 0
                for _ in range(int(rounds)):
                    lock.acquire(FOR_EVER)
                    try:
                        most = max(most, ground.visit(mode, who, lock.node().rpartition("/")[2]))
                    finally:
                        lock.release()
                outcomes.append(most)
            except Exception as error:
                outcomes.append(error)

        who = [f"{os.getpid()}.{index}" for index in range(int(threads))]
        running = [threading.Thread(target=take, args=(one, self.locks.make(kind, path))) for one in who]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return [str(max(outcomes))]

    def do_participants(self, kind, path):
        return self.locks.of(kind, path).participants()

    def do_node(self, kind, path):
        return [self.locks.of(kind, path).node()]

    def do_revoke(self, node):
        self.client.set(node, b"__REVOKE__")
        return []


def mode_of(kind):
    """What a holder is allowed to meet on the ground."""
    if kind in ("read", "mixed-read"):
        return "read"
    return "permit" if kind.startswith("semaphore:") else "write"


def yes_or_no(yes):
    return ["yes" if yes else "no"]


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
            answer("ok", *getattr(peer, "do_" + command.replace("-", "_"))(*arguments))
        except Exception as error:
            answer("error", repr(error))
    client.stop()


main()
