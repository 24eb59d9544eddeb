//! Warnings (one line) and reports (several lines): to standard error, or to the program's handlers.

use super::handlers::{say_report, say_warning};
use super::reporter::deliver;

/// Warns (one line, without a newline) as the library itself does: for layers on top of it.
pub fn warn(text: &str) {
    let text = text.to_owned();
    warn_with(move || text);
}

/// As [`warn`]. On the engine's service thread the reporter builds the text: the names of functions come from the dynamic loader, which may be
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
