//! `cmwq monitor`: what the workqueues do, in the columns of the kernel's `wq_monitor` and a few more.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cmwq_control::protocol::{Queue, State};
use regex::Regex;
use serde_json::Value;

use super::dump::name_column;
use super::{Format, ProcessArgs, latency, nothing_yet, refused, seconds};
use crate::output;
use cmwq_command::{CliError, seconds_from};

const EXAMPLES: &str = "\
Examples:
  cmwq monitor
  cmwq monitor -p my-server '^io' crypt --interval 0.5
  cmwq monitor --interval 0 --format json

Columns, as in the kernel's wq_monitor:
  total    items started
  infl     items started and not completed
  CPUtime  seconds of CPU time that items have used, estimated by sampling
  CPUitsv  items that used the CPU for longer than cpu_intensive_thresh_us
           (of unbound workqueues, for which the kernel shows -, those only that
           were found so while other items waited)
  CMW/RPR  how often another worker took over because an item had blocked
           (the kernel shows this for per-CPU workqueues, and how often it moved
           a worker back for unbound ones; cmwq moves items instead: see stolen)
  mayday   how often the rescuer was called because no worker came
  rescued  items that the rescuer ran

Columns of cmwq's own:
  enq p50, p99  how long a call of queue() took, measured at about every 64th
  wait p50, p99 the time from the call that queued an item to its start
  run p50, p99  the time from its start to its end; both of a sample of up to
           32 items of the workqueue in two milliseconds
  wait now, run now  for how long the oldest of the sampled items that wait now,
           or of the items that run now, has done so
  refused  attempts to queue that found no room (max_waiting)
  stolen   items that workers of another, idle pod ran
  wake/it  workers that were woken, divided by the number of items
  lockwt   times that a thread had to wait for the lock of a pool;
           workqueues that share a pool share them

--format json prints a line for each workqueue: the fields that cmwq dump --format json has for it,
without those of its configuration, and at_ns, the time in nanoseconds since the machine started.
docs/control.md says which field is which column and which metric.

When a workqueue's attributes are changed, the counts of the pools that it leaves are lost, as in the kernel.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    process: ProcessArgs,

    /// Show only workqueues whose name matches one of these regular expressions, in any part of it
    /// [default: all]
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,

    /// Seconds between two samples; 0: one sample
    #[arg(
        short,
        long,
        value_name = "S",
        default_value = "1",
        allow_hyphen_values = true,
        value_parser = interval
    )]
    interval: Duration,

    /// Text to read, or JSON: a line for each workqueue in each sample
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A day: more is a slip of the hand.
const MOST_SECONDS: f64 = 86_400.0;

/// The time between two samples; zero if there is to be only one.
fn interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => seconds_from(0.01, MOST_SECONDS)(text).map_err(|why| format!("{why}, or 0")),
    }
}

fn patterns(texts: &[String]) -> Result<Vec<Regex>, CliError> {
    let read = |text: &String| {
        Regex::new(text).map_err(|error| {
            // Its own message draws the pattern on several lines.
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default().trim();
            let why = why.strip_prefix("error: ").unwrap_or(why);
            CliError::new(format!(
                "PATTERN {text:?} is not a regular expression: {why}"
            ))
        })
    };
    texts.iter().map(read).collect()
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let patterns = patterns(&args.patterns)?;
    let mut client = args.process.connect()?;
    let mut next = Instant::now();
    loop {
        let state = client.state().map_err(refused)?;
        let text = match args.format {
            Format::Text => table(&state, &patterns),
            Format::Json => lines(&state, &patterns)?,
        };
        if !output::print_until_closed(&text)? {
            return Ok(());
        }
        if args.interval.is_zero() {
            return Ok(());
        }
        next += args.interval;
        // Late, after the process was stopped: the interval restarts now.
        next = next.max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        if args.format == Format::Text && !output::print_until_closed("\n")? {
            return Ok(());
        }
    }
}

fn chosen<'s>(state: &'s State, patterns: &'s [Regex]) -> impl Iterator<Item = &'s Queue> {
    let queues = state.engines.iter().flat_map(|engine| &engine.queues);
    queues.filter(move |queue| {
        patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_match(&queue.name))
    })
}

