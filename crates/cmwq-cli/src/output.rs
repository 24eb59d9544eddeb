//! Writing to standard output and standard error.

use std::io::{self, ErrorKind, Write};

use crate::cli_error::CliError;

/// Columns where neither `COLUMNS` nor a terminal tells.
const DEFAULT_COLUMNS: usize = 100;
/// Nothing is laid out for less.
const MIN_COLUMNS: usize = 40;

/// Writes `text` to standard output. A reader that went away (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    print_until_closed(text).map(drop)
}

/// Writes a line to standard error, with the command's name in front.
pub(crate) fn warn(message: &str) {
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(io::stderr(), "cmwq: {message}");
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

/// As [`print()`], telling whether the reader is still there: who prints again and again stops when it is not.
pub(crate) fn print_until_closed(text: &str) -> Result<bool, CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::new(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}
