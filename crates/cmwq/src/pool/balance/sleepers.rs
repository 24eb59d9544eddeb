//! Learns how many of a pod's workers sleep without declaring it.
//!
//! An item that sleeps in a system call for a millisecond has ended before the monitor can notice.
//! If many do, the pod's CPUs idle while items wait: on two CPUs, items that compute for 20 us and
//! sleep for 250 us on average keep 27 workers busy. So the monitor takes samples: at each tick of
//! a saturated pod where items wait it reads the state of a few of the running workers. The share
//! that sleeps, times the number that runs, is how many may run *beside* as many as there are CPUs.
//! Repeating this leads to the right number (Little's law): when all sleepers are allowed for, as
//! many workers are awake as there are CPUs. Since that holds only on average, a few more may run.
//!
//! Workers that declare a block do not count as running, but come back at any time. If many do, the
//! same margin applies. Otherwise a worker would park after its item only because another has come
//! back, and would be woken when the next one blocks. A worker that stays blocked for many ticks
//! does not count for this: no worker comes back, so with the margin more workers would run than
//! there are CPUs.
//!
//! A worker counts as asleep only if it is still in the same item after its state was read: a
//! worker that waits for the pool's lock between two items does not. If items only compute, no
//! worker is found asleep, and the allowance falls to zero within a few ticks.
#![forbid(unsafe_code)]

use crate::pool::state::pool::{Inner, Pool};
use crate::pool::state::worker::{Busy, WorkerHandle, WorkerState};
use std::sync::Arc;

/// How many workers are looked at in a tick. Reading a thread's state takes some microseconds.
const SAMPLE: usize = 4;
/// The unit of shares.
const WHOLE: u32 = 1024;
/// A share that is smaller than this counts as chance.
const NOTICED: u32 = WHOLE / 8;

/// What the monitor has learned about one pool.
#[derive(Default)]
pub(in crate::pool) struct Sleepers {
    /// The smoothed share of the running workers that sleep.
    share: u32,
    /// The smoothed number of workers that are known to be blocked and come back within a tick, in
    /// parts of [`WHOLE`].
    blocked: u32,
    /// Where the next sample begins.
    turn: usize,
}

impl Sleepers {
    fn learn(&mut self, asleep: usize, asked: usize) {
        let now = asleep as u32 * WHOLE / asked as u32;
        let smoothed = (self.share * 3 + now) / 4;
        // A single tick is chance, even if all that were asked were asleep.
        self.share = smoothed.min(2 * self.share + NOTICED - 1);
    }

    /// Learns that `blocked` workers are known to be blocked, and that `returned` have come back
    /// since the last tick. Returns the average of those that are blocked and come back within a
    /// tick.
    fn learn_blocked(&mut self, blocked: usize, returned: u32) -> u32 {
        let now = (blocked as u64).min(u64::from(returned)) * u64::from(WHOLE);
        let smoothed = (u64::from(self.blocked) * 7 + now) / 8;
        self.blocked = u32::try_from(smoothed).unwrap_or(u32::MAX);
        self.blocked / WHOLE
    }

    /// How many of `running` workers are asleep by this estimate.
    fn of(&self, running: u32) -> u32 {
        if self.share < NOTICED {
            return 0;
        }
        // Rounded down, the fixed point would be far too low.
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
    /// Samples whether a few of the running workers of a saturated pool sleep.
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
        let allowed = sleepers.of(guard.running());
        let returned = guard.counts.take_returned();
        let blocked = sleepers.learn_blocked(guard.blocked(), returned);
        guard.allow_sleepers(allowed, blocked);
    }
}

impl Inner {
    /// A few running workers from number `turn` on; advances `turn`.
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

    /// Workers that have declared a block, or were found blocked.
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
        // Items sleep for eleven parts of twelve: on two CPUs eleven of twelve workers sleep, but
        // at most 22 at a time, when the CPUs are busy.
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
        // It goes when items only compute.
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
            blocked = sleepers.learn_blocked(22, 60);
        }
        assert!((21..=22).contains(&blocked), "{blocked}");
        assert_eq!(target(2, 0, blocked), 2 + 8);
        assert_eq!(target(2, 0, CROWD - 1), 2);
        assert_eq!(target(2, 0, 0), 2);
        // A crowd for an instant does not count.
        assert!(Sleepers::default().learn_blocked(22, 60) < CROWD);
        // Nor one that stays blocked: with a margin more workers would run than there are CPUs.
        for _ in 0..100 {
            blocked = sleepers.learn_blocked(22, 1);
        }
        assert_eq!(target(2, 0, blocked), 2);
    }

    #[test]
    fn one_that_was_asleep_by_chance_allows_nobody() {
        for asked in [1, 2, 4] {
            let mut sleepers = Sleepers::default();
            sleepers.learn(1, asked);
            assert_eq!(sleepers.of(2), 0, "one of {asked}");
            sleepers.learn(1, asked);
            assert_eq!(sleepers.of(2) > 0, asked < 4, "again");
        }
    }
}
