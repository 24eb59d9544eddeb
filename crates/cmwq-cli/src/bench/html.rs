//! `--html FILE`: one page that needs nothing else, in light and dark.

use std::fmt::Write;

use super::host::count;
use super::plan::{PUBLISHED_ORDER, Wake};
use super::report::{ConfigResult, LatencySpread, Report};
use super::stats::Spread;
use super::svg::{self, Bar, Curve, escape};
use super::table::grouped;

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub(super) fn render(report: &Report) -> String {
    let both = report.settings.wake_under_lock;
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>cmwq bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    page += &head(report);
    section(
        &mut page,
        "Throughput",
        "Items per second: the median run, with a whisker from the slowest to the fastest.",
        |page| {
            let drawing = svg::bars("Items per second of each scope", &bars(report, both));
            let _ = write!(page, "<div class=\"scroll\">{drawing}</div>");
        },
    );
    let note = "Time inside queue() (left) and from queue() to the completion seen (right). \
                Each step to the right is ten times rarer; both scales are logarithmic and shared.";
    section(&mut page, "Latency", note, |page| {
        for family in families(report) {
            latency_charts(page, report, &family, both);
        }
    });
    if !report.wake_ratios.is_empty() {
        let note = "Deferred wake-ups divided by wake-ups under the lock, run by run. \
                    Items per second: above 1 the deferred form is faster; enqueue p95: below 1 it is.";
        section(
            &mut page,
            "Deferred wake-up against wake-up under the lock",
            note,
            |page| ratios(page, report),
        );
    }
    let note = "Medians over the runs; the smaller figures are the least and the greatest. Compared with cache run by run.";
    section(&mut page, "All figures", note, |page| {
        tables(page, report, both)
    });
    page += &footer(report);
    page += "</main>\n</body>\n</html>\n";
    page
}

fn section(page: &mut String, title: &str, note: &str, body: impl FnOnce(&mut String)) {
    let _ = write!(
        page,
        "<section>\n<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n"
    );
    body(page);
    page.push_str("\n</section>\n");
}

fn head(report: &Report) -> String {
    let settings = &report.settings;
    format!(
        "<header>\n<p class=\"kicker\">cmwq bench</p>\n<h1>{}</h1>\n<p class=\"machine\">{}</p>\n\
         <p class=\"facts\"><span>{}</span><span>{} items each</span><span>{}</span><span>{}</span></p>\n</header>\n",
        headline(report),
        escape(&report.machine.description),
        count(settings.threads, "issuer"),
        grouped(settings.items as f64),
        count(settings.runs, "run"),
        if settings.strict {
            "strict"
        } else {
            "non-strict"
        },
    )
}

/// The result in one sentence: the best of cache_shard against cache where both were measured, else the fastest.
/// Nothing is claimed that not every run bears out.
fn headline(report: &Report) -> String {
    let own = || {
        report
            .results
            .iter()
            .filter(|result| result.config.wake == Wake::Deferred)
    };
    let sharded = own()
        .filter(|result| result.scope == "cache_shard")
        .filter_map(|result| Some((result, result.ratio_to_cache?)))
        .max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    if let Some((shard, ratio)) = sharded {
        let label = escape(&shard.label);
        if ratio.min > 1.0 || ratio.max < 1.0 {
            return format!(
                "{label} runs {:.2} times as many items per second as cache",
                ratio.median
            );
        }
        return format!("No clear difference between {label} and cache");
    }
    match own().max_by(|a, b| a.items_per_s.median.total_cmp(&b.items_per_s.median)) {
        Some(fastest) => {
            let rate = grouped(fastest.items_per_s.median);
            format!("{} runs {rate} items per second", escape(&fastest.label))
        }
        None => "Nothing was measured".to_owned(),
    }
}

/// The colour of a result: one hue per scope; the sizes of a sweep are steps of one hue.
fn colour(result: &ConfigResult, report: &Report) -> String {
    if !result.config.in_sweep {
        let index = PUBLISHED_ORDER
            .iter()
            .position(|scope| *scope == result.config.scope)
            .unwrap_or(0);
        return format!("var(--s{index})");
    }
    let mut sizes: Vec<_> = report
        .results
        .iter()
        .filter(|r| r.config.in_sweep)
        .map(|r| r.shard_size)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let rank = sizes
        .iter()
        .position(|size| *size == result.shard_size)
        .unwrap_or(0);
    let share = rank as f64 / (sizes.len() - 1).max(1) as f64 * 100.0;
    format!("color-mix(in oklab, var(--ramp-to) {share:.0}%, var(--ramp-from))")
}

