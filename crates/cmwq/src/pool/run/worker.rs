//! The worker's loop: search, run, search again, park.

use super::batch::{Claims, Next, Ran};
use super::bh;
use super::slice::Slice;
use super::steal::Stealing;
use crate::item::Batch;
use crate::pool::attrs::cpu_budget::Pause;
use crate::pool::attrs::threads::{self, Hooked};
use crate::pool::balance::thieves;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::state::member::Membership;
use crate::pool::state::pool::{Inner, Pool};
use crate::pool::state::worker::{WorkerHandle, WorkerSlot, WorkerState};
use crate::pool::task::call::call;
use crate::pool::task::current::become_bh;
use crate::pool::task::run::Task;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use crate::sys::forced_unwind::thread_ends;
use crate::sys::park::Parker;
use crate::sys::thread::ThreadName;
use crate::sys::{clock, cpu, task, thread};
use crate::trace::Speaker;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::Arc;

impl Pool {
    /// Enters a new worker in the pool; it counts as starting until its thread runs.
    pub(in crate::pool) fn enroll(self: &Arc<Self>) -> (u32, Arc<WorkerHandle>) {
        let handle = Arc::new(WorkerHandle {
            parker: Parker::new(),
            tid: AtomicU32::new(0),
            in_item: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            batch: CachePadded::new(Batch::new()),
        });
        let slot = WorkerSlot::new(handle.clone(), WorkerState::Starting);
        let id = self.lock().workers.insert(slot);
        (id, handle)
    }

    /// Starts a thread that works for this pool. Called by the creator, since it may block.
    pub(in crate::pool) fn start_worker(self: &Arc<Self>) -> io::Result<()> {
        let (id, handle) = self.enroll();
        self.manager.store(thread::current_tid(), Ordering::Relaxed);
        let pool = self.clone();
        let name = self.worker_name(id);
        let its_name = name.clone();
        let speaker = self.service.speaker();
        let (wishes, params) = (self.attrs.threads.as_ref(), &self.attrs.params);
        let result = threads::spawn(wishes, params, &name, move || {
            // Kept until the thread ends, so that it never calls handlers itself: the pool could
            // not use the worker while a handler runs, and the handler may wait for the pool.
            let _speaks = speaker.map(Speaker::speak);
            prepare_thread(&pool, &handle);
            // Outside of `work` the thread does not belong to the pool yet, so hooks may block like
            // any other thread.
            let about = pool.about_worker(id, &its_name);
            let hooked = Hooked::begin(pool.attrs.threads.as_ref(), about);
            {
                let _membership = Membership::enter(&pool, id);
                pool.work(id, &handle);
            }
            hooked.end();
        });
        if result.is_err() {
            let mut guard = self.lock();
            guard.stats.create_failures += 1;
            guard.workers.remove(id);
        }
        result
    }

    /// The life of worker `id`.
    pub(in crate::pool) fn work(self: &Arc<Self>, id: u32, handle: &Arc<WorkerHandle>) {
        let mut worker = Worker::new(self, id, handle);
        self.service.woke();
        let mut guard = self.lock_beside_batches();
        guard.creating = false;
        // The worker itself counts this, so that all it does comes afterwards.
        guard.stats.workers_created += 1;
        {
            let inner: &mut Inner = &mut guard;
            let slot = &mut inner.workers[id];
            inner.counts.transition_starting_to_searching(slot);
            inner.occupied.enter(&mut slot.place, cpu::current());
        }
        // Here and at the top of the loop, the lock is held and this worker counts as searching.
        loop {
            guard = worker.run_what_waits(guard);
            let leaves = guard.dying || guard.workers[id].die || handle.ends();
            // A thread that is woken may preempt this worker, and queue items. So if another worker
            // searches, this one does not count as searching meanwhile.
            if self.pending_wakeups.is_any() && (leaves || guard.searching() == 1) {
                self.inbox.expect_searcher(id, cpu::current());
                drop(guard);
                self.pending_wakeups.wake_entered();
                guard = self.lock_beside_batches();
                continue;
            }
            if leaves {
                return worker.leave(guard);
            }
            if guard.running() < guard.target() && !self.pending_wakeups.is_any() {
                let found;
                (found, guard) = worker.search_without_lock(guard);
                if found {
                    continue;
                }
            }
            guard = worker.sleep(guard);
        }
    }

