//! Runs something in a process of its own. What a run leaves behind in the process (counters and caches of the library, memory
//! of earlier machines) would make the next run another one.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// Calls `work` in a child process, and returns what it returned. The process must have one thread.
///
/// # Errors
/// What `work` returns; and when there is no process to be had, or it crashes.
pub fn run<T: Serialize + DeserializeOwned>(
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let failed = |error: &io::Error| format!("a process for the run: {error}");
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(failed(&io::Error::last_os_error()));
    }
    // SAFETY: both are open, and nothing else owns them.
    let (mut said, tells) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the process has one thread, so the child has all that the parent has.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(failed(&io::Error::last_os_error()));
    }
    if pid == 0 {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tell(work, tells)));
        let status = i32::from(!matches!(told, Ok(Ok(()))));
        // SAFETY: the process ends here: what it has of its parent's is not to be dropped.
        unsafe { libc::_exit(status) }
    }
    drop(tells);
    let mut text = String::new();
    let read = said.read_to_string(&mut text);
    let mut status = 0;
    // SAFETY: the child is ours, and has not been waited for; there is room for its status.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    read.map_err(|error| failed(&error))?;
    serde_json::from_str(&text).unwrap_or_else(|_| {
        Err(match libc::WIFSIGNALED(status) {
            true => format!("a run crashed: signal {}", libc::WTERMSIG(status)),
            false => "a run crashed".to_owned(),
        })
    })
}

fn tell<T: Serialize>(
    work: impl FnOnce() -> Result<T, String>,
    mut to: File,
) -> Result<(), io::Error> {
    // SAFETY: no pointers. The child ends with its parent: no process waits for its result then.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    to.write_all(&serde_json::to_vec(&work())?)
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn what_the_child_returns_comes_back_and_what_it_changes_does_not() {
        static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = || Ok(CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        assert_eq!((run(count), run(count)), (Ok(0), Ok(0)));
        let refused = run(|| Err::<u32, _>("no".to_owned()));
        assert_eq!(refused, Err("no".to_owned()));
        let crashed = run::<u32>(|| std::process::abort());
        assert_eq!(crashed, Err("a run crashed: signal 6".to_owned()));
    }
}
