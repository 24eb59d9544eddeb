//! A page with plots, in one file: throughput over CPUs of a pod, latency curves, where the time of
//! an item goes.

use super::rows::{Row, Table};
use std::fmt::Write;

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>cmwq sim</title><style>\
:root{color-scheme:light dark;--ink:#222;--soft:#777;--grid:#ddd;--back:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#eee;--soft:#999;--grid:#333;--back:#181818}}\
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:62em;margin:2em auto;padding:0 1em}\
svg{width:100%;height:auto}text{fill:var(--ink);font-size:13px}.soft{fill:var(--soft)}line{stroke:var(--grid)}\
path{fill:none;stroke-width:2}table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.2em .7em;text-align:right}\
td:first-child,td:nth-child(2),th:first-child,th:nth-child(2){text-align:left}</style>";

const COLOURS: [&str; 8] = [
    "#3b7dd8", "#d9622b", "#2f9e5f", "#b0479a", "#b8901f", "#6a5acd", "#3aa6a6", "#a33",
];
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 80.0;
const FLOOR: f64 = HEIGHT - 45.0;

pub(super) fn render(table: &Table) -> String {
    let mut page = HEAD.to_owned();
    let title = format!(
        "{} on {}: {}, {} issuers, {} seeds from {}",
        table.engine, table.machine, table.load, table.issuers, table.seeds, table.seed
    );
    let _ = write!(
        page,
        "<h1>{}</h1><p>Simulated, in virtual time. No figure here was measured on that machine.</p>",
        escape(&title)
    );
    if !table.assumed.is_empty() {
        let assumed = escape(&table.assumed.join("; "));
        let _ = write!(page, "<p>Assumed of the machine: {assumed}.</p>");
    }
    let _ = write!(
        page,
        "<h2>Throughput over CPUs of a pod</h2>{}",
        throughput(table)
    );
    let _ = write!(page, "<h2>Enqueue latency</h2>{}", latencies(table));
    let _ = write!(
        page,
        "<h2>Where the time of an item goes</h2>{}",
        accounts(table)
    );
    page + "</html>\n"
}

/// A dot for each row.
fn throughput(table: &Table) -> String {
    let most = |of: fn(&Row) -> f64| table.rows.iter().map(of).fold(1.0, f64::max);
    let (rate, cpus) = (most(|row| row.items_per_s), most(|row| row.cpus_per_pod));
    let mut svg = open("items per second over CPUs of a pod");
    axes(&mut svg, rate, "items/s", "CPUs of a pod");
    let decades = cpus.log2().max(1.0);
    let x = |cpus: f64| LEFT + (WIDTH - LEFT - 110.0) * cpus.max(1.0).log2() / decades;
    let mut tick = 1.0;
    while tick <= cpus {
        let at = x(tick);
        let _ = write!(
            svg,
            "<text class=\"soft\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            FLOOR + 18.0
        );
        tick *= 2.0;
    }
    for (number, row) in table.rows.iter().enumerate() {
        let (at, y) = (x(row.cpus_per_pod), height(row.items_per_s, rate));
        let label = label(row);
        let _ = write!(
            svg,
            "<circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{}\"><title>{label}: {:.0} items/s</title></circle>\
             <text x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
            colour(number),
            row.items_per_s,
            at + 9.0,
            y - 6.0
        );
    }
    svg + "</svg>"
}

/// A curve for each row: percentiles 0 to 99.
fn latencies(table: &Table) -> String {
    let all = table.rows.iter().flat_map(|row| &row.curve);
    let most = all.max().copied().unwrap_or(1).max(1) as f64;
    let mut svg = open("enqueue latency by percentile");
    axes(&mut svg, most, "ns", "percentile");
    let x = |p: usize| LEFT + (WIDTH - LEFT - 110.0) * p as f64 / 99.0;
    for p in [0, 25, 50, 75, 90, 99] {
        let _ = write!(
            svg,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{p}</text>",
            x(p),
            FLOOR + 18.0
        );
    }
    for (number, row) in table.rows.iter().enumerate() {
        let points = row.curve.iter().enumerate();
        let path: Vec<String> = points
            .map(|(p, &ns)| format!("{:.1} {:.1}", x(p), height(ns as f64, most)))
            .collect();
        let last = row.curve.last().copied().unwrap_or(0) as f64;
        let _ = write!(
            svg,
            "<path d=\"M{}\" stroke=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            path.join("L"),
            colour(number),
            x(99) + 6.0,
            height(last, most) + 4.0,
            label(row)
        );
    }
    svg + "</svg>"
}

fn accounts(table: &Table) -> String {
    let mut text = "<table><tr><th>engine<th>scope<th>pods<th>items/s<th>busy ns<th>line transfers<th>waits for lines, ns<th>waits for locks, ns<th>wake-ups<th>switches".to_owned();
    for row in &table.rows {
        let item = &row.item;
        let lock = item
            .lock_wait_ns
            .map_or("–".to_owned(), |ns| format!("{ns:.0}"));
        let _ = write!(
            text,
            "<tr><td>{}<td>{}<td>{}<td>{:.0}<td>{:.0}<td>{:.1}<td>{:.0}<td>{lock}<td>{:.2}<td>{:.2}",
            row.engine,
            label(row),
            row.pods,
            row.items_per_s,
            item.busy_ns,
            item.line_transfers,
            item.line_wait_ns,
            item.wakeups,
            item.switches
        );
    }
    text + "</table><p>For each item, all CPUs together.</p>"
}

fn label(row: &Row) -> String {
    match row.scope {
        "cache_shard" => format!("{} {}", row.scope, row.shard_size),
        scope => scope.to_owned(),
    }
}

fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

fn height(value: f64, most: f64) -> f64 {
    FLOOR - (FLOOR - 15.0) * value / most
}

fn open(title: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH:.0} {HEIGHT:.0}\" role=\"img\" aria-label=\"{title}\">")
}

fn axes(svg: &mut String, most: f64, unit: &str, below: &str) {
    for quarter in 0..=4 {
        let value = most * f64::from(quarter) / 4.0;
        let y = height(value, most);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"soft\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>",
            WIDTH - 110.0,
            LEFT - 6.0,
            y + 4.0
        );
    }
    let _ = write!(
        svg,
        "<text class=\"soft\" x=\"4\" y=\"12\">{unit}</text><text class=\"soft\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{below}</text>",
        WIDTH / 2.0,
        HEIGHT - 6.0
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
