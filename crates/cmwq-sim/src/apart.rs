//! Runs something in a process of its own. What a run leaves behind in the process (counters and
//! caches of the library, memory of earlier machines) would make the next run another one.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

/// Calls `work` in a child process, and returns what it returned. The process must have one thread.
///
/// # Errors
/// What `work` returns; and when there is no process to be had, or it crashes.
pub fn run<T: Serialize + DeserializeOwned>(
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    Child::start(work)?.result()
}

/// Calls each of `works` in a child process, so many at a time, and `then` with its number and what
/// it returned, in the order in which they end. The process must have one thread.
///
/// # Errors
/// What `then` returns: no further work begins. What has begun is ended.
pub fn run_all<T: Serialize + DeserializeOwned, W: FnOnce() -> Result<T, String>>(
    at_a_time: usize,
    works: impl IntoIterator<Item = W>,
    mut then: impl FnMut(usize, Result<T, String>) -> Result<(), String>,
) -> Result<(), String> {
    let mut waiting = works.into_iter().enumerate();
    let mut children: Vec<(usize, Child)> = Vec::new();
    loop {
        while children.len() < at_a_time.max(1)
            && let Some((number, work)) = waiting.next()
        {
            match Child::start(work) {
                Ok(child) => children.push((number, child)),
                Err(error) => then(number, Err(error))?,
            }
        }
        if children.is_empty() {
            return Ok(());
        }
        let (number, child) = children.swap_remove(first_that_ends(&children));
        then(number, child.result())?;
    }
}

/// The index of a child that has said something, or ended.
fn first_that_ends(children: &[(usize, Child)]) -> usize {
    let mut polled: Vec<libc::pollfd> = children
        .iter()
        .map(|(_, child)| libc::pollfd {
            fd: child.said.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: there are so many of them. If it fails the first one is waited for.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
    let ended = polled.iter().position(|polled| polled.revents != 0);
    ended.unwrap_or(0)
}

/// A process that carries out a work.
struct Child {
    pid: libc::pid_t,
    said: File,
    is_waited_for: bool,
}

impl Child {
    fn start<T: Serialize>(work: impl FnOnce() -> Result<T, String>) -> Result<Child, String> {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(failed(&io::Error::last_os_error()));
        }
        // SAFETY: both are open, and nothing else owns them.
        let (said, tells) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
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
        Ok(Child {
            pid,
            said,
            is_waited_for: false,
        })
    }

    /// Waits for its end.
    fn result<T: DeserializeOwned>(mut self) -> Result<T, String> {
        let mut text = String::new();
        let read = self.said.read_to_string(&mut text);
        let status = self.wait();
        read.map_err(|error| failed(&error))?;
        serde_json::from_str(&text).unwrap_or_else(|_| {
            Err(match libc::WIFSIGNALED(status) {
                true => format!("a run crashed: signal {}", libc::WTERMSIG(status)),
                false => "a run crashed".to_owned(),
            })
        })
    }

    fn wait(&mut self) -> i32 {
        let mut status = 0;
        self.is_waited_for = true;
        // SAFETY: the child is ours, and has not been waited for; there is room for its status.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_waited_for {
            // SAFETY: the child is ours, and has not been waited for: its number is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.wait();
        }
    }
}

fn failed(error: &io::Error) -> String {
    format!("a process for the run: {error}")
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
    use super::{run, run_all};
    use std::io::Read;
    use std::os::fd::AsRawFd;

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

    #[test]
    fn all_works_are_done_once_whatever_their_order() {
        for at_a_time in [1, 3, 100] {
            let mut results = Vec::new();
            let works = (0..20_usize).map(|number| move || Ok(number * number));
            let done = run_all(at_a_time, works, |number, result| {
                results.push((number, result?));
                Ok(())
            });
            assert_eq!(done, Ok(()));
            results.sort_unstable();
            let all: Vec<(usize, usize)> =
                (0..20).map(|number| (number, number * number)).collect();
            assert_eq!(results, all);
        }
    }

    #[test]
    fn nothing_begins_after_an_error_and_what_has_begun_is_ended() {
        // A child has this end of the pipe as long as it lives.
        let (mut seen, lives) = std::io::pipe().unwrap();
        let mut begun = 0;
        let works = (0..1000).map(|number| {
            begun += 1;
            move || {
                if number > 0 {
                    std::thread::sleep(std::time::Duration::from_secs(100));
                }
                Ok(())
            }
        });
        let ended = run_all(2, works, |_, _| Err("enough".to_owned()));
        assert_eq!((ended, begun), (Err("enough".to_owned()), 2));
        drop(lives);
        // SAFETY: the pipe is open.
        unsafe { libc::fcntl(seen.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        // Other tests of this process may have children, too, for a moment.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(50);
        while seen.read(&mut [0]).is_err() {
            assert!(std::time::Instant::now() < end, "a process is left");
            std::thread::yield_now();
        }
    }
}
