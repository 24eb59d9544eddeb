import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/** The loops. Every run checks that each item has run exactly once. */
final class Loops {
    private static final int WINDOW = 64;
    private static final int ROUND_TRIP_TIMED_EVERY = 7;
    private static final int FLOOD_TIMED_EVERY = 61;
    private static final int MEASURING = 1;
    private static final int STOPPED = 2;

    private final Pools.Pool pool;
    private final Options options;
    private volatile int phase;

    Loops(Pools.Pool pool, Options options) {
        this.pool = pool;
        this.options = options;
    }

    /** What an issuer does, on a thread of its own. */
    private interface Issuer {
        void issue(Tally tally) throws Exception;
    }

    String run() throws Exception {
        long spinNs = switch (options.lap) {
            case "window", "block" -> Machine.spinTakes(options.spin);
            default -> 0;
        };
        Result result = switch (options.lap) {
            case "flood" -> flood();
            case "idle" -> idle();
            case "roundtrip" -> timed(this::roundTrip);
            default -> timed(this::window);
        };
        if (result.sum.ran != result.sum.queued) {
            throw new IllegalStateException(result.sum.queued + " items were queued, " + result.sum.ran + " ran");
        }
        if (options.lap.equals("idle")) {
            System.out.println("idle");
            System.out.flush();
            readLine();
        }
        // Of no locale: a point in the numbers.
        String line = String.format(Locale.ROOT, "{\"items\":%d,\"seconds\":%.9f,\"cpu_s\":%.9f,\"spin_ns\":%d", result.sum.items,
                result.wallNs / 1e9, result.cpuNs / 1e9, spinNs);
        line += result.sum.enqueue.percentiles("enqueue") + result.sum.latency.percentiles("latency")
                + result.sum.sleeper.percentiles("sleeper") + result.sum.told.percentiles("told");
        if (options.lap.equals("flood")) {
            line += ",\"peak_kib\":" + Machine.peakKib();
        }
        return line + "}";
    }

    private static void readLine() throws IOException {
        int read;
        do {
            read = System.in.read();
        } while (read != '\n' && read != -1);
    }

    private record Result(Tally sum, long wallNs, long cpuNs) {}

    private List<Thread> startIssuers(List<Tally> tallies, Issuer issuer) {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < options.issuers; number++) {
            int cpu = number;
            Tally tally = new Tally();
            tallies.add(tally);
            Thread thread = new Thread(() -> {
                try {
                    Machine.pinIssuer(cpu);
                    issuer.issue(tally);
                } catch (Exception error) {
                    System.err.println(options.peer + ": an issuer: " + error);
                    Runtime.getRuntime().halt(3);
                }
            });
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        return threads;
    }

    private Result timed(Issuer issuer) throws Exception {
        CyclicBarrier ready = new CyclicBarrier(options.issuers + 1);
        List<Tally> tallies = new ArrayList<>();
        List<Thread> threads = startIssuers(tallies, tally -> {
            await(ready);
            issuer.issue(tally);
        });
        await(ready);
        Thread.sleep(options.warmupMs);
        long start = System.nanoTime();
        long cpuStart = Machine.cpuNs();
        phase = MEASURING;
        Thread.sleep(options.timeMs);
        phase = STOPPED;
        long wall = System.nanoTime() - start;
        long cpu = Machine.cpuNs() - cpuStart;
        for (Thread thread : threads) {
            thread.join();
        }
        return new Result(Tally.sum(tallies), wall, cpu);
    }

    private static void await(CyclicBarrier barrier) throws InterruptedException {
        try {
            barrier.await();
        } catch (BrokenBarrierException error) {
            throw new IllegalStateException(error);
        }
    }

    private boolean goOn(Tally tally) {
        int now = phase;
        if (now == MEASURING && !tally.measuring) {
            tally.restart();
        }
        return now != STOPPED;
    }

    /** The item of a round trip. */
    private static final class Trip implements Runnable {
        private final Thread issuer = Thread.currentThread();
        private final boolean tells;
        private volatile boolean done;
        private long ran;

        Trip(boolean tells) {
            this.tells = tells;
        }

        @Override
        public void run() {
            ran++;
            if (tells) {
                done = true;
                LockSupport.unpark(issuer);
            }
        }
    }

    private void roundTrip(Tally tally) {
        boolean joins = !options.mode.equals("park");
        Trip trip = new Trip(!joins);
        while (goOn(tally)) {
            boolean timed = tally.queued % ROUND_TRIP_TIMED_EVERY == 0;
            long start = timed ? System.nanoTime() : 0;
            long queued = 0;
            if (joins) {
                Pools.Handle handle = pool.spawn(trip);
                queued = timed ? System.nanoTime() : 0;
                handle.join();
            } else {
                trip.done = false;
                pool.submit(trip);
                queued = timed ? System.nanoTime() : 0;
                while (!trip.done) {
                    LockSupport.park();
                }
            }
            if (timed) {
                tally.latency.add(System.nanoTime() - start);
                tally.enqueue.add(queued - start);
            }
            tally.queued++;
            tally.items++;
        }
        tally.ran = trip.ran;
    }

    /** An item of a window; its end is a bit of its issuer's word. */
    private final class Slot implements Runnable {
        private final Thread issuer = Thread.currentThread();
        private final AtomicLong finished;
        private final long bit;
        private boolean sleeps;
        private long queuedNs;
        private long tookNs;
        private long runs;

