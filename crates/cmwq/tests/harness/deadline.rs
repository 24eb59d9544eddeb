//! A deadline that turns a hang into a failure with a dump.
#![allow(dead_code, reason = "each test binary uses a part")]

use super::random::number;
use std::cell::RefCell;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::Duration;

fn limit() -> Duration {
    Duration::from_secs(number("CMWQ_TEST_DEADLINE", 60))
}

/// Time is counted in beats, a late one as one: while the machine or the process is stopped, nothing hangs.
const BEAT: Duration = Duration::from_millis(100);

/// What panics have said. The test runner would tell only at the end of the test, which may never
/// come: values that a failed test drops may wait for items that the test holds.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            let text = format!("{}: {info}", thread.name().unwrap_or("?"));
            PANICS.lock().unwrap().push(text);
            tell(info);
        }));
    });
}

/// Aborts the process with a dump if it is not dropped in time. After a failed assertion the test's
/// thread has to end as well. The time is no measurement: it only has to be far longer than any
/// machine needs. `CMWQ_TEST_DEADLINE` in seconds.
pub(crate) struct Deadline(Option<Ended>);

/// Ends the deadline when it is dropped.
struct Ended(Arc<(Mutex<bool>, Condvar)>);

impl Deadline {
    pub(crate) fn with_dump(
        test: &'static str,
        dump: impl FnOnce() -> String + Send + 'static,
    ) -> Self {
        Self::of_progress(test, Arc::default(), dump)
    }

    /// As the others, but the time begins anew whenever `progress` has changed: for tests of any length.
    pub(crate) fn of_progress(
        test: &'static str,
        progress: Arc<AtomicU64>,
        dump: impl FnOnce() -> String + Send + 'static,
    ) -> Self {
        Self::of(test, limit(), progress, dump)
    }

    /// For a test of several programs: four times as long.
    pub(crate) fn long(test: &'static str) -> Self {
        Self::of(test, 4 * limit(), Arc::default(), String::new)
    }

    fn of(
        test: &'static str,
        limit: Duration,
        progress: Arc<AtomicU64>,
        dump: impl FnOnce() -> String + Send + 'static,
    ) -> Self {
        note_panics();
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let watched = ended.clone();
        std::thread::spawn(move || {
            let mut ended = watched.0.lock().unwrap();
            let (mut seen, mut beats) = (None, 0);
            while !*ended {
                let now = Some(progress.load(Ordering::Relaxed));
                beats = if seen == now { beats + 1 } else { 0 };
                if BEAT * beats >= limit {
                    // Not `eprintln`: what a test prints is captured, and lost when the process is aborted.
                    let _ = write!(
                        std::io::stderr(),
                        "{test}: hangs, no progress for {} s\n{}{}{}\n",
                        limit.as_secs(),
                        panics(),
                        threads(),
                        dump()
                    );
                    std::process::abort();
                }
                seen = now;
                let waited = watched.1.wait_timeout_while(ended, BEAT, |ended| !*ended);
                ended = waited.unwrap().0;
            }
        });
        Deadline(Some(Ended(ended)))
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        thread_local! {
            static AFTER_PANICS: RefCell<Vec<Ended>> = const { RefCell::new(Vec::new()) };
        }
        if std::thread::panicking() {
            AFTER_PANICS.with(|ended| ended.borrow_mut().extend(self.0.take()));
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// The last panics, for a dump.
fn panics() -> String {
    let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    let last = &panics[panics.len().saturating_sub(5)..];
    last.iter().map(|text| format!("{text}\n")).collect()
}

/// Name, state, CPUs and kernel function of every thread of the process.
fn threads() -> String {
    let mut text = String::new();
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let stat = read("stat");
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next())
            .unwrap_or('?');
        let status = read("status");
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        text += &format!(
            "  {} {state} on {} {}\n",
            read("comm").trim_end(),
            cpus.unwrap_or("?").trim(),
            read("wchan")
        );
    }
    text
}
