//! How the system treats the connections' threads.

use std::io;

/// From now on the calling thread, when woken, does not preempt the thread that runs on its CPU;
/// its share of CPU time does not change. Where client and server share CPUs, a client that sends
/// several requests is then not preempted after the first, and the reader finds several at a time.
/// The reader still gets an idle CPU at once.
///
/// # Errors
/// The system's.
pub(crate) fn do_not_preempt() -> io::Result<()> {
    // The system's own call and its parameters, the priority alone: musl's function refuses always,
    // and its structure has more.
    let priority: libc::c_int = 0;
    let call = libc::SYS_sched_setscheduler;
    // SAFETY: 0 is the calling thread; the priority is read only.
    match unsafe { libc::syscall(call, 0, libc::SCHED_BATCH, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// From now on the calling thread is not interrupted by signals, as the server's workers are not: a
/// write beyond the file size limit fails, and does not end the process.
pub(crate) fn block_signals() {
    // SAFETY: all zeroes are a valid value, and it is filled next.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is ours; the old set is not asked for. With a valid set neither call fails.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_preempt_is_scheduled_as_a_batch() {
        let policy = std::thread::spawn(|| {
            do_not_preempt()?;
            // SAFETY: 0 is the calling thread; it only returns a number.
            let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
            Ok::<_, io::Error>(policy)
        });
        let policy = policy
            .join()
            .expect("the thread ends")
            .expect("the system allows it");
        assert_eq!(policy, libc::SCHED_BATCH.into());
    }
}
