//! The way from a command's arguments to its exit status.

use crate::{CliError, output};
use clap::error::ErrorKind;
use clap::{ColorChoice, Parser};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Parses the arguments of the command `name`, and has `run` carry them out. Prints help, and errors.
pub fn run<C: Parser>(name: &str, run: impl FnOnce(C) -> Result<ExitCode, CliError>) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    output::choose_color(color_choice(&args));
    let mut command = C::command();
    let parsed = command
        .try_get_matches_from_mut(args.iter())
        .map_err(|error| without_help(&mut command, &args, error));
    let parsed = parsed.and_then(|matches| C::from_arg_matches(&matches));
    let result = match parsed {
        Ok(arguments) => run(arguments),
        // Asked for nothing: all that may be asked for.
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::print_help(&help, output::Stream::Error)
                .map(|()| ExitCode::from(CliError::WRONG))
        }
        Err(error) if error.use_stderr() => Err(CliError::from_arguments(&command, &args, &error)),
        Err(help) => output::print_help(&help, output::Stream::Out).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        let status = error.status();
        output::warn(name, error);
        ExitCode::from(status)
    })
}

/// What is wrong with the name behind `help`: of that itself nothing similar is named.
fn without_help(command: &mut clap::Command, args: &[OsString], error: clap::Error) -> clap::Error {
    let [program, help, rest @ ..] = args else {
        return error;
    };
    if help != "help" || error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let again = command.try_get_matches_from_mut(std::iter::once(program).chain(rest));
    match again {
        Err(again) if again.kind() == ErrorKind::InvalidSubcommand => again,
        _ => error,
    }
}

/// The option `--color`, which [`run`] itself heeds; a command has it in its help by this.
#[derive(clap::Args, Debug)]
pub struct ColorArgs {
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

/// The value of `--color`, which help and errors heed as well: they come before the arguments are parsed.
fn color_choice(args: &[OsString]) -> ColorChoice {
    let mut args = args.iter().map(OsString::as_os_str);
    let mut choice = ColorChoice::Auto;
    let named = |value: &OsStr| match value.to_str() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    };
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--") => break,
            Some("--color") => choice = args.next().map_or(choice, named),
            Some(text) => {
                if let Some(value) = text.strip_prefix("--color=") {
                    choice = named(OsStr::new(value));
                }
            }
            None => {}
        }
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_behind_help_that_is_nearly_right_is_corrected() {
        let mut command =
            clap::Command::new("c").subcommands(["top", "list"].map(clap::Command::new));
        let mut said = |words: &str| {
            let args: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            let error = command.try_get_matches_from_mut(args.iter()).unwrap_err();
            let error = without_help(&mut command, &args, error);
            CliError::from_arguments(&command, &args, &error).to_string()
        };
        let top = "unrecognized subcommand 'topp'; did you mean 'top'? See --help";
        assert_eq!(said("c help topp"), top);
        assert_eq!(said("c topp"), top);
        let top = "unrecognized subcommand 'tpo'; did you mean 'top'? See --help";
        assert_eq!(said("c help tpo"), top);
        assert_eq!(said("c tpo"), top);
        assert_eq!(said("c help x"), "unrecognized subcommand 'x'; see --help");
    }

    #[test]
    fn color_is_found_wherever_it_stands_and_not_behind_two_hyphens() {
        for (args, choice) in [
            ("c top", ColorChoice::Auto),
            ("c top --color never", ColorChoice::Never),
            ("c --color=always top --help", ColorChoice::Always),
            ("c --color=always --color auto", ColorChoice::Auto),
            ("c sim -- --color always", ColorChoice::Auto),
            ("c --color", ColorChoice::Auto),
        ] {
            let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
            assert_eq!(color_choice(&args), choice, "{args:?}");
        }
    }
}
