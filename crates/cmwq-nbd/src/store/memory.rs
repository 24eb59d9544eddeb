//! A store in memory: anonymous, sparse, gone with the process.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crossbeam_utils::CachePadded;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::{Extent, Store, ZeroOptions};

/// Bytes that one lock guards, and the unit in which memory is known to be used or a hole.
const STRIPE: u64 = 64 << 10;
/// Locks; stripes share them in turn.
const LOCKS: usize = 1024;

/// Keeps the bytes in memory that is taken from the system when it is first written.
///
/// Locks keep apart threads that use the same range at the same time, a stripe at a time: so the
/// library that ciphers straight into and out of the memory never sees bytes change during a call.
///
/// ```
/// use cmwq_nbd::store::{MemoryStore, Store};
///
/// let store = MemoryStore::new(1 << 30)?; // no memory is used yet
/// store.write(4096, b"hello")?;
/// let mut found = [0; 5];
/// store.read(4096, &mut found)?;
/// assert_eq!(&found, b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct MemoryStore {
    base: NonNull<u8>,
    size: u64,
    locks: Box<[CachePadded<RwLock<()>>]>,
    /// Which stripes were written since they were last given back.
    used: Box<[AtomicBool]>,
}

// SAFETY: the memory belongs to no thread; it is read and written under `locks` only, or by the
// kernel on our behalf.
unsafe impl Send for MemoryStore {}
// SAFETY: as above.
unsafe impl Sync for MemoryStore {}

impl MemoryStore {
    /// `size` zero bytes.
    ///
    /// # Errors
    /// The system's, if there are not as many addresses.
    pub fn new(size: u64) -> io::Result<MemoryStore> {
        let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address of the system's choice.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        // SAFETY: the mapping made above. Fewer page faults and address translations where the
        // system has large pages.
        let _ = unsafe { madvise(base, length, Advice::LinuxHugepage) };
        Ok(MemoryStore {
            base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            size,
            locks: (0..LOCKS).map(|_| CachePadded::default()).collect(),
            used: (0..size.div_ceil(STRIPE))
                .map(|_| AtomicBool::new(false))
                .collect(),
        })
    }

    /// Cuts a range into pieces of one stripe each.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.size),
            "{length} bytes at {offset} are not within {}",
            self.size
        );
        let end = offset + length;
        let mut from = offset;
        std::iter::from_fn(move || {
            (from < end).then(|| {
                let piece = from..end.min((from / STRIPE + 1) * STRIPE);
                from = piece.end;
                piece
            })
        })
    }

    fn lock(&self, piece: &Range<u64>) -> &RwLock<()> {
        &self.locks[(piece.start / STRIPE) as usize % LOCKS]
    }

    fn used(&self, piece: &Range<u64>) -> &AtomicBool {
        &self.used[(piece.start / STRIPE) as usize]
    }

    /// Calls `f` with each piece of a range and its place in the range, in order.
    ///
    /// # Errors
    /// The first that `f` returns.
    pub fn read_with(
        &self,
        offset: u64,
        length: usize,
        mut f: impl FnMut(usize, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for piece in self.pieces(offset, length as u64) {
            let _shared = self
                .lock(&piece)
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            // SAFETY: inside the mapping, and no thread writes it while the lock is held.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.at(piece.start), size_of_range(&piece)) };
            f((piece.start - offset) as usize, bytes)?;
        }
        Ok(())
    }

    /// As [`read_with`](Self::read_with), for writing.
    ///
    /// # Errors
    /// The first that `f` returns; what was written before stays.
    pub fn write_with(
        &self,
        offset: u64,
        length: usize,
        mut f: impl FnMut(usize, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for piece in self.pieces(offset, length as u64) {
            let _own = self
                .lock(&piece)
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            self.mark_used(&piece);
            // SAFETY: inside the mapping, and no other thread uses it while the lock is held. The
            // kernel may read it for a reply meanwhile, as a device does: to the program that is no
            // access.
            let bytes = unsafe {
                std::slice::from_raw_parts_mut(self.at(piece.start), size_of_range(&piece))
            };
            f((piece.start - offset) as usize, bytes)?;
        }
        Ok(())
    }

    fn mark_used(&self, piece: &Range<u64>) {
        let used = self.used(piece);
        // Under the lock of the piece. Read first: the flags of adjacent stripes share a cache line.
        if !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Relaxed);
        }
    }

    /// Where a range lies, for the kernel to read from. Valid as long as the store is.
    pub(crate) fn address(&self, offset: u64, length: usize) -> *const u8 {
        let _checked = self.pieces(offset, length as u64);
        self.at(offset)
    }

    fn at(&self, offset: u64) -> *mut u8 {
        // SAFETY: all callers have checked that it lies within the mapping.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    /// Makes a piece zero: whole stripes are given back to the system.
    fn clear(&self, piece: &Range<u64>) -> io::Result<()> {
        let _own = self
            .lock(piece)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let used = self.used(piece);
        if !used.load(Ordering::Relaxed) {
            return Ok(());
        }
        let whole = piece.end - piece.start == STRIPE;
        if whole {
            // SAFETY: whole pages of the mapping that no other thread uses while the lock is held;
            // they are zeroes afterwards.
            unsafe {
                madvise(
                    self.at(piece.start).cast::<c_void>(),
                    size_of_range(piece),
                    Advice::LinuxDontNeed,
                )?;
            }
            used.store(false, Ordering::Relaxed);
        } else {
            // SAFETY: as in `write_with`.
            unsafe { ptr::write_bytes(self.at(piece.start), 0, size_of_range(piece)) };
        }
        Ok(())
    }
}

fn size_of_range(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

impl Store for MemoryStore {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read_with(offset, buf.len(), |at, piece| {
            buf[at..at + piece.len()].copy_from_slice(piece);
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_with(offset, data.len(), |at, piece| {
            piece.copy_from_slice(&data[at..at + piece.len()]);
            Ok(())
        })
    }

    fn zero(&self, offset: u64, length: u64, options: ZeroOptions) -> io::Result<()> {
        if !options.may_trim {
            return self.write_with(offset, length as usize, |_, piece| {
                piece.fill(0);
                Ok(())
            });
        }
        self.pieces(offset, length)
            .try_for_each(|piece| self.clear(&piece))
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.pieces(offset, length)
            .filter(|piece| piece.end - piece.start == STRIPE)
            .try_for_each(|piece| self.clear(&piece))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn extent(&self, offset: u64, length: u64) -> Extent {
        let mut hole = None;
        let mut end = offset;
        for piece in self.pieces(offset, length) {
            let is_hole = !self.used(&piece).load(Ordering::Relaxed);
            if *hole.get_or_insert(is_hole) != is_hole {
                break;
            }
            end = piece.end;
        }
        Extent {
            length: end - offset,
            hole: hole.unwrap_or(false),
        }
    }

    fn memory(&self) -> Option<&MemoryStore> {
        Some(self)
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped once; nothing borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.size as usize) };
    }
}
