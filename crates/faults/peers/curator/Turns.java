import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;

/** Several threads of this process that take turns at one lock, each with its own lock object. */
final class Turns {
    private Turns() {}

    /** Makes each thread take its turns on the ground; answers the most that any of them met inside, with itself. */
    static int take(Supplier<PeerLock> locks, String mode, Ground ground, int contenders, int rounds) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(contenders);
        try {
            List<Callable<Integer>> tasks = new ArrayList<>();
            for (int index = 0; index < contenders; index++) {
                String who = ProcessHandle.current().pid() + "." + index;
                tasks.add(() -> take(locks.get(), mode, ground, who, rounds));
            }
            int most = 0;
            for (Future<Integer> task : threads.invokeAll(tasks)) {
                most = Math.max(most, task.get());
            }
            return most;
        } finally {
            threads.shutdownNow();
        }
    }

    private static int take(PeerLock lock, String mode, Ground ground, String who, int rounds) throws Exception {
        int most = 0;
        for (int left = rounds; left > 0; left--) {
            lock.acquire(PeerLock.FOR_EVER);
            try {
                most = Math.max(most, ground.visit(mode, who, lock.node()));
            } finally {
                lock.release();
            }
        }
        return most;
    }
}
