//! Writing to standard output and standard error.

pub(crate) use cmwq_command::output::{print, print_until_closed};

use std::fmt::Display;
use std::io;

use ratatui::text::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Columns where neither `COLUMNS` nor a terminal gives them.
const DEFAULT_COLUMNS: usize = 100;
/// Nothing is laid out for less.
const MIN_COLUMNS: usize = 40;

/// Writes a line to standard error, with the command's name in front.
pub(crate) fn warn(message: impl Display) {
    cmwq_command::output::warn("cmwq", message);
}

/// The columns to lay text out for: `COLUMNS`, or else the terminal's, or else 100.
pub(crate) fn columns() -> usize {
    let from_variable = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    let from_terminal = || Some(usize::from(terminal_size::terminal_size()?.0.0));
    from_variable()
        .filter(|&columns: &usize| columns > 0)
        .or_else(from_terminal)
        .unwrap_or(DEFAULT_COLUMNS)
        .max(MIN_COLUMNS)
}

/// Whether standard output may still have a reader: `false` once the other end of its pipe or
/// socket is closed.
pub(crate) fn is_read() -> bool {
    let out = io::stdout();
    // The poll reports errors even if they are not requested.
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec::default();
    match poll(&mut fds, Some(&at_once)) {
        Ok(1) => !fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP),
        _ => true,
    }
}

/// A name from elsewhere as it fits into a line of text: one that holds a line end or an escape
/// sequence must not break a table or the terminal.
pub(crate) fn printable(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The columns of a terminal that a text takes: some characters take two, some none.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A name from elsewhere, [`printable`], and blanks up to so many columns.
pub(crate) fn padded(name: &str, columns: usize) -> String {
    let name = printable(name);
    let blanks = columns.saturating_sub(width(&name));
    name + &" ".repeat(blanks)
}

/// As [`padded`], and without what is too much at the front.
pub(crate) fn end_in_columns(name: &str, columns: usize) -> String {
    let mut end = name.chars();
    while width(&printable(end.as_str())) > columns {
        end.next();
    }
    padded(end.as_str(), columns)
}

/// A text of several lines from elsewhere, as [`printable`].
pub(crate) fn printable_lines(text: &str) -> String {
    let is_safe = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars()
        .map(|c| if is_safe(c) { c } else { '?' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_elsewhere_stay_on_their_line() {
        assert_eq!(printable("io/0 é"), "io/0 é");
        assert_eq!(printable("a\nb\u{1b}[2J\u{9b}2J"), "a?b?[2J?2J");
        assert_eq!(printable_lines("a\n\tb\u{1b}[2J\r"), "a\n\tb?[2J?");
    }

    #[test]
    fn names_of_wide_characters_stay_in_their_column() {
        for (name, kept) in [
            ("io", "io    "),
            ("名前", "名前  "),
            ("a名前b", "a名前b"),
            ("ab名前x", "b名前x"),
            ("名前名前", "前名前"),
            ("e\u{301}", "e\u{301}     "),
            ("a\nb", "a?b   "),
        ] {
            assert_eq!(end_in_columns(name, 6), kept);
        }
        assert_eq!(padded("名前", 3), "名前");
    }
}
