//! Warnings (one line) and reports (several lines): to standard error, or to the program's handlers.

use super::foreign::{say_report, say_warning};
use super::reporter::deliver;

/// Issues a warning (one line, without a newline) as the library itself does. It is for layers on
/// top of the library.
pub fn warn(text: &str) {
    let text = text.to_owned();
    warn_with(move || text);
}

/// Warns the first time that a process reaches this line. Later the text is not even built.
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

/// Warns as [`warn`] does. For the library's own threads the reporter builds the text: the text may
/// contain the name of a function, which comes from the dynamic loader, and the loader may be
/// waiting for the constructors of the program.
pub(crate) fn warn_with(text: impl FnOnce() -> String + Send + 'static) {
    deliver(move || {
        say_warning(&text());
    });
}

/// Delivers a report, and then calls `then`. The reporter builds the text for the library's own
/// threads, as in [`warn_with`].
pub(crate) fn report_with(
    text: impl FnOnce() -> String + Send + 'static,
    then: impl FnOnce() + Send + 'static,
) {
    deliver(move || {
        say_report(&text());
        then();
    });
}
