//! `cmwq busy` and `cmwq metrics`: texts that the process writes itself.

use super::{Format, ProcessArgs, refused};
use crate::cli_error::CliError;
use crate::output;

const BUSY_EXAMPLES: &str = "\
Examples:
  cmwq busy
  cmwq busy -p my-server --format json

The layout is that of the kernel's dump of all workqueues: every workqueue with items that are not finished, what runs and for how long,
what waits; then every pool with a worker that is not idle. Functions are symbols where the program exports them, and otherwise a file
and an offset for `addr2line -f -e FILE OFFSET`.";

#[derive(clap::Args)]
#[command(after_help = BUSY_EXAMPLES)]
pub(crate) struct BusyArgs {
    #[command(flatten)]
    process: ProcessArgs,

    /// Text to read, or JSON: each item that runs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &BusyArgs) -> Result<(), CliError> {
    let mut client = args.process.connect()?;
    if args.format == Format::Json {
        let state = client.state().map_err(refused)?;
        let runs: Vec<serde_json::Value> = state
            .engines
            .iter()
            .flat_map(|engine| &engine.pools)
            .flat_map(|pool| pool.runs.iter().map(move |run| (pool, run)))
            .map(|(pool, run)| serde_json::json!({ "pool": pool.id, "run": run }))
            .collect();
        return output::print(&super::json(&runs)?);
    }
    output::print(&client.busy().map_err(refused)?)
}

const METRICS_EXAMPLES: &str = "\
Examples:
  cmwq metrics -p my-server
  cmwq metrics | grep cmwq_queue_enqueue_seconds

With CMWQ_CONTROL_HTTP=127.0.0.1:9464 beside CMWQ_CONTROL=1 the process serves the same at http://127.0.0.1:9464/metrics.";

#[derive(clap::Args)]
#[command(after_help = METRICS_EXAMPLES)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    process: ProcessArgs,
}

pub(crate) fn metrics(args: &MetricsArgs) -> Result<(), CliError> {
    let mut client = args.process.connect()?;
    output::print(&client.metrics().map_err(refused)?)
}
