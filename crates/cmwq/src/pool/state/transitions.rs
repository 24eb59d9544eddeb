//! What changes for a worker when it begins or ends an item, blocks or steals, with all counts that
//! depend on it; and how many workers may run.
#![forbid(unsafe_code)]

use super::pool::Inner;
use super::worker::{Busy, WorkerSlot, WorkerState};
use crate::pool::attrs::slots::UNLIMITED;
use crate::pool::wake::deferred::BACKLOG_NS;
use crate::sys::cpu;

/// For how many sleeping workers for each CPU of the pod a pool lets others run at most.
pub(in crate::pool) const MOST_PER_CPU: u32 = 32;

/// How many workers more than the average number of sleepers are allowed. The sleepers are
/// independent of each other, so their number varies by about the square root of the average; the
/// margin is two such deviations. One worker too few leaves a CPU idle while items wait; one too
/// many only waits for a CPU.
pub(in crate::pool) fn margin(sleepers: u32) -> u32 {
    2 * sleepers.isqrt()
}

/// If at least so many blocked workers come back within a tick of the monitor, the pool gets a
/// margin for them. Then more workers run than the pod has CPUs at nearly every moment. Without a
/// margin a worker would park after each item, and be woken again when the next one blocks.
pub(in crate::pool) const CROWD: u32 = 6;

/// How many workers of a pod of `cpus` may run, without what CPU hogs add.
pub(in crate::pool) fn target(cpus: u32, sleepers: u32, blockers: u32) -> u32 {
    let come_and_go = if blockers < CROWD { 0 } else { blockers };
    cpus + sleepers + margin(sleepers + come_and_go)
}

impl Inner {
    #[inline]
    pub(in crate::pool) fn running(&self) -> u32 {
        self.counts.running()
    }

    #[inline]
    pub(in crate::pool) fn searching(&self) -> u32 {
        self.counts.searching()
    }

    #[inline]
    pub(in crate::pool) fn target(&self) -> u32 {
        self.counts.target()
    }

    /// Among how many workers the items that wait will be divided: those that may run, and the
    /// guests.
    #[inline]
    pub(in crate::pool) fn at_once(&self) -> u32 {
        (self.running().max(self.target()) + self.guests).max(1)
    }

    #[inline]
    pub(in crate::pool) fn idle(&self) -> &[u32] {
        self.counts.idle()
    }

    /// Whether there is a limit over all pools.
    #[inline]
    pub(in crate::pool) fn is_limited(&self) -> bool {
        self.slots != UNLIMITED
    }

    /// How many CPUs of the pod its workers may use.
    #[inline]
    pub(in crate::pool) fn usable_cpus(&self) -> u32 {
        match self.slots {
            UNLIMITED => self.cpus,
            slots => self.cpus.min(slots.saturating_sub(self.holding.owed)),
        }
    }

    /// Workers that run, spin, or are on their way to look for work.
    pub(in crate::pool) fn in_use(&self) -> u32 {
        self.counts.running() + self.counts.searching()
    }

    /// Sets how many of the running workers are asleep, so that as many more may run, and how many
    /// others are known to be blocked and come back soon.
    pub(in crate::pool) fn allow_sleepers(&mut self, sleepers: u32, blocked: u32) {
        let most = self.cpus * MOST_PER_CPU;
        self.sleepers = sleepers.min(most);
        self.blockers = blocked.min(most);
        self.retarget();
    }

    /// Computes the target from the pod's CPUs, the sleepers and the CPU hogs.
    pub(in crate::pool) fn retarget(&mut self) {
        let target = match self.usable_cpus() {
            0 => 0,
            cpus => {
                let most = self.crowding.most();
                target(cpus, self.sleepers, self.blockers).min(most) + self.hogs.extra
            }
        };
        self.counts.set_target(target);
    }

