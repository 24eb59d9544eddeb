//! The cached route from a thread to a pool workqueue. As long as the same thread queues on the
//! same queue from the same CPU, and no slot was replaced, its items go to the same pool workqueue.
//!
//! A look-up of the route asks whether the queue accepts items, which CPUs there are, what the
//! thread has declared, and which slot belongs to its CPU. That reads four to six cache lines. If
//! the thread has not queued for a while, they are probably not in its cache any more. Unlike the
//! route to a chunk (`pool/submit/publish.rs`) this route ends at state that threads share, so it
//! is used with the epoch pinned.

use super::pwq::Pwq;
use crate::pool::Issuer;
use crate::sys::epoch::{EpochPin, Kept};
#[cfg(not(cmwq_loom))]
use crate::sys::local::thread_local;
use std::cell::Cell;

/// The route that the thread looked up last.
#[derive(Clone, Copy)]
struct PwqRoute {
    /// The serial number of the queue. No other queue has or had the same.
    queue: u64,
    cpu: usize,
    declared: usize,
    pwq: Kept<Pwq>,
}

#[cfg(not(cmwq_loom))]
thread_local! {
    static ROUTE: Cell<Option<PwqRoute>> = const { Cell::new(None) };
}

#[cfg(cmwq_loom)]
loom::thread_local! {
    static ROUTE: Cell<Option<PwqRoute>> = Cell::new(None);
}

/// Returns the cached pool workqueue of the queue with this serial number, if the route is still
/// valid. The queue exists. `epoch` is the epoch that was read with this pin.
#[inline]
pub(crate) fn again<'g>(
    queue: u64,
    issuer: Issuer,
    pin: &'g EpochPin<'_>,
    epoch: usize,
) -> Option<&'g Pwq> {
    let route = ROUTE.try_with(Cell::get).ok()??;
    let same = route.queue == queue && route.cpu == issuer.cpu && route.declared == issuer.declared;
    if !same {
        return None;
    }
    // SAFETY: it was found in a slot of that queue, which exists: the caller has it.
    unsafe { route.pwq.again(pin, epoch) }
}

/// Caches the calling thread's route, which is valid in the epoch `epoch`.
pub(crate) fn note(queue: u64, issuer: Issuer, pwq: &Pwq, epoch: usize) {
    let route = PwqRoute {
        queue,
        cpu: issuer.cpu,
        declared: issuer.declared,
        pwq: Kept::new(pwq, epoch),
    };
    // A thread that is exiting caches nothing.
    let _ = ROUTE.try_with(|kept| kept.set(Some(route)));
}
