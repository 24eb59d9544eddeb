//! Tables for people.

use crate::metrics::{Unit, metrics};
use crate::results::{
    Comparison, DISTURBED_PERCENT, Entry, Results, Row, is_other_shape, waiter_helps,
};
use cmwq_loads::Load;
use std::fmt::Write;

/// All of it.
pub(crate) fn render(results: &Results) -> String {
    let mut text = format!(
        "{}, {} CPUs, {}\n",
        results.machine, results.cpus, results.date
    );
    let _ = writeln!(
        text,
        "{} runs of {} ms, peers in turns; an item of window and block computes for {:.1} us on a CPU alone\n",
        results.runs,
        results.time_ms,
        results.item_ns / 1e3
    );
    if let Some(line) = floor(results) {
        let _ = writeln!(text, "{line}\n");
    }
    for row in &results.rows {
        table(&mut text, row);
    }
    comparisons(&mut text, &results.comparisons);
    text
}

/// What the machine must spend in any case, where it was measured.
pub(crate) fn floor(results: &Results) -> Option<String> {
    let cost = |(key, name): (&str, &str)| {
        let ns = results.floor.get(key)?;
        Some(format!("{name} {}", duration(*ns)))
    };
    let costs: Vec<String> = [
        ("line_transfer_ns", "a line to the other CPU"),
        (
            "futex_round_trip_same_cpu_ns",
            "there and back asleep on one CPU",
        ),
        ("futex_round_trip_other_cpu_ns", "on two CPUs"),
        ("futex_wake_other_cpu_ns", "waking the other CPU"),
        ("clock_ns", "reading the clock"),
    ]
    .into_iter()
    .filter_map(cost)
    .collect();
    (!costs.is_empty()).then(|| format!("The machine's floor: {}", costs.join(", ")))
}

/// What a row is called.
pub(crate) fn title(row: &Row) -> String {
    let loop_name = match row.lap.as_str() {
        "roundtrip" => "round trip",
        "window" => "window of 64 items of 20 us",
        "block" => "block: window, every fourth item sleeps 1 ms first",
        "idle" => return "idle: an item every 2 ms, then nothing".to_owned(),
        "hogged" => return hogged_title(row),
        "epoll" => "epoll: window of 64 items of 20 us, waited for in an event loop",
        "batch-1" => "flood in bursts of 1",
        "batch-10" => "flood in bursts of 10",
        "batch-100" => "flood in bursts of 100",
        "loop-1e5" => "parallel loop over 100,000 elements",
        "loop-1e7" => "parallel loop over 10,000,000 elements",
        "scope" => "64 items of 200 ns in a scope",
        "fork" => "tree of forks and joins, 4096 leaves of 200 ns",
        "await-current" => return await_title(row, "one thread", "20 us"),
        "await-current-empty" => return await_title(row, "one thread", "nothing"),
        "await-multi" => return await_title(row, "two threads", "20 us"),
        "await-reads" => {
            return await_title(row, "two threads", "10 us that read, all CPUs being busy");
        }
        "await-cache" => return await_title(row, "two threads", "a cached file of 16 KiB"),
        "await-multi-empty" => return await_title(row, "two threads", "nothing"),
        other => match Load::named(other) {
            Some(load) => return load_title(row, &load),
            None => other,
        },
    };
    let s = if row.issuers == 1 { "" } else { "s" };
    format!("{loop_name}, {} issuer{s}", row.issuers)
}

fn load_title(row: &Row, load: &Load) -> String {
    let s = if row.issuers == 1 { "" } else { "s" };
    let item_us = row.item_us.unwrap_or(load.item_ns as f64 / 1e3);
    format!(
        "{}: {}; {} issuer{s}, items of {item_us} us",
        load.name, load.about, row.issuers
    )
}

fn await_title(row: &Row, threads: &str, long: &str) -> String {
    let s = if row.issuers == 1 { "" } else { "s" };
    let tasks = row.issuers;
    format!("await: {tasks} task{s} on {threads} of tokio, items of {long}")
}

/// What the runs were told: `--quick` has fewer and shorter hogs.
fn hogged_title(row: &Row) -> String {
    let told = |key: &str| {
        let mut runs = row.entries.iter().flat_map(|entry| &entry.runs);
        runs.find_map(|figures| figures.get(key).copied())
    };
    match (told("hogs"), told("hog_ms"), told("period_ms")) {
        (Some(hogs), Some(hog_ms), Some(period_ms)) => format!(
            "hogged: an empty item every {} behind {hogs:.0} items that compute for {} each",
            duration(period_ms * 1e6),
            duration(hog_ms * 1e6)
        ),
        _ => "hogged: empty items behind items that compute for long".to_owned(),
    }
}

fn table(text: &mut String, row: &Row) {
    let metrics = metrics(&row.lap);
    let mut lines: Vec<Vec<String>> = vec![vec!["  peer".to_owned(), "mode".to_owned()]];
    for (column, metric) in metrics.iter().enumerate() {
        lines[0].push(metric.name.to_owned());
        if column == 0 {
            lines[0].extend(["min".to_owned(), "max".to_owned()]);
        }
    }
    let mut notes = Vec::new();
    let (mut disturbed, mut unsteady, mut runs) = (0, 0, 0);
    for entry in row.ranked() {
        let mark = if entry.is_cmwq() { "* " } else { "  " };
        if let Some(error) = &entry.error {
            notes.push(format!("  {}: {error}", entry.label()));
        }
        if entry.runs.is_empty() {
            continue;
        }
        disturbed += entry.disturbed();
        unsteady += entry.unsteady();
        runs += entry.runs.len();
        let mut line = vec![format!("{mark}{}", entry.peer), mode(entry)];
        for (column, metric) in metrics.iter().enumerate() {
            match entry.spread(metric.key) {
                None => line.push("-".to_owned()),
                Some(spread) => {
                    line.push(figure(spread.median, metric.unit));
                    if column == 0 {
                        line.push(figure(spread.min, metric.unit));
                        line.push(figure(spread.max, metric.unit));
                    }
                }
            }
        }
        lines.push(line);
    }
    if disturbed > 0 {
        notes.push(format!("  {disturbed} of {runs} runs were disturbed: others used more than {DISTURBED_PERCENT} % of a CPU meanwhile"));
    }
    if unsteady > 0 {
        notes.push(format!("  {unsteady} of {runs} runs were not steady: the rates of their last two time windows differ by more than 10 %"));
    }
    let _ = writeln!(text, "{}", title(row));
    aligned(text, &lines, 2);
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text.push('\n');
}

