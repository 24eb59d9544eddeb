//! A store in a file or on a block device.
#![forbid(unsafe_code)]

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Extent, Store, ZeroOptions};
use crate::ring::Ring;

/// Zeroes are written out in pieces of this size where the file system cannot do it by itself.
const ZEROES: &[u8] = &[0; 64 << 10];
/// How often the lock of a file in use is tried again, and the pause between two tries: two seconds in all.
///
/// The successor of a killed server may find the file locked: the lock stays until the kernel has
/// ended what the dead server's io_uring had in flight, perhaps after the process is gone. It must
/// stay so long, since until then those writes may reach the file.
const ATTEMPTS: u32 = 200;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// Keeps the bytes in a file or on a block device, through the system's page cache.
///
/// ```
/// use cmwq_nbd::store::{FileStore, Store};
///
/// # let path = std::env::temp_dir().join(format!("cmwq-store-{}", std::process::id()));
/// # std::fs::write(&path, [0; 8192])?;
/// let store = FileStore::open(&path, false, 512)?;
/// # std::fs::remove_file(&path)?;
/// store.write(0, b"hello")?;
/// store.sync()?;
/// assert_eq!(store.size(), 8192);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct FileStore {
    file: File,
    size: u64,
    is_device: bool,
    has_fast_zeroes: bool,
    /// The system reads what is in its page cache and refuses the rest (not in tmpfs).
    tells_cached: bool,
    by_io_uring: bool,
    /// The file system does not tell whether a write would wait.
    writes_untold: AtomicBool,
}

/// Locks the file, so that no two servers write to it. While it is in use `again` waits, and
/// returns whether to try once more.
fn lock(file: &File, read_only: bool, mut again: impl FnMut() -> bool) -> io::Result<()> {
    let operation = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    loop {
        match rustix::fs::flock(file, operation) {
            Err(Errno::WOULDBLOCK) if again() => {}
            Err(Errno::WOULDBLOCK) => return Err(io::Error::other("in use by another process")),
            other => return Ok(other?),
        }
    }
}

/// Locks the file, and waits at most two seconds for it.
pub(crate) fn wait_for_lock(file: &File, read_only: bool) -> io::Result<()> {
    let mut attempts = 0..ATTEMPTS;
    lock(file, read_only, || {
        let again = attempts.next().is_some();
        if again {
            thread::sleep(BETWEEN_ATTEMPTS);
        }
        again
    })
}

/// Opens a file, or a block device. A device that will be written to is claimed as well: while a file
/// system on it is mounted, or another program has claimed it, the system refuses that. As with the
/// lock, a killed server may have it for a moment.
fn open(path: &Path, is_device: bool, read_only: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(!read_only);
    if is_device && !read_only {
        options.custom_flags(libc::O_EXCL);
    }
    let mut attempts = 0..ATTEMPTS;
    loop {
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && is_device => {
                if attempts.next().is_none() {
                    let why =
                        "the device is in use: it is mounted, or another program has claimed it";
                    return Err(io::Error::new(ErrorKind::ResourceBusy, why));
                }
                thread::sleep(BETWEEN_ATTEMPTS);
            }
            opened => return opened,
        }
    }
}

/// A block device that was set read-only: it can be opened for writing, and fails each write.
fn is_read_only_device(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.file_type().is_block_device() {
        return Ok(false);
    }
    // Where /sys does not tell, the writes will.
    Ok(device_attribute(&metadata, "ro").as_deref() == Some("1"))
}

/// What /sys has about a block device.
fn device_attribute(device: &Metadata, name: &str) -> Option<String> {
    let [major, minor] = [rustix::fs::major, rustix::fs::minor].map(|part| part(device.rdev()));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{name}"));
    text.ok().map(|text| text.trim().to_owned())
}

/// Whether the file system, or the device, can make zeroes without writing them out: asked in a way
/// that changes nothing. `true` where it does not tell.
fn has_fast_zeroes(file: &File, size: u64) -> bool {
    let Ok(metadata) = file.metadata() else {
        return true;
    };
    if metadata.file_type().is_block_device() {
        // A partition has them in the folder of its disk.
        let names = ["queue", "../queue"].map(|queue| format!("{queue}/write_zeroes_max_bytes"));
        let most = names
            .iter()
            .find_map(|name| device_attribute(&metadata, name));
        return most.as_deref() != Some("0");
    }
    // A hole behind the end.
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let answer = rustix::fs::fallocate(file, hole, size, 4096);
    !matches!(answer, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV))
}

/// Reads as much as the page cache has.
fn read_cached(file: &File, offset: u64, buf: &mut [u8]) -> rustix::io::Result<usize> {
    rustix::io::preadv2(
        file,
        &mut [IoSliceMut::new(buf)],
        offset,
        ReadWriteFlags::NOWAIT,
    )
}

