//! Scarce threads: the program's own `pthread_create` comes before the C library's, and refuses, or
//! lets the caller wait, for as long as a test wants. A limit on the number of threads would not
//! do: the system grants root any number.
//!
//! A program has one such function: test programs name this file themselves.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Nothing is done to any creation.
const FREE: usize = 0;
/// Every creation is refused.
const NONE: usize = usize::MAX;
/// The creator of the workers waits.
const WAITS: usize = usize::MAX - 1;
/// Every second creation by a thread of the program is refused.
const SECOND: usize = usize::MAX - 2;

/// One of the above; otherwise one worker in this many is refused.
static POLICY: AtomicUsize = AtomicUsize::new(FREE);
static WORKERS_ASKED: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_ASKED: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
static WAITED: AtomicUsize = AtomicUsize::new(0);

/// While it lives, threads are scarce. The caller ensures that no other test runs meanwhile.
pub(crate) struct Shortage {
    refused_before: usize,
    waited_before: usize,
}

impl Shortage {
    fn of(policy: usize) -> Self {
        let shortage = Shortage {
            refused_before: REFUSED.load(Ordering::SeqCst),
            waited_before: WAITED.load(Ordering::SeqCst),
        };
        POLICY.store(policy, Ordering::SeqCst);
        shortage
    }

    /// One worker in `n` is refused.
    pub(crate) fn of_one_in(n: usize) -> Self {
        Self::of(n)
    }

    /// No thread can be created, by any thread.
    pub(crate) fn of_all() -> Self {
        Self::of(NONE)
    }

    /// Every second creation by a thread that is not the library's is refused, from the second on.
    pub(crate) fn of_every_second() -> Self {
        PROGRAM_ASKED.store(0, Ordering::SeqCst);
        Self::of(SECOND)
    }

    /// The creation of a worker takes until this is dropped.
    pub(crate) fn that_waits() -> Self {
        Self::of(WAITS)
    }

    /// How often a creation was refused.
    pub(crate) fn refused(&self) -> usize {
        REFUSED.load(Ordering::SeqCst) - self.refused_before
    }

    /// How many creations had to wait, or still do.
    pub(crate) fn waited(&self) -> usize {
        WAITED.load(Ordering::SeqCst) - self.waited_before
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        POLICY.store(FREE, Ordering::SeqCst);
    }
}

pub(crate) fn are_short() -> bool {
    POLICY.load(Ordering::SeqCst) != FREE
}

/// Whether the name of the calling thread begins like this.
fn is_named(part: &[u8]) -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(part)
}

/// Whether the calling thread is the one that creates the workers.
fn creates_workers() -> bool {
    is_named(b"cmwq-creator\0")
}

fn is_refused() -> bool {
    let refused = match POLICY.load(Ordering::SeqCst) {
        FREE => false,
        NONE => true,
        WAITS => {
            if creates_workers() {
                WAITED.fetch_add(1, Ordering::SeqCst);
                while POLICY.load(Ordering::SeqCst) == WAITS {
                    std::thread::park_timeout(std::time::Duration::from_millis(1));
                }
            }
            false
        }
        SECOND => {
            !is_named(b"cmwq-")
                && !PROGRAM_ASKED
                    .fetch_add(1, Ordering::SeqCst)
                    .is_multiple_of(2)
        }
        one_in => {
            creates_workers()
                && WORKERS_ASKED
                    .fetch_add(1, Ordering::SeqCst)
                    .is_multiple_of(one_in)
        }
    };
    if refused {
        REFUSED.fetch_add(1, Ordering::SeqCst);
    }
    refused
}

type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attr: *const libc::pthread_attr_t,
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if is_refused() {
        return libc::EAGAIN;
    }
    // SAFETY: the names end with 0; what is found under them is the C library's function, of this
    // type, or the race detector's own in its place, which this one has hidden; the arguments are
    // the caller's.
    unsafe {
        let detectors = c"__interceptor_pthread_create".as_ptr();
        let mut next = libc::dlsym(libc::RTLD_DEFAULT, detectors);
        if next.is_null() {
            next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        }
        assert!(!next.is_null(), "there is a C library");
        std::mem::transmute::<*mut c_void, Create>(next)(thread, attr, main, argument)
    }
}
