//! How many workers run, search, are idle, and may run: see `PROTOCOL.md`.
//!
//! Only [`Counts`] changes these numbers. Each change is a transition of a worker, named by both of
//! its ends. It changes the worker's state with the counts, and asserts the state that the worker
//! comes from. The pool's lock is held.
//!
//! ```text
//! starting ──> searching <──> busy: running <──> blocked, or CPU intensive
//!              ^       ^
//!              v       v
//!            idle     away
//! ```
#![forbid(unsafe_code)]

use super::worker::{Busy, WorkerSlot, WorkerState};
use crate::pool::task::slab::SmallestFirst;

/// The counts of one pool.
pub(in crate::pool) struct Counts {
    /// How many threads run an item and are not known to be blocked: workers, and joiners (threads
    /// that run the item for which they wait).
    running: u32,
    /// The joiners that count in `running`.
    joiners: Vec<Joiner>,
    next_joiner: u64,
    /// Whether `running` includes an [expected joiner](Self::expect_joiner).
    expects_joiner: bool,
    /// Whether a joiner has begun an item since [`take_joined`](Self::take_joined).
    joined: bool,
    /// Workers that steal from other pools and do not count as running.
    away: u32,
    /// How many blocked workers have come back since the monitor last [asked](Self::take_returned).
    returned: u32,
    /// Workers that are awake, or were picked to be woken, and look for work before they park.
    searching: u32,
    /// Ids of idle workers, the most recently idle last.
    idle: Vec<u32>,
    /// How many workers may run at the same time: one for each CPU, those that sleep, a margin
    /// where many come and go, and what CPU hogs add.
    target: u32,
}

/// What other modules read.
impl Counts {
    /// The counts of a pool without workers.
    pub(in crate::pool) fn new(target: u32) -> Self {
        Counts {
            running: 0,
            joiners: Vec::new(),
            next_joiner: 0,
            expects_joiner: false,
            joined: false,
            away: 0,
            returned: 0,
            searching: 0,
            idle: Vec::new(),
            target,
        }
    }

    #[inline]
    pub(in crate::pool) fn running(&self) -> u32 {
        self.running
    }

    pub(in crate::pool) fn away(&self) -> u32 {
        self.away
    }

    #[inline]
    pub(in crate::pool) fn searching(&self) -> u32 {
        self.searching
    }

    #[inline]
    pub(in crate::pool) fn target(&self) -> u32 {
        self.target
    }

    #[inline]
    pub(in crate::pool) fn idle(&self) -> &[u32] {
        &self.idle
    }

    /// How many threads that are no workers count as running.
    #[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
    pub(in crate::pool) fn joiners(&self) -> u32 {
        self.joiners.len() as u32 + u32::from(self.expects_joiner)
    }

    #[inline]
    pub(in crate::pool) fn expects_joiner(&self) -> bool {
        self.expects_joiner
    }

    /// Whether a joiner counts that takes the items in the order in which workers take them.
    #[inline]
    pub(in crate::pool) fn has_joiner_in_order(&self) -> bool {
        self.joiners.iter().any(|joiner| joiner.in_order)
    }

    pub(in crate::pool) fn set_target(&mut self, target: u32) {
        self.target = target;
    }
}

/// A thread that is no worker, waits for an item and runs it, and counts as running.
struct Joiner {
    serial: u64,
    /// It joins the oldest item first, as workers take the oldest first. A scope joins the newest.
    in_order: bool,
    /// Whether it has begun an item since the monitor's last tick.
    moves: bool,
}

/// The transitions of joiners.
impl Counts {
    /// A joiner begins an item, and counts as running until it [leaves](Self::leave_joiner) with
    /// the number that this returns, or until the monitor finds it [in the same
    /// item](Self::lapse_joiners) for too long.
    pub(in crate::pool) fn enter_joiner(&mut self, in_order: bool) -> u64 {
        self.stop_expecting_joiner();
        self.joined = true;
        let serial = self.next_joiner;
        self.next_joiner += 1;
        self.joiners.push(Joiner {
            serial,
            in_order,
            moves: true,
        });
        self.running += 1;
        serial
    }

