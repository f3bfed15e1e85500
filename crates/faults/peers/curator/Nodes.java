import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCacheEvent;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.Watcher;

/** Nodes that the server removes by itself: whether they are there, and {@code PersistentTtlNode}, which keeps one. */
final class Nodes {
    private static final long CREATED_WITHIN_MILLIS = 30_000;

    private final CuratorFramework client;
    private final Map<String, PersistentTtlNode> kept = new HashMap<>();
    /** How often a child's data were set, by the parent's path. */
    private final Map<String, AtomicInteger> updates = new HashMap<>();

    Nodes(CuratorFramework client) {
        this.client = client;
    }

    boolean exists(String path) throws Exception {
        return client.checkExists().forPath(path) != null;
    }

    /** Waits for a node's removal by watching it. */
    boolean isGoneWithin(String path, long millis) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (true) {
            CountDownLatch event = new CountDownLatch(1);
            if (client.checkExists().usingWatcher((Watcher) told -> event.countDown()).forPath(path)
                    == null) {
                return true;
            }
            if (!event.await(end - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                return false;
            }
        }
    }

    boolean keepTtlNode(String path, long ttlMillis) throws Exception {
        PersistentTtlNode node = new PersistentTtlNode(client, path, ttlMillis, new byte[0]);
        node.start();
        kept.put(path, node);
        return node.waitForInitialCreate(CREATED_WITHIN_MILLIS, TimeUnit.MILLISECONDS);
    }

    /** Keeps the node no longer; that it goes is the server's part. */
    void leaveTtlNode(String path) throws Exception {
        kept.remove(path).close();
    }

    void countUpdates(String parent) throws Exception {
        AtomicInteger count = new AtomicInteger();
        updates.put(parent, count);
        PathChildrenCache cache = new PathChildrenCache(client, parent, true);
        cache.getListenable().addListener((curator, event) -> {
            if (event.getType() == PathChildrenCacheEvent.Type.CHILD_UPDATED) {
                count.incrementAndGet();
            }
        });
        cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
    }

    int updates(String parent) {
        return updates.get(parent).get();
    }
}
