//! Stacks of virtual threads, at the same addresses in each process if those are free: what depends on addresses is the same then.

use corosensei::stack::{Stack, StackPointer};
use std::num::NonZeroUsize;

/// Pages that are not touched take no memory.
const SIZE: usize = 512 * 1024;
/// Below each stack, so that one that overflows ends the process.
const GUARD: usize = 4096;
/// Where the first one is, if that is free.
const HINT: usize = 0x2b00_0000_0000;

pub(crate) struct HostStack {
    /// The guard page, and the stack above it.
    memory: NonZeroUsize,
}

impl HostStack {
    /// The `number`-th stack of a machine.
    pub(crate) fn new(number: usize) -> std::io::Result<HostStack> {
        let hint = HINT + number % (1 << 20) * (SIZE + GUARD);
        // SAFETY: new pages, at an address that is no more than a hint; the guard page is of no use to anything.
        unsafe {
            let memory = libc::mmap(
                hint as *mut libc::c_void,
                SIZE + GUARD,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            let memory = match NonZeroUsize::new(memory as usize) {
                Some(at) if memory != libc::MAP_FAILED => at,
                _ => return Err(std::io::Error::last_os_error()),
            };
            let stack = HostStack { memory };
            if libc::mprotect(memory.get() as *mut libc::c_void, GUARD, libc::PROT_NONE) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(stack)
        }
    }
}

impl Drop for HostStack {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and no coroutine has it any more.
        unsafe { libc::munmap(self.memory.get() as *mut libc::c_void, SIZE + GUARD) };
    }
}

// SAFETY: from the limit to the base there is readable and writable memory while this exists, aligned to pages, with a guard page below.
unsafe impl Stack for HostStack {
    fn base(&self) -> StackPointer {
        self.memory.saturating_add(SIZE + GUARD)
    }

    fn limit(&self) -> StackPointer {
        self.memory
    }
}
