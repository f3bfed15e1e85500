import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;

/** Locks that are timed within this process, so that no pipe is in the figures. Times are in nanoseconds. */
final class Timed {
    /** A lock that is taken and given back once. */
    interface Pair {
        void take() throws Exception;
    }

    /** What each thread of a crowd does, made by that thread's number. */
    interface Work {
        Pair of(int number);
    }

    private Timed() {}

    /** Takes the lock and gives it back this often; the time of each pair, without the pause that follows it. */
    static List<String> alone(PeerLock lock, int count, long pauseMicros) throws Exception {
        List<Long> times = new ArrayList<>(count);
        for (int left = count; left > 0; left--) {
            long start = System.nanoTime();
            lock.acquire(PeerLock.FOR_EVER);
            lock.release();
            times.add(System.nanoTime() - start);
            pause(pauseMicros);
        }
        return texts(times);
    }

    private static void pause(long micros) {
        long end = System.nanoTime() + micros * 1_000;
        for (long left = micros * 1_000; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    /** Tries this often to take a lock that another client holds; the time of each. */
    static List<String> refused(PeerLock lock, int count) throws Exception {
        List<Long> times = new ArrayList<>(count);
        for (int left = count; left > 0; left--) {
            long start = System.nanoTime();
            if (lock.acquire(0)) {
                throw new IllegalStateException("the lock is free");
            }
            times.add(System.nanoTime() - start);
        }
        return texts(times);
    }

    /** Lets threads work for this time; what it took, and how often each did its work. */
    static List<String> crowd(Work work, int threads, long millis) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            CountDownLatch begin = new CountDownLatch(1);
            long[] end = new long[1];
            List<Future<Long>> running = new ArrayList<>();
            for (int number = 0; number < threads; number++) {
                Pair pair = work.of(number);
                Callable<Long> task = () -> {
                    begin.await();
                    long done = 0;
                    while (System.nanoTime() - end[0] < 0) {
                        pair.take();
                        done++;
                    }
                    return done;
                };
                running.add(pool.submit(task));
            }
            long start = System.nanoTime();
            end[0] = start + millis * 1_000_000;
            begin.countDown();
            List<Long> figures = new ArrayList<>();
            for (Future<Long> task : running) {
                figures.add(task.get());
            }
            figures.add(0, System.nanoTime() - start);
            return texts(figures);
        } finally {
            pool.shutdownNow();
        }
    }

    /** A pair of a lock. */
    static Pair pair(PeerLock lock) {
        return () -> {
            lock.acquire(PeerLock.FOR_EVER);
            lock.release();
        };
    }

    /** A pair of a read/write lock: of so many one after the other, one writes. */
    static Pair mixed(ReadWriteLocks locks, int number, int oneInSoMany) {
        Pair read = pair(locks.readSide());
        Pair write = pair(locks.writeSide());
        int[] turn = {number};
        return () -> (turn[0]++ % oneInSoMany == 0 ? write : read).take();
    }

    private static List<String> texts(List<Long> figures) {
        return figures.stream().map(String::valueOf).collect(Collectors.toList());
    }
}
