//! What an item that waits for an entry can expect: whether an entry can come before the item
//! itself ends.
#![forbid(unsafe_code)]

use super::queue::CompletionQueueState;
use crate::pool::current_work;
use crate::sys::atomic::{Ordering, fence};
use crate::sys::local::thread_local;
use crate::workqueue::Workqueue;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::task::own_wait::Standing;
use std::cell::Cell;
use std::sync::{Arc, Weak};

thread_local! {
    /// The completion queue for which the thread runs items, by its address, and how many such
    /// items it runs, one inside the other.
    static ITEMS_HERE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// What an item that waits for an entry can expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workqueue) enum Outlook {
    /// An entry may come, or the library does not know what could post one.
    Open,
    /// An entry may come. But nothing wakes the waiter when the last thread that could post is
    /// gone, so it has to check again now and then.
    MayChange,
    /// Only items that end after the caller can still post.
    Never,
}

/// While this value exists, the calling thread runs an item whose result goes to that queue.
pub(in crate::workqueue) struct RunsHere {
    outer: (usize, usize),
}

impl RunsHere {
    pub(in crate::workqueue) fn begin<T>(inner: Option<&Arc<CompletionQueueState<T>>>) -> Self {
        let queue = inner.map_or(0, |inner| Arc::as_ptr(inner).addr());
        let outer = ITEMS_HERE.get();
        let here = if outer.0 == queue { outer.1 + 1 } else { 1 };
        ITEMS_HERE.set((queue, here));
        RunsHere { outer }
    }
}

impl Drop for RunsHere {
    fn drop(&mut self) {
        ITEMS_HERE.set(self.outer);
    }
}

impl<T> CompletionQueueState<T> {
    /// Whether the calling thread runs items whose results go to this queue.
    fn has_items_here(self: &Arc<Self>) -> bool {
        ITEMS_HERE.get().0 == Arc::as_ptr(self).addr()
    }

    /// Returns whether an entry can come while the calling thread waits for it. The caller looks
    /// for an entry after this call.
    pub(in crate::workqueue) fn outlook(self: &Arc<Self>) -> Outlook {
        if current_work().is_none() {
            return Outlook::Open;
        }
        let has_items_here = self.has_items_here();
        let standings = self.standings();
        if !has_items_here && !standings.some_wait_for_caller {
            return Outlook::Open;
        }
        let (is_alone, items) = self.who_can_post();
        let only_here = has_items_here && items == ITEMS_HERE.get().1;
        let only_behind = items > 0 && standings.some_wait_for_caller && !standings.some_go_on;
        match is_alone && (only_here || only_behind) {
            true => Outlook::Never,
            false => Outlook::MayChange,
        }
    }

    /// Returns whether the caller is the only owner and there is no poster, and how many items can
    /// still post. What posters and items that are gone have posted is visible to the caller.
    pub(super) fn who_can_post(self: &Arc<Self>) -> (bool, usize) {
        let one_owner = 1;
        let is_alone = self.handles.load(Ordering::Relaxed) == one_owner
            && self.posters.load(Ordering::Relaxed) == 0;
        let items = Arc::strong_count(self) - one_owner;
        // Posters and items post before they are counted as gone.
        fence(Ordering::Acquire);
        (is_alone, items)
    }

    /// Combines the [`Standing`] of all workqueues to which items were submitted: whether some of
    /// their items wait for an item that the calling thread runs, and whether some go on without
    /// it.
    fn standings(&self) -> Standing {
        let queues: Vec<_> = self
            .queues
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let each = queues.iter().map(|queue| queue.standing());
        each.fold(Standing::default(), |all, one| Standing {
            some_wait_for_caller: all.some_wait_for_caller | one.some_wait_for_caller,
            some_go_on: all.some_go_on | one.some_go_on,
        })
    }

    /// Notes that an item is about to be submitted to this workqueue.
    #[inline]
    pub(in crate::workqueue) fn note_queue(&self, queue: &Workqueue) {
        if self.last_queue.load(Ordering::Relaxed) != queue.core.serial {
            self.note_another_queue(&queue.core);
        }
    }

    #[cold]
    fn note_another_queue(&self, core: &Arc<WqCore>) {
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        let own = Arc::as_ptr(core);
        if !queues.iter().any(|queue| queue.as_ptr() == own) {
            queues.push(Arc::downgrade(core));
        }
        self.last_queue.store(core.serial, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::stubs;
    use crate::{CompletionQueue, Engine};

    fn state() -> Arc<CompletionQueueState<()>> {
        Arc::new(CompletionQueueState::new(None, None))
    }

    /// Otherwise a later item of the thread could be told that it waits for its own entry.
    #[test]
    fn a_thread_runs_the_items_of_a_queue_until_they_end() {
        let (one, other) = (state(), state());
        let outer = RunsHere::begin(Some(&one));
        let inner = RunsHere::begin(Some(&other));
        assert!(other.has_items_here());
        drop(inner);
        assert!(one.has_items_here() && !other.has_items_here());
        drop(outer);
        assert!(!one.has_items_here());
    }

    #[test]
    fn workqueues_that_are_gone_are_forgotten() {
        let engine = Engine::builder().build().expect("an engine");
        let state = state();
        for _ in 0..5 {
            let queue = engine.workqueue("t").build().expect("a queue");
            state.note_queue(&queue);
            let core = Arc::downgrade(&queue.core);
            drop(queue);
            stubs::eventually(|| core.strong_count() == 0);
        }
        assert_eq!(state.queues.lock().len(), 1, "the last one only");
    }

    #[test]
    fn each_workqueue_is_noted_once_however_often_items_go_to_another() {
        let engine = Engine::builder().build().unwrap();
        let queues = ["one", "two"].map(|name| engine.workqueue(name).build().unwrap());
        let done = CompletionQueue::new();
        for round in 0..10 {
            for queue in &queues {
                done.submit(queue, round, || ()).unwrap();
            }
        }
        assert_eq!(done.inner.queues.lock().len(), queues.len());
    }
}
