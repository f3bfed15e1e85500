import java.util.Collection;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;

/** {@code LeaderLatch} as a lock: leading is holding it. Each acquisition is a separate latch; closing releases it. */
final class LatchLock implements PeerLock {
    /** Between two looks at who leads. */
    private static final long LOOK_AGAIN_MILLIS = 1;

    private final CuratorFramework client;
    private final String path;
    private LeaderLatch latch;

    LatchLock(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        if (latch != null) {
            throw new IllegalStateException("leads already");
        }
        latch = new LeaderLatch(client, path, UUID.randomUUID().toString());
        latch.start();
        boolean leads;
        if (millis < 0) {
            latch.await();
            leads = true;
        } else if (millis == 0) {
            leads = leadsAtOnce();
        } else {
            leads = latch.await(millis, TimeUnit.MILLISECONDS);
        }
        if (!leads) {
            release();
        }
        return leads;
    }

    /** A latch joins in the background: waits until a leader is known, and answers whether it is this latch. */
    private boolean leadsAtOnce() throws Exception {
        while (!latch.hasLeadership()) {
            Participant leader = latch.getLeader();
            if (leader.isLeader() && !leader.getId().equals(latch.getId())) {
                return false;
            }
            Thread.sleep(LOOK_AGAIN_MILLIS);
        }
        return true;
    }

    @Override
    public void release() throws Exception {
        if (latch == null) {
            throw new IllegalStateException("does not lead");
        }
        latch.close();
        latch = null;
        // Closing deletes the node in the background; later requests of this session come after it.
        client.checkExists().forPath(path);
    }

    @Override
    public Collection<String> participants() throws Exception {
        return Children.inOrder(client, path);
    }

    @Override
    public String node() {
        return latch.getOurPath();
    }
}
