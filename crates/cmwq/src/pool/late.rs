//! Telling late: the wake-ups of those who sleep until an item of a saturated pool completes something.
//!
//! Where a thread keeps many items in flight and waits for the oldest, each completion wakes it, it queues one more item, and
//! sleeps again: a wake-up and two switches for each item. If more items wait than the pod will get to soon, the one who is woken
//! gains nothing from that: what he queues then waits anyway. So a completing worker may enter the sleeper here and go on, and the sleeper
//! is woken some items later, and then finds several of its completions done.
//!
//! How late that may be is the monitor's to say, at each look: a quarter of the time that what is queued now will wait, since
//! the time from queueing to the end of an item then grows by that share at most; and nothing if items end rarely. Before that it
//! is zero, and sleepers are woken at once: a pool that is not watched never tells late. It stays what it was for a few looks at which no CPU was in demand.
//!
//! Who is due is woken by a worker on the CPU that he [sleeps](whereabouts) on, which costs a fraction of a wake-up across CPUs; if none has come
//! by for a little longer, or if that is no CPU of the pod, by any.
//!
//! **Invariant.** Who is entered is woken: by the worker that entered it, after its item, if it finds nothing to do or if it is
//! overdue; before that worker declares that it blocks; by another worker that finds it due; and, if all of them are in items that do not end,
//! by the monitor's next look. So it does not matter what the rest of the item does, nor what the one behind it waits for.
//!
//! A thread that waits awake for an item of such a pool takes a CPU from what it waits for: who has published there last sleeps at once
//! ([`has_backlog`]).
//!
//! A sleeper that was woken otherwise meanwhile, or is gone, is woken in vain: see [`Completion`](crate::Completion).
#![forbid(unsafe_code)]

use super::{Pool, block, whereabouts};
use crate::sys::atomic::plain::{AtomicBool, AtomicU64};
use crate::sys::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sys::{clock, cpu, park};
use crate::topology::CpuSet;

/// So many sleepers at a time; further ones are woken at once.
const PLACES: usize = 8;
/// The latest that anybody is told.
const LATEST_NS: u64 = 250_000;
/// Less than what two wake-ups cost is not worth it.
const WORTH_NS: u64 = 15_000;
/// If items end more rarely, sleepers are told at once: whoever looks whether somebody is due comes by too rarely.
const OFTEN_NS: u64 = 50_000;
/// Who is due longer than that is woken from whatever CPU: more than the time between two items of a worker where items end often.
const OVERDUE_NS: u64 = 60_000;

/// The sleepers of one pool that are still to be woken.
pub(super) struct Untold {
    /// Addresses of the words that they sleep on; 0: none.
    places: [AtomicUsize; PLACES],
    /// 1: somebody was entered since it was last told. Changed by read-modify-writes alone, so that who takes it sees all that was
    /// entered before: the entries release, and each of them carries on what the earlier ones released.
    any: AtomicU32,
    /// About when the first of them was entered.
    since_ns: AtomicU64,
    /// How late they may be told; 0: not at all.
    within_ns: AtomicU64,
}

impl Untold {
    pub(super) fn new() -> Self {
        Untold {
            places: std::array::from_fn(|_| AtomicUsize::new(0)),
            any: AtomicU32::new(0),
            since_ns: AtomicU64::new(0),
            within_ns: AtomicU64::new(0),
        }
    }

