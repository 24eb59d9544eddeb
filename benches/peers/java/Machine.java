import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** CPUs, clocks, memory, and a piece of computing of a given length. */
final class Machine {
    private static final List<Integer> ALLOWED = allowed();
    private static long sink;

    private Machine() {}

    private static List<Integer> allowed() {
        List<Integer> cpus = new ArrayList<>();
        for (String part : status("Cpus_allowed_list:").split(",")) {
            String[] ends = part.trim().split("-");
            for (int cpu = Integer.parseInt(ends[0]); cpu <= Integer.parseInt(ends[ends.length - 1]); cpu++) {
                cpus.add(cpu);
            }
        }
        return cpus;
    }

    /** A line of the process's status. */
    private static String status(String key) {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith(key)) {
                    return line.substring(key.length()).trim();
                }
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        throw new IllegalStateException("no " + key);
    }

    static long peakKib() {
        return Long.parseLong(status("VmHWM:").split(" ")[0]);
    }

    /** Pins the calling thread. Java has no call for it: the command taskset does it from outside. */
    static void pinIssuer(int number) throws IOException, InterruptedException {
        String thread = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
        String cpu = ALLOWED.get(number % ALLOWED.size()).toString();
        Process taskset = new ProcessBuilder("taskset", "-pc", cpu, thread).redirectErrorStream(true).start();
        taskset.getInputStream().readAllBytes();
        if (taskset.waitFor() != 0) {
            throw new IllegalStateException("an issuer could not be pinned");
        }
    }

    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** Each step needs the one before it, so that the time is the same in every language. */
    static void spin(int steps) {
        long x = 0x9e3779b97f4a7c15L;
        for (int step = 0; step < steps; step++) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
        }
        if (x == 0) {
            sink = x;
        }
    }

    static long spinTakes(int steps) {
        long least = Long.MAX_VALUE;
        for (int attempt = 0; attempt < 2_000; attempt++) {
            long start = System.nanoTime();
            spin(steps);
            least = Math.min(least, System.nanoTime() - start);
        }
        return least;
    }
}
