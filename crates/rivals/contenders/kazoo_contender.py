"""Holds kazoo's Lock and says all the time whether it believes so: by the lock's own word, and by a listener of the
connection's state, as kazoo's documentation demands.

Arguments: hosts, session timeout in seconds, path, pause between two answers in seconds.
"""

import sys
import time

from kazoo.client import KazooClient, KazooState

PAUSE_AFTER_ERROR_S = 0.1


class Connection:
    suspended = False
    lost = False

    def hear(self, state):
        self.suspended = state != KazooState.CONNECTED
        self.lost = self.lost or state == KazooState.LOST


def main(hosts, timeout_s, path, pause_s):
    client = KazooClient(hosts=hosts, timeout=float(timeout_s))
    connection = Connection()
    client.add_listener(connection.hear)
    client.start()
    print("waiting", flush=True)
    lock = acquired(client, path)
    # A loss before this moment was not one of the lock.
    connection.lost = False
    print("granted -", flush=True)
    while True:
        believes = lock.is_acquired and not connection.suspended and not connection.lost
        print("yes" if believes else "no", flush=True)
        time.sleep(float(pause_s))


def acquired(client, path):
    while True:
        lock = client.Lock(path, "contender")
        try:
            lock.acquire()
            return lock
        except Exception as error:
            print(f"again, after {error!r}", file=sys.stderr, flush=True)
            time.sleep(PAUSE_AFTER_ERROR_S)


main(*sys.argv[1:])
