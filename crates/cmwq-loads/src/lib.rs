//! The loads that cmwq is judged by: one definition for `cmwq bench`, for the simulator and for
//! `benches/peers`.
//!
//! A [`Load`] is plain data. [`run`] carries it out on a [`Machine`] (threads, a clock, computing,
//! sleeping) and a [`Pool`] (how an item is queued). Both are small traits, so that the same code
//! runs on real threads, on the threads of the simulator's virtual machine, and on every pool that
//! cmwq is compared with.
//!
//! With the feature `real` there is `real`, the machine that the process runs on. The simulator
//! brings its own.
//!
//! A run goes on until two time windows that follow each other agree, or says that it is not
//! steady.
#![forbid(unsafe_code)]

mod arrive;
mod flow;
mod found;
mod gather;
mod histogram;
mod issuer;
mod load;
mod meet;
#[cfg(feature = "real")]
pub mod real;
mod run;
#[cfg(feature = "real")]
pub mod watch;

pub use found::{Found, Latency};
pub use load::{Issuers, Load, Mix, Pause, Place, Rate, Shape};
pub use run::{Span, run};

/// Does the work of the items that a load queues.
///
/// ```
/// use cmwq_loads::{Job, Target};
///
/// struct Greeting;
///
/// impl Target for Greeting {
///     fn run(&self, index: u32) {
///         println!("hello from item {index}");
///     }
/// }
///
/// static GREETING: Greeting = Greeting;
/// Job::new(&GREETING, 7).run(); // as a pool's worker does
/// ```
pub trait Target: Sync {
    /// Runs the item of that number, on a worker.
    fn run(&self, index: u32);
}

/// One item, as it is handed to a pool. Targets live until the process ends, so that every pool may
/// take an item, whatever lifetime it asks for.
///
/// ```
/// use cmwq_loads::{Job, Target};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// struct Sum(AtomicU32);
///
/// impl Target for Sum {
///     fn run(&self, index: u32) {
///         self.0.fetch_add(index, Ordering::Relaxed);
///     }
/// }
///
/// static SUM: Sum = Sum(AtomicU32::new(0));
/// let jobs = [1, 2, 3].map(|index| Job::new(&SUM, index));
/// std::thread::scope(|scope| {
///     for job in jobs {
///         scope.spawn(move || job.run());
///     }
/// });
/// assert_eq!(SUM.0.load(Ordering::Relaxed), 6);
/// ```
#[derive(Clone, Copy)]
pub struct Job {
    /// Who does the work.
    pub target: &'static dyn Target,
    /// The item's number.
    pub index: u32,
}

impl Job {
    /// The item of that number.
    #[must_use]
    pub fn new(target: &'static dyn Target, index: u32) -> Job {
        Job { target, index }
    }

    /// Runs the item.
    pub fn run(self) {
        self.target.run(self.index);
    }
}

/// Queues items: a pool takes part in the comparison by this trait.
///
/// ```
/// use cmwq_loads::{Job, Pool};
///
/// /// Starts a thread for each item.
/// struct ThreadEach;
///
/// impl Pool for ThreadEach {
///     type Item = Job;
///
///     fn item(&self, job: Job) -> Job {
///         job
///     }
///
///     fn submit(&self, item: &Job) {
///         let job = *item;
///         std::thread::spawn(move || job.run());
///     }
/// }
/// ```
pub trait Pool: Send + Sync + 'static {
    /// An item cannot be queued unless somebody waits for it: all rounds go by [`Pool::gather`],
    /// and only they are possible.
    const ONLY_GATHERS: bool = false;
    /// What is queued. Most pools take the job itself; one with reusable items prepares them once.
    type Item: Send + Sync + 'static;
    /// Prepares an item.
    fn item(&self, job: Job) -> Self::Item;
    /// Queues an item that is neither queued nor runs.
    fn submit(&self, item: &Self::Item);
    /// Queues all of these and returns when they have run, by the pool's own means: handles, a
    /// scope, futures. `false`: the pool has none and nothing was queued; the load then counts the
    /// items, and the last one wakes the issuer.
    fn gather(&self, jobs: &[Job]) -> bool {
        let _ = jobs;
        false
    }
}

