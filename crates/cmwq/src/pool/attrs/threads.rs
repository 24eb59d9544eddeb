//! What a program asks of the threads that run its items: hooks at their beginning and end, names,
//! and stack sizes.
#![forbid(unsafe_code)]

use super::params::Params;
use crate::error::Error;
use crate::sys::{stack_size, thread};
use crate::trace::foreign::dispose_elsewhere;
use crate::trace::{Callee, Foreign};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(in crate::pool) type Hook = Foreign<Arc<dyn Fn(&WorkerThread<'_>) + Send + Sync>>;

/// Thread names as in the kernel: of workers, of workers of unbound pools, and of rescuers.
pub(in crate::pool) const NAME: &str = "kworker/%p:%i%h";
pub(in crate::pool) const UNBOUND_NAME: &str = "kworker/%p:%i";
const RESCUER_NAME: &str = "kworker/R-%i";

/// What the threads that run items are like: [hooks](Self::on_start), [names](Self::name),
/// [stacks](Self::stack_size), [signals](Self::block_signals). For all workqueues of an engine
/// ([`EngineBuilder::worker_threads`](crate::types::EngineBuilder::worker_threads)), or for some
/// ([`WorkqueueBuilder::worker_threads`](crate::WorkqueueBuilder::worker_threads)), which then have
/// worker pools of their own.
///
/// A clone stands for the same threads: workqueues that were given clones of one value share pools.
/// A method that changes something makes a new value.
///
/// ```
/// use cmwq::{Engine, WorkerThreads};
///
/// let threads = WorkerThreads::new()
///     .on_start(|worker| println!("{} begins", worker.name()))
///     .on_exit(|worker| println!("{} ends", worker.name()))
///     .name("db-%p:%i")
///     .stack_size(8 << 20);
/// let engine = Engine::builder().worker_threads(threads).build()?;
/// let queue = engine.workqueue("io").build()?;
/// assert_eq!(queue.spawn(|| 6 * 7).join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct WorkerThreads(pub(in crate::pool) Arc<Wishes>);

#[derive(Clone, Default)]
pub(in crate::pool) struct Wishes {
    pub(in crate::pool) start: Option<Hook>,
    pub(in crate::pool) exit: Option<Hook>,
    pub(in crate::pool) name: Option<String>,
    pub(in crate::pool) stack_size: Option<usize>,
    pub(in crate::pool) restore_names: bool,
    pub(in crate::pool) block_signals: bool,
}

impl Drop for Wishes {
    fn drop(&mut self) {
        // The hooks are code of the program, and any thread of the library may be the one that
        // drops them: with the last pool, queue, engine or timer that has them.
        for hook in [self.start.take(), self.exit.take()].into_iter().flatten() {
            dispose_elsewhere(hook);
        }
    }
}

impl WorkerThreads {
    /// Threads with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `hook` on every thread that runs items, once, before its first item: on workers and on
    /// [rescuers](crate::WorkqueueBuilder::mem_reclaim). The thread has its name, its CPUs and its
    /// nice level by then, and the scheduling policy of the process's first thread: if that is a
    /// real-time policy, `SCHED_OTHER`. The hook holds no lock of the library and may use it. But
    /// the pool cannot use the worker until the hook returns, and a hook that waits for an item of
    /// the same pool may wait for itself.
    ///
    /// No other thread runs an item of these workqueues: a thread that waits for an item does not
    /// run it itself then (as with [`workers_only`](crate::WorkqueueBuilder::workers_only)). The
    /// timer thread runs no item, it queues them.
    ///
    /// A panic of the hook is caught, and warned of once; the thread goes on.
    pub fn on_start(mut self, hook: impl Fn(&WorkerThread<'_>) + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.0).start = Some(Foreign::new(Arc::new(hook)));
        self
    }

    /// Calls `hook` on every such thread after its last item. Workers end when they have been idle
    /// for long, and some time after the last workqueue of their pool is gone: destroying a
    /// workqueue does not wait for it. The end of the process calls no hook. Panics are handled as
    /// with [`on_start`](Self::on_start).
    pub fn on_exit(mut self, hook: impl Fn(&WorkerThread<'_>) + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.0).exit = Some(Foreign::new(Arc::new(hook)));
        self
    }

    /// Sets the threads' names. In `format`, `%p` stands for the pool as the kernel writes it (`3`
    /// for a CPU, `b3` for its BH items, `u7` for pool 7, which belongs to no single CPU; `R` for a
    /// rescuer), `%i` for the worker's number in its pool (of a rescuer: its workqueue's name),
    /// `%h` for `H` if the nice level is below 0, and `%%` for `%`. The system keeps 15 bytes. The
    /// default is as in the kernel: `kworker/%p:%i%h`, without `%h` for pools of no single CPU, and
    /// `kworker/R-%i` for rescuers.
    pub fn name(mut self, format: &str) -> Self {
        Arc::make_mut(&mut self.0).name = Some(format.to_owned());
        self
    }

    /// Sets the size of their stacks in bytes; one that is smaller than what the system asks for is
    /// rounded up to that. A size with which no thread can be created is an
    /// [error](Error::StackSize) when the engine or the workqueue is built. The default is Rust's:
    /// the environment variable `RUST_MIN_STACK`, or 2 MiB. (`ulimit -s` means the main thread,
    /// here as with any thread that Rust starts.) With a size set, a thread that waits for an item
    /// does not run it itself, since its own stack may be smaller.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.0).stack_size = Some(bytes);
        self
    }

    /// After each item the thread has its own name again, if the item has changed it. That costs a
    /// system call an item. By default, workers take their names back when they are about to park.
    pub fn restore_names(mut self, each_item: bool) -> Self {
        Arc::make_mut(&mut self.0).restore_names = each_item;
        self
    }

    /// Whether these threads block signals, so that the program's handlers never interrupt an item.
    /// By default they have the signal mask of the thread that built the engine
    /// ([`EngineBuilder::build`](crate::types::EngineBuilder::build); of the [global
    /// engine](crate::Engine::global) the thread that used it first), as it was then, so that a
    /// process that an item starts has an ordinary mask.
    ///
    /// For programs that unblock signals in one thread only, or take them with `sigwait` or a
    /// `signalfd` and begin to block them after the engine was built. What an item starts then
    /// inherits a mask in which nearly everything is blocked
    /// ([`reset_signal_mask`](crate::raw::reset_signal_mask)).
    ///
    /// Never blocked are signals that a thread raises itself: `SIGSEGV`, `SIGBUS`, `SIGFPE`,
    /// `SIGILL`, `SIGTRAP` and `SIGSYS`; and `SIGPROF` and `SIGABRT`, unless the thread that built
    /// the engine blocks them. A thread that waits for an item and runs it itself keeps its own
    /// mask.
    pub fn block_signals(mut self, block: bool) -> Self {
        Arc::make_mut(&mut self.0).block_signals = block;
        self
    }

    /// Checks the format of the names and the size of the stacks.
    ///
    /// # Errors
    /// [`Error::ThreadName`] if the [format of the names](Self::name) has an unknown `%` sequence
    /// or a NUL byte; [`Error::StackSize`] if the system grants no thread such a
    /// [stack](Self::stack_size).
    pub fn check(&self) -> Result<(), Error> {
        if let Some(format) = self.0.name.as_deref()
            && (format.contains('\0') || expand(format, "", "", "").is_none())
        {
            return Err(Error::ThreadName(format.to_owned()));
        }
        match self.0.stack_size {
            Some(bytes) => {
                stack_size::check(bytes).map_err(|most| Error::StackSize { bytes, most })
            }
            None => Ok(()),
        }
    }

    /// Equal for two that exist if they stand for the same threads.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether no other thread may run an item: hooks have not seen it, or its stack may be too small.
    pub(crate) fn run_all(&self) -> bool {
        self.0.start.is_some() || self.0.exit.is_some() || self.0.stack_size.is_some()
    }
}

/// Two are equal if they stand for the same threads.
impl PartialEq for WorkerThreads {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for WorkerThreads {}

impl Hash for WorkerThreads {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl fmt::Debug for WorkerThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerThreads")
            .field("on_start", &self.0.start.is_some())
            .field("on_exit", &self.0.exit.is_some())
            .field("name", &self.0.name)
            .field("stack_size", &self.0.stack_size)
            .field("restore_names", &self.0.restore_names)
            .field("block_signals", &self.0.block_signals)
            .finish()
    }
}

/// A thread that runs items, as its hooks are told.
#[derive(Debug)]
pub struct WorkerThread<'a> {
    pub(in crate::pool) name: &'a str,
    pub(in crate::pool) id: u32,
    pub(in crate::pool) pool: Option<u32>,
    pub(in crate::pool) cpu: Option<usize>,
    pub(in crate::pool) nice: i32,
    pub(in crate::pool) queue: Option<&'a str>,
}

impl WorkerThread<'_> {
    /// The name that it was given; the system keeps 15 bytes.
    pub fn name(&self) -> &str {
        self.name
    }

    /// The worker's number in its pool, as in [`PoolWorker`](crate::observe::PoolWorker); 0 for a
    /// rescuer.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The pool's number; `None` for a rescuer, which belongs to a workqueue.
    pub fn pool(&self) -> Option<u32> {
        self.pool
    }

    /// The CPU that the pool is for, if it is for one.
    pub fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// The nice level that the thread should have.
    pub fn nice(&self) -> i32 {
        self.nice
    }

    /// The workqueue whose rescuer it is; `None` for a worker.
    pub fn rescuer_of(&self) -> Option<&str> {
        self.queue
    }
}

