//! Stalls: finding and reporting them, and the dump of what is busy.

use super::core::Engine;
use super::parts::watchdog::{Stall, progress_of};
use crate::engine::parts::watchdog::is_of_the_pool;
use crate::pool::{Dump, WaitList};
use crate::sys::clock;
use crate::trace::report_with;
use std::fmt::Write;

impl Engine {
    /// Performs one beat of the watchdog if it is due. Returns the time of the next beat.
    pub(crate) fn watchdog(&self) -> Option<u64> {
        let watchdog = &self.0.watchdog;
        let begun_ns = clock::now_ns();
        if watchdog.aborts_at().is_some_and(|at| at <= begun_ns) {
            // The report handler has not returned in time.
            std::process::abort();
        }
        if watchdog.threshold().is_zero() {
            return watchdog.aborts_at();
        }
        let waits = progress_of(&self.pools());
        let now_ns = clock::now_ns();
        let Some((stalled, next)) = watchdog.beat(begun_ns..now_ns, &waits) else {
            return watchdog.aborts_at();
        };
        if !stalled.is_empty() {
            self.report(stalled, now_ns);
        }
        let next = watchdog.aborts_at().map_or(next, |at| at.min(next));
        Some(next)
    }

    fn report(&self, stalled: Vec<Stall>, now_ns: u64) {
        let watchdog = &self.0.watchdog;
        let verdict = {
            let mut reports = watchdog.reports.lock();
            if stalled.iter().any(|(list, _)| is_of_the_pool(*list)) {
                reports.count = reports.count.saturating_add(1);
            }
            let verdict = watchdog.verdict(reports.count, &stalled);
            if verdict.is_some() {
                reports.aborts_at.get_or_insert(now_ns + LAST_WORDS_NS);
            }
            verdict
        };
        let dump = self.dump();
        let aborts = verdict.is_some();
        let text = move || {
            let verdict = verdict.map(|why| format!("the process is aborted: {why}\n"));
            stall_report(&stalled, &dump) + &verdict.unwrap_or_default()
        };
        report_with(text, move || {
            if aborts {
                std::process::abort();
            }
        });
    }

    /// Returns what is busy now: every workqueue with items that were accepted and have not ended,
    /// and every pool with a worker that is not idle. Its [`Display`](std::fmt::Display) is laid
    /// out like the kernel's `show_all_workqueues`.
    ///
    /// In the child of a fork it is empty.
    ///
    /// ```
    /// println!("{}", cmwq::Engine::global()?.dump()); // what runs, what waits, and for how long
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump(&self) -> Dump {
        if self.is_inherited() {
            return Dump::new(Vec::new());
        }
        let pools = self.pools();
        Dump::new(pools.iter().map(|pool| pool.snapshot()).collect())
    }
}

/// Writes the report: a line for each stalled list, everything that is busy, and the state of the
/// threads that hold up pools of one CPU.
fn stall_report(stalled: &[Stall], dump: &Dump) -> String {
    let mut text = String::new();
    for &(list, ns) in stalled {
        // The watchdog has suspected the list for `ns`. The monitor may have seen the stall from
        // its beginning, so its time may be longer.
        let seconds = dump.hung_ns(list).map_or(ns, |hung| hung.max(ns)) as f64 / 1e9;
        let pool = dump.describe(list.pool());
        let why = dump.why_it_waits(list);
        // Writing to a string cannot fail.
        let _ = match list {
            WaitList::Ready(_) => writeln!(
                text,
                "workqueue lockup: {pool} has work waiting and started none of it for {seconds:.1} s: {why}"
            ),
            WaitList::Inactive(..) => writeln!(
                text,
                "workqueue lockup: {pool} has inactive items, and for {seconds:.1} s none of their workqueue's has started or ended: {why}"
            ),
        };
    }
    let pools = stalled.iter().filter(|(list, _)| is_of_the_pool(*list));
    text + &dump.to_string() + &dump.threads_of(pools.map(|(list, _)| list.pool()))
}

/// How long, in ns, a report handler may take before the process is aborted anyway.
const LAST_WORDS_NS: u64 = 1_000_000_000;

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::PwqKey;

    /// Items that wait because of `max_active` wait for the program itself.
    #[test]
    fn only_reports_of_stalled_worklists_count_for_panic_on_stall() {
        let engine = Engine::builder().build().expect("an engine");
        let inactive = (WaitList::Inactive(u32::MAX, PwqKey::none()), 7);
        let ready = (WaitList::Ready(u32::MAX), 9);
        let count = || engine.0.watchdog.reports.lock().count;
        engine.report(vec![inactive], 0);
        assert_eq!(count(), 0);
        engine.report(vec![inactive, ready], 0);
        assert_eq!(count(), 1);
        let verdict = |reports, stalled: &[Stall]| engine.0.watchdog.verdict(reports, stalled);
        assert_eq!(verdict(100, &[ready]), None, "nothing was asked for");
        engine.set_panic_on_stall(2);
        assert_eq!(verdict(1, &[ready]), None);
        assert!(verdict(2, &[ready]).is_some());
        assert_eq!(verdict(2, &[inactive]), None);
        engine.set_panic_on_stall(0);
        let time = std::time::Duration::from_nanos(8);
        engine.set_panic_on_stall_time(time);
        assert_eq!(verdict(9, &[(ready.0, 7), (inactive.0, 99)]), None);
        assert!(verdict(0, &[ready]).is_some());
        assert_eq!(engine.0.watchdog.aborts_at(), None);
    }
}
