import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Locale;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** A mutex of Curator whose contenders say whose they are, in the words of Lockkeeper's. */
class OwnedMutex extends InterProcessMutex {
    /** This process, to Lockkeeper: any number that no other process has chosen. */
    private static final long PROCESS = new SecureRandom().nextLong();

    /** The last key says that it receives no requests to give up. */
    private static final String DATA = "{\"host\":\"%s\",\"pid\":%d,\"command\":\"%s\",\"since\":%d,"
            + "\"proc\":\"%016x\",\"flow\":\"h%d\",\"answers\":\"no\"}";

    private final String host;
    private final String command;

    /** Host and command are shown as they are; they have no quotes, backslashes or control characters. */
    OwnedMutex(CuratorFramework client, String path, String host, String command) {
        super(client, path);
        this.host = host;
        this.command = command;
    }

    /** Curator stores this in the contender's node; not if the mutex was made revocable. */
    @Override
    protected byte[] getLockNodeBytes() {
        long pid = ProcessHandle.current().pid();
        long thread = Thread.currentThread().getId();
        String data = String.format(
                Locale.ROOT, DATA, host, pid, command, System.currentTimeMillis(), PROCESS, thread);
        return data.getBytes(StandardCharsets.UTF_8);
    }
}
