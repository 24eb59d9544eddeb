//! CPUs that come and go while the process runs, and the mask of unbound items.

use super::build::warn_of_force_rr;
use super::core::{Engine, EngineCore};
use super::parts::registry::epochs;
use crate::engine::parts::cpus::Set;
use crate::error::Error;
use crate::pool::{Maintenance, Pool};
use crate::sys::epoch::Replaced;
use crate::sys::{blocks, thread};
use crate::topology::CpuSet;
use std::sync::Arc;

impl Engine {
    /// The CPUs on which items of unbound workqueues may run, in the topology's numbers: the
    /// [requested mask](Self::set_unbound_cpumask), as far as the process may use it now.
    pub fn unbound_cpumask(&self) -> CpuSet {
        self.cpus_now().unbound().clone()
    }

    /// The CPUs that the process may use now, in the topology's numbers.
    pub fn usable_cpus(&self) -> CpuSet {
        self.cpus_now().usable().clone()
    }

    /// The unbound mask as it was requested; all CPUs at first.
    pub fn requested_unbound_cpumask(&self) -> CpuSet {
        self.cpus_now().set.requested.clone()
    }

    /// Changes the CPUs on which items of unbound workqueues may run, for all these workqueues at
    /// once. Items that are already queued finish where they are. A requested CPU that the process
    /// may not use now is remembered, and used when it becomes available. While none of the
    /// requested CPUs is available, the mask is ignored.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().build()?;
    /// engine.set_unbound_cpumask(&"0".parse()?)?; // the other CPUs are for something else
    /// assert_eq!(engine.requested_unbound_cpumask().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyCpumask`] if the topology has none of `cpus`; nothing is changed then.
    /// [`Error::Forked`].
    pub fn set_unbound_cpumask(&self, cpus: &CpuSet) -> Result<(), Error> {
        self.must_be_ours()?;
        let requested = self.requestable(cpus)?;
        self.change_cpus(|set| set.requested = requested);
        Ok(())
    }

    /// Returns those of `cpus` that the topology has, or an error if it has none of them.
    pub(super) fn requestable(&self, cpus: &CpuSet) -> Result<CpuSet, Error> {
        let all = self.topology().cpus();
        let requested = cpus.intersection(all);
        match requested.is_empty() {
            false => Ok(requested),
            true => Err(Error::EmptyCpumask {
                given: cpus.to_string(),
                allowed: all.to_string(),
            }),
        }
    }

    /// Whether items of unbound workqueues that name no CPU are sent to all CPUs in turn: see
    /// [`EngineBuilder::debug_force_rr_cpu`](super::EngineBuilder::debug_force_rr_cpu).
    pub fn debug_force_rr_cpu(&self) -> bool {
        self.cpus_now().set.force_round_robin
    }

    /// Changes [`debug_force_rr_cpu`](Self::debug_force_rr_cpu).
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn set_debug_force_rr_cpu(&self, on: bool) -> Result<(), Error> {
        self.must_be_ours()?;
        self.change_cpus(|set| set.force_round_robin = on);
        if on {
            warn_of_force_rr();
        }
        Ok(())
    }

    /// Lets `change` edit the settings. If that changes anything, this replaces the CPUs, binds all
    /// pools anew and notifies all queues.
    fn change_cpus(&self, change: impl FnOnce(&mut Set)) {
        let _one_at_a_time = self.0.cpus_change.lock();
        let now = self.cpus_now();
        let mut set = now.set.clone();
        change(&mut set);
        if set == now.set {
            return;
        }
        let new = now.with(self.topology(), set);
        let old = self.0.cpus.replace(Arc::new(new));
        drop(Replaced::retire(vec![old], epochs()));
        let cpus = self.cpus_now();
        let pools: Vec<_> = {
            let table = self.0.pools.lock();
            let entries = table.pools.iter();
            entries
                .map(|(key, entry)| (cpus.binding(key), entry.pool.clone()))
                .collect()
        };
        for (binding, pool) in pools {
            pool.rebind(binding);
        }
        for queue in self.queues() {
            queue.follow_cpus();
        }
    }

    /// Returns the real CPUs behind the unbound mask. Idle rescuers are bound to them.
    pub(crate) fn resting_place(&self) -> CpuSet {
        self.cpus_now().resting_place()
    }
}

impl Maintenance for EngineCore {
    /// Updates the CPUs that the process may use. The calling thread (the service thread) was bound
    /// to every CPU that the process could have. The CPUs that are left in its mask are those that
    /// the process may use now: hotplug, cpusets and `taskset --all-tasks` all change that mask.
    fn check_cpus(self: Arc<Self>) {
        let engine = Engine(self);
        let Ok(real) = thread::current_binding() else {
            return;
        };
        if !real.is_empty() {
            engine.change_cpus(|set| set.real = real);
        }
        engine.follow_quota();
        for pool in engine.pools() {
            pool.recall_strays();
            pool.trim_chunks();
        }
        blocks::trim();
    }

    fn watchdog(self: Arc<Self>) -> Option<u64> {
        Engine(self).watchdog()
    }

    fn tend_slots(self: Arc<Self>, now_ns: u64) -> Option<u64> {
        let pools = Engine(self.clone()).pools();
        Pool::tend_slots(&self.params, &pools, now_ns)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::WorkerThreads;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_rescuer_that_starts_while_the_mask_changes_rests_where_the_new_one_says() {
        let engine = Engine::builder().build().unwrap();
        let one = CpuSet::from_iter(engine.usable_cpus().first());
        if engine.usable_cpus() == one {
            eprintln!("skipped, because there is only one CPU");
            return;
        }
        let (started, starts) = mpsc::channel();
        let threads = WorkerThreads::new().on_start(move |_| {
            // The test may have ended by the time that a worker starts, so an error is ignored.
            let _ = started.send(thread::current_tid());
        });
        let (rescuer, building) = {
            // A thread that makes a queue needs this lock after it has started the rescuer and
            // before it adds the queue, so it waits here.
            let _not_added = engine.0.frozen.lock();
            let engine_there = engine.clone();
            let building = std::thread::spawn(move || {
                let queue = engine_there.workqueue("rescued").mem_reclaim();
                queue.worker_threads(threads).build().unwrap()
            });
            let rescuer = starts.recv_timeout(Duration::from_secs(60));
            engine.set_unbound_cpumask(&one).unwrap();
            (rescuer.expect("it starts"), building)
        };
        let _queue = building.join().unwrap();
        let rests_on = thread::binding_of(rescuer).unwrap();
        assert_eq!(rests_on, engine.resting_place());
    }
}
