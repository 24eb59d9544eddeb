//! `cmwq busy` and `cmwq metrics`: texts that the process writes itself.

use super::{Format, ProcessArgs, nothing_yet, refused};
use crate::output;
use cmwq_command::CliError;

const BUSY_EXAMPLES: &str = "\
Examples:
  cmwq busy
  cmwq busy -p my-server --format json
  cmwq busy --freezable

The layout is that of the kernel's dump of all workqueues. It has three parts:

  - each workqueue with items that are not finished: what runs (with its description, if the item has set one) and for how long, and what \
waits. active is how many items have a place under max_active: those that run, and those that may begin (pending). in_flight is how many are \
not finished: the active ones, and those that wait for a place (inactive). Where 2 run and 10 wait for one of 2 places, it is active=2 \
in_flight=12. infl in cmwq top and cmwq monitor is less: only what runs. The line in-flight: lists what runs, as the kernel's does;
  - each worker pool with a worker that is not idle. hung is the time for which it has started nothing although something waits. flags is the \
sum of 1 (a BH pool), 2 (a worker is being created) and 4 (not bound to one CPU);
  - each busy thread, and where it is in the kernel: its stack if that may be read, otherwise the system call that it is in.

Functions are shown as symbols where the program exports them, otherwise as a file and an offset: `addr2line -f -C -e FILE OFFSET` names \
them. It tells closures apart in programs that were built with -C symbol-mangling-version=v0.";

#[derive(clap::Args)]
#[command(after_help = BUSY_EXAMPLES)]
pub(crate) struct BusyArgs {
    #[command(flatten)]
    process: ProcessArgs,

    /// Show freezable workqueues only: what a freeze still waits for
    #[arg(long)]
    freezable: bool,

    /// Text for people, or JSON: a line for each item that runs, with its thread, and with the
    /// number, hung_ns and manager of its pool
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What the system reports about a thread that runs an item; the thread itself is not asked.
#[derive(serde::Serialize)]
struct Thread {
    name: String,
    /// As in `/proc`: R, S, D and so on.
    state: char,
    /// The kernel's function in which it sleeps, and its frames there, outermost last, if those may
    /// be read (it takes a privilege).
    wchan: Option<String>,
    stack: Vec<String>,
    /// The number of the system call that it is in, if that may be read.
    syscall: Option<i64>,
}

impl Thread {
    /// `None`: it has ended, or is not seen from here.
    fn read(pid: u32, tid: i32) -> Option<Self> {
        let read = |file: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).unwrap_or_default()
        };
        let stat = read("stat");
        // The name may have anything in it.
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let wchan = read("wchan").trim().to_owned();
        let call = read("syscall");
        let syscall = call
            .split_whitespace()
            .next()
            .and_then(|number| number.parse().ok());
        Some(Thread {
            name: read("comm").trim_end().to_owned(),
            state,
            // "0": in none.
            wchan: (!matches!(wchan.as_str(), "" | "0")).then_some(wchan),
            stack: read("stack").lines().map(str::to_owned).collect(),
            syscall: syscall.filter(|&number: &i64| number >= 0),
        })
    }
}

pub(crate) fn run(args: &BusyArgs) -> Result<(), CliError> {
    let mut client = args.process.connect()?;
    let state = client.state().map_err(refused)?;
    if args.format == Format::Json {
        let queues = state.engines.iter().flat_map(|engine| &engine.queues);
        let freezable =
            queues.filter(|queue| queue.flags.split(' ').any(|flag| flag == "freezable"));
        let freezable: Vec<&str> = freezable.map(|queue| queue.key.as_str()).collect();
        let runs: Result<String, CliError> = state
            .engines
            .iter()
            .flat_map(|engine| &engine.pools)
            .flat_map(|pool| pool.runs.iter().map(move |run| (pool, run)))
            .filter(|(_, run)| !args.freezable || freezable.contains(&run.queue.as_str()))
            .map(|(pool, run)| {
                let thread = Thread::read(state.pid, run.tid);
                super::json(&serde_json::json!({
                    "pool": pool.id,
                    "hung_ns": pool.hung_ns,
                    "manager": pool.manager,
                    "run": run,
                    "thread": thread,
                }))
            })
            .collect();
        return output::print(&runs?);
    }
    if let Some(text) = nothing_yet(&state) {
        return output::print(&output::printable_lines(&text));
    }
    let text = match args.freezable {
        true => client.busy_freezable(),
        false => client.busy(),
    };
    output::print(&output::printable_lines(&text.map_err(refused)?))
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
    let text = client.metrics().map_err(refused)?;
    output::print(&output::printable_lines(&text))
}
