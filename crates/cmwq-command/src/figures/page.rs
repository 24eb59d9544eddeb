//! A page that needs nothing else, in light and dark, and its bars.

use std::fmt::Write;

use super::spread::Spread;
use super::table::grouped;

/// The style sheet: the colours `--s0` to `--s5`, and what the parts of a page look like.
const STYLE: &str = include_str!("page.css");

/// A whole page.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// Appends a part of a page.
pub fn section(page: &mut String, title: &str, note: &str, body: impl FnOnce(&mut String)) {
    let _ = write!(
        page,
        "<section>\n<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n"
    );
    body(page);
    page.push_str("\n</section>\n");
}

/// One bar of a chart that [`bars`] draws: a figure over several runs.
///
/// ```
/// use cmwq_command::figures::{Bar, Spread, bars};
///
/// let runs = [310.0, 295.0, 320.0];
/// let (label, colour) = ("cmwq".to_owned(), "var(--s0)".to_owned());
/// let svg = bars("Reads", "MiB/s", &[Bar { label, value: Spread::of(runs), colour }]);
/// assert!(svg.contains("median 310 MiB/s"));
/// ```
#[derive(Clone, Debug)]
pub struct Bar {
    /// What was measured.
    pub label: String,
    /// The figure.
    pub value: Spread,
    /// The colour in the style sheet.
    pub colour: String,
}

const WIDTH: f64 = 960.0;

/// Horizontal bars from zero, the median as the bar and the range as a whisker.
pub fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    const LEFT: f64 = 150.0;
    const RIGHT: f64 = 110.0;
    const TOP: f64 = 8.0;
    const BOTTOM: f64 = 34.0;
    const THICK: f64 = 18.0;
    const ROW_HEIGHT: f64 = 34.0;

    let height = TOP + ROW_HEIGHT * bars.len() as f64 + BOTTOM;
    let floor = height - BOTTOM;
    let greatest = bars
        .iter()
        .map(|bar| bar.value.max)
        .fold(0.0, f64::max)
        .max(1.0);
    let step = nice_step(greatest / 5.0);
    let end = (greatest / step).ceil() * step;
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / end;

    let mut svg = open(WIDTH, height, title);
    let mut tick = 0.0;
    while tick <= end * 1.0001 {
        let at = x(tick);
        let class = if tick == 0.0 { "axis" } else { "grid" };
        let _ = write!(
            svg,
            r#"<line class="{class}" x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{floor:.1}"/>"#
        );
        let _ = write!(
            svg,
            r#"<text class="tick" x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            floor + 20.0,
            short(tick)
        );
        tick += step;
    }
    for (row, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW_HEIGHT * (row as f64 + 0.5);
        let Spread { median, min, max } = bar.value;
        let _ = write!(
            svg,
            "<g><title>{}: median {} {unit}, min {}, max {}</title>",
            escape(&bar.label),
            grouped(median),
            grouped(min),
            grouped(max)
        );
        let _ = write!(
            svg,
            r#"<text class="name" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 12.0,
            middle + 5.0,
            escape(&bar.label)
        );
        let _ = write!(
            svg,
            r#"<path class="bar" style="fill:{}" d="{}"/>"#,
            bar.colour,
            rounded_bar(LEFT, middle - THICK / 2.0, x(median) - LEFT, THICK)
        );
        if max > min {
            let (from, to) = (x(min), x(max));
            let _ = write!(
                svg,
                r#"<path class="whisker" d="M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v8M{to:.1} {:.1}v8"/>"#,
                middle - 4.0,
                middle - 4.0
            );
        }
        let _ = write!(
            svg,
            r#"<text class="value" x="{:.1}" y="{:.1}">{}</text></g>"#,
            x(max.max(median)) + 10.0,
            middle + 5.0,
            grouped(median)
        );
    }
    svg += "</svg>";
    svg
}

/// A bar whose free end is rounded and whose foot stands square on the axis.
fn rounded_bar(x: f64, y: f64, width: f64, height: f64) -> String {
    let width = width.max(1.0);
    let radius = 4.0f64.min(width);
    format!(
        "M{x:.1} {y:.1}h{:.1}q{radius:.1} 0 {radius:.1} {radius:.1}v{:.1}q0 {radius:.1} -{radius:.1} {radius:.1}h-{:.1}z",
        width - radius,
        height - 2.0 * radius,
        width - radius
    )
}

/// How a drawing begins.
pub fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="{}">"#,
        escape(title)
    )
}

/// The next 1, 2 or 5 times a power of ten.
fn nice_step(rough: f64) -> f64 {
    let unit = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|digit| digit * unit)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * unit)
}

/// A number on an axis: 1.5 M, 200 k.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{} M", rounded(n / 1e6)),
        n if n >= 1e3 => format!("{} k", rounded(n / 1e3)),
        n => rounded(n),
    }
}

/// A number without more than two places behind the point.
pub fn rounded(number: f64) -> String {
    format!("{}", (number * 100.0).round() / 100.0)
}

/// Text that is safe between tags and in double-quoted attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_or_five() {
        assert_eq!(
            [0.7, 1.0, 1.1, 3.0, 70.0].map(nice_step),
            [1.0, 1.0, 2.0, 5.0, 100.0]
        );
        assert_eq!(
            [0.0, 200_000.0, 1_500_000.0].map(short),
            ["0", "200 k", "1.5 M"]
        );
    }

    #[test]
    fn bars_hold_numbers_only() {
        let bar = Bar {
            label: "a<b".into(),
            value: Spread::of([]),
            colour: "var(--s0)".into(),
        };
        let svg = bars("t", "MiB/s", &[bar]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("a<b"));
    }
}
