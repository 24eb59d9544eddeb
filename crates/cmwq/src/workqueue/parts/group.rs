//! Concurrency groups: a limit on the active items of several workqueues together.
//!
//! Credits, and the wait for them, work as they do for one workqueue: see `pool/queue/credits.rs`
//! and `limits.rs`. Each workqueue takes its credits from stores, one for each node or CPU. A group
//! adds a [shared limit](SharedLimit) behind the stores of its workqueues, and a ring of those
//! stores that have pool workqueues waiting for the shared limit.
//!
//! **Round robin.** A free credit goes to the store at the front of the ring. That store gives it
//! to its next pool workqueue, and moves to the back of the ring if others wait. So each workqueue
//! gets the same share, however many items it queues.
//!
//! **Two limits.** A store that has reached its own limit leaves the ring: it can use a credit only
//! when one of its own items has ended. The end of such an item brings the store back
//! ([`ConcurrencyGroup::serve`] with the store), since one of its pool workqueues is counted as
//! waiting.
//!
//! **No credit is missed.** A thread that gives a credit back serves the ring afterwards. A pool
//! workqueue that has to wait is entered first, under the lock of the ring. If the shared limit
//! becomes tight by that (stores wait for it), all unused credits of all workqueues are collected,
//! each under the lock of its pool, and the ring is served again. For an item that ends elsewhere
//! there are two cases. If it ends before its pool is visited, the collection finds its credit. If
//! its worker takes the pool's lock after that visit, the worker sees that there is a waiter, gives
//! the credit back and serves the ring.
//!
//! The locks are taken in this order: that of a workqueue; that of the ring; those of a store's
//! waiting list and of a pool; that of the shared limit.
#![forbid(unsafe_code)]

use super::node::{self, Node, Served, is_used_up};
use super::pwq::Pwq;
use crate::error::Error;
use crate::pool::SharedLimit;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU64;
use crate::sys::fork;
use crate::sys::sync::Mutex;
use crate::trace::warn;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

/// Limits how many items of several workqueues may be active at the same time, in addition to each
/// workqueue's own [`max_active`](crate::WorkqueueBuilder::max_active). It is for a program with
/// several kinds of workqueues and one total.
///
/// It counts all active items of its workqueues, on all nodes. So a group of a single workqueue is
/// a total over all NUMA nodes, which `max_active` is not. When the limit is reached, free credits
/// go to the waiting workqueues in turn, one item each. A workqueue below its own limit and the
/// group's pays nothing for its items; a workqueue without a group pays nothing at all.
///
/// Effects of a group on other features:
///
/// - **Order** stays as it is: an [ordered](crate::WorkqueueBuilder::ordered) workqueue has one
///   active item at a time, which needs a credit.
/// - **Freezing**: a frozen workqueue starts nothing and holds only the credits of the items that
///   it still runs.
/// - **Flush and drain** wait as usual, also for items that wait for a credit of the group.
/// - **Rescuers** run items that have a credit. So a
///   [`mem_reclaim`](crate::WorkqueueBuilder::mem_reclaim) workqueue depends on the other
///   workqueues of its group, as if they were one workqueue: its group must not contain a workqueue
///   that may wait for it.
/// - **Items that wait for each other**: an item keeps its credit while it waits. If items that
///   hold all credits wait for items of the same group, none of them ends; the same holds for
///   `max_active` of one workqueue. If all those items run on one thread, as a single one does, the
///   wait is an [error](crate::JoinError::OwnItem).
/// - BH workqueues have no limit, and no group.
///
/// ```
/// use cmwq::{ConcurrencyGroup, Workqueue};
///
/// let total = ConcurrencyGroup::new("io", 4);
/// let fast = Workqueue::builder("fast").group(&total).build()?;
/// let slow = Workqueue::builder("slow").max_active(2).group(&total).build()?;
/// assert_eq!(fast.spawn(|| 1).join()? + slow.spawn(|| 2).join()?, 3);
/// total.set_max_active(8)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cloning gives another handle; the group lives as long as its handles and workqueues.
#[derive(Clone)]
pub struct ConcurrencyGroup(Arc<GroupCore>);

