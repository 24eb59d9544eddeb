//! Memory for keys: locked (`mlock`), so that the system does not write it to swap, left out of
//! core dumps (`MADV_DONTDUMP`) and of children (`MADV_DONTFORK`), and wiped when it is freed.
//!
//! Each piece has pages of its own: a key, and each context of the cipher library, which has the
//! expanded key. These are few and live as long as the server. Where a piece cannot be locked it is
//! used all the same, and [`not_locked`] says why.

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

/// Before each piece lies its length; the piece begins with a cache line.
const HEADER: usize = 64;

/// The first error of an attempt to lock a piece or to leave it out of core dumps; 0: none.
static REFUSED: AtomicI32 = AtomicI32::new(0);

/// Why some key is in memory that may reach swap or a core dump. `None`: none is, as far as keys
/// are in this kind of memory.
pub fn not_locked() -> Option<io::Error> {
    match REFUSED.load(Ordering::Relaxed) {
        0 => None,
        error => Some(io::Error::from_raw_os_error(error)),
    }
}

fn note_refusal(done: Result<(), Errno>) {
    if let Err(error) = done {
        let (error, order) = (error.raw_os_error(), Ordering::Relaxed);
        // Only the first is told.
        let _ = REFUSED.compare_exchange(0, error, order, order);
    }
}

/// A piece of `len` zeroes.
fn allocate(len: usize) -> io::Result<NonNull<u8>> {
    let size = len.checked_add(HEADER).ok_or(io::ErrorKind::OutOfMemory)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address of the system's choice.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), size, access, MapFlags::PRIVATE)? };
    // SAFETY: the whole mapping, which no other code knows yet.
    unsafe {
        note_refusal(mlock(start, size));
        note_refusal(madvise(start, size, Advice::LinuxDontDump));
        note_refusal(madvise(start, size, Advice::LinuxDontFork));
    }
    // SAFETY: the mapping is page-aligned and longer than its header.
    let piece = unsafe {
        start.cast::<usize>().write(len);
        start.cast::<u8>().add(HEADER)
    };
    NonNull::new(piece).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// How long a piece is.
///
/// # Safety
/// [`allocate`] has returned it, and it is not freed.
unsafe fn len(piece: NonNull<u8>) -> usize {
    // SAFETY: there is the header.
    unsafe { piece.as_ptr().sub(HEADER).cast::<usize>().read() }
}

/// Wipes and frees a piece.
///
/// # Safety
/// [`allocate`] has returned it, it is not freed, and it is not used any more.
unsafe fn release(piece: NonNull<u8>) {
    // SAFETY: by this function's contract.
    let len = unsafe { len(piece) };
    // SAFETY: the piece is initialised, and no other code uses it.
    unsafe { std::slice::from_raw_parts_mut(piece.as_ptr(), len) }.zeroize();
    // SAFETY: the whole mapping, which nothing points to any more.
    let unmapped = unsafe { munmap(piece.as_ptr().sub(HEADER).cast(), len + HEADER) };
    debug_assert_eq!(unmapped, Ok(()));
}

/// Bytes in such memory.
pub(crate) struct Secret(NonNull<u8>);

// SAFETY: it owns its memory, which belongs to no thread.
unsafe impl Send for Secret {}
// SAFETY: shared references only read.
unsafe impl Sync for Secret {}

impl Secret {
    /// `len` zeroes.
    ///
    /// # Errors
    /// The system's: no memory.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        allocate(len).map(Secret)
    }
}

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: ours, initialised, and as long as it says.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), len(self.0)) }
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), len(self.0)) }
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        // SAFETY: ours alone, freed once.
        unsafe { release(self.0) };
    }
}

/// Has the cipher library (AWS-LC) keep all its memory so, from now on. `false`: it has other
/// functions for that already.
///
/// # Safety
/// No code of the process has used the library before.
pub unsafe fn hold_ciphers() -> bool {
    // SAFETY: the three belong together, and nothing was allocated by others.
    let set = unsafe {
        aws_lc_sys::CRYPTO_set_mem_functions(
            Some(library_allocate),
            Some(library_reallocate),
            Some(library_free),
        )
    };
    set == 1
}

unsafe extern "C" fn library_allocate(
    size: usize,
    _file: *const c_char,
    _line: c_int,
) -> *mut c_void {
    allocate(size).map_or(ptr::null_mut(), |piece| piece.as_ptr().cast())
}

unsafe extern "C" fn library_reallocate(
    old: *mut c_void,
    size: usize,
    _file: *const c_char,
    _line: c_int,
) -> *mut c_void {
    let Ok(new) = allocate(size) else {
        return ptr::null_mut();
    };
    if let Some(old) = NonNull::new(old.cast::<u8>()) {
        // SAFETY: the library gives back what it was given; the two are different mappings.
        unsafe {
            ptr::copy_nonoverlapping(old.as_ptr(), new.as_ptr(), len(old).min(size));
            release(old);
        }
    }
    new.as_ptr().cast()
}

unsafe extern "C" fn library_free(piece: *mut c_void, _file: *const c_char, _line: c_int) {
    if let Some(piece) = NonNull::new(piece.cast()) {
        // SAFETY: the library gives back what it was given, once.
        unsafe { release(piece) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_contents_until_they_are_freed() {
        let none = ptr::null();
        // SAFETY: each piece is given back once, and not used afterwards.
        unsafe {
            let piece = library_reallocate(ptr::null_mut(), 5000, none, 0).cast::<u8>();
            assert!(piece.addr().is_multiple_of(64));
            let bytes = std::slice::from_raw_parts_mut(piece, 5000);
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(7);
            let longer = library_reallocate(piece.cast(), 9000, none, 0).cast::<u8>();
            let bytes = std::slice::from_raw_parts(longer, 9000);
            assert!(bytes[..5000].iter().all(|&byte| byte == 7));
            assert!(bytes[5000..].iter().all(|&byte| byte == 0));
            let shorter = library_reallocate(longer.cast(), 1, none, 0).cast::<u8>();
            assert_eq!(shorter.read(), 7);
            library_free(shorter.cast(), none, 0);
            library_free(library_allocate(0, none, 0), none, 0);
        }
        let mut secret = Secret::new(65).unwrap();
        assert_eq!(&*secret, &[0; 65]);
        secret[64] = 1;
        assert_eq!(secret.len(), 65);
    }
}
