//! `cmwq trace`: what happens in a process, event by event, as a file for Perfetto and chrome://tracing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cmwq_control::protocol::MAX_TRACE_EVENTS;
use cmwq_control::{Client, ControlError};
use signal_hook::flag::register_conditional_default;

use super::chrome::Trace;
use super::{ProcessArgs, refused};
use crate::out_file::OutFile;
use crate::{output, signals};
use cmwq_command::{CliError, seconds_from, whole};

const EXAMPLES: &str = "\
Examples:
  cmwq trace -p my-server --seconds 2 -o trace.json
  cmwq trace -o - | jq '.traceEvents | length'

Open the file at https://ui.perfetto.dev or in chrome://tracing. Each thread is a track there, the workers below the threads that only queue; arrows lead \
from where an item was queued to where it ran. Events that did not fit into a thread's buffer are counted and shown as lost. \
Interrupted, it writes what it has.

The same four events are USDT probes of provider cmwq: workqueue_queue_work, workqueue_activate_work, workqueue_execute_start, \
workqueue_execute_end; for instance:

  bpftrace -p PID -e 'usdt:*:cmwq:workqueue_execute_start { @[usym(arg1)] = count(); }'";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    process: ProcessArgs,

    /// Seconds to record
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        allow_hyphen_values = true,
        value_parser = seconds_from(0.001, MOST_SECONDS)
    )]
    seconds: Duration,

    /// Events that each thread's buffer holds; it is emptied about every 100 ms
    #[arg(long, value_name = "N", default_value_t = 16 * 1024, allow_hyphen_values = true, value_parser = whole(1, MAX_TRACE_EVENTS))]
    events: usize,

    /// The file to write; -: standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// An hour: the file is held in memory until its end.
const MOST_SECONDS: f64 = 3600.0;
/// How often the buffers are emptied.
const ROUND: Duration = Duration::from_millis(100);
/// No more events are kept: a few gigabytes of text.
const MOST_EVENTS: usize = 20_000_000;

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let duration = args.seconds;
    let to_stdout = args.output.as_os_str() == "-";
    let mut client = args.process.connect()?;
    let file = match to_stdout {
        true => None,
        false => Some(OutFile::open("--output", &args.output)?),
    };
    let process = client.hello().map_err(refused)?;
    let mut trace = Trace::new(process.pid, process.name);
    let failed = |error: io::Error| CliError::failed(format!("signals: {error}"));
    let told_to_end = signals::told_to_end().map_err(failed)?;
    let is_recorded = Arc::new(AtomicBool::new(false));
    for signal in signals::SIGNALS {
        // While the file is written a signal ends the command as usual.
        register_conditional_default(signal, is_recorded.clone()).map_err(failed)?;
    }
    client.trace_start(args.events).map_err(refused)?;
    let recorded = record(&mut client, &mut trace, duration, &told_to_end).map_err(refused);
    is_recorded.store(true, Ordering::Relaxed);
    let (events, lost) = (trace.len(), trace.lost());
    // What a process did before it ended is written.
    if recorded.is_err() && events == 0 {
        return recorded;
    }
    let text = trace.render();
    match file {
        None => output::print(&text)?,
        Some(file) => {
            file.write(&text)?;
            let lost = match lost {
                0 => String::new(),
                lost => format!(", {lost} more were lost: see --events"),
            };
            output::print(&format!(
                "{}: {events} events{lost}\n",
                args.output.display()
            ))?;
        }
    }
    recorded
}

fn record(
    client: &mut Client,
    trace: &mut Trace,
    duration: Duration,
    told_to_end: &AtomicBool,
) -> Result<(), ControlError> {
    let end = Instant::now() + duration;
    loop {
        let left = match told_to_end.load(Ordering::Relaxed) {
            true => Duration::ZERO,
            false => end.saturating_duration_since(Instant::now()),
        };
        std::thread::sleep(left.min(ROUND));
        let round_end = Instant::now() + ROUND;
        loop {
            let chunk = client.trace_read()?;
            let more = chunk.more;
            trace.add(chunk);
            // A process that makes events faster than they are read is not followed for ever.
            if !more || (left.is_zero() && Instant::now() > round_end + ROUND * 50) {
                break;
            }
        }
        if left.is_zero() || trace.len() >= MOST_EVENTS {
            return client.trace_stop();
        }
    }
}
