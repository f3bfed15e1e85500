import java.io.BufferedReader;
import java.io.InputStreamReader;
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
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Drives Curator's locks for the tests: one command a line on standard input, one answer a line on standard output.
 *
 * Fields are separated by tabs. Arguments: connection string, session timeout in milliseconds. The first line written is
 * "ok" once the session stands. All commands run in one thread, which owns the locks.
 *
 * <pre>
 * lock KIND PATH MILLIS            ok yes|no     0 tries once, -1 waits forever
 * release KIND PATH                ok yes
 * acquire KIND PATH PERMITS MILLIS ok yes|no     the same for several permits of a semaphore
 * return KIND PATH PERMITS         ok yes
 * count KIND PATH FILE ROUNDS      ok            under the lock: read the number in FILE, write it plus one
 * turns KIND PATH FOLDER THREADS ROUNDS  ok MOST each thread takes this many turns on the ground in FOLDER
 * time-alone KIND PATH COUNT MICROS  ok NANOS…   takes and gives back, with a pause after each that is not timed
 * time-refused KIND PATH COUNT     ok NANOS…     tries once what another client holds
 * time-crowd KIND PATH THREADS MILLIS each|shared|own  ok NANOS COUNT…  a lock object each, one for all, a path each
 * time-mixed read PATH THREADS MILLIS SHARE  ok NANOS COUNT…  of so many of a thread, one writes and the rest read
 * participants KIND PATH           ok NODE…      names, first in line first
 * node KIND PATH                   ok NODE       the full path of what we hold
 * revocable KIND PATH              ok            before lock: note requests to give up
 * revoked KIND PATH MILLIS         ok yes|no     waits for such a request
 * revoke NODE                      ok            asks the holder of NODE to give up
 * barrier-set PATH                 ok
 * barrier-remove PATH              ok
 * barrier-wait PATH MILLIS         ok yes|no     until it is removed
 * number PATH                      ok VALUE VERSION     a shared count, made as 0 if it is not there
 * number-set PATH VALUE            ok
 * number-try-set PATH VALUE        ok yes|no     unless it was set since it was last told
 * number-changed PATH MILLIS       ok yes|no     waits until it is another than was last told
 * exists PATH                      ok yes|no
 * gone PATH MILLIS                 ok yes|no     waits until there is no such node
 * ttl-keep PATH MILLIS             ok yes|no     keeps a node that lives this long beyond the last touch
 * ttl-leave PATH                   ok            keeps it no longer
 * updates-count PARENT             ok            from now on
 * updates PARENT                   ok COUNT      how often a child's data were set
 * </pre>
 */
public final class CuratorPeer {
    private static final int CONNECTION_MILLIS = 15_000;

    private final CuratorFramework client;
    private final SharedCounts counts;
    private final Locks locks;
    private final Barriers barriers;
    private final Nodes nodes;
    private final Map<String, CountDownLatch> revocations = new HashMap<>();

    private CuratorPeer(CuratorFramework client) {
        this.client = client;
        counts = new SharedCounts(client);
        locks = new Locks(client, counts);
        barriers = new Barriers(client);
        nodes = new Nodes(client);
    }

    /** Commands that name no lock, or another recipe's path. */
    private List<String> run(String command, String[] arguments) throws Exception {
        switch (command) {
            case "revoke":
                Revoker.attemptRevoke(client, arguments[0]);
                return List.of();
            case "barrier-set":
                barriers.set(arguments[0]);
                return List.of();
            case "barrier-remove":
                barriers.remove(arguments[0]);
                return List.of();
            case "barrier-wait":
                return yesOrNo(barriers.await(arguments[0], Long.parseLong(arguments[1])));
            case "number":
                return counts.tell(arguments[0]);
            case "number-set":
                counts.set(arguments[0], Integer.parseInt(arguments[1]));
                return List.of();
            case "number-try-set":
                return yesOrNo(counts.trySet(arguments[0], Integer.parseInt(arguments[1])));
            case "number-changed":
                return yesOrNo(counts.changes(arguments[0], Long.parseLong(arguments[1])));
            case "exists":
                return yesOrNo(nodes.exists(arguments[0]));
            case "gone":
                return yesOrNo(nodes.isGoneWithin(arguments[0], Long.parseLong(arguments[1])));
            case "ttl-keep":
                return yesOrNo(nodes.keepTtlNode(arguments[0], Long.parseLong(arguments[1])));
            case "ttl-leave":
                nodes.leaveTtlNode(arguments[0]);
                return List.of();
            case "updates-count":
                nodes.countUpdates(arguments[0]);
                return List.of();
            case "updates":
                return List.of(Integer.toString(nodes.updates(arguments[0])));
            default:
                return runOnLock(command, arguments[0], arguments[1], arguments);
        }
    }

    private List<String> runOnLock(String command, String kind, String path, String[] arguments) throws Exception {
        PeerLock lock = locks.of(kind, path);
        switch (command) {
            case "lock":
                return yesOrNo(lock.acquire(Long.parseLong(arguments[2])));
            case "release":
                lock.release();
                return yesOrNo(true);
            case "acquire":
                int permits = Integer.parseInt(arguments[2]);
                return yesOrNo(locks.semaphore(kind, path).acquire(permits, Long.parseLong(arguments[3])));
            case "return":
                locks.semaphore(kind, path).release(Integer.parseInt(arguments[2]));
                return yesOrNo(true);
            case "count":
                for (int left = Integer.parseInt(arguments[3]); left > 0; left--) {
                    incrementUnder(lock, arguments[2]);
                }
                return List.of();
            case "turns":
                Ground ground = new Ground(arguments[2]);
                int most = Turns.take(
                        () -> locks.make(kind, path),
                        Ground.mode(kind),
                        ground,
                        Integer.parseInt(arguments[3]),
                        Integer.parseInt(arguments[4]));
                return List.of(Integer.toString(most));
            case "time-alone":
                return Timed.alone(lock, Integer.parseInt(arguments[2]), Long.parseLong(arguments[3]));
            case "time-refused":
                return Timed.refused(lock, Integer.parseInt(arguments[2]));
            case "time-crowd":
            case "time-mixed":
                return Timed.crowd(
                        work(command, kind, path, arguments[4]),
                        Integer.parseInt(arguments[2]),
                        Long.parseLong(arguments[3]));
            case "participants":
                return lock.participants().stream()
                        .map(node -> node.substring(node.lastIndexOf('/') + 1))
                        .collect(Collectors.toList());
            case "node":
                return List.of(lock.node());
            case "revocable":
                CountDownLatch requested = new CountDownLatch(1);
                revocations.put(kind + "\t" + path, requested);
                lock.makeRevocable(requested::countDown);
                return List.of();
            case "revoked":
                long millis = Long.parseLong(arguments[2]);
                return yesOrNo(revocations.get(kind + "\t" + path).await(millis, TimeUnit.MILLISECONDS));
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    private Timed.Work work(String command, String kind, String path, String how) {
        if (command.equals("time-mixed")) {
            return number -> Timed.mixed(new ReadWriteLocks(client, path), number, Integer.parseInt(how));
        }
        switch (how) {
            case "each":
                return number -> Timed.pair(locks.make(kind, path));
            case "shared":
                PeerLock shared = locks.make(kind, path);
                return number -> Timed.pair(shared);
            case "own":
                return number -> Timed.pair(locks.make(kind, path + "-" + number));
            default:
                throw new IllegalArgumentException("no crowd " + how);
        }
    }

    private static void incrementUnder(PeerLock lock, String file) throws Exception {
        lock.acquire(PeerLock.FOR_EVER);
        try {
            Ground.increment(file);
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