    /// `false`: it has to be woken at once.
    fn enter(&self, word: usize) -> bool {
        if self.within_ns.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Relaxed: what is entered is an address, and nothing is read there.
        let entered = self.places.iter().any(|place| {
            place
                .compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
        if entered {
            if !self.is_any() {
                // Of two times either will do.
                self.since_ns.store(clock::now_ns(), Ordering::Relaxed);
            }
            self.any.fetch_or(1, Ordering::Release);
        }
        entered
    }

    /// Whether there may be any. Never `false` to a worker that has entered one whom nobody has taken since.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed) != 0
    }

    /// For how long the first has been due; `None`: he is not.
    #[inline]
    fn due_for_ns(&self) -> Option<u64> {
        // The model checker has no time.
        if !self.is_any() || cfg!(cmwq_loom) {
            return None;
        }
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        let within_ns = self.within_ns.load(Ordering::Relaxed);
        clock::now_ns()
            .saturating_sub(since_ns)
            .checked_sub(within_ns)
    }

    /// Wakes all, if there are any.
    #[inline]
    pub(super) fn tell(&self) {
        if self.is_any() {
            self.tell_all();
        }
    }

    #[cold]
    fn tell_all(&self) {
        // First: what is entered later is said again. Acquire: what was entered before is found.
        self.any.swap(0, Ordering::AcqRel);
        self.tell_those(|_| true);
    }

    /// Wakes those on whose words `wanted` says so. `false`: there are others.
    fn tell_those(&self, wanted: impl Fn(usize) -> bool) -> bool {
        let mut all = true;
        for place in &self.places {
            let word = place.load(Ordering::Relaxed);
            if word == 0 {
                continue;
            }
            if !wanted(word) {
                all = false;
                continue;
            }
            // Another one perhaps: he is told early.
            let word = place.swap(0, Ordering::Relaxed);
            if word != 0 {
                park::wake_all_at(std::ptr::without_provenance(word));
            }
        }
        all
    }

    /// By a worker that has ended an item, of a pod with these CPUs.
    #[inline]
    pub(super) fn tell_if_due(&self, pod: &CpuSet) {
        match self.due_for_ns() {
            None => {}
            Some(0..OVERDUE_NS) => self.tell_near(pod),
            Some(_) => self.tell(),
        }
    }

    /// Wakes those who sleep on the caller's CPU, and those on whose CPUs no worker will come by. The others stay entered.
    #[cold]
    fn tell_near(&self, pod: &CpuSet) {
        let here = cpu::current();
        let others = |there: usize| Some(there) != here && pod.contains(there);
        if self.tell_those(|word| !whereabouts::of(word).is_some_and(others)) {
            // Nobody is left, or somebody came meanwhile, who is told early then.
            self.tell();
        }
    }

    /// The monitor's look: `waiting` items wait, and `done` have ended in `period_ns`.
    pub(super) fn allow(&self, pool: u32, waiting: u64, done: u64, period_ns: u64) {
        let late_ns = lateness(waiting, done, period_ns);
        // Who is not overdue will be told by a worker, without an interrupt to another CPU, or at the next look.
        if late_ns == 0 || self.due_for_ns().is_some_and(|ns| ns >= OVERDUE_NS) {
            self.tell();
        }
        self.within_ns.store(late_ns, Ordering::Relaxed);
        backlog(pool).store(late_ns != 0, Ordering::Relaxed);
    }

    /// From now on all are told at once.
    pub(super) fn forbid(&self, pool: u32) {
        if self.within_ns.load(Ordering::Relaxed) != 0 {
            self.within_ns.store(0, Ordering::Relaxed);
            backlog(pool).store(false, Ordering::Relaxed);
        }
        self.tell();
    }
}

/// By the numbers of pools, modulo how many these are: whether the pool has a backlog. For threads that know no more of a pool than its number.
static BACKLOGS: [AtomicBool; 1024] = [const { AtomicBool::new(false) }; 1024];

fn backlog(pool: u32) -> &'static AtomicBool {
    &BACKLOGS[pool as usize % BACKLOGS.len()]
}

pub(super) fn has_backlog(pool: u32) -> bool {
    backlog(pool).load(Ordering::Relaxed)
}

fn lateness(waiting: u64, done: u64, period_ns: u64) -> u64 {
    if done == 0 || period_ns / done > OFTEN_NS {
        return 0;
    }
    let late_ns = (waiting.saturating_mul(period_ns) / done / 4).min(LATEST_NS);
    if late_ns < WORTH_NS { 0 } else { late_ns }
}

impl Pool {
    /// Somebody sleeps on `word`, which is changed already. `true`: he will be woken a little later.
    pub(crate) fn tell_later(word: *const AtomicU32) -> bool {
        block::in_item_of(|pool| pool.untold.enter(word.addr())).unwrap_or(false)
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    /// What a completing worker does with the word of a sleeper, and then at the end of its item.
    fn complete(untold: &Untold, word: &AtomicU32) {
        if word.swap(2, Ordering::AcqRel) == 1 && !untold.enter(std::ptr::from_ref(word).addr()) {
            park::wake_all_at(word);
        }
        untold.tell();
    }

    fn sleep(word: &AtomicU32) {
        while word.load(Ordering::Acquire) != 2 {
            let asleep = word.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Acquire);
            if matches!(asleep, Ok(_) | Err(1)) {
                park::wait_on(word, 1, None);
            }
        }
    }

