//! What was measured: samples in a file, and tables of their medians.

use crate::server::Way;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// One run of one server.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Bytes of a message.
    pub(crate) bytes: usize,
    /// Whether each request makes its own compressor.
    pub(crate) fresh: bool,
    /// One request in so many sleeps for a millisecond; 0: none.
    pub(crate) sleep_every: u32,
    pub(crate) connections: usize,
    /// Per cent of the rate that counts as full load; without it a closed loop.
    pub(crate) load: Option<u32>,
    /// Requests that came a second, if that was fixed.
    pub(crate) offered: Option<f64>,
    pub(crate) way: String,
    pub(crate) requests_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) light_p99_us: f64,
    pub(crate) cpu_us: f64,
    pub(crate) page_faults: f64,
    pub(crate) threads: u64,
}

/// The samples that a file holds; none if it is not there.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Sample>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let sample = |line| serde_json::from_str(line).map_err(io::Error::other);
    text.lines().map(sample).collect()
}

/// Adds a sample to a file.
pub(crate) fn add(path: &Path, sample: &Sample) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?;
    let mut line = serde_json::to_string(sample).map_err(io::Error::other)?;
    line.push('\n');
    file.write_all(line.as_bytes())
}

/// All runs of one way under one load.
#[derive(Serialize)]
pub(crate) struct Row {
    bytes: usize,
    fresh: bool,
    sleep_every: u32,
    connections: usize,
    load: Option<u32>,
    way: String,
    runs: usize,
    offered: Option<f64>,
    requests_per_s: f64,
    requests_per_s_least: f64,
    requests_per_s_most: f64,
    /// Fewer than 98 % of the requests that came were answered: its times grow as long as it runs.
    falls_behind: bool,
    p50_us: f64,
    p99_us: f64,
    p99_us_least: f64,
    p99_us_most: f64,
    p999_us: f64,
    light_p99_us: f64,
    cpu_us: f64,
    page_faults: f64,
    threads: f64,
}

pub(crate) fn rows(samples: &[Sample]) -> Vec<Row> {
    type Key = (usize, bool, u32, usize, Option<u32>, usize);
    let key = |sample: &Sample| -> Key {
        let way = Way::value_variants()
            .iter()
            .position(|way| way.name() == sample.way);
        let Sample {
            bytes,
            fresh,
            sleep_every,
            connections,
            load,
            ..
        } = *sample;
        (
            bytes,
            fresh,
            sleep_every,
            connections,
            load,
            way.unwrap_or(usize::MAX),
        )
    };
    let mut keys: Vec<_> = samples.iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    let row = |wanted| {
        let of: Vec<_> = samples
            .iter()
            .filter(|sample| key(sample) == wanted)
            .collect();
        row(&of)
    };
    keys.into_iter().map(row).collect()
}

/// The least, the median and the greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    let middle = f64::midpoint(values[last / 2], values[last.div_ceil(2)]);
    [values[0], middle, values[last]]
}

fn row(samples: &[&Sample]) -> Row {
    let of =
        |field: fn(&Sample) -> f64| spread(samples.iter().map(|sample| field(sample)).collect());
    let median = |field: fn(&Sample) -> f64| of(field)[1];
    let first = samples[0];
    let [least, requests_per_s, most] = of(|sample| sample.requests_per_s);
    let [p99_us_least, p99_us, p99_us_most] = of(|sample| sample.p99_us);
    let offered = first
        .offered
        .map(|_| median(|sample| sample.offered.unwrap_or(0.0)));
    Row {
        bytes: first.bytes,
        fresh: first.fresh,
        sleep_every: first.sleep_every,
        connections: first.connections,
        load: first.load,
        way: first.way.clone(),
        runs: samples.len(),
        offered,
        requests_per_s,
        requests_per_s_least: least,
        requests_per_s_most: most,
        falls_behind: offered.is_some_and(|offered| requests_per_s < 0.98 * offered),
        p50_us: median(|sample| sample.p50_us),
        p99_us,
        p99_us_least,
        p99_us_most,
        p999_us: median(|sample| sample.p999_us),
        light_p99_us: median(|sample| sample.light_p99_us),
        cpu_us: median(|sample| sample.cpu_us),
        page_faults: median(|sample| sample.page_faults),
        threads: median(|sample| sample.threads as f64),
    }
}

const HEADINGS: [&str; 12] = [
    "connections",
    "load",
    "way",
    "requests/s",
    "range",
    "p50 µs",
    "p99 µs",
    "p99 range",
    "p99.9 µs",
    "light p99 µs",
    "CPU µs/request",
    "faults/request",
];

impl Row {
    fn cells(&self) -> [String; 12] {
        let load = self
            .load
            .map_or("closed loop".to_owned(), |load| format!("{load} %"));
        // Of a server that falls behind they say how long the run was.
        let time = |us: f64| {
            if self.falls_behind {
                "-".to_owned()
            } else {
                format!("{us:.0}")
            }
        };
        let range = format!(
            "{:.0} to {:.0}",
            self.requests_per_s_least, self.requests_per_s_most
        );
        let behind = if self.falls_behind {
            " (falls behind)"
        } else {
            ""
        };
        [
            self.connections.to_string(),
            load,
            self.way.clone(),
            format!("{:.0}{behind}", self.requests_per_s),
            range,
            time(self.p50_us),
            time(self.p99_us),
            if self.falls_behind {
                "-".to_owned()
            } else {
                format!("{:.0} to {:.0}", self.p99_us_least, self.p99_us_most)
            },
            time(self.p999_us),
            format!("{:.0}", self.light_p99_us),
            format!("{:.1}", self.cpu_us),
            format!("{:.1}", self.page_faults),
        ]
    }

    /// What all rows of a table have in common.
    fn title(&self) -> String {
        let mut title = format!("Messages of {} bytes", self.bytes);
        if self.fresh {
            title.push_str(", a new compressor for each request");
        }
        if self.sleep_every > 0 {
            let _ = write!(
                title,
                ", one request in {} sleeps for 1 ms",
                self.sleep_every
            );
        }
        let _ = write!(title, "; medians of {} runs", self.runs);
        title
    }
}

/// Tables for people: in columns, or as Markdown.
pub(crate) fn tables(rows: &[Row], markdown: bool) -> String {
    let mut text = String::new();
    for table in rows.chunk_by(|one, two| one.title() == two.title()) {
        let _ = writeln!(text, "{}:\n", table[0].title());
        let mut lines = vec![HEADINGS.map(str::to_owned)];
        lines.extend(table.iter().map(Row::cells));
        let width = |column: usize| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: [usize; 12] = std::array::from_fn(width);
        for (number, line) in lines.iter().enumerate() {
            if markdown {
                let _ = writeln!(text, "| {} |", line.join(" | "));
                if number == 0 {
                    let _ = writeln!(text, "|--:|---|---|{}", "--:|".repeat(9));
                }
                continue;
            }
            let cells = line
                .iter()
                .zip(widths)
                .enumerate()
                .map(|(column, (cell, width))| {
                    if (1..3).contains(&column) {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                });
            let cells: Vec<_> = cells.collect();
            let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        }
        text.push('\n');
    }
    text
}

/// The machine in a line.
pub(crate) fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model
        .and_then(|line| line.split_once(": "))
        .map_or("a CPU without a name", |m| m.1);
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cpus} CPUs of {}, Linux {}",
        model.trim(),
        read("/proc/sys/kernel/osrelease").trim()
    )
}
