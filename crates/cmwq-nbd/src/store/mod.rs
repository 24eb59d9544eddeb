//! Where the bytes are kept.

mod file;
mod memory;

use std::io;
use std::os::fd::BorrowedFd;

pub use file::FileStore;
pub(crate) use file::wait_for_lock;
pub use memory::MemoryStore;

/// Tells whether a stretch of an export is a hole, from [`Store::extent`].
///
/// ```
/// use cmwq_nbd::store::{Extent, MemoryStore, Store};
///
/// let store = MemoryStore::new(1 << 20)?;
/// let Extent { length, hole } = store.extent(0, 1 << 20);
/// assert!(hole && length == 1 << 20, "nothing was written");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// In bytes; never 0.
    pub length: u64,
    /// Takes no space and reads as zeroes.
    pub hole: bool,
}

/// How [`Store::zero`] may write zeroes.
///
/// ```
/// use cmwq_nbd::store::{MemoryStore, Store, ZeroOptions};
///
/// let store = MemoryStore::new(1 << 20)?;
/// store.zero(0, 4096, ZeroOptions { may_trim: true, only_fast: false })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ZeroOptions {
    /// May leave a hole.
    pub may_trim: bool,
    /// Refuse with [`io::ErrorKind::Unsupported`] rather than write them out.
    pub only_fast: bool,
}

/// Keeps the bytes of an export. All offsets and lengths given to it lie within
/// [`size`](Self::size). Calls come from many threads at a time, also for overlapping ranges; what
/// the contents of such a range are then is one of the writers' for each 512 bytes.
///
/// ```
/// use cmwq_nbd::store::{MemoryStore, Store};
///
/// /// What is at `offset`, whatever keeps it.
/// fn sector(store: &dyn Store, offset: u64) -> std::io::Result<[u8; 512]> {
///     let mut bytes = [0; 512];
///     store.read(offset, &mut bytes)?;
///     Ok(bytes)
/// }
///
/// assert_eq!(sector(&MemoryStore::new(4096)?, 512)?, [0; 512]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Store: Send + Sync {
    /// In bytes. Does not change.
    fn size(&self) -> u64;

    /// Fills `buf`. What there is less of is an error.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Fills `buf` if that needs no waiting. `false`: it does, or the store cannot tell, and what
    /// is in `buf` is of no use.
    fn read_at_once(&self, _offset: u64, _buf: &mut [u8]) -> bool {
        false
    }

    /// Whether a write goes into the page cache: it rarely waits.
    fn writes_into_cache(&self) -> bool {
        false
    }

    /// Writes all of `data` if that needs no waiting. `None`: it does, or the store cannot tell,
    /// and a part may be written.
    fn write_at_once(&self, _offset: u64, _data: &[u8]) -> Option<io::Result<()>> {
        None
    }

    /// Writes all of `data`: a later `read` sees it.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes zeroes.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`].
    fn zero(&self, offset: u64, length: u64, options: ZeroOptions) -> io::Result<()>;

    /// Whether [`only_fast`](ZeroOptions::only_fast) is not refused each time.
    fn has_fast_zeroes(&self) -> bool {
        true
    }

    /// Contents that are not needed any more: they may stay, or read as zeroes.
    ///
    /// # Errors
    /// The system's.
    fn trim(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Makes durable what calls that have returned before have written, from whatever thread.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Reads ahead, if that makes sense.
    fn prefetch(&self, _offset: u64, _length: u64) {}

    /// The first extent of a range.
    fn extent(&self, offset: u64, length: u64) -> Extent;

    /// The file, if it is to be read, written and synced by io_uring, and not by the functions above.
    fn file_for_ring(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The memory itself, if it is kept there: nothing blocks then.
    fn memory(&self) -> Option<&MemoryStore> {
        None
    }
}
