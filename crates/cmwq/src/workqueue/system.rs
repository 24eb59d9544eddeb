//! The workqueues that all code of the process shares, for work that needs no workqueue of its own,
//! and functions that use them.

use super::builder::WorkqueueBuilder;
use super::parts::attrs::WQ_MAX_ACTIVE;
use super::queue::Workqueue;
use crate::engine::Engine;
use crate::error::Error;
use crate::sys::fork::{self, ProcessLock, ProcessMutex};
use crate::sys::map::HashMap;
use crate::trace::{foreign, warn_once};
use crate::workqueue::parts::kind::Deprecated;
use crate::workqueue::task::join_error::JoinError;
use std::ops::Deref;
use std::sync::Arc;

/// Names the workqueues that every process has, for work that needs no queue of its own.
///
/// They are the kernel's. Each is made at its first [`get`](SystemWorkqueue::get), on the [global
/// engine](Engine::global), and lives as long as the process. None has a rescuer. All code of the
/// process shares them, so waiting for a whole queue waits for the work of others: wait for your
/// own items instead.
///
/// ```
/// use cmwq::raw::SystemWorkqueue;
///
/// let handle = SystemWorkqueue::Dfl.get()?.spawn(|| 6 * 7);
/// assert_eq!(handle.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SystemWorkqueue {
    /// `events`: per-CPU.
    PerCpu,
    /// `events_highpri`: per-CPU, high priority.
    Highpri,
    /// `events_long`: per-CPU, for items that may take long.
    Long,
    /// `events_unbound`: unbound, the default choice. (The kernel's `system_dfl_wq`.)
    Dfl,
    /// `events_dfl_long`: unbound, for items that may take long.
    DflLong,
    /// `events_freezable`: per-CPU, freezable.
    Freezable,
    /// `events_power_efficient`: per-CPU, or unbound on an engine that saves power.
    PowerEfficient,
    /// `events_freezable_pwr_efficient`: freezable and power efficient.
    FreezablePowerEfficient,
    /// `events_bh`: BH.
    Bh,
    /// `events_bh_highpri`: BH, high priority.
    BhHighpri,
    /// `events`: the kernel's deprecated `system_wq`, for code that still names it. It is a queue
    /// of its own, separate from [`PerCpu`](SystemWorkqueue::PerCpu). The first item that is queued
    /// on it causes a warning.
    DeprecatedWq,
    /// `events_unbound`: the kernel's deprecated `system_unbound_wq`. It is a queue of its own as
    /// well, separate from [`Dfl`](SystemWorkqueue::Dfl), and warns in the same way.
    DeprecatedUnboundWq,
}

/// The system workqueues that were made.
struct Queues {
    /// The fork generation of the process that made them.
    born: u32,
    by_name: HashMap<SystemWorkqueue, Arc<Workqueue>>,
}

static QUEUES: ProcessMutex<Option<Queues>> =
    ProcessMutex::new(ProcessLock::SystemQueues, None, || QUEUES.hold());

impl SystemWorkqueue {
    /// All system workqueues except the deprecated ones.
    pub const ALL: [SystemWorkqueue; 10] = [
        SystemWorkqueue::PerCpu,
        SystemWorkqueue::Highpri,
        SystemWorkqueue::Long,
        SystemWorkqueue::Dfl,
        SystemWorkqueue::DflLong,
        SystemWorkqueue::Freezable,
        SystemWorkqueue::PowerEfficient,
        SystemWorkqueue::FreezablePowerEfficient,
        SystemWorkqueue::Bh,
        SystemWorkqueue::BhHighpri,
    ];