    /// The joiner of this number begins another item.
    pub(in crate::pool) fn move_joiner(&mut self, serial: u64) {
        self.joined = true;
        if let Some(joiner) = self.joiners.iter_mut().find(|one| one.serial == serial) {
            joiner.moves = true;
        }
    }

    pub(in crate::pool) fn leave_joiner(&mut self, serial: u64) {
        self.drop_joiners(|joiner| joiner.serial == serial);
    }

    /// Called at each tick of the monitor: a joiner that is still in the same item as at the last
    /// tick does not count from now on, because its item blocks or takes long.
    pub(in crate::pool) fn lapse_joiners(&mut self) {
        self.stop_expecting_joiner();
        self.drop_joiners(|joiner| !std::mem::take(&mut joiner.moves));
    }

    /// A thread that is about to run items for which it waits counts as running from now on, as a
    /// joiner does: until a joiner begins an item, a worker ends one or blocks, a thread waits for
    /// an item that it cannot run, or the monitor ticks.
    pub(in crate::pool) fn expect_joiner(&mut self) {
        if !std::mem::replace(&mut self.expects_joiner, true) {
            self.running += 1;
        }
    }

    #[inline]
    pub(in crate::pool) fn stop_expecting_joiner(&mut self) {
        if std::mem::take(&mut self.expects_joiner) {
            self.running -= 1;
        }
    }

    /// Whether a joiner has begun an item since the last call.
    pub(in crate::pool) fn take_joined(&mut self) -> bool {
        std::mem::take(&mut self.joined)
    }

    fn drop_joiners(&mut self, mut drops: impl FnMut(&mut Joiner) -> bool) {
        let before = self.joiners.len();
        self.joiners.retain_mut(|joiner| !drops(joiner));
        self.running -= (before - self.joiners.len()) as u32;
    }
}

/// The transitions of workers.
impl Counts {
    /// A new worker begins to look for work.
    pub(in crate::pool) fn transition_starting_to_searching(&mut self, worker: &mut WorkerSlot) {
        debug_assert_eq!(worker.state, WorkerState::Starting);
        worker.state = WorkerState::Searching;
        self.searching += 1;
    }

    /// The waker claims the worker at this index of the idle list: no other thread will pick or
    /// cull it. Returns its id.
    pub(in crate::pool) fn transition_idle_to_searching(
        &mut self,
        chosen: usize,
        workers: &mut SmallestFirst<WorkerSlot>,
    ) -> u32 {
        let id = self.idle.remove(chosen);
        self.searching += 1;
        let worker = &mut workers[id];
        debug_assert!(
            matches!(worker.state, WorkerState::Idle { .. }),
            "a worker was picked twice"
        );
        worker.state = WorkerState::Searching;
        id
    }

    /// The worker has found nothing, and is about to park.
    pub(in crate::pool) fn transition_searching_to_idle(
        &mut self,
        id: u32,
        worker: &mut WorkerSlot,
        since_ns: u64,
    ) {
        self.leave_search(worker, WorkerState::Idle { since_ns });
        self.idle.push(id);
    }

    /// The worker leaves the pool.
    pub(in crate::pool) fn transition_searching_to_gone(&mut self, mut worker: WorkerSlot) {
        self.leave_search(&mut worker, WorkerState::Starting);
    }

    /// The worker begins an item, and counts as running.
    #[inline]
    pub(in crate::pool) fn transition_searching_to_running(&mut self, worker: &mut WorkerSlot) {
        self.leave_search(worker, WorkerState::Busy(Busy::Running));
        self.running += 1;
    }

    /// The worker begins an item that is known to be a CPU hog.
    pub(in crate::pool) fn transition_searching_to_cpu_intensive(
        &mut self,
        worker: &mut WorkerSlot,
    ) {
        self.leave_search(worker, WorkerState::Busy(Busy::CpuIntensive));
    }

    /// The worker goes to steal from another pool. `counts`: it uses a running slot of its own pool
    /// meanwhile.
    pub(in crate::pool) fn transition_searching_to_away(
        &mut self,
        worker: &mut WorkerSlot,
        counts: bool,
    ) {
        self.leave_search(worker, WorkerState::Away { counts });
        match counts {
            true => self.running += 1,
            false => self.away += 1,
        }
        worker.runs += 1;
    }

