//! Reads, writes and syncs of a file that no thread waits for: io_uring.
//!
//! ```text
//! worker ── submit ──► ring ──► kernel ──► ring ──► the reaper: returns the buffer and the result
//! ```
//!
//! A [`Transfer`] owns its buffer. From [`submit`](Ring::submit) until the kernel has answered, the
//! buffer is [lent](Lent): it stays at its address, and no thread frees or accesses it. Then it
//! comes back with [`Ended`].
//!
//! Each connection has a ring with an entry for each of its slots, and a slot has one transfer at a
//! time. So there is always room: no entry is lost, and no thread waits for one. Entries are pushed
//! under a lock. Submitting them needs none: a thread submits all entries, also those of other
//! threads.

mod transfer;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{EnterFlags, IoUring, Probe, opcode, squeue};

use crate::pool::Buffer;

pub(crate) use transfer::{Action, Ended, Transfer};

/// In place of a completion's slot: tells the reaper to end.
const STOP: u64 = u64::MAX;
/// Time until the next attempt when the kernel has no room.
const PAUSE: Duration = Duration::from_millis(1);

/// A buffer that the kernel uses. Without `Drop`: one that does not come back is never freed.
struct Lent(*mut [u8]);

// SAFETY: it is the only pointer to a `Box<[u8]>`, which may go from thread to thread.
unsafe impl Send for Lent {}

impl Lent {
    fn new(buffer: Buffer) -> Self {
        Lent(Box::into_raw(buffer))
    }

    /// # Safety
    /// The kernel has answered the transfer for which the buffer was lent.
    unsafe fn back(self) -> Buffer {
        // SAFETY: made of a box in `new`, given back once; the kernel uses it no more.
        unsafe { Box::from_raw(self.0) }
    }
}

struct InFlight {
    /// Without its buffer.
    transfer: Transfer,
    lent: Option<Lent>,
}

/// The ring of one connection.
pub(crate) struct Ring {
    uring: IoUring,
    /// Open for as long as the ring is.
    file: OwnedFd,
    /// By slot.
    in_flight: Box<[Mutex<Option<InFlight>>]>,
    /// The lock holder may push entries.
    pushing: Mutex<()>,
    /// The lock holder may take completions.
    reaping: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded data are always consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    /// Whether the kernel has and permits what is needed here.
    ///
    /// # Errors
    /// The reason, in words.
    pub(crate) fn check() -> io::Result<()> {
        let uring = IoUring::new(1).map_err(explain)?;
        let mut probe = Probe::new();
        uring
            .submitter()
            .register_probe(&mut probe)
            .map_err(explain)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::Nop::CODE,
        ];
        match needed.iter().all(|&code| probe.is_supported(code)) {
            true => Ok(()),
            false => Err(io::Error::other("this kernel's io_uring is too old")),
        }
    }

    /// A ring for transfers of `places` slots, all on `file`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(file: BorrowedFd<'_>, places: usize) -> io::Result<Ring> {
        // One more to stop the reaper. The completion queue is twice as long.
        let entries = (places + 1).next_power_of_two() as u32;
        Ok(Ring {
            uring: IoUring::new(entries).map_err(explain)?,
            file: file.try_clone_to_owned()?,
            in_flight: (0..places).map(|_| Mutex::new(None)).collect(),
            pushing: Mutex::new(()),
            reaping: Mutex::new(()),
        })
    }

    /// Gives a transfer to the kernel. [`reap_until_stopped`](Self::reap_until_stopped) reports its
    /// end, perhaps before this returns.
    ///
    /// # Panics
    /// If the slot has a transfer already.
    pub(crate) fn submit(&self, place: u16, mut transfer: Transfer) {
        let lent = transfer.buffer.take().map(Lent::new);
        let entry = self.entry(&transfer, lent.as_ref());
        let in_flight = InFlight { transfer, lent };
        let before = lock(&self.in_flight[usize::from(place)]).replace(in_flight);
        assert!(before.is_none(), "place {place} has a transfer already");
        // SAFETY: `entry` names the ring's file and a buffer that is lent until the kernel answers.
        unsafe { self.push(&entry.user_data(place.into())) };
    }

    /// The entry for the rest.
    fn entry(&self, transfer: &Transfer, lent: Option<&Lent>) -> squeue::Entry {
        let file = Fd(self.file.as_raw_fd());
        let start = lent.map_or(std::ptr::null_mut(), |lent| lent.0.cast::<u8>());
        let at = start.wrapping_add(transfer.done as usize);
        let length = transfer.length - transfer.done;
        let offset = transfer.offset + u64::from(transfer.done);
        match transfer.action {
            Action::Read => opcode::Read::new(file, at, length).offset(offset).build(),
            Action::Write => opcode::Write::new(file, at, length).offset(offset).build(),
            Action::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        }
    }

    /// # Safety
    /// What `entry` names is valid until its completion.
    unsafe fn push(&self, entry: &squeue::Entry) {
        let mut waiting = {
            let _pushing = lock(&self.pushing);
            // SAFETY: the one view there is, under the lock.
            let mut queue = unsafe { self.uring.submission_shared() };
            // SAFETY: by this function's own contract.
            let pushed = unsafe { queue.push(entry) };
            assert!(pushed.is_ok(), "there is an entry for each place");
            queue.len()
        };
        // The kernel takes entries in order. This thread or others must submit as many as were waiting.
        while waiting > 0 {
            match self.uring.submit() {
                Ok(taken) if taken >= waiting => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Usually the kernel lacks memory for the moment.
                Err(_) => cmwq::blocking(|| std::thread::sleep(PAUSE)),
            }
            let _pushing = lock(&self.pushing);
            // SAFETY: the one view there is, under the lock.
            waiting = unsafe { self.uring.submission_shared() }.len();
        }
    }

    /// Calls `ended` with each finished transfer and its slot, until [`stop`](Self::stop).
    pub(crate) fn reap_until_stopped(&self, mut ended: impl FnMut(u16, Ended)) {
        let _reaping = lock(&self.reaping);
        let mut stop = false;
        while !stop {
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: nothing is submitted here, and there is no argument. Interrupted, it is called again.
            let _ = unsafe {
                self.uring
                    .submitter()
                    .enter::<libc::sigset_t>(0, 1, flags, None)
            };
            // SAFETY: the one view there is, under the lock.
            for completion in unsafe { self.uring.completion_shared() } {
                match completion.user_data() {
                    STOP => stop = true,
                    place => {
                        // SAFETY: the kernel has answered this slot's transfer.
                        let over = unsafe { self.answered(place as u16, completion.result()) };
                        if let Some(over) = over {
                            ended(place as u16, over);
                        }
                    }
                }
            }
        }
    }

    /// Takes a finished transfer back, or submits its rest.
    ///
    /// # Safety
    /// The kernel has answered what was submitted for `place`, with `answer`.
    unsafe fn answered(&self, place: u16, answer: i32) -> Option<Ended> {
        let InFlight { mut transfer, lent } = lock(&self.in_flight[usize::from(place)]).take()?;
        // SAFETY: by this function's own contract.
        transfer.buffer = lent.map(|lent| unsafe { lent.back() });
        match transfer.advance(answer) {
            Some(result) => Some(Ended {
                action: transfer.action,
                buffer: transfer.buffer,
                result,
            }),
            None => {
                self.submit(place, transfer);
                None
            }
        }
    }

    /// Ends [`reap_until_stopped`](Self::reap_until_stopped) once everything submitted before is answered.
    pub(crate) fn stop(&self) {
        // SAFETY: it names nothing.
        unsafe { self.push(&opcode::Nop::new().build().user_data(STOP)) };
    }
}

