//! The one way a subcommand fails: a line for standard error and exit status 2.

use std::fmt;

use clap::error::ContextValue;

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
        let mut text = error.render().to_string();
        for (_, value) in error.context() {
            // What the user gave, which may have empty lines of its own.
            if let ContextValue::String(value) = value {
                let quoted = format!("'{value}'");
                text = text.replace(&quoted, &Self::new(&quoted).0);
            }
        }
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
    fn details_belong_to_the_message_and_usage_does_not() {
        assert_eq!(
            said(&[]),
            "the following required arguments were not provided: --number <n>; see --help"
        );
    }
}
