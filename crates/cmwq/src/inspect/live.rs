//! Lists, inspects and changes the queues of an engine without owning them: for tools.

use super::state::QueueState;
use crate::engine::Engine;
use crate::error::Error;
use crate::trace::latency;
use crate::workqueue::{ConcurrencyGroup, GroupState, WorkqueueAttrs, WorkqueueKind, WqCore};
use std::fmt;
use std::sync::Arc;

/// Shows and changes a workqueue that another part of the program owns. It does not keep the queue
/// from being destroyed: reading a destroyed queue gives its last values, and changing it does
/// nothing.
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// let queues = engine.live_queues();
/// let live = queues.iter().find(|live| live.name() == "io").expect("it exists");
/// live.set_attribute("max_active", "16")?;
/// assert_eq!(queue.max_active(), 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LiveQueue {
    pub(super) core: Arc<WqCore>,
}

impl Engine {
    /// The workqueues that exist now, the oldest first. In a fork's child: none.
    pub fn live_queues(&self) -> Vec<LiveQueue> {
        if self.is_inherited() {
            return Vec::new();
        }
        let cores = self.queues().into_iter().filter_map(|queue| {
            let core = queue.as_any().downcast::<WqCore>().ok()?;
            (!core.is_destroyed()).then_some(LiveQueue { core })
        });
        let mut queues: Vec<LiveQueue> = cores.collect();
        queues.sort_by_key(LiveQueue::serial);
        queues
    }

    /// The states of [all queues](Self::live_queues).
    pub fn queue_states(&self) -> Vec<QueueState> {
        let queues = self.live_queues();
        let mut enqueue = latency::collect(&all_serials());
        let states = queues.iter().map(|queue| {
            let serial = queue.serial();
            let own = enqueue.iter().position(|(of, _)| *of == serial);
            let own = own.map(|at| enqueue.swap_remove(at).1);
            queue.core.state(own.unwrap_or_default())
        });
        states.collect()
    }
}

/// The serial numbers of all queues of the process.
fn all_serials() -> Vec<u64> {
    let engines = Engine::all();
    let queues = engines.iter().flat_map(|engine| engine.live_queues());
    queues.map(|queue| queue.serial()).collect()
}

impl LiveQueue {
    /// Unlike the name, unique: no other queue of the process has or had it.
    pub fn serial(&self) -> u64 {
        self.core.serial
    }

    /// How traces name it; another queue may get the same once this one is gone.
    pub fn id(&self) -> usize {
        crate::engine::Queue::id(&*self.core)
    }

    /// The name; other queues may have the same.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The kind.
    pub fn kind(&self) -> WorkqueueKind {
        self.core.kind
    }

    /// As [`Workqueue::attrs`](crate::Workqueue::attrs).
    pub fn attrs(&self) -> WorkqueueAttrs {
        self.core.attrs()
    }

    /// As [`Workqueue::apply_attrs`](crate::Workqueue::apply_attrs), with `change` editing the current attributes. Those that it leaves stay
    /// as they are, also if another thread changes them meanwhile; of two changes of one attribute the last holds.
    ///
    /// # Errors
    /// As [`Workqueue::apply_attrs`](crate::Workqueue::apply_attrs).
    pub fn change_attrs(&self, change: impl FnOnce(&mut WorkqueueAttrs)) -> Result<(), Error> {
        self.core.change(change)
    }

    /// As [`Workqueue::max_active`](crate::Workqueue::max_active).
    pub fn max_active(&self) -> usize {
        self.core.limits_given()[0]
    }

    /// As [`Workqueue::set_max_active`](crate::Workqueue::set_max_active).
    ///
    /// # Errors
    /// As [`Workqueue::set_max_active`](crate::Workqueue::set_max_active).
    pub fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        self.core.set_max_active(max_active)
    }

    /// As [`Workqueue::max_waiting`](crate::Workqueue::max_waiting).
    pub fn max_waiting(&self) -> Option<usize> {
        self.core.room.as_ref().map(|room| room.bound())
    }

    /// As [`Workqueue::set_max_waiting`](crate::Workqueue::set_max_waiting).
    ///
    /// # Errors
    /// As [`Workqueue::set_max_waiting`](crate::Workqueue::set_max_waiting).
    pub fn set_max_waiting(&self, max_waiting: usize) -> Result<(), Error> {
        self.core.set_max_waiting(max_waiting)
    }

    /// The [group](crate::ConcurrencyGroup) whose limit it shares.
    pub fn group(&self) -> Option<GroupState> {
        self.core.limits.group().map(ConcurrencyGroup::state)
    }
}

impl fmt::Debug for LiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveQueue")
            .field("serial", &self.serial())
            .field("name", &self.name())
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}
