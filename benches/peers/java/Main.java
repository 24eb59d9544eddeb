import java.util.ArrayList;
import java.util.List;

/** The loops for Java: what benches/peers/README.md says. {@code Main list}, or {@code Main PEER LOOP MODE [key=value]...}. */
public final class Main {
    private static final String[][] ROWS = {
        {"roundtrip", "park"}, {"roundtrip", "join"}, {"flood", "park"}, {"window", "count"}, {"idle", "start"}, {"block", "count"},
    };

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("list")) {
            list();
            return;
        }
        Options options;
        try {
            options = Options.parse(arguments);
            if (rows(options.peer).stream().noneMatch(row -> row[0].equals(options.lap) && row[1].equals(options.mode))) {
                throw new IllegalArgumentException("no such peer, loop and mode; see list");
            }
        } catch (IllegalArgumentException error) {
            System.err.println("Main: " + error.getMessage());
            System.exit(2);
            return;
        }
        try (Pools.Pool pool = Pools.open(options)) {
            System.out.println(new Loops(pool, options).run());
        } catch (IllegalStateException error) {
            System.err.println(options.peer + ": " + error.getMessage());
            System.exit(3);
        }
        System.exit(0);
    }

    /** Which loops a peer has. */
    private static List<String[]> rows(String peer) {
        List<String[]> rows = new ArrayList<>();
        if (peer.equals("java-forkjoin") || peer.equals("java-fixed")) {
            rows.addAll(List.of(ROWS));
        }
        if (peer.equals("java-forkjoin")) {
            rows.add(new String[] {"roundtrip", "help"});
        }
        return rows;
    }

    private static void list() {
        for (String peer : new String[] {"java-forkjoin", "java-fixed"}) {
            for (String[] row : rows(peer)) {
                System.out.printf("{\"peer\":\"%s\",\"version\":\"Java %s\",\"loop\":\"%s\",\"mode\":\"%s\"}%n",
                        peer, System.getProperty("java.version"), row[0], row[1]);
            }
        }
    }
}
