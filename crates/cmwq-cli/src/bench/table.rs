//! `--format text`: what a person reads in a terminal.

use super::host::count;
use super::report::{ConfigResult, Report};
use super::stats::Spread;

/// The lines above the tables, known before the first measurement.
pub(super) fn head(
    machine: &str,
    threads: usize,
    items: u64,
    calibrated: bool,
    runs: usize,
    strict: bool,
) -> String {
    let mut text = format!(
        "{machine}\n{}, {} items each, {}, {}\n",
        count(threads, "issuer"),
        grouped(items as f64),
        count(runs, "run"),
        if strict { "strict" } else { "non-strict" }
    );
    if calibrated {
        text += "items: calibrated so that all ends within about 15 s; published: --items 50000\n";
    }
    text
}

/// The tables: throughput and cost, latencies, and the two wake-up protocols compared.
pub(super) fn render(report: &Report) -> String {
    let both = report.settings.wake_under_lock;
    let mut text = String::new();
    text += &throughput(report, both);
    text.push('\n');
    text += &latencies(report, both);
    if !report.wake_ratios.is_empty() {
        text.push('\n');
        text += &protocols(report);
    }
    text += "\nEvery figure is the median over the runs";
    if report.settings.runs > 1 {
        text += "; min, max: the slowest and the fastest";
    }
    text += ".\n";
    if report.settings.runs > 1 && report.results.iter().any(|r| r.ratio_to_cache.is_some()) {
        text += "vs cache: items/s against cache, run by run; ~: runs disagree which is faster.\n";
    }
    let shortest = report
        .results
        .iter()
        .flat_map(|r| &r.runs)
        .map(|run| run.items)
        .min();
    if let Some(shortest) = shortest.filter(|&items| items < report.settings.items) {
        text += &format!(
            "The machine was slower than it calibrated: later runs were cut, the shortest to {} items.\n",
            grouped(shortest as f64)
        );
    }
    text
}

fn throughput(report: &Report, both: bool) -> String {
    let versus_cache = report.results.iter().any(|r| r.ratio_to_cache.is_some());
    let mut columns = name_columns(both);
    columns.extend([
        Column::new("items/s", "median"),
        Column::new("items/s", "min"),
        Column::new("items/s", "max"),
    ]);
    if versus_cache {
        columns.push(Column::new("", "vs cache"));
    }
    columns.extend([
        Column::new("", "workers"),
        Column::new("per item", "wakes"),
        Column::new("per item", "helps"),
        Column::new("", "CPU"),
    ]);
    let rows = report.results.iter().map(|result| {
        let mut row = names(result, both);
        let rate = result.items_per_s;
        row.extend([rate.median, rate.min, rate.max].map(grouped));
        if let Some(ratio) = result.ratio_to_cache {
            row.push(versus(ratio));
        }
        row.push(grouped(result.workers_created.median));
        row.push(format!("{:.3}", result.wakeups_per_item.median));
        row.push(format!("{:.3}", result.helps_per_item.median));
        row.push(format!("{:.0}%", result.cpu_percent.median));
        row
    });
    layout(&columns, rows.collect())
}

/// A ratio, marked where it is above 1 in one run and below in another.
fn versus(ratio: Spread) -> String {
    let mark = if ratio.min < 1.0 && ratio.max > 1.0 {
        "~"
    } else {
        ""
    };
    format!("{mark}{:.2}x", ratio.median)
}

fn latencies(report: &Report, both: bool) -> String {
    let mut columns = name_columns(both);
    for group in ["enqueue latency, ns", "round trip, ns"] {
        columns.extend(["p50", "p90", "p95", "p99"].map(|name| Column::new(group, name)));
    }
    let rows = report.results.iter().map(|result| {
        let mut row = names(result, both);
        for latency in [&result.enqueue_ns, &result.round_trip_ns] {
            row.extend(latency.percentiles().map(|spread| grouped(spread.median)));
        }
        row
    });
    layout(&columns, rows.collect())
}

fn protocols(report: &Report) -> String {
    let columns = [
        Column::new("deferred / under lock", "scope"),
        Column::new("items/s", "ratio"),
        Column::new("items/s", "min"),
        Column::new("items/s", "max"),
        Column::new("enqueue p95", "ratio"),
        Column::new("enqueue p95", "min"),
        Column::new("enqueue p95", "max"),
    ];
    let rows = report.wake_ratios.iter().map(|ratio| {
        let mut row = vec![ratio.label.clone()];
        for spread in [ratio.items_per_s, ratio.enqueue_p95] {
            row.extend([spread.median, spread.min, spread.max].map(|value| format!("{value:.3}")));
        }
        row
    });
    layout(&columns, rows.collect())
}