        Slot(AtomicLong finished, int index) {
            this.finished = finished;
            this.bit = 1L << index;
        }

        @Override
        public void run() {
            if (sleeps) {
                sleepOneMs();
            }
            Machine.spin(options.spin);
            runs++;
            tookNs = System.nanoTime() - queuedNs;
            if (finished.getAndAccumulate(bit, (a, b) -> a | b) == 0) {
                LockSupport.unpark(issuer);
            }
        }
    }

    private static void sleepOneMs() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static long take(AtomicLong finished) {
        long bits;
        while ((bits = finished.getAndSet(0)) == 0) {
            LockSupport.park();
        }
        return bits;
    }

    private void window(Tally tally) {
        boolean blocks = options.lap.equals("block");
        AtomicLong finished = new AtomicLong();
        Slot[] slots = new Slot[WINDOW];
        for (int index = 0; index < WINDOW; index++) {
            slots[index] = new Slot(finished, index);
        }
        long free = -1L;
        long inFlight = 0;
        while (goOn(tally)) {
            for (; free != 0; free &= free - 1) {
                Slot slot = slots[Long.numberOfTrailingZeros(free)];
                inFlight |= slot.bit;
                slot.sleeps = blocks && tally.queued % 4 == 0;
                tally.queued++;
                slot.queuedNs = System.nanoTime();
                pool.submit(slot);
            }
            free = take(finished);
            inFlight &= ~free;
            for (long bits = free; bits != 0; bits &= bits - 1) {
                Slot slot = slots[Long.numberOfTrailingZeros(bits)];
                (slot.sleeps ? tally.sleeper : tally.latency).add(slot.tookNs);
                if (!slot.sleeps) {
                    tally.told.add(System.nanoTime() - slot.queuedNs);
                }
                tally.items++;
            }
        }
        while (inFlight != 0) {
            inFlight &= ~take(finished);
        }
        for (Slot slot : slots) {
            tally.ran += slot.runs;
        }
    }

    /** Rounds until the time has passed; those that warm up come first. */
    private Result flood() throws Exception {
        CyclicBarrier together = new CyclicBarrier(options.issuers + 1);
        CyclicBarrier apart = new CyclicBarrier(options.issuers + 1);
        int share = Math.max(options.items / options.issuers, 1);
        List<Tally> tallies = new ArrayList<>();
        List<Thread> threads = startIssuers(tallies, tally -> floodRounds(tally, share, together, apart));
        long wall = 0;
        long cpu = 0;
        long warm = 0;
        while (wall < options.timeMs * 1_000_000) {
            if (phase == 0 && warm >= options.warmupMs * 1_000_000) {
                phase = MEASURING;
            }
            boolean measured = phase == MEASURING;
            // Before the issuers begin: this thread may get a CPU only when much of the round is over.
            long start = System.nanoTime();
            long cpuStart = Machine.cpuNs();
            await(together);
            await(apart);
            long took = System.nanoTime() - start;
            if (measured) {
                wall += took;
                cpu += Machine.cpuNs() - cpuStart;
            } else {
                warm += took;
            }
        }
        phase = STOPPED;
        await(together);
        for (Thread thread : threads) {
            thread.join();
        }
        return new Result(Tally.sum(tallies), wall, cpu);
    }

    private void floodRounds(Tally tally, int share, CyclicBarrier together, CyclicBarrier apart) throws Exception {
        Thread issuer = Thread.currentThread();
        AtomicLong left = new AtomicLong();
        Runnable item = () -> {
            if (left.decrementAndGet() == 0) {
                LockSupport.unpark(issuer);
            }
        };
        while (true) {
            await(together);
            if (!goOn(tally)) {
                return;
            }
            left.set(share);
            for (int index = 0; index < share; index++) {
                if (index % FLOOD_TIMED_EVERY == 0) {
                    long start = System.nanoTime();
                    pool.submit(item);
                    tally.enqueue.add(System.nanoTime() - start);
                } else {
                    pool.submit(item);
                }
            }
            while (left.get() > 0) {
                LockSupport.park();
            }
            await(apart);
            tally.items += share;
            tally.queued += share;
            tally.ran += share - left.get();
        }
    }

    /** The item of the idle loop. */
    private static final class Start implements Runnable {
        private long atNs;
        private final AtomicLong runs = new AtomicLong();

        @Override
        public void run() {
            atNs = System.nanoTime();
            runs.incrementAndGet();
        }
    }

    private Result idle() throws Exception {
        long begin = System.nanoTime();
        long cpuBegin = Machine.cpuNs();
        List<Tally> tallies = new ArrayList<>();
        List<Thread> threads = startIssuers(tallies, tally -> {
            Start item = new Start();
            for (int sample = 0; sample < options.samples; sample++) {
                LockSupport.parkNanos(options.periodUs * 1_000L);
                long start = System.nanoTime();
                pool.submit(item);
                tally.queued++;
                while (item.runs.get() != tally.queued) {
                    LockSupport.parkNanos(options.periodUs * 250L);
                }
                tally.items++;
                tally.latency.add(item.atNs - start);
            }
            tally.ran = item.runs.get();
        });
        for (Thread thread : threads) {
            thread.join();
        }
        return new Result(Tally.sum(tallies), System.nanoTime() - begin, Machine.cpuNs() - cpuBegin);
    }
}
