//! As [`rewind`](super::rewind) where that cannot be had, for example since the C library has no
//! contexts (musl): each run is in a process of its own, forked from one that has not run. That
//! takes several times as long.

use super::snapshot::{Order, PATIENCE, Shared};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

/// Orders are read from one descriptor, and what the end of each batch is told by is written to the
/// other. Returns in each run, with its order. The process has one thread.
///
/// # Errors
/// What the system refuses.
pub(super) fn serve(
    orders: libc::c_int,
    ends: libc::c_int,
    told: Shared,
) -> Result<Order, &'static str> {
    // SAFETY: the caller has given both descriptors away.
    let (mut orders, mut ends) = unsafe { (File::from_raw_fd(orders), File::from_raw_fd(ends)) };
    loop {
        let mut bytes = [0; size_of::<Order>()];
        if orders.read_exact(&mut bytes).is_err() {
            // The driver wants no more runs.
            exit(0);
        }
        // SAFETY: the driver has written an order, of numbers.
        let mut order: Order = unsafe { bytes.as_ptr().cast::<Order>().read_unaligned() };
        for _ in 0..order.runs {
            told.begin();
            // SAFETY: the process has one thread, so the child has all that the parent has.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: no pointers. A run ends with the process that waits for it.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::alarm(PATIENCE);
                }
                return Ok(order);
            }
            let mut status = -1;
            // SAFETY: the child is ours, and has not been waited for; there is room for its status.
            if pid < 0 || unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
                return Err("no process to be had");
            }
            if status != 0 {
                end_as(status);
            }
            if !told.has_passed() {
                break;
            }
            order.seed += 1;
        }
        // The driver has gone if it does not read.
        let _ = ends.write_all(&0_i32.to_ne_bytes());
    }
}

/// This run has ended.
pub(super) fn again() -> ! {
    exit(0)
}

/// Ends this process in the way in which its child has ended: the server tells what became of the run.
fn end_as(status: libc::c_int) -> ! {
    if libc::WIFSIGNALED(status) {
        // SAFETY: no pointers.
        unsafe {
            libc::signal(libc::WTERMSIG(status), libc::SIG_DFL);
            libc::raise(libc::WTERMSIG(status));
        }
    }
    exit(libc::WEXITSTATUS(status).max(1))
}

/// Without what a process does when it ends by itself: it is a copy of another.
fn exit(status: libc::c_int) -> ! {
    // SAFETY: no pointers.
    unsafe { libc::_exit(status) }
}
