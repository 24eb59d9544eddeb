//! `--html FILE`: one page that needs nothing but itself, in light and dark.

use crate::metrics::{Metric, metrics};
use crate::results::{Entry, Results, Row, is_other_shape, waiter_helps};
use crate::text::{figure, floor, ratio, title};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// The whole page.
/// `notes` stand at its end, as they are.
pub(crate) fn render(results: &Results, notes: &str) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>cmwq and its peers</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>cmwq and its peers</h1>\n<p>{}, {} CPUs, {}. {} runs of {} ms each, peers in turns; bars are medians, \
         whiskers go from the least to the greatest. Blue: cmwq. Pale: another discipline or shape, not compared with all \
         (the waiting thread may run the item itself, or issuers are not pinned).</p>\n</header>\n",
        escape(&results.machine),
        results.cpus,
        escape(&results.date),
        results.runs,
        results.time_ms
    );
    if let Some(line) = floor(results) {
        let _ = writeln!(page, "<section>\n<p>{}</p>\n</section>", escape(&line));
    }
    for row in &results.rows {
        section(&mut page, row);
    }
    comparisons(&mut page, results);
    if !notes.is_empty() {
        let _ = writeln!(page, "<section>\n<pre>{}</pre>\n</section>", escape(notes));
    }
    versions(&mut page, results);
    page += "</main>\n</body>\n</html>\n";
    page
}

fn section(page: &mut String, row: &Row) {
    let metrics = metrics(&row.lap);
    let _ = write!(
        page,
        "<section>\n<h2>{}</h2>\n<p>{}; {} is better</p>\n<div class=\"scroll\">",
        escape(&title(row)),
        metrics[0].name,
        if metrics[0].more_is_better {
            "more"
        } else {
            "less"
        }
    );
    bars(page, row, metrics[0]);
    page.push_str(
        "</div>\n<details>\n<summary>All figures</summary>\n<div class=\"scroll\"><table>\n<tr>",
    );
    page.push_str("<th class=\"words\">peer</th><th class=\"words\">mode</th>");
    for metric in &metrics {
        let _ = write!(page, "<th>{}</th>", escape(metric.name));
    }
    page.push_str("</tr>\n");
    for entry in row.ranked() {
        let _ = write!(
            page,
            "<tr{}><td class=\"words\">{}</td><td class=\"words\">{}</td>",
            if entry.is_cmwq() {
                " class=\"ours\""
            } else {
                ""
            },
            escape(&entry.peer),
            escape(&entry.mode)
        );
        for metric in &metrics {
            let text = entry.spread(metric.key).map_or("–".to_owned(), |spread| {
                figure(spread.median, metric.unit)
            });
            let _ = write!(page, "<td>{}</td>", escape(&text));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n</details>\n</section>\n");
}

/// Horizontal bars from zero.
fn bars(page: &mut String, row: &Row, metric: &Metric) {
    const WIDTH: f64 = 960.0;
    const LEFT: f64 = 240.0;
    const RIGHT: f64 = 120.0;
    const STEP: f64 = 24.0;
    const THICK: f64 = 14.0;
    let entries: Vec<_> = row
        .ranked()
        .into_iter()
        .filter_map(|entry| Some((entry, entry.spread(metric.key)?)))
        .collect();
    // Those that are not compared may go beyond the edge: they must not make all others invisible.
    let compared = entries.iter().filter(|(entry, _)| !is_aside(entry));
    let greatest = compared.map(|(_, spread)| spread.max).fold(0.0, f64::max);
    let greatest = if greatest > 0.0 { greatest } else { 1.0 };
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * (value / greatest).min(1.0);
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
        STEP * entries.len() as f64,
        escape(&title(row))
    );
    for (line, (entry, spread)) in entries.iter().enumerate() {
        let middle = STEP * (line as f64 + 0.5);
        let class = match entry {
            entry if entry.is_cmwq() => "cmwq",
            entry if is_aside(entry) => "aside",
            _ => "peer",
        };
        let beyond = if spread.median > greatest { " →" } else { "" };
        let _ = write!(
            page,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} <tspan class=\"soft\">{}</tspan></text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{THICK}\"/>",
            LEFT - 10.0,
            middle + 4.5,
            escape(&entry.peer),
            escape(&entry.mode),
            middle - THICK / 2.0,
            (x(spread.median) - LEFT).max(1.0)
        );
        if spread.max > spread.min && spread.max <= greatest {
            let _ = write!(
                page,
                "<path class=\"whisker\" d=\"M{:.1} {middle:.1}H{:.1}\"/>",
                x(spread.min),
                x(spread.max)
            );
        }
        let _ = write!(
            page,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}{beyond}</text>",
            x(spread.max) + 8.0,
            middle + 4.5,
            escape(&figure(spread.median, metric.unit))
        );
    }
    page.push_str("</svg>");
}

