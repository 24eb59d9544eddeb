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
    let parsed = command.try_get_matches_from_mut(args);
    let parsed = parsed.and_then(|matches| C::from_arg_matches(&matches));
    let result = match parsed {
        Ok(arguments) => run(arguments),
        // Asked for nothing: all that may be asked for.
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::print_help(&help, output::Stream::Error)
                .map(|()| ExitCode::from(CliError::WRONG))
        }
        Err(error) if error.use_stderr() => Err(CliError::from_clap(&error)),
        Err(help) => output::print_help(&help, output::Stream::Out).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        let status = error.status();
        output::warn(name, error);
        ExitCode::from(status)
    })
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
