import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCountReader;

/** {@code InterProcessSemaphoreV2}, with its own bound or that of a {@code SharedCount}; as a lock, one lease. */
final class SemaphoreLock implements PeerLock {
    private final String path;
    private final InterProcessSemaphoreV2 semaphore;
    /** What we hold, longest held first. */
    private final ArrayDeque<Lease> leases = new ArrayDeque<>();

    private SemaphoreLock(String path, InterProcessSemaphoreV2 semaphore) {
        this.path = path;
        this.semaphore = semaphore;
    }

    static SemaphoreLock ofPermits(CuratorFramework client, String path, int permits) {
        return new SemaphoreLock(path, new InterProcessSemaphoreV2(client, path, permits));
    }

    static SemaphoreLock boundBy(CuratorFramework client, String path, SharedCountReader count) {
        return new SemaphoreLock(path, new InterProcessSemaphoreV2(client, path, count));
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        return acquire(1, millis);
    }

    /** Acquires this many leases, as Curator does it: one by one, keeping the first while it waits for the next. */
    boolean acquire(int quantity, long millis) throws Exception {
        Collection<Lease> acquired = millis < 0
                ? semaphore.acquire(quantity)
                : semaphore.acquire(quantity, millis, TimeUnit.MILLISECONDS);
        if (acquired == null) {
            return false;
        }
        leases.addAll(acquired);
        return true;
    }

    @Override
    public void release() throws Exception {
        release(1);
    }

    /** Returns this many leases, those held longest first. */
    void release(int quantity) {
        if (leases.size() < quantity) {
            throw new IllegalStateException("holds " + leases.size() + " leases");
        }
        List<Lease> returned = new ArrayList<>();
        while (returned.size() < quantity) {
            returned.add(leases.remove());
        }
        semaphore.returnAll(returned);
    }

    @Override
    public Collection<String> participants() throws Exception {
        return semaphore.getParticipantNodes();
    }

    @Override
    public String node() {
        return path + "/leases/" + leases.getLast().getNodeName();
    }
}
