//! The one way a subcommand fails: a line for standard error and exit status 2.

use std::fmt;

/// What went wrong, in one line that names the value and what is allowed.
#[derive(Debug)]
pub struct CliError(String);

impl CliError {
    /// Exit status of a command that could not do what was asked.
    pub const EXIT_CODE: u8 = 2;

    /// An error with this message.
    pub fn new(message: impl fmt::Display) -> Self {
        // A message may carry text from the user or the system: one line stays one line.
        Self(
            message
                .to_string()
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect(),
        )
    }

    /// What the argument parser has to say, without its usage lines. Its message is a first line, and indented lines of
    /// detail up to the first empty one.
    pub fn from_clap(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let message: Vec<&str> = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.is_empty())
            .collect();
        let message = message.join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        Self::new(format!("{message}; see --help"))
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
