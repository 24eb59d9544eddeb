//! Reuses the stacks of the model checker's threads.
//!
//! loom maps a stack for each thread of each execution that it explores, and unmaps it: the calls
//! and the page faults took two thirds of the models' time. The three functions here override the C
//! library's in the test program of `cmwq-models`. They pass all other memory to the system.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// Stacks that one OS thread keeps: a model has at most five threads.
const MOST: usize = 8;

#[derive(Clone, Copy)]
struct Stack {
    /// 0: this slot is free.
    at: usize,
    len: usize,
    in_use: bool,
    /// Its lowest page is the guard page.
    guarded: bool,
}

const FREE: Stack = Stack {
    at: 0,
    len: 0,
    in_use: false,
    guarded: false,
};

thread_local! {
    /// The stacks that this OS thread has mapped. They stay mapped when the thread ends.
    static STACKS: [Cell<Stack>; MOST] = const { [const { Cell::new(FREE) }; MOST] };
}

/// Changes the first stack that `fits`, and returns its address.
fn change(fits: impl Fn(&Stack) -> bool, change: impl Fn(&mut Stack)) -> Option<usize> {
    STACKS.with(|stacks| {
        let slot = stacks.iter().find(|slot| fits(&slot.get()))?;
        let mut stack = slot.get();
        change(&mut stack);
        slot.set(stack);
        Some(stack.at)
    })
}

/// # Safety
/// As for the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: libc::size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let is_stack = flags & libc::MAP_STACK != 0 && at.is_null();
    if is_stack {
        let kept = |stack: &Stack| stack.at != 0 && !stack.in_use && stack.len == len;
        if let Some(at) = change(kept, |stack| stack.in_use = true) {
            return at as *mut c_void;
        }
    }
    // SAFETY: by the caller's contract.
    let mapped =
        unsafe { libc::syscall(libc::SYS_mmap, at, len, protection, flags, fd, offset) } as usize;
    if is_stack && mapped != libc::MAP_FAILED as usize {
        // Without a free slot the stack goes back to the system like any other memory.
        change(
            |stack| stack.at == 0,
            |stack| {
                *stack = Stack {
                    at: mapped,
                    len,
                    in_use: true,
                    guarded: false,
                };
            },
        );
    }
    mapped as *mut c_void
}

/// # Safety
/// As for the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(at: *mut c_void, len: libc::size_t, protection: c_int) -> c_int {
    let page = at as usize;
    let guard = protection == libc::PROT_NONE;
    if guard && change(|stack| stack.at == page && stack.guarded, |_| ()).is_some() {
        return 0;
    }
    // SAFETY: by the caller's contract.
    let status = unsafe { libc::syscall(libc::SYS_mprotect, at, len, protection) } as c_int;
    if guard && status == 0 {
        change(|stack| stack.at == page, |stack| stack.guarded = true);
    }
    status
}

/// # Safety
/// As for the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, len: libc::size_t) -> c_int {
    let base = at as usize;
    let kept = |stack: &Stack| stack.at == base && stack.len == len && stack.in_use;
    if change(kept, |stack| stack.in_use = false).is_some() {
        return 0;
    }
    // SAFETY: by the caller's contract.
    unsafe { libc::syscall(libc::SYS_munmap, at, len) as c_int }
}
