//! A thread's *slice*: how long the scheduler lets it run at a time when other threads want the CPU.
//!
//! Since Linux 6.12 a thread may have a slice of its own (`sched_attr::sched_runtime` of a
//! SCHED_OTHER thread, sched(7)). Its share of the CPU does not change. But a thread that is woken
//! gets the CPU at once only if its deadline is earlier than that of the thread that runs there,
//! and a thread's deadline is one slice away. Against a thread that computes it otherwise waits for
//! the rest of that thread's slice, which may be milliseconds.

use crate::sys::holds;
use std::io;

/// The shortest slice that the system gives.
const SHORT_NS: u64 = 100_000;
/// The system's default.
const DEFAULT: u64 = 0;
/// SCHED_FLAG_RESET_ON_FORK: what the thread starts has the system's slice, not this one. It also
/// takes a negative nice level from children.
const RESET_ON_FORK: u64 = 1;

/// The kernel's `struct sched_attr`, in its first version.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives thread `tid` of this process a short slice, or the system's default. All other attributes
/// stay as they are, such as the nice level.
///
/// # Errors
/// The system has no slices; the thread has another scheduling policy, or a negative nice level,
/// with which its deadlines are near anyway; or the system does not permit the change.
pub(crate) fn set(tid: i32, is_short: bool) -> io::Result<()> {
    holds::may_be_preempted();
    if cfg!(cmwq_loom) {
        return Ok(());
    }
    let mut attr = Attr::default();
    // SAFETY: `attr` is valid for writes of the given size.
    let result = unsafe {
        let size = size_of::<Attr>();
        libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if attr.policy != libc::SCHED_OTHER as u32 || attr.runtime == 0 || attr.nice < 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    attr.runtime = if is_short { SHORT_NS } else { DEFAULT };
    // The flag is never cleared again, because that would need a privilege.
    attr.flags |= RESET_ON_FORK;
    // SAFETY: `attr` is valid, and holds its size.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The slice of thread `tid` in ns, if the system tells.
#[cfg(all(test, not(cmwq_loom)))]
pub(crate) fn of(tid: i32) -> Option<u64> {
    let mut attr = Attr::default();
    // SAFETY: `attr` is valid for writes of the given size.
    let result = unsafe {
        let size = size_of::<Attr>();
        libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0)
    };
    (result == 0 && attr.runtime != 0).then_some(attr.runtime)
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::sys::thread;

    #[test]
    fn a_short_slice_is_set_and_taken_back_and_changes_nothing_else() {
        let tid = thread::current_tid();
        let (before, nice) = (of(tid), thread::nice_of_current());
        if set(tid, true).is_err() {
            // Older systems have no slices.
            return;
        }
        assert_eq!(of(tid), Some(SHORT_NS));
        let of_child = std::thread::spawn(|| of(thread::current_tid()));
        assert_eq!(of_child.join().expect("it ends"), before);
        assert_eq!(thread::nice_of_current(), nice);
        set(tid, false).expect("it was permitted before");
        assert_eq!(of(tid), before);
        assert!(set(i32::MAX, true).is_err(), "there is no such thread");
    }
}
