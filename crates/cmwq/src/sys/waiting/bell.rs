//! Bells: eventfds that threads without a reference to them may ring.
//!
//! A pool that defers wake-ups keeps the numbers of the sleepers, and may wake one that no longer
//! exists. For a futex that is harmless, since the system only searches sleepers by address. But
//! the number of a file descriptor may be another file's by then. So a bell is a slot of a table
//! that is never freed, and a ringer counts itself in the slot before it writes to the descriptor:
//! the thread that closes the bell waits until the ringers in it have left. Ringing a closed bell
//! does nothing. If the slot is in use again, its new bell is rung in vain, which is harmless.

#[cfg(not(cmwq_loom))]
pub(crate) use eventfd::{Bell, Ringer};
#[cfg(cmwq_loom)]
pub(crate) use modelled::{Bell, Ringer};

#[cfg(not(cmwq_loom))]
mod eventfd {
    use crate::sys::{fork, task};
    use rustix::event::{EventfdFlags, eventfd};
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

    /// How many bells a process may have at a time.
    const MOST: usize = 16_384;
    const NONE: i32 = -1;

    struct BellSlot {
        taken: AtomicBool,
        /// The descriptor; [`NONE`]: the bell is closed.
        fd: AtomicI32,
        /// Threads that ring it now.
        ringers: AtomicU32,
        /// Whether it was rung since it was last cleared.
        rung: AtomicBool,
    }

    static SLOTS: [BellSlot; MOST] = [const { BellSlot::new() }; MOST];

    impl BellSlot {
        const fn new() -> Self {
            BellSlot {
                taken: AtomicBool::new(false),
                fd: AtomicI32::new(NONE),
                ringers: AtomicU32::new(0),
                rung: AtomicBool::new(false),
            }
        }
    }

    /// Rings a bell, which may be closed by then.
    #[derive(Clone, Copy)]
    pub(crate) struct Ringer(usize);

    impl Ringer {
        /// The ringer with this [number](Self::number).
        pub(crate) fn of(number: usize) -> Self {
            Ringer(number)
        }

        pub(crate) fn number(self) -> usize {
            self.0
        }

        /// Makes the descriptor readable.
        pub(crate) fn ring(&self) {
            let slot = &SLOTS[self.0];
            // SeqCst: the ringer counts itself, then reads the descriptor; the closing thread removes the descriptor, then reads the count. At least
            // one of the two sees the other.
            slot.ringers.fetch_add(1, Ordering::SeqCst);
            let fd = slot.fd.load(Ordering::SeqCst);
            if fd != NONE {
                // SAFETY: the descriptor is not closed before this ringer has left.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                // The write fails if the counter is at its maximum; then the descriptor is readable
                // anyway.
                let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
                slot.rung.store(true, Ordering::Release);
            }
            // Release: the ringer does not use the descriptor any more.
            slot.ringers.fetch_sub(1, Ordering::Release);
        }
    }

    /// An eventfd.
    pub(crate) struct Bell {
        fd: OwnedFd,
        ringer: Ringer,
        /// The fork generation. In a child of the process, ringers that were other threads never leave.
        born: u32,
    }

    impl Bell {
        pub(crate) fn new() -> io::Result<Self> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let free = |slot: &BellSlot| !slot.taken.swap(true, Ordering::Acquire);
            let Some(index) = SLOTS.iter().position(free) else {
                return Err(io::Error::other(format!(
                    "all {MOST} eventfds that completion queues may have are in use"
                )));
            };
            SLOTS[index].rung.store(false, Ordering::Relaxed);
            SLOTS[index].fd.store(fd.as_raw_fd(), Ordering::SeqCst);
            Ok(Bell {
                fd,
                ringer: Ringer(index),
                born: fork::generation(),
            })
        }

        pub(crate) fn ringer(&self) -> Ringer {
            self.ringer
        }

        pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
            self.fd.as_fd()
        }

        /// Makes it unreadable, with a system call only if it may be readable.
        pub(crate) fn clear(&self) {
            let slot = &SLOTS[self.ringer.0];
            // A ringer that has written but not set `rung` yet is still counted.
            if slot.ringers.load(Ordering::Acquire) == 0 && !slot.rung.load(Ordering::Acquire) {
                return;
            }
            slot.rung.store(false, Ordering::Relaxed);
            // It fails if the counter is 0.
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }

    impl Drop for Bell {
        fn drop(&mut self) {
            let slot = &SLOTS[self.ringer.0];
            slot.fd.store(NONE, Ordering::SeqCst);
            if self.born == fork::generation() {
                while slot.ringers.load(Ordering::SeqCst) != 0 {
                    task::yield_now();
                }
                slot.taken.store(false, Ordering::Release);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        fn is_readable(bell: &Bell) -> bool {
            let mut fds = [PollFd::new(&bell.fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
        }

        // One test: another test's bells would get the slots that this one closes.
        #[test]
        fn a_bell_is_readable_from_when_it_is_rung_until_it_is_cleared_or_closed() {
            let bell = Bell::new().unwrap();
            assert!(!is_readable(&bell));
            bell.ringer().ring();
            Ringer::of(bell.ringer().number()).ring();
            assert!(is_readable(&bell));
            bell.clear();
            assert!(!is_readable(&bell));
            bell.clear();
            bell.ringer().ring();
            assert!(is_readable(&bell));
            let ringer = bell.ringer();
            drop(bell);
            // Most often this is the same descriptor, but no bell's.
            let other = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            ringer.ring();
            assert!(rustix::io::read(&other, &mut [0; 8]).is_err());
            let again = Bell::new().unwrap();
            assert!(!is_readable(&again));
        }
    }
}

#[cfg(cmwq_loom)]
mod modelled {
    use loom::sync::{Condvar, Mutex};
    use std::io;
    use std::sync::Arc;

    /// Readable while the value is not 0.
    pub(crate) struct Bell(Ringer);

    #[derive(Clone)]
    pub(crate) struct Ringer(Arc<(Mutex<u32>, Condvar)>);

    impl Ringer {
        /// Nothing is deferred.
        pub(crate) fn of(_: usize) -> Self {
            unreachable!("bells of models have no numbers")
        }

        pub(crate) fn ring(&self) {
            *self.0.0.lock().unwrap() += 1;
            self.0.1.notify_all();
        }
    }

    impl Bell {
        #[allow(clippy::unnecessary_wraps, reason = "as the other one")]
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Bell(Ringer(Arc::new((Mutex::new(0), Condvar::new())))))
        }

        pub(crate) fn ringer(&self) -> Ringer {
            self.0.clone()
        }

        pub(crate) fn clear(&self) {
            *self.0.0.0.lock().unwrap() = 0;
        }

        /// What an event loop does until the descriptor is readable.
        #[cfg(test)]
        pub(crate) fn poll(&self) {
            let mut value = self.0.0.0.lock().unwrap();
            while *value == 0 {
                value = self.0.0.1.wait(value).unwrap();
            }
        }
    }
}
