import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Drives Curator's locks for the tests: one command a line on standard input, one answer a line on standard output.
 *
 * Fields are separated by tabs. Arguments: connection string, session timeout in milliseconds. The first line written is
 * "ok" once the session stands. All commands run in one thread, which owns the locks.
 *
 * <pre>
 * lock KIND PATH MILLIS       ok yes|no     0 tries once, -1 waits for ever
 * release KIND PATH           ok yes
 * count KIND PATH FILE ROUNDS ok            under the lock: read the number in FILE, write it plus one
 * participants KIND PATH      ok NODE…      names, first in line first
 * node KIND PATH              ok NODE       the full path of what we hold
 * revocable KIND PATH         ok            before lock: note requests to give up
 * revoked KIND PATH MILLIS    ok yes|no     waits for such a request
 * revoke NODE                 ok            asks the holder of NODE to give up
 * </pre>
 */
public final class CuratorPeer {
    /** Between reading and writing the counted file, so that two who are inside at once lose an increment. */
    private static final long INSIDE_MILLIS = 1;

    private static final long FOR_EVER = -1;

    private static final int CONNECTION_MILLIS = 15_000;

    /** What the commands need of a lock, whatever its kind. */
    private interface Lock {
        boolean acquire(long millis) throws Exception;

        void release() throws Exception;

        Collection<String> participants() throws Exception;

        String node() throws Exception;

        void makeRevocable(Runnable requested);
    }

    private static final class Mutex implements Lock {
        /** Curator lets a subclass see the node that the thread holds. */
        private static final class Visible extends InterProcessMutex {
            Visible(CuratorFramework client, String path, StandardLockInternalsDriver driver) {
                super(client, path, driver);
            }

            String held() {
                return getLockPath();
            }
        }

        private final Visible mutex;

        Mutex(CuratorFramework client, String path, StandardLockInternalsDriver driver) {
            mutex = new Visible(client, path, driver);
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
            return mutex.getParticipantNodes();
        }

        @Override
        public String node() {
            return mutex.held();
        }

        @Override
        public void makeRevocable(Runnable requested) {
            mutex.makeRevocable(lock -> requested.run());
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

    private final CuratorFramework client;
    private final Map<String, Lock> locks = new HashMap<>();
    private final Map<String, CountDownLatch> revocations = new HashMap<>();

    private CuratorPeer(CuratorFramework client) {
        this.client = client;
    }

    private Lock lock(String kind, String path) {
        return locks.computeIfAbsent(kind + "\t" + path, key -> newLock(kind, path));
    }

    private Lock newLock(String kind, String path) {
        switch (kind) {
            case "mutex":
                return new Mutex(client, path, new StandardLockInternalsDriver());
            case "mixed-mutex":
                return new Mutex(client, path, new KazooAwareDriver());
            default:
                throw new IllegalArgumentException("no lock of kind " + kind);
        }
    }

    private List<String> run(String command, String[] arguments) throws Exception {
        if (command.equals("revoke")) {
            Revoker.attemptRevoke(client, arguments[0]);
            return List.of();
        }
        String key = arguments[0] + "\t" + arguments[1];
        Lock lock = lock(arguments[0], arguments[1]);
        switch (command) {
            case "lock":
                return yesOrNo(lock.acquire(Long.parseLong(arguments[2])));
            case "release":
                lock.release();
                return yesOrNo(true);
            case "count":
                for (int left = Integer.parseInt(arguments[3]); left > 0; left--) {
                    incrementUnder(lock, arguments[2]);
                }
                return List.of();
            case "participants":
                return lock.participants().stream()
                        .map(path -> path.substring(path.lastIndexOf('/') + 1))
                        .collect(Collectors.toList());
            case "node":
                return List.of(lock.node());
            case "revocable":
                CountDownLatch requested = new CountDownLatch(1);
                revocations.put(key, requested);
                lock.makeRevocable(requested::countDown);
                return List.of();
            case "revoked":
                return yesOrNo(revocations.get(key).await(Long.parseLong(arguments[2]), TimeUnit.MILLISECONDS));
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    private static void incrementUnder(Lock lock, String file) throws Exception {
        lock.acquire(FOR_EVER);
        try (RandomAccessFile counter = new RandomAccessFile(file, "rw")) {
            byte[] text = new byte[(int) counter.length()];
            counter.readFully(text);
            long number = Long.parseLong(new String(text, StandardCharsets.US_ASCII).trim());
            Thread.sleep(INSIDE_MILLIS);
            counter.seek(0);
            counter.write(Long.toString(number + 1).getBytes(StandardCharsets.US_ASCII));
        } finally {
            lock.release();
        }
    }

    private static List<String> yesOrNo(boolean yes) {
        return List.of(yes ? "yes" : "no");
    }

    private static void answer(String first, Collection<String> fields) {
        StringBuilder line = new StringBuilder(first);
        fields.forEach(field -> line.append('\t').append(field.replaceAll("[\\t\\n]", " ")));
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                arguments[0], Integer.parseInt(arguments[1]), CONNECTION_MILLIS, new ExponentialBackoffRetry(100, 5));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            answer("error", List.of("not connected"));
            return;
        }
        answer("ok", List.of());
        CuratorPeer peer = new CuratorPeer(client);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                answer("ok", peer.run(fields[0], Arrays.copyOfRange(fields, 1, fields.length)));
            } catch (Exception error) {
                answer("error", List.of(error.toString()));
            }
        }
        client.close();
    }
}
