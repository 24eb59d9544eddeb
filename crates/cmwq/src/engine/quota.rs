//! The limit on the workers that run at once: the program's setting, or the CPU quota.
#![forbid(unsafe_code)]

use super::core::Engine;
use super::parts::limit::{CpuLimit, Limit, REREAD_NS};
use crate::error::Error;
use crate::sys::{clock, cpu};
use crate::topology::CpuQuota;

impl Engine {
    /// Returns the setting of the limit on the workers that run at once. By default it follows the
    /// CPU quota.
    pub fn cpu_limit(&self) -> CpuLimit {
        if self.is_inherited() {
            return CpuLimit::Auto;
        }
        self.0.limit.lock().setting
    }

    /// Changes how many workers may run at once, for all pools together. Items that run go on; with
    /// a lower limit, their workers park when those items end.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().build()?;
    /// engine.set_cpu_limit("2".parse()?)?; // two workers at a time, over all pools
    /// assert_eq!(engine.cpu_limit().to_string(), "2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn set_cpu_limit(&self, setting: CpuLimit) -> Result<(), Error> {
        self.must_be_ours()?;
        let mut limit = self.0.limit.lock();
        limit.setting = setting;
        limit.read();
        self.apply(&mut limit);
        Ok(())
    }

    /// Returns how many workers may run at once now, over all pools. `None`: there is no limit, and
    /// each pod runs as many as it has CPUs. In the child of a fork the result is `None`.
    pub fn running_limit(&self) -> Option<u32> {
        if self.is_inherited() {
            return None;
        }
        self.0.params.slots.limit()
    }

    /// Returns the CPU quota of the process as it is now, whether the engine obeys it or not. This
    /// reads the system's files.
    pub fn cpu_quota(&self) -> CpuQuota {
        cpu::quota()
    }

    /// Returns how often a thread that runs items (a worker, or a thread that runs the item that it
    /// waits for) has paused so that the process does not use up its quota.
    pub fn cpu_quota_pauses(&self) -> u64 {
        self.0.params.cpu_budget.pauses()
    }

    /// Reads the quota again when that is due, whatever the setting is: the number of usable CPUs
    /// may have changed as well.
    pub(crate) fn follow_quota(&self) {
        let mut limit = self.0.limit.lock();
        let passed_ns = clock::now_ns().saturating_sub(limit.read_ns);
        let due = limit.setting == CpuLimit::Auto && passed_ns >= REREAD_NS;
        let throttled = due.then(|| limit.read_again()).flatten();
        self.apply(&mut limit);
        if let Some((throttled_us, passed_us)) = throttled {
            self.0.params.cpu_budget.learn(throttled_us, passed_us);
        }
    }

    /// Applies the limit. The lock of the limit serialises the callers; it is taken before the lock
    /// of the table of pools.
    fn apply(&self, limit: &mut Limit) {
        let slots = &self.0.params.slots;
        let cpus = self.cpus_now().set.real.len();
        self.0.params.cpu_budget.set(limit.share(cpus));
        let workers = limit.workers(cpus);
        if slots.limit() == workers {
            return;
        }
        slots.set_limit(workers);
        for pool in self.pools() {
            pool.follow_limit();
        }
        // A raised limit frees slots although no holder has given one back, so they are handed out
        // here.
        slots.hand_out(0);
    }
}
