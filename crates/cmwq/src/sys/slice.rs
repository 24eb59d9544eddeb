//! A thread's *slice*: how long the scheduler lets it run at a time when others want the CPU.
//!
//! Since Linux 6.12 a thread may set its own (`sched_attr::sched_runtime` of a SCHED_OTHER thread, sched(7)). Its share of the CPU does not
//! change. But a thread that wakes with a shorter slice than the thread that runs there may run first.

use std::io;

/// The calling thread's default slice.
pub(crate) struct Slice {
    default_ns: u64,
}

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

impl Slice {
    /// The calling thread's slice, the system's default for it. `None`: the system has no slices, or the thread has another scheduling policy.
    pub(crate) fn of_current() -> Option<Slice> {
        let attr = attr_of_current().ok()?;
        let ordinary = attr.policy == libc::SCHED_OTHER as u32;
        (ordinary && attr.runtime != 0).then_some(Slice {
            default_ns: attr.runtime,
        })
    }

    /// Gives the calling thread half the default.
    ///
    /// # Errors
    /// The system's: it may forbid the change.
    pub(crate) fn halve(&self) -> io::Result<()> {
        set_for_current(self.default_ns / 2)
    }

    /// Restores the calling thread's default.
    ///
    /// # Errors
    /// As for [`halve`](Self::halve).
    pub(crate) fn restore(&self) -> io::Result<()> {
        // 0: the system's current default.
        set_for_current(0)
    }
}

fn attr_of_current() -> io::Result<Attr> {
    if cfg!(cmwq_loom) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut attr = Attr::default();
    // SAFETY: `attr` is valid for writes of the given size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attr,
            size_of::<Attr>(),
            0,
        )
    };
    match result {
        0 => Ok(attr),
        _ => Err(io::Error::last_os_error()),
    }
}

/// All other attributes stay as they are, such as the nice level.
fn set_for_current(runtime: u64) -> io::Result<()> {
    let attr = Attr {
        runtime,
        ..attr_of_current()?
    };
    // SAFETY: `attr` is valid, and holds its size.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::sys::thread;

    #[test]
    fn a_slice_is_halved_and_restored_and_nothing_else_changes() {
        let works = std::thread::spawn(|| {
            let lower = thread::nice_of_current().map_or(0, |nice| (nice + 1).min(19));
            thread::set_nice_current(lower).unwrap();
            // Before Linux 6.12 there is no slice, and a sandbox may forbid to change it: then nothing changes.
            let Some(slice) = Slice::of_current() else {
                return;
            };
            let before = attr_of_current().unwrap();
            let halved = slice.halve().is_ok();
            let now = attr_of_current().unwrap();
            assert_eq!(now.runtime, before.runtime / if halved { 2 } else { 1 });
            assert_eq!((now.policy, now.nice), (before.policy, lower));
            assert_eq!(slice.restore().is_ok(), halved);
            let now = attr_of_current().unwrap();
            assert_eq!((now.runtime, now.nice), (before.runtime, lower));
        });
        works.join().unwrap();
    }
}
