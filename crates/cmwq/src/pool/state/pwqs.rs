//! The pool workqueues of a pool: their items are accepted, become active, and end.

use super::pool::{Inner, Pool, PwqState};
use crate::item::Pending;
use crate::pool::queue::pwq::{Accepted, Ended, PwqKey, make_active, tell_activated};
use crate::pool::queue::pwq_chunks::PwqChunks;
use crate::pool::queue::stats::{PoolCounts, QueueStats};
use crate::pool::state::worker::{WorkerSlot, WorkerState};
use std::sync::Arc;

impl Inner {
    pub(crate) fn add_pwq(&mut self, pwq: PwqState) -> PwqKey {
        self.next_serial += 1;
        let serial = self.next_serial;
        let index = self.pwqs.insert(pwq.numbered(serial));
        PwqKey { index, serial }
    }

    /// From now on, items of this pool workqueue may be published in chunks.
    pub(crate) fn allow_chunks(&mut self, key: PwqKey, pool: &Pool) -> Option<Arc<PwqChunks>> {
        let chunks = Arc::new(PwqChunks::new(
            pool.id,
            key.index,
            &pool.oldest_batch,
            &pool.chunk_numbers,
        ));
        self.pwq_mut(key)?.chunks = Some(chunks.clone());
        Some(chunks)
    }

    pub(in crate::pool) fn pwq_mut(&mut self, key: PwqKey) -> Option<&mut PwqState> {
        self.pwqs
            .get_mut(key.index)
            .filter(|pwq| pwq.serial == key.serial)
    }

    pub(in crate::pool) fn key_of(&self, index: u32) -> PwqKey {
        PwqKey {
            index,
            serial: self.pwqs[index].serial,
        }
    }

    /// Accepts an item and counts it in flight. It is active if there is a credit and no other item
    /// is before it.
    #[inline]
    pub(in crate::pool) fn accept(&mut self, mut item: Pending) -> Accepted {
        let pwq = &mut self.pwqs[item.pwq()];
        item.accept(pwq.colour());
        pwq.one_more_in_flight();
        if pwq.may_pass() && pwq.use_credit() {
            tell_activated(&item);
            return Accepted::Active(item);
        }
        pwq.inactive.push_back(item);
        match pwq.begin_waiting() {
            true => Accepted::BeginsToWait,
            false => Accepted::Inactive,
        }
    }

    /// Accounts for the end of an active item of pool workqueue `key`, accepted under `colour`.
    #[inline]
    pub(in crate::pool) fn end_item(&mut self, key: u32, colour: u32) -> Ended {
        self.pwqs[key].stats.completed += 1;
        self.leave_flight(key, colour, 1, 1)
    }

    /// Takes items out of flight, whether they have run or were cancelled; the `active` ones among
    /// them give their credits back.
    #[inline]
    pub(in crate::pool) fn leave_flight(
        &mut self,
        key: u32,
        colour: u32,
        items: u32,
        active: u32,
    ) -> Ended {
        let pwq = &mut self.pwqs[key];
        pwq.credits.transition_used_to_unused(active as i32);
        let mut ended = Ended {
            colour_done: pwq.colours.transition_in_flight_to_none(colour, items),
            ..Ended::default()
        };
        if pwq.limit.is_tight() {
            let mut left = active;
            for _ in 0..active {
                if let Some(item) = pwq.next_of_own() {
                    make_active(&mut self.worklist, item);
                    left -= 1;
                }
            }
            // What was cancelled while it was inactive has left no credit, since a pool workqueue
            // with inactive items has no unused one.
            if left > 0 {
                ended.credits_kept = pwq.keeps_for_next(left);
                ended.credits_freed = !ended.credits_kept && pwq.give_back_unused();
            }
        }
        ended.gone = pwq.retired && pwq.colours.in_flight() == 0;
        ended
    }

    /// From now on items are accepted under `next`. `true`: items of `old`, the colour before, are
    /// in flight, and [`colour_done`](crate::pool::FrontEnd::colour_done) will be called when the
    /// last of them has ended. A pool workqueue that was removed has none.
    pub(crate) fn advance_colour(&mut self, key: PwqKey, old: u32, next: u32) -> bool {
        self.close_all_caller_slots(key);
        let Some(pwq) = self.pwq_mut(key) else {
            return false;
        };
        pwq.colours.transition_current_to_flushing(old, next)
    }

    /// Gives unused credits back to the node.
    pub(crate) fn collect_credits(&mut self, key: PwqKey) {
        self.close_all_caller_slots(key);
        if let Some(pwq) = self.pwq_mut(key) {
            pwq.give_back_unused();
        }
    }

