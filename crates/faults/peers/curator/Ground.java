import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * The folder in which all holders of a lock write down their turns, so that two holders inside at once are seen.
 * Its contents and rules are described in {@code peers/ground.rs}.
 */
final class Ground {
    /** The pause between reading and writing a counted file that is not on a ground. */
    private static final long STAY_MILLIS = 1;

    private final Path folder;
    private final long stayMillis;

    Ground(String folder) throws IOException {
        this.folder = Path.of(folder);
        stayMillis = Long.parseLong(Files.readString(this.folder.resolve("stay")).trim());
    }

    /** What a holder is allowed to meet, by the kind of its lock. */
    static String mode(String kind) {
        if (kind.equals("read")) {
            return "read";
        }
        return kind.startsWith("semaphore:") || kind.startsWith("semaphore@") ? "permit" : "write";
    }

    /** Goes in, looks for other holders, and leaves, under a held lock; answers how many were inside, with itself. */
    int visit(String mode, String who, String node) throws IOException, InterruptedException {
        String marker = mode + "." + who;
        Path own = folder.resolve("inside").resolve(marker);
        Files.createFile(own);
        int inside = look(mode, marker);
        append("grants", mode + "\t" + who + "\t" + node.substring(node.lastIndexOf('/') + 1));
        if (mode.equals("write")) {
            increment(folder.resolve("number").toString(), stayMillis);
        } else {
            long before = number();
            Thread.sleep(stayMillis);
            long after = number();
            if (before != after) {
                append("faults", marker + " read " + before + " and then " + after);
            }
        }
        Files.delete(own);
        return inside;
    }

    /** Reads the number in a file and writes it plus one, with time in between. */
    static void increment(String file) throws IOException, InterruptedException {
        increment(file, STAY_MILLIS);
    }

    private static void increment(String file, long stayMillis) throws IOException, InterruptedException {
        try (RandomAccessFile counter = new RandomAccessFile(file, "rw")) {
            byte[] text = new byte[(int) counter.length()];
            counter.readFully(text);
            long number = Long.parseLong(new String(text, StandardCharsets.US_ASCII).trim());
            Thread.sleep(stayMillis);
            counter.seek(0);
            counter.write(Long.toString(number + 1).getBytes(StandardCharsets.US_ASCII));
        }
    }

    private int look(String mode, String marker) throws IOException {
        String[] names = folder.resolve("inside").toFile().list();
        List<String> met = new ArrayList<>();
        for (String name : names) {
            boolean shares = !mode.equals("write") && name.startsWith(mode + ".");
            if (!shares && !name.equals(marker)) {
                met.add(name);
            }
        }
        if (!met.isEmpty()) {
            append("faults", marker + " met " + String.join(" ", met));
        }
        return names.length;
    }

    private long number() throws IOException {
        return Long.parseLong(Files.readString(folder.resolve("number")).trim());
    }

    private void append(String file, String line) throws IOException {
        Files.writeString(folder.resolve(file), line + "\n", StandardOpenOption.APPEND);
    }
}
