//! Binding a worker to the CPUs of its pod.
#![forbid(unsafe_code)]

use crate::pool::state::pool::Pool;
use crate::sys::thread;
use crate::trace::warn_once;
use std::io;
use std::sync::Arc;

impl Pool {
    /// Binds the calling worker to the pool's CPUs.
    pub(in crate::pool) fn bind_to_pod(self: &Arc<Self>) {
        let mut binding = self.lock_beside_batches().binding.clone();
        loop {
            // Refused if none of the CPUs is allowed any more (a cpuset has shrunk): better to run
            // elsewhere than not at all.
            if let Err(error) = thread::bind_current(&binding) {
                warn_once_if_forbidden(&error);
            }
            let guard = self.lock_beside_batches();
            if guard.binding == binding {
                return;
            }
            // The binding has changed meanwhile. The thread that changed it may have bound this
            // worker to the new CPUs before the worker bound itself to the old ones, so it binds
            // itself again.
            binding = guard.binding.clone();
        }
    }
}

/// Warns once in a process: not of CPUs that went away, but of a sandbox that refuses the call for any CPUs.
fn warn_once_if_forbidden(error: &io::Error) {
    let forbidden = [libc::EPERM, libc::ENOSYS, libc::EACCES];
    let forbidden = error
        .raw_os_error()
        .is_some_and(|code| forbidden.contains(&code));
    if forbidden {
        warn_once!(
            "workers cannot be bound to the CPUs of their pods ({error}): they run where the system puts them"
        );
    }
}
