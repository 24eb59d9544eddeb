//! Threads: starting them, naming them, binding them, watching them.

use crate::topology::CpuSet;
use rustix::thread::CpuSet as KernelCpuSet;
use std::io;

/// Starts a thread with every signal blocked, as a process's own threads should be the ones that handle its signals.
pub(crate) fn spawn(name: &str, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A new thread inherits its creator's mask; blocking here leaves no window in which the worker has an open one.
    let mask = SignalMask::block_all();
    // The kernel keeps 15 bytes of a name; std would cut it as well, but at any byte.
    let name: String = name.chars().take(15).collect();
    let result = std::thread::Builder::new().name(name).spawn(main).map(drop);
    drop(mask);
    result
}

/// Restores the caller's signal mask when dropped.
struct SignalMask(libc::sigset_t);

impl SignalMask {
    fn block_all() -> Self {
        // SAFETY: both sets are plain data that the calls fill in; pthread_sigmask only changes this thread.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            SignalMask(before)
        }
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: `self.0` was filled in by pthread_sigmask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
        }
    }
}

/// The kernel's id of the calling thread.
pub(crate) fn current_tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Binds the calling thread to `cpus`. CPUs that do not exist or are not allowed are left out by the system; an error
/// means that none is left.
pub(crate) fn bind_current(cpus: &CpuSet) -> io::Result<()> {
    let mut set = KernelCpuSet::new();
    for cpu in cpus.iter().filter(|&cpu| cpu < KernelCpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The CPUs that the calling thread may run on.
pub(crate) fn current_binding() -> io::Result<CpuSet> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..KernelCpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Sets the calling thread's nice level (-20 highest to 19 lowest). Raising needs privilege.
pub(crate) fn set_nice_current(nice: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(
        Some(rustix::thread::gettid()),
        nice,
    )?)
}

/// CPU time used so far by thread `tid` of this process, in ns; `None` when there is no such thread any more.
pub(crate) fn cpu_time_ns(tid: i32) -> Option<u64> {
    // The kernel's encoding of "the CPU clock of one thread": inverted id, three low bits 0b110.
    let clock: libc::clockid_t = (!tid << 3) | 6;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes; an id that does not exist is an error, not undefined.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Whether thread `tid` of this process sleeps in the system (states S and D): it is not running and does not want to.
pub(crate) fn is_asleep(tid: i32) -> bool {
    let Ok(stat) = std::fs::read(format!("/proc/self/task/{tid}/stat")) else {
        return false;
    };
    // The name is in parentheses and may itself contain any byte: the state follows the last ") ".
    let state = stat
        .windows(2)
        .rposition(|pair| pair == b") ")
        .and_then(|at| stat.get(at + 2));
    matches!(state, Some(b'S' | b'D'))
}