    /// A thief does not count here from now on, because its item blocks or has lasted for two
    /// samples of the monitor. If it went on counting, items here would wait for an item of the
    /// other pool, which in turn might wait for one of them.
    pub(in crate::pool) fn transition_away_to_uncounted(&mut self, worker: &mut WorkerSlot) {
        if worker.state == (WorkerState::Away { counts: true }) {
            worker.state = WorkerState::Away { counts: false };
            self.running -= 1;
            self.away += 1;
        }
    }

    /// The thief has come back.
    pub(in crate::pool) fn transition_away_to_searching(&mut self, worker: &mut WorkerSlot) {
        self.transition_away_to_uncounted(worker);
        debug_assert_eq!(worker.state, WorkerState::Away { counts: false });
        worker.state = WorkerState::Searching;
        self.away -= 1;
        self.searching += 1;
    }

    /// How many workers have come back from a block since the last call.
    pub(in crate::pool) fn take_returned(&mut self) -> u32 {
        std::mem::take(&mut self.returned)
    }

    /// A worker has come back from a block: its item goes on, or has ended.
    pub(in crate::pool) fn note_return(&mut self) {
        self.returned = self.returned.saturating_add(1);
    }

    /// The worker's item has ended. Returns its state before.
    #[inline]
    pub(in crate::pool) fn transition_busy_to_searching(
        &mut self,
        worker: &mut WorkerSlot,
    ) -> WorkerState {
        let before = std::mem::replace(&mut worker.state, WorkerState::Searching);
        debug_assert!(matches!(before, WorkerState::Busy(_)), "{before:?}");
        self.running -= u32::from(before == WorkerState::Busy(Busy::Running));
        self.searching += 1;
        before
    }

    /// The worker's item goes on, but does not count any more.
    pub(in crate::pool) fn transition_running_to(
        &mut self,
        worker: &mut WorkerSlot,
        from_now: Busy,
    ) {
        debug_assert_eq!(worker.state, WorkerState::Busy(Busy::Running));
        debug_assert_ne!(from_now, Busy::Running, "it would still count");
        worker.state = WorkerState::Busy(from_now);
        self.running -= 1;
    }

    /// The worker goes on with its item. More workers than the target may run then; the next one
    /// that ends an item parks (the kernel's "keep going" rule).
    pub(in crate::pool) fn transition_blocked_to_running(&mut self, worker: &mut WorkerSlot) {
        debug_assert_eq!(worker.state, WorkerState::Busy(Busy::Blocked));
        worker.state = WorkerState::Busy(Busy::Running);
        self.running += 1;
    }

    #[inline]
    fn leave_search(&mut self, worker: &mut WorkerSlot, to: WorkerState) {
        debug_assert_eq!(worker.state, WorkerState::Searching);
        debug_assert!(self.searching > 0, "a searching worker counts");
        self.searching -= 1;
        worker.state = to;
    }
}

/// What tests set up without workers.
#[cfg(all(test, not(cmwq_loom)))]
impl Counts {
    pub(in crate::pool) fn set_running(&mut self, running: u32) {
        self.running = running;
    }

    pub(in crate::pool) fn set_searching(&mut self, searching: u32) {
        self.searching = searching;
    }

    pub(in crate::pool) fn set_idle(&mut self, id: u32, worker: &mut WorkerSlot, since_ns: u64) {
        worker.state = WorkerState::Idle { since_ns };
        self.idle.push(id);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_joiner_counts_until_it_leaves_or_stays_in_one_item_for_two_ticks() {
        let mut counts = Counts::new(2);
        let [moves, stays] = [(); 2].map(|()| counts.enter_joiner(false));
        assert_eq!(counts.running(), 2);
        counts.lapse_joiners();
        assert_eq!(counts.running(), 2, "both have begun since the last tick");
        counts.move_joiner(moves);
        counts.lapse_joiners();
        assert_eq!(counts.running(), 1);
        counts.leave_joiner(stays);
        counts.move_joiner(stays);
        assert_eq!(counts.running(), 1, "it did not count any more");
        counts.leave_joiner(moves);
        assert_eq!(counts.running(), 0);
    }
}
