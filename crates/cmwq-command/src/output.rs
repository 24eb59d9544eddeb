//! Writing to standard output and standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ColorChoice;

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
        return Err(CliError::failed(
            "cannot write to standard output: it is closed",
        ));
    }
    Ok(())
}

/// Writes `text` to standard output. A reader that went away (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), CliError> {
    print_until_closed(text).map(drop)
}

/// As [`print()`]; returns whether the reader is still there. A caller that prints repeatedly stops
/// when it is not.
pub fn print_until_closed(text: &str) -> Result<bool, CliError> {
    check()?;
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::failed(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}

/// Names a stream that may be a terminal, for [`has_color`].
///
/// ```
/// use cmwq_command::output::{Stream, has_color};
///
/// let bold = if has_color(Stream::Out) { "\u{1b}[1m" } else { "" };
/// println!("{bold}4 workqueues");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// What `--color` says; once, before anything is printed.
pub(crate) fn choose_color(choice: ColorChoice) {
    // A second choice would come from a second command line, which a process does not have.
    let _ = COLOR.set(choice);
}

/// Whether a stream gets colours: as `--color` says, and else if it is a terminal that can show
/// them and `NO_COLOR` is not set.
pub fn has_color(stream: Stream) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match COLOR.get().copied().unwrap_or_default() {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_terminal = match stream {
                Stream::Out => io::stdout().is_terminal(),
                Stream::Error => io::stderr().is_terminal(),
            };
            let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            is_terminal && !is_dumb && !is_set("NO_COLOR")
        }
    }
}

/// Prints help or a version.
pub(crate) fn print_help(help: &clap::Error, stream: Stream) -> Result<(), CliError> {
    let text = help.render();
    let text = match has_color(stream) {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    match stream {
        Stream::Out => print(&text),
        Stream::Error => {
            // Without standard error there is no way to report anything.
            let _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        }
    }
}

/// Writes a line to standard error, with the command's name in front.
pub fn warn(command: &str, message: impl Display) {
    // Without standard error there is no way to report anything.
    let _ = match has_color(Stream::Error) {
        true => writeln!(io::stderr(), "\u{1b}[1;31m{command}:\u{1b}[0m {message}"),
        false => writeln!(io::stderr(), "{command}: {message}"),
    };
}
