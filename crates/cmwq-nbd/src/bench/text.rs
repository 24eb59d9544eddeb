//! The report as text, in the layout of the published tables.

use std::fmt::Write;

use crate::bench::report::{Outcome, Report, Spread, Table};

/// All tables.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!(
        "{}\n{} MiB of disk, {} of {} s each, in turns\n",
        report.machine,
        report.size >> 20,
        if report.runs == 1 {
            "1 run".to_owned()
        } else {
            format!("{} runs", report.runs)
        },
        report.runtime_s
    );
    for line in report.same_pods_lines() {
        let _ = writeln!(text, "{line}");
    }
    for line in &report.left_out {
        let _ = writeln!(text, "left out: {line}");
    }
    for table in &report.tables {
        let _ = write!(text, "\nScenario {}: {}\n", table.scenario, table.title);
        text += &table_text(table);
    }
    text
}

fn table_text(table: &Table) -> String {
    let first = &table.outcomes[0];
    let width = table
        .outcomes
        .iter()
        .map(|outcome| outcome.subject.len())
        .max()
        .unwrap_or(0);
    let mut text = format!(
        "{:width$}  {:>18}  {:>18}  {:>9}  {:>14}  {:>10}  {:>8}  {:>8}\n",
        "",
        "MiB/s",
        format!("vs {}", first.subject),
        "IOPS",
        "CPU used",
        "server CPU",
        "p50",
        "p99"
    );
    let mut kind = "";
    for outcome in &table.outcomes {
        if outcome.kind != kind {
            kind = outcome.kind;
            let _ = writeln!(text, "{kind}");
        }
        let figure = |f: fn(&crate::bench::report::Run) -> f64| outcome.spread(f);
        let median = |spread: Option<Spread>| spread.map_or(f64::NAN, |spread| spread.median);
        let _ = writeln!(
            text,
            "{:width$}  {:>18}  {:>18}  {:>9.0}  {:>14}  {:>6.2} s/GiB  {:>5.1} ms  {:>5.1} ms",
            outcome.subject,
            plus_minus(figure(|run| run.mib_per_s), 1, ""),
            delta(outcome, first),
            median(figure(|run| run.iops)),
            plus_minus(figure(|run| run.cpu_percent), 1, "%"),
            median(figure(|run| run.server_cpu_s_per_gib)),
            median(figure(|run| run.p50_ms)),
            median(figure(|run| run.p99_ms)),
        );
    }
    text
}

/// Median and standard deviation, as the published tables have them.
pub(super) fn plus_minus(spread: Option<Spread>, digits: usize, unit: &str) -> String {
    spread.map_or_else(String::new, |spread| {
        let deviation = deviation(spread, digits);
        format!("{:.digits$}{unit}{deviation}", spread.median)
    })
}

/// Nothing of a single run.
fn deviation(spread: Spread, digits: usize) -> String {
    let text = |stddev| format!(" ±{stddev:.digits$}");
    spread.stddev.map_or_else(String::new, text)
}

/// Against the first, run by run; a `~` where the runs disagree on which is faster.
pub(super) fn delta(outcome: &Outcome, first: &Outcome) -> String {
    if std::ptr::eq(outcome, first) {
        return String::new();
    }
    outcome.against(first).map_or_else(String::new, |delta| {
        let disagree = delta.min < 0.0 && delta.max > 0.0;
        format!(
            "{}{:+.1}%{}",
            if disagree { "~" } else { "" },
            delta.median,
            deviation(delta, 1)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_run_has_no_deviation() {
        assert_eq!(plus_minus(Spread::of(&[2.0]), 1, "%"), "2.0%");
        assert_eq!(plus_minus(Spread::of(&[1.0, 3.0]), 1, ""), "2.0 ±1.4");
    }
}
