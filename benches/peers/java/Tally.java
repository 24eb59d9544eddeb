import java.util.Arrays;
import java.util.List;

/** What an issuer has counted. */
final class Tally {
    long items;
    long queued;
    long ran;
    boolean measuring;
    final Samples enqueue = new Samples();
    final Samples latency = new Samples();
    final Samples sleeper = new Samples();
    /** From queueing an item to when its issuer learns that it has ended. */
    final Samples told = new Samples();

    /** When measuring begins, what was counted before is forgotten. */
    void restart() {
        measuring = true;
        items = 0;
        enqueue.length = 0;
        latency.length = 0;
        sleeper.length = 0;
        told.length = 0;
    }

    static Tally sum(List<Tally> tallies) {
        Tally sum = new Tally();
        for (Tally tally : tallies) {
            sum.items += tally.items;
            sum.queued += tally.queued;
            sum.ran += tally.ran;
            sum.enqueue.addAll(tally.enqueue);
            sum.latency.addAll(tally.latency);
            sum.sleeper.addAll(tally.sleeper);
            sum.told.addAll(tally.told);
        }
        return sum;
    }

    /** Nanoseconds. */
    static final class Samples {
        private long[] values = new long[4096];
        private int length;

        void add(long value) {
            if (length == values.length) {
                values = Arrays.copyOf(values, 2 * length);
            }
            values[length++] = value;
        }

        void addAll(Samples other) {
            for (int index = 0; index < other.length; index++) {
                add(other.values[index]);
            }
        }

        String percentiles(String name) {
            if (length == 0) {
                return "";
            }
            long[] sorted = Arrays.copyOf(values, length);
            Arrays.sort(sorted);
            StringBuilder text = new StringBuilder();
            for (int percent : new int[] {50, 95, 99}) {
                long value = sorted[(int) ((length - 1L) * percent / 100)];
                text.append(",\"").append(name).append("_p").append(percent).append("_ns\":").append(value);
            }
            return text.toString();
        }
    }
}
