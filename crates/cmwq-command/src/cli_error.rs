//! The one way a subcommand fails: a line for standard error and an exit status.

use std::ffi::OsString;
use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

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
    /// Exit status of a command that was asked wrongly: for what there is not, or with a value that
    /// is refused.
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

    /// The same, with that of `names` which is one slip of the fingers away from what the user gave.
    ///
    /// ```
    /// use cmwq_command::CliError;
    ///
    /// let error = CliError::new("there is no \"dupm\"").suggest("dupm", ["list", "dump"]);
    /// assert_eq!(error.to_string(), "there is no \"dupm\"; did you mean 'dump'?");
    /// ```
    #[must_use]
    pub fn suggest<N: AsRef<str>>(self, given: &str, names: impl IntoIterator<Item = N>) -> Self {
        let mut names = names.into_iter();
        match names.find(|name| is_one_slip(given, name.as_ref())) {
            Some(name) => {
                let name = name.as_ref();
                Self::with_status(format!("{self}; did you mean '{name}'?"), self.status)
            }
            None => self,
        }
    }

    /// The exit status of the command.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// What the argument parser has to say, without its usage lines. Its message is a first line,
    /// and indented lines of detail up to the first empty one.
    pub fn from_clap(error: &clap::Error) -> Self {
        Self::suggesting(error, similar(error))
    }

    /// The same of these arguments of `command`, whose names correct what the parser would name: a subcommand
    /// that is one slip of the fingers away, and an option as its help has it.
    pub(crate) fn from_arguments(
        command: &clap::Command,
        args: &[OsString],
        error: &clap::Error,
    ) -> Self {
        let asked = asked(command, args);
        let name = match error.kind() {
            ErrorKind::InvalidSubcommand => similar(error).or_else(|| one_slip(asked, error)),
            _ => similar(error).map(|name| documented(asked, name)),
        };
        Self::suggesting(error, name)
    }

    fn suggesting(error: &clap::Error, name: Option<String>) -> Self {
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
        match name {
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

/// The subcommand that these arguments name, or the command itself.
fn asked<'c>(command: &'c clap::Command, args: &[OsString]) -> &'c clap::Command {
    // Behind `help` stands a name of the same commands.
    let names = args.iter().skip(1).filter(|&arg| arg != "help");
    names.fold(command, |command, name| {
        command.find_subcommand(name).unwrap_or(command)
    })
}

/// The subcommand whose name the user's is but for one slip. The parser finds similar names by the
/// letters that they share, of which a short name has too few.
fn one_slip(command: &clap::Command, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let names = command.get_subcommands().map(clap::Command::get_name);
    let mut near = names.filter(|name| is_one_slip(given, name));
    near.next().map(str::to_owned)
}

/// Whether one letter too many, too few or wrong, or two neighbours in the wrong order, is all that differs.
fn is_one_slip(given: &str, name: &str) -> bool {
    let (mut given, mut name): (Vec<char>, Vec<char>) =
        (given.chars().collect(), name.chars().collect());
    for _ in 0..2 {
        let same = given.iter().zip(&name).take_while(|(a, b)| a == b).count();
        given.drain(..same);
        name.drain(..same);
        // The same from the other end.
        given.reverse();
        name.reverse();
    }
    match (given.len(), name.len()) {
        (2, 2) => given[0] == name[1] && given[1] == name[0],
        (given, name) => given <= 1 && name <= 1,
    }
}

/// The name in the help of the option `--name`, which may be another spelling of it.
fn documented(command: &clap::Command, name: String) -> String {
    let is_spelled = |option: &&clap::Arg| {
        let others = option.get_all_aliases().unwrap_or_default();
        name.strip_prefix("--")
            .is_some_and(|name| others.contains(&name))
    };
    let option = command.get_arguments().find(is_spelled);
    let long = option.and_then(clap::Arg::get_long);
    long.map_or(name.clone(), |long| format!("--{long}"))
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
    fn one_slip_is_a_letter_or_two_neighbours() {
        for given in ["tpo", "otp", "tp", "op", "tops", "tolp", "tip"] {
            assert!(is_one_slip(given, "top"), "{given}");
        }
        for given in ["", "x", "pot", "xx", "topology", "t"] {
            assert!(!is_one_slip(given, "top"), "{given}");
        }
    }

    #[test]
    fn options_are_named_as_their_help_names_them() {
        let scopes = clap::Arg::new("scopes").long("scopes").alias("scope");
        let scope = clap::Arg::new("scope").long("scope");
        let bench = clap::Command::new("bench").arg(scopes);
        let mut command =
            clap::Command::new("c").subcommands([bench, clap::Command::new("top").arg(scope)]);
        for (name, meant) in [("bench", "--scopes"), ("top", "--scope")] {
            let args = ["c", name, "--scop", "x"].map(OsString::from);
            let error = command.try_get_matches_from_mut(&args).unwrap_err();
            let said = CliError::from_arguments(&command, &args, &error).to_string();
            assert!(said.contains(&format!("did you mean '{meant}'?")), "{said}");
        }
    }

    #[test]
    fn details_belong_to_the_message_and_usage_does_not() {
        assert_eq!(
            said(&[]),
            "the following required arguments were not provided: --number <n>; see --help"
        );
    }
}
