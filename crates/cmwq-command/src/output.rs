//! Writing to standard output and standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::CliError;

/// Writes `text` to standard output. A reader that went away (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), CliError> {
    print_until_closed(text).map(drop)
}

/// As [`print()`]; returns whether the reader is still there. A caller that prints repeatedly stops when it is not.
pub fn print_until_closed(text: &str) -> Result<bool, CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::new(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}

/// Writes a line to standard error, with the command's name in front.
pub fn warn(command: &str, message: impl Display) {
    // Without standard error there is no way to report anything.
    let _ = writeln!(io::stderr(), "{command}: {message}");
}
