//! Crowding: more workers awake than the pool's lock can serve.
//!
//! A worker takes the pool's lock between two items, or batches. If these are short, a few workers
//! keep the lock busy, and each further one only makes all of them wait for it. So a worker that
//! comes from an item notes whether another thread held the lock. If many workers had to wait, the
//! pool lets one worker less run; if few had to, one more. On 16 CPUs with pods of 8, the rate of
//! round trips is 1.25 times as high with this limit as without.
//!
//! The limit is for items that take less time than what is done for them under the lock. If items
//! take longer, or a worker takes many at once, a worker that waits for the lock now and then still
//! runs more items than one that sleeps. If an item turns out to be long, hardly any items end, and
//! the monitor's next tick lifts the limit.
#![forbid(unsafe_code)]

/// How many times workers come for the lock in one sample.
const SAMPLE: u32 = 32;
/// If at least so many of them had to wait, one worker less may run.
const MANY: u32 = 12;
/// If at most so many had to wait, one worker more may run.
const FEW: u32 = 3;
/// Items that take longer than this use the CPUs more than the lock, and are not limited. It is about
/// what a worker does under the lock for one item, most of which is waiting for cache lines.
const SHORT_NS: u64 = 280;
/// If fewer items than this end between two ticks of the monitor, one of them is long.
const HARDLY_ANY: u64 = 64;

/// How many workers of one pool may run because of its lock.
pub(in crate::pool) struct Crowding {
    most: u32,
    comings: u32,
    waits: u32,
}

impl Crowding {
    pub(in crate::pool) const fn new() -> Self {
        Crowding {
            most: u32::MAX,
            comings: 0,
            waits: 0,
        }
    }

    /// The most workers that may run; `u32::MAX` if the lock does not limit them.
    #[inline]
    pub(in crate::pool) fn most(&self) -> u32 {
        self.most
    }

    /// Called when a worker has taken the lock after an item; `waited` says whether another thread
    /// held it. Returns whether a sample is complete.
    #[inline]
    pub(in crate::pool) fn note(&mut self, waited: bool) -> bool {
        self.comings += 1;
        self.waits += u32::from(waited);
        self.comings == SAMPLE
    }

    /// Changes the limit by the last sample, for a pool with `cpus` CPUs and `running` running
    /// workers, whose items take `item_ns`. Returns whether the limit has changed.
    pub(in crate::pool) fn judge(&mut self, running: u32, cpus: u32, item_ns: u64) -> bool {
        let before = self.most;
        let short = item_ns < SHORT_NS;
        match self.waits {
            MANY.. if short => self.most = self.most.min(running).saturating_sub(1).max(1),
            waits if waits > FEW && short => (),
            _ if self.most < cpus => self.most += 1,
            _ => self.most = u32::MAX,
        }
        (self.comings, self.waits) = (0, 0);
        self.most != before
    }

    /// Called at each tick of the monitor; `ended` items have ended since the last one. Returns
    /// whether the limit has changed.
    pub(in crate::pool) fn tick(&mut self, ended: u64) -> bool {
        let lifts = self.most != u32::MAX && ended < HARDLY_ANY;
        if lifts {
            *self = Self::new();
        }
        lifts
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// A sample with so many waits. Returns the limit after it.
    fn sample(crowding: &mut Crowding, waits: u32, running: u32, item_ns: u64) -> u32 {
        for number in 1..=SAMPLE {
            assert_eq!(crowding.note(number <= waits), number == SAMPLE);
        }
        crowding.judge(running, 8, item_ns);
        crowding.most()
    }

    #[test]
    fn where_many_wait_fewer_run_and_where_few_wait_more() {
        let mut crowding = Crowding::new();
        assert_eq!(sample(&mut crowding, MANY - 1, 8, 100), u32::MAX);
        let falls: Vec<u32> = (0..9)
            .map(|_| sample(&mut crowding, MANY, 8, 100))
            .collect();
        assert_eq!(falls, [7, 6, 5, 4, 3, 2, 1, 1, 1]);
        assert_eq!(sample(&mut crowding, FEW + 1, 1, 100), 1, "between the two");
        let rises: Vec<u32> = (0..9).map(|_| sample(&mut crowding, FEW, 1, 100)).collect();
        assert_eq!(rises, [2, 3, 4, 5, 6, 7, 8, u32::MAX, u32::MAX]);
    }

    #[test]
    fn fewer_run_than_do_now() {
        let mut crowding = Crowding::new();
        assert_eq!(sample(&mut crowding, MANY, 3, 100), 2);
    }

    #[test]
    fn long_items_are_not_limited() {
        let mut crowding = Crowding::new();
        assert_eq!(sample(&mut crowding, SAMPLE, 8, SHORT_NS), u32::MAX);
        assert_eq!(sample(&mut crowding, SAMPLE, 2, 100), 1);
        assert_eq!(sample(&mut crowding, SAMPLE, 2, SHORT_NS), 2);
    }

    #[test]
    fn the_monitor_lifts_the_limit_if_hardly_any_item_ends() {
        let mut crowding = Crowding::new();
        assert!(!crowding.tick(0), "there is none");
        sample(&mut crowding, SAMPLE, 2, 100);
        assert!(!crowding.tick(HARDLY_ANY));
        assert_eq!(crowding.most(), 1);
        assert!(crowding.tick(HARDLY_ANY - 1));
        assert_eq!(crowding.most(), u32::MAX);
    }
}
