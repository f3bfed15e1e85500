"""Copies the lasting nodes of one ZooKeeper server to an empty one: move.py SOURCE TARGET."""

import sys
from kazoo.client import KazooClient

source, target = [KazooClient(address) for address in sys.argv[1:3]]
CONTAINER = -2**63
copied, left, ends = 0, 0, [source, target]
for end in ends:
    end.start()
paths = ["/"]
while paths:
    path = paths.pop()
    data, stat = source.get(path)
    if stat.ephemeralOwner not in (0, CONTAINER):
        left += 1
        continue
    if path == "/":
        target.set(path, data)
    else:
        target.create(path, data, acl=source.get_acls(path)[0])
    copied += 1
    for child in source.get_children(path):
        if (path, child) != ("/", "zookeeper"):
            paths.append(path.rstrip("/") + "/" + child)
for end in ends:
    end.stop()
print(f"copied {copied} nodes, left out {left} of sessions or with a time to live")
