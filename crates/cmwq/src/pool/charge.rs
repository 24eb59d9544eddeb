//! Charging CPU time to the queues whose items use it, as the kernel does: by looking now and then.
#![forbid(unsafe_code)]

use super::{Pool, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::thread;
use std::sync::Arc;

impl Pool {
    /// Charges every worker that runs an item with the CPU time that its thread has used since the last call, to the queue of that item.
    /// A worker that runs none is not charged: what it used since then went to items that are over, or to searching. As the looks do not
    /// come at the items' rhythm this is right on average. Tells whether any runs one.
    ///
    /// The first call only begins the reckoning. What a helper runs for another pool, a rescuer for any, and a thread that waits for it, is not seen.
    pub(crate) fn charge_cpu_time(self: &Arc<Self>) -> bool {
        let workers: Vec<(u32, i32, u64)> = {
            let guard = self.lock();
            let workers = guard.workers.iter();
            workers
                .map(|(id, slot)| {
                    let tid = slot.handle.tid.load(Ordering::Relaxed) as i32;
                    (id, tid, slot.runs)
                })
                .collect()
        };
        // With the lock free: one system call for each.
        let clocks: Vec<(u32, u64, u64)> = workers
            .into_iter()
            .filter(|&(_, tid, _)| tid != 0)
            .filter_map(|(id, tid, runs)| Some((id, runs, thread::cpu_time_ns(tid)?)))
            .collect();
        let mut busy = false;
        let mut guard = self.lock();
        let inner: &mut super::Inner = &mut guard;
        // What was used before the first look was not looked at.
        let first = !std::mem::replace(&mut inner.charged, true);
        for (id, runs, cpu_ns) in clocks {
            let Some(slot) = inner.workers.get_mut(id) else {
                continue;
            };
            let used = cpu_ns.saturating_sub(slot.charged_cpu_ns);
            slot.charged_cpu_ns = cpu_ns;
            if matches!(slot.state, WorkerState::Busy(_)) {
                busy = true;
                // Between its beginning and its end nobody else's item is in `pwq`.
                if !first {
                    inner.pwqs[slot.pwq].stats.cpu_ns += used;
                }
            }
            // Or it has run something meanwhile.
            busy |= slot.runs != runs;
        }
        busy
    }
}
