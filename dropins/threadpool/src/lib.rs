//! The interface of the crate `threadpool` 1.8 on a workqueue:
//!
//! ```toml
//! [patch.crates-io]
//! threadpool = { path = "../cmwq/dropins/threadpool" }
//! ```
//!
//! The number of threads becomes `max_active`: how many jobs may have begun and not ended, divided among the NUMA nodes by their CPUs, on
//! each at least 8 if it is as much. With 1 the pool is ordered, and stays so. Jobs that compute share as many workers as the
//! machine has CPUs, whatever that number is. Pools without a name share their workers. There is no `Builder`: stacks are as
//! [`WorkerThreads`] has them.
//!
//! ```
//! use std::sync::mpsc::channel;
//! use threadpool::ThreadPool;
//!
//! let pool = ThreadPool::new(4);
//! let (sender, receiver) = channel();
//! for i in 0..8 {
//!     let sender = sender.clone();
//!     pool.execute(move || sender.send(i).expect("the receiver waits"));
//! }
//! assert_eq!(receiver.iter().take(8).sum::<i32>(), 28);
//! ```

use cmwq::{WorkerThreads, Workqueue};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::{fmt, panic, thread};

struct Shared {
    queue: Workqueue,
    name: Option<String>,
    /// Those that have begun in the upper half, those that wait in the lower.
    jobs: AtomicU64,
    panics: AtomicUsize,
    /// How often there were no jobs any more. Nothing panics under the lock.
    rests: Mutex<usize>,
    at_rest: Condvar,
}

const BEGUN: u64 = 1 << 32;

/// A workqueue as a pool of threads. Clones stand for the same one; dropping the last runs what is left, in the background.
#[derive(Clone)]
pub struct ThreadPool(Arc<Shared>);

impl ThreadPool {
    /// So many jobs at a time. Panics if it is 0, or if no workqueue can be built.
    pub fn new(num_threads: usize) -> ThreadPool {
        ThreadPool::build(None, num_threads)
    }

    /// The same, on threads called `name`.
    pub fn with_name(name: String, num_threads: usize) -> ThreadPool {
        ThreadPool::build(Some(name), num_threads)
    }

    fn build(name: Option<String>, num_threads: usize) -> ThreadPool {
        assert!(num_threads > 0, "a pool needs a thread");
        let mut queue = match Workqueue::builder("threadpool") {
            queue if num_threads == 1 => queue.ordered(),
            queue => queue.max_active(num_threads),
        };
        if let Some(name) = &name {
            queue = queue.worker_threads(WorkerThreads::new().name(&name.replace('%', "%%")));
        }
        ThreadPool(Arc::new(Shared {
            queue: queue.build().expect("a workqueue"),
            name,
            jobs: AtomicU64::new(0),
            panics: AtomicUsize::new(0),
            rests: Mutex::new(0),
            at_rest: Condvar::new(),
        }))
    }

    /// Runs `job`. Panics in a child process after `fork`: the workers are the parent's.
    pub fn execute<F: FnOnce() + Send + 'static>(&self, job: F) {
        let shared = self.0.clone();
        self.0.jobs.fetch_add(1, SeqCst);
        let taken = self.0.queue.execute(move || {
            shared.jobs.fetch_add(BEGUN - 1, SeqCst);
            if panic::catch_unwind(panic::AssertUnwindSafe(job)).is_err() {
                shared.panics.fetch_add(1, SeqCst);
            }
            if shared.jobs.fetch_sub(BEGUN, SeqCst) == BEGUN {
                *shared.rests.lock().unwrap() += 1;
                shared.at_rest.notify_all();
            }
        });
        taken.expect("a job was refused");
    }

    /// Jobs that have not begun.
    pub fn queued_count(&self) -> usize {
        (self.0.jobs.load(SeqCst) % BEGUN) as usize
    }

    /// Jobs that have begun and not ended.
    pub fn active_count(&self) -> usize {
        (self.0.jobs.load(SeqCst) / BEGUN) as usize
    }

    /// How many may be active.
    pub fn max_count(&self) -> usize {
        self.0.queue.max_active()
    }

    /// Jobs that have panicked.
    pub fn panic_count(&self) -> usize {
        self.0.panics.load(SeqCst)
    }

    /// Changes how many may be active. Those that are go on. Panics if it is 0, or if the pool was made with 1.
    pub fn set_num_threads(&mut self, num_threads: usize) {
        assert!(num_threads > 0, "a pool needs a thread");
        let changed = self.0.queue.set_max_active(num_threads);
        changed.expect("an ordered pool stays so");
    }

    /// Waits until there are no jobs, for a moment at least.
    pub fn join(&self) {
        let rests = self.0.rests.lock().unwrap();
        let before = *rests;
        let goes_on = |now: &mut usize| *now == before && self.0.jobs.load(SeqCst) != 0;
        drop(self.0.at_rest.wait_while(rests, goes_on).unwrap());
    }
}

impl Default for ThreadPool {
    fn default() -> Self {
        ThreadPool::new(thread::available_parallelism().map_or(1, Into::into))
    }
}

impl PartialEq for ThreadPool {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ThreadPool {}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("name", &self.0.name)
            .field("queued_count", &self.queued_count())
            .field("active_count", &self.active_count())
            .field("max_count", &self.max_count())
            .finish()
    }
}