    /// Called when a worker has taken the lock after an item; `waited` says whether another thread
    /// held it.
    #[inline]
    pub(in crate::pool) fn note_coming(&mut self, waited: bool) {
        if self.crowding.note(waited)
            && self
                .crowding
                .judge(self.counts.running(), self.cpus, self.pace.item_ns())
        {
            self.retarget();
        }
    }

    /// Called at each tick of the monitor; `ended` is the number of items that have ended since the
    /// last one.
    pub(in crate::pool) fn lift_limit_of_crowding(&mut self, ended: u64) {
        if self.crowding.tick(ended) {
            self.retarget();
        }
    }

    /// Called when the pool is not saturated or nothing waits: gives up the extra running workers
    /// bit by bit. Returns `false`, and changes nothing, if so many run that one of them would have
    /// to stop.
    pub(in crate::pool) fn forget_sleepers(&mut self) -> bool {
        let less = |number: u32| number - number.div_ceil(16);
        let (sleepers, blockers) = (less(self.sleepers), less(self.blockers));
        let kept = target(self.usable_cpus(), sleepers, blockers);
        let unused = self.sleepers + self.blockers == 0 || self.running() <= kept;
        if unused {
            self.allow_sleepers(sleepers, blockers);
        }
        unused
    }

    /// Called when an item has ended that was a CPU hog.
    #[cold]
    pub(in crate::pool) fn hog_ended(&mut self) {
        let before = self.hogs.extra;
        self.hogs.one_less();
        if self.hogs.extra != before {
            self.retarget();
        }
    }

    /// Called when nothing waits beside the hogs: leaves at most one extra slot for each of them.
    pub(in crate::pool) fn no_room_beside_hogs(&mut self) {
        let before = self.hogs.extra;
        self.hogs.cut(1);
        if self.hogs.extra != before {
            self.retarget();
        }
    }

    /// Whether all CPUs of the pod are used but one, and nothing else limits how many workers run.
    #[inline]
    pub(in crate::pool) fn has_one_cpu_left(&self) -> bool {
        self.running() + 1 == self.target() && self.target() >= self.cpus && !self.is_limited()
    }

    /// A worker that comes from a search has begun an item, and no other one runs. The thread that
    /// has queued the item probably still runs. If such threads lately ran items for which they
    /// waited, this one is [expected](Self::expect_joiner) to do so too: a worker that is woken for
    /// its CPU would preempt it, perhaps while it holds the pool's lock.
    pub(in crate::pool) fn first_has_begun(&mut self) {
        if self.counts.take_joined() {
            self.expect_joiner();
        }
    }

    /// A thread is about to run items for which it waits. If its CPU is the last one, and the pool
    /// chooses the CPUs on which workers are woken, no worker is woken for this CPU now. A worker
    /// that runs a short item sees soon what has come of it.
    pub(in crate::pool) fn expect_joiner(&mut self) {
        let is_short = (1..BACKLOG_NS).contains(&self.pace.item_ns());
        if is_short && self.has_one_cpu_left() && self.occupied.packs() {
            self.counts.expect_joiner();
        }
    }

    /// Worker `id`, which is searching, begins an item.
    #[inline]
    pub(in crate::pool) fn begin(&mut self, id: u32, pwq: u32) {
        let slot = &mut self.workers[id];
        slot.runs += 1;
        slot.pwq = pwq;
        if slot.state == WorkerState::Guest {
            return;
        }
        self.pwqs[pwq].stats.wakeups += u64::from(std::mem::take(&mut slot.woken));
        if self.pwqs[pwq].traits.cpu_intensive {
            self.counts.transition_searching_to_cpu_intensive(slot);
            self.hogs.one_more();
        } else {
            self.counts.transition_searching_to_running(slot);
        }
    }