fn is_aside(entry: &Entry) -> bool {
    !entry.is_cmwq() && (waiter_helps(&entry.mode) || is_other_shape(&entry.mode))
}

fn comparisons(page: &mut String, results: &Results) {
    page.push_str(
        "<section>\n<h2>cmwq against the best peer of each row</h2>\n<p>Above 1: cmwq is that many times better.</p>\n\
         <div class=\"scroll\"><table>\n<tr><th class=\"words\">loop</th><th>issuers</th><th class=\"words\">cmwq</th>\
         <th class=\"words\">figure</th><th class=\"words\">against those whose</th><th class=\"words\">best peer</th>\
         <th>ratio</th></tr>\n",
    );
    for comparison in &results.comparisons {
        let class = if comparison.ratio >= 1.0 {
            "good"
        } else {
            "bad"
        };
        let _ = writeln!(
            page,
            "<tr><td class=\"words\">{}</td><td>{}</td><td class=\"words\">{}</td><td class=\"words\">{}</td>\
             <td class=\"words\">{}</td><td class=\"words\">{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&comparison.load()),
            comparison.issuers,
            escape(&comparison.mode),
            escape(&comparison.metric),
            comparison.against,
            escape(&comparison.best_peer),
            ratio(comparison.ratio)
        );
    }
    page.push_str("</table></div>\n</section>\n");
}

/// What was compared, and what was missing.
fn versions(page: &mut String, results: &Results) {
    let mut versions: Vec<&str> = results
        .rows
        .iter()
        .flat_map(|row| row.entries.iter().map(|entry| entry.version.as_str()))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    let _ = write!(
        page,
        "<section>\n<h2>Versions</h2>\n<p>{}</p>\n",
        escape(&versions.join(" · "))
    );
    for line in &results.missing {
        let _ = writeln!(page, "<p>Missing: {}</p>", escape(line));
    }
    page.push_str("</section>\n");
}

/// Text that is safe between tags and in double-quoted attributes.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Figures;

    fn results() -> Results {
        let entry = |peer: &str, mode: &str, rates: &[f64]| Entry {
            peer: peer.to_owned(),
            version: format!("{peer} <1>"),
            mode: mode.to_owned(),
            runs: rates
                .iter()
                .map(|&rate| Figures::from([("rate".to_owned(), rate)]))
                .collect(),
            error: None,
        };
        let mut results = Results {
            tool: "cmwq-peers".to_owned(),
            machine: "a <CPU> & co".to_owned(),
            date: "2026-11-21".to_owned(),
            cpus: 2,
            runs: 2,
            time_ms: 10,
            idle_ms: 10,
            item_ns: 2e4,
            floor: Figures::from([("line_transfer_ns".to_owned(), 40.0)]),
            missing: vec!["oneTBB: no <c++>".to_owned()],
            rows: vec![Row {
                lap: "roundtrip".to_owned(),
                issuers: 2,
                item_us: None,
                entries: vec![
                    entry("cmwq", "join", &[2e6, 4e6]),
                    entry("rayon", "park", &[5e5, 1.5e6]),
                    entry("onetbb", "help", &[9e6, 9e6]),
                    entry("broken", "park", &[]),
                ],
            }],
            comparisons: Vec::new(),
        };
        results.compare();
        results
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_outside() {
        let page = render(&results(), "a <note>");
        let mut open: Vec<&str> = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
        while let Some(start) = rest.find('<') {
            let end = start + rest[start..].find('>').expect("a tag that ends");
            let tag = &rest[start + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closing </{name}>");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "left open: {open:?}");
        for outside in [
            "http:", "https:", "src=", "href=", "@import", "url(", "<script",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("a &lt;CPU&gt; &amp; co") && !page.contains("<CPU>"));
        assert!(page.contains("a line to the other CPU 40 ns"));
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn every_peer_that_ran_has_a_bar_and_those_beyond_the_edge_say_so() {
        let page = render(&results(), "a <note>");
        assert_eq!(page.matches("<rect").count(), 3);
        assert_eq!(page.matches("class=\"cmwq\"").count(), 1);
        assert_eq!(page.matches("class=\"aside\"").count(), 1);
        assert_eq!(page.matches(" →</text>").count(), 1);
        assert!(
            page.contains("<td class=\"good\">3.00</td>"),
            "cmwq against rayon"
        );
        assert!(
            page.contains("<td class=\"bad\">0.33</td>"),
            "cmwq against onetbb"
        );
    }
}
