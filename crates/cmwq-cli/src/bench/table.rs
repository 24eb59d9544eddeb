//! `--format text`: what a person reads in a terminal.

use super::host::count;
use super::interval::{LEAST_RUNS, Ratio};
use super::pace::LEAST_ITEMS;
use super::report::{ConfigResult, Report};

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
        text += match items <= LEAST_ITEMS {
            true => "items: calibrated; so few, so many runs may still take more than 15 s",
            false => "items: calibrated so that all ends within about 15 s",
        };
        text += "; published: --items 50000\n";
    }
    text
}

/// The tables: throughput, cost, latencies.
pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    for table in [throughput, costs, latencies] {
        text += &table(report);
        text.push('\n');
    }
    text += "Every figure is the median over the runs";
    if report.settings.runs > 1 {
        text += "; min, max: the slowest and the fastest";
    }
    text += ".\n";
    text += &legend(report);
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

/// What the columns of ratios say.
fn legend(report: &Report) -> String {
    let compared = |r: &ConfigResult| r.ratio_to_cache.is_some() && !r.is_reference();
    let versus_cache = report.measured().any(compared);
    let mut text = String::new();
    if !versus_cache {
        return text;
    }
    text += "vs cache: items/s divided by those of cache, run by run.\n";
    if report.settings.runs < LEAST_RUNS {
        text += &format!(
            "?: too few runs to tell a ratio from noise; it takes --runs {LEAST_RUNS} or more.\n"
        );
    } else {
        text += "99 % interval: of the median ratio, by order statistics; ~: it contains 1, so\n\
                 the runs cannot tell which is faster.\n";
    }
    text
}

fn throughput(report: &Report) -> String {
    let versus_cache = report.results.iter().any(|r| r.ratio_to_cache.is_some());
    let mut columns = vec![Column::new("", "scope")];
    columns.extend(["median", "min", "max"].map(|name| Column::new("items/s", name)));
    if versus_cache {
        columns.extend(["ratio", "99 % interval"].map(|name| Column::new("vs cache", name)));
    }
    let rows = report.results.iter().map(|result| {
        let names = vec![result.label.clone()];
        if let Some(other) = &result.same_pods_as {
            return Row::Remark(names, format!("same pods as {other}"));
        }
        let mut row = names;
        let rate = result.items_per_s;
        row.extend([rate.median, rate.min, rate.max].map(grouped));
        if let Some(ratio) = result.ratio_to_cache {
            let (ratio, interval) = versus(result, ratio);
            row.extend([ratio, interval]);
        }
        Row::Cells(row)
    });
    layout(&columns, rows.collect())
}

/// The ratio to cache and its interval. Cache itself has none.
fn versus(result: &ConfigResult, ratio: Ratio) -> (String, String) {
    if result.is_reference() {
        ("1".to_owned(), String::new())
    } else {
        ratio.words("x")
    }
}

fn costs(report: &Report) -> String {
    let mut columns = vec![Column::new("", "scope")];
    columns.extend([
        Column::new("", "pods"),
        Column::new("", "workers"),
        Column::new("per item", "wakes"),
        Column::new("per item", "stolen"),
        Column::new("", "CPU"),
    ]);
    let rows = report.measured().map(|result| {
        let mut row = vec![result.label.clone()];
        row.push(result.pods.to_string());
        row.push(grouped(result.workers_created.median));
        row.push(format!("{:.3}", result.wakeups_per_item.median));
        row.push(format!("{:.3}", result.stolen_per_item.median));
        row.push(format!("{:.0}%", result.cpu_percent.median));
        Row::Cells(row)
    });
    layout(&columns, rows.collect())
}

fn latencies(report: &Report) -> String {
    let mut columns = vec![Column::new("", "scope")];
    for group in ["enqueue latency, ns", "round trip, ns"] {
        columns.extend(["p50", "p90", "p95", "p99"].map(|name| Column::new(group, name)));
    }
    let rows = report.measured().map(|result| {
        let mut row = vec![result.label.clone()];
        for latency in [&result.enqueue_ns, &result.round_trip_ns] {
            row.extend(latency.percentiles().map(|spread| grouped(spread.median)));
        }
        Row::Cells(row)
    });
    layout(&columns, rows.collect())
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
        if self.name == "scope" {
            format!("{text:<width$}")
        } else {
            format!("{text:>width$}")
        }
    }
}

/// A line of a table.
enum Row {
    /// A cell for each column.
    Cells(Vec<String>),
    /// Cells for the first columns, and words where the figures would be.
    Remark(Vec<String>, String),
}

