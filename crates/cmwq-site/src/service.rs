//! The chart of README: the service of benches/service on cmwq, on `spawn_blocking`, and inline.

use crate::bars::{self, Bar, Class, Columns, escape};
use crate::tables;
use std::fmt::Write;
use std::path::Path;

/// The measurement, and what the chart says of it.
const FILE: &str = "2026-11-27-service-2cpu.md";
const NOTE: &str = "2 CPUs of an AMD EPYC (Zen 5), 2026-11-27. Bars are medians of 3 or 4 runs of a second, thin lines go from the least to the greatest.";

/// The rows of the chart: a heading of the measurement, a number of connections, and a title.
const ROWS: [(&str, &str, &str); 3] = [
    ("Messages of 4096 bytes", "64", "64 connections"),
    ("Messages of 4096 bytes", "8", "8 connections"),
    (
        "Requests of which some block",
        "64",
        "64 connections, one request in four sleeps for 1 ms",
    ),
];

/// Its columns: a title, the figure, its range, and its unit.
const COLUMNS: [(&str, &str, Option<&str>, Option<&str>); 3] = [
    (
        "requests a second (more is better)",
        "requests/s",
        Some("range"),
        None,
    ),
    (
        "p99 of a request (less is better)",
        "p99 µs",
        Some("p99 range"),
        Some("µs"),
    ),
    (
        "CPU time for a request (less is better)",
        "CPU µs/request",
        None,
        Some("µs"),
    ),
];

const WIDTH: f64 = 870.0;
const PANEL: f64 = WIDTH / 3.0;
const ROW: f64 = 102.0;
/// From the left edge of a panel: where its bars begin, and how long the longest is.
const BARS: f64 = 92.0;
const LONGEST: f64 = 130.0;

/// The chart as a drawing.
pub(crate) fn chart(lab: &Path) -> Result<String, String> {
    let path = lab.join(FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{FILE}: {error}"))?;
    let height = ROW * ROWS.len() as f64 + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <style>.title{{font-weight:bold;font-size:12.5px}}.of{{fill:#555}}.name{{text-anchor:end}}.us{{font-weight:bold}}.bar{{fill:#8d9aa8}}.ours{{fill:#2a78d6}}.spread{{stroke:#17171a;stroke-width:1.5}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (place, (heading, connections, title)) in ROWS.iter().enumerate() {
        let top = ROW * place as f64 + 16.0;
        let table = tables::below_heading(&text, heading)?
            .only("connections", connections)?
            .only("load", "closed loop")?;
        words(&mut svg, 8.0, top, "title", title);
        for (column, (what, figure, range, unit)) in COLUMNS.iter().enumerate() {
            let columns = Columns {
                label: "way",
                figure,
                range: *range,
                unit: *unit,
            };
            let left = PANEL * column as f64 + 8.0;
            words(&mut svg, left, top + 16.0, "of", what);
            panel(
                &mut svg,
                left,
                top + 22.0,
                &bars::of_rows(&table, &columns)?,
            );
        }
    }
    words(&mut svg, 8.0, height - 10.0, "of", NOTE);
    Ok(svg + "</svg>\n")
}

/// One list of bars, from zero, all on one scale.
fn panel(svg: &mut String, left: f64, top: f64, list: &[Bar]) {
    let most = |bar: &Bar| {
        bar.spread
            .map_or(bar.value, |(_, most)| most.max(bar.value))
    };
    let greatest = list.iter().map(most).fold(f64::MIN_POSITIVE, f64::max);
    let scale = |value: f64| left + BARS + value / greatest * LONGEST;
    for (place, bar) in list.iter().enumerate() {
        let y = top + 18.0 * place as f64;
        let (us, class) = match bar.class {
            Class::Ours => (" us", "ours"),
            Class::Peer | Class::Aside => ("", "bar"),
        };
        words(
            svg,
            left + BARS - 5.0,
            y + 11.0,
            &format!("name{us}"),
            &bar.name,
        );
        let width = scale(bar.value) - scale(0.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"14\" class=\"{class}\"/>",
            left + BARS
        );
        if let Some((least, most)) = bar.spread {
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"spread\"/>",
                scale(least),
                y + 7.0,
                scale(most),
                y + 7.0
            );
        }
        let figure = bars::short(bar.value, bar.unit);
        words(svg, scale(most(bar)) + 5.0, y + 11.0, us.trim(), &figure);
    }
}

fn words(svg: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_spreads_share_a_scale_that_begins_at_zero() {
        let bar = |class, value, spread| Bar {
            class,
            name: "a <pool>".to_owned(),
            mode: String::new(),
            value,
            unit: tables::Unit::Number,
            shown: None,
            spread,
        };
        let mut svg = String::new();
        let list = [
            bar(Class::Ours, 50.0, Some((40.0, 100.0))),
            bar(Class::Peer, 25.0, None),
        ];
        panel(&mut svg, 0.0, 0.0, &list);
        assert!(
            svg.contains("width=\"65.0\" height=\"14\" class=\"ours\""),
            "{svg}"
        );
        assert!(
            svg.contains("width=\"32.5\" height=\"14\" class=\"bar\""),
            "{svg}"
        );
        assert!(
            svg.contains("<line x1=\"144.0\" y1=\"7.0\" x2=\"222.0\""),
            "{svg}"
        );
        assert!(svg.contains("a &lt;pool&gt;"), "{svg}");
    }

    #[test]
    fn a_measurement_that_is_missing_is_an_error() {
        assert!(chart(Path::new("/nowhere")).unwrap_err().contains(FILE));
    }
}