    fn explore(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// `others` threads run beside a worker that completes what one sleeps on.
    fn beside(others: fn(&Untold, &[AtomicU32; 2])) {
        explore(move || {
            let shared = Arc::new((Untold::new(), [AtomicU32::new(0), AtomicU32::new(0)]));
            shared.0.within_ns.store(1, Ordering::Relaxed);
            let sleeper = shared.clone();
            let sleeper = thread::spawn(move || sleep(&sleeper.1[0]));
            let other = shared.clone();
            let other = thread::spawn(move || others(&other.0, &other.1));
            complete(&shared.0, &shared.1[0]);
            other.join().unwrap();
            sleeper.join().unwrap();
        });
    }

    #[test]
    fn whoever_sleeps_is_told_though_another_worker_looks_meanwhile() {
        beside(|untold, _| untold.tell());
    }

    #[test]
    fn whoever_sleeps_is_told_though_another_is_entered_meanwhile() {
        beside(|untold, words| {
            words[1].store(1, Ordering::Relaxed);
            complete(untold, &words[1]);
        });
    }

    #[test]
    fn whoever_sleeps_is_told_though_another_worker_leaves_him_to_others() {
        beside(|untold, _| {
            untold.tell_those(|_| false);
        });
    }

    #[test]
    fn whoever_sleeps_is_told_though_it_is_forbidden_meanwhile() {
        beside(|untold, _| untold.forbid(0));
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::sys::thread;

    #[test]
    fn threads_are_told_by_its_number_whether_a_pool_has_a_backlog() {
        // No pool of this process has such a number.
        const POOL: u32 = 1023;
        let untold = Untold::new();
        untold.allow(POOL, 400, 200, 2_000_000);
        assert!(has_backlog(POOL));
        untold.allow(POOL, 0, 200, 2_000_000);
        assert!(!has_backlog(POOL));
        untold.allow(POOL, 400, 200, 2_000_000);
        untold.forbid(POOL);
        assert!(!has_backlog(POOL));
    }

    /// Words that nobody sleeps on, where somebody has said that he does: waking them wakes nobody.
    #[test]
    fn those_near_are_told_first_and_no_others_but_where_no_worker_comes() {
        let untold = Untold::new();
        untold.within_ns.store(1, Ordering::Relaxed);
        let words = [AtomicU32::new(1), AtomicU32::new(1), AtomicU32::new(1)];
        let [near, far, outside] = [0, 1, 2].map(|at: usize| std::ptr::from_ref(&words[at]).addr());
        let here = cpu::current().unwrap_or(0);
        let (there, elsewhere) = (here + 1, here + 2);
        thread::bind_current(&CpuSet::from_iter([here])).expect("it runs there");
        let pod = CpuSet::from_iter([here, there]);
        let enter = |word, cpu| {
            whereabouts::note(word, cpu);
            assert!(untold.enter(word));
        };
        let entered = || -> Vec<usize> {
            let words = untold.places.iter().map(|at| at.load(Ordering::Relaxed));
            words.filter(|&word| word != 0).collect()
        };
        enter(far, there);
        enter(outside, elsewhere);
        let near_only = |word: usize| whereabouts::of(word) == Some(here);
        assert!(!untold.tell_those(near_only));
        assert_eq!(entered(), [far, outside]);
        enter(near, here);
        untold.tell_near(&pod);
        assert_eq!(entered(), [far]);
        assert!(untold.is_any());
        untold.tell();
        assert!(entered().is_empty() && !untold.is_any());
    }

    /// A word that nobody sleeps on.
    #[test]
    fn the_monitor_leaves_those_who_are_not_overdue_to_workers() {
        // No pool of this process has such a number.
        const POOL: u32 = 1022;
        let untold = Untold::new();
        let look = |waiting| untold.allow(POOL, waiting, 200, 2_000_000);
        let word = AtomicU32::new(1);
        let enter = |since_ns| {
            assert!(untold.enter(std::ptr::from_ref(&word).addr()));
            untold.since_ns.store(since_ns, Ordering::Relaxed);
        };
        look(400);
        enter(u64::MAX);
        look(400);
        assert!(untold.is_any());
        untold.since_ns.store(0, Ordering::Relaxed);
        look(400);
        assert!(!untold.is_any(), "nobody has told who is overdue");
        enter(u64::MAX);
        look(0);
        assert!(!untold.is_any(), "there is no backlog any more");
    }

    #[test]
    fn a_quarter_of_the_wait_unless_items_are_long_or_the_wait_is_short() {
        const PERIOD: u64 = 2_000_000;
        // Two workers, items of 20 us: 200 a period; 62 wait for 620 us.
        assert_eq!(lateness(62, 200, PERIOD), 155_000);
        assert_eq!(lateness(400, 200, PERIOD), LATEST_NS);
        assert_eq!(lateness(4, 200, PERIOD), 0);
        assert_eq!(lateness(1000, 10, PERIOD), 0);
        assert_eq!(lateness(1000, 0, PERIOD), 0);
    }
}
