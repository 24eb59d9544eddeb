//! Writing to standard output and standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::fcntl_getfd;
use rustix::stdio::stdout;

use crate::CliError;

/// The process was started without standard output (`>&-`).
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

// Before `main`: there Rust has opened /dev/null in its place.
#[used]
#[allow(unsafe_code, reason = "a section of the program")]
// SAFETY: the section holds functions like this one, which are called once each before `main`.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn note_closed() {
        IS_CLOSED.store(fcntl_getfd(stdout()).is_err(), Ordering::Relaxed);
    }
    note_closed
};

/// An error if the process was started without standard output.
pub fn check() -> Result<(), CliError> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Err(CliError::new(
            "cannot write to standard output: it is closed",
        ));
    }
    Ok(())
}

/// Writes `text` to standard output. A reader that went away (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), CliError> {
    print_until_closed(text).map(drop)
}

/// As [`print()`]; returns whether the reader is still there. A caller that prints repeatedly stops when it is not.
pub fn print_until_closed(text: &str) -> Result<bool, CliError> {
    check()?;
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
