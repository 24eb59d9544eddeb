//! The commands that inspect and change a running process through its control endpoint.
//!
//! | file | command |
//! |---|---|
//! | `list` | `cmwq list` |
//! | `dump` | `cmwq dump` |
//! | `monitor` | `cmwq monitor` |
//! | `busy` | `cmwq busy`, `cmwq metrics` |
//! | `attributes` | `cmwq get`, `cmwq set`, `cmwq param` |
//! | `trace`, `chrome` | `cmwq trace` |

pub(crate) mod attributes;
pub(crate) mod busy;
mod chrome;
pub(crate) mod dump;
pub(crate) mod list;
pub(crate) mod monitor;
pub(crate) mod trace;

use clap::ValueEnum;
use cmwq_control::protocol::State;
use cmwq_control::{Client, ControlError, connect, processes};

use crate::output;
use cmwq_command::CliError;

/// Which process.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct ProcessArgs {
    /// The process, by number or name [default: the only one that serves]
    #[arg(short, long = "process", value_name = "PID|NAME")]
    pub(crate) process: Option<String>,
}

impl ProcessArgs {
    pub(crate) fn connect(&self) -> Result<Client, CliError> {
        // That several serve is for the user to decide; otherwise there is nothing wrong with the question.
        let which = self.process.as_deref();
        connect(which).map_err(|error| match (error.errno.as_str(), which) {
            ("EINVAL", _) => refused(error),
            ("ENOENT", Some(name)) => failed(&error).suggest(name, names_of_processes()),
            _ => failed(&error),
        })
    }
}

fn failed(error: &ControlError) -> CliError {
    CliError::failed(output::printable(&error.to_string()))
}

/// The names of those that serve.
fn names_of_processes() -> Vec<String> {
    let all = processes().into_iter();
    all.filter_map(|(_, hello)| Some(hello.ok()?.name))
        .collect()
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people to read.
    #[default]
    Text,
    /// For programs to read.
    Json,
}

/// What the process answered, or what kept it from answering: a value that it refused, or a name
/// that it does not know, was asked wrongly.
pub(crate) fn refused(error: ControlError) -> CliError {
    let message = output::printable(&error.to_string());
    match error.errno.as_str() {
        "EINVAL" | "ERANGE" | "EOVERFLOW" | "ENOENT" | "EACCES" | "EPERM" => CliError::new(message),
        _ => CliError::failed(message),
    }
}

/// As JSON to print: one value on a line of its own. Every command's JSON is such lines, so that
/// one reader reads them all.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<String, CliError> {
    serde_json::to_string(value)
        .map(|text| text + "\n")
        .map_err(|error| CliError::failed(error.to_string()))
}

/// What a process without an engine is answered with, instead of silence or an empty table.
pub(crate) fn nothing_yet(state: &State) -> Option<String> {
    let (name, pid) = (&state.name, state.pid);
    let says =
        || format!("{name} ({pid}) has made no workqueue yet: it has no pools and no workers.\n");
    state.engines.is_empty().then(says)
}

/// A clock for people: seconds with one decimal.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e9)
}

/// A latency for people; `-`: none was measured.
pub(crate) fn latency(ns: Option<u64>) -> String {
    match ns {
        None => "-".to_owned(),
        Some(ns) if ns < 10_000 => format!("{ns}ns"),
        Some(ns) if ns < 10_000_000 => format!("{}us", ns / 1000),
        Some(ns) => format!("{}ms", ns / 1_000_000),
    }
}
