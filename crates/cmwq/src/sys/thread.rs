//! Threads: starting, naming, binding and watching them.

use super::forced_unwind;
use super::signals::LibraryMask;
use crate::sys::holds;
use crate::topology::CpuSet;
use rustix::thread::CpuSet as KernelCpuSet;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::thread::JoinHandleExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts a thread with the signal mask of the [library's](super::signals) threads.
pub(crate) fn spawn(name: &str, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn_with_stack(name, None, main)
}

/// As [`spawn`], bound to `cpus` when this returns: if it bound itself later, it could undo a
/// change of all threads' CPUs that was made in between (`taskset --all-tasks`, a cpuset). If none
/// of `cpus` is allowed any more, the thread has the caller's binding. `main` must not end before.
///
/// The caller does not wait for the thread: it may be a constructor of what is being loaded by
/// dlopen(), whose lock each new thread takes.
pub(crate) fn spawn_bound(
    name: &str,
    cpus: &CpuSet,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let thread = start(name, None, main)?;
    // SAFETY: a set of CPUs is plain data.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter().filter(|&cpu| cpu < KernelCpuSet::MAX_CPU) {
        // SAFETY: the set has room for it.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // musl's is a pointer.
    let id = thread.as_pthread_t() as libc::pthread_t;
    // SAFETY: the thread runs, and the set is valid for the call.
    unsafe { libc::pthread_setaffinity_np(id, size_of_val(&set), &set) };
    Ok(())
}

/// As [`spawn`], with a stack of `stack_size` bytes if given.
pub(crate) fn spawn_with_stack(
    name: &str,
    stack_size: Option<usize>,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    start(name, stack_size, main).map(drop)
}

fn start(
    name: &str,
    stack_size: Option<usize>,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let transit = Transit::begin();
    let main = move || {
        forced_unwind::own_thread();
        drop(transit);
        take_policy_of_process();
        take_nice_of_process();
        main();
        // std takes the thread off its list when this returns, and then drops the thread's values,
        // this one first.
        let _ = ENDS.try_with(|ends| ends.set(Some(Transit::begin())));
    };
    // A new thread inherits its creator's mask: changing it here leaves no window in which the
    // worker has another one.
    let _mask = LibraryMask::enter();
    // The kernel keeps 15 bytes of a name; std would cut it as well, but at any byte.
    let mut thread = std::thread::Builder::new().name(cut(name).to_owned());
    if let Some(bytes) = stack_size {
        thread = thread.stack_size(bytes);
    }
    thread.spawn(main)
}

/// How many threads of the library are beginning or ending. They change the list of all threads
/// that std keeps, under a lock of std's own. If the process forked meanwhile, that lock would be
/// held in the child for ever, and no thread could begin there.
static IN_TRANSIT: Mutex<usize> = Mutex::new(0);
static NO_MORE: Condvar = Condvar::new();

/// How long a fork waits for threads in transit. It does not wait for ever, because those threads
/// may wait for the forking thread (a constructor that dlopen() calls may fork).
pub(crate) const LONGEST_TRANSIT: Duration = Duration::from_secs(1);

thread_local! {
    /// Set when the thread's function ends: dropping it is the last thing that the thread does for
    /// the library.
    static ENDS: Cell<Option<Transit>> = const { Cell::new(None) };
}

/// Exists while a thread of the library begins or ends.
pub(crate) struct Transit(());

impl Transit {
    /// No fork is under way when this returns, and none begins before it is dropped.
    pub(crate) fn begin() -> Self {
        *in_transit() += 1;
        Transit(())
    }
}

impl Drop for Transit {
    fn drop(&mut self) {
        let mut left = in_transit();
        *left = left.saturating_sub(1);
        if *left == 0 {
            NO_MORE.notify_all();
        }
    }
}

fn in_transit() -> MutexGuard<'static, usize> {
    IN_TRANSIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No thread is in transit when this returns, and none until the guard is dropped, unless one takes
/// `longest`.
fn hold_transits(longest: Duration) -> MutexGuard<'static, usize> {
    let waited = NO_MORE.wait_timeout_while(in_transit(), longest, |left| *left > 0);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// For a fork: no thread of the library begins or ends when this returns, and none until what it
/// returns is called, which is told whether this is the child: where threads in transit were is
/// known in the parent only.
pub(crate) fn hold_during_fork() -> impl FnOnce(bool) {
    let mut in_transit = hold_transits(LONGEST_TRANSIT);
    move |child| {
        if child {
            *in_transit = 0;
        }
    }
}

thread_local! {
    /// The kernel's id of this thread, 0 until it is first needed.
    static TID: Cell<i32> = const { Cell::new(0) };
}

/// The kernel's id of the calling thread. Only the first call makes a system call.
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

/// For a fork's child, whose thread has another id than in the parent.
pub(super) fn forget_tid() {
    TID.set(0);
}

/// Binds the calling thread to `cpus`. The system leaves out CPUs that do not exist or are not
/// allowed; an error means that none is left.
pub(crate) fn bind_current(cpus: &CpuSet) -> io::Result<()> {
    bind(None, cpus.iter())
}

/// As [`bind_current`], for thread `tid` of this process.
pub(crate) fn bind_other(tid: i32, cpus: &CpuSet) -> io::Result<()> {
    bind(rustix::thread::Pid::from_raw(tid), cpus.iter())
}

/// Binds thread `tid` of this process to one CPU.
pub(crate) fn bind_other_to(tid: i32, cpu: usize) -> io::Result<()> {
    bind(rustix::thread::Pid::from_raw(tid), std::iter::once(cpu))
}

fn bind(thread: Option<rustix::thread::Pid>, cpus: impl Iterator<Item = usize>) -> io::Result<()> {
    if cfg!(cmwq_loom) {
        // Under the model checker all threads are one thread.
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

/// The part of a name that the kernel keeps.
fn cut(name: &str) -> &str {
    if name.len() <= MOST_OF_NAME {
        return name;
    }
    let mut ends = (0..=MOST_OF_NAME).rev();
    ends.find_map(|end| name.get(..end)).unwrap_or("")
}

/// How many bytes of a name the kernel keeps.
const MOST_OF_NAME: usize = 15;

/// A thread's own name.
pub(crate) struct ThreadName([u8; MOST_OF_NAME + 1]);

impl ThreadName {
    pub(crate) fn new(name: &str) -> Self {
        let mut bytes = [0; MOST_OF_NAME + 1];
        let name = cut(name).as_bytes();
        bytes[..name.len()].copy_from_slice(name);
        ThreadName(bytes)
    }

    /// Gives the name back to the calling thread if it has another by now: one system call if not.
    pub(crate) fn restore(&self) {
        if cfg!(cmwq_loom) {
            return;
        }
        let mut now = [0; MOST_OF_NAME + 1];
        // SAFETY: PR_GET_NAME writes 16 bytes at most. It cannot fail then.
        unsafe {
            libc::prctl(libc::PR_GET_NAME, now.as_mut_ptr());
        }
        // The bytes after the end of a name are undefined.
        let end = now.iter().position(|&byte| byte == 0).unwrap_or(0);
        now[end..].fill(0);
        if now != self.0
            && let Ok(own) = std::ffi::CStr::from_bytes_until_nul(&self.0)
        {
            rename_current(own);
        }
    }
}

/// The calling thread's nice level.
pub(crate) fn nice_of_current() -> Option<i32> {
    rustix::process::getpriority_process(Some(rustix::thread::gettid())).ok()
}

/// How often the calling thread has slept voluntarily.
#[cfg(all(any(test, debug_assertions), not(cmwq_loom)))]
#[allow(
    clippy::unnecessary_cast,
    reason = "other targets have 32 bits here, and are refused with one line"
)]
pub(crate) fn voluntary_switches() -> i64 {
    // SAFETY: the call fills in plain data; it cannot fail with these arguments.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nvcsw as i64
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

/// Gives the calling thread the nice level of the process, as far as permitted. A new thread has
/// that of its creator, which may be any thread of the program: of the first one that makes a queue
/// or arms a timer all later workers and timers would have it.
fn take_nice_of_process() {
    let process = rustix::process::getpriority_process(Some(rustix::process::getpid())).ok();
    if let Some(nice) = process.filter(|_| process != nice_of_current()) {
        // If this is not permitted, the thread keeps the level of its creator.
        let _ = set_nice_current(nice);
    }
}

/// Gives the calling thread the scheduling policy of the process, as far as permitted, for the same
/// reason; of a real-time process the ordinary one. Workers spin and yield, which at a real-time
/// priority would keep all other threads from their CPU.
fn take_policy_of_process() {
    if cfg!(cmwq_loom) {
        return;
    }
    // The system calls are made directly, because musl's functions always refuse.
    let policy_of = |tid: libc::c_int| {
        // SAFETY: it only returns a number.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) };
        policy as libc::c_int & !libc::SCHED_RESET_ON_FORK
    };
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let wanted = match policy_of(process) {
        libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE => libc::SCHED_OTHER,
        other => other,
    };
    if policy_of(0) != wanted {
        let priority: libc::c_int = 0;
        // SAFETY: 0 is the calling thread; the priority is only read. Not permitted: it keeps that
        // of its creator.
        unsafe {
            libc::syscall(libc::SYS_sched_setscheduler, 0, wanted, &raw const priority);
        }
    }
}

/// CPU time used so far by thread `tid` of this process, in ns; `None` when the thread no longer exists.
pub(crate) fn cpu_time_ns(tid: i32) -> Option<u64> {
    holds::may_be_preempted();
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
    holds::may_be_preempted();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A thread's state as the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// It runs, or is runnable.
    Awake,
    /// It sleeps in the system (states S and D): it does not run and does not want to.
    Asleep,
    /// No file descriptor is free to read it with, or `/proc` or the thread does not exist.
    Unknown,
}

/// The state of thread `tid` of this process.
///
/// The file is opened anew each time. An open file for each worker would save three fifths of the 3
/// us, but use up file descriptors, of which a process has few. So the answer may be missing; the
/// CPU clock, which needs no descriptor, then stands in.
pub(crate) fn state_of(tid: i32) -> ThreadState {
    holds::may_be_preempted();
    read_state(tid).map_or(ThreadState::Unknown, |state| match state {
        b'S' | b'D' => ThreadState::Asleep,
        _ => ThreadState::Awake,
    })
}

/// The letter of the thread's state.
fn read_state(tid: i32) -> Option<u8> {
    // Number, name and state are in the first bytes.
    let mut stat = [0_u8; 128];
    let stat = read_of_task(tid, "stat", &mut stat)?;
    // The name is in parentheses and may itself contain any byte: the state follows the last ") ".
    let end_of_name = stat.windows(2).rposition(|pair| pair == b") ")?;
    stat.get(end_of_name + 2).copied()
}

/// How often thread `tid` of this process has slept voluntarily; `None`: the system does not say.
pub(crate) fn voluntary_switches_of(tid: i32) -> Option<u64> {
    voluntary_switches_in(open_of_task(tid, "status")?)
}

/// Finds the line in the file. It is one of the last, and before it is a line of any length, with
/// the thread's supplementary groups.
fn voluntary_switches_in(mut status: impl Read) -> Option<u64> {
    /// How many bytes are kept of what was read: more than the line has.
    const KEPT: usize = 128;
    let mut text = [0_u8; 4096];
    let mut length = 0;
    loop {
        let more = status
            .read(&mut text[length..])
            .ok()
            .filter(|&more| more > 0)?;
        length += more;
        let mut lines = text[..length].split_inclusive(|&byte| byte == b'\n');
        let whole = |line: &&[u8]| line.ends_with(b"\n");
        let number = lines.find_map(|line| {
            Some(line)
                .filter(whole)?
                .strip_prefix(b"voluntary_ctxt_switches:")
        });
        if let Some(number) = number {
            return std::str::from_utf8(number).ok()?.trim().parse().ok();
        }
        if length == text.len() {
            text.copy_within(length - KEPT.., 0);
            length = KEPT;
        }
    }
}

/// The beginning of a file of thread `tid` in `/proc`, as much as fits.
fn read_of_task<'b>(tid: i32, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let length = open_of_task(tid, name)?.read(buffer).ok()?;
    Some(&buffer[..length])
}

/// Allocates nothing: the monitor does this again and again.
fn open_of_task(tid: i32, name: &str) -> Option<File> {
    let mut path = [0_u8; 48];
    let mut rest = &mut path[..];
    write!(rest, "/proc/self/task/{tid}/{name}").ok()?;
    let unused = rest.len();
    let path = &path[..path.len() - unused];
    File::open(OsStr::from_bytes(path)).ok()
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_switches_are_found_behind_any_number_of_groups() {
        for groups in 0..3_000 {
            let status = format!(
                "Name:\tx\nGroups:\t{}\nvoluntary_ctxt_switches:\t77\nnonvoluntary_ctxt_switches:\t5\n",
                "7 ".repeat(groups)
            );
            assert_eq!(
                voluntary_switches_in(status.as_bytes()),
                Some(77),
                "{groups}"
            );
        }
        assert_eq!(
            voluntary_switches_in(&b"Name:\tx\nnonvoluntary_ctxt_switches:\t5\n"[..]),
            None
        );
    }

    #[test]
    fn a_thread_that_is_not_there_is_neither_asleep_nor_awake() {
        assert_eq!(state_of(i32::MAX), ThreadState::Unknown);
        assert_eq!(state_of(current_tid()), ThreadState::Awake);
        assert_eq!(voluntary_switches_of(i32::MAX), None);
    }

    #[test]
    fn a_thread_that_does_not_come_to_an_end_holds_no_fork_up_for_ever() {
        let transit = Transit::begin();
        drop(hold_transits(Duration::ZERO));
        drop(transit);
    }

    #[test]
    fn what_the_system_says_of_a_threads_sleeps_is_what_the_thread_counts() {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let before = voluntary_switches() as u64;
        let told = voluntary_switches_of(current_tid()).expect("/proc is there");
        assert!((before..=voluntary_switches() as u64).contains(&told));
    }
}
