//! BH pools: one worker per CPU that runs items one at a time, in the order of queueing. An item
//! must not sleep: all others of its CPU would wait. The kernel runs them in softirq context. A
//! thread of its own, bound and if permitted raised in priority, comes as close as a process can.
#![forbid(unsafe_code)]

#[cfg(all(debug_assertions, not(cmwq_loom)))]
use crate::item::Callable;
use crate::item::Started;
use crate::pool::state::pool::Pool;
use crate::pool::task::call::call;
use crate::pool::task::run::Run;
use crate::sys::clock;
use std::sync::Arc;

/// The limits of one turn on the CPU, as in the kernel; then the worker yields.
const TURN_ITEMS: u32 = 10;
const TURN_NS: u64 = 2_000_000;

/// What is left of the worker's turn.
pub(in crate::pool) struct Budget {
    items: u32,
    until_ns: u64,
}

impl Budget {
    pub(in crate::pool) fn new() -> Self {
        Self::from(clock::now_ns())
    }

    fn from(now_ns: u64) -> Self {
        Budget {
            items: TURN_ITEMS,
            until_ns: now_ns + TURN_NS,
        }
    }

    pub(in crate::pool) fn renew(&mut self) {
        *self = Self::new();
    }

    /// One more item was run. `true`: the worker has to yield the CPU, and a new turn begins.
    pub(in crate::pool) fn is_spent(&mut self) -> bool {
        self.is_spent_at(clock::now_ns())
    }

    fn is_spent_at(&mut self, now_ns: u64) -> bool {
        self.items -= 1;
        let spent = self.items == 0 || now_ns >= self.until_ns;
        if spent {
            *self = Self::from(now_ns);
        }
        spent
    }
}

impl Pool {
    /// Runs an item that must not sleep; a debug build checks whether it did.
    pub(in crate::pool) fn run_without_sleep(self: &Arc<Self>, started: Started, run: Run) -> bool {
        #[cfg(all(debug_assertions, not(cmwq_loom)))]
        {
            use crate::sys::sync::engine_sleeps;
            use crate::sys::thread;

            let sleeps = || thread::voluntary_switches() - engine_sleeps::count();
            let func = started.func();
            let before = sleeps();
            let panicked = call(started, run.current);
            let slept = sleeps() - before;
            if slept > 0 {
                self.report_sleeper(func, run, slept);
            }
            panicked
        }
        #[cfg(not(all(debug_assertions, not(cmwq_loom))))]
        call(started, run.current)
    }

    #[cfg(all(debug_assertions, not(cmwq_loom)))]
    fn report_sleeper(self: &Arc<Self>, func: Option<crate::item::WorkFn>, run: Run, slept: i64) {
        let func = crate::item::address_of(func);
        if self.attrs.params.sleepers.one_more(func) != Some(1) {
            return;
        }
        // The item has not ended for its pool workqueue, so that still exists.
        let queue = self.lock().pwqs[run.pwq].owner.front.clone();
        crate::trace::warn(&format!(
            "BH workqueue {}: {} went to sleep {slept} times; items of a BH workqueue must not block",
            queue.name(),
            crate::sys::names::name_of(func),
        ));
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::sys::task;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// After which of `items` items, each of which takes `each_ns`, the worker yields.
    fn turns(items: usize, each_ns: u64) -> Vec<usize> {
        let begin_ns = 1_000_000_007;
        let mut budget = Budget::from(begin_ns);
        let now_ns = |item: usize| begin_ns + item as u64 * each_ns;
        (1..=items)
            .filter(|&item| budget.is_spent_at(now_ns(item)))
            .collect()
    }

    #[test]
    fn a_turn_is_ten_items_or_two_milliseconds() {
        assert_eq!(turns(35, 0), [10, 20, 30]);
        assert_eq!(turns(35, 199_999), [10, 20, 30]);
        // 2 ms are over with the tenth item, or earlier.
        assert_eq!(turns(20, 200_000), [10, 20]);
        assert_eq!(turns(20, 250_000), [8, 16]);
        assert_eq!(turns(9, 700_000), [3, 6, 9]);
        assert_eq!(turns(4, 1_999_999), [2, 4]);
        assert_eq!(turns(3, 2_000_000), [1, 2, 3]);
        assert_eq!(turns(3, 80_000_000), [1, 2, 3]);
    }

    #[test]
    fn a_worker_offers_its_cpu_to_others_after_each_turn() {
        const ITEMS: usize = 55;
        let engine = Engine::builder().build().unwrap();
        let wq = engine.workqueue("turns").bh().build().unwrap();
        let cpu = engine.topology().cpus().first().unwrap();
        // The first item ends when all are queued. Yields of the worker before that do not count.
        let all_are_queued = Arc::new(AtomicBool::new(false));
        let go = all_are_queued.clone();
        let first = wq.spawn_on(cpu, move || {
            while !go.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            task::yields()
        });
        let items: Vec<_> = (0..ITEMS)
            .map(|_| wq.spawn_on(cpu, task::yields).unwrap())
            .collect();
        all_are_queued.store(true, Ordering::Relaxed);
        let first = first.unwrap().join().unwrap();
        for (n, yields) in items.into_iter().enumerate() {
            // More if the machine is busy: a turn may end by its time.
            let (yields, turns) = (
                yields.join().unwrap() - first,
                (n + 1) / TURN_ITEMS as usize,
            );
            assert!(yields >= turns, "{yields} yields before item {}", n + 2);
        }
    }
}