    /// The item of worker `id` has ended: the worker is searching again.
    #[inline]
    pub(in crate::pool) fn end(&mut self, id: u32) {
        let slot = &mut self.workers[id];
        if slot.state == WorkerState::Guest {
            return;
        }
        let before = self.counts.transition_busy_to_searching(slot);
        self.counts.stop_expecting_joiner();
        match before {
            WorkerState::Busy(Busy::CpuIntensive) => self.hog_ended(),
            WorkerState::Busy(Busy::Blocked) => self.came_back(id, cpu::current()),
            _ => {}
        }
    }

    /// If worker `id` is a thief in another pool, it does not count here from now on.
    pub(in crate::pool) fn stop_counting_thief(&mut self, id: u32) {
        self.counts
            .transition_away_to_uncounted(&mut self.workers[id]);
    }

    /// Called by the monitor: a thief that still runs the same item of another pool as at the last
    /// sample does not count here from now on.
    pub(in crate::pool) fn stop_counting_lasting_thieves(&mut self) {
        let counts = |worker: &WorkerSlot| worker.state == WorkerState::Away { counts: true };
        let thieves = self.workers.iter().filter(|(_, worker)| counts(worker));
        let thieves: Vec<u32> = thieves.map(|(id, _)| id).collect();
        for id in thieves {
            let worker = &mut self.workers[id];
            if std::mem::replace(&mut worker.seen_runs, worker.runs) == worker.runs {
                self.stop_counting_thief(id);
            }
        }
    }

    /// Worker `id`, which is running, does not count as running from now on. Another worker takes
    /// over if something waits.
    pub(in crate::pool) fn step_out(&mut self, id: u32, from_now: Busy) {
        self.counts.stop_expecting_joiner();
        self.counts
            .transition_running_to(&mut self.workers[id], from_now);
        let takes_over = self.counts.running() < self.counts.target() && self.has_waiting();
        let stats = &mut self.pwqs[self.workers[id].pwq].stats;
        match from_now {
            Busy::Blocked => {
                stats.cm_wakeups += u64::from(takes_over);
                self.occupied.leave(&mut self.workers[id].place);
            }
            Busy::CpuIntensive => {
                stats.cpu_intensive += 1;
                self.hogs.one_more();
            }
            Busy::Running => unreachable!("it would still count"),
        }
    }

    /// Worker `id`, which was blocked, counts as running again. It runs on the CPU `now`; if that
    /// is not known, on the one where it was last seen.
    pub(in crate::pool) fn step_in(&mut self, id: u32, now: Option<usize>) {
        self.counts
            .transition_blocked_to_running(&mut self.workers[id]);
        self.came_back(id, now);
    }

    /// Worker `id` is awake after a block: its item goes on, or has ended.
    fn came_back(&mut self, id: u32, now: Option<usize>) {
        self.counts.note_return();
        let place = &mut self.workers[id].place;
        let now = now.or(place.last_seen());
        self.occupied.enter(place, now);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::queue::pwq::Traits;
    use crate::pool::stubs;

    /// If it did not, others would be woken, or moved, onto its CPU.
    #[test]
    fn a_worker_uses_its_cpu_again_after_a_block_and_after_an_item_that_blocked() {
        let pool = stubs::pool(907, 0);
        let pwq = stubs::add_pwq(&pool, Traits::default(), 1).index;
        let here = cpu::current();
        for ends in [false, true] {
            let (id, _handle) = stubs::searching(&pool);
            let mut guard = pool.lock();
            let inner: &mut Inner = &mut guard;
            inner.occupied.enter(&mut inner.workers[id].place, here);
            inner.begin(id, pwq);
            inner.step_out(id, Busy::Blocked);
            let expected = |inner: &Inner| inner.workers[id].place.expected();
            assert_eq!(expected(inner), None, "it sleeps");
            match ends {
                false => inner.step_in(id, None),
                true => inner.end(id),
            }
            assert!(expected(inner).is_some());
            if !ends {
                assert_eq!(expected(inner), here);
                inner.end(id);
            }
        }
    }
}
