//! What the holders of a pool's lock know of a worker, and what other threads use of it.
#![forbid(unsafe_code)]

use super::hogs::Computing;
use crate::item::Batch;
use crate::pool::task::run::{Interrupted, Open};
use crate::pool::wake::placement::Place;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use crate::sys::park::Parker;
use crate::sys::slice;
use crate::sys::thread::{self, ThreadState};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// What the lock holders know of one worker.
pub(in crate::pool) struct WorkerSlot {
    pub(in crate::pool) handle: Arc<WorkerHandle>,
    pub(in crate::pool) state: WorkerState,
    /// How many items it has started. The monitor tells by this whether it still runs the same
    /// item.
    pub(in crate::pool) runs: u64,
    /// What the monitor sampled last: `runs`, the thread's CPU time, and whether it counted as running.
    pub(in crate::pool) seen_runs: u64,
    pub(in crate::pool) seen_cpu_ns: u64,
    pub(in crate::pool) seen_counted: bool,
    /// How long its item has computed since it last slept, as far as the monitor has seen.
    pub(in crate::pool) computing: Computing,
    /// The pool workqueue of its item.
    pub(in crate::pool) pwq: u32,
    /// Whether it was woken up and has not run an item since.
    pub(in crate::pool) woken: bool,
    /// Where it runs, or has slept.
    pub(in crate::pool) place: Place,
    /// Whether it has slept for lack of work since the monitor last looked.
    has_slept: bool,
    share: CpuShare,
    /// How much of the thread's CPU time is accounted to queues.
    pub(in crate::pool) accounted_cpu_ns: u64,
    pub(in crate::pool) die: bool,
    /// Its open batch, if it has one.
    pub(in crate::pool) batch: Option<Open>,
    /// The item of its batch that it had begun when the batch was closed.
    pub(in crate::pool) interrupted: Option<Interrupted>,
}

/// A worker that computes for less than one part in this many of the time has a short slice.
const SMALL_SHARE: u64 = 4;

/// For how much of the time a worker has computed of late.
#[derive(Default)]
struct CpuShare {
    /// When it slept last; 0: never.
    slept_ns: u64,
    /// The CPU time between its last few sleeps, and the time, each with less weight the longer ago
    /// it was.
    used_ns: u64,
    elapsed_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum WorkerState {
    Starting,
    Idle {
        since_ns: u64,
    },
    Searching,
    Busy(Busy),
    /// A thief from another pool: it runs items here, and counts in none of the pool's numbers.
    Guest,
    /// Steals from another pool. In its own pool it counts as running only under a limit over all
    /// pools, and only until its item blocks or takes long.
    Away {
        counts: bool,
    },
}

/// How a worker that runs an item counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum Busy {
    /// It counts as running.
    Running,
    /// It declared that it blocks, or was found asleep: another worker may run instead.
    Blocked,
    /// It runs a CPU hog, or an item of a CPU-intensive queue: others run beside it until the item ends.
    CpuIntensive,
}

/// What a waker needs of a worker. A thread that is about to wake the worker keeps it alive.
pub(crate) struct WorkerHandle {
    pub(in crate::pool) parker: Parker,
    /// The kernel's thread id, 0 before the worker has started.
    pub(in crate::pool) tid: AtomicU32,
    /// Whether it is inside an item's function. Only the worker writes it. Between items the worker
    /// may sleep while it waits for the pool's lock; that is no sleep of an item.
    pub(in crate::pool) in_item: AtomicBool,
    /// Whether an item has ended its thread: the worker then leaves the pool before it takes
    /// another item. Only the worker uses it.
    pub(in crate::pool) ends: AtomicBool,
    /// Whether it is to have a short slice. Written under the pool's lock.
    pub(in crate::pool) short_slice: AtomicBool,
    /// Its batch. Only the worker writes this line, apart from the thread that closes the batch.
    pub(in crate::pool) batch: CachePadded<Batch>,
}

impl WorkerSlot {
    /// The slot of a worker that has run nothing in this pool yet.
    pub(in crate::pool) fn new(handle: Arc<WorkerHandle>, state: WorkerState) -> Self {
        WorkerSlot {
            handle,
            state,
            runs: 0,
            seen_runs: 0,
            seen_cpu_ns: 0,
            seen_counted: true,
            computing: Computing::default(),
            pwq: 0,
            woken: false,
            place: Place::default(),
            has_slept: false,
            share: CpuShare::default(),
            accounted_cpu_ns: 0,
            die: false,
            batch: None,
            interrupted: None,
        }
    }
}

