//! The cached route from a thread to a pool workqueue: while the same thread queues on the same queue from the same CPU, and nothing was
//! replaced, its items go to the same pool workqueue.
//!
//! A look-up of the route asks whether the queue accepts items, which CPUs there are, what the thread has declared, and which slot is that
//! CPU's: four to six cache lines, which are likely misses for an issuer that was away. Unlike the route to a chunk
//! (`pool/submit/publish.rs`) this route ends at shared state, so it is used with the epoch pinned.

use super::pwq::Pwq;
use crate::pool::Issuer;
use crate::sys::epoch::{EpochPin, Kept};
#[cfg(not(cmwq_loom))]
use crate::sys::local::thread_local;
use std::cell::Cell;

/// The last route that the thread looked up.
#[derive(Clone, Copy)]
struct PwqRoute {
    /// The serial of the queue, which no other queue has or had.
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

/// The cached pool workqueue of the existing queue with this serial, if it is still valid. `epoch`: the epoch read with this pin.
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

/// Caches the calling thread's route, valid in the epoch `epoch`.
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
