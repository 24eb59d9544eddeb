//! Which signals the library's threads take.
//!
//! A signal to the process goes to any thread that does not block it, and its handler interrupts that thread.
//!
//! The library's own threads (service, creator, reporter, timer) run with the [library's
//! mask](LibraryMask): they block signals, so that the program's handlers interrupt threads that
//! run the program's code. Two groups are left out:
//!
//! - Faults of the thread itself ([`FAULTS`]). If such a signal is blocked, the kernel ends the
//!   process instead of delivering it: the program's handler, and the message about a stack
//!   overflow, would be lost in work functions.
//! - Signals that ask where a thread is ([`ABOUT_THE_THREAD`]): profilers send `SIGPROF`, `abort()`
//!   and supervisors send `SIGABRT`. They stay open unless the creating thread blocks them, since
//!   then the program takes them in its own way.
//!
//! Threads that run items have the [mask of the thread that built the engine](SignalMask), as the
//! threads of any pool of the program would: what an item starts inherits it. A program may ask for
//! the library's mask there too
//! ([`WorkerThreads::block_signals`](crate::WorkerThreads::block_signals)).

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Raised by an instruction of the thread that gets the signal.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

const ABOUT_THE_THREAD: [i32; 2] = [libc::SIGPROF, libc::SIGABRT];

/// Gives the caller the signal mask of the library's threads, which threads that it creates
/// inherit. Dropping it restores the old mask.
pub(super) struct LibraryMask {
    before: libc::sigset_t,
}

impl LibraryMask {
    pub(super) fn enter() -> Self {
        let open = FAULTS.iter().chain(&ABOUT_THE_THREAD);
        let blocked = all_but(open);
        let before = change(libc::SIG_BLOCK, &blocked);
        // Faults stay unblocked even if the creating thread blocks them.
        change(libc::SIG_UNBLOCK, &of(&FAULTS));
        LibraryMask { before }
    }
}

impl Drop for LibraryMask {
    fn drop(&mut self) {
        change(libc::SIG_SETMASK, &self.before);
    }
}

/// The signals that a thread blocks.
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Those of the calling thread.
    pub(crate) fn of_current() -> Self {
        SignalMask(change(libc::SIG_BLOCK, &of(&[])))
    }

    /// The calling thread blocks these from now on, except for [`FAULTS`].
    pub(crate) fn take(&self) {
        // Under the model checker and in the simulator all threads are one thread.
        if cfg!(any(cmwq_loom, cmwq_sim)) {
            return;
        }
        let mut blocked = self.0;
        for signal in FAULTS {
            // SAFETY: the set is initialised, and the signal exists.
            unsafe { libc::sigdelset(&mut blocked, signal) };
        }
        change(libc::SIG_SETMASK, &blocked);
    }
}

/// Unblocks all signals in the calling thread.
///
/// A process inherits the mask of the thread that starts it. On a worker that blocks signals,
/// because the thread that built the engine did or with
/// [`WorkerThreads::block_signals`](crate::WorkerThreads::block_signals), `SIGTERM`, `SIGINT` or
/// `SIGALRM` would do nothing to it. Call this in the child before it becomes another program:
///
/// ```
/// use cmwq::{Engine, WorkerThreads};
/// use std::os::unix::process::CommandExt;
/// use std::process::Command;
///
/// let threads = WorkerThreads::new().block_signals(true);
/// let engine = Engine::builder().worker_threads(threads).build()?;
/// let queue = engine.workqueue("children").build()?;
/// let child = queue.spawn(|| {
///     let mut command = Command::new("true");
///     // SAFETY: the function may be called between fork and exec.
///     unsafe { command.pre_exec(cmwq::raw::reset_signal_mask) };
///     command.status()
/// });
/// assert!(child.join()??.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The function is async-signal-safe: it takes no lock, allocates nothing, and may be called
/// between `fork` and `exec`. A work function that calls it itself opens a thread of the library to
/// the process's signals for good.
///
/// # Errors
/// None is known; the system's error is passed on.
pub fn reset_signal_mask() -> io::Result<()> {
    let none = of(&[]);
    // SAFETY: the set is initialised; the call only changes the calling thread.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Changes the calling thread's mask; returns the old one.
fn change(how: i32, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: `set` is initialised and `before` valid for writes. With a valid `how` the call
    // cannot fail; all zeros is a valid set as well.
    unsafe {
        libc::pthread_sigmask(how, set, before.as_mut_ptr());
        before.assume_init()
    }
}

fn of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: sigemptyset initialises the set, sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn all_but<'a>(signals: impl Iterator<Item = &'a i32>) -> libc::sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: sigfillset initialises the set, sigdelset changes an initialised one.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}
