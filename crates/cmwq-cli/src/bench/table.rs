//! `--format text`: what a person reads in a terminal.

use super::host::count;
use super::interval::{LEAST_RUNS, Ratio};
use super::pace::LEAST_ITEMS;
use super::report::{ConfigResult, Report};
use cmwq_command::figures::{Column, Row, grouped, layout};

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
            true => "number of items: the least; so many runs may still take more than 15 s",
            false => "number of items: chosen so that all runs together take about 15 s",
        };
        text += "; the published runs had --items 50000\n";
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
    let mut columns = vec![Column::words("scope")];
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
    layout(&columns, &rows.collect::<Vec<_>>())
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
    let mut columns = vec![Column::words("scope")];
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
    layout(&columns, &rows.collect::<Vec<_>>())
}

fn latencies(report: &Report) -> String {
    let mut columns = vec![Column::words("scope")];
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
    layout(&columns, &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{sample, sample_on};

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
             number of items: chosen so that all runs together take about 15 s; the published runs had --items 50000\n"
        );
        let text = head("A machine", 1, LEAST_ITEMS, true, 9_999, false);
        let said =
            "number of items: the least; so many runs may still take more than 15 s; the published";
        assert!(text.lines().any(|line| line.starts_with(said)), "{text}");
    }
}