    /// Takes an item if there is one and a CPU is free for it; the worker is then busy with it.
    #[inline]
    fn take(&self, guard: &mut PoolGuard<'_>, id: u32, claims: &mut Claims) -> Option<Next> {
        if guard.running() >= guard.target() {
            return None;
        }
        let next = guard.take_next(id, claims)?;
        guard.begin(id, next.taken().0);
        self.inbox.set_worked(true);
        if self.counts_all_hogs() {
            guard.watch();
        }
        // A spare, so that a worker that blocks is replaced at once (the kernel's rule).
        if guard.idle().is_empty() && guard.searching() == 0 && !self.attrs.is_bh() {
            guard.want_worker();
        }
        Some(next)
    }

    /// Runs an item or a batch, and the items that are scheduled behind it. The worker searches
    /// again afterwards.
    #[inline]
    pub(super) fn run<'p>(
        self: &'p Arc<Self>,
        mut next: Next,
        id: u32,
        handle: &WorkerHandle,
        claims: &mut Claims,
    ) -> PoolGuard<'p> {
        loop {
            let single = matches!(next, Next::One(_));
            let taken = next.taken();
            if single {
                claims.begin_item();
            }
            handle.in_item.store(true, Ordering::Relaxed);
            let ran = match next {
                Next::One(task) => self.run_one(task),
                Next::Batch(begun) => self.run_batch(begun, handle),
            };
            handle.in_item.store(false, Ordering::Relaxed);
            if ran.panicked() && thread_ends() {
                handle.ends.store(true, Ordering::Relaxed);
            }
            let took_ns = claims.measured_ns();
            self.pending_wakeups.wake_if_expired();
            let mut guard = self.lock_after_run();
            // Items of a batch are short: the worker has measured single ones.
            if let Some(took_ns) = took_ns {
                match single {
                    true => guard.pace.note(took_ns),
                    false => guard.note_batch_time(id, taken, took_ns),
                }
            }
            let behind = guard.end_ran(id, ran);
            guard.end(id);
            let Some(behind) = behind else { return guard };
            guard.begin(id, behind.run.pwq);
            drop(guard);
            next = Next::One(behind);
        }
    }

    #[inline]
    fn run_one(self: &Arc<Self>, task: Task) -> Ran {
        let Task { started, run } = task;
        let panicked = match self.attrs.is_bh() {
            true => self.run_without_sleep(started, run),
            false => call(started, run.current),
        };
        Ran::One { run, panicked }
    }

    /// Spins on the inbox for as long as has paid off lately. `expects_one`: the worker took a
    /// single item last time. `for_a_steal`: whether it also looks for a pool to steal from; it
    /// does not while a pool wants thieves from which this worker cannot steal.
    fn spin(&self, expects_one: bool, for_a_steal: bool) {
        // The next issuer need not call a worker.
        self.inbox.drop_notify();
        // Each case has a loop of its own, because a cheaper poll sees an item sooner.
        let steals = for_a_steal && self.steals();
        let found = match (self.attrs.params.slots.is_limited(), steals) {
            (true, _) => self.spin_unless_slots_are_wanted(),
            (false, true) => self.spin_for_work_or_a_steal(),
            (false, false) => self.spin_budget.wait(|| self.inbox.has_news()),
        };
        if found && expects_one {
            self.inbox.prefetch_item();
        }
    }
}

impl Pool {
    /// Sleeps if the process has used more CPU time than its quota allows.
    #[inline]
    pub(super) fn pause_below_quota<'p>(
        self: &'p Arc<Self>,
        guard: PoolGuard<'p>,
    ) -> PoolGuard<'p> {
        match self.attrs.params.cpu_budget.pause_due() {
            Some(pause) if guard.something_waits() => self.pause(guard, pause),
            _ => guard,
        }
    }

    #[cold]
    fn pause<'p>(self: &'p Arc<Self>, guard: PoolGuard<'p>, pause: Pause) -> PoolGuard<'p> {
        drop(guard);
        self.pending_wakeups.wake_entered();
        self.attrs.params.cpu_budget.pause(pause);
        self.lock_beside_batches()
    }

    /// Spins for the pool's own work, or a victim.
    #[inline(never)]
    fn spin_for_work_or_a_steal(&self) -> bool {
        let finds = || self.inbox.has_news() || self.has_victims();
        self.spin_budget.wait(finds)
    }

    /// Spins for a worker that holds a running slot: the spin also ends when another pool needs the
    /// slot.
    #[inline(never)]
    fn spin_unless_slots_are_wanted(&self) -> bool {
        let finds = || self.inbox.has_news() || self.has_victims();
        self.spin_budget.wait(|| finds() || self.slots_are_wanted()) && self.inbox.has_news()
    }
}

