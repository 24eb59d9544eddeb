//! The one thing that needs the C library: a thread that takes none of the process's signals.
#![allow(unsafe_code)]

/// Blocks every signal for the calling thread: the program's own threads handle them.
pub(crate) fn block_signals() {
    // SAFETY: the set is plain data that the first call fills in; the second changes only this thread's mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