    /// Uses credits that the caller took for `key`: as many of its oldest inactive items become
    /// active. Returns whether more items wait, or `None` if the pool workqueue was removed after
    /// its last waiting item was cancelled; then the caller keeps the credits.
    pub(crate) fn activate_some(&mut self, key: PwqKey, credits: i32) -> Option<bool> {
        self.pwq_mut(key)?;
        let pwq = &mut self.pwqs[key.index];
        pwq.credits.transition_store_to_unused(credits);
        for _ in 0..credits {
            let Some(item) = pwq.inactive.pop_front() else {
                break;
            };
            pwq.credits.transition_unused_to_used(1);
            make_active(&mut self.worklist, item);
        }
        let more = !pwq.inactive.is_empty();
        if !more {
            pwq.waiting = false;
            pwq.limit.one_less_waits();
            pwq.give_back_unused();
        }
        Some(more)
    }

    /// Lets items of this pool workqueue become active from now on. Returns `true` if items wait
    /// and it has entered the line for a credit.
    pub(crate) fn unplug(&mut self, key: PwqKey) -> bool {
        let Some(pwq) = self.pwq_mut(key) else {
            return false;
        };
        pwq.plugged = false;
        pwq.begin_waiting()
    }

    /// Retires the pool workqueue: it takes no new items from now on. Returns `true` if it had no
    /// item left and was removed at once.
    pub(crate) fn retire_pwq(&mut self, key: PwqKey) -> bool {
        self.close_all_caller_slots(key);
        let Some(pwq) = self.pwq_mut(key) else {
            return true;
        };
        pwq.retired = true;
        if pwq.colours.in_flight() > 0 {
            return false;
        }
        self.remove_pwq(key.index);
        true
    }

    pub(in crate::pool) fn remove_pwq(&mut self, index: u32) {
        let mut pwq = self.pwqs.remove(index);
        if pwq.waiting {
            // The items that waited were cancelled.
            pwq.limit.one_less_waits();
        }
        pwq.give_back_unused();
        self.gone.add(&pwq.stats);
    }

    /// How many of its items are accepted and have not ended.
    pub(crate) fn in_flight(&mut self, key: PwqKey) -> u64 {
        self.close_all_caller_slots(key);
        self.pwq_mut(key).map_or(0, |pwq| pwq.colours.in_flight())
    }

    /// How many of its items have ended. `None`: it is gone.
    pub(crate) fn completed_of(&mut self, key: PwqKey) -> Option<u64> {
        self.pwq_mut(key).map(|pwq| pwq.stats_now().completed)
    }

    /// Its counters.
    pub(crate) fn pwq_stats(&mut self, key: PwqKey) -> QueueStats {
        self.pwq_mut(key)
            .map_or_else(QueueStats::default, |pwq| pwq.stats_now())
    }

    /// How many of its items are active, and how many wait for a credit.
    pub(crate) fn pwq_load(&mut self, key: PwqKey) -> (usize, usize) {
        self.close_all_caller_slots(key);
        self.pwq_mut(key)
            .map_or((0, 0), |pwq| (pwq.nr_active(), pwq.inactive.len()))
    }

    /// How many of its items are active, how many wait for a credit, and whether it takes no new
    /// ones; without closing caller slots.
    pub(crate) fn pwq_counts(&mut self, key: PwqKey) -> (usize, usize, bool) {
        let Some(pwq) = self.pwq_mut(key) else {
            return (0, 0, true);
        };
        (pwq.nr_active(), pwq.inactive.len(), pwq.retired)
    }

    /// How often a thread has waited for the lock of the pool.
    pub(crate) fn lock_waits(&self) -> u64 {
        self.stats.lock_waits
    }

    /// The counters of the pool, and the sum of those of its pool workqueues.
    pub(crate) fn stats(&self) -> (PoolCounts, QueueStats) {
        let mut pwqs = self.gone;
        for (_, pwq) in self.pwqs.iter() {
            pwqs.add(&pwq.stats_now());
        }
        (self.stats, pwqs)
    }

    pub(crate) fn nr_workers(&self) -> usize {
        self.workers.len() - self.guests as usize
    }

    /// The pool's workers, without its guests.
    pub(in crate::pool) fn own_workers(&self) -> impl Iterator<Item = (u32, &WorkerSlot)> {
        let workers = self.workers.iter();
        workers.filter(|(_, worker)| worker.state != WorkerState::Guest)
    }
}
