//! The handlers of warnings and reports: standard error, or the program's.

use crate::sys::fork::{ProcessLock, ProcessMutex};
use std::io::Write;
use std::sync::Arc;

pub(in crate::trace) type Handler = Arc<dyn Fn(&str) + Send + Sync>;

pub(in crate::trace) static WARNINGS: ProcessMutex<Option<Handler>> =
    ProcessMutex::new(ProcessLock::Warnings, None, || WARNINGS.hold());

pub(in crate::trace) static REPORTS: ProcessMutex<Option<Handler>> =
    ProcessMutex::new(ProcessLock::Reports, None, || REPORTS.hold());

pub(in crate::trace) fn say(
    to: &'static ProcessMutex<Option<Handler>>,
    text: &str,
    otherwise: fn(&str),
) {
    let handler = to.lock().clone();
    match handler {
        Some(handler) => handler(text),
        None => otherwise(text),
    }
}

/// Sends cmwq's warnings (one line each, without a newline) to `handler` instead of to standard error. The caller holds no lock of the
/// engine: it is the thread whose call the warning is about, or a thread of the engine that does nothing else. The handler must not panic.
pub fn set_warning_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    replace(&WARNINGS, Arc::new(handler));
}

/// Sends the watchdog's reports (several lines: which pool is stalled, and everything that is busy) to `handler` instead
/// of to standard error. Its caller is a thread of the engine that does nothing else and holds no lock: the handler may block, and only
/// later reports wait for it. It must not panic; it may abort the process.
pub fn set_report_handler(handler: impl Fn(&str) + Send + Sync + 'static) {
    replace(&REPORTS, Arc::new(handler));
}

fn replace(of: &'static ProcessMutex<Option<Handler>>, handler: Handler) {
    let old = of.lock().replace(handler);
    // Not under the lock: what the handler has captured may warn when it is dropped.
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
    say(&WARNINGS, &on_one_line(text), |text| {
        print(&format!("cmwq: warning: {text}\n"));
    });
}

/// Delivers a report on the calling thread.
pub(in crate::trace) fn say_report(text: &str) {
    say(&REPORTS, text, |text| print(&format!("cmwq: {text}")));
}

/// Where standard error cannot be written (a pipe that no process reads, a full disk) the text is lost: `eprint!` would panic, in whatever the thread does.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
