import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;

/** Looks at a recipe's nodes from outside, where the recipe does not show them. */
final class Children {
    private static final int SEQUENCE_DIGITS = 10;

    private Children() {}

    /** The names of the sequential children, first in line first; none if there is no such path. */
    static List<String> inOrder(CuratorFramework client, String path) throws Exception {
        List<String> names;
        try {
            names = client.getChildren().forPath(path);
        } catch (KeeperException.NoNodeException error) {
            return List.of();
        }
        return names.stream()
                .filter(name -> name.matches(".*[0-9]{" + SEQUENCE_DIGITS + "}"))
                .sorted(Comparator.comparing(name -> name.substring(name.length() - SEQUENCE_DIGITS)))
                .collect(Collectors.toList());
    }
}