/// Lays out a table with two blanks between columns and a line of group headings.
fn layout(columns: &[Column], rows: Vec<Row>) -> String {
    let width_of = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = columns.iter().map(|column| width_of(column.name)).collect();
    for row in &rows {
        let (Row::Cells(cells) | Row::Remark(cells, _)) = row;
        for (width, cell) in widths.iter_mut().zip(cells) {
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
    let line = |cells: Vec<&str>, remark: Option<&str>| {
        let padded = cells
            .into_iter()
            .zip(columns.iter().zip(&widths))
            .map(|(cell, (column, &width))| column.align(cell, width));
        let words: Vec<String> = padded.chain(remark.map(str::to_owned)).collect();
        words.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = String::new();
    if !groups.trim().is_empty() {
        text += groups.trim_end();
        text.push('\n');
    }
    text += &line(columns.iter().map(|column| column.name).collect(), None);
    for row in &rows {
        let (cells, remark) = match row {
            Row::Cells(cells) => (cells, None),
            Row::Remark(cells, remark) => (cells, Some(remark.as_str())),
        };
        text += &line(cells.iter().map(String::as_str).collect(), remark);
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
    use crate::bench::report::tests::{sample, sample_on};

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
            Row::Cells(vec!["cpu".into(), "1".into(), "22".into()]),
            Row::Cells(vec!["cache_shard".into(), "10,000".into(), "3".into()]),
            Row::Remark(
                vec!["numa".into()],
                "as another, which has more to say".into(),
            ),
        ];
        assert_eq!(
            layout(&columns, rows),
            "                      ns\nscope           p50  p90\ncpu               1   22\ncache_shard  10,000    3\n\
             numa         as another, which has more to say\n"
        );
    }

    #[test]
    fn a_group_wider_than_its_columns_widens_them() {
        let columns = [
            Column::new("", "scope"),
            Column::new("enqueue latency", "p50"),
        ];
        let text = layout(&columns, vec![Row::Cells(vec!["cpu".into(), "1".into()])]);
        let widths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [22, 22, 22]);
    }

    /// The lines that begin with a scope's name.
    fn lines_of<'a>(text: &'a str, scope: &str) -> Vec<&'a str> {
        let is_of = |line: &&str| line.split_whitespace().next() == Some(scope);
        text.lines().filter(is_of).collect()
    }

    #[test]
    fn every_line_fits_eighty_columns() {
        for text in [
            render(&sample(|_| ())),
            render(&sample(|o| o.runs = 3)),
            render(&sample_on("l3:1 core:2 pu:1", |_| ())),
        ] {
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn every_scope_that_differs_is_in_every_table_with_its_ratio() {
        let text = render(&sample(|_| ()));
        for scope in ["cpu", "smt", "cache_shard", "cache", "numa", "system"] {
            let lines = lines_of(&text, scope);
            assert_eq!(lines.len(), 3, "{scope} in {text}");
            assert_eq!(lines[0].contains('x'), scope != "cache", "{}", lines[0]);
        }
        assert!(
            lines_of(&text, "cpu")[0].ends_with("0.26x      0.25-0.26"),
            "{text}"
        );
        assert!(text.contains("contains 1"));
    }

    #[test]
    fn scopes_with_the_same_pods_have_one_line_that_says_so_and_no_figure() {
        let text = render(&sample_on("l3:1 core:2 pu:1", |_| ()));
        assert_eq!(lines_of(&text, "numa"), ["numa         same pods as cache"]);
        assert_eq!(lines_of(&text, "smt"), ["smt          same pods as cpu"]);
        assert_eq!(lines_of(&text, "cache").len(), 3);
    }

    #[test]
    fn what_the_runs_cannot_tell_has_no_ratio() {
        let mut report = sample(|_| ());
        let numa = report
            .results
            .iter_mut()
            .find(|r| r.scope == "numa")
            .unwrap();
        let rates = [1.0, 1.1, 0.9, 1.2, 0.8, 1.0, 1.3, 0.7, 1.0];
        numa.ratio_to_cache = Some(Ratio::of(&rates, &[1.0; 9]));
        let text = render(&report);
        let line = lines_of(&text, "numa")[0];
        assert!(line.ends_with("      ~      0.70-1.30"), "{line}");
    }

    #[test]
    fn runs_that_are_too_few_give_no_ratio_and_say_how_many_would() {
        let text = render(&sample(|o| o.runs = 3));
        let line = lines_of(&text, "cpu")[0];
        assert!(line.ends_with('?'), "{line}");
        assert!(text.contains("--runs 8 or more"), "{text}");
        let nothing = render(&sample(|o| o.scopes.truncate(1)));
        assert!(!nothing.contains("interval") && !nothing.contains("vs cache"));
    }

    #[test]
    fn the_head_says_what_was_used() {
        let text = head("A machine", 1, 12_000, true, 3, false);
        assert_eq!(
            text,
            "A machine\n1 issuer, 12,000 items each, 3 runs, non-strict\n\
             items: calibrated so that all ends within about 15 s; published: --items 50000\n"
        );
        let text = head("A machine", 1, LEAST_ITEMS, true, 9_999, false);
        let said =
            "items: calibrated; so few, so many runs may still take more than 15 s; published";
        assert!(text.lines().any(|line| line.starts_with(said)), "{text}");
    }
}
