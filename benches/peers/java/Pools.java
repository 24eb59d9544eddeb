import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.ThreadPoolExecutor;

/** The peers. */
final class Pools {
    /** A pool that items are queued on. */
    interface Pool extends AutoCloseable {
        void submit(Runnable item);

        /** Queues it and returns a handle to wait on. */
        Handle spawn(Runnable item);

        /** How many threads it has. */
        int threads();

        @Override
        void close();
    }

    /** Waits for an item. */
    interface Handle {
        void join();
    }

    private Pools() {}

    static Pool open(Options options) {
        Pool pool = switch (options.peer) {
            case "java-forkjoin" -> new ForkJoin(options);
            default -> new Fixed(options.workers);
        };
        // Threads that the main thread starts may use all CPUs; those that a pinned issuer starts could not.
        CountDownLatch all = new CountDownLatch(pool.threads());
        for (int worker = 0; worker < pool.threads(); worker++) {
            pool.submit(() -> {
                all.countDown();
                try {
                    all.await();
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            });
        }
        try {
            all.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        return pool;
    }

    /** A fork-join pool of its own; the mode "help" uses the common pool, whose outside waiters help. */
    private static final class ForkJoin implements Pool {
        private final ForkJoinPool pool;
        private final boolean helps;

        ForkJoin(Options options) {
            helps = options.mode.equals("help");
            pool = helps ? ForkJoinPool.commonPool() : new ForkJoinPool(options.workers);
        }

        @Override
        public int threads() {
            return pool.getParallelism();
        }

        @Override
        public void submit(Runnable item) {
            pool.execute(item);
        }

        @Override
        public Handle spawn(Runnable item) {
            ForkJoinTask<?> task = helps ? ForkJoinTask.adapt(item).fork() : pool.submit(item);
            return task::join;
        }

        @Override
        public void close() {
            pool.shutdown();
        }
    }

    private static final class Fixed implements Pool {
        private final ThreadPoolExecutor pool;

        Fixed(int workers) {
            pool = (ThreadPoolExecutor) Executors.newFixedThreadPool(workers);
            pool.prestartAllCoreThreads();
        }

        @Override
        public int threads() {
            return pool.getCorePoolSize();
        }

        @Override
        public void submit(Runnable item) {
            pool.execute(item);
        }

        @Override
        public Handle spawn(Runnable item) {
            java.util.concurrent.Future<?> future = pool.submit(item);
            return () -> {
                try {
                    future.get();
                } catch (InterruptedException | java.util.concurrent.ExecutionException error) {
                    throw new IllegalStateException(error);
                }
            };
        }

        @Override
        public void close() {
            pool.shutdown();
        }
    }
}