fn name_columns(both: bool) -> Vec<Column> {
    let mut columns = vec![Column::new("", "scope")];
    if both {
        columns.push(Column::new("", "wake-up"));
    }
    columns
}

fn names(result: &ConfigResult, both: bool) -> Vec<String> {
    let mut names = vec![result.label.clone()];
    if both {
        names.push(result.config.wake.words().to_owned());
    }
    names
}

struct Column {
    /// Neighbours with the same group share one heading.
    group: &'static str,
    name: &'static str,
}

impl Column {
    fn new(group: &'static str, name: &'static str) -> Self {
        Column { group, name }
    }

    /// Words are aligned to the left, figures to the right.
    fn align(&self, text: &str, width: usize) -> String {
        if matches!(self.name, "scope" | "wake-up") {
            format!("{text:<width$}")
        } else {
            format!("{text:>width$}")
        }
    }
}

/// Lays out a table with two blanks between columns and a line of group headings.
fn layout(columns: &[Column], rows: Vec<Vec<String>>) -> String {
    let width_of = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = columns.iter().map(|column| width_of(column.name)).collect();
    for row in &rows {
        debug_assert_eq!(row.len(), columns.len());
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(width_of(cell));
        }
    }
    let mut groups = String::new();
    let mut first = 0;
    while first < columns.len() {
        let group = columns[first].group;
        let same = columns[first..]
            .iter()
            .take_while(|c| c.group == group && !group.is_empty())
            .count()
            .max(1);
        let last = first + same - 1;
        let taken: usize = widths[first..last].iter().map(|width| width + 2).sum();
        widths[last] = widths[last].max(width_of(group).saturating_sub(taken));
        let span = taken + widths[last];
        if first > 0 {
            groups += "  ";
        }
        groups += &columns[first].align(group, span);
        first += same;
    }
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells
            .into_iter()
            .zip(columns.iter().zip(&widths))
            .map(|(cell, (column, &width))| column.align(cell, width))
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = String::new();
    if !groups.trim().is_empty() {
        text += groups.trim_end();
        text.push('\n');
    }
    text += &line(columns.iter().map(|column| column.name).collect());
    for row in &rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

/// A whole number with its thousands marked.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;

    #[test]
    fn thousands_are_marked() {
        assert_eq!(
            [0.0, 999.0, 1000.0, 1_234_567.6].map(grouped),
            ["0", "999", "1,000", "1,234,568"]
        );
    }

    #[test]
    fn columns_line_up_and_groups_stand_over_them() {
        let columns = [
            Column::new("", "scope"),
            Column::new("ns", "p50"),
            Column::new("ns", "p90"),
        ];
        let rows = vec![
            vec!["cpu".into(), "1".into(), "22".into()],
            vec!["cache_shard".into(), "10,000".into(), "3".into()],
        ];
        assert_eq!(
            layout(&columns, rows),
            "                      ns\nscope           p50  p90\ncpu               1   22\ncache_shard  10,000    3\n"
        );
    }

    #[test]
    fn a_group_wider_than_its_columns_widens_them() {
        let columns = [
            Column::new("", "scope"),
            Column::new("enqueue latency", "p50"),
        ];
        let text = layout(&columns, vec![vec!["cpu".into(), "1".into()]]);
        let widths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [22, 22, 22]);
    }

    #[test]
    fn a_plain_run_fits_eighty_columns_and_names_every_scope_twice() {
        let text = render(&sample(|_| ()));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for scope in ["cpu", "smt", "cache_shard", "cache", "numa", "system"] {
            assert_eq!(
                text.lines()
                    .filter(|line| line.split_whitespace().next() == Some(scope))
                    .count(),
                2
            );
        }
        assert!(text.contains("1.00x"));
    }

    #[test]
    fn a_ratio_that_the_runs_do_not_agree_on_is_marked() {
        let ratio = |min, max| {
            versus(Spread {
                median: 1.5,
                min,
                max,
            })
        };
        assert_eq!(ratio(0.9, 2.0), "~1.50x");
        assert_eq!(ratio(1.0, 2.0), "1.50x");
    }

    #[test]
    fn both_protocols_get_a_table_of_ratios() {
        let text = render(&sample(|o| o.wake_under_lock = true));
        assert!(text.contains("under lock") && text.contains("deferred / under lock"));
        assert!(!render(&sample(|_| ())).contains("under lock"));
    }

    #[test]
    fn the_head_says_what_was_used() {
        let text = head("A machine", 1, 12_000, true, 3, false);
        assert_eq!(
            text,
            "A machine\n1 issuer, 12,000 items each, 3 runs, non-strict\n\
             items: calibrated so that all ends within about 15 s; published: --items 50000\n"
        );
    }
}
