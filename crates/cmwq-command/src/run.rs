//! The way from a command's arguments to its exit status.

use crate::{CliError, output};
use clap::Parser;
use std::process::ExitCode;

/// Parses the arguments of the command `name`, and has `run` carry them out. Prints help, and errors.
pub fn run<C: Parser>(name: &str, run: impl FnOnce(C) -> Result<ExitCode, CliError>) -> ExitCode {
    let result = match C::try_parse() {
        Ok(arguments) => run(arguments),
        Err(error) if error.use_stderr() => Err(CliError::from_clap(&error)),
        Err(help) => output::print(&help.render().to_string()).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        output::warn(name, error);
        ExitCode::from(CliError::EXIT_CODE)
    })
}
