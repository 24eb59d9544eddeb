//! Items in memory of our own.

use super::library::raw::RawWork;
use super::library::types::Queued;
use super::world::Queue;
use std::ptr::NonNull;
use std::sync::Arc;

/// An item in memory of our own. Each accepted instance holds a reference.
#[repr(C)]
pub(super) struct RawCell {
    pub(super) raw: RawWork,
    body: Box<dyn Fn() + Send + Sync>,
}

/// # Safety
/// `item` is the first field of a `RawCell`, and a reference was left for this run.
unsafe extern "C-unwind" fn run_raw(item: NonNull<RawWork>) {
    // SAFETY: by this function's contract.
    let cell = unsafe { Arc::from_raw(item.cast::<RawCell>().as_ptr().cast_const()) };
    (cell.body)();
}

impl RawCell {
    pub(super) fn new(body: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(RawCell {
            raw: RawWork::new(run_raw),
            body: Box::new(body),
        })
    }

    pub(super) fn lend(self: &Arc<Self>) -> NonNull<RawWork> {
        let at = Arc::into_raw(self.clone()).cast_mut().cast();
        NonNull::new(at).expect("an address")
    }

    pub(super) fn unlend(self: &Arc<Self>, lent: bool) -> bool {
        if lent {
            // SAFETY: the instance that held a reference is not going to run.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        }
        lent
    }

    pub(super) fn queue(self: &Arc<Self>, queue: &Queue) -> bool {
        // SAFETY: the reference lent keeps the cell alive until its function has run.
        let queued = unsafe { queue.wq.queue_raw(self.lend()) };
        self.unlend(queued != Queued::Accepted);
        queued == Queued::Accepted
    }

    pub(super) fn queue_on_node(self: &Arc<Self>, queue: &Queue, node: Option<u32>) -> bool {
        // SAFETY: as in `queue`.
        let queued = node.map(|node| unsafe { queue.wq.queue_raw_on_node(node, self.lend()) });
        let accepted = queued.is_some_and(|queued| queued.expect("a node").is_accepted());
        self.unlend(!accepted);
        accepted
    }
}
