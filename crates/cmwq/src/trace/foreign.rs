//! The one place through which the library calls *foreign code*: code that the program passes to
//! the library, and code that belongs to a value of the program, such as its destructor. All
//! foreign code may panic, even where the documentation of a safe function forbids it. No such
//! panic unwinds through the library. (One that begins in a destructor leaves the drop of a value
//! that the program itself drops, such as its last handle of a [`Work`](crate::Work); and one of
//! `Waker::clone` leaves the `poll` to which the program has passed the waker. Either is the
//! program's own call.)
//!
//! - [`run`] calls the function of an item and returns its panic, which the thread that waits for
//!   the item gets.
//! - [`call`] calls all other foreign code, for whose panic no thread waits: handlers, hooks,
//!   wakers, destructors, subscribers. If code of one kind panics, the library warns of that kind
//!   once.
//! - [`Foreign`] keeps code that the library will call later. The value inside can be reached in no
//!   other way.
//!
//! The library's only `catch_unwind` is here. A test (`tests/layers/foreign.rs`) fails if there is
//! another one, if a function or a waker is kept elsewhere than in a [`Foreign`], or if a public
//! function that takes foreign code is not in the list of that test.
//!
//! **Foreign code may use the library, and may wait.** So its caller holds no lock of the library,
//! and owns no claimed item (an item that was marked as pending and is on no list yet): another
//! thread that cancels such an item, or the foreign code itself, would spin until the item is
//! released. In debug builds each call checks this ([`holds`]), and so does every test. A thread of
//! the library that other threads wait for has a [reporter] thread, which calls handlers and drops
//! values of the program in its place.

use super::reporter::{self, Reporter};
use crate::sys::fork::{ProcessLock, ProcessMutex};
use crate::sys::holds;
use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kinds of foreign code for whose panics no thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Callee {
    WarningHandler,
    ReportHandler,
    RunHook,
    StartHook,
    ExitHook,
    Waker,
    #[cfg(all(feature = "tracing", not(cmwq_loom)))]
    Subscriber,
    Destructor,
}

impl Callee {
    fn name(self) -> &'static str {
        match self {
            Callee::WarningHandler => "the warning handler",
            Callee::ReportHandler => "the report handler",
            Callee::RunHook => "a run hook",
            Callee::StartHook => "a hook on_start of worker threads",
            Callee::ExitHook => "a hook on_exit of worker threads",
            Callee::Waker => "a waker",
            #[cfg(all(feature = "tracing", not(cmwq_loom)))]
            Callee::Subscriber => "a tracing subscriber",
            Callee::Destructor => "a destructor",
        }
    }
}

/// Calls the function of an item, and returns its panic.
#[inline(always)]
pub(crate) fn run<T>(code: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    holds::none_is_held();
    // In models no code panics on purpose: a panic is what the checker has found.
    if cfg!(cmwq_loom) {
        return Ok(code());
    }
    catch_unwind(AssertUnwindSafe(code))
}

/// Calls foreign code for whose panic no thread waits. `None`: the code has panicked.
#[inline]
pub(crate) fn call<T>(callee: Callee, code: impl FnOnce() -> T) -> Option<T> {
    match run(code) {
        Ok(value) => Some(value),
        Err(payload) => {
            panicked(callee, payload);
            None
        }
    }
}

/// Drops a value whose destructor is foreign code.
#[inline]
pub(crate) fn dispose<T>(value: T) {
    if std::mem::needs_drop::<T>() {
        call(Callee::Destructor, || drop(value));
    }
}

/// Drops a value on the reporter of the calling thread, if the thread has one, because the
/// destructor may block. Otherwise drops it at once.
pub(crate) fn dispose_elsewhere(value: impl Send + 'static) {
    let value = Foreign::new(value);
    reporter::perform(move || drop(value));
}

/// Warns of a panic, once in a process for each kind of code.
#[cold]
#[inline(never)]
fn panicked(callee: Callee, payload: Box<dyn Any + Send>) {
    static SAID: AtomicU32 = AtomicU32::new(0);
    match callee {
        Callee::Destructor => drop_payload(payload),
        _ => dispose_elsewhere(payload),
    }
    let bit = 1 << callee as u32;
    if SAID.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    let text = format!("{} panicked (said once)", callee.name());
    match callee {
        Callee::WarningHandler => print(&format!("cmwq: warning: {text}\n")),
        _ => reporter::deliver(move || say_warning(&text)),
    }
}

/// Drops what foreign code panicked with. The destructor of that payload may panic as well, with
/// another payload, and so on.
fn drop_payload(payload: Box<dyn Any + Send>) {
    /// After so many payloads the next one is leaked, so that a chain without an end ends here.
    const MOST: usize = 8;
    let mut next = Some(payload);
    for _ in 0..MOST {
        next = next.and_then(|payload| run(|| drop(payload)).err());
    }
    std::mem::forget(next);
}

/// Foreign code that the library keeps for a later call.
#[derive(Clone)]
pub(crate) struct Foreign<F>(
    /// `None` only while the value is dropped or used up.
    Option<F>,
);

impl<F> Foreign<F> {
    pub(crate) const fn new(code: F) -> Self {
        Foreign(Some(code))
    }

    /// Passes the code to `with`, which [calls](call) it.
    #[inline]
    pub(crate) fn call<T>(&self, callee: Callee, with: impl FnOnce(&F) -> T) -> Option<T> {
        let code = self.0.as_ref()?;
        call(callee, || with(code))
    }

