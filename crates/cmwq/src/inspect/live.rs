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
    /// Returns the workqueues that exist now, the oldest first. In the child of a fork the list is
    /// empty.
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

    /// Returns the states of [all queues](Self::live_queues).
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

/// Returns the serial numbers of all queues of the process.
fn all_serials() -> Vec<u64> {
    let engines = Engine::all();
    let queues = engines.iter().flat_map(|engine| engine.live_queues());
    queues.map(|queue| queue.serial()).collect()
}

impl LiveQueue {
    /// The serial number of the queue. Unlike the name it is unique: no other queue of the process
    /// has or had the same.
    pub fn serial(&self) -> u64 {
        self.core.serial
    }

    /// The number by which traces name the queue. Another queue may get the same number once this
    /// one is gone.
    pub fn id(&self) -> usize {
        crate::engine::Queue::id(&*self.core)
    }

    /// The name. Other queues may have the same one.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The kind.
    pub fn kind(&self) -> WorkqueueKind {
        self.core.kind
    }

    /// Returns the attributes, as [`Workqueue::attrs`](crate::Workqueue::attrs) does.
    pub fn attrs(&self) -> WorkqueueAttrs {
        self.core.attrs()
    }

    /// Changes the attributes as [`Workqueue::apply_attrs`](crate::Workqueue::apply_attrs) does.
    /// `change` edits the current ones. An attribute that it leaves alone stays as it is, even if
    /// another thread changes it meanwhile. If two threads change the same attribute, the last
    /// change holds.
    ///
    /// # Errors
    /// As [`Workqueue::apply_attrs`](crate::Workqueue::apply_attrs).
    pub fn change_attrs(&self, change: impl FnOnce(&mut WorkqueueAttrs)) -> Result<(), Error> {
        self.core.change(change)
    }

    /// Returns the limit on active items, as
    /// [`Workqueue::max_active`](crate::Workqueue::max_active) does.
    pub fn max_active(&self) -> usize {
        self.core.limits_given()[0]
    }

    /// Changes the limit on active items, as
    /// [`Workqueue::set_max_active`](crate::Workqueue::set_max_active) does.
    ///
    /// # Errors
    /// As [`Workqueue::set_max_active`](crate::Workqueue::set_max_active).
    pub fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        self.core.set_max_active(max_active)
    }

    /// Returns how many items may wait, as
    /// [`Workqueue::max_waiting`](crate::Workqueue::max_waiting) does.
    pub fn max_waiting(&self) -> Option<usize> {
        self.core.room.as_ref().map(|room| room.bound())
    }

    /// Changes how many items may wait, as
    /// [`Workqueue::set_max_waiting`](crate::Workqueue::set_max_waiting) does.
    ///
    /// # Errors
    /// As [`Workqueue::set_max_waiting`](crate::Workqueue::set_max_waiting).
    pub fn set_max_waiting(&self, max_waiting: usize) -> Result<(), Error> {
        self.core.set_max_waiting(max_waiting)
    }

    /// Returns the state of the [group](crate::ConcurrencyGroup) whose limit the queue shares, if
    /// it is in one.
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
