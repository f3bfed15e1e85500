"""Holds redis-py's Lock, which a thread renews three times a timeout, and says all the time whether it believes so: by
the lock's own question to the server, and by the renewals.

Arguments: host, port, timeout in seconds, key, pause between two answers in seconds.
"""

import sys
import threading
import time

import redis

PAUSE_AFTER_ERROR_S = 0.1
RENEWALS_PER_TIMEOUT = 3


class Renewal(threading.Thread):
    failed = False

    def __init__(self, lock, timeout_s):
        super().__init__(daemon=True)
        self.lock, self.timeout_s = lock, timeout_s

    def run(self):
        while not self.failed:
            time.sleep(self.timeout_s / RENEWALS_PER_TIMEOUT)
            try:
                self.lock.reacquire()
            except redis.exceptions.LockError:
                self.failed = True
            except redis.exceptions.RedisError:
                # The next one may be in time.
                pass


def main(host, port, timeout_s, key, pause_s):
    timeout_s = float(timeout_s)
    client = redis.Redis(host=host, port=int(port), socket_timeout=timeout_s / 2)
    # The thread that renews it must know its value.
    lock = client.lock(key, timeout=timeout_s, thread_local=False)
    print("waiting", flush=True)
    while not acquires(lock):
        time.sleep(PAUSE_AFTER_ERROR_S)
    renewal = Renewal(lock, timeout_s)
    renewal.start()
    print("granted -", flush=True)
    while True:
        print("yes" if not renewal.failed and owns(lock) else "no", flush=True)
        time.sleep(float(pause_s))


def acquires(lock):
    try:
        return lock.acquire()
    except redis.exceptions.RedisError as error:
        print(f"again, after {error!r}", file=sys.stderr, flush=True)
        return False


def owns(lock):
    try:
        return lock.owned()
    except redis.exceptions.RedisError:
        return False


main(*sys.argv[1:])
