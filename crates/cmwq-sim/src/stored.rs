//! `cmwq-sim storage`: the published storage tables beside ours.
#![forbid(unsafe_code)]

use crate::{Format, print_json};
use cmwq_command::CliError;
use cmwq_sim::published::Role;
use cmwq_sim::storage::{self, Row};

pub(crate) const AFTER_HELP: &str = "Tables 3 (NFS), 4 (dm-crypt, 32 KiB, verified) and 7 \
(dm-crypt, 4 KiB) of docs/lab/published.csv. A row is a rate, and its error is in percent; or the \
difference of two scopes in percent, and its error is in percentage points. calibrate: the model \
was fitted on this row; predict: it was not. Takes about a minute.

Example: cmwq-sim storage --format json";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The first of three seeds. Each row is the mean of their runs
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
        "{:5} {:28} {:>12} {:>12} {:>12}  {:>16}  used to",
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
        let [published, predicted, error] = figures(row);
        say!(
            "{:5} {:28} {published:>12} {predicted:>12} {error:>12}  {cpu:>16}  {role}",
            row.table,
            row.row,
        );
    }
    Ok(())
}

/// What was published, what is simulated, and the error, with their units.
fn figures(row: &Row) -> [String; 3] {
    let Row {
        published,
        predicted,
        error,
        ..
    } = row;
    if row.is_difference {
        return [
            format!("{published:+.1}%"),
            format!("{predicted:+.1}%"),
            format!("{error:+.1} points"),
        ];
    }
    [
        format!("{published:.1} MiB/s"),
        format!("{predicted:.1} MiB/s"),
        format!("{error:+.1}%"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_and_a_difference_have_their_units() {
        let rate = Row {
            table: 7,
            row: "a row".to_owned(),
            published: 413.0,
            predicted: 389.0,
            error: -5.81,
            is_difference: false,
            cpu_published: None,
            cpu_predicted: None,
            role: Role::Predict,
        };
        assert_eq!(figures(&rate), ["413.0 MiB/s", "389.0 MiB/s", "-5.8%"]);
        let difference = Row {
            published: 5.9,
            predicted: -0.04,
            error: -5.94,
            is_difference: true,
            ..rate
        };
        assert_eq!(figures(&difference), ["+5.9%", "-0.0%", "-5.9 points"]);
    }
}