impl WorkerSlot {
    /// Called when the worker is awake again. It went to sleep at `slept_ns`, after it had computed
    /// for `used_ns` since the sleep before.
    ///
    /// If `is_brief` (workers are usually woken for little), or if the worker computes for a small
    /// share of the time, it gets a short slice. With that it has the CPU as soon as it is woken,
    /// even if another thread computes there.
    ///
    /// The share decides where every CPU has a thread that computes. A worker that waits for that
    /// thread finds several items when it runs at last, so its wake-ups are not brief. By that alone
    /// it would have a long slice, and wait again.
    ///
    /// If the worker slept although items waited (not `lacks_work`), it counts as if it had computed
    /// all the time: it competes with workers of its own pool, which it should not interrupt.
    ///
    /// `true`: the slice [has to be set](WorkerHandle::set_slice).
    pub(in crate::pool) fn note_sleep(
        &mut self,
        slept_ns: u64,
        used_ns: u64,
        is_brief: bool,
        lacks_work: bool,
    ) -> bool {
        self.has_slept = true;
        self.share.note_sleep(slept_ns, used_ns, lacks_work);
        self.handle.wants_slice(is_brief || self.share.is_small())
    }

    /// Called by the monitor: gives a worker that has not slept the system's slice again. With a
    /// short slice, it and an issuer on the same CPU would only switch more often. `true`: the slice
    /// [has to be set](WorkerHandle::set_slice).
    pub(in crate::pool) fn lengthen_slice_unless_slept(&mut self) -> bool {
        !std::mem::take(&mut self.has_slept) && self.handle.wants_slice(false)
    }
}

impl CpuShare {
    /// The worker sleeps again, and has computed for `used_ns` since it slept last. Without
    /// `lacks_work` it counts as if it had computed all the time.
    fn note_sleep(&mut self, now_ns: u64, used_ns: u64, lacks_work: bool) {
        let elapsed_ns = match std::mem::replace(&mut self.slept_ns, now_ns) {
            // Its first sleep: how long it has lived is not known.
            0 => used_ns,
            slept_ns => now_ns.saturating_sub(slept_ns),
        };
        let fade = |sum_ns: u64| sum_ns - sum_ns / 8;
        let used_ns = match lacks_work {
            true => used_ns.min(elapsed_ns),
            false => elapsed_ns,
        };
        self.used_ns = fade(self.used_ns) + used_ns;
        self.elapsed_ns = fade(self.elapsed_ns) + elapsed_ns;
    }

    fn is_small(&self) -> bool {
        self.used_ns * SMALL_SHARE < self.elapsed_ns
    }
}

impl WorkerState {
    pub(in crate::pool) fn is_running(self) -> bool {
        self == WorkerState::Busy(Busy::Running)
    }
}

