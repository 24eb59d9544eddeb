//! The machine as every loop needs it: CPUs, clocks, memory, and a piece of computing of a given length.

use cmwq_loads::Machine;
use cmwq_loads::real::{Park, Threads};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

/// The CPUs that the process may use, as it was started.
pub(crate) fn allowed_cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| {
        let set = sched_getaffinity(None).expect("the own affinity can be read");
        (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect()
    })
}

/// Pins the calling thread: issuers go round all CPUs.
pub(crate) fn pin_issuer(issuer: usize) {
    let cpus = allowed_cpus();
    let mut set = CpuSet::new();
    set.set(cpus[issuer % cpus.len()]);
    sched_setaffinity(None, &set).expect("an allowed CPU");
}

/// A thread that a pinned issuer started has inherited its mask: gives it all CPUs back.
#[cfg(feature = "peers")]
pub(crate) fn unpin() {
    let mut set = CpuSet::new();
    for &cpu in allowed_cpus() {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).expect("allowed CPUs");
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of the process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of the calling thread.
#[cfg(feature = "peers")]
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Context switches of all threads of the process.
pub(crate) fn switches() -> u64 {
    Threads::<Park>::new(1.0).usage().switches
}

/// The most memory that the process has had resident, in KiB.
pub(crate) fn peak_memory_kib() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        })
        .unwrap_or(0)
}

/// Computes: each step needs the one before it, so that the time is the same in every language.
pub(crate) fn spin(steps: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// How long a spin takes here, when nothing disturbs it: the shortest of many.
pub(crate) fn spin_ns(steps: u64) -> u64 {
    (0..200)
        .map(|_| {
            let start = now_ns();
            spin(steps);
            now_ns() - start
        })
        .min()
        .unwrap_or(0)
}
