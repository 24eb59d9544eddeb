//! Writing to standard output and standard error.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Write};

use crate::cli_error::CliError;

/// Writes `text` to standard output. A reader that went away (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CliError::new(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Writes a line to standard error, with the command's name in front.
pub(crate) fn warn(message: &str) {
    // Without standard error there is no way to report anything.
    let _ = writeln!(io::stderr(), "cmwq-nbd: {message}");
}
