//! Dealing: an issuer whose items are long gives each pod its share of them in turn.
//!
//! The items of a thread go to its own pod. If those that wait there are long, though, CPUs of other
//! pods would have run them by the time that this pod gets to them. So a thread turns to another pod
//!
//! - when it has published a share of items that its pod has not taken from the inbox yet, or
//! - when an item that is published there would wait for so long that it is worth waking a worker of
//!   another pod (the pool has no *room*; the holders of its lock tell).
//!
//! It prefers its own pod, then the nearest ones, and of these pods that have taken everything that
//! was published there. A pod that threads of its own feed takes nothing of others: items would
//! only change places. An item that goes to another pod is published as if it had been queued from
//! a CPU of that pod. So dealing is no protocol of its own, and all that it reads are hints: what it
//! misjudges, idle workers steal.
//!
//! Nothing is dealt where that would break a promise or gain nothing: queues that are ordered,
//! strict or per-CPU, items that were queued from a named CPU or node, and queues whose `max_active`
//! the thread's own pod can use up alone. On such a queue a single thread's items start in the order
//! in which they were queued.
#![forbid(unsafe_code)]

use crate::pool::{Issuer, OtherPod, SHARE, current, dealing};
use crate::sys::clock;
use crate::sys::epoch::EpochPin;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::parts::pwq::Pwq;

impl WqCore {
    /// Returns the pool workqueue for the next item of a thread whose own pod has long items.
    /// `None`: it is `own`, that of the thread's pod.
    #[inline(never)]
    pub(in crate::workqueue) fn deal<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        issuer: Issuer,
        own: &'g Pwq,
    ) -> Option<&'g Pwq> {
        dealing(|dealing| {
            let slots = self.slots.get().expect("set when the queue was made");
            let turn = dealing.turn_of(self.serial);
            let to = turn.and_then(|turn| Some((turn.share, slots.get(turn.cpu)?.load(pin))));
            let share = to.map_or_else(|| own.pool.room().min(SHARE), |(share, _)| share);
            if !dealing.has_got(share) {
                return to.map(|(_, pwq)| pwq);
            }
            if to.is_none() && dealing.goes_on_resting() {
                return None;
            }
            let now_ns = clock::now_ns();
            if current().item == 0 {
                own.pool.feed(now_ns);
            }
            let next = self.next_pod(pin, issuer, own, turn, now_ns);
            dealing.turn_to(next.map(|(cpu, _, share)| OtherPod {
                queue: self.serial,
                cpu,
                share,
            }));
            if next.is_none() && own.pool.room() == 0 && self.none_in_reach(pin, own, now_ns) {
                dealing.rest();
            }
            next.map(|(_, pwq, _)| pwq)
        })
        .flatten()
    }

    /// Chooses the pod that gets the next share: a CPU of it, its pool workqueue, and how many
    /// items. `None`: it is the thread's own.
    fn next_pod<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        issuer: Issuer,
        own: &'g Pwq,
        turn: Option<OtherPod>,
        now_ns: u64,
    ) -> Option<(usize, &'g Pwq, u32)> {
        let has_own = own.pool.room() > 0 && own.pool.has_taken_all();
        if has_own || self.limits.fits_in(own.pool.attrs.cpus.len()) {
            return None;
        }
        let is_far = |pwq: &Pwq| own.pool.is_far_from(&pwq.pool);
        let is_in_reach = |pwq: &Pwq| is_in_reach(own, pwq, now_ns);
        let take_room = |pwq: &Pwq, fits: bool| if fits { pwq.pool.take_room() } else { 0 };
        // First the pods that have taken everything: near ones, then far ones.
        let waits = |pwq: &Pwq| is_in_reach(pwq) && pwq.pool.has_taken_all();
        let near = |pwq: &Pwq| take_room(pwq, waits(pwq) && !is_far(pwq));
        let far = |pwq: &Pwq| take_room(pwq, waits(pwq) && is_far(pwq));
        // Then each that has room, in turn; then each that is not overfull.
        let has_room = |pwq: &Pwq| take_room(pwq, is_in_reach(pwq));
        let is_left = |pwq: &Pwq| match is_in_reach(pwq) && !pwq.pool.is_overfull() {
            true => SHARE,
            false => 0,
        };
        let (here, next) = (issuer.cpu, turn.map_or(issuer.cpu, |turn| turn.cpu));
        self.pod_after(pin, here, near)
            .or_else(|| self.pod_after(pin, here, far))
            .or_else(|| self.pod_after(pin, next, has_room))
            .or_else(|| self.pod_after(pin, next, is_left))
            .filter(|(_, pwq, _)| !std::ptr::eq(*pwq, own))
    }

    /// Whether no other pod takes items of `own`'s threads, full or not.
    fn none_in_reach(&self, pin: &EpochPin<'_>, own: &Pwq, now_ns: u64) -> bool {
        let takes = |pwq: &Pwq| u32::from(!std::ptr::eq(pwq, own) && is_in_reach(own, pwq, now_ns));
        self.pod_after(pin, 0, takes).is_none()
    }

    /// Returns the first pod behind this CPU, in the order of their numbers, that takes any items.
    fn pod_after<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        cpu: usize,
        takes: impl Fn(&Pwq) -> u32,
    ) -> Option<(usize, &'g Pwq, u32)> {
        let slots = self.slots.get().expect("set when the queue was made");
        let mut last: *const Pwq = slots.get(cpu).unwrap_or(&slots[0]).load(pin);
        let behind = (1..slots.len()).map(|step| (cpu + step) % slots.len());
        let mut pods = behind.filter_map(|cpu| {
            let pwq = slots[cpu].load(pin);
            let is_next = !std::ptr::eq(std::mem::replace(&mut last, pwq), pwq);
            is_next.then_some((cpu, pwq))
        });
        pods.find_map(|(cpu, pwq)| match takes(pwq) {
            0 => None,
            share => Some((cpu, pwq, share)),
        })
    }
}

/// Whether a pod takes items of the threads of `own`: it is near enough for their length, and no
/// thread of its own feeds it.
fn is_in_reach(own: &Pwq, pwq: &Pwq, now_ns: u64) -> bool {
    let near_enough = own.pool.deals_far() || !own.pool.is_far_from(&pwq.pool);
    near_enough && !pwq.pool.is_fed(now_ns)
}