/// A message where the system's own would not help.
fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => io::Error::other("this kernel has no io_uring"),
        Some(libc::EPERM | libc::EACCES) => io::Error::other(
            "the system does not permit io_uring (the sysctl kernel.io_uring_disabled, or a filter of system calls)",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use std::os::fd::AsFd;

    /// Stops the reaper, however the test ends.
    struct Stop<'a>(&'a Ring);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }

    fn with_ring(
        file: BorrowedFd<'_>,
        places: usize,
        test: impl FnOnce(&Ring, &dyn Fn() -> (u16, Ended)),
    ) {
        if let Err(why) = Ring::check() {
            println!("skipped, because {why}");
            return;
        }
        let ring = Ring::new(file, places).unwrap();
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let _stop = Stop(&ring);
            scope
                .spawn(|| ring.reap_until_stopped(|place, end| sender.send((place, end)).unwrap()));
            test(&ring, &|| {
                ended.recv_timeout(Duration::from_secs(20)).unwrap()
            });
        });
    }

    #[test]
    fn all_places_may_wait_at_a_time() {
        const PLACES: u16 = 100;
        // On a socket, reads wait for data or the end.
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        with_ring(ours.as_fd(), PLACES.into(), |ring, ended| {
            for place in 0..PLACES {
                ring.submit(place, Transfer::new(Action::Read, 0, vec![7; 64].into(), 8));
            }
            drop(theirs);
            let mut places: Vec<u16> = (0..PLACES)
                .map(|_| {
                    let (place, end) = ended();
                    let kind = end.result.unwrap_err().kind();
                    assert_eq!(kind, io::ErrorKind::UnexpectedEof);
                    place
                })
                .collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..PLACES));
        });
    }

    #[test]
    fn a_file_is_written_synced_and_read() {
        let path = std::env::temp_dir().join(format!("cmwq-nbd-ring-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        with_ring(file.as_fd(), 4, |ring, wait| {
            ring.submit(3, Transfer::new(Action::Write, 5, (*b"hello").into(), 5));
            let (place, end) = wait();
            assert_eq!(
                (place, end.action, &end.buffer.unwrap()[..]),
                (3, Action::Write, &b"hello"[..])
            );
            ring.submit(0, Transfer::sync());
            wait().1.result.unwrap();
            ring.submit(1, Transfer::new(Action::Read, 4, vec![0; 8].into(), 6));
            assert_eq!(wait().1.buffer.unwrap()[..], *b"\0hello\0\0");
            // The rest of a short read.
            let mut rest = Transfer::new(Action::Read, 4, vec![7; 8].into(), 6);
            assert!(rest.advance(2).is_none());
            ring.submit(1, rest);
            assert_eq!(wait().1.buffer.unwrap()[..], *b"\x07\x07ello\x07\x07");
            ring.submit(2, Transfer::new(Action::Read, 4, vec![0; 8].into(), 7));
            assert_eq!(
                wait().1.result.unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof
            );
        });
        if Ring::check().is_err() {
            return;
        }
        let mut all = vec![];
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"\0\0\0\0\0hello");
    }
}
