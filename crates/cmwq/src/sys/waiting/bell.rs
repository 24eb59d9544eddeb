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

use crate::sys::atomic::{AtomicI32, AtomicU32, Ordering};
use crate::sys::task;

/// One bell's place in the table. A slot that no bell has used is zeros: so the table, which has 256
/// KiB, takes no room in the file of a program or a library.
#[cfg_attr(all(cmwq_loom, not(test)), allow(dead_code, reason = "a model has it"))]
struct BellSlot {
    /// 1: a bell has it.
    taken: AtomicU32,
    /// The complement of the descriptor (`!fd`), which is never 0; [`NONE`]: the bell is closed.
    fd: AtomicI32,
    /// Threads that ring it now.
    ringers: AtomicU32,
    /// 1: it was rung since it was last cleared.
    rung: AtomicU32,
}

#[cfg_attr(all(cmwq_loom, not(test)), allow(dead_code, reason = "a model has it"))]
const NONE: i32 = 0;

#[cfg_attr(all(cmwq_loom, not(test)), allow(dead_code, reason = "a model has it"))]
impl BellSlot {
    fn take(&self) -> bool {
        // Acquire: what the bell before has done with the slot.
        self.taken.swap(1, Ordering::Acquire) == 0
    }

    /// The slot is the caller's.
    fn open(&self, fd: i32) {
        self.rung.store(0, Ordering::Relaxed);
        // Release: a ringer of the bell before this one may read the descriptor, and uses it after
        // it was made. Of the two that must not miss each other, a ringer and the closing thread,
        // this is neither.
        self.fd.store(!fd, Ordering::Release);
    }

    /// Calls `write` with the descriptor, unless the bell is closed. It is not closed meanwhile.
    fn ring(&self, write: impl FnOnce(i32)) {
        // SeqCst: the ringer counts itself, then reads the descriptor; the closing thread removes
        // the descriptor, then reads the count. At least one of the two sees the other.
        self.ringers.fetch_add(1, Ordering::SeqCst);
        let complement = self.fd.load(Ordering::SeqCst);
        if complement != NONE {
            write(!complement);
            // Release: the thread that takes the mark reads the descriptor after this write. Both
            // change the mark by one step, so none is lost.
            self.rung.swap(1, Ordering::Release);
        }
        // Release: the ringer does not use the descriptor any more.
        self.ringers.fetch_sub(1, Ordering::Release);
    }

    /// Whether the descriptor may be readable, which it is not for long: the caller reads it.
    fn clear(&self) -> bool {
        // A ringer that has written but not set `rung` yet is still counted. Acquire: the mark of
        // one that has left is seen.
        if self.ringers.load(Ordering::Acquire) == 0 && self.rung.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Acquire: the write of the ringer whose mark this takes. A mark that comes later stays for
        // the next time.
        self.rung.swap(0, Ordering::Acquire);
        true
    }

    /// Returns when no ringer uses the descriptor. The caller then closes it, and
    /// [leaves](Self::leave) the slot.
    fn close(&self, waits: bool) {
        self.fd.store(NONE, Ordering::SeqCst);
        while waits && self.ringers.load(Ordering::SeqCst) != 0 {
            task::yield_now();
        }
    }

    fn leave(&self) {
        // Release: the next bell of this slot comes after all that was done with this one.
        self.taken.store(0, Ordering::Release);
    }
}

#[cfg(not(cmwq_loom))]
mod eventfd {
    use super::{BellSlot, NONE};
    use crate::sys::atomic::{AtomicI32, AtomicU32};
    use crate::sys::fork;
    use rustix::event::{EventfdFlags, eventfd};
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

    /// How many bells a process may have at a time.
    const MOST: usize = 16_384;

    static SLOTS: [BellSlot; MOST] = [const { BellSlot::new() }; MOST];

