import java.util.Collection;

/** What the commands need of a lock, whatever its recipe. One thread at a time; it must release what it acquired. */
interface PeerLock {
    /** For {@link #acquire}: waits without end. */
    long FOR_EVER = -1;

    /** Acquires within the time: 0 tries once, {@link #FOR_EVER} waits without end. */
    boolean acquire(long millis) throws Exception;

    void release() throws Exception;

    /** Nodes of the queue, first in line first: names or full paths. */
    Collection<String> participants() throws Exception;

    /** The full path of the node that stands for what we hold. */
    String node() throws Exception;

    /** Has {@code requested} called when somebody asks the holder to give up; before acquiring. */
    default void makeRevocable(Runnable requested) {
        throw new UnsupportedOperationException("this recipe cannot be revoked");
    }
}
