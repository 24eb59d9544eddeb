//! What needs the C library: a thread that takes none of the process's signals, and what a fork's
//! child gives back.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Blocks every signal for the calling thread: the program's own threads handle them.
pub(crate) fn block_signals() {
    // SAFETY: the set is plain data that the first call fills in; the second changes only this thread's mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// What a fork's child closes, as many as an endpoint has.
static CLOSED_IN_CHILD: [AtomicI32; 96] = [const { AtomicI32::new(NONE) }; 96];
const NONE: i32 = -1;

/// While it lives, a fork's child closes its copy of a descriptor, which no thread there serves.
/// Otherwise clients of the parent would wait for an answer of the child when the parent has ended,
/// and its port would be taken. To be dropped before the descriptor is closed: its number may be
/// another's then.
#[derive(Debug)]
pub(crate) struct ClosedInChild(Option<&'static AtomicI32>);

impl ClosedInChild {
    pub(crate) fn new(fd: impl AsFd) -> Self {
        watch_forks();
        let fd = fd.as_fd().as_raw_fd();
        let enter = |place: &&AtomicI32| {
            let entered = place.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed);
            entered.is_ok()
        };
        ClosedInChild(CLOSED_IN_CHILD.iter().find(enter))
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(NONE, Ordering::Relaxed);
        }
    }
}

fn watch_forks() {
    extern "C" fn in_child() {
        for place in &CLOSED_IN_CHILD {
            let fd = place.swap(NONE, Ordering::Relaxed);
            if fd != NONE {
                // SAFETY: it belongs to the endpoint's thread, which does not exist here.
                unsafe { libc::close(fd) };
            }
        }
    }
    // No Once: were it torn by a fork, the child would wait for it. Registered twice, the handler
    // finds nothing the second time.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Acquire) {
        // SAFETY: the handler closes descriptors. If it cannot be registered, a child keeps them.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        WATCHED.store(true, Ordering::Release);
    }
}
