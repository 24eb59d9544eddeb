//! Learning how many of a pod's workers sleep without saying so.
//!
//! An item that sleeps in a system call for a millisecond is over before the monitor can tell that it sleeps. If many do, the pod's CPUs
//! idle while items wait: two CPUs and items that compute for 20 us and sleep for 250 us on the average keep 27 workers busy. So the
//! monitor takes samples: at each look at a saturated pod where items wait it asks for the state of a few of the running workers. The
//! share that was found asleep, times the number that runs, is how many may run *beside* as many as there are CPUs. That
//! is its own fixed point (Little's law): with all the sleepers allowed for, as many workers are awake as there are CPUs. Since that is
//! true only on the average, a few more may run.
//!
//! Workers that say that they block do not count as running, but they come back when they like. Where many do there is the same margin, so
//! that one does not go to sleep after its item only because another has come back, and is woken when the next one blocks.
//!
//! A worker counts as asleep only if it is in the same item after its state was read: one that waits for the pool's lock between
//! two items does not. When items only compute, none is found asleep, and the allowance is gone after a few looks.
#![forbid(unsafe_code)]

use crate::pool::state::pool::{Inner, Pool};
use crate::pool::state::worker::{Busy, WorkerHandle, WorkerState};
use std::sync::Arc;

/// Reading a thread's state takes some microseconds: so many at a look.
const SAMPLE: usize = 4;
/// The share is counted in such parts.
const WHOLE: u32 = 1024;
/// A smaller share is chance.
const NOTICED: u32 = WHOLE / 8;

/// What the monitor has learned about one pool.
#[derive(Default)]
pub(in crate::pool) struct Sleepers {
    /// The share of the running workers that sleep, smoothed.
    share: u32,
    /// How many workers are known to be blocked, smoothed; in parts of [`WHOLE`].
    blocked: u32,
    /// Where the next sample begins.
    turn: usize,
}

impl Sleepers {
    fn learn(&mut self, asleep: usize, asked: usize) {
        let now = asleep as u32 * WHOLE / asked as u32;
        self.share = (self.share * 3 + now) / 4;
    }

    /// So many are known to be blocked now. Returns how many are on the average.
    fn learn_blocked(&mut self, now: usize) -> u32 {
        self.blocked = (self.blocked * 7 + now as u32 * WHOLE) / 8;
        self.blocked / WHOLE
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

/// A running worker, and which item it runs.
struct Asked {
    id: u32,
    handle: Arc<WorkerHandle>,
    runs: u64,
}

impl Pool {
    /// Asks a few of the running workers of a saturated pool whether they sleep.
    pub(in crate::pool) fn count_sleepers(self: &Arc<Self>, sleepers: &mut Sleepers) {
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
        let allowed = sleepers.of(guard.running() - guard.counts.guests());
        let blocked = sleepers.learn_blocked(guard.blocked());
        guard.allow_sleepers(allowed, blocked);
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

    /// Workers that have said that they block, or were found to.
    fn blocked(&self) -> usize {
        let workers = self.workers.iter();
        workers
            .filter(|(_, worker)| worker.state == WorkerState::Busy(Busy::Blocked))
            .count()
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::state::transitions::{CROWD, MOST_PER_CPU, margin, target};

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
    fn only_many_that_block_and_come_back_all_the_time_have_a_margin() {
        let mut sleepers = Sleepers::default();
        let mut blocked = 0;
        for _ in 0..100 {
            blocked = sleepers.learn_blocked(22);
        }
        assert!((21..=22).contains(&blocked), "{blocked}");
        assert_eq!(target(2, 0, blocked), 2 + 8);
        assert_eq!(target(2, 0, CROWD - 1), 2);
        assert_eq!(target(2, 0, 0), 2);
        // A crowd for an instant is none.
        assert!(Sleepers::default().learn_blocked(22) < CROWD);
    }

    #[test]
    fn one_that_was_asleep_by_chance_allows_nobody() {
        let mut sleepers = Sleepers::default();
        sleepers.learn(1, 4);
        assert_eq!(sleepers.of(2), 0);
    }
}
