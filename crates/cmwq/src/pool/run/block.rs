//! Declared blocking: the calling worker's pool runs another in its place.

use crate::pool::state::hogs::Computing;
use crate::pool::state::member::{self, as_worker};
use crate::pool::state::pool::Pool;
use crate::pool::state::worker::{Busy, WorkerState};
use crate::pool::submit::{producer, spawn_history};
use crate::pool::task::current::is_in_item;
use crate::sys::cpu;
use std::sync::Arc;

/// As long as this value exists, the calling worker counts as blocked, and its pool may run another
/// worker in its place. It has no effect on a thread that is no worker, or inside another such
/// section.
pub(crate) struct BlockGuard {
    stepped_out: Option<(Arc<Pool>, u32)>,
}

impl BlockGuard {
    pub(crate) fn enter() -> Self {
        spawn_history::let_go();
        producer::wait_begins();
        if !is_in_item() {
            return BlockGuard { stepped_out: None };
        }
        let Some((pool, id)) = as_worker(|pool, id| (pool.clone(), id)) else {
            return BlockGuard { stepped_out: None };
        };
        if pool.attrs.is_bh() {
            // An item of a BH pool must not block. If it does, no other worker runs in its place.
            return BlockGuard { stepped_out: None };
        }
        // The item may wait for one of these sleepers.
        pool.pending_wakeups.wake_in_item();
        if let Some(host) = member::host() {
            // Closes the thief's batch: items that it has claimed and not begun go back to the
            // worklist.
            drop(host.lock());
        }
        let mut guard = pool.lock();
        // A thief has no running slot to come back to, so it does not count from here on, not even
        // after the block.
        guard.stop_counting_thief(id);
        // A thief, a worker that the monitor has found asleep, and a CPU-intensive one do not count
        // as running.
        let counted = guard.workers[id].state == WorkerState::Busy(Busy::Running);
        if counted {
            // Taken in now, so that a takeover for an item that was published just before is
            // counted.
            if !guard.has_waiting() {
                guard.accept_some();
            }
            guard.step_out(id, Busy::Blocked);
        }
        drop(guard);
        BlockGuard {
            stepped_out: counted.then_some((pool, id)),
        }
    }
}

impl Drop for BlockGuard {
    fn drop(&mut self) {
        let Some((pool, id)) = self.stepped_out.take() else {
            return;
        };
        let mut guard = pool.lock();
        // The worker has not computed in its wait, whether it slept or polled.
        guard.workers[id].computing = Computing::default();
        // The monitor may have found the worker awake first.
        if guard.workers[id].state == WorkerState::Busy(Busy::Blocked) {
            guard.step_in(id, cpu::current());
        }
        drop(guard);
    }
}

/// Runs `f`, which is about to block in something that cmwq does not know (a read, another
/// library's lock). If the calling thread is a worker, its pool runs another in its place at once,
/// instead of finding out a few milliseconds later. On other threads, and inside another such
/// section, it just calls `f`. cmwq's own waits (join, flush, completions) declare themselves.
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let _stepped_out = BlockGuard::enter();
    f()
}
