//! The route from a thread to a pool workqueue, which the thread remembers: as long as the same thread queues on the same queue from the same CPU, and
//! nothing was replaced, its items go where the last one went.
//!
//! To find the way means to ask whether the queue takes anything, which CPUs there are, what the thread has declared, and which slot is that CPU's: four
//! to six lines of memory, each of which an issuer that has been away has to wait for. Unlike the route to a chunk (`pool/submit/publish.rs`) this one ends at what
//! others share, so it is used inside a gate.

use super::pwq::Pwq;
use crate::pool::Issuer;
use crate::sys::gate::{GateGuard, Kept};
#[cfg(not(cmwq_loom))]
use crate::sys::local::thread_local;
use std::cell::Cell;

/// The last one that the thread has found.
#[derive(Clone, Copy)]
struct Route {
    /// The serial of the queue, which no other one has or had.
    queue: u64,
    cpu: usize,
    declared: usize,
    pwq: Kept<Pwq>,
}

#[cfg(not(cmwq_loom))]
thread_local! {
    static ROUTE: Cell<Option<Route>> = const { Cell::new(None) };
}

#[cfg(cmwq_loom)]
loom::thread_local! {
    static ROUTE: Cell<Option<Route>> = Cell::new(None);
}

/// Where the items of the queue of this serial go, which is there, if that is known. `era`: what it is in this gate.
#[inline]
pub(crate) fn again<'g>(
    queue: u64,
    issuer: Issuer,
    gate: &'g GateGuard<'_>,
    era: usize,
) -> Option<&'g Pwq> {
    let route = ROUTE.try_with(Cell::get).ok()??;
    let same = route.queue == queue && route.cpu == issuer.cpu && route.declared == issuer.declared;
    if !same {
        return None;
    }
    // SAFETY: it was found in a slot of that queue, which is there: the caller has it.
    unsafe { route.pwq.again(gate, era) }
}

/// The calling thread has found the way of all that it queues next, in this era.
pub(crate) fn note(queue: u64, issuer: Issuer, pwq: &Pwq, era: usize) {
    let route = Route {
        queue,
        cpu: issuer.cpu,
        declared: issuer.declared,
        pwq: Kept::new(pwq, era),
    };
    // A thread on its way out forgets it.
    let _ = ROUTE.try_with(|kept| kept.set(Some(route)));
}
