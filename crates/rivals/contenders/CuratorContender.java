import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Holds an {@code InterProcessMutex} and says all the time whether it believes so: by its own state, and by a listener
 * of the connection's, as Curator's documentation demands. Arguments: connection string, session timeout in
 * milliseconds, path, pause between two answers in milliseconds.
 */
public final class CuratorContender {
    private static final int RETRY_BASE_MILLIS = 100;
    private static final int RETRIES = 5;

    public static void main(String[] arguments) throws Exception {
        int sessionMillis = Integer.parseInt(arguments[1]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                arguments[0], sessionMillis, sessionMillis / 2, new ExponentialBackoffRetry(RETRY_BASE_MILLIS, RETRIES));
        AtomicBoolean suspended = new AtomicBoolean();
        AtomicBoolean lost = new AtomicBoolean();
        client.getConnectionStateListenable().addListener((unused, state) -> {
            suspended.set(!state.isConnected());
            if (state == ConnectionState.LOST) {
                lost.set(true);
            }
        });
        client.start();
        client.blockUntilConnected();
        InterProcessMutex mutex = new InterProcessMutex(client, arguments[2]);
        System.out.println("waiting");
        for (boolean granted = false; !granted; ) {
            try {
                mutex.acquire();
                granted = true;
            } catch (Exception error) {
                System.err.println("again, after " + error);
                Thread.sleep(RETRY_BASE_MILLIS);
            }
        }
        // A loss before this moment was not one of the lock.
        lost.set(false);
        System.out.println("granted -");
        while (true) {
            boolean believes = mutex.isAcquiredInThisProcess() && !suspended.get() && !lost.get();
            System.out.println(believes ? "yes" : "no");
            Thread.sleep(Long.parseLong(arguments[3]));
        }
    }
}