/// A count, unless there is nothing that could be counted.
fn unless(absent: bool, count: u64) -> String {
    match absent {
        true => "-".to_owned(),
        false => count.to_string(),
    }
}

fn wakes_each(queue: &Queue) -> String {
    match queue.started {
        0 => "-".to_owned(),
        started => format!("{:.3}", queue.wakeups as f64 / started as f64),
    }
}

/// Its head, its width, what stands there.
type Column = (&'static str, usize, fn(&Queue) -> String);

/// The columns behind the name.
const COLUMNS: [Column; 19] = [
    ("total", 10, |queue| queue.started.to_string()),
    ("infl", 5, |queue| {
        queue.started.saturating_sub(queue.completed).to_string()
    }),
    ("CPUtime", 8, |queue| seconds(queue.cpu_ns)),
    ("CPUitsv", 8, |queue| queue.cpu_intensive.to_string()),
    ("CMW/RPR", 7, |queue| queue.cm_wakeups.to_string()),
    ("mayday", 7, |queue| {
        unless(queue.rescuer.is_none(), queue.mayday)
    }),
    ("rescued", 7, |queue| {
        unless(queue.rescuer.is_none(), queue.rescued)
    }),
    ("enq p50", 8, |queue| latency(queue.enqueue_p50_ns)),
    ("enq p99", 8, |queue| latency(queue.enqueue_p99_ns)),
    ("wait p50", 8, |queue| latency(queue.times.wait_p50_ns)),
    ("wait p99", 8, |queue| latency(queue.times.wait_p99_ns)),
    ("wait now", 8, |queue| {
        latency(queue.times.longest_waiting_ns)
    }),
    ("run p50", 8, |queue| latency(queue.times.run_p50_ns)),
    ("run p99", 8, |queue| latency(queue.times.run_p99_ns)),
    ("run now", 8, |queue| {
        latency(queue.times.longest_running_ns)
    }),
    ("refused", 7, |queue| {
        unless(queue.room.is_none(), queue.refused)
    }),
    ("stolen", 8, |queue| queue.stolen.to_string()),
    ("wake/it", 7, wakes_each),
    ("lockwt", 8, |queue| queue.lock_waits.to_string()),
];

fn table(state: &State, patterns: &[Regex]) -> String {
    if let Some(text) = nothing_yet(state) {
        return text;
    }
    let mut text = name_column("");
    for (head, width, _) in COLUMNS {
        let _ = write!(text, " {head:>width$}");
    }
    text.push('\n');
    for queue in chosen(state, patterns) {
        text += &name_column(&queue.key);
        for (_, width, cell) in COLUMNS {
            let _ = write!(text, " {:>width$}", cell(queue));
        }
        text.push('\n');
    }
    text
}

/// What `cmwq dump` says of a workqueue that does not change from sample to sample.
const CONFIGURATION: [&str; 3] = ["attributes", "cpu_pool", "default_pool"];

/// The workqueue as `cmwq dump` has it, so that one reader reads both.
fn line(queue: &Queue, at_ns: u64) -> Result<Value, CliError> {
    let mut line =
        serde_json::to_value(queue).map_err(|error| CliError::failed(error.to_string()))?;
    if let Some(fields) = line.as_object_mut() {
        fields.retain(|name, _| !CONFIGURATION.contains(&name.as_str()));
        fields.insert("at_ns".to_owned(), at_ns.into());
    }
    Ok(line)
}

fn lines(state: &State, patterns: &[Regex]) -> Result<String, CliError> {
    let mut text = String::new();
    for queue in chosen(state, patterns) {
        text += &super::json(&line(queue, state.at_ns)?)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_and_0_is_one_look() {
        assert_eq!(interval("0").unwrap(), Duration::ZERO);
        assert_eq!(interval("0.5").unwrap(), Duration::from_millis(500));
        for text in ["", "-1", "x", "nan", "inf", "1e300", "0.0001"] {
            let why = interval(text).expect_err("refused");
            assert_eq!(
                why,
                "it must be a number of seconds from 0.01 to 86400, or 0"
            );
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_an_error_of_one_line() {
        let message = patterns(&["a(".to_owned()])
            .expect_err("refused")
            .to_string();
        assert_eq!(message.lines().count(), 1);
        assert!(
            message.contains("\"a(\"") && !message.contains("error:"),
            "{message}"
        );
    }
}
