import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.zookeeper.KeeperException;

/** {@code LeaderSelector} as a lock: the leader's callback runs from acquiring to releasing. */
final class SelectorLock implements PeerLock {
    /** How long a selector that was told to end may take. */
    private static final long ENDS_WITHIN_SECONDS = 30;

    /** Between two looks at the queue. */
    private static final long LOOK_AGAIN_MILLIS = 1;

    /** One candidate, from its start to its end. */
    private static final class Candidate extends LeaderSelectorListenerAdapter {
        final CountDownLatch leads = new CountDownLatch(1);
        final CountDownLatch ends = new CountDownLatch(1);
        final ExecutorService thread = Executors.newSingleThreadExecutor();
        final LeaderSelector selector;

        Candidate(CuratorFramework client, String path) {
            selector = new LeaderSelector(client, path, thread, this);
            selector.setId(UUID.randomUUID().toString());
            selector.start();
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws InterruptedException {
            leads.countDown();
            ends.await();
        }

        /** Ends it, and returns when its node has been deleted. */
        void end() throws InterruptedException {
            ends.countDown();
            if (leads.getCount() > 0) {
                // It waits in the queue: closing interrupts that.
                selector.close();
            }
            thread.shutdown();
            if (!thread.awaitTermination(ENDS_WITHIN_SECONDS, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the selector did not end");
            }
        }
    }

    private final CuratorFramework client;
    private final String path;
    private Candidate candidate;

    SelectorLock(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        if (candidate != null) {
            throw new IllegalStateException("leads already");
        }
        candidate = new Candidate(client, path);
        boolean leads;
        if (millis < 0) {
            candidate.leads.await();
            leads = true;
        } else if (millis == 0) {
            leads = leadsAtOnce();
        } else {
            leads = candidate.leads.await(millis, TimeUnit.MILLISECONDS);
        }
        if (!leads) {
            release();
        }
        return leads;
    }

    /** A selector joins in its own thread: waits until it is in the queue, and answers whether it is first. */
    private boolean leadsAtOnce() throws Exception {
        while (!candidate.leads.await(LOOK_AGAIN_MILLIS, TimeUnit.MILLISECONDS)) {
            List<String> queue = Children.inOrder(client, path);
            if (queue.size() > 1 && queue.stream().skip(1).anyMatch(this::isOurs)) {
                return false;
            }
        }
        return true;
    }

    @Override
    public void release() throws Exception {
        if (candidate == null) {
            throw new IllegalStateException("does not lead");
        }
        Candidate ending = candidate;
        candidate = null;
        ending.end();
    }

    @Override
    public Collection<String> participants() throws Exception {
        return Children.inOrder(client, path);
    }

    @Override
    public String node() throws Exception {
        return Children.inOrder(client, path).stream()
                .filter(this::isOurs)
                .map(name -> path + "/" + name)
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("not in the queue"));
    }

    /** A selector does not tell its node, but writes its id into it. */
    private boolean isOurs(String name) {
        byte[] id = candidate.selector.getId().getBytes(StandardCharsets.UTF_8);
        try {
            return Arrays.equals(client.getData().forPath(path + "/" + name), id);
        } catch (KeeperException.NoNodeException error) {
            return false;
        } catch (Exception error) {
            throw new IllegalStateException("looking at " + name, error);
        }
    }
}
