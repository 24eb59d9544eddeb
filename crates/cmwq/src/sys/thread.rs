//! Threads: starting them, naming them, binding them, watching them.

use crate::topology::CpuSet;
use rustix::thread::CpuSet as KernelCpuSet;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;

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

thread_local! {
    /// The kernel's id of this thread, 0 until asked for.
    static TID: Cell<i32> = const { Cell::new(0) };
}

/// The kernel's id of the calling thread. A system call the first time only, so it must not be asked for by a thread that
/// may fork and go on as another one: workers do not.
#[inline]
pub(crate) fn current_tid() -> i32 {
    match TID.get() {
        0 => {
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            TID.set(tid);
            tid
        }
        tid => tid,
    }
}

/// Binds the calling thread to `cpus`. CPUs that do not exist or are not allowed are left out by the system; an error
/// means that none is left.
pub(crate) fn bind_current(cpus: &CpuSet) -> io::Result<()> {
    bind(None, cpus)
}

/// As [`bind_current`], for thread `tid` of this process.
pub(crate) fn bind_other(tid: i32, cpus: &CpuSet) -> io::Result<()> {
    bind(rustix::thread::Pid::from_raw(tid), cpus)
}

/// Binds the calling thread to one CPU.
pub(crate) fn bind_current_to(cpu: usize) -> io::Result<()> {
    bind_to(None, std::iter::once(cpu))
}

fn bind(thread: Option<rustix::thread::Pid>, cpus: &CpuSet) -> io::Result<()> {
    bind_to(thread, cpus.iter())
}

fn bind_to(
    thread: Option<rustix::thread::Pid>,
    cpus: impl Iterator<Item = usize>,
) -> io::Result<()> {
    if cfg!(cmwq_loom) {
        // All threads of a model are one thread.
        return Ok(());
    }
    let mut set = KernelCpuSet::new();
    for cpu in cpus.filter(|&cpu| cpu < KernelCpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(thread, &set)?)
}

/// Names the calling thread: at most 15 bytes, as the kernel keeps them.
pub(crate) fn rename_current(name: &std::ffi::CStr) {
    if cfg!(cmwq_loom) {
        return;
    }
    // SAFETY: PR_SET_NAME reads a string that ends with 0. It cannot fail then.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
    }
}

/// The nice level that the calling thread has.
pub(crate) fn nice_of_current() -> Option<i32> {
    rustix::process::getpriority_process(Some(rustix::thread::gettid())).ok()
}

/// How often the calling thread has gone to sleep of its own accord.
pub(crate) fn voluntary_switches() -> i64 {
    usage().ru_nvcsw
}

/// How often the calling thread had to leave its CPU to another.
pub(crate) fn preemptions() -> i64 {
    usage().ru_nivcsw
}

fn usage() -> libc::rusage {
    // SAFETY: the call fills in plain data; it cannot fail with these arguments.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    }
}

/// The CPUs that the calling thread may run on.
pub(crate) fn current_binding() -> io::Result<CpuSet> {
    binding(None)
}

/// The CPUs that thread `tid` of this process may run on.
pub(crate) fn binding_of(tid: i32) -> io::Result<CpuSet> {
    binding(rustix::thread::Pid::from_raw(tid))
}

fn binding(thread: Option<rustix::thread::Pid>) -> io::Result<CpuSet> {
    let set = rustix::thread::sched_getaffinity(thread)?;
    Ok((0..KernelCpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Sets the calling thread's nice level (-20 highest to 19 lowest). Raising needs privilege.
pub(crate) fn set_nice_current(nice: i32) -> io::Result<()> {
    if cfg!(cmwq_loom) {
        return Ok(());
    }
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

/// CPU time used so far by the calling thread, in ns.
pub(crate) fn cpu_time_of_current_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Whether thread `tid` of this process sleeps in the system (states S and D): it is not running and does not want to.
pub(crate) fn is_asleep(tid: i32) -> bool {
    // Nothing is allocated: the monitor asks again and again.
    let (mut path, mut stat) = ([0_u8; 48], [0_u8; 128]);
    let mut rest = &mut path[..];
    if write!(rest, "/proc/self/task/{tid}/stat").is_err() {
        return false;
    }
    let unused = rest.len();
    let path = &path[..path.len() - unused];
    let file = File::open(OsStr::from_bytes(path));
    // Number, name and state are in the first bytes.
    let Ok(length) = file.and_then(|mut file| file.read(&mut stat)) else {
        return false;
    };
    let stat = &stat[..length];
    // The name is in parentheses and may itself contain any byte: the state follows the last ") ".
    let state = stat
        .windows(2)
        .rposition(|pair| pair == b") ")
        .and_then(|at| stat.get(at + 2));
    matches!(state, Some(b'S' | b'D'))
}