    /// Passes the code to `with`, which [calls](call) it and uses it up.
    #[inline]
    pub(crate) fn call_once<T>(mut self, callee: Callee, with: impl FnOnce(F) -> T) -> Option<T> {
        let code = self.0.take()?;
        call(callee, || with(code))
    }

    /// Returns the code for a comparison. The caller must not call it.
    #[inline]
    pub(crate) fn is(&self, same: impl FnOnce(&F) -> bool) -> bool {
        self.0.as_ref().is_some_and(same)
    }
}

impl<F> Drop for Foreign<F> {
    #[inline]
    fn drop(&mut self) {
        if let Some(code) = self.0.take() {
            dispose(code);
        }
    }
}

// ---- the handlers of warnings and reports: those of the program, or standard error ----

type Handler = Foreign<Arc<dyn Fn(&str) + Send + Sync>>;

static WARNINGS: ProcessMutex<Option<Handler>> =
    ProcessMutex::new(ProcessLock::Warnings, None, || WARNINGS.hold());

static REPORTS: ProcessMutex<Option<Handler>> =
    ProcessMutex::new(ProcessLock::Reports, None, || REPORTS.hold());

fn say(
    to: &'static ProcessMutex<Option<Handler>>,
    callee: Callee,
    text: &str,
    otherwise: fn(&str),
) {
    // The handler is called with the lock released, because another thread, or the handler itself,
    // may replace it meanwhile.
    let handler = to.lock().clone();
    match handler {
        Some(handler) => {
            handler.call(callee, |handler| handler(text));
        }
        None => otherwise(text),
    }
}

/// Sends cmwq's warnings (one line each, without a newline) to `handler` instead of to standard
/// error. If a warning is about a call of the program, the handler is called on the thread that
/// made the call. Warnings of the library's own threads, workers among them, are delivered by the
/// engine's reporter, a thread that does nothing else. The caller of the handler holds no lock of
/// the library, so the handler may use the library. If the handler panics, the library catches the
/// panic and says so once on standard error.
pub fn set_warning_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    replace(&WARNINGS, Arc::new(handler));
}

/// Sends the watchdog's reports to `handler` instead of to standard error. A report has several
/// lines: which pool is stalled, and everything that is busy. A thread of the engine that does
/// nothing else calls the handler and holds no lock. So the handler may block, and only later
/// reports wait for it. It may abort the process. If it panics, the library catches the panic and
/// warns of it once.
pub fn set_report_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    replace(&REPORTS, Arc::new(handler));
}

fn replace(of: &'static ProcessMutex<Option<Handler>>, handler: Arc<dyn Fn(&str) + Send + Sync>) {
    let old = of.lock().replace(Foreign::new(handler));
    // The old handler is dropped with the lock released: a value that it has captured may warn in
    // its destructor.
    drop(old);
}

/// Returns a text from outside, such as a workqueue's name, for use in a line: control characters
/// are escaped, as in `\n`.
pub(crate) fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Delivers a warning on the calling thread. The text becomes one line, because it may quote what
/// the program gave, such as a workqueue's name.
pub(in crate::trace) fn say_warning(text: &str) {
    say(
        &WARNINGS,
        Callee::WarningHandler,
        &on_one_line(text),
        |text| {
            print(&format!("cmwq: warning: {text}\n"));
        },
    );
}

/// Delivers a report on the calling thread.
pub(in crate::trace) fn say_report(text: &str) {
    say(&REPORTS, Callee::ReportHandler, text, |text| {
        print(&format!("cmwq: {text}"));
    });
}

/// Writes a text to standard error. If that fails (a pipe that no process reads, a full disk) the
/// text is lost: `eprint!` would panic, in the middle of whatever the thread does.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Returns a reporter that has not been started.
pub(crate) fn new_reporter() -> Arc<Reporter> {
    Reporter::new(|dropped| {
        say_warning(&format!(
            "{dropped} warnings or reports were dropped while a handler did not return"
        ));
    })
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use std::panic::resume_unwind;

    #[test]
    fn a_payload_may_panic_when_it_is_dropped_and_the_next_one_too() {
        /// A payload whose destructor panics with the next one. The last one is dropped without a
        /// panic.
        struct PanicsAgain(u32, Arc<()>);
        impl Drop for PanicsAgain {
            fn drop(&mut self) {
                if self.0 > 0 {
                    resume_unwind(Box::new(PanicsAgain(self.0 - 1, self.1.clone())));
                }
            }
        }
        let there = Arc::new(());
        for depth in 0..4 {
            let panics = || resume_unwind(Box::new(PanicsAgain(depth, there.clone())));
            assert_eq!(call::<()>(Callee::Waker, panics), None);
            assert_eq!(Arc::strong_count(&there), 1, "a payload leaked");
        }
        // A payload with so many successors that the chain has no end in practice.
        let panics = || resume_unwind(Box::new(PanicsAgain(1_000, there.clone())));
        assert_eq!(call::<()>(Callee::Waker, panics), None);
        assert_eq!(call(Callee::Waker, || 7), Some(7));
    }

    #[test]
    fn what_is_kept_is_used_once_or_dropped() {
        let counted = Arc::new(());
        let kept = Foreign::new(counted.clone());
        assert_eq!(kept.call(Callee::Waker, Arc::strong_count), Some(2));
        let other = kept.clone();
        assert!(other.is(|other| Arc::ptr_eq(other, &counted)));
        drop(other);
        assert_eq!(Arc::strong_count(&counted), 2);
        let used = kept.call_once(Callee::Waker, |kept| Arc::strong_count(&kept));
        assert_eq!((used, Arc::strong_count(&counted)), (Some(2), 1));
    }
}
