//! What the random programs need of the machine: real threads, and CPUs that come and go. The
//! service thread takes the CPUs that it is bound to for the process's, so binding it is enough.
//! (`../harness/thread_creation.rs` refuses workers.)

use super::programs::{Random, lock};
use cmwq::topology::CpuSet;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) use std::thread::{sleep, yield_now};

/// An item computes so much longer than on a simulated machine, or others would seldom meet it.
const LONGER: u64 = 8;
/// But no longer than this: there are millions.
const LONGEST: Duration = Duration::from_micros(100);

pub(crate) fn observe_ns() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed().as_nanos() as u64
}

pub(crate) use observe_ns as clock_ns;

/// What threads tell each other through the library's orderings alone.
pub(crate) use std::sync::atomic::AtomicU64 as Seen;

/// The calling thread has this memory for itself: a sanitizer sees whether it does.
pub(crate) fn alone<T>(_memory: *const T) {}

/// Whether the calling thread is slow from now on, where that can be had.
pub(crate) fn lag(_lags: bool) {}

pub(crate) fn compute(ns: u64) {
    let (began, time) = (
        Instant::now(),
        Duration::from_nanos(LONGER * ns).min(LONGEST),
    );
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A number of the calling thread, which is no other one's while it lives.
pub(crate) fn thread() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}

/// Whether the caller runs on one of these CPUs, as far as can be told: the machine is not the topology's.
pub(crate) fn runs_on(_cpus: &[usize]) -> bool {
    true
}

/// For sections in which the library is called.
pub(crate) fn lock_long<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    lock(mutex)
}

/// Has it done by another thread, and waits for that.
pub(crate) fn on_another_thread(what: impl FnOnce() + Send + 'static) {
    std::thread::spawn(what).join().expect("it does not panic");
}

/// Takes CPUs of the process away, or gives all of them back.
pub(crate) fn change_cpus(_all: &[usize], _some: &CpuSet, random: &mut Random) {
    let real = my_cpus();
    let one = random.below(real.len());
    let some = if random.one_in(2) {
        &real[one..=one]
    } else {
        real
    };
    seem_to_have(some);
}

/// A real quota is not changed by a test.
pub(crate) fn change_quota(_cpus: usize, _random: &mut Random) {}

/// The CPUs that the process could have when it was asked first.
pub(crate) fn my_cpus() -> &'static [usize] {
    static MINE: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let set = rustix::thread::sched_getaffinity(None).expect("one's own CPUs can be asked for");
        let all = 0..rustix::thread::CpuSet::MAX_CPU;
        all.filter(|&cpu| set.is_set(cpu)).collect()
    });
    &MINE
}
/// To the engines of this process, it has these CPUs from the service thread's next check on.
pub(crate) fn seem_to_have(cpus: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    let tasks = std::fs::read_dir("/proc/self/task").expect("a process has threads");
    for task in tasks.flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let tid = task.file_name().to_string_lossy().parse().ok();
        if let (true, Some(tid)) = (name == "cmwq-service\n", tid) {
            // It may have ended by now.
            let _ = rustix::thread::sched_setaffinity(rustix::thread::Pid::from_raw(tid), &set);
        }
    }
}
