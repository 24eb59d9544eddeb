//! `cmwq sim`: the loops of the benchmarks on virtual machines, as tables.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the options and their reading |
//! | `machine` | the machine |
//! | `rows` | what is run, and what comes out |
//! | `show` | text and JSON |
//! | `html` | the page with plots |
//! | `matrix/` | machines x loads x scopes, and their page |

mod args;
mod html;
mod machine;
mod matrix;
mod rows;
mod show;

pub(crate) use args::Arguments;

use crate::Format;
use args::Plan;
use cmwq_command::CliError;
use indicatif::{ProgressBar, ProgressStyle};
use rows::Table;
use std::io::IsTerminal;
use std::path::Path;

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CliError> {
    if let Some(results) = &arguments.matrix {
        return matrix::run(arguments, results);
    }
    if arguments.published {
        return published(arguments);
    }
    let plan = Plan::new(arguments).map_err(CliError::new)?;
    with_page(arguments.html.as_deref(), |page| {
        tabulate(&plan, page, arguments.format)
    })
}

/// Calls `work`, which writes the page. That it cannot be written is found out before the work.
fn with_page(
    page: Option<&Path>,
    work: impl FnOnce(Option<&Path>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let is_new = page.is_some_and(|path| !path.exists());
    page.map_or(Ok(()), open)?;
    let result = work(page);
    if let Some(path) = page.filter(|_| is_new && result.is_err()) {
        // Nothing more can be done about a file that will not go.
        let _ = std::fs::remove_file(path);
    }
    result
}

fn tabulate(plan: &Plan, page: Option<&Path>, format: Format) -> Result<(), CliError> {
    let wanted = plan.rows();
    let bar = bar(wanted.len() * plan.seeds as usize);
    let costs = rows::kernel_costs(plan).map_err(CliError::new)?;
    let mut table = Table::new(plan);
    let rows = rows::run_all(plan, &wanted, costs.as_ref(), |label| {
        bar.set_message(label.to_owned());
        bar.inc(1);
    });
    table.rows = rows.map_err(CliError::new)?;
    bar.finish_and_clear();
    table.take_calibration(plan);
    if plan.is_sweep {
        table.choose();
    }
    if let Some(path) = page {
        std::fs::write(path, html::render(&table))
            .map_err(|error| CliError::failed(format!("--html {}: {error}", path.display())))?;
    }
    show::print(&table, format)
}

fn open(path: &Path) -> Result<(), CliError> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).open(path);
    opened.map(drop).map_err(|error| {
        CliError::new(format!(
            "--html {}: cannot write: {error}; name a file that can be written",
            path.display()
        ))
    })
}

fn published(arguments: &Arguments) -> Result<(), CliError> {
    arguments.refuse_beside_published().map_err(CliError::new)?;
    let effort = cmwq_sim::published::Effort {
        items: arguments.items.unwrap_or(400),
        fit_items: arguments.items.unwrap_or(400),
        seed: arguments.seed,
    };
    let bar = bar(cmwq_sim::published::STEPS);
    let rows = cmwq_sim::published::all(effort, |what| {
        bar.set_message(what.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let rows =
        rows.map_err(|stuck| CliError::failed(format!("a simulated run has no end: {stuck}")))?;
    crate::print_published(rows, arguments.format)
}

/// On a terminal.
fn bar(steps: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}
