import java.util.Collection;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;

/** {@code InterProcessMutex}, as it comes, with its owner, or with a driver that knows kazoo's names. */
final class MutexLock implements PeerLock {
    /** Curator lets a subclass see the node that the thread holds. */
    private static final class Visible extends InterProcessMutex {
        Visible(CuratorFramework client, String path, StandardLockInternalsDriver driver) {
            super(client, path, driver);
        }

        String held() {
            return getLockPath();
        }
    }

    /** The same, of the one that says its owner. */
    private static final class VisibleOwned extends OwnedMutex {
        VisibleOwned(CuratorFramework client, String path) {
            super(client, path, "java-host", "billing");
        }

        String held() {
            return getLockPath();
        }
    }

    /** Lets Curator queue with kazoo: of kazoo's names too, it compares what follows the marker. */
    private static final class KazooAwareDriver extends StandardLockInternalsDriver {
        private static final String KAZOO_MARKER = "__lock__";

        @Override
        public String fixForSorting(String name, String lockName) {
            int marker = name.lastIndexOf(KAZOO_MARKER);
            return marker < 0 ? super.fixForSorting(name, lockName) : name.substring(marker + KAZOO_MARKER.length());
        }
    }

    private final InterProcessMutex mutex;
    private final Supplier<String> held;

    private MutexLock(InterProcessMutex mutex, Supplier<String> held) {
        this.mutex = mutex;
        this.held = held;
    }

    private MutexLock(Visible mutex) {
        this(mutex, mutex::held);
    }

    static MutexLock withOwner(CuratorFramework client, String path) {
        VisibleOwned mutex = new VisibleOwned(client, path);
        return new MutexLock(mutex, mutex::held);
    }

    static MutexLock asItComes(CuratorFramework client, String path) {
        return new MutexLock(new Visible(client, path, new StandardLockInternalsDriver()));
    }

    static MutexLock besideKazoo(CuratorFramework client, String path) {
        return new MutexLock(new Visible(client, path, new KazooAwareDriver()));
    }

    /** Acquires any of Curator's mutexes as the commands say it. */
    static boolean acquire(InterProcessMutex mutex, long millis) throws Exception {
        if (millis < 0) {
            mutex.acquire();
            return true;
        }
        return mutex.acquire(millis, TimeUnit.MILLISECONDS);
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        return acquire(mutex, millis);
    }

    @Override
    public void release() throws Exception {
        mutex.release();
    }

    @Override
    public Collection<String> participants() throws Exception {
        return mutex.getParticipantNodes();
    }

    @Override
    public String node() {
        return held.get();
    }

    @Override
    public void makeRevocable(Runnable requested) {
        mutex.makeRevocable(lock -> requested.run());
    }
}
