//! How the system treats the connections' threads.

use std::io;

/// From now on the calling thread does not take the CPU from one that runs when something arrives for it; it has its turn as
/// before. Where client and server share CPUs, a client that sends one request after the other is then not interrupted by
/// the first, and the reader finds several at a time. An idle CPU it gets at once, as ever.
///
/// # Errors
/// The system's.
pub(crate) fn do_not_preempt() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the parameters are read only.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// From now on the calling thread is not interrupted by signals, as workers are not: a write beyond the file size limit fails, and
/// does not end the process.
pub(crate) fn block_signals() {
    // SAFETY: all zeroes are a valid value, and it is filled next.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is ours; the old set is not asked for. With a valid set neither call fails.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
