//! CPU hogs: how long an item may compute before its worker is one, and room for others beside them.
#![forbid(unsafe_code)]

use crate::pool::attrs::kind::PoolKind;
use crate::pool::state::pool::Pool;
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use std::sync::Arc;

/// Under a limit over all pools, items of an unbound pool are hogs this many times later: more workers than slots only get the process's control
/// group throttled. For the same reason there are then only as many extra slots as hogs,
/// unless no item ends for long.
const LATER_IF_LIMITED: u64 = 10;

impl Pool {
    /// The CPU time, in ns, after which an item of this pool is a hog; `None`: never.
    pub(in crate::pool) fn hog_threshold_ns(&self) -> Option<u64> {
        let threshold = self.attrs.params.cpu_intensive_ns.load(Ordering::Relaxed);
        let slow = self.attrs.kind == PoolKind::Unbound && self.attrs.params.slots.is_limited();
        let threshold = threshold.saturating_mul(if slow { LATER_IF_LIMITED } else { 1 });
        // A BH pool runs one item at a time, whatever its items do.
        (threshold != 0 && !matches!(self.attrs.kind, PoolKind::Bh(_))).then_some(threshold)
    }

    /// Whether the monitor looks for hogs even while nothing waits: those of per-CPU pools are counted and reported.
    pub(in crate::pool) fn counts_all_hogs(&self) -> bool {
        matches!(self.attrs.kind, PoolKind::PerCpu(_)) && self.hog_threshold_ns().is_some()
    }

    /// At a tick of the monitor: `completed` items have ended since the last one.
    pub(in crate::pool) fn make_room_beside_hogs(self: &Arc<Self>, completed: u64) {
        if self.attrs.kind != PoolKind::Unbound {
            return;
        }
        let mut guard = self.lock();
        // If items end often, the worklist moves on anyway, and more workers would only share the CPUs.
        let stuck = completed <= u64::from(guard.running());
        if guard.hogs.workers == 0 || !guard.has_waiting() || !stuck {
            guard.hogs.moves_on();
            return;
        }
        let waiting = u32::try_from(guard.waiting()).unwrap_or(u32::MAX);
        let most = match guard.is_limited() && !guard.hogs.steps_beyond_limit(clock::now_ns()) {
            true => guard.hogs.workers,
            false => guard.running().saturating_add(waiting),
        };
        guard.hogs.grow(most);
        guard.retarget();
    }
}
