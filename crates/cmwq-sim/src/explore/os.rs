//! What the random programs need of the machine, which is a virtual one here.

use super::library::topology::CpuSet;
use super::programs::Random;
/// What the engine takes for the time.
pub(crate) use cmwq_vm::os::now_ns as clock_ns;
pub(crate) use cmwq_vm::os::work as compute;
pub(crate) use cmwq_vm::os::{
    current, idle_for, observe_ns, operations, set_probe, sleep, spawn, threads_named, wake,
    yield_now,
};
use cmwq_vm::os::{prepare_sleep, sleep_unless_woken};
use cmwq_vm::{Cpus, Quota, weak};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// The caller sleeps until the condition holds. The thread that makes it hold wakes the caller.
pub(crate) fn sleep_until(holds: impl Fn() -> bool) {
    loop {
        prepare_sleep();
        if holds() {
            return;
        }
        sleep_unless_woken();
    }
}

pub(crate) use cmwq_vm::lag;

/// What threads tell each other through the library's orderings alone.
#[derive(Default)]
pub(crate) struct Seen(AtomicU64);

impl Seen {
    fn place(&self) -> (usize, u64) {
        (std::ptr::from_ref(self).addr(), self.0.load(Relaxed))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        let (address, newest) = self.place();
        match weak::is_weak() {
            true => weak::load(address, newest, order),
            false => newest,
        }
    }

    /// The value that was written last, whatever the calling thread may see.
    pub(crate) fn newest(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        let (address, newest) = self.place();
        if weak::is_weak() {
            weak::update(address, newest, newest + value, order);
        }
        self.0.fetch_add(value, order)
    }
}

/// The calling thread has this memory for itself: with a weak memory the machine knows whether it does.
pub(crate) fn alone<T>(memory: *const T) {
    weak::access_plain(memory.addr(), cmwq_vm::Access::Write);
}

/// A number of the calling thread.
pub(crate) fn thread() -> u64 {
    u64::from(current().number())
}

/// Whether the caller runs on one of these CPUs.
pub(crate) fn runs_on(cpus: &[usize]) -> bool {
    cpus.contains(&cmwq_vm::os::current_cpu())
}

/// For sections with visible operations: other virtual threads wait meanwhile, asleep.
pub(crate) fn lock_long<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The holder may be stopped for a second.
    let mut pause = Duration::from_micros(2);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => sleep(pause),
        }
        pause = (2 * pause).min(Duration::from_micros(500));
    }
}

/// Has it done by another thread, and waits for that.
pub(crate) fn on_another_thread(what: impl FnOnce() + Send + 'static) {
    let done = Rc::new(Cell::new(false));
    let (tells, waiter) = (done.clone(), current());
    let main = move || {
        what();
        tells.set(true);
        wake(waiter, None);
    };
    spawn("other", None, main).expect("memory for a stack");
    sleep_until(|| done.get());
}

/// A quota for so many CPUs, or none.
pub(crate) fn change_quota(cpus: usize, random: &mut Random) {
    let period_us = [1_000, 10_000, 100_000][random.below(3)];
    let parts = [20, 4, 1][random.below(3)];
    let quota_us = period_us * (1 + random.below(parts * cpus) as u64) / parts as u64;
    cmwq_vm::set_quota((!random.one_in(4)).then_some(Quota {
        quota_us,
        period_us,
    }));
}

/// Takes CPUs of the machine away, or gives all of them back.
pub(crate) fn change_cpus(all: &[usize], some: &CpuSet, random: &mut Random) {
    let all: Cpus = all.iter().copied().collect();
    let some: Cpus = some.iter().collect();
    let some = if some.is_empty() { all } else { some };
    cmwq_vm::set_online(if random.one_in(3) { all } else { some });
    if random.one_in(3) {
        // Until the engine has noticed.
        sleep(Duration::from_millis(1200));
    }
}
