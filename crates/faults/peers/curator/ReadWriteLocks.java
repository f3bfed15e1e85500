import java.util.Collection;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;

/** The two sides of one {@code InterProcessReadWriteLock}: of one object, so that a writer can take the read lock too. */
final class ReadWriteLocks {
    /** Curator shows the node of a side to subclasses only. */
    private static final class VisibleRead extends InterProcessReadWriteLock.ReadLock {
        VisibleRead(CuratorFramework client, String path, InterProcessReadWriteLock.WriteLock write) {
            super(client, path, null, write);
        }

        String held() {
            return getLockPath();
        }
    }

    private static final class VisibleWrite extends InterProcessReadWriteLock.WriteLock {
        VisibleWrite(CuratorFramework client, String path) {
            super(client, path, null);
        }

        String held() {
            return getLockPath();
        }
    }

    private final VisibleWrite write;
    private final VisibleRead read;

    ReadWriteLocks(CuratorFramework client, String path) {
        write = new VisibleWrite(client, path);
        read = new VisibleRead(client, path, write);
    }

    PeerLock readSide() {
        return new PeerLock() {
            @Override
            public boolean acquire(long millis) throws Exception {
                return MutexLock.acquire(read, millis);
            }

            @Override
            public void release() throws Exception {
                read.release();
            }

            @Override
            public Collection<String> participants() throws Exception {
                return read.getParticipantNodes();
            }

            @Override
            public String node() {
                return read.held();
            }
        };
    }

    PeerLock writeSide() {
        return new PeerLock() {
            @Override
            public boolean acquire(long millis) throws Exception {
                return MutexLock.acquire(write, millis);
            }

            @Override
            public void release() throws Exception {
                write.release();
            }

            @Override
            public Collection<String> participants() throws Exception {
                return write.getParticipantNodes();
            }

            @Override
            public String node() {
                return write.held();
            }
        };
    }
}
