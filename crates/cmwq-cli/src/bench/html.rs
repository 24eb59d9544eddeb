//! `--html FILE`: one page that needs nothing else, in light and dark.

use std::fmt::Write;

use super::args::PUBLISHED_ORDER;
use super::host::count;
use super::interval::{LEAST_RUNS, Ratio};
use super::report::{ConfigResult, LatencySpread, Report};
use super::stats::Spread;
use super::svg::{self, Curve};
use cmwq_command::figures::{self, Bar, escape, grouped, section};

/// Colours in the style sheet.
const COLOURS: usize = 6;

/// The whole page.
pub(super) fn render(report: &Report) -> String {
    let mut body = head(report);
    section(
        &mut body,
        "Throughput",
        "Items per second: the median run, with a whisker from the slowest to the fastest.",
        |page| {
            let drawing = figures::bars("Items per second of each scope", "items/s", &bars(report));
            let _ = write!(page, "<div class=\"scroll\">{drawing}</div>");
        },
    );
    let note = "Time inside queue() (left) and from queue() to the completion seen (right). \
                Each step to the right is ten times rarer; both scales are logarithmic and shared.";
    section(&mut body, "Latency", note, |page| {
        for family in families(report) {
            latency_charts(page, report, &family);
        }
    });
    let note = format!(
        "Medians over the runs; the smaller figures are the least and the greatest. vs cache: items per second divided by \
         those of cache, run by run. {}",
        interval_note(report)
    );
    section(&mut body, "All figures", &note, |page| tables(page, report));
    body += &footer(report);
    figures::page("cmwq bench", &body)
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

/// How to read a ratio.
fn interval_note(report: &Report) -> String {
    if report.settings.runs < LEAST_RUNS {
        format!("?: too few runs to tell a ratio from noise; it takes {LEAST_RUNS} or more.")
    } else {
        "The smaller figures under a ratio: the 99 % confidence interval of the median ratio, by order statistics. \
         ~: it contains 1, so the runs cannot tell which is faster."
            .to_owned()
    }
}

/// The result in one sentence: the best of cache_shard against cache where both were measured, else
/// the fastest. It claims nothing that the runs cannot distinguish.
fn headline(report: &Report) -> String {
    let sharded = report
        .measured()
        .filter(|result| result.scope == "cache_shard")
        .filter_map(|result| Some((result, result.ratio_to_cache?)))
        .max_by(|(_, a), (_, b)| a.spread.median.total_cmp(&b.spread.median));
    if let Some((shard, ratio)) = sharded {
        let label = escape(&shard.label);
        return match ratio.told() {
            Some(ratio) => {
                format!("{label} runs {ratio:.2} times as many items per second as cache")
            }
            None => format!("No clear difference between {label} and cache"),
        };
    }
    let is_cache = |result: &ConfigResult| {
        result.scope == "cache_shard" && result.same_pods_as.as_deref() == Some("cache")
    };
    if report.results.iter().any(is_cache) {
        return "cache_shard and cache are the same pods here".to_owned();
    }
    match report
        .measured()
        .max_by(|a, b| a.items_per_s.median.total_cmp(&b.items_per_s.median))
    {
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
        return format!("var(--s{})", index % COLOURS);
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

fn bars(report: &Report) -> Vec<Bar> {
    let bar = |result: &ConfigResult| Bar {
        label: result.label.clone(),
        value: result.items_per_s,
        colour: colour(result, report),
    };
    report.measured().map(bar).collect()
}

/// What shares a pair of charts: the scopes; the sizes of a sweep.
fn families(report: &Report) -> Vec<Vec<&ConfigResult>> {
    let (sizes, scopes): (Vec<_>, Vec<_>) = report.measured().partition(|r| r.config.in_sweep);
    [scopes, sizes]
        .into_iter()
        .filter(|family| !family.is_empty())
        .collect()
}

/// One of the two latencies of a result.
type Kind = fn(&ConfigResult) -> &LatencySpread;

fn latency_charts(page: &mut String, report: &Report, family: &[&ConfigResult]) {
    page.push_str("<p class=\"legend\">");
    for result in family {
        let _ = write!(
            page,
            "<span><i class=\"chip\" style=\"border-color:{}\"></i>{}</span>",
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

/// A ratio, if the runs can tell it from 1, and its interval.
fn ratio_cell(page: &mut String, ratio: Ratio) {
    let (words, interval) = ratio.words("");
    let small = match interval.as_str() {
        "" => String::new(),
        interval => format!("<small>{}</small>", interval.replace('-', "–")),
    };
    let _ = write!(page, "<td>{words}{small}</td>");
}

/// The figures in two tables, since together they are wider than a screen.
fn tables(page: &mut String, report: &Report) {
    let versus_cache = report.results.iter().any(|r| r.ratio_to_cache.is_some());
    let mut heads = String::from("<th>items/s</th>");
    if versus_cache {
        heads += "<th>vs cache</th>";
    }
    heads +=
        "<th>pods</th><th>wakes per item</th><th>stolen per item</th><th>workers</th><th>CPU</th>";
    table(page, report, "", &heads, |page, result| {
        cell(page, result.items_per_s, grouped);
        match result.ratio_to_cache {
            Some(_) if result.is_reference() => page.push_str("<td>1</td>"),
            Some(ratio) => ratio_cell(page, ratio),
            None => {}
        }
        let _ = write!(page, "<td>{}</td>", result.pods);
        cell(page, result.wakeups_per_item, |value| format!("{value:.3}"));
        cell(page, result.stolen_per_item, |value| format!("{value:.3}"));
        cell(page, result.workers_created, grouped);
        cell(page, result.cpu_percent, |value| format!("{value:.0}%"));
    });
    let groups = "<tr><th></th><th class=\"group\" colspan=\"4\">enqueue latency, ns</th>\
         <th class=\"group\" colspan=\"4\">round trip, ns</th></tr>\n";
    let heads = "<th>p50</th><th>p90</th><th>p95</th><th>p99</th>".repeat(2);
    table(page, report, groups, &heads, |page, result| {
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
    groups: &str,
    heads: &str,
    cells: impl Fn(&mut String, &ConfigResult),
) {
    let _ = write!(
        page,
        "<div class=\"scroll\"><table>\n<thead>\n{groups}<tr><th class=\"words\">scope</th>{heads}</tr>\n\
         </thead>\n<tbody>\n"
    );
    for result in &report.results {
        let label = escape(&result.label);
        let _ = write!(page, "<tr><th class=\"words\" scope=\"row\">{label}</th>");
        match &result.same_pods_as {
            Some(other) => {
                let (columns, other) = (heads.matches("<th>").count(), escape(other));
                let _ = write!(
                    page,
                    "<td class=\"words same\" colspan=\"{columns}\">same pods as {other}</td>"
                );
            }
            None => cells(page, result),
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
         repeats. All start together, and the scopes take turns, every other round in reverse. Scopes that cut this machine \
         into the same pods are measured once.{calibrated}</p>\n\
         <pre>{}</pre>\n<p>{}</p>\n</footer>\n",
        escape(&report.command),
        escape(&report.date)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{sample, sample_on};

    fn pages() -> Vec<String> {
        vec![
            render(&sample(|_| ())),
            render(&sample(|o| o.shard_sizes = vec![1, 2, 4, 8, 16, 32])),
            render(&sample(|o| o.runs = 1)),
            render(&sample(|o| o.scopes.truncate(1))),
            render(&sample_on("l3:1 core:2 pu:1", |_| ())),
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
        let report = sample(|o| o.shard_sizes = vec![2, 4]);
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
            "cpu runs 104,000 items per second"
        );
        assert_eq!(
            headline(&sample(|o| o.runs = 7)),
            "No clear difference between cache_shard and cache"
        );
        assert_eq!(
            headline(&sample_on("l3:1 core:2 pu:1", |_| ())),
            "cache_shard and cache are the same pods here"
        );
    }

    #[test]
    fn scopes_with_the_same_pods_have_a_row_and_no_figure() {
        let page = render(&sample_on("l3:1 core:2 pu:1", |_| ()));
        assert_eq!(page.matches("class=\"bar\"").count(), 2);
        assert_eq!(page.matches("class=\"curve\"").count(), 4);
        assert_eq!(page.matches("scope=\"row\"").count(), 12, "in both tables");
        assert_eq!(page.matches(">same pods as cache<").count(), 6);
        assert_eq!(page.matches(">same pods as cpu<").count(), 2);
    }

    #[test]
    fn what_the_runs_cannot_tell_has_no_ratio() {
        let mut report = sample(|_| ());
        let numa = report
            .results
            .iter_mut()
            .find(|r| r.scope == "numa")
            .unwrap();
        numa.ratio_to_cache = Some(Ratio::of(&[0.7, 1.0, 1.3].repeat(3), &[1.0; 9]));
        let page = render(&report);
        assert!(page.contains("<td>~<small>0.70–1.30</small></td>"));
        assert!(page.contains("<td>0.26<small>0.25–0.26</small></td>"));
        assert!(render(&sample(|o| o.runs = 2)).contains("<td>?</td>"));
    }
}
