//! Stacks of virtual threads, at the same addresses in each process if those are free: what depends
//! on addresses is the same then.

use corosensei::stack::{Stack, StackPointer};
use std::cell::RefCell;
use std::num::NonZeroUsize;

/// Pages that are not touched take no memory.
const SIZE: usize = 512 * 1024;
/// Below each stack, so that one that overflows ends the process.
const GUARD: usize = 4096;
/// Where the first one is, if that is free.
const HINT: usize = 0x2b00_0000_0000;

thread_local! {
    /// Stacks that no machine of this OS thread has, by number: making one takes the system as long
    /// as hundreds of operations.
    static KEPT: RefCell<Vec<Option<Mapped>>> = const { RefCell::new(Vec::new()) };
}
/// How many are kept at most.
const MOST_KEPT: usize = 64;

/// The guard page, and the stack above it.
struct Mapped(NonZeroUsize);

pub(crate) struct HostStack {
    number: usize,
    /// There until it is dropped.
    mapped: Option<Mapped>,
}

/// Makes the first stacks of the machines to come: a process that is forked has them.
pub fn prepare_stacks(count: usize) {
    let stacks: Vec<_> = (0..count).map(HostStack::new).collect();
    drop(stacks);
}

impl HostStack {
    /// The `number`-th stack of a machine.
    pub(crate) fn new(number: usize) -> std::io::Result<HostStack> {
        let kept = KEPT.with_borrow_mut(|kept| kept.get_mut(number).and_then(Option::take));
        let mapped = match kept {
            Some(mapped) => mapped,
            None => Mapped::new(number)?,
        };
        Ok(HostStack {
            number,
            mapped: Some(mapped),
        })
    }

    /// Where it begins, and its bytes.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.memory().get() + GUARD, SIZE)
    }

    fn memory(&self) -> NonZeroUsize {
        let mapped = self.mapped.as_ref();
        mapped.expect("it is there until it is dropped").0
    }
}

impl Mapped {
    fn new(number: usize) -> std::io::Result<Mapped> {
        let hint = HINT + number % (1 << 20) * (SIZE + GUARD);
        // SAFETY: new pages, at an address that is no more than a hint; the guard page is of no use
        // to anything.
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
            let stack = Mapped(memory);
            if libc::mprotect(memory.get() as *mut libc::c_void, GUARD, libc::PROT_NONE) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(stack)
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and no coroutine has it any more.
        unsafe { libc::munmap(self.0.get() as *mut libc::c_void, SIZE + GUARD) };
    }
}

impl Drop for HostStack {
    fn drop(&mut self) {
        if self.number >= MOST_KEPT {
            return;
        }
        let mapped = self.mapped.take();
        // At the OS thread's end nothing is kept.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let len = kept.len().max(self.number + 1);
            kept.resize_with(len, || None);
            kept[self.number] = mapped;
        });
    }
}

// SAFETY: from the limit to the base there is readable and writable memory while this exists,
// aligned to pages, with a guard page below.
unsafe impl Stack for HostStack {
    fn base(&self) -> StackPointer {
        self.memory().saturating_add(SIZE + GUARD)
    }

    fn limit(&self) -> StackPointer {
        self.memory()
    }
}
