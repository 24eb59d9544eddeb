//! Waiting for all of a workqueue's items: flush, drain, destroy.

use crate::engine::epochs;
use crate::error::FlushError;
use crate::pool::{BlockGuard, FrontEnd, RunState};
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use crate::trace::{warn, warn_once};
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::parts::flush::{Notice, says_that_it_takes_long, wake};
use crate::workqueue::parts::pwq::Pwq;
use crate::workqueue::task::own_wait::not_in_waker;
use std::sync::Arc;
use std::time::Duration;

/// How long the drop of a last handle waits before it warns that it waits.
const LONG_DROP: Duration = Duration::from_secs(1);

impl WqCore {
    /// Returns an error if the caller is an item of the queue.
    pub(in crate::workqueue) fn not_in_own_item(&self) -> Result<(), FlushError> {
        if self.waits_here() {
            warn_once!(
                "workqueue {}: one of its own items waits for the whole queue, which would never end",
                self.name
            );
            return Err(FlushError::OwnItem);
        }
        Ok(())
    }

    /// Returns an error if the caller must not wait for the queue.
    pub(in crate::workqueue) fn may_wait(&self) -> Result<(), FlushError> {
        if self.engine.is_inherited() {
            return Err(FlushError::Forked);
        }
        self.not_in_own_item()?;
        not_in_waker()?;
        if self.waits_for_caller() {
            warn_once!(
                "workqueue {}: an item waits for the whole queue, whose items wait for its place in their group, or for its CPU (BH)",
                self.name
            );
            return Err(FlushError::OwnItem);
        }
        self.check_dependency(None);
        Ok(())
    }

    pub(crate) fn flush(&self) -> Result<(), FlushError> {
        self.may_wait()?;
        let _blocked = BlockGuard::enter();
        self.flush.run(|| self.members());
        Ok(())
    }