impl WorkerHandle {
    /// The kernel's thread id, 0 before the worker has started.
    pub(in crate::pool) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed) as i32
    }

    #[inline]
    pub(in crate::pool) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    pub(in crate::pool) fn wake(&self) {
        self.parker.unpark();
    }

    /// Called with the pool's lock held: the worker is to have such a slice. `true`: that is another
    /// one than before.
    fn wants_slice(&self, is_short: bool) -> bool {
        let changes = self.short_slice.load(Ordering::Relaxed) != is_short;
        if changes {
            self.short_slice.store(is_short, Ordering::Relaxed);
        }
        changes
    }

    /// Gives the worker the slice that it is to have. This is a system call, so the lock is free.
    pub(in crate::pool) fn set_slice(&self) {
        loop {
            let is_short = self.short_slice.load(Ordering::Relaxed);
            // Without slices, or the permission to set them, the thread waits longer.
            let _ = slice::set(self.tid(), is_short);
            // Another thread may have wanted another slice meanwhile, and have set it already.
            if self.short_slice.load(Ordering::Relaxed) == is_short {
                return;
            }
        }
    }

    /// Whether it sleeps because it has nothing to do, and no thread has woken it yet.
    pub(in crate::pool) fn is_parked(&self) -> bool {
        self.parker.is_parked()
    }

    /// Whether it is asleep inside the function of an item.
    pub(in crate::pool) fn sleeps_in_item(&self) -> bool {
        self.state_in_item() == ThreadState::Asleep
    }

    /// As [`sleeps_in_item`](Self::sleeps_in_item), but also `true` if the system does not tell.
    /// For a worker whose CPU clock stands still.
    pub(in crate::pool) fn may_sleep_in_item(&self) -> bool {
        self.state_in_item() != ThreadState::Awake
    }

    /// The state that the system reports, if it is inside an item's function; else it counts as awake.
    fn state_in_item(&self) -> ThreadState {
        let in_item = || self.in_item.load(Ordering::Relaxed);
        if !in_item() {
            return ThreadState::Awake;
        }
        let state = thread::state_of(self.tid());
        // Checked again, because the worker may have left the item and gone to sleep in between.
        if in_item() { state } else { ThreadState::Awake }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::state::group::Group;
    use crate::pool::stubs;

    #[test]
    fn a_worker_has_a_short_slice_as_long_as_it_is_woken_for_little() {
        let own = thread::current_tid();
        let Some(default_ns) = slice::of(own).filter(|_| slice::set(own, false).is_ok()) else {
            // Older systems have no slices.
            return;
        };
        let pool = stubs::pool_on(&Group::new(), 907, &[0]);
        let (id, handle) = stubs::searching(&pool);
        handle.tid.store(own as u32, Ordering::Relaxed);
        let slice_ns = || slice::of(own).expect("the system has slices");
        let change = |change: &mut dyn FnMut(&mut WorkerSlot) -> bool| {
            // The lock is free again when the slice is set.
            let changes = change(&mut pool.lock().workers[id]);
            if changes {
                handle.set_slice();
            }
        };
        let mut now_ns = 1_000_000;
        let mut note_sleep = |used_ns, is_brief, lacks_work| {
            now_ns += 1_000_000;
            change(&mut |worker| worker.note_sleep(now_ns, used_ns, is_brief, lacks_work));
        };
        let lengthen = || change(&mut WorkerSlot::lengthen_slice_unless_slept);
        // It computes all the time.
        note_sleep(1_000_000, true, true);
        assert!(slice_ns() < default_ns);
        lengthen();
        assert!(slice_ns() < default_ns, "it has slept since");
        lengthen();
        assert_eq!(slice_ns(), default_ns, "it works all the time");
        note_sleep(1_000_000, true, true);
        note_sleep(1_000_000, false, true);
        assert_eq!(slice_ns(), default_ns, "it was woken for much");
        // A computing thread has kept it waiting: it finds much to do, but has slept for longer.
        (0..20).for_each(|_| note_sleep(200_000, false, true));
        assert!(slice_ns() < default_ns, "it uses a fifth of a CPU");
        // It sleeps in its items as well, and then sleeps because others run for which items wait.
        (0..20).for_each(|_| note_sleep(200_000, false, false));
        assert_eq!(slice_ns(), default_ns, "it competes with its own pool");
        (0..40).for_each(|_| note_sleep(200_000, false, true));
        assert!(slice_ns() < default_ns, "it lacks work again");
        (0..20).for_each(|_| note_sleep(300_000, false, true));
        assert_eq!(slice_ns(), default_ns, "it uses more");
    }

    #[test]
    fn a_share_is_that_of_the_last_sleeps() {
        let mut share = CpuShare::default();
        let mut now_ns = u64::from(u32::MAX);
        let mut sleep = |share: &mut CpuShare, used_ns| {
            now_ns += 100_000;
            share.note_sleep(now_ns, used_ns, true);
            share.is_small()
        };
        assert!((0..9).all(|_| !sleep(&mut share, 90_000)));
        assert!(!sleep(&mut share, 0), "one sleep says little");
        assert!((0..20).any(|_| sleep(&mut share, 10_000)));
        // More CPU time than time has passed: the clocks differ a little.
        assert!((0..20).any(|_| !sleep(&mut share, u64::MAX)));
        let mut first = CpuShare::default();
        first.note_sleep(u64::from(u32::MAX), 10_000, false);
        assert!(!first.is_small(), "nothing but computing is known");
    }
}