/// The format with its values; `None`: it has an unknown `%` sequence.
fn expand(format: &str, pool: &str, id: &str, high: &str) -> Option<String> {
    let mut name = String::new();
    let mut chars = format.chars();
    while let Some(next) = chars.next() {
        match next {
            '%' => name.push_str(match chars.next()? {
                'p' => pool,
                'i' => id,
                'h' => high,
                '%' => "%",
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    Some(name)
}

/// The name of a thread by its wishes; formats were checked when they were given.
pub(in crate::pool) fn name_by(
    wishes: Option<&WorkerThreads>,
    otherwise: &str,
    pool: &str,
    id: &str,
    nice: i32,
) -> String {
    let format = wishes.and_then(|wishes| wishes.0.name.as_deref());
    let high = if nice < 0 { "H" } else { "" };
    expand(format.unwrap_or(otherwise), pool, id, high).unwrap_or_default()
}

/// Starts a thread that runs items, by its wishes; `params`: those of its pools.
pub(in crate::pool) fn spawn(
    wishes: Option<&WorkerThreads>,
    params: &Arc<Params>,
    name: &str,
    main: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let stack_size = wishes.and_then(|wishes| wishes.0.stack_size);
    let blocks_signals = wishes.is_some_and(|wishes| wishes.0.block_signals);
    let params = params.clone();
    thread::spawn_with_stack(name, stack_size, move || {
        // The thread sets its mask itself, because its creator may be a thread of the library,
        // which must keep its own signals blocked.
        if !blocks_signals {
            params.signals.take();
        }
        drop(params);
        main();
    })
}

/// The hooks around what a thread does. A value of it lives on that thread.
pub(in crate::pool) struct Hooked<'a> {
    wishes: Option<&'a WorkerThreads>,
    about: WorkerThread<'a>,
}

impl<'a> Hooked<'a> {
    /// Calls the hook for the beginning.
    pub(in crate::pool) fn begin(
        wishes: Option<&'a WorkerThreads>,
        about: WorkerThread<'a>,
    ) -> Self {
        let hooked = Hooked { wishes, about };
        hooked.call(Callee::StartHook, |wishes| wishes.start.as_ref());
        hooked
    }

    /// Calls the hook for the end.
    pub(in crate::pool) fn end(self) {
        self.call(Callee::ExitHook, |wishes| wishes.exit.as_ref());
    }

    fn call(&self, which: Callee, hook: impl FnOnce(&Wishes) -> Option<&Hook>) {
        if let Some(hook) = self.wishes.and_then(|wishes| hook(&wishes.0)) {
            hook.call(which, |hook| hook(&self.about));
        }
    }
}

/// The rescuer of a workqueue.
pub(in crate::pool) fn rescuer<'a>(name: &'a str, queue: &'a str, nice: i32) -> WorkerThread<'a> {
    WorkerThread {
        name,
        id: 0,
        pool: None,
        cpu: None,
        nice,
        queue: Some(queue),
    }
}

pub(in crate::pool) fn rescuer_name(
    wishes: Option<&WorkerThreads>,
    queue: &str,
    nice: i32,
) -> String {
    name_by(wishes, RESCUER_NAME, "R", queue, nice)
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_format_names_pool_and_worker() {
        let name = |format| expand(format, "u3", "12", "H");
        assert_eq!(name("%p/%i%h").as_deref(), Some("u3/12H"));
        assert_eq!(name("100%%").as_deref(), Some("100%"));
        assert_eq!(name("plain").as_deref(), Some("plain"));
        for wrong in ["%", "a%", "%d", "%p%x"] {
            assert_eq!(name(wrong), None, "{wrong}");
            let threads = WorkerThreads::new().name(wrong);
            assert!(matches!(threads.check(), Err(Error::ThreadName(name)) if name == wrong));
        }
        assert!(WorkerThreads::new().name("a\0b").check().is_err());
    }

    #[test]
    fn clones_are_the_same_threads_until_one_is_changed() {
        let threads = WorkerThreads::new().name("a%i");
        let same = threads.clone();
        assert_eq!(threads, same);
        assert_ne!(threads, same.stack_size(1 << 20));
        assert_ne!(WorkerThreads::new(), WorkerThreads::new());
    }
}
