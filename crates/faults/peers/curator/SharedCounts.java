import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;

/** Every {@code SharedCount} in use, by its path; one object each, started when first asked for. */
final class SharedCounts {
    /** What a node that is not there yet is made with. */
    private static final int SEED = 0;

    /** A count and what was last told of it. */
    private static final class Watched implements SharedCountListener {
        final SharedCount count;
        private VersionedValue<Integer> told;

        Watched(CuratorFramework client, String path) throws Exception {
            count = new SharedCount(client, path, SEED);
            count.addListener(this);
            count.start();
        }

        synchronized List<String> tell() {
            told = count.getVersionedValue();
            return List.of(Integer.toString(told.getValue()), Integer.toString(told.getVersion()));
        }

        synchronized boolean trySet(int value) throws Exception {
            if (told == null) {
                throw new IllegalStateException("nothing told yet to compare with");
            }
            return count.trySetCount(told, value);
        }

        synchronized boolean changes(long millis) throws InterruptedException {
            int before = told == null ? count.getVersionedValue().getVersion() : told.getVersion();
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
            while (count.getVersionedValue().getVersion() == before) {
                long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
                if (left <= 0) {
                    return false;
                }
                wait(left);
            }
            return true;
        }

        @Override
        public synchronized void countHasChanged(SharedCountReader reader, int value) {
            notifyAll();
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private final CuratorFramework client;
    private final Map<String, Watched> counts = new ConcurrentHashMap<>();

    SharedCounts(CuratorFramework client) {
        this.client = client;
    }

    SharedCount at(String path) {
        return watched(path).count;
    }

    /** Value and version, as far as Curator's watch has told it. */
    List<String> tell(String path) {
        return watched(path).tell();
    }

    void set(String path, int value) throws Exception {
        watched(path).count.setCount(value);
    }

    /** Sets it if it was not set since it was last told. */
    boolean trySet(String path, int value) throws Exception {
        return watched(path).trySet(value);
    }

    /** Waits until it is another than was last told. */
    boolean changes(String path, long millis) throws InterruptedException {
        return watched(path).changes(millis);
    }

    private Watched watched(String path) {
        return counts.computeIfAbsent(path, missing -> {
            try {
                return new Watched(client, missing);
            } catch (Exception error) {
                throw new IllegalStateException("the count at " + missing, error);
            }
        });
    }
}