/// The serial of the next group.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

struct GroupCore {
    serial: u64,
    /// The fork generation of the process that made the group.
    born: u32,
    shared: Arc<SharedLimit>,
    /// The stores with pool workqueues that wait for a credit. Each is here once.
    ring: Mutex<VecDeque<Arc<Node>>>,
    queues: Mutex<Vec<Weak<dyn Member>>>,
}

/// A workqueue of a group.
pub(crate) trait Member: Send + Sync {
    /// Returns all pool workqueues of the workqueue that may hold credits.
    fn pwqs(&self) -> Vec<Arc<Pwq>>;
}

/// The largest limit of a group. A larger value is cut to it.
const MOST: usize = 1 << 20;

/// Returns the allowed value that is nearest to `wanted`, and warns if it is another one.
fn within_range(name: &str, wanted: usize) -> i32 {
    let used = wanted.clamp(1, MOST);
    if used != wanted {
        warn(&format!(
            "group {name}: max_active {wanted} is out of range, {used} is used (1 to {MOST})"
        ));
    }
    used as i32
}

impl ConcurrencyGroup {
    /// Makes a group without workqueues. Dumps show it by its `name`. `max_active` is 1 to
    /// 1,048,576; another value is taken for the nearest one of this range, with a warning. (A
    /// group has no default that 0 could mean.)
    ///
    /// ```
    /// use cmwq::{ConcurrencyGroup, Workqueue};
    ///
    /// let disk = ConcurrencyGroup::new("disk", 8);
    /// let reads = Workqueue::builder("reads").group(&disk).build()?;
    /// assert_eq!(reads.spawn(|| "read").join()?, "read");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(name: &str, max_active: usize) -> Self {
        // From here on forks change the generation. There may be no engine yet that asked for it.
        fork::notice();
        ConcurrencyGroup(Arc::new(GroupCore {
            // Relaxed is enough: the numbers only have to be unique.
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            born: fork::generation(),
            shared: SharedLimit::new(name.to_owned(), within_range(name, max_active)),
            ring: Mutex::new(VecDeque::new()),
            queues: Mutex::new(Vec::new()),
        }))
    }

    /// The name that the group was made with.
    ///
    /// ```
    /// assert_eq!(cmwq::ConcurrencyGroup::new("disk", 8).name(), "disk");
    /// ```
    pub fn name(&self) -> &str {
        self.0.shared.name()
    }

    /// How many items of the group may be active at a time.
    ///
    /// ```
    /// assert_eq!(cmwq::ConcurrencyGroup::new("disk", 8).max_active(), 8);
    /// ```
    pub fn max_active(&self) -> usize {
        self.state().max_active
    }

    /// Changes the limit while items are queued and run, within the same range as
    /// [`new`](Self::new). After lowering it, active items go on, and no item becomes active until
    /// enough have ended.
    ///
    /// ```
    /// let disk = cmwq::ConcurrencyGroup::new("disk", 8);
    /// disk.set_max_active(16)?;
    /// assert_eq!(disk.max_active(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Forked`] in a child process: the group is its parent's.
    pub fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        if self.is_inherited() {
            return Err(Error::Forked);
        }
        self.0.shared.change(within_range(self.name(), max_active));
        self.serve(None);
        Ok(())
    }

    /// Says what the group holds and which workqueues wait, at this moment. In the child of a fork:
    /// only what needs no lock.
    ///
    /// ```
    /// println!("{:?}", cmwq::ConcurrencyGroup::new("disk", 8).state());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state(&self) -> GroupState {
        let (limit, held, waiting) = match self.is_inherited() {
            true => (0, 0, 0),
            false => {
                let waiting = self.0.ring.lock().len();
                let (limit, held) = self.0.shared.limit_and_held();
                (limit, held, waiting)
            }
        };
        GroupState {
            serial: self.0.serial,
            name: self.name().to_owned(),
            max_active: usize::try_from(limit).unwrap_or(0),
            held: usize::try_from(held).unwrap_or(0),
            waiting,
        }
    }

    pub(crate) fn is_inherited(&self) -> bool {
        self.0.born != fork::generation()
    }

    pub(crate) fn shared(&self) -> &Arc<SharedLimit> {
        &self.0.shared
    }

    /// Adds `queue` to the group. The group collects the unused credits of the queue when other
    /// queues need them.
    pub(crate) fn join(&self, queue: Weak<dyn Member>) {
        let mut queues = self.0.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(queue);
    }

    /// Returns the queues of the group that still exist.
    fn queues(&self) -> Vec<Arc<dyn Member>> {
        let queues = self.0.queues.lock();
        queues.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether the items that the thread `tid` runs use up the limit of the group.
    pub(super) fn is_used_up_by(&self, tid: i32) -> bool {
        let (limit, _) = self.0.shared.limit_and_held();
        let pwqs: Vec<_> = self
            .queues()
            .iter()
            .flat_map(|queue| queue.pwqs())
            .collect();
        is_used_up(limit, pwqs.iter(), tid)
    }

    /// Gives free credits to the waiters. `entering` is a store that may have begun to wait, or
    /// whose own limit may have freed a credit.
    pub(crate) fn serve(&self, mut entering: Option<&Arc<Node>>) {
        loop {
            let tight_from_now = {
                let mut ring = self.0.ring.lock();
                if let Some(node) = entering.take()
                    && !ring.iter().any(|there| Arc::ptr_eq(there, node))
                {
                    ring.push_back(node.clone());
                }
                if serve_ring(&mut ring) {
                    // The lock of the ring is released in between, because other threads need it.
                    continue;
                }
                self.0.shared.set_tight(!ring.is_empty())
            };
            if !tight_from_now {
                return;
            }
            // From here on a thread that gives a credit back serves the ring. The credits that are
            // held and not used are collected here.
            for queue in self.queues() {
                node::collect(&queue.pwqs());
            }
        }
    }
}

