//! The heat maps, as one file.

use super::super::args::placement_name;
use super::judge::{Judged, Means};
use super::plan::Matrix;
use std::fmt::Write;

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>cmwq sim --matrix</title><style>\
:root{color-scheme:light dark;--ink:#222;--soft:#777;--back:#fff;--line:#ddd}\
@media(prefers-color-scheme:dark){:root{--ink:#eee;--soft:#999;--back:#181818;--line:#333}}\
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:2em auto;padding:0 1em;max-width:90em}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1em 0}td,th{padding:.25em .55em;text-align:right;border:1px solid var(--line)}\
th:first-child,td:first-child{text-align:left}.c{color:#111}.s{color:var(--soft)}div{overflow-x:auto}</style>";

/// A heat map: what a cell shows, and how good that is, from 0 (red) to 1 (green).
struct Map {
    title: &'static str,
    about: &'static str,
    cell: fn(&Judged) -> Option<(String, f64)>,
}

const MAPS: [Map; 6] = [
    Map {
        title: "The default against the best scope and shard size",
        about: "The default is cache_shard with 8 cores. 1.00: no other setting is better. Below 0.90 is red.",
        cell: |one| {
            one.to_best
                .map(|to| (format!("{to:.2}"), grade(to, 0.8, 1.0)))
        },
    },
    Map {
        title: "The default against what the CPUs bear",
        about: "The bound assumes that queueing and waking take no time; items without a length have none.",
        cell: |one| {
            one.to_bound
                .map(|to| (format!("{to:.2}"), grade(to, 0.3, 0.95)))
        },
    },
    Map {
        title: "Against the same machine with half of its CPUs",
        about: "Below 1.00 more CPUs are slower. Loads that do not need the CPUs stay at 1.",
        cell: |one| {
            one.to_half
                .map(|to| (format!("{to:.2}"), grade(to, 0.8, 1.0)))
        },
    },
    Map {
        title: "Wake-ups for each item",
        about: "Each costs some microseconds of CPU time.",
        cell: |one| {
            let wakeups = one.default.wakeups;
            Some((format!("{wakeups:.2}"), grade(1.0 - wakeups, 0.0, 0.95)))
        },
    },
    Map {
        title: "CPU time for each item, in µs",
        about: "Of all threads; coloured by how much of it the item itself computes, where it does.",
        cell: |one| {
            let us = one.default.busy_ns / 1e3;
            let text = if us < 10.0 {
                format!("{us:.2}")
            } else {
                format!("{us:.0}")
            };
            Some((text, f64::NAN))
        },
    },
    Map {
        title: "Median time from queueing to the end, in µs",
        about: "Of a burst or a join: to the end of its last item.",
        cell: |one| {
            let us = one.default.done_p50_ns as f64 / 1e3;
            let text = if us < 100.0 {
                format!("{us:.1}")
            } else {
                format!("{us:.0}")
            };
            (us > 0.0).then_some((text, f64::NAN))
        },
    },
];

/// 0 at `bad` and below, 1 at `good` and above.
fn grade(value: f64, bad: f64, good: f64) -> f64 {
    ((value - bad) / (good - bad)).clamp(0.0, 1.0)
}

pub(super) fn render(matrix: &Matrix, judged: &[Judged]) -> String {
    let mut page = HEAD.to_owned();
    let steady = judged.iter().filter(|one| one.default.is_steady).count();
    let _ = write!(
        page,
        "<h1>Everyday loads on machines of 2 to 176 CPUs</h1><p>Simulated, in virtual time: no figure \
         here was measured on these machines. {}; woken threads go to {}. \
         {steady} of {} defaults are steady (the last two time windows agree within 5 % with every \
         seed); the others are marked ~. Loads that pause, or whose rate is given, are compared by \
         their median time to the end, others by items a second. Point at a cell of the first map for the figures of all settings.</p>",
        seeds(matrix.seed, matrix.seeds),
        match placement_name(matrix.placement) {
            "waker" => "their waker's CPU",
            _ => "idle CPUs first",
        },
        judged.len()
    );
    for (number, map) in MAPS.iter().enumerate() {
        let _ = write!(
            page,
            "<h2>{}</h2><p>{}</p>{}",
            map.title,
            map.about,
            table(matrix, judged, map, number == 0)
        );
    }
    page + "</html>\n"
}

/// Which seeds a figure is of, in words.
fn seeds(first: u64, count: u64) -> String {
    match count {
        1 => format!("Each figure is that of one seed, {first}"),
        _ => format!(
            "Each figure is the mean of {count} seeds, {first} to {}",
            first + count - 1
        ),
    }
}

fn table(matrix: &Matrix, judged: &[Judged], map: &Map, has_details: bool) -> String {
    let mut text = "<div><table><tr><th>load".to_owned();
    for machine in &matrix.machines {
        let _ = write!(text, "<th>{}", escape(&machine.name));
    }
    for (load, _) in &matrix.loads {
        let _ = write!(text, "<tr><td>{}", escape(load));
        for machine in &matrix.machines {
            let one = judged
                .iter()
                .find(|one| one.machine == machine.name && one.load == *load);
            text += &cell(one, map, has_details);
        }
    }
    text + "</table></div>"
}

fn cell(one: Option<&Judged>, map: &Map, has_details: bool) -> String {
    let shown = one.and_then(|one| (map.cell)(one).map(|(text, grade)| (one, text, grade)));
    let Some((one, text, grade)) = shown else {
        return "<td class=\"s\">–".to_owned();
    };
    let mark = if one.default.is_steady { "" } else { "~" };
    let style = match grade.is_nan() {
        true => String::new(),
        // From red over yellow to green.
        false => format!(
            " class=\"c\" style=\"background:hsl({:.0} 75% 72%)\"",
            grade * 120.0
        ),
    };
    let title = match has_details {
        true => format!(" title=\"{}\"", escape(&details(one))),
        false => String::new(),
    };
    format!("<td{style}{title}>{mark}{text}")
}

/// What one reads when pointing at a cell.
fn details(one: &Judged) -> String {
    let mut text = format!("{}, {}\n", one.machine, one.load);
    for means in &one.settings {
        let _ = writeln!(text, "{}", line(means));
    }
    text
}

fn line(means: &Means) -> String {
    format!(
        "{} ({} pods): {:.0} items/s, done p50 {} p99 {} ns, start p99 {} ns, {:.2} wakes, {:.0} ns CPU, {:.1} lines, spread {:.2}, {:.1} ms{}",
        means.setting,
        means.pods,
        means.items_per_s,
        means.done_p50_ns,
        means.done_p99_ns,
        means.start_p99_ns,
        means.wakeups,
        means.busy_ns,
        means.line_transfers,
        means.spread,
        means.measured_ns as f64 / 1e6,
        if means.is_steady { "" } else { ", not steady" }
    )
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::seeds;

    #[test]
    fn one_seed_is_no_mean() {
        assert_eq!(seeds(3, 1), "Each figure is that of one seed, 3");
        assert_eq!(seeds(3, 2), "Each figure is the mean of 2 seeds, 3 to 4");
    }
}
