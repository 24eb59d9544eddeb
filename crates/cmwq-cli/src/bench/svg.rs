//! The charts of percentile curves of the HTML page, drawn as inline SVG.
//!
//! Colours and fonts come from the page's style sheet, so that one drawing serves light and dark.

use std::fmt::Write;

use super::stats::CURVE_POINTS_PER_DECADE;
use cmwq_command::figures::{escape, open, rounded};

/// One curve: nanoseconds at rising percentiles, `CURVE_POINTS_PER_DECADE` to the decade.
pub(super) struct Curve<'a> {
    pub(super) label: String,
    pub(super) points: &'a [f64],
    pub(super) colour: String,
}

/// The range of a logarithmic axis: whole steps of 1, 2, 5 around all values.
pub(super) fn log_range<'a>(values: impl Iterator<Item = &'a f64>) -> (f64, f64) {
    let (least, greatest) = values
        .filter(|value| **value > 0.0)
        .fold((f64::INFINITY, 0.0f64), |(least, greatest), &value| {
            (least.min(value), greatest.max(value))
        });
    if greatest <= 0.0 {
        return (100.0, 1000.0);
    }
    let below = log_ticks(least / 10.0, least)
        .last()
        .copied()
        .unwrap_or(least);
    let above = log_ticks(greatest, greatest * 10.0)
        .first()
        .copied()
        .unwrap_or(greatest);
    if above > below {
        (below, above)
    } else {
        (below / 2.0, above * 2.0)
    }
}

/// The 1, 2, 5 steps of every decade from `least` to `greatest`.
fn log_ticks(least: f64, greatest: f64) -> Vec<f64> {
    (-1..12)
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)))
        .filter(|tick| *tick >= least * 0.9999 && *tick <= greatest * 1.0001)
        .collect()
}

/// Percentile curves: rarer to the right, a decade of rarity per equal width; nanoseconds upwards,
/// logarithmic.
pub(super) fn curves(title: &str, curves: &[Curve<'_>], range: (f64, f64)) -> String {
    const CHART_WIDTH: f64 = 470.0;
    const HEIGHT: f64 = 330.0;
    const LEFT: f64 = 58.0;
    const RIGHT: f64 = 22.0;
    const TOP: f64 = 10.0;
    const BOTTOM: f64 = 46.0;

    let floor = HEIGHT - BOTTOM;
    let points = curves
        .iter()
        .map(|curve| curve.points.len())
        .max()
        .unwrap_or(0);
    let decades = (points.saturating_sub(1) as f64 / CURVE_POINTS_PER_DECADE as f64).max(1.0);
    let (low, high) = (range.0.ln(), range.1.ln());
    let x = |rarity: f64| LEFT + (CHART_WIDTH - LEFT - RIGHT) * rarity / decades;
    let y = |ns: f64| floor - (floor - TOP) * (ns.max(range.0).ln() - low) / (high - low);

    let mut svg = open(CHART_WIDTH, HEIGHT, title);
    let ticks = log_ticks(range.0, range.1);
    for (index, &tick) in ticks.iter().enumerate() {
        let at = y(tick);
        let _ = write!(
            svg,
            r#"<line class="{}" x1="{LEFT}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}"/>"#,
            if index == 0 { "axis" } else { "grid" },
            CHART_WIDTH - RIGHT
        );
        // Over many decades only their first ticks are named.
        if ticks.len() <= 10 || tick.log10().fract().abs() < 1e-9 {
            let _ = write!(
                svg,
                r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 8.0,
                at + 4.0,
                duration(tick)
            );
        }
    }
    for percent in [0.0, 50.0, 90.0, 99.0, 99.9, 99.99] {
        let rarity = -((100.0 - percent) / 100.0f64).log10();
        if rarity > decades + 1e-9 {
            break;
        }
        let at = x(rarity);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{floor:.1}"/>"#
        );
        let _ = write!(
            svg,
            r#"<text class="tick" x="{at:.1}" y="{:.1}" text-anchor="middle">{percent}</text>"#,
            floor + 18.0
        );
    }
    let _ = write!(
        svg,
        r#"<text class="detail" x="{:.1}" y="{:.1}" text-anchor="middle">percentile</text>"#,
        (LEFT + CHART_WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0
    );
    for curve in curves {
        let mut path = String::new();
        for (index, &ns) in curve.points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let at = x(index as f64 / CURVE_POINTS_PER_DECADE as f64);
            let _ = write!(path, "{command}{at:.1} {:.1}", y(ns));
        }
        if path.is_empty() {
            continue;
        }
        let _ = write!(
            svg,
            r#"<path class="curve" style="stroke:{}" d="{path}"><title>{}</title></path>"#,
            curve.colour,
            escape(&curve.label)
        );
    }
    svg += "</svg>";
    svg
}

/// Nanoseconds on an axis: 200 ns, 5 µs.
fn duration(ns: f64) -> String {
    match ns {
        n if n >= 1e9 => format!("{} s", rounded(n / 1e9)),
        n if n >= 1e6 => format!("{} ms", rounded(n / 1e6)),
        n if n >= 1e3 => format!("{} µs", rounded(n / 1e3)),
        n => format!("{} ns", rounded(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_unit() {
        assert_eq!(
            [0.5, 200.0, 5000.0, 2e6, 1e9].map(duration),
            ["0.5 ns", "200 ns", "5 µs", "2 ms", "1 s"]
        );
    }

    #[test]
    fn a_log_axis_encloses_its_values() {
        assert_eq!(log_range([150.0, 7000.0].iter()), (100.0, 10_000.0));
        assert_eq!(log_range([200.0].iter()), (100.0, 400.0));
        assert_eq!(log_range([].iter()), (100.0, 1000.0));
        assert_eq!(log_range([0.0, 0.0].iter()), (100.0, 1000.0));
    }

    #[test]
    fn drawings_hold_numbers_only() {
        let curve = Curve {
            label: "a".into(),
            points: &[0.0, 10.0],
            colour: "var(--s0)".into(),
        };
        let empty = Curve {
            label: "b".into(),
            points: &[],
            colour: "var(--s1)".into(),
        };
        for svg in [
            curves("t", &[curve, empty], (1.0, 10.0)),
            curves("t", &[], (1.0, 10.0)),
        ] {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