    impl BellSlot {
        const fn new() -> Self {
            BellSlot {
                taken: AtomicU32::new(0),
                fd: AtomicI32::new(NONE),
                ringers: AtomicU32::new(0),
                rung: AtomicU32::new(0),
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
            SLOTS[self.0].ring(|fd| {
                // SAFETY: the descriptor is not closed before this ringer has left.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                // The write fails if the counter is at its maximum; then the descriptor is readable
                // anyway.
                let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
            });
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
            let Some(index) = SLOTS.iter().position(BellSlot::take) else {
                return Err(io::Error::other(format!(
                    "all {MOST} eventfds that completion queues may have are in use"
                )));
            };
            SLOTS[index].open(fd.as_raw_fd());
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
            if !SLOTS[self.ringer.0].clear() {
                return;
            }
            // It fails if the counter is 0.
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }

    impl Drop for Bell {
        fn drop(&mut self) {
            let slot = &SLOTS[self.ringer.0];
            let waits = self.born == fork::generation();
            slot.close(waits);
            if waits {
                slot.leave();
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

#[cfg(all(test, cmwq_loom))]
mod model {
    //! A bell is closed while it is rung.
    use super::*;
    use loom::cell::UnsafeCell;
    use std::sync::Arc;

    /// What the descriptor refers to.
    struct File(UnsafeCell<u32>);

    // SAFETY: the cell is what the model is about.
    unsafe impl Sync for File {}
    // SAFETY: as above.
    unsafe impl Send for File {}

    fn slot() -> Arc<(BellSlot, [File; 2])> {
        let slot = BellSlot {
            taken: AtomicU32::new(0),
            fd: AtomicI32::new(NONE),
            ringers: AtomicU32::new(0),
            rung: AtomicU32::new(0),
        };
        Arc::new((slot, [0, 0].map(|value| File(UnsafeCell::new(value)))))
    }

    fn ring((slot, files): &(BellSlot, [File; 2])) {
        slot.ring(|fd| {
            // SAFETY: checked by loom.
            files[fd as usize].0.with(|value| unsafe { *value });
        });
    }

    fn close((slot, files): &(BellSlot, [File; 2]), fd: i32) {
        slot.close(true);
        // SAFETY: checked by loom.
        files[fd as usize].0.with_mut(|value| unsafe { *value = 1 });
        slot.leave();
    }

    #[test]
    fn a_descriptor_is_not_closed_while_a_ringer_writes_to_it() {
        loom::model(|| {
            let slot = slot();
            assert!(slot.0.take());
            slot.0.open(0);
            let ringer = {
                let slot = slot.clone();
                loom::thread::spawn(move || ring(&slot))
            };
            close(&slot, 0);
            ringer.join().unwrap();
        });
    }

    #[test]
    fn who_takes_the_slot_next_comes_after_the_bell_before() {
        loom::model(|| {
            let slot = slot();
            assert!(slot.0.take());
            slot.0.open(0);
            let next = {
                let slot = slot.clone();
                loom::thread::spawn(move || {
                    if slot.0.take() {
                        // SAFETY: checked by loom.
                        slot.1[0].0.with_mut(|value| unsafe { *value = 2 });
                        slot.0.open(1);
                        close(&slot, 1);
                    }
                })
            };
            close(&slot, 0);
            next.join().unwrap();
        });
    }

    /// A bell is rung by its number when it is closed and its slot has a new one.
    #[test]
    fn who_rings_the_bell_before_uses_the_descriptor_after_it_was_made() {
        loom::model(|| {
            let slot = slot();
            assert!(slot.0.take());
            let ringer = {
                let slot = slot.clone();
                loom::thread::spawn(move || ring(&slot))
            };
            // SAFETY: checked by loom.
            slot.1[1].0.with_mut(|value| unsafe { *value = 1 });
            slot.0.open(1);
            close(&slot, 1);
            ringer.join().unwrap();
        });
    }

    /// What the system keeps of an eventfd.
    struct Eventfd {
        /// The system orders calls by a lock. That orders more than the bell may rely on, so it can
        /// be left out.
        lock: Option<loom::sync::Mutex<()>>,
        readable: AtomicU32,
    }

    impl Eventfd {
        fn call<R>(&self, call: impl FnOnce(&AtomicU32) -> R) -> R {
            let _locked = self.lock.as_ref().map(|lock| lock.lock().unwrap());
            call(&self.readable)
        }

        fn is_readable(&self) -> bool {
            self.call(|readable| readable.load(Ordering::Relaxed) != 0)
        }
    }

    /// While the bell is rung it is cleared: with a system call, if it may be readable.
    fn clear_while_rung(is_ordered_by_the_system: bool) {
        loom::model(move || {
            let slot = slot();
            assert!(slot.0.take());
            slot.0.open(0);
            let eventfd = Arc::new(Eventfd {
                lock: is_ordered_by_the_system.then(|| loom::sync::Mutex::new(())),
                readable: AtomicU32::new(0),
            });
            let ringer = {
                let (slot, eventfd) = (slot.clone(), eventfd.clone());
                loom::thread::spawn(move || {
                    slot.0.ring(|_| {
                        eventfd.call(|it| it.swap(1, Ordering::Relaxed));
                    });
                })
            };
            let was = is_ordered_by_the_system && eventfd.is_readable();
            let clears = slot.0.clear();
            assert!(clears || !was, "it was readable, and is not cleared");
            if clears {
                eventfd.call(|readable| {
                    if readable.load(Ordering::Relaxed) != 0 {
                        readable.swap(0, Ordering::Relaxed);
                    }
                });
            }
            ringer.join().unwrap();
            // Who does not clear it may leave it readable for the next time.
            assert!(
                !eventfd.is_readable() || slot.0.clear(),
                "it is readable, and cannot be cleared"
            );
        });
    }

    #[test]
    fn a_bell_that_is_readable_can_be_cleared() {
        clear_while_rung(true);
    }

    #[test]
    fn who_clears_a_bell_reads_after_what_was_written() {
        clear_while_rung(false);
    }
}
