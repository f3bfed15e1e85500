import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;

/** {@code InterProcessSemaphoreMutex}: Curator's mutex that is not reentrant, a semaphore of one lease. */
final class SemaphoreMutexLock implements PeerLock {
    private final CuratorFramework client;
    private final String path;
    private final InterProcessSemaphoreMutex mutex;

    SemaphoreMutexLock(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
        mutex = new InterProcessSemaphoreMutex(client, path);
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        if (millis < 0) {
            mutex.acquire();
            return true;
        }
        return mutex.acquire(millis, TimeUnit.MILLISECONDS);
    }

    @Override
    public void release() throws Exception {
        mutex.release();
    }

    @Override
    public Collection<String> participants() throws Exception {
        return Children.inOrder(client, path + "/leases");
    }

    @Override
    public String node() throws Exception {
        List<String> leases = Children.inOrder(client, path + "/leases");
        if (!mutex.isAcquiredInThisProcess() || leases.isEmpty()) {
            throw new IllegalStateException("not held");
        }
        // Any other contender in the list came after us and waits.
        return path + "/leases/" + leases.get(0);
    }
}