/// The mode, and a star where the row is only for information.
fn mode(entry: &Entry) -> String {
    if waiter_helps(&entry.mode) || is_other_shape(&entry.mode) {
        format!("({})", entry.mode)
    } else {
        entry.mode.clone()
    }
}

fn comparisons(text: &mut String, comparisons: &[Comparison]) {
    if comparisons.is_empty() {
        return;
    }
    text.push_str("cmwq against the best peer of each row (above 1: cmwq is better)\n");
    let head = [
        "  loop",
        "issuers",
        "cmwq",
        "figure",
        "against those whose",
        "best peer",
        "ratio",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for comparison in comparisons {
        lines.push(vec![
            format!("  {}", comparison.load()),
            comparison.issuers.to_string(),
            comparison.mode.clone(),
            comparison.metric.clone(),
            comparison.against.to_owned(),
            comparison.best_peer.clone(),
            format!("{}x", ratio(comparison.ratio)),
        ]);
    }
    aligned(text, &lines, 6);
}

/// Columns, the first `words` of them to the left.
fn aligned(text: &mut String, lines: &[Vec<String>], words: usize) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let mut out = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            let _ = if column < words {
                write!(out, "{cell:<width$}  ")
            } else {
                write!(out, "{cell:>width$}  ")
            };
        }
        let _ = writeln!(text, "{}", out.trim_end());
    }
}

/// A number with its unit.
pub(crate) fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => grouped(value),
        Unit::Nanoseconds => duration(value),
        Unit::Microseconds => duration(value * 1e3),
        Unit::Cost => format!("{value:.1} us"),
        Unit::Fraction => format!("{value:.2}"),
        Unit::MiB => format!("{value:.1} MiB"),
        Unit::Count => format!("{value:.0}"),
        Unit::Number if value >= 100.0 => format!("{value:.0}"),
        Unit::Number => format!("{value:.1}"),
    }
}

/// Two digits after the point, and for a small ratio two that tell something.
pub(crate) fn ratio(ratio: f64) -> String {
    let digits = match ratio {
        ratio if ratio >= 0.1 || ratio <= 0.0 => 2,
        ratio => 1 - ratio.log10().floor() as i32,
    };
    format!("{ratio:.*}", digits.clamp(2, 6) as usize)
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e4 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// 1234567 as 1,234,567.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_have_units() {
        let texts = [0.0, 999.0, 1_000.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
        let texts = [40.0, 1_500.0, 71_000.0, 2.5e6, 3e9].map(duration);
        assert_eq!(texts, ["40 ns", "1.50 us", "71.0 us", "2.50 ms", "3.00 s"]);
        assert_eq!(
            [3.0, 0.333, 0.0123, 0.00194, 0.0].map(ratio),
            ["3.00", "0.33", "0.012", "0.0019", "0.00"]
        );
        assert_eq!(figure(7.0, Unit::Count), "7");
        assert_eq!(figure(7.0, Unit::Number), "7.0");
    }

    /// A run of the hogged loop.
    fn hogged(told: &[(&str, f64)]) -> Row {
        let figures = told.iter().map(|&(key, value)| (key.to_owned(), value));
        Row {
            lap: "hogged".to_owned(),
            issuers: 1,
            item_us: None,
            entries: vec![Entry {
                peer: "a".to_owned(),
                version: "1".to_owned(),
                mode: "start".to_owned(),
                runs: vec![figures.collect()],
                error: None,
            }],
        }
    }

    #[test]
    fn the_table_of_the_hogged_loop_says_what_ran_and_how_many_samples_waited_for_a_hog() {
        let mut text = String::new();
        let figures = [
            ("hogs", 8.0),
            ("hog_ms", 1_000.0),
            ("period_ms", 20.0),
            ("latency_p50_ns", 3e9),
            ("latency_p99_ns", 4e9),
            ("latency_max_ns", 4.5e9),
            ("after_hogs", 199.0),
            ("items", 200.0),
            ("batch_p50_ns", 4.1e9),
            ("threads", 7.0),
            ("peak_mib", 3.5),
        ];
        table(&mut text, &hogged(&figures));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "hogged: an empty item every 20.00 ms behind 8 items that compute for 1.00 s each"
        );
        let cells: Vec<&str> = lines[2].split("  ").map(str::trim).collect();
        let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
        assert_eq!(
            cells,
            [
                "a", "start", "4.00 s", "4.00 s", "4.00 s", "3.00 s", "4.50 s", "199", "200",
                "4.10 s", "7", "3.5 MiB"
            ]
        );
        assert!(!title(&hogged(&[])).contains("every"));
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_blanks_at_their_end() {
        let mut text = String::new();
        let lines = [vec!["a", "b", "c"], vec!["long", "x", "123"]]
            .map(|line| line.into_iter().map(str::to_owned).collect::<Vec<_>>());
        aligned(&mut text, &lines, 2);
        assert_eq!(text, "a     b    c\nlong  x  123\n");
    }
}
