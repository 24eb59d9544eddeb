//! Learning how many of a pod's workers sleep without saying so.
//!
//! An item that sleeps in a system call for a millisecond is over before the monitor can tell that it sleeps. If many do, the pod's CPUs
//! idle while items wait: two CPUs and items that compute for 20 us and sleep for 250 us on the average keep 27 workers busy. So the
//! monitor takes samples: at each look at a saturated pod where items wait it asks for the state of a few of the running workers. The
//! share that was found asleep, times the number that runs, is how many may run *beside* as many as there are CPUs. That
//! is its own fixed point (Little's law): with all the sleepers allowed for, as many workers are awake as there are CPUs. Since that is
//! true only on the average, a few more may run.
//!
//! A worker counts as asleep only if it is in the same item after its state was read: one that waits for the pool's lock between
//! two items does not. When items only compute, none is found asleep, and the allowance is gone after a few looks.
#![forbid(unsafe_code)]

use super::{Busy, Inner, Pool, WorkerHandle, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::thread;
use std::sync::Arc;

/// Reading a thread's state takes some microseconds: so many at a look.
const SAMPLE: usize = 4;
/// How many sleepers are allowed for each CPU of a pod.
const MOST_PER_CPU: u32 = 32;
/// The share is counted in such parts.
const WHOLE: u32 = 1024;
/// A smaller share is chance.
const NOTICED: u32 = WHOLE / 8;

/// What the monitor has learned about one pool.
#[derive(Default)]
pub(super) struct Sleepers {
    /// The share of the running workers that sleep, smoothed.
    share: u32,
    /// Where the next sample begins.
    turn: usize,
}

impl Sleepers {
    fn learn(&mut self, asleep: usize, asked: usize) {
        let now = asleep as u32 * WHOLE / asked as u32;
        self.share = (self.share * 3 + now) / 4;
    }

    /// How many of `running` workers sleep.
    fn of(&self, running: u32) -> u32 {
        if self.share < NOTICED {
            return 0;
        }
        // Rounded down, the fixed point would be far below.
        (running * self.share).div_ceil(WHOLE)
    }
}

/// How many more run than sleep on the average. How many sleep at an instant varies about that by its root (they are independent of each
/// other), and one too few leaves a CPU idle while items wait; one too many waits for a CPU. Two standard deviations.
fn margin(sleepers: u32) -> u32 {
    2 * sleepers.isqrt()
}

/// A running worker, and which item it runs.
struct Asked {
    id: u32,
    handle: Arc<WorkerHandle>,
    runs: u64,
}

impl WorkerHandle {
    /// Whether it sleeps, inside the function of an item.
    pub(super) fn sleeps_in_item(&self) -> bool {
        let in_item = || self.in_item.load(Ordering::Relaxed);
        // Again afterwards: it may have come out, and gone to sleep, in between.
        in_item() && thread::is_asleep(self.tid.load(Ordering::Relaxed) as i32) && in_item()
    }
}

impl Pool {
    /// Asks a few of the running workers of a saturated pool whether they sleep.
    pub(super) fn count_sleepers(self: &Arc<Self>, sleepers: &mut Sleepers) {
        let asked = self.lock().some_running(&mut sleepers.turn);
        if asked.is_empty() {
            return;
        }
        let number = asked.len();
        let mut asleep = asked;
        asleep.retain(|worker| worker.handle.sleeps_in_item());
        let mut guard = self.lock();
        let still = asleep.iter().filter(|asked| {
            let worker = guard.workers.get_mut(asked.id);
            worker.is_some_and(|worker| worker.runs == asked.runs && worker.state.is_running())
        });
        sleepers.learn(still.count(), number);
        let allowed = sleepers.of(guard.running - guard.lent.places());
        guard.allow_sleepers(allowed);
    }
}

impl WorkerState {
    fn is_running(self) -> bool {
        self == WorkerState::Busy(Busy::Running)
    }
}

impl Inner {
    /// Running workers from number `turn` on, which is moved on.
    fn some_running(&self, turn: &mut usize) -> Vec<Asked> {
        let running = || {
            let workers = self.workers.iter();
            workers.filter(|(_, worker)| worker.state.is_running())
        };
        let from = *turn % running().count().max(1);
        *turn = from + SAMPLE;
        let some = running().skip(from).chain(running().take(from));
        let asked = some.map(|(id, worker)| Asked {
            id,
            handle: worker.handle.clone(),
            runs: worker.runs,
        });
        asked.take(SAMPLE).collect()
    }

    /// So many of the running workers sleep: as many more may run.
    pub(super) fn allow_sleepers(&mut self, sleepers: u32) {
        self.sleepers = sleepers.min(self.cpus * MOST_PER_CPU);
        self.target = self.cpus + self.sleepers + margin(self.sleepers);
    }

    /// The pool is not saturated, or nothing waits: the allowance is given up bit by bit.
    pub(super) fn forget_sleepers(&mut self) {
        self.allow_sleepers(self.sleepers - self.sleepers.div_ceil(16));
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_settles_where_as_many_are_awake_as_there_are_cpus() {
        // Items sleep for eleven parts of twelve: of workers on two CPUs eleven of twelve sleep, but no more than 22 at a time,
        // which is when the CPUs are busy.
        let (cpus, mut running, mut sleepers) = (2_u32, 2_u32, Sleepers::default());
        for _ in 0..100 {
            match running {
                ..24 => sleepers.learn(11, 12),
                _ => sleepers.learn(22, running as usize),
            }
            let allowed = sleepers.of(running).min(cpus * MOST_PER_CPU);
            running = cpus + allowed + margin(allowed);
        }
        assert!((28..=36).contains(&running), "{running}");
        // And goes when they only compute.
        for _ in 0..40 {
            sleepers.learn(0, 4);
            let allowed = sleepers.of(running);
            running = cpus + allowed + margin(allowed);
        }
        assert_eq!(running, cpus);
    }

    #[test]
    fn one_that_was_asleep_by_chance_allows_nobody() {
        let mut sleepers = Sleepers::default();
        sleepers.learn(1, 4);
        assert_eq!(sleepers.of(2), 0);
    }
}