/// How the system may be asked for zeroes, in this order. On a device that has no command for
/// zeroes it writes them out, unless a hole is asked for: that fails there.
fn ways_to_zero(options: ZeroOptions, is_device: bool) -> impl Iterator<Item = FallocateFlags> {
    let hole = options.may_trim.then_some(FallocateFlags::PUNCH_HOLE);
    let range = !(options.only_fast && is_device);
    let range = range.then_some(FallocateFlags::ZERO_RANGE);
    let ways = hole.into_iter().chain(range);
    ways.map(|way| way | FallocateFlags::KEEP_SIZE)
}

impl FileStore {
    /// Opens a file or a block device. Its size is read now and rounded down to a multiple of `block` bytes.
    ///
    /// Waits at most two seconds for a file that another server has: a killed one may have writes in flight.
    ///
    /// # Errors
    /// The system's; a file that stays in use by another server, or that is neither a file nor a
    /// block device; a device that is to be written and is mounted, or claimed by another program.
    pub fn open(path: &Path, read_only: bool, block: u32) -> io::Result<FileStore> {
        // Opening a pipe would wait for its other end.
        let kind = std::fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::other(
                "neither a regular file nor a block device",
            ));
        }
        let is_device = kind.is_block_device();
        let file = open(path, is_device, read_only)?;
        if !read_only && is_read_only_device(&file)? {
            let why = "the device is read-only";
            return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, why));
        }
        wait_for_lock(&file, read_only)?;
        let size = rustix::fs::seek(&file, SeekFrom::End(0))?;
        let has_fast_zeroes = !read_only && has_fast_zeroes(&file, size);
        let size = size - size % u64::from(block);
        if size == 0 {
            return Err(io::Error::other(format!(
                "empty: the export would have no size (make it with: truncate --size 1G {})",
                path.display()
            )));
        }
        let told = read_cached(&file, 0, &mut [0]);
        Ok(FileStore {
            has_fast_zeroes,
            file,
            size,
            is_device,
            tells_cached: told != Err(Errno::OPNOTSUPP),
            by_io_uring: false,
            writes_untold: AtomicBool::new(false),
        })
    }

    /// From now on reads, writes and syncs of requests go through io_uring.
    ///
    /// # Errors
    /// The kernel has no io_uring, or one that is too old, or does not permit it.
    pub fn by_io_uring(mut self) -> io::Result<FileStore> {
        Ring::check()?;
        self.by_io_uring = true;
        Ok(self)
    }

    /// Reads what the page cache has; stops where it would have to wait for the disk.
    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> usize {
        let mut done = 0;
        while self.tells_cached && done < buf.len() {
            match read_cached(&self.file, offset + done as u64, &mut buf[done..]) {
                Ok(0) | Err(_) => break,
                Ok(n) => done += n,
            }
        }
        done
    }

    fn allocate(&self, flags: FallocateFlags, offset: u64, length: u64) -> io::Result<()> {
        rustix::fs::fallocate(&self.file, flags, offset, length).map_err(|error| match error {
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV => ErrorKind::Unsupported.into(),
            // No whole sectors of a device.
            Errno::INVAL => ErrorKind::Unsupported.into(),
            other => other.into(),
        })
    }
}

