//! The worker's loop: search, run, search again, sleep.

use super::guard::Task;
use super::help::{self, Neighbours, run_item};
use super::{Pool, PoolGuard, WorkerHandle, WorkerSlot, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::park::Parker;
use crate::sys::{clock, thread};
use std::io;
use std::sync::Arc;

impl Pool {
    /// Enters a new worker in the pool; it counts as starting until its thread runs.
    pub(super) fn enroll(self: &Arc<Self>) -> (u32, Arc<WorkerHandle>) {
        let handle = Arc::new(WorkerHandle {
            parker: Parker::new(),
            tid: AtomicU32::new(0),
        });
        let slot = WorkerSlot {
            handle: handle.clone(),
            state: WorkerState::Starting,
            runs: 0,
            seen_runs: 0,
            seen_cpu_ns: 0,
            seen_counted: true,
            die: false,
        };
        let id = self.lock().workers.insert(slot);
        (id, handle)
    }

    /// Starts a thread that works for this pool. Called by the service thread, never by an issuer.
    pub(super) fn start_worker(self: &Arc<Self>) -> io::Result<()> {
        let (id, handle) = self.enroll();
        let pool = self.clone();
        let name = format!("kworker/u{}:{id}", self.id);
        let result = thread::spawn(&name, move || {
            prepare_thread(&pool, &handle);
            let _membership = super::block::Membership::enter(&pool, id);
            pool.work(id, &handle);
        });
        let mut guard = self.lock();
        match result {
            Ok(()) => guard.stats.workers_created += 1,
            Err(_) => {
                guard.stats.create_failures += 1;
                guard.workers.remove(id);
            }
        }
        drop(guard);
        result
    }

    /// The life of worker `id`.
    pub(super) fn work(self: &Arc<Self>, id: u32, handle: &WorkerHandle) {
        let mut neighbours = Neighbours::new();
        let mut guard = self.lock();
        guard.creating = false;
        guard.searching += 1;
        guard.workers[id].state = WorkerState::Searching;
        // Here and at the top of the loop: the lock is held, and this worker counts as searching.
        loop {
            while let Some(task) = self.take(&mut guard, id) {
                drop(guard);
                guard = self.run(task, id);
            }
            if guard.dying || guard.workers[id].die {
                guard.searching -= 1;
                let slot = guard.workers.remove(id);
                guard.leaving -= u32::from(slot.die);
                return;
            }
            if guard.running < self.target {
                // Only one worker waits awake: a second would not make the answer faster.
                let alone = guard.searching == 1;
                drop(guard);
                if self.neighbours_want_help()
                    && help::away(self, id, || self.help(&mut neighbours))
                {
                    guard = self.lock();
                    continue;
                }
                if alone {
                    self.wait_awake();
                }
                guard = self.lock();
                // The lock was free meanwhile: what was true before may not be any more.
                if guard.dying || (guard.running < self.target && self.has_waiting(&guard)) {
                    continue;
                }
            }
            guard.searching -= 1;
            guard.workers[id].state = WorkerState::Idle {
                since_ns: clock::now_ns(),
            };
            guard.idle.push(id);
            guard.cull_later();
            drop(guard);
            handle.parker.park();
            // Whoever woke us took us off the idle list and counts us as searching.
            guard = self.lock();
        }
    }

    fn has_waiting(&self, guard: &PoolGuard<'_>) -> bool {
        !guard.worklist.is_empty() || !self.inbox.is_empty()
    }

    /// Takes an item if one is there and a CPU is to be had for it; the worker then counts as running.
    #[inline]
    fn take(&self, guard: &mut PoolGuard<'_>, id: u32) -> Option<Task> {
        if guard.running >= self.target {
            return None;
        }
        let task = guard.next_task()?;
        guard.searching -= 1;
        guard.running += 1;
        let slot = &mut guard.workers[id];
        slot.state = WorkerState::Busy { counted: true };
        slot.runs += 1;
        // A spare, so that the place of a worker that blocks is filled at once (the kernel's rule).
        if guard.idle.is_empty() && guard.searching == 0 {
            guard.want_worker();
        }
        Some(task)
    }

    /// Runs an item and what is scheduled behind it, and comes back searching.
    #[inline]
    fn run<'p>(self: &'p Arc<Self>, task: Task, id: u32) -> PoolGuard<'p> {
        let mut task = task;
        loop {
            let Task { started, run } = task;
            let panicked = run_item(started, run);
            let mut guard = self.lock();
            let next = guard.end_task(run, panicked);
            let slot = &mut guard.workers[id];
            match next {
                Some(next) => {
                    slot.runs += 1;
                    drop(guard);
                    task = next;
                }
                None => {
                    let counted = slot.state == (WorkerState::Busy { counted: true });
                    slot.state = WorkerState::Searching;
                    guard.running -= u32::from(counted);
                    guard.searching += 1;
                    return guard;
                }
            }
        }
    }

    /// Looks at the inbox for as long as has paid off lately.
    fn wait_awake(&self) {
        // The next publisher need not call anybody.
        self.inbox.drop_notify();
        self.allowance.wait(|| !self.inbox.is_empty());
    }
}

/// What a new worker's thread does first: it inherits its creator's CPUs and nice level.
fn prepare_thread(pool: &Pool, handle: &WorkerHandle) {
    handle
        .tid
        .store(thread::current_tid() as u32, Ordering::Relaxed);
    // Refused when none of the CPUs is allowed any more (a cpuset that has shrunk): better to run elsewhere than not.
    let _ = thread::bind_current(&pool.attrs.binding);
    if pool.attrs.nice != 0 {
        // Not permitted: the queue still works, at the level that the process has.
        let _ = thread::set_nice_current(pool.attrs.nice);
    }
}
