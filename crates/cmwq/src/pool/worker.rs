//! The worker's loop: search, run, search again, sleep.

use super::batch::{Next, Ran, Size};
use super::bh;
use super::guard::Task;
use super::help::{self, Neighbours, run_item};
use super::rare::Rarity;
use super::{
    Busy, Inner, Pool, PoolGuard, PoolKind, WorkerHandle, WorkerSlot, WorkerState, placing,
};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use crate::sys::park::Parker;
use crate::sys::{clock, task, thread};
use crate::work::Batch;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::Arc;

impl Pool {
    /// Enters a new worker in the pool; it counts as starting until its thread runs.
    pub(super) fn enroll(self: &Arc<Self>) -> (u32, Arc<WorkerHandle>) {
        let handle = Arc::new(WorkerHandle {
            parker: Parker::new(),
            tid: AtomicU32::new(0),
            in_item: AtomicBool::new(false),
            woken_from: AtomicU32::new(placing::NOT_ASKED),
            batch: CachePadded::new(Batch::new()),
        });
        let slot = WorkerSlot {
            handle: handle.clone(),
            state: WorkerState::Starting,
            runs: 0,
            seen_runs: 0,
            seen_cpu_ns: 0,
            seen_counted: true,
            since_cpu_ns: 0,
            pwq: 0,
            woken: false,
            charged_cpu_ns: 0,
            die: false,
            batch: None,
            interrupted: None,
        };
        let id = self.lock().workers.insert(slot);
        (id, handle)
    }

    /// Starts a thread that works for this pool. Called by the service thread, never by an issuer.
    pub(super) fn start_worker(self: &Arc<Self>) -> io::Result<()> {
        let (id, handle) = self.enroll();
        let pool = self.clone();
        let name = self.worker_name(id);
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

    /// As the kernel names its workers; its BH pools have no threads, so those names are ours.
    fn worker_name(&self, id: u32) -> String {
        let high = if self.attrs.nice < 0 { "H" } else { "" };
        match self.attrs.kind {
            PoolKind::Unbound => format!("kworker/u{}:{id}", self.id),
            PoolKind::PerCpu(cpu) => format!("kworker/{cpu}:{id}{high}"),
            PoolKind::Bh(cpu) => format!("kworker/b{cpu}:{id}{high}"),
        }
    }

    /// The life of worker `id`.
    pub(super) fn work(self: &Arc<Self>, id: u32, handle: &WorkerHandle) {
        let mut neighbours = Neighbours::new();
        let mut budget = matches!(self.attrs.kind, PoolKind::Bh(_)).then(bh::Budget::new);
        let mut size = Size::new(self.attrs.batch);
        let mut rarity = Rarity::new();
        let mut took_one = true;
        let mut guard = self.lock_beside_batches();
        guard.creating = false;
        guard.searching += 1;
        guard.workers[id].state = WorkerState::Searching;
        // Here and at the top of the loop: the lock is held, and this worker counts as searching.
        loop {
            while let Some(next) = self.take(&mut guard, id, &mut size) {
                drop(guard);
                took_one = matches!(next, Next::One(_));
                rarity.take();
                guard = self.run(next, id, handle, &mut size);
                if let Some(budget) = &mut budget
                    && budget.is_spent()
                {
                    drop(guard);
                    task::yield_now();
                    guard = self.lock_beside_batches();
                }
            }
            if self.untold.is_any() {
                drop(guard);
                self.untold.tell();
                guard = self.lock_beside_batches();
                continue;
            }
            if guard.dying || guard.workers[id].die {
                guard.searching -= 1;
                let slot = guard.workers.remove(id);
                guard.leaving -= u32::from(slot.die);
                drop(guard);
                thread::rename_current(c"kworker/dying");
                return;
            }
            if guard.running < guard.target {
                // Only one worker waits awake: a second would not make the answer faster.
                let alone = guard.searching == 1;
                self.inbox.none_accepted();
                drop(guard);
                if self.neighbours_want_help()
                    && help::away(self, id, || self.help(&mut neighbours))
                {
                    guard = self.lock_beside_batches();
                    continue;
                }
                if alone {
                    self.helper.woke();
                    self.wait_awake(took_one);
                }
                guard = self.lock_beside_batches();
                // The lock was free meanwhile: what was true before may not be any more.
                if guard.dying || (guard.running < guard.target && self.has_waiting(&guard)) {
                    continue;
                }
            }
            guard.searching -= 1;
            if guard.running == 0 {
                self.inbox.set_worked(false);
            }
            let since_ns = clock::now_ns();
            guard.workers[id].state = WorkerState::Idle { since_ns };
            guard.workers[id].woken = false;
            guard.idle.push(id);
            guard.cull_later();
            let home = guard.home_of(id);
            drop(guard);
            rarity.sleep(since_ns);
            self.sleep(home, handle);
            self.helper.woke();
            if let Some(budget) = &mut budget {
                budget.renew();
            }
            // Whoever woke us took us off the idle list and counts us as searching.
            guard = self.lock_beside_batches();
        }
    }

    fn has_waiting(&self, guard: &PoolGuard<'_>) -> bool {
        guard.has_waiting() || !self.inbox.is_empty()
    }

    /// Takes an item if one is there and a CPU is to be had for it; the worker is then busy with it.
    #[inline]
    fn take(&self, guard: &mut PoolGuard<'_>, id: u32, size: &mut Size) -> Option<Next> {
        if guard.running >= guard.target && !guard.take_back_stale() {
            return None;
        }
        let next = guard.take_next(id, size)?;
        let (pwq, cpu_intensive) = match &next {
            Next::One(task) => {
                guard.will_go_on();
                (task.run.pwq, task.run.cpu_intensive)
            }
            Next::Batch(begun) => (begun.pwq(), false),
        };
        guard.begin(id, pwq, cpu_intensive);
        self.inbox.set_worked(true);
        // A spare, so that the place of a worker that blocks is filled at once (the kernel's rule).
        if guard.idle.is_empty()
            && guard.searching == 0
            && !matches!(self.attrs.kind, PoolKind::Bh(_))
        {
            guard.want_worker();
        }
        Some(next)
    }

    /// Runs an item or a batch, and what is scheduled behind it, and comes back searching.
    #[inline]
    fn run<'p>(
        self: &'p Arc<Self>,
        mut next: Next,
        id: u32,
        handle: &WorkerHandle,
        size: &mut Size,
    ) -> PoolGuard<'p> {
        loop {
            handle.in_item.store(true, Ordering::Relaxed);
            let ran = match next {
                Next::One(task) => self.run_one(task),
                Next::Batch(begun) => self.run_batch(begun, handle),
            };
            handle.in_item.store(false, Ordering::Relaxed);
            size.learn();
            self.tell_singles(size.is_on_trial());
            self.untold.tell_if_due(&self.attrs.cpus);
            let mut guard = self.lock_beside_batches();
            let behind = guard.end_ran(id, ran);
            guard.end(id);
            let Some(behind) = behind else { return guard };
            guard.begin(id, behind.run.pwq, behind.run.cpu_intensive);
            drop(guard);
            next = Next::One(behind);
        }
    }

    #[inline]
    fn run_one(self: &Arc<Self>, task: Task) -> Ran {
        let Task { started, run } = task;
        let panicked = match self.attrs.kind {
            PoolKind::Bh(_) => self.run_without_sleep(started, run),
            _ => run_item(started, run),
        };
        Ran::One { run, panicked }
    }

    /// Looks at the inbox for as long as has paid off lately. `expects_one`: what the worker took last was a single item.
    fn wait_awake(&self, expects_one: bool) {
        // The next publisher need not call anybody.
        self.inbox.drop_notify();
        if self.allowance.wait(|| self.inbox.has_news()) && expects_one {
            self.inbox.ask_for_item();
        }
    }
}