/// How many turns are served before the lock of the ring is released.
const TURNS: usize = 64;

/// Gives one credit to each store in turn, while the shared limit has some. Stores that still wait
/// for the shared limit stay in the ring. `true`: there may be more credits for them.
fn serve_ring(ring: &mut VecDeque<Arc<Node>>) -> bool {
    for _ in 0..TURNS {
        let Some(node) = ring.pop_front() else {
            return false;
        };
        match node.serve_one() {
            Served::OneOfMore => ring.push_back(node),
            Served::TheLast | Served::NobodyWaits | Served::OwnLimit => {}
            Served::SharedLimit => {
                ring.push_front(node);
                return false;
            }
        }
    }
    !ring.is_empty()
}

impl fmt::Debug for ConcurrencyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyGroup")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// The state of a [limit](crate::ConcurrencyGroup) that several queues share: a part of a
/// [`QueueState`](crate::observe::QueueState).
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// let states = engine.queue_states();
/// let state = states.iter().find(|state| state.name == "io").expect("it exists");
/// if let Some(group) = &state.group {
///     println!("{}: {} of {} places are taken", group.name, group.held, group.max_active);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupState {
    /// The serial number of the group. Unlike the name it is unique: no other group of the process
    /// has or had the same.
    pub serial: u64,
    /// The name.
    pub name: String,
    /// How many items of the group may be active at a time.
    pub max_active: usize,
    /// How many credits the queues hold: those of active items, and some that are kept for the next
    /// items while no other queue waits.
    pub held: usize,
    /// How many workqueues wait for a credit. An unbound workqueue counts once for each node on
    /// which it waits.
    pub waiting: usize,
}