/// Lets one thread wait until others wake it.
///
/// ```
/// use cmwq_loads::Bell;
/// use std::sync::{Condvar, Mutex};
///
/// struct Flag(Mutex<bool>, Condvar);
///
/// impl Bell for Flag {
///     fn new() -> Flag {
///         Flag(Mutex::new(false), Condvar::new())
///     }
///
///     fn ring(&self) {
///         *self.0.lock().expect("no panic") = true;
///         self.1.notify_one();
///     }
///
///     fn wait(&self) {
///         let rung = self.0.lock().expect("no panic");
///         *self.1.wait_while(rung, |rung| !*rung).expect("no panic") = false;
///     }
/// }
///
/// let bell = Flag::new();
/// bell.ring();
/// bell.wait(); // does not sleep: the bell has rung
/// ```
pub trait Bell: Send + Sync + 'static {
    /// Each ring ends exactly one wait, and nothing else does.
    const COUNTS: bool = false;
    /// A bell that nobody has rung.
    fn new() -> Self;
    /// Called by the thread that waits, before anybody can ring.
    fn adopt(&self) {}
    /// Wakes the thread that waits, or keeps its next wait from sleeping.
    fn ring(&self);
    /// Sleeps until the bell rings. It may return for nothing: the caller looks at what it waits
    /// for, and waits again.
    fn wait(&self);
}

/// Says for what a thread accesses a cache line: see [`Machine::touch`].
///
/// ```
/// use cmwq_loads::{Access, Machine};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Counts, at the cost that the machine has for it.
/// fn count<M: Machine>(machine: &M, counter: &AtomicU64) {
///     machine.touch(std::ptr::from_ref(counter).addr(), Access::Update);
///     counter.fetch_add(1, Ordering::Relaxed);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads and writes in one.
    Update,
}

/// What the process has used since it was started, from [`Machine::usage`].
///
/// ```
/// use cmwq_loads::{Machine, Usage};
///
/// /// The CPU time that `work` takes, on all threads together.
/// fn cpu_ns_of<M: Machine>(machine: &M, work: impl FnOnce()) -> u64 {
///     let before: Usage = machine.usage();
///     work();
///     machine.usage().cpu_ns - before.cpu_ns
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// How often a thread went to sleep: each is woken up again.
    pub sleeps: u64,
    /// How often a thread lost its CPU, asleep or not.
    pub switches: u64,
}

/// Carries out a load: threads, a clock, computing and sleeping, on a real machine or a simulated
/// one.
///
/// ```
/// use cmwq_loads::{Load, Machine, Pool, Span, run};
/// use std::sync::Arc;
///
/// /// How many items `pool` runs in a second, whatever the machine.
/// fn rate<M: Machine, P: Pool>(machine: &M, pool: &Arc<P>) -> Result<f64, String> {
///     let load = Load::named("scatter-64").expect("it is one of them");
///     let found = run(machine, pool, &load, Span::of(1_000_000_000))?;
///     Ok(found.items_per_s)
/// }
/// ```
pub trait Machine: Clone + Send + Sync + 'static {
    /// How a thread waits for an item.
    type Bell: Bell;
    /// CPUs that the load may use.
    fn cpus(&self) -> usize;
    /// The clock.
    fn now_ns(&self) -> u64;
    /// Computes for so long, on a CPU alone.
    fn compute(&self, ns: u64);
    /// Sleeps in a system call for so long.
    fn sleep(&self, ns: u64);
    /// Starts a thread. `cpu`: it stays on this one of the load's CPUs, counted from 0.
    fn start(&self, name: &str, cpu: Option<usize>, main: Box<dyn FnOnce() + Send>);
    /// CPU time of the calling thread.
    fn own_cpu_ns(&self) -> u64;
    /// What all threads have used.
    fn usage(&self) -> Usage;
    /// Threads that there are now.
    fn threads(&self) -> usize;
    /// The caller accesses the cache line at this address: the simulator charges it. A real access
    /// costs by itself.
    fn touch(&self, address: usize, access: Access) {
        let _ = (address, access);
    }
    /// An item begins to run on the calling thread. What this returns is handed to
    /// [`Machine::item_ends`].
    fn item_begins(&self) -> u64 {
        0
    }
    /// The item has run.
    fn item_ends(&self, began: u64) {
        let _ = began;
    }
}

/// A value on cache lines of its own: two, since they are fetched in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Alone<T>(T);

impl<T> Alone<T> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
