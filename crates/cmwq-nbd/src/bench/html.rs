//! The report as one page that needs nothing else, in light and dark.

use std::fmt::Write;

use crate::bench::report::{Outcome, Report, Run, Spread, Table};
use crate::bench::text::{delta, plus_minus};

const STYLE: &str = include_str!("page.css");
/// One of a run's figures.
type Figure = fn(&Run) -> f64;

const WIDTH: f64 = 460.0;
const ROW: f64 = 24.0;
const LABELS: f64 = 140.0;
const VALUES: f64 = 64.0;

/// The whole page.
pub(super) fn render(report: &Report) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>cmwq-nbd bench</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"kicker\">cmwq-nbd bench</p>\n\
         <h1>Block device over NBD, by affinity scope and beside other servers</h1>\n<p>{}</p>\n\
         <p>{} MiB of disk in memory, {} × {} s each, in turns. Bars: medians; whiskers: least and greatest run.</p>\n",
        escape(&report.machine),
        report.size >> 20,
        report.runs,
        report.runtime_s
    );
    for line in report.same_pods_lines() {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(&line));
    }
    for line in &report.left_out {
        let _ = writeln!(page, "<p class=\"note\">Left out: {}</p>", escape(line));
    }
    page += "</header>\n";
    for table in &report.tables {
        section(&mut page, table);
    }
    page += "</main>\n</body>\n</html>\n";
    page
}

fn section(page: &mut String, table: &Table) {
    let _ = writeln!(
        page,
        "<section>\n<h2>Scenario {}: {}</h2>\n<div class=\"charts\">",
        escape(table.scenario),
        escape(&table.title)
    );
    let charts: [(&str, Figure, usize); 3] = [
        ("Bandwidth, MiB/s", |run| run.mib_per_s, 0),
        (
            "CPU time of the server, s per GiB",
            |run| run.server_cpu_s_per_gib,
            2,
        ),
        ("Completion latency, p99, ms", |run| run.p99_ms, 1),
    ];
    for (title, figure, digits) in charts {
        let _ = writeln!(page, "<figure><figcaption>{title}</figcaption>");
        *page += &bars(title, table, figure, digits);
        *page += "</figure>\n";
    }
    *page += "</div>\n<div class=\"scroll\"><table>\n<tr><th></th><th></th><th>MiB/s</th>";
    let first = &table.outcomes[0];
    let _ = writeln!(
        page,
        "<th>vs {}</th><th>IOPS</th><th>CPU used</th><th>server CPU, s/GiB</th><th>p50, ms</th><th>p99, ms</th></tr>",
        escape(&first.subject)
    );
    for outcome in &table.outcomes {
        row(page, outcome, first);
    }
    *page += "</table></div>\n</section>\n";
}

fn row(page: &mut String, outcome: &Outcome, first: &Outcome) {
    let figure = |f: Figure, digits, unit| plus_minus(outcome.spread(f), digits, unit);
    let _ = writeln!(
        page,
        "<tr><th>{}</th><td class=\"kind\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        escape(&outcome.subject),
        escape(outcome.kind),
        figure(|run| run.mib_per_s, 1, ""),
        delta(outcome, first),
        figure(|run| run.iops, 0, ""),
        figure(|run| run.cpu_percent, 1, "%"),
        figure(|run| run.server_cpu_s_per_gib, 2, ""),
        figure(|run| run.p50_ms, 2, ""),
        figure(|run| run.p99_ms, 2, ""),
    );
}

/// Horizontal bars from zero.
fn bars(title: &str, table: &Table, figure: Figure, digits: usize) -> String {
    let spreads: Vec<(&Outcome, Spread)> = table
        .outcomes
        .iter()
        .filter_map(|outcome| Some((outcome, outcome.spread(figure)?)))
        .collect();
    let greatest = spreads
        .iter()
        .map(|(_, spread)| spread.max)
        .fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LABELS + (WIDTH - LABELS - VALUES) * value / greatest;
    let height = ROW * spreads.len() as f64;
    let mut svg = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
        escape(title)
    );
    for (row, (outcome, spread)) in spreads.iter().enumerate() {
        let middle = ROW * (row as f64 + 0.5);
        let class = match outcome.kind {
            kind if kind.starts_with("peer") => "peer",
            kind if kind.ends_with("not encrypted") => "plain",
            _ => "ours",
        };
        let _ = write!(
            svg,
            r#"<text class="name" x="{:.1}" y="{:.1}" text-anchor="end">{}</text><rect class="{class}" x="{LABELS}" y="{:.1}" width="{:.1}" height="14" rx="2"/>"#,
            LABELS - 8.0,
            middle + 4.0,
            escape(&outcome.subject),
            middle - 7.0,
            x(spread.median) - LABELS,
        );
        let _ = write!(
            svg,
            r#"<path class="whisker" d="M{:.1} {middle:.1}H{:.1}"/><text class="value" x="{:.1}" y="{:.1}">{:.digits$}</text>"#,
            x(spread.min),
            x(spread.max),
            x(spread.max) + 6.0,
            middle + 4.0,
            spread.median
        );
    }
    svg + "</svg>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
