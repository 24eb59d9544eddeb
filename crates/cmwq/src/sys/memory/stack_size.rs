//! Which stacks the system grants to new threads.

/// A multiple of the page size of every machine.
const PAGE: usize = 64 << 10;

/// Whether the system grants a thread a stack of `bytes` bytes, in the present state of the process
/// and the machine.
///
/// # Errors
/// It does not; the largest stack that it would grant, in bytes.
pub(crate) fn check(bytes: usize) -> Result<(), usize> {
    if cfg!(cmwq_loom) || is_granted(bytes) {
        return Ok(());
    }
    // `most` pages are granted, and `refused` pages are not.
    let (mut most, mut refused) = (0, bytes.div_ceil(PAGE));
    while most + 1 < refused {
        let pages = most + (refused - most) / 2;
        match is_granted(pages * PAGE) {
            true => most = pages,
            false => refused = pages,
        }
    }
    Err(most * PAGE)
}

/// Does what the C library does for the stack of a new thread: it maps address space with a guard
/// page, and makes it writable, which is when the system compares the size with its memory. The
/// pages are not touched, so no memory is used.
fn is_granted(bytes: usize) -> bool {
    let Some(len) = bytes.checked_add(2 * PAGE) else {
        return false;
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
    // SAFETY: a new mapping, which no other code knows of; it is given up before this returns.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return false;
        }
        let is_granted = libc::mprotect(at, len, libc::PROT_READ | libc::PROT_WRITE) == 0;
        libc::munmap(at, len);
        is_granted
    }
}