fn is_older(result: &ConfigResult) -> bool {
    result.config.wake == Wake::UnderLock
}

fn bars(report: &Report, both: bool) -> Vec<Bar> {
    let bar = |result: &ConfigResult| Bar {
        label: result.label.clone(),
        detail: if both { result.config.wake.words() } else { "" },
        value: result.items_per_s,
        colour: colour(result, report),
        is_older: is_older(result),
    };
    report.results.iter().map(bar).collect()
}

/// What shares a pair of charts: the scopes; the sizes of a sweep.
fn families(report: &Report) -> Vec<Vec<&ConfigResult>> {
    let (sizes, scopes): (Vec<_>, Vec<_>) = report.results.iter().partition(|r| r.config.in_sweep);
    [scopes, sizes]
        .into_iter()
        .filter(|family| !family.is_empty())
        .collect()
}

/// One of the two latencies of a result.
type Kind = fn(&ConfigResult) -> &LatencySpread;

fn latency_charts(page: &mut String, report: &Report, family: &[&ConfigResult], both: bool) {
    page.push_str("<p class=\"legend\">");
    for result in family {
        let detail = if both {
            format!(" {}", result.config.wake.words())
        } else {
            String::new()
        };
        let _ = write!(
            page,
            "<span><i class=\"chip{}\" style=\"border-color:{}\"></i>{}{detail}</span>",
            if is_older(result) { " older" } else { "" },
            colour(result, report),
            escape(&result.label)
        );
    }
    page.push_str("</p>\n<div class=\"pair\">\n");
    let kinds: [(&str, Kind); 2] = [
        ("Enqueue latency", |r| &r.enqueue_ns),
        ("Round trip", |r| &r.round_trip_ns),
    ];
    let range = svg::log_range(
        report
            .results
            .iter()
            .flat_map(|r| r.enqueue_ns.curve.iter().chain(&r.round_trip_ns.curve)),
    );
    for (title, kind) in kinds {
        let curves: Vec<Curve<'_>> = family
            .iter()
            .map(|result| Curve {
                label: result.label.clone(),
                points: &kind(result).curve,
                colour: colour(result, report),
                is_older: is_older(result),
            })
            .collect();
        let _ = writeln!(
            page,
            "<figure><figcaption>{title}</figcaption>{}</figure>",
            svg::curves(&format!("{title} by percentile"), &curves, range)
        );
    }
    page.push_str("</div>\n");
}

fn cell(page: &mut String, spread: Spread, show: impl Fn(f64) -> String) {
    let range = if spread.max > spread.min {
        format!("<small>{}–{}</small>", show(spread.min), show(spread.max))
    } else {
        String::new()
    };
    let _ = write!(page, "<td>{}{range}</td>", show(spread.median));
}

/// The figures in two tables, since together they are wider than a screen.
fn tables(page: &mut String, report: &Report, both: bool) {
    let versus_cache = report.results.iter().any(|r| r.ratio_to_cache.is_some());
    let mut heads = String::from("<th>items/s</th>");
    if versus_cache {
        heads += "<th>vs cache</th>";
    }
    heads += "<th>wakes per item</th><th>helps per item</th><th>workers</th><th>CPU</th>";
    table(page, report, both, "", &heads, |page, result| {
        cell(page, result.items_per_s, grouped);
        if let Some(ratio) = result.ratio_to_cache {
            cell(page, ratio, |value| format!("{value:.2}"));
        }
        cell(page, result.wakeups_per_item, |value| format!("{value:.3}"));
        cell(page, result.helps_per_item, |value| format!("{value:.3}"));
        cell(page, result.workers_created, grouped);
        cell(page, result.cpu_percent, |value| format!("{value:.0}%"));
    });
    let groups = format!(
        "<tr><th colspan=\"{}\"></th><th class=\"group\" colspan=\"4\">enqueue latency, ns</th>\
         <th class=\"group\" colspan=\"4\">round trip, ns</th></tr>\n",
        1 + usize::from(both)
    );
    let heads = "<th>p50</th><th>p90</th><th>p95</th><th>p99</th>".repeat(2);
    table(page, report, both, &groups, &heads, |page, result| {
        for latency in [&result.enqueue_ns, &result.round_trip_ns] {
            for percentile in latency.percentiles() {
                cell(page, percentile, grouped);
            }
        }
    });
}