/// What a worker keeps for itself while it lives.
struct Worker<'p> {
    pool: &'p Arc<Pool>,
    id: u32,
    handle: &'p Arc<WorkerHandle>,
    stealing: Stealing,
    /// BH pools only.
    budget: Option<bh::Budget>,
    claims: Claims,
    name: ThreadName,
    restores_name: bool,
    /// Whether it took a single item last time.
    took_one: bool,
    /// The thread's CPU time when it slept last.
    slept_cpu_ns: u64,
    slice: Slice,
}

impl<'p> Worker<'p> {
    fn new(pool: &'p Arc<Pool>, id: u32, handle: &'p Arc<WorkerHandle>) -> Self {
        let is_bh = pool.attrs.is_bh();
        if is_bh {
            become_bh(pool.id);
        }
        Worker {
            pool,
            id,
            handle,
            stealing: Stealing::new(pool, handle),
            budget: is_bh.then(bh::Budget::new),
            claims: Claims::up_to(pool.attrs.batch),
            name: pool.own_name(id),
            restores_name: pool.restores_names(),
            took_one: true,
            slept_cpu_ns: 0,
            slice: Slice::default(),
        }
    }

    /// Runs items as long as some wait and a CPU is free for them.
    #[inline]
    fn run_what_waits(&mut self, mut guard: PoolGuard<'p>) -> PoolGuard<'p> {
        let pool = self.pool;
        let mut is_first = true;
        loop {
            guard = pool.pause_below_quota(guard);
            if self.handle.ends() {
                return guard;
            }
            // What an item starts inherits the CPUs of its thread. An issuer may have moved this
            // worker whenever the lock was free.
            guard = self.unbind(guard);
            let Some(next) = pool.take(&mut guard, self.id, &mut self.claims) else {
                if guard.left > 0 || guard.running() >= guard.target() {
                    return guard;
                }
                // This holding of the lock has done its share, and more is staged.
                guard = pool.lock_again_beside_batches(guard);
                continue;
            };
            if std::mem::take(&mut is_first) && guard.running() == 1 {
                guard.first_has_begun();
            }
            drop(guard);
            self.took_one = matches!(next, Next::One(_));
            guard = pool.run(next, self.id, self.handle, &mut self.claims);
            if guard.rest.is_some() && guard.something_waits() {
                // Events may take long, since they take locks of other pools. So they are done
                // before the next items are taken.
                drop(guard);
                guard = pool.lock_beside_batches();
            }
            // Few pools do anything after an item.
            if self.restores_name || self.budget.is_some() {
                guard = self.after_item(guard);
            }
        }
    }

    #[inline(never)]
    fn after_item(&mut self, guard: PoolGuard<'p>) -> PoolGuard<'p> {
        let spent = self.budget.as_mut().is_some_and(bh::Budget::is_spent);
        if !self.restores_name && !spent {
            return guard;
        }
        drop(guard);
        if self.restores_name {
            self.name.restore();
        }
        if spent {
            task::yield_now();
        }
        self.pool.lock_beside_batches()
    }

    /// Called when the worker has nothing to run: steals, or spins. Returns `true` if something may
    /// wait.
    fn search_without_lock(&mut self, guard: PoolGuard<'p>) -> (bool, PoolGuard<'p>) {
        let pool = self.pool;
        // Only one worker spins: a second would not see an item sooner.
        let alone = guard.searching() == 1;
        let yields_slot = guard.others_want_slots();
        let may_steal = guard.spare_cpus() > 0;
        pool.inbox.none_accepted();
        drop(guard);
        let wanted = may_steal && self.stealing.finds(pool);
        if wanted {
            pool.attrs.params.cpu_budget.keep();
            if thieves::away(pool, self.id, || pool.steal(&mut self.stealing)) {
                return (true, pool.lock_beside_batches());
            }
        }
        if alone && !yields_slot {
            pool.service.woke();
            pool.inbox.expect_searcher(self.id, cpu::current());
            pool.spin(self.took_one, !pool.has_victims());
        }
        let guard = self.unbind(pool.lock_beside_batches());
        // The lock was free meanwhile, so check again.
        let finds_victim = guard.spare_cpus() > 0 && self.stealing.finds(pool);
        let finds_work = guard.something_waits() || finds_victim;
        let found = guard.dying || (guard.running() < guard.target() && finds_work);
        (found, guard)
    }

    /// Parks until the worker is woken; it counts as searching again then.
    fn sleep(&mut self, mut guard: PoolGuard<'p>) -> PoolGuard<'p> {
        let pool = self.pool;
        if guard.running() == 0 {
            pool.inbox.set_worked(false);
        }
        let since_ns = clock::now_ns();
        let lacks_work = !guard.something_waits();
        {
            let inner: &mut Inner = &mut guard;
            let slot = &mut inner.workers[self.id];
            slot.woken = false;
            inner.occupied.enter(&mut slot.place, cpu::current());
            inner.occupied.leave(&mut slot.place);
            inner
                .counts
                .transition_searching_to_idle(self.id, slot, since_ns);
        }
        guard.cull_later();
        drop(guard);
        self.name.restore();
        pool.pending_wakeups.wake_entered();
        // A system call, at whose end the system may let another thread run, perhaps one that this
        // worker has just woken. So it is made while the lock is free.
        let cpu_ns = thread::cpu_time_of_current_ns();
        let used_ns = cpu_ns - std::mem::replace(&mut self.slept_cpu_ns, cpu_ns);
        // The thread that picks this worker takes it off the idle list and counts it as searching.
        let mut guard = loop {
            self.handle.parker.park();
            pool.service.woke();
            let guard = pool.lock_beside_batches();
            if guard.workers[self.id].state == WorkerState::Searching {
                break guard;
            }
            drop(guard);
            // The token of a thread that picked this worker earlier and was preempted then, so that
            // another one woke it. It may have bound this worker since.
            pool.bind_to_pod();
        };
        if let Some(budget) = &mut self.budget {
            budget.renew();
        }
        let inner: &mut Inner = &mut guard;
        let slot = &mut inner.workers[self.id];
        inner.occupied.woke(&mut slot.place, cpu::current());
        let is_brief = inner.occupied.note_wake_up(used_ns);
        self.slice.note_sleep(since_ns, used_ns, lacks_work);
        if self.slice.is_to_change(is_brief) {
            drop(guard);
            self.slice.change();
            guard = pool.lock_beside_batches();
        }
        guard
    }

    /// Binds the worker to the whole pod again if it was bound to a part of it.
    #[inline]
    fn unbind(&self, mut guard: PoolGuard<'p>) -> PoolGuard<'p> {
        while guard.workers[self.id].place.take_bound() {
            drop(guard);
            self.pool.bind_to_pod();
            guard = self.pool.lock_beside_batches();
        }
        guard
    }

    fn leave(self, mut guard: PoolGuard<'p>) {
        let mut slot = guard.workers.remove(self.id);
        guard.occupied.leave(&mut slot.place);
        guard.leaving -= u32::from(slot.die);
        guard.counts.transition_searching_to_gone(slot);
        drop(guard);
        thread::rename_current(c"kworker/dying");
    }
}

/// The first steps of a new worker's thread, which inherits its creator's CPUs and nice level.
fn prepare_thread(pool: &Arc<Pool>, handle: &WorkerHandle) {
    {
        let _guard = pool.lock();
        // Set under the lock, so that a thread that changes the binding later finds this thread.
        handle
            .tid
            .store(thread::current_tid() as u32, Ordering::Relaxed);
    }
    pool.bind_to_pod();
    if pool.attrs.nice != 0 {
        // Not permitted: the queue still works, at the process's level, which can be queried.
        let _ = thread::set_nice_current(pool.attrs.nice);
    }
    if let Some(nice) = thread::nice_of_current() {
        pool.nice.store(nice, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
