//! The one place through which the library calls foreign code: code of the program that it was given, or that a value of the program brings with it.
//! All of it may panic, although a safe function's documentation may forbid that, and no panic of it unwinds through the library.
//!
//! - [`run`] returns the panic, for the functions of items: the waiter of an item gets it.
//! - [`call`] is for all other code, whose panic no thread waits for: handlers, hooks, wakers, destructors, subscribers. That code of a kind has
//!   panicked is said once.
//! - [`Foreign`] keeps what will be called later. What is inside cannot be got at by other means.
//!
//! Here is the library's only `catch_unwind`. A test (`tests/layers/foreign.rs`) looks for any other one, for functions and wakers that are kept elsewhere than
//! in a [`Foreign`], and for public functions that take foreign code and are not in its list.
//!
//! **Foreign code may use the library, and may wait.** So its caller holds no lock of the library, and owns no item that is
//! claimed: another thread that cancels such an item, or the foreign code itself, would spin until it is released. In debug builds
//! each call checks that ([`holds`]), and so does every test. Threads of the library that others wait for have a [reporter], which calls it in
//! their place.

use super::reporter::{self, Reporter};
use crate::sys::fork::{ProcessLock, ProcessMutex};
use crate::sys::holds;
use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Foreign code whose panics no thread waits for.
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

/// Calls the function of an item. Returns its panic.
#[inline(always)]
pub(crate) fn run<T>(code: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    holds::none_is_held();
    catch_unwind(AssertUnwindSafe(code))
}

/// Calls foreign code whose panic no thread waits for. `None`: it has panicked.
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

/// Drops a value on the reporter of a thread that has one, since its destructor may block, or else at once.
pub(crate) fn dispose_elsewhere(value: impl Send + 'static) {
    let value = Foreign::new(value);
    reporter::perform(move || drop(value));
}

/// Says it once in a process.
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

/// Drops what a destructor panicked with. That may panic with another payload, and so on.
fn drop_payload(payload: Box<dyn Any + Send>) {
    /// One that goes on and on is leaked.
    const MOST: usize = 8;
    let mut next = Some(payload);
    for _ in 0..MOST {
        next = next.and_then(|payload| run(|| drop(payload)).err());
    }
    std::mem::forget(next);
}

/// Foreign code that the library keeps.
#[derive(Clone)]
pub(crate) struct Foreign<F>(
    /// `None` only while it is dropped or used up.
    Option<F>,
);

impl<F> Foreign<F> {
    pub(crate) const fn new(code: F) -> Self {
        Foreign(Some(code))
    }

    /// [Calls](call) it by way of `with`.
    #[inline]
    pub(crate) fn call<T>(&self, callee: Callee, with: impl FnOnce(&F) -> T) -> Option<T> {
        let code = self.0.as_ref()?;
        call(callee, || with(code))
    }

    /// [Calls](call) it by way of `with`, which uses it up.
    #[inline]
    pub(crate) fn call_once<T>(mut self, callee: Callee, with: impl FnOnce(F) -> T) -> Option<T> {
        let code = self.0.take()?;
        call(callee, || with(code))
    }

    /// To compare it with another. Not to be called.
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

// ---- the handlers of warnings and reports: standard error, or the program's ----

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
    // Called with the lock released: the handler may be replaced meanwhile, even by itself.
    let handler = to.lock().clone();
    match handler {
        Some(handler) => {
            handler.call(callee, |handler| handler(text));
        }
        None => otherwise(text),
    }
}

/// Sends cmwq's warnings (one line each, without a newline) to `handler` instead of to standard error. The handler is called on the thread whose call the
/// warning is about, if that is a thread of the program; for all of the library's own threads, workers among them, the engine's reporter calls it, a
/// thread that does nothing else. Its caller holds no lock of the library, so the handler may use the library. If it panics, that is caught,
/// and said once on standard error.
pub fn set_warning_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    replace(&WARNINGS, Arc::new(handler));
}

/// Sends the watchdog's reports (several lines: which pool is stalled, and everything that is busy) to `handler` instead
/// of to standard error. Its caller is a thread of the engine that does nothing else and holds no lock: the handler may block, and only
/// later reports wait for it. It may abort the process. If it panics, that is caught, and warned of once.
pub fn set_report_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    replace(&REPORTS, Arc::new(handler));
}

fn replace(of: &'static ProcessMutex<Option<Handler>>, handler: Arc<dyn Fn(&str) + Send + Sync>) {
    let old = of.lock().replace(Foreign::new(handler));
    // Dropped with the lock released: what the handler has captured may warn when it is dropped.
    drop(old);
}

/// A text from outside, such as a workqueue's name, as a part of a line: control characters are escaped, `\n` and the like.
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

/// Delivers a warning on the calling thread, on one line: it may quote what the program gave, such as a workqueue's name.
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

/// Where standard error cannot be written (a pipe that no process reads, a full disk) the text is lost: `eprint!` would panic, in whatever the thread does.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A reporter that is not started yet.
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
        /// The last one is dropped without a panic.
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
        // It never ends.
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
