//! `cmwq-sim storage`: the published storage tables beside ours.
#![forbid(unsafe_code)]

use crate::{Format, print_json};
use cmwq_command::CliError;
use cmwq_sim::published::Role;
use cmwq_sim::storage;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// text or json
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), CliError> {
    let rows = storage::all(arguments.seed, |what| crate::warn(what));
    let rows =
        rows.map_err(|stuck| CliError::failed(format!("a simulated run has no end: {stuck}")))?;
    if arguments.format == Format::Json {
        return print_json(&rows);
    }
    say!(
        "{:5} {:28} {:>10} {:>10} {:>8}  {:>16}  used to",
        "table",
        "row",
        "published",
        "simulated",
        "error",
        "CPU %"
    );
    for row in &rows {
        let cpu = match (row.cpu_published, row.cpu_predicted) {
            (Some(published), Some(ours)) => format!("{published:.1} / {ours:.1}"),
            _ => String::new(),
        };
        let role = match row.role {
            Role::Calibrate => "calibrate",
            Role::Predict => "predict",
        };
        say!(
            "{:5} {:28} {:>10.1} {:>10.1} {:>+7.1}%  {cpu:>16}  {role}",
            row.table,
            row.row,
            row.published,
            row.predicted,
            row.error,
        );
    }
    Ok(())
}
