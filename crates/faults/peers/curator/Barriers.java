import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;

/** {@code DistributedBarrier}. */
final class Barriers {
    private final CuratorFramework client;

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
}
