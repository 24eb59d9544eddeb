//! Which idle worker is woken, and where it parks: see `wake/placement.rs`.
#![forbid(unsafe_code)]

use super::guard::PoolGuard;
use crate::pool::attrs::kind::PoolKind;
use crate::sys::cpu;

impl PoolGuard<'_> {
    /// Whether workers park on their preferred CPUs, and are chosen by them. Where items block, many workers take turns on each CPU, and
    /// the system places them as they wake up in their items: there preferred CPUs only cost.
    fn has_preferred_cpus(&self) -> bool {
        !cfg!(cmwq_loom)
            && self.kind() == PoolKind::Unbound
            && self.sleepers == 0
            && self.binding.len() > 1
            && self.placement().is_habit()
    }

    /// The preferred CPU of worker `id`, if it is to park there.
    pub(in crate::pool) fn preferred_cpu_of(&self, id: u32) -> Option<usize> {
        self.has_preferred_cpus()
            .then(|| self.preferred_cpu(id))
            .flatten()
    }

    fn preferred_cpu(&self, id: u32) -> Option<usize> {
        self.binding.iter().nth(id as usize % self.binding.len())
    }

    /// Which idle worker to wake: the most recently idle one that prefers the calling thread's CPU, or, if that thread goes on, another
    /// CPU. If there is none, or there are no preferred CPUs: the most recently idle one. If preferred CPUs exist but none fits, one more
    /// worker is created, up to two for each CPU, for the next waker.
    pub(in crate::pool) fn choose_idle(&mut self) -> Option<usize> {
        let last = self.idle().len().checked_sub(1)?;
        if !self.has_preferred_cpus() {
            return Some(last);
        }
        let here = cpu::current();
        let fits = |&id: &u32| (self.preferred_cpu(id) == here) != self.goes_on();
        let chosen = self.idle().iter().rposition(fits);
        if chosen.is_none() && self.workers.len() < 2 * self.binding.len() {
            self.want_worker();
        }
        Some(chosen.unwrap_or(last))
    }
}
