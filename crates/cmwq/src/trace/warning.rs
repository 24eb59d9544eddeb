//! Warnings (one line) and reports (several lines): to standard error, or to the program's handlers.

use super::foreign::{say_report, say_warning};
use super::reporter::deliver;

/// Warns (one line, without a newline) as the library itself does: for layers on top of it.
pub fn warn(text: &str) {
    let text = text.to_owned();
    warn_with(move || text);
}

/// Warns the first time in a process that the line is reached; the other times the text is not even built.
macro_rules! warn_once {
    ($($text:tt)+) => {{
        use std::sync::atomic::{AtomicBool, Ordering};
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            $crate::trace::warn(&format!($($text)+));
        }
    }};
}
pub(crate) use warn_once;

/// As [`warn`]. For the library's own threads the reporter builds the text: the names of functions come from the dynamic loader, which may be
/// waiting for the program's own constructors.
pub(crate) fn warn_with(text: impl FnOnce() -> String + Send + 'static) {
    deliver(move || {
        say_warning(&text());
    });
}

/// Delivers a report, and then calls `then`. The text is built as for [`warn_with`].
pub(crate) fn report_with(
    text: impl FnOnce() -> String + Send + 'static,
    then: impl FnOnce() + Send + 'static,
) {
    deliver(move || {
        say_report(&text());
        then();
    });
}
