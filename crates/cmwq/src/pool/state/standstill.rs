//! For how long a pool has started nothing while something waits: the `hung` of dumps.
//!
//! Nothing reads the clock when an item begins or begins to wait. A thread that polls the pool
//! anyway compares with the last poll: the monitor every 2 ms while a saturated pool has something
//! waiting, the service thread while no worker can be created, and dumps.
#![forbid(unsafe_code)]

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::pool) struct Standstill {
    /// Items started at the last poll.
    started: u64,
    /// When the standstill began, by the coarse clock; `None` if nothing waited at the last poll.
    pub(in crate::pool) since_ns: Option<u64>,
}

impl Standstill {
    pub(in crate::pool) fn observe(&mut self, waits: bool, started: u64, now_ns: u64) {
        if self.started != started || !waits {
            self.since_ns = None;
        }
        self.started = started;
        if waits {
            self.since_ns.get_or_insert(now_ns);
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::Standstill;

    #[test]
    fn it_lasts_as_long_as_something_waits_and_nothing_begins() {
        let mut seen = Standstill::default();
        let looks = [
            (false, 7, 100, None),
            (true, 7, 200, Some(200)),
            (true, 7, 300, Some(200)),
            (true, 8, 400, Some(400)),
            (true, 8, 500, Some(400)),
            (false, 8, 600, None),
            (true, 8, 700, Some(700)),
        ];
        for (waits, started, now_ns, since_ns) in looks {
            seen.observe(waits, started, now_ns);
            assert_eq!(seen.since_ns, since_ns, "at {now_ns}");
        }
    }
}
