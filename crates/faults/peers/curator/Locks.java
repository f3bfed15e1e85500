import java.util.HashMap;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;

/** Which recipe a kind stands for, and the lock objects that the commands use, one for each kind and path. */
final class Locks {
    private static final String SEMAPHORE_OF_PERMITS = "semaphore:";
    private static final String SEMAPHORE_OF_COUNT = "semaphore@";

    private final CuratorFramework client;
    private final SharedCounts counts;
    private final Map<String, PeerLock> locks = new HashMap<>();
    private final Map<String, ReadWriteLocks> readWriteLocks = new HashMap<>();

    Locks(CuratorFramework client, SharedCounts counts) {
        this.client = client;
        this.counts = counts;
    }

    /** The lock that all commands share. The two sides of a read/write lock belong together. */
    PeerLock of(String kind, String path) {
        return locks.computeIfAbsent(kind + "\t" + path, key -> {
            switch (kind) {
                case "read":
                    return readWrite(path).readSide();
                case "write":
                    return readWrite(path).writeSide();
                default:
                    return make(kind, path);
            }
        });
    }

    private ReadWriteLocks readWrite(String path) {
        return readWriteLocks.computeIfAbsent(path, key -> new ReadWriteLocks(client, path));
    }

    SemaphoreLock semaphore(String kind, String path) {
        PeerLock lock = of(kind, path);
        if (lock instanceof SemaphoreLock) {
            return (SemaphoreLock) lock;
        }
        throw new IllegalArgumentException(kind + " has no permits");
    }

    /** A lock object that no other caller uses; any thread may ask. */
    PeerLock make(String kind, String path) {
        if (kind.startsWith(SEMAPHORE_OF_PERMITS)) {
            int permits = Integer.parseInt(kind.substring(SEMAPHORE_OF_PERMITS.length()));
            return SemaphoreLock.ofPermits(client, path, permits);
        }
        if (kind.startsWith(SEMAPHORE_OF_COUNT)) {
            return SemaphoreLock.boundBy(client, path, counts.at(kind.substring(SEMAPHORE_OF_COUNT.length())));
        }
        switch (kind) {
            case "mutex":
                return MutexLock.asItComes(client, path);
            case "owned-mutex":
                return MutexLock.withOwner(client, path);
            case "mixed-mutex":
                return MutexLock.besideKazoo(client, path);
            case "read":
                return new ReadWriteLocks(client, path).readSide();
            case "write":
                return new ReadWriteLocks(client, path).writeSide();
            case "semaphore-mutex":
                return new SemaphoreMutexLock(client, path);
            case "leader-latch":
                return new LatchLock(client, path);
            case "leader-selector":
                return new SelectorLock(client, path);
            default:
                throw new IllegalArgumentException("Curator has no " + kind);
        }
    }
}
