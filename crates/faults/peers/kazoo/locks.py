"""kazoo's recipes behind the few calls that the commands need, and which recipe a kind stands for."""

import os
import re
import time
from functools import partial

from kazoo.exceptions import LockTimeout, NoNodeError
from kazoo.recipe.lock import Lock

# As a time in milliseconds: waits without end.
FOR_EVER = -1

# What contenders say of themselves.
IDENTIFIER = os.environ.get("KAZOO_IDENTIFIER", "kazoo peer")

# What makes kazoo wait for contenders that Curator made.
CURATOR_LOCK = "-lock-"
CURATOR_WRITE = "__WRIT__"
CURATOR_READ = "__READ__"

# Every name in a queue that kazoo and Curator share.
CONTENDER = re.compile(r"(?:__r?lock__|-lock-|__WRIT__|__READ__)(-?\d{10})$")


class CuratorNamedLock(Lock):
    """kazoo's Lock under Curator's names: all clients that use Curator's names read them as their own."""

    _NODE_NAME = CURATOR_LOCK
    _EXCLUDE_NAMES = [CURATOR_LOCK]


def acquire(lock, millis):
    """Acquires within the time: 0 tries once."""
    try:
        # For kazoo, no timeout means no limit, and 0 is refused when it blocks.
        return lock.acquire(blocking=millis != 0, timeout=millis / 1000 if millis > 0 else None)
    except LockTimeout:
        return False


class QueueLock:
    """Lock, ReadLock and WriteLock."""

    def __init__(self, client, path, lock):
        self.client, self.path, self.lock = client, path, lock

    def acquire(self, millis):
        return acquire(self.lock, millis)

    def release(self):
        return self.lock.release()

    def participants(self):
        try:
            names = self.client.get_children(self.path)
        except NoNodeError:
            return []
        found = [(CONTENDER.search(name), name) for name in names]
        return [name for _, name in sorted((int(match.group(1)), name) for match, name in found if match)]

    def node(self):
        if self.lock.node is None:
            raise ValueError("not held")
        return self.path + "/" + self.lock.node


class ElectedLock(QueueLock):
    """Election as a lock: the leader's function runs from acquiring to releasing, in its own thread."""

    def __init__(self, client, path):
        super().__init__(client, path, None)
        self.handler = client.handler
        self.running = None

    def acquire(self, millis):
        if self.running is not None:
            raise ValueError("leads already")
        election = self.client.Election(self.path, IDENTIFIER)
        self.lock = election.lock
        leads, ends = self.handler.event_object(), self.handler.event_object()

        def lead():
            leads.set()
            ends.wait()

        self.running = (election, self.handler.spawn(election.run, lead), ends)
        if millis == 0:
            granted = self.leads_at_once(leads)
        else:
            granted = leads.wait(millis / 1000 if millis > 0 else None)
        if not granted:
            self.release()
        return granted

    def leads_at_once(self, leads):
        """Waits until we are in the queue, and answers whether we are first."""
        while not leads.wait(0.001):
            node = self.lock.node
            queue = self.participants()
            if node in queue and queue[0] != node:
                return False
        return True

    def release(self):
        if self.running is None:
            return False
        election, thread, ends = self.running
        self.running = None
        ends.set()
        # Of no effect on one that leads.
        election.cancel()
        thread.join()
        return True


class SemaphoreLock:
    """Semaphore. An object of kazoo's holds one lease; several are as many objects."""

    def __init__(self, client, path, permits):
        self.client, self.path, self.permits = client, path, permits
        self.held = []

    def acquire(self, millis):
        semaphore = self.client.Semaphore(self.path, IDENTIFIER, self.permits)
        taken = acquire(semaphore, millis)
        if taken:
            self.held.append(semaphore)
        return taken

    def acquire_many(self, permits, millis):
        """One by one, as kazoo has no other way: all or none in the end, but some are held meanwhile."""
        end = time.monotonic() + millis / 1000
        for taken in range(permits):
            left = max(0, round((end - time.monotonic()) * 1000)) if millis > 0 else millis
            if not self.acquire(left):
                for semaphore in self.held[len(self.held) - taken :]:
                    semaphore.release()
                del self.held[len(self.held) - taken :]
                return False
        return True

    def release(self):
        return self.release_many(1)

    def release_many(self, permits):
        if len(self.held) < permits:
            return False
        for semaphore in self.held[:permits]:
            semaphore.release()
        del self.held[:permits]
        return True

    def participants(self):
        """The leases; they have no order."""
        try:
            return sorted(self.client.get_children(self.path))
        except NoNodeError:
            return []

    def node(self):
        if not self.held:
            raise ValueError("not held")
        return self.held[-1].create_path


class Locks:
    """The lock objects that the commands use, one for each kind and path."""

    def __init__(self, client):
        self.client = client
        self.locks = {}

    def of(self, kind, path):
        key = (kind, path)
        if key not in self.locks:
            self.locks[key] = self.make(kind, path)
        return self.locks[key]

    def semaphore(self, kind, path):
        lock = self.of(kind, path)
        if not isinstance(lock, SemaphoreLock):
            raise ValueError(kind + " has no permits")
        return lock

    def make(self, kind, path):
        """A lock object that no other caller uses."""
        name, _, bound = kind.partition(":")
        if name == "semaphore":
            return SemaphoreLock(self.client, path, int(bound))
        if kind == "election":
            return ElectedLock(self.client, path)
        return QueueLock(self.client, path, self.recipe(kind, path))

    def recipe(self, kind, path):
        recipe, patterns = {
            "mutex": (self.client.Lock, []),
            "mixed-mutex": (self.client.Lock, [CURATOR_LOCK]),
            "curator-named-mutex": (partial(CuratorNamedLock, self.client), []),
            "read": (self.client.ReadLock, []),
            "write": (self.client.WriteLock, []),
            "mixed-read": (self.client.ReadLock, [CURATOR_WRITE]),
            "mixed-write": (self.client.WriteLock, [CURATOR_WRITE, CURATOR_READ]),
        }.get(kind, (None, None))
        if recipe is None:
            raise ValueError("kazoo has no " + kind)
        return recipe(path, IDENTIFIER, extra_lock_patterns=patterns)