impl Store for FileStore {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let done = self.read_cached(offset, buf);
        if done == buf.len() {
            return Ok(());
        }
        // The disk: the pool runs another worker meanwhile.
        cmwq::blocking(|| {
            self.file
                .read_exact_at(&mut buf[done..], offset + done as u64)
        })
    }

    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> bool {
        self.read_cached(offset, buf) == buf.len()
    }

    fn writes_into_cache(&self) -> bool {
        true
    }

    /// Where the file system cannot tell (ext4), it is written all the same: the write goes into
    /// the page cache and rarely waits, and the kernel would hand one of io_uring to a thread of
    /// its own.
    fn write_at_once(&self, offset: u64, data: &[u8]) -> Option<io::Result<()>> {
        let mut done = 0;
        while done < data.len() && !self.writes_untold.load(Ordering::Relaxed) {
            let rest = [IoSlice::new(&data[done..])];
            let at = offset + done as u64;
            match rustix::io::pwritev2(&self.file, &rest, at, ReadWriteFlags::NOWAIT) {
                Ok(0) | Err(Errno::AGAIN) => return None,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) => self.writes_untold.store(true, Ordering::Relaxed),
                Err(error) => return Some(Err(error.into())),
            }
        }
        match done == data.len() {
            true => Some(Ok(())),
            false => Some(self.write(offset, data)),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        // Into the page cache: this rarely waits, and when it does the pool's monitor notices.
        self.file.write_all_at(data, offset)
    }

    fn zero(&self, offset: u64, length: u64, options: ZeroOptions) -> io::Result<()> {
        cmwq::blocking(|| {
            for flags in ways_to_zero(options, self.is_device) {
                match self.allocate(flags, offset, length) {
                    Err(error) if error.kind() == ErrorKind::Unsupported => {}
                    done => return done,
                }
            }
            if options.only_fast {
                return Err(ErrorKind::Unsupported.into());
            }
            let mut at = offset;
            while at < offset + length {
                let n = (ZEROES.len() as u64).min(offset + length - at);
                self.file.write_all_at(&ZEROES[..n as usize], at)?;
                at += n;
            }
            Ok(())
        })
    }

    fn has_fast_zeroes(&self) -> bool {
        self.has_fast_zeroes
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match cmwq::blocking(|| self.allocate(hole, offset, length)) {
            // Advice only: what cannot be given back stays.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            done => done,
        }
    }

    fn sync(&self) -> io::Result<()> {
        cmwq::blocking(|| self.file.sync_data())
    }

    fn file_for_ring(&self) -> Option<BorrowedFd<'_>> {
        self.by_io_uring.then(|| self.file.as_fd())
    }

    fn prefetch(&self, offset: u64, length: u64) {
        let length = std::num::NonZeroU64::new(length);
        // Advice only.
        let _ = rustix::fs::fadvise(&self.file, offset, length, Advice::WillNeed);
    }

    fn extent(&self, offset: u64, length: u64) -> Extent {
        let end = offset + length;
        let data = rustix::fs::seek(&self.file, SeekFrom::Data(offset));
        let (until, hole) = match data {
            Ok(data) if data > offset => (data, true),
            // No data up to the file's end, which may have come nearer: behind it nothing can be read.
            Err(Errno::NXIO) => match rustix::fs::seek(&self.file, SeekFrom::End(0)) {
                Ok(size) if size > offset => (size, true),
                _ => (end, false),
            },
            // Data here, or a file system that cannot tell.
            _ => {
                let until = rustix::fs::seek(&self.file, SeekFrom::Hole(offset));
                (
                    until.ok().filter(|until| *until > offset).unwrap_or(end),
                    false,
                )
            }
        };
        Extent {
            length: until.min(end) - offset,
            hole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// The same file, opened twice.
    fn opened_twice() -> [File; 2] {
        let memory = rustix::fs::memfd_create("image", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        [(); 2].map(|()| File::options().read(true).write(true).open(&path).unwrap())
    }

    #[test]
    fn what_must_be_fast_is_not_left_to_a_device_that_may_write_it_out() {
        use FallocateFlags as Flags;
        let ways = |may_trim, only_fast, is_device| {
            let options = ZeroOptions {
                may_trim,
                only_fast,
            };
            ways_to_zero(options, is_device).collect::<Vec<_>>()
        };
        let [hole, range] =
            [Flags::PUNCH_HOLE, Flags::ZERO_RANGE].map(|way| way | Flags::KEEP_SIZE);
        for (only_fast, is_device) in [(false, false), (true, false), (false, true)] {
            assert_eq!(ways(true, only_fast, is_device), [hole, range]);
            assert_eq!(ways(false, only_fast, is_device), [range]);
        }
        assert_eq!(ways(true, true, true), [hole]);
        assert_eq!(ways(false, true, true), []);
    }

    #[test]
    fn a_file_is_waited_for_until_its_last_user_is_gone() {
        let [dead, next] = opened_twice();
        lock(&dead, false, || panic!("nobody has it")).unwrap();
        // As the kernel does for a dead server: it closes the file when everything in flight has ended.
        let mut in_flight = vec![dead.try_clone().unwrap(), dead];
        lock(&next, false, || in_flight.pop().is_some()).unwrap();
        assert_eq!(in_flight.len(), 0);
    }

    #[test]
    fn a_file_that_stays_in_use_is_refused() {
        for (read_only, other_read_only) in [(false, false), (false, true), (true, false)] {
            let [used, next] = opened_twice();
            lock(&used, read_only, || panic!("nobody has it")).unwrap();
            let mut attempts = 1..3;
            let refused = lock(&next, other_read_only, || attempts.next().is_some());
            assert_eq!(
                refused.unwrap_err().to_string(),
                "in use by another process"
            );
            assert!(attempts.is_empty());
        }
        let [one, other] = opened_twice();
        for reader in [&one, &other] {
            lock(reader, true, || panic!("readers share")).unwrap();
        }
    }
}
