import java.util.Collection;

/** What the commands need from a lock of any recipe. One thread at a time; it must release what it acquired. */
interface PeerLock {
    /** For {@link #acquire}: waits without end. */
    long FOR_EVER = -1;

    /** Acquires within the time: 0 tries once, {@link #FOR_EVER} waits without end. */
    boolean acquire(long millis) throws Exception;

    void release() throws Exception;

    /** Nodes of the queue, first in line first: names or full paths. */
    Collection<String> participants() throws Exception;

    /** The full path of the node of our hold. */
    String node() throws Exception;

    /** Makes a request to give up call {@code requested}; to be called before acquiring. */
    default void makeRevocable(Runnable requested) {
        throw new UnsupportedOperationException("this recipe cannot be revoked");
    }
}
