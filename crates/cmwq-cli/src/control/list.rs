//! `cmwq list`: the processes that serve.

use std::fmt::Write as _;

use cmwq_control::protocol::Hello;
use cmwq_control::{ControlError, processes};
use serde_json::json;

use super::Format;
use crate::output;
use cmwq_command::CliError;

const EXAMPLES: &str = "\
Examples:
  cmwq list
  cmwq list --format json

A process is listed if it lets tools look at its workqueues: it calls cmwq_control::serve (as `cmwq bench --control` does), or in C \
cmwq_serve_control_if_asked, and runs with CMWQ_CONTROL=1. Root sees the processes of all users.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Text to read, or JSON: a line for each process
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let found = processes();
    if args.format == Format::Json {
        let line = |(pid, hello): &(u32, Result<Hello, ControlError>)| match hello {
            Ok(hello) => super::json(hello),
            Err(error) => super::json(&json!({ "pid": pid, "error": error })),
        };
        let lines: Result<String, CliError> = found.iter().map(line).collect();
        return output::print(&lines?);
    }
    if found.is_empty() {
        return output::print("No process serves.\n");
    }
    let mut text = format!(
        "{:>8} {:16} {:>6} {:>6} {:>6} {:>7} {:>8} {}\n",
        "PID", "NAME", "UID", "QUEUES", "GROUPS", "WORKERS", "REQUESTS", "VERSION"
    );
    for (pid, hello) in &found {
        // Writing to a string cannot fail.
        let _ = match hello {
            Ok(hello) => writeln!(
                text,
                "{pid:>8} {} {:>6} {:>6} {:>6} {:>7} {:>8} {}",
                output::padded(&hello.name, 16),
                hello.uid,
                hello.queues,
                hello.groups,
                hello.workers,
                hello.endpoint.requests,
                output::printable(&hello.version)
            ),
            Err(error) => writeln!(text, "{pid:>8} {}", output::printable(&error.to_string())),
        };
    }
    output::print(&text)
}