/// A table with one row per result; `cells` writes a row's figures.
fn table(
    page: &mut String,
    report: &Report,
    both: bool,
    groups: &str,
    heads: &str,
    cells: impl Fn(&mut String, &ConfigResult),
) {
    let wake_head = if both {
        "<th class=\"words\">wake-up</th>"
    } else {
        ""
    };
    let _ = write!(
        page,
        "<div class=\"scroll\"><table>\n<thead>\n{groups}<tr><th class=\"words\">scope</th>{wake_head}{heads}</tr>\n\
         </thead>\n<tbody>\n"
    );
    for result in &report.results {
        let label = escape(&result.label);
        let _ = write!(page, "<tr><th class=\"words\" scope=\"row\">{label}</th>");
        if both {
            let _ = write!(
                page,
                "<td class=\"words\">{}</td>",
                result.config.wake.words()
            );
        }
        cells(page, result);
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>");
}

fn ratios(page: &mut String, report: &Report) {
    page.push_str(
        "<div class=\"scroll\"><table class=\"narrow\">\n<thead>\n<tr><th class=\"words\">scope</th>\
         <th>items/s ratio</th><th>enqueue p95 ratio</th></tr>\n</thead>\n<tbody>\n",
    );
    for ratio in &report.wake_ratios {
        let _ = write!(
            page,
            "<tr><th class=\"words\" scope=\"row\">{}</th>",
            escape(&ratio.label)
        );
        for spread in [ratio.items_per_s, ratio.enqueue_p95] {
            cell(page, spread, |value| format!("{value:.3}"));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>");
}

fn footer(report: &Report) -> String {
    let calibrated = if report.settings.items_calibrated {
        " The number of items was picked by a calibration; the published runs used 50,000."
    } else {
        ""
    };
    format!(
        "<footer>\n<p>Ping-pong: every issuer is pinned to its CPU, queues one item, waits until it has run, and \
         repeats. All start together, and the scopes take turns.{calibrated}</p>\n\
         <pre>{}</pre>\n<p>{}</p>\n</footer>\n",
        escape(&report.command),
        escape(&report.date)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;

    fn pages() -> Vec<String> {
        vec![
            render(&sample(|_| ())),
            render(&sample(|o| o.shard_sizes = vec![1, 2, 4, 8, 16, 32])),
            render(&sample(|o| {
                o.wake_under_lock = true;
                o.runs = 1;
            })),
            render(&sample(|o| o.scopes.truncate(1))),
        ]
    }

    /// Walks the tags; every element is closed, in order, and nothing is left over.
    fn check_well_formed(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
        while let Some(start) = rest.find('<') {
            let end = start + rest[start..].find('>').expect("a tag that ends");
            let tag = &rest[start + 1..end];
            assert!(!tag.contains('<'), "`<` inside <{tag}>");
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closing </{name}>");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "left open: {open:?}");
    }

    #[test]
    fn every_tag_is_closed() {
        for page in pages() {
            check_well_formed(&page);
        }
    }

    #[test]
    fn the_page_needs_nothing_from_outside() {
        for page in pages() {
            for outside in [
                "http:", "https:", "//", "src=", "href=", "@import", "url(", "<script", "<link",
            ] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }

    #[test]
    fn text_from_outside_is_escaped() {
        for page in pages() {
            assert!(page.contains("A &lt;CPU&gt; &amp; co"));
            assert!(!page.contains("<CPU>"));
        }
    }

    #[test]
    fn the_page_shows_every_result_in_bars_curves_and_table() {
        let report = sample(|o| o.shard_sizes = vec![1, 2]);
        let page = render(&report);
        assert_eq!(page.matches("class=\"bar\"").count(), 7);
        assert_eq!(page.matches("class=\"whisker\"").count(), 7);
        assert_eq!(page.matches("class=\"curve\"").count(), 14);
        assert_eq!(page.matches("scope=\"row\"").count(), 14, "in both tables");
        assert_eq!(
            page.matches("<figure>").count(),
            4,
            "the sweep has charts of its own"
        );
        assert!(page.contains(&report.date) && page.contains(&report.command));
    }

    #[test]
    fn the_headline_is_the_published_comparison_where_it_can_be() {
        assert_eq!(
            headline(&sample(|_| ())),
            "cache_shard runs 0.75 times as many items per second as cache"
        );
        assert_eq!(
            headline(&sample(|o| o.scopes.truncate(1))),
            "cpu runs 101,000 items per second"
        );
    }
}
