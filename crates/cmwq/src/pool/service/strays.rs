//! Workers that were bound elsewhere: by `taskset --all-tasks`, or by a cpuset that was shrunk and
//! grown again.
#![forbid(unsafe_code)]

use crate::pool::attrs::kind::Binding;
use crate::pool::state::pool::Pool;
use crate::pool::state::worker::WorkerHandle;
use crate::sys::thread;
use std::sync::Arc;

impl Pool {
    /// Called when CPUs have come or gone: binds the workers to `binding`. Their items go on
    /// meanwhile.
    pub(crate) fn rebind(self: &Arc<Self>, binding: Binding) {
        {
            let mut guard = self.lock();
            guard.binding = Arc::new(binding.cpus);
            guard.associated = binding.associated;
            guard.cpus = binding.target.max(1);
            guard.allow_sleepers(0, 0);
        }
        self.recall_strays();
    }

    /// Binds workers that are bound elsewhere to the pool's CPUs again. That happens because a
    /// process is moved to other CPUs thread by thread, and perhaps moved back before the engine
    /// has checked.
    pub(crate) fn recall_strays(self: &Arc<Self>) {
        for (id, worker) in self.strays() {
            self.recall(id, &worker);
        }
    }

    /// The workers that seem to have a wrong binding. A worker may have ended meanwhile, and
    /// another thread may have its thread id.
    fn strays(self: &Arc<Self>) -> Vec<(u32, Arc<WorkerHandle>)> {
        let (binding, workers): (_, Vec<_>) = {
            let guard = self.lock();
            let workers = guard
                .own_workers()
                .map(|(id, worker)| (id, worker.handle.clone()));
            (guard.binding.clone(), workers.collect())
        };
        // This takes a system call for each worker, so the lock is not held. A worker that has not
        // begun yet binds itself.
        let strays = workers.into_iter().filter(|(_, worker)| {
            let tid = worker.tid();
            tid != 0 && thread::binding_of(tid).is_ok_and(|now| now != *binding)
        });
        strays.collect()
    }

    /// Binds one worker anew, if it is still there.
    fn recall(self: &Arc<Self>, id: u32, worker: &Arc<WorkerHandle>) {
        // A worker takes the lock before its thread ends. So as long as the lock is held here, its
        // thread id cannot belong to another thread.
        let mut guard = self.lock();
        let binding = guard.binding.clone();
        let slot = guard.workers.get_mut(id);
        if slot.is_some_and(|slot| Arc::ptr_eq(&slot.handle, worker)) {
            // Refused if the worker may use none of these CPUs.
            let _ = thread::bind_other(worker.tid(), &binding);
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::silent::Made;
    use crate::sys::atomic::Ordering;
    use crate::topology::CpuSet;

    /// A pool whose workers belong on `cpus`.
    fn pool(cpus: &CpuSet) -> Arc<Pool> {
        // No pool of this process has such a number.
        let cpus = cpus.clone();
        Made {
            cpus,
            ..Made::default()
        }
        .pool(1021)
    }

    /// A worker that begins on the calling thread.
    fn begin(pool: &Arc<Pool>) -> (u32, Arc<WorkerHandle>) {
        let (id, worker) = pool.enroll();
        let tid = thread::current_tid() as u32;
        worker.tid.store(tid, Ordering::Relaxed);
        (id, worker)
    }

    #[test]
    fn a_thread_that_got_the_id_of_a_worker_that_is_gone_is_left_alone() {
        let all = thread::current_binding().unwrap();
        let one = CpuSet::from_iter(all.first());
        if all == one {
            eprintln!("skipped, because there is only one CPU");
            return;
        }
        let pool = pool(&all);
        thread::bind_current(&one).unwrap();
        // The calling thread is the worker that has ended, the stranger with its thread id, and the
        // worker with its number.
        let (id, gone) = begin(&pool);
        assert_eq!(pool.strays().len(), 1, "it is bound elsewhere");
        pool.lock().workers.remove(id);
        pool.recall(id, &gone);
        assert_eq!(thread::current_binding().unwrap(), one, "a stranger");
        let (other, _) = begin(&pool);
        assert_eq!(other, id);
        pool.recall(id, &gone);
        assert_eq!(thread::current_binding().unwrap(), one, "not who was seen");
        pool.recall_strays();
        assert_eq!(thread::current_binding().unwrap(), all, "a worker");
        pool.lock().workers.remove(other);
    }
    #[test]
    fn a_worker_is_bound_to_the_new_cpus_of_its_pool_when_they_change() {
        let all = thread::current_binding().unwrap();
        let one = CpuSet::from_iter(all.first());
        let pool = pool(&all);
        let (id, _) = begin(&pool);
        pool.rebind(Binding {
            cpus: one.clone(),
            associated: true,
            target: 1,
        });
        let bound = thread::current_binding().unwrap();
        thread::bind_current(&all).unwrap();
        pool.lock().workers.remove(id);
        assert_eq!(bound, one);
    }
}
