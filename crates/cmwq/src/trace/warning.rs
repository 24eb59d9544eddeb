//! Warnings, said once, and reports of several lines: to standard error, or to whom the program appoints.

use super::handlers::{say_report, say_warning};
use super::reporter::deliver;

/// Says a warning (one line, without a newline) as the library says its own: for layers on top of it.
pub fn warn(text: &str) {
    let text = text.to_owned();
    warn_with(move || text);
}

/// As [`warn`]. On the engine's service thread the text is built by who says it: the names of functions come from the dynamic
/// loader, which may be waiting for the program's own constructors.
pub(crate) fn warn_with(text: impl FnOnce() -> String + Send + 'static) {
    deliver(move || {
        say_warning(&text());
    });
}

/// Says a report, and then does what is to follow it. The text is built by who says it, as that of [`warn_with`].
pub(crate) fn report_with(
    text: impl FnOnce() -> String + Send + 'static,
    then: impl FnOnce() + Send + 'static,
) {
    deliver(move || {
        say_report(&text());
        then();
    });
}
