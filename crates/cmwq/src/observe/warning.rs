//! Warnings, said once, and reports of several lines: to standard error, or to whom the program appoints.

use crate::sys::fork::{ProcessLock, ProcessMutex};
use std::sync::Arc;

type Handler = Arc<dyn Fn(&str) + Send + Sync>;

static WARNINGS: ProcessMutex<Option<Handler>> =
    ProcessMutex::new(ProcessLock::Warnings, None, || WARNINGS.hold());
static REPORTS: ProcessMutex<Option<Handler>> =
    ProcessMutex::new(ProcessLock::Reports, None, || REPORTS.hold());

/// Sends cmwq's warnings (one line each, without a newline) to `handler` instead of to standard error. The handler is
/// called with no lock of the engine held; it must not panic.
pub fn set_warning_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    *WARNINGS.lock() = Some(Arc::new(handler));
}

/// Sends the watchdog's reports (several lines: which pool is stalled, and everything that is busy) to `handler` instead
/// of to standard error. The handler is called by the engine's service thread with no lock held: while it runs no worker is
/// created, so it should be quick. It must not panic; it may abort the process.
pub fn set_report_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    *REPORTS.lock() = Some(Arc::new(handler));
}

fn say(to: &'static ProcessMutex<Option<Handler>>, text: &str, otherwise: fn(&str)) {
    let handler = to.lock().clone();
    match handler {
        Some(handler) => handler(text),
        None => otherwise(text),
    }
}

/// Says a warning (one line, without a newline) as the library says its own: for layers on top of it.
pub fn warn(text: &str) {
    say(&WARNINGS, text, |text| eprintln!("cmwq: warning: {text}"));
}

pub(crate) fn report(text: &str) {
    say(&REPORTS, text, |text| eprint!("cmwq: {text}"));
}