    /// The name that tools show.
    ///
    /// ```
    /// assert_eq!(cmwq::raw::SystemWorkqueue::Dfl.name(), "events_unbound");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            SystemWorkqueue::PerCpu | SystemWorkqueue::DeprecatedWq => "events",
            SystemWorkqueue::Highpri => "events_highpri",
            SystemWorkqueue::Long => "events_long",
            SystemWorkqueue::Dfl | SystemWorkqueue::DeprecatedUnboundWq => "events_unbound",
            SystemWorkqueue::DflLong => "events_dfl_long",
            SystemWorkqueue::Freezable => "events_freezable",
            SystemWorkqueue::PowerEfficient => "events_power_efficient",
            SystemWorkqueue::FreezablePowerEfficient => "events_freezable_pwr_efficient",
            SystemWorkqueue::Bh => "events_bh",
            SystemWorkqueue::BhHighpri => "events_bh_highpri",
        }
    }

    fn builder(self) -> WorkqueueBuilder {
        let builder = Workqueue::builder(self.name());
        match self {
            SystemWorkqueue::PerCpu | SystemWorkqueue::Long => builder.per_cpu(),
            SystemWorkqueue::Highpri => builder.per_cpu().highpri(),
            SystemWorkqueue::Dfl | SystemWorkqueue::DflLong => builder.max_active(WQ_MAX_ACTIVE),
            SystemWorkqueue::Freezable => builder.per_cpu().freezable(),
            SystemWorkqueue::PowerEfficient => builder.power_efficient(),
            SystemWorkqueue::FreezablePowerEfficient => builder.power_efficient().freezable(),
            SystemWorkqueue::Bh => builder.bh(),
            SystemWorkqueue::BhHighpri => builder.bh().highpri(),
            SystemWorkqueue::DeprecatedWq => builder.per_cpu().deprecated(Deprecated {
                name: "system_wq",
                instead: "system_percpu_wq",
            }),
            SystemWorkqueue::DeprecatedUnboundWq => {
                builder.max_active(WQ_MAX_ACTIVE).deprecated(Deprecated {
                    name: "system_unbound_wq",
                    instead: "system_dfl_wq",
                })
            }
        }
    }

    /// Whether waiting for the whole queue causes a warning. As in the kernel it does not on BH
    /// queues, whose items are short, nor on the deprecated ones, for which programs have always
    /// waited.
    fn warns_of_flushes(self) -> bool {
        !matches!(
            self,
            SystemWorkqueue::Bh
                | SystemWorkqueue::BhHighpri
                | SystemWorkqueue::DeprecatedWq
                | SystemWorkqueue::DeprecatedUnboundWq
        )
    }

    /// Returns the workqueue, which is made at the first call. A child after `fork` gets one of its
    /// own.
    ///
    /// ```
    /// let queue = cmwq::raw::SystemWorkqueue::Dfl.get()?;
    /// queue.execute(|| println!("somewhere in the process"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`WorkqueueBuilder::build`], at the first call.
    pub fn get(self) -> Result<SystemQueue, Error> {
        // The engine is built before the lock is taken, because that may warn, and the warning
        // handler may call this function.
        Engine::global()?;
        let mut queues = QUEUES.lock();
        let born = fork::generation();
        let queues = match &mut *queues {
            Some(own) if own.born == born => own,
            // The queues belong to the parent of this fork, so they are left as they are.
            inherited => {
                std::mem::forget(inherited.take());
                inherited.insert(Queues {
                    born,
                    by_name: HashMap::default(),
                })
            }
        };
        if let Some(queue) = queues.by_name.get(&self) {
            return Ok(SystemQueue {
                which: self,
                queue: queue.clone(),
            });
        }
        let queue = Arc::new(self.builder().build()?);
        queues.by_name.insert(self, queue.clone());
        Ok(SystemQueue { which: self, queue })
    }
}

/// A workqueue that the whole process shares. It is used as a [`Workqueue`]; only waiting for the
/// whole queue causes a warning.
///
/// ```
/// use cmwq::raw::{SystemQueue, SystemWorkqueue};
///
/// let queue: SystemQueue = SystemWorkqueue::Long.get()?;
/// assert_eq!(queue.spawn(|| 1).join()?, 1); // all that a `Workqueue` can do
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SystemQueue {
    which: SystemWorkqueue,
    queue: Arc<Workqueue>,
}

impl SystemQueue {
    /// Waits for everything that any code has queued on this workqueue. It warns once that this is
    /// risky: an item of other code may wait for the caller.
    ///
    /// ```
    /// let queue = cmwq::raw::SystemWorkqueue::Dfl.get()?;
    /// let own = queue.spawn(|| 6 * 7);
    /// assert_eq!(own.join()?, 42); // better than `queue.flush()`, which waits for others' items as well
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Workqueue::flush`].
    pub fn flush(&self) -> Result<(), crate::error::FlushError> {
        if self.which.warns_of_flushes() {
            warn_once!(
                "workqueue {} is the whole process's: flushing it waits for others' work",
                self.which.name()
            );
        }
        self.queue.flush()
    }
}

impl From<SystemQueue> for Arc<Workqueue> {
    fn from(system: SystemQueue) -> Self {
        system.queue
    }
}

impl Deref for SystemQueue {
    type Target = Workqueue;

    fn deref(&self) -> &Workqueue {
        &self.queue
    }
}

/// Runs `func` on CPU `cpu` and waits for its result. It runs on the per-CPU [system
/// workqueue](SystemWorkqueue::PerCpu); if the CPU may not be used now it runs on another.
///
/// ```
/// assert_eq!(cmwq::raw::run_on_cpu(0, || 6 * 7)??, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::NoSuchCpu`], and those of [`SystemWorkqueue::get`]. A panic of `func` is the inner
/// error.
#[track_caller]
pub fn run_on_cpu<F, T>(cpu: usize, func: F) -> Result<Result<T, JoinError>, Error>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let handle = SystemWorkqueue::PerCpu.get()?.spawn_on(cpu, func)?;
    Ok(handle.join())
}

/// Runs `func` once on every CPU that may be used, with the number of that CPU, and waits for all.
///
/// ```
/// cmwq::raw::run_on_each_cpu(|cpu| println!("on CPU {cpu}"))??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`SystemWorkqueue::get`]. The first panic of `func` is the inner error.
#[track_caller]
pub fn run_on_each_cpu<F>(func: F) -> Result<Result<(), JoinError>, Error>
where
    F: Fn(usize) + Send + Sync + 'static,
{
    let engine = Engine::global()?;
    let queue = SystemWorkqueue::PerCpu.get()?;
    let func = Arc::new(func);
    let handles = engine
        .cpus_now()
        .usable()
        .iter()
        .map(|cpu| {
            let func = func.clone();
            queue.spawn_on(cpu, move || func(cpu))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let mut all = Ok(());
    for handle in handles {
        // What further items have panicked with is dropped one by one, since it may panic in turn.
        match handle.join() {
            Err(another) if all.is_err() => foreign::dispose(another),
            Err(first) => all = Err(first),
            Ok(()) => (),
        }
    }
    Ok(all)
}
