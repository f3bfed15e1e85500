import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** {@code DistributedBarrier} and {@code DistributedDoubleBarrier}. */
final class Barriers {
    private final CuratorFramework client;
    /** One object from entering to leaving: it has the name of its node. */
    private final Map<String, DistributedDoubleBarrier> entered = new HashMap<>();

    Barriers(CuratorFramework client) {
        this.client = client;
    }

    void set(String path) throws Exception {
        new DistributedBarrier(client, path).setBarrier();
    }

    void remove(String path) throws Exception {
        new DistributedBarrier(client, path).removeBarrier();
    }

    boolean await(String path, long millis) throws Exception {
        return new DistributedBarrier(client, path).waitOnBarrier(millis, TimeUnit.MILLISECONDS);
    }

    boolean enter(String path, int members, long millis) throws Exception {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path, members);
        entered.put(path, barrier);
        return barrier.enter(millis, TimeUnit.MILLISECONDS);
    }

    boolean leave(String path, long millis) throws Exception {
        DistributedDoubleBarrier barrier = entered.get(path);
        if (barrier == null) {
            throw new IllegalStateException("not entered");
        }
        boolean left = barrier.leave(millis, TimeUnit.MILLISECONDS);
        if (left) {
            entered.remove(path);
        }
        return left;
    }
}
