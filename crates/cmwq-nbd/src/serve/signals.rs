//! The signals to stop: SIGINT, SIGTERM and SIGHUP.

use std::io;

const STOPPING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The signals that stop the server, blocked, to be waited for.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks them in this thread and in threads that it creates from now on.
    pub(super) fn block() -> io::Result<Self> {
        // SAFETY: all zeroes are a valid value, and it is set up below.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is ours, and the signals exist.
        unsafe {
            libc::sigemptyset(&mut set);
            for signal in STOPPING {
                libc::sigaddset(&mut set, signal);
            }
        }
        // SAFETY: a valid set; the old one is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(Signals(set)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Waits for one of them.
    pub(super) fn wait(&self) -> io::Result<()> {
        let mut signal = 0;
        // SAFETY: a valid set, blocked; the number is ours.
        match unsafe { libc::sigwait(&self.0, &mut signal) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}
