//! The one way a subcommand fails: a line for standard error and an exit status.

use std::fmt;

use clap::error::{ContextKind, ContextValue};

/// Says why a subcommand failed, in one line that names the value and what is allowed, and with
/// which exit status it ends.
///
/// ```
/// use cmwq_command::CliError;
///
/// let error = CliError::new("the port is 70000; allowed: 1 to 65535");
/// assert_eq!(error.status(), CliError::WRONG);
/// assert_eq!(CliError::failed("the disk is full").status(), CliError::FAILED);
/// ```
#[derive(Debug)]
pub struct CliError {
    message: String,
    status: u8,
}

impl CliError {
    /// Exit status of a command that could not do what it was rightly asked for.
    pub const FAILED: u8 = 1;
    /// Exit status of a command that was asked wrongly: for what there is not, or with a value that is refused.
    pub const WRONG: u8 = 2;

    /// The command was asked wrongly.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::with_status(message, Self::WRONG)
    }

    /// The command was asked rightly, and could not do it.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::with_status(message, Self::FAILED)
    }

    fn with_status(message: impl fmt::Display, status: u8) -> Self {
        // A message may carry text from the user or the system: one line stays one line.
        let message = message.to_string();
        let message = message
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c });
        Self {
            message: message.collect(),
            status,
        }
    }

    /// The exit status of the command.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// What the argument parser has to say, without its usage lines. Its message is a first line, and indented lines of
    /// detail up to the first empty one.
    pub fn from_clap(error: &clap::Error) -> Self {
        let mut text = error.render().to_string();
        for (_, value) in error.context() {
            // What the user gave, which may have empty lines of its own.
            if let ContextValue::String(value) = value {
                let quoted = format!("'{value}'");
                text = text.replace(&quoted, &Self::new(&quoted).message);
            }
        }
        let message: Vec<&str> = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.is_empty())
            .collect();
        let message = message.join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        match similar(error) {
            Some(name) => Self::new(format!("{message}; did you mean '{name}'? See --help")),
            None => Self::new(format!("{message}; see --help")),
        }
    }
}

/// What the user may have meant, of all that there is.
fn similar(error: &clap::Error) -> Option<String> {
    let found = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ];
    let mut found = found.into_iter().filter_map(|kind| error.get(kind));
    match found.next()? {
        ContextValue::String(name) => Some(name.clone()),
        // The most similar one is the last.
        ContextValue::Strings(names) => names.last().cloned(),
        _ => None,
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of these arguments.
    fn said(args: &[&str]) -> String {
        let number = clap::Arg::new("n")
            .long("number")
            .value_parser(crate::whole(1u32, 9))
            .required(true);
        let command = clap::Command::new("c").arg(number);
        let args = std::iter::once(&"c").chain(args);
        CliError::from_clap(&command.try_get_matches_from(args).unwrap_err()).to_string()
    }

    #[test]
    fn a_value_with_an_empty_line_does_not_end_the_message() {
        let refused = |value: &str| {
            format!(
                "invalid value '{value}' for '--number <n>': it must be a whole number from 1 to 9; see --help"
            )
        };
        assert_eq!(said(&["--number", "7x"]), refused("7x"));
        assert_eq!(said(&["--number", "7\n\nx"]), refused("7  x"));
        assert_eq!(said(&["--number", "\n\n"]), refused("  "));
        assert_eq!(
            said(&["a\n\nb"]),
            "unexpected argument 'a  b' found; see --help"
        );
    }

    #[test]
    fn what_is_nearly_right_is_named() {
        let list = clap::Command::new("list").arg(clap::Arg::new("format").long("format"));
        let command = clap::Command::new("c").subcommands([list, clap::Command::new("dump")]);
        let said = |args: &[&str]| {
            let error = command.clone().try_get_matches_from(args).unwrap_err();
            CliError::from_clap(&error).to_string()
        };
        assert_eq!(
            said(&["c", "lits"]),
            "unrecognized subcommand 'lits'; did you mean 'list'? See --help"
        );
        assert_eq!(
            said(&["c", "list", "--fromat", "json"]),
            "unexpected argument '--fromat' found; did you mean '--format'? See --help"
        );
        assert_eq!(
            said(&["c", "xyz"]),
            "unrecognized subcommand 'xyz'; see --help"
        );
    }

    #[test]
    fn details_belong_to_the_message_and_usage_does_not() {
        assert_eq!(
            said(&[]),
            "the following required arguments were not provided: --number <n>; see --help"
        );
    }
}
