"""The folder in which all holders of a lock write down their turns, so that two holders inside at once are seen.

Its contents and rules are described in src/peers/ground.rs.
"""

import os
import time

# The pause between reading and writing a counted file that is not on a ground.
STAY_SECONDS = 0.001


class Ground:
    def __init__(self, folder):
        self.folder = folder
        self.inside = os.path.join(folder, "inside")
        with open(os.path.join(folder, "stay"), encoding="ascii") as file:
            self.stay_seconds = int(file.read()) / 1000

    def visit(self, mode, who, node):
        """Goes in, looks for others, and leaves, under a held lock; answers how many were inside, with itself."""
        marker = mode + "." + who
        own = os.path.join(self.inside, marker)
        os.close(os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        inside = self.look(mode, marker)
        self.append("grants", "\t".join((mode, who, node)))
        if mode == "write":
            increment(os.path.join(self.folder, "number"), self.stay_seconds)
        else:
            before = self.number()
            time.sleep(self.stay_seconds)
            after = self.number()
            if before != after:
                self.append("faults", f"{marker} read {before} and then {after}")
        os.unlink(own)
        return inside

    def look(self, mode, marker):
        names = os.listdir(self.inside)
        shared = None if mode == "write" else mode + "."
        met = [name for name in names if name != marker and not (shared and name.startswith(shared))]
        if met:
            self.append("faults", marker + " met " + " ".join(met))
        return len(names)

    def number(self):
        with open(os.path.join(self.folder, "number"), encoding="ascii") as file:
            return int(file.read())

    def append(self, file, line):
        # In one call, so that the lines of several do not mix.
        descriptor = os.open(os.path.join(self.folder, file), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, (line + "\n").encode())
        finally:
            os.close(descriptor)


def increment(file, stay_seconds=STAY_SECONDS):
    """Reads the number in a file and writes it plus one, with time in between."""
    with open(file, "r+", encoding="ascii") as counter:
        number = int(counter.read())
        time.sleep(stay_seconds)
        counter.seek(0)
        counter.write(str(number + 1))