    /// Waits until the queue is empty. Meanwhile only the queue's own items may queue on it.
    pub(crate) fn drain(&self) -> Result<(), FlushError> {
        self.may_wait()?;
        self.close();
        let _blocked = BlockGuard::enter();
        self.run_dry();
        // Relaxed: whoever knows that the drain has returned sees it.
        self.closed.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Closes the queue: from now on items from outside are dropped. When this returns, all items
    /// from outside that were accepted before have been published.
    pub(in crate::workqueue) fn close(&self) {
        // Relaxed: the new epoch, and locks that are taken next, tell issuers of it.
        self.closed.fetch_add(1, Ordering::Relaxed);
        epochs().synchronize();
        if let Some(room) = &self.room {
            wake(room.refuse_all());
        }
    }

    pub(in crate::workqueue) fn run_dry(&self) {
        self.run_dry_and_say(&mut None);
    }

    fn run_dry_and_say(&self, notice: &mut Option<Notice<'_>>) {
        let mut flushes: u32 = 0;
        loop {
            self.flush.run_and_say(|| self.members(), notice);
            if self.is_at_rest() {
                return;
            }
            self.flushed_once_more(&mut flushes);
        }
    }

    /// Whether nothing is in flight. The queue has to be closed.
    pub(in crate::workqueue) fn is_at_rest(&self) -> bool {
        // This checks twice, because the check looks at one pool after the other. An item may have
        // queued another one from a pool that is not checked yet to a pool that is. The first item
        // has ended in between then, and the second check sees a changed number of completed items.
        let Some(seen) = at_rest(self.members()) else {
            return false;
        };
        let Some(again) = at_rest(self.members()) else {
            return false;
        };
        let is_same =
            |(before, now): (&AtRest, &AtRest)| Arc::ptr_eq(&before.0, &now.0) && before.1 == now.1;
        seen.len() == again.len() && seen.iter().zip(&again).all(is_same)
    }

    /// Counts a flush of a drain after which there was more to do, and warns from time to time.
    pub(in crate::workqueue) fn flushed_once_more(&self, flushes: &mut u32) {
        *flushes = flushes.saturating_add(1);
        if says_that_it_takes_long(*flushes) {
            warn(&format!(
                "workqueue {}: draining takes long, {flushes} flushes so far",
                self.name
            ));
        }
    }

    /// Whether the caller is the first to shut the queue down, and so has to close it.
    pub(in crate::workqueue) fn begin_shutdown(&self) -> bool {
        self.shut.swap(1, Ordering::Relaxed) == 0
    }

    /// Whether the queue was shut down. Dropping it does not wait for its items then.
    pub(in crate::workqueue) fn is_shut_down(&self) -> bool {
        self.shut.load(Ordering::Relaxed) != 0
    }

    /// Returns what has not ended. The pools are looked at one after the other.
    pub(in crate::workqueue) fn still_busy(&self) -> StillBusy {
        let mut busy = StillBusy::default();
        for pwq in self.members() {
            drop(pwq.pool.lock_accepting());
            let (running, in_flight) = pwq.pool.busy_of(pwq.key);
            busy.waiting += in_flight.saturating_sub(running.len());
            busy.running.extend(running);
        }
        busy
    }

    /// Whether the caller is the first to destroy the queue, and so has to do it.
    pub(crate) fn begin_to_end(&self) -> bool {
        self.ending.swap(1, Ordering::Relaxed) == 0
    }

    /// Runs all queued items, then releases the pools.
    pub(crate) fn destroy(self: &Arc<Self>) {
        self.destroy_and_say(&mut None);
    }

    /// Destroys the queue as its last handle is dropped. Nobody may have thought of that as a wait,
    /// and on an executor's thread, for which the items wait, it never ends. So if it lasts, a
    /// warning says so, once in a process.
    pub(in crate::workqueue) fn destroy_in_drop(self: &Arc<Self>) {
        let notice = Notice {
            due_ns: clock::deadline_after(LONG_DROP),
            queue: &self.name,
        };
        // Models and exploration find a lost wake-up by the wait that has no end.
        let is_explored = cfg!(any(cmwq_loom, cmwq_sim));
        self.destroy_and_say(&mut (!is_explored).then_some(notice));
    }

    fn destroy_and_say(self: &Arc<Self>, notice: &mut Option<Notice<'_>>) {
        self.close();
        {
            let _blocked = BlockGuard::enter();
            self.run_dry_and_say(notice);
        }
        let mut control = self.control.lock();
        control.destroyed = true;
        for pwq in std::mem::take(&mut control.current) {
            self.retire(&pwq);
        }
        if let Some(rescuer) = &self.rescuer {
            rescuer.stop();
        }
    }
}

/// The items of a queue that have not ended.
#[derive(Default)]
pub(in crate::workqueue) struct StillBusy {
    pub(in crate::workqueue) running: Vec<RunState>,
    pub(in crate::workqueue) waiting: usize,
}

/// A pool workqueue with nothing in flight, and how many of its items have completed so far
/// (`None`: the pool workqueue is gone).
type AtRest = (Arc<Pwq>, Option<u64>);

/// Returns these pool workqueues, each with the number of its completed items, or `None` if any of
/// them has items in flight. It looks at them one after the other, and not at one instant.
///
/// A pool workqueue that is gone has no such number. It may have run an item between two checks
/// that queued another one elsewhere, so the results of the two checks must differ then.
fn at_rest(members: Vec<Arc<Pwq>>) -> Option<Vec<AtRest>> {
    let at_rest = members.into_iter().map(|pwq| {
        let mut guard = pwq.pool.lock_accepting();
        let completed = guard.completed_of(pwq.key);
        let idle = guard.in_flight(pwq.key) == 0;
        drop(guard);
        idle.then_some((pwq, completed))
    });
    at_rest.collect()
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::at_rest;
    use crate::Engine;
    use crate::types::WorkqueueAttrs;

    #[test]
    fn a_pool_workqueue_that_went_after_its_first_item_does_not_look_as_before() {
        let engine = Engine::builder().build().expect("an engine");
        let queue = engine.workqueue("q").build().expect("a queue");
        let members = queue.core.members();
        let seen = at_rest(members.clone()).expect("nothing was queued");
        assert!(seen.iter().all(|(_, completed)| *completed == Some(0)));
        queue.execute(|| ()).expect("it is taken");
        queue.flush().expect("not from an item");
        let attrs = WorkqueueAttrs {
            nice: 1,
            ..queue.attrs()
        };
        queue.apply_attrs(attrs).expect("legal attributes");
        let again = at_rest(members).expect("they are gone");
        assert!(again.iter().all(|(_, completed)| completed.is_none()));
        assert_eq!(again.len(), seen.len());
    }
}