impl Inner {
    /// Worker `id`, which is searching, is busy with an item from now on.
    #[inline]
    fn begin(&mut self, id: u32, pwq: u32, cpu_intensive: bool) {
        self.searching -= 1;
        let slot = &mut self.workers[id];
        slot.runs += 1;
        slot.pwq = pwq;
        self.pwqs[pwq].stats.wakeups += u64::from(std::mem::take(&mut slot.woken));
        if cpu_intensive {
            slot.state = WorkerState::Busy(Busy::CpuIntensive);
        } else {
            slot.state = WorkerState::Busy(Busy::Running);
            self.running += 1;
        }
    }

    /// Its item has ended: it is searching again.
    #[inline]
    fn end(&mut self, id: u32) {
        let slot = &mut self.workers[id];
        self.running -= u32::from(slot.state == WorkerState::Busy(Busy::Running));
        slot.state = WorkerState::Searching;
        self.searching += 1;
    }

    /// Worker `id`, which is running, does not count any more: another takes over if something waits.
    pub(super) fn step_out(&mut self, id: u32, from_now: Busy) {
        self.workers[id].state = WorkerState::Busy(from_now);
        self.running -= 1;
        let takes_over = self.running < self.target && self.has_waiting();
        let stats = &mut self.pwqs[self.workers[id].pwq].stats;
        match from_now {
            Busy::Blocked => stats.cm_wakeups += u64::from(takes_over),
            Busy::CpuIntensive => stats.cpu_intensive += 1,
            Busy::Running => unreachable!("it would still count"),
        }
    }
}

/// What a new worker's thread does first: it inherits its creator's CPUs and nice level.
fn prepare_thread(pool: &Arc<Pool>, handle: &WorkerHandle) {
    {
        let _guard = pool.lock();
        // Under the lock: whoever changes the binding after this finds the thread.
        handle
            .tid
            .store(thread::current_tid() as u32, Ordering::Relaxed);
    }
    pool.bind_to_pod();
    if pool.attrs.nice != 0 {
        // Not permitted: the queue still works, at the level that the process has, which can be asked for.
        let _ = thread::set_nice_current(pool.attrs.nice);
    }
    if let Some(nice) = thread::nice_of_current() {
        pool.nice.store(nice, Ordering::Relaxed);
    }
}
