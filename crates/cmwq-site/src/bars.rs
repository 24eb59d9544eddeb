//! Bars of HTML, which reflow on a narrow screen as drawings do not.

use crate::tables::{Table, Unit, figure};
use std::fmt::Write;

/// How a bar is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Class {
    Ours,
    Peer,
    /// Another discipline or shape, or no pool at all: not compared.
    Aside,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) class: Class,
    pub(crate) name: String,
    pub(crate) mode: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    /// The figure as the table has it: a time of few digits.
    pub(crate) shown: Option<String>,
    /// From the least to the greatest, where that was measured.
    pub(crate) spread: Option<(f64, f64)>,
}

/// Which rows of a table of peers are drawn.
pub(crate) struct Choice {
    /// Modes of cmwq; empty: all.
    pub(crate) ours: Vec<String>,
    /// Modes of the others; empty: all that are not asides, and of each peer the best.
    pub(crate) theirs: Vec<String>,
    /// Modes that another chart shows.
    pub(crate) without: Vec<String>,
}

/// The bars of rows of the benchmark of peers, the best first.
pub(crate) fn of_peers(table: &Table, column: &str, choice: &Choice) -> Result<Vec<Bar>, String> {
    // A time has its unit in its name; the less the better.
    let (unit, stem) = match column.strip_suffix("_ns") {
        Some(stem) => (Unit::Nanoseconds, format!("{stem}_MOST_ns")),
        None => (Unit::Number, format!("{column}_MOST")),
    };
    let [least, most] = ["min", "max"].map(|end| table.column(&stem.replace("MOST", end)).ok());
    let [peer, mode, value] = [
        table.column("peer")?,
        table.column("mode")?,
        table.column(column)?,
    ];
    let mut bars: Vec<Bar> = Vec::new();
    for row in &table.rows {
        let (name, how) = (row[peer].as_str(), row[mode].as_str());
        let modes = if name == "cmwq" {
            &choice.ours
        } else {
            &choice.theirs
        };
        let wanted = modes.is_empty() || modes.iter().any(|wanted| wanted == how);
        if !wanted || choice.without.iter().any(|mode| mode == how) {
            continue;
        }
        let class = match how {
            _ if name == "cmwq" => Class::Ours,
            // Named: what they are is said above the chart.
            how if how.starts_with('(') && choice.theirs.is_empty() => Class::Aside,
            _ => Class::Peer,
        };
        let Some((figure_of, _)) = figure(&row[value])? else {
            continue;
        };
        let beside = |column: Option<usize>| column.map_or(Ok(None), |column| figure(&row[column]));
        bars.push(Bar {
            class,
            name: name.to_owned(),
            mode: how.trim_matches(['(', ')']).to_owned(),
            value: figure_of,
            unit,
            shown: None,
            spread: beside(least)?
                .zip(beside(most)?)
                .map(|(least, most)| (least.0, most.0)),
        });
    }
    bars.sort_by(|a, b| match unit {
        Unit::Number => b.value.total_cmp(&a.value),
        Unit::Nanoseconds => a.value.total_cmp(&b.value),
    });
    // Of each pool the best, and of ours all.
    let mut kept: Vec<Bar> = Vec::new();
    for bar in bars {
        let better = |other: &Bar| other.class == bar.class && other.name == bar.name;
        if bar.class == Class::Ours || !kept.iter().any(better) {
            kept.push(bar);
        }
    }
    Ok(kept)
}

/// Which columns of a table are drawn.
pub(crate) struct Columns<'a> {
    pub(crate) label: &'a str,
    pub(crate) figure: &'a str,
    /// Has the least and the greatest value of each row: `41094 to 44768`.
    pub(crate) range: Option<&'a str>,
    /// The unit of the figures, for a table that has it in the column's name.
    pub(crate) unit: Option<&'a str>,
}

/// The bars of any other table.
pub(crate) fn of_rows(table: &Table, columns: &Columns<'_>) -> Result<Vec<Bar>, String> {
    let [label, value] = [table.column(columns.label)?, table.column(columns.figure)?];
    let range = columns.range.map(|name| table.column(name)).transpose()?;
    let with_unit = |text: &str| match columns.unit {
        Some(unit) => figure(&format!("{text} {unit}")),
        None => figure(text),
    };
    let rows = table.rows.iter().map(|row| {
        let text = &row[value];
        let (value, unit) = with_unit(text)?.ok_or("a bar of nothing")?;
        let spread = match range.and_then(|range| row[range].split_once(" to ")) {
            Some((least, most)) => with_unit(least)?.zip(with_unit(most)?),
            None => None,
        };
        let is_short = unit == Unit::Nanoseconds && columns.unit.is_none() && text.len() < 6;
        Ok(Bar {
            class: if row[label].starts_with("cmwq") {
                Class::Ours
            } else {
                Class::Peer
            },
            name: row[label].replace('`', ""),
            mode: String::new(),
            value,
            unit,
            shown: is_short.then(|| text.clone()),
            spread: spread.map(|(least, most)| (least.0, most.0)),
        })
    });
    rows.collect()
}

/// The list of bars, from zero, all on one scale.
pub(crate) fn draw(bars: &[Bar], label: &str) -> String {
    // Asides may go beyond the edge: they must not make all others invisible.
    let compared = bars.iter().filter(|bar| bar.class != Class::Aside);
    let top = |bar: &Bar| bar.spread.map_or(bar.value, |(_, greatest)| greatest);
    let greatest = compared.map(top).fold(f64::MIN_POSITIVE, f64::max);
    let percent = |value: f64| (value / greatest * 100.0).clamp(0.0, 100.0);
    let mut html = format!("<ol class=\"bars\" aria-label=\"{}\">\n", escape(label));
    for bar in bars {
        let class = match bar.class {
            Class::Ours => "ours",
            Class::Peer => "peer",
            Class::Aside => "aside",
        };
        let beyond = if bar.value > greatest {
            "→\u{202f}"
        } else {
            ""
        };
        let mode = match bar.mode.as_str() {
            "" => String::new(),
            mode => format!(" <small>{}</small>", escape(mode)),
        };
        let _ = write!(
            html,
            "<li class=\"{class}\"><span class=\"who\">{}{mode}</span><span class=\"bar\"><i style=\"width:{:.1}%\"></i>",
            escape(&bar.name),
            percent(bar.value)
        );
        let mut title = String::new();
        if let Some((least, most)) = bar.spread {
            title = format!(
                " title=\"from {} to {}\"",
                short(least, bar.unit),
                short(most, bar.unit)
            );
            if most > least && most <= greatest {
                let _ = write!(
                    html,
                    "<b style=\"left:{:.1}%;width:{:.1}%\"></b>",
                    percent(least),
                    percent(most) - percent(least)
                );
            }
        }
        let _ = writeln!(
            html,
            "</span><span class=\"figure\"{title}>{beyond}{}</span></li>",
            escape(
                &bar.shown
                    .clone()
                    .unwrap_or_else(|| short(bar.value, bar.unit))
            )
        );
    }
    html + "</ol>\n"
}

/// A figure in three digits.
pub(crate) fn short(value: f64, unit: Unit) -> String {
    let steps: &[(f64, &str)] = match unit {
        Unit::Number => &[(1e6, "\u{202f}M"), (1e3, "\u{202f}k"), (1.0, "")],
        Unit::Nanoseconds => &[
            (1e9, "\u{202f}s"),
            (1e6, "\u{202f}ms"),
            (1e3, "\u{202f}µs"),
            (1.0, "\u{202f}ns"),
        ],
    };
    // 999.6 is 1 of the next.
    let step = steps.iter().find(|(size, _)| value >= size * 0.9995);
    let &(size, name) = step.or(steps.last()).expect("there are steps");
    let scaled = value / size;
    let digits = match scaled {
        scaled if scaled >= 99.95 || (size == 1.0 && scaled.fract() == 0.0) => 0,
        scaled if scaled >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{name}")
}

/// Text that is safe between tags and in double-quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::below_heading;

    const ROWS: [[&str; 6]; 6] = [
        ["cmwq", "join", "90", "80", "95", "1"],
        ["a", "join", "20", "10", "30", "2000"],
        ["a", "park", "40", "30", "50", "1500"],
        ["cmwq", "completion", "60", "50", "70", "1"],
        ["tbb", "(help)", "200", "150", "250", "1"],
        ["b", "join", "10", "5", "12", ""],
    ];

    fn table() -> Table {
        let columns = ["peer", "mode", "rate", "rate_min", "rate_max", "end_p99_ns"];
        Table {
            columns: columns.map(str::to_owned).to_vec(),
            rows: ROWS.map(|row| row.map(str::to_owned).to_vec()).to_vec(),
        }
    }

    fn names(choice: &Choice) -> Vec<String> {
        let bars = of_peers(&table(), "rate", choice).unwrap();
        let name = |bar: &Bar| format!("{} {} {:?}", bar.name, bar.mode, bar.class);
        bars.iter().map(name).collect()
    }

    fn modes(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn each_peer_is_drawn_once_with_its_best_mode() {
        let all = names(&Choice {
            ours: Vec::new(),
            theirs: Vec::new(),
            without: Vec::new(),
        });
        let expected = [
            "tbb help Aside",
            "cmwq join Ours",
            "cmwq completion Ours",
            "a park Peer",
            "b join Peer",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn modes_can_be_chosen() {
        let joined = names(&Choice {
            ours: modes(&["join"]),
            theirs: modes(&["join", "(help)"]),
            without: modes(&["park"]),
        });
        assert_eq!(
            joined,
            [
                "tbb help Peer",
                "cmwq join Ours",
                "a join Peer",
                "b join Peer"
            ]
        );
    }

    #[test]
    fn modes_can_be_left_out() {
        let left = names(&Choice {
            ours: Vec::new(),
            theirs: Vec::new(),
            without: modes(&["(help)", "park"]),
        });
        assert_eq!(
            left,
            [
                "cmwq join Ours",
                "cmwq completion Ours",
                "a join Peer",
                "b join Peer"
            ]
        );
    }

    #[test]
    fn a_short_time_of_another_table_stays_as_it_is() {
        let table = below_heading(
            "# A\n| pool | p99 |\n|---|---|\n| cmwq, by hand | 31 ms |\n| `b` | 1228 ms |\n",
            "A",
        )
        .unwrap();
        let columns = Columns {
            label: "pool",
            figure: "p99",
            range: None,
            unit: None,
        };
        let bars = of_rows(&table, &columns).unwrap();
        assert_eq!(bars[0].class, Class::Ours);
        let html = draw(&bars, "p99");
        assert!(
            html.contains(">31 ms<") && html.contains(">1.23\u{202f}s<") && html.contains(">b<"),
            "{html}"
        );
    }

    #[test]
    fn a_table_may_have_ranges_and_its_unit_in_the_name_of_the_column() {
        let table = below_heading(
            "# A\n| way | CPU µs | range |\n|---|---|---|\n| cmwq | 1009 | 900 to 1100 |\n",
            "A",
        )
        .unwrap();
        let columns = Columns {
            label: "way",
            figure: "CPU µs",
            range: Some("range"),
            unit: Some("µs"),
        };
        let bars = of_rows(&table, &columns).unwrap();
        assert_eq!(bars[0].spread, Some((900e3, 1100e3)));
        assert!(draw(&bars, "CPU").contains(">1.01\u{202f}ms<"));
    }

    #[test]
    fn bars_start_at_zero_and_asides_may_leave_the_scale() {
        let table = table();
        let all = Choice {
            ours: Vec::new(),
            theirs: Vec::new(),
            without: Vec::new(),
        };
        let html = draw(&of_peers(&table, "rate", &all).unwrap(), "a <chart>");
        assert!(html.contains("aria-label=\"a &lt;chart&gt;\""));
        // Of 95, the greatest that is compared.
        assert!(html.contains("width:63.2%"), "60 of 95: {html}");
        assert!(
            html.contains("<b style=\"left:84.2%;width:15.8%\">"),
            "{html}"
        );
        assert_eq!(html.matches('→').count(), 1, "{html}");
        assert_eq!(html.matches("<li").count(), 5);
        // Figures that not all have.
        let times = of_peers(&table, "end_p99_ns", &all).unwrap();
        assert!(!draw(&times, "p99").contains("<b "));
        assert_eq!(times.len(), 4, "b has none");
    }

    #[test]
    fn figures_have_three_digits() {
        let numbers = [32_407_336.0, 999_700.0, 120_366.0, 7.0, 0.42, 0.0];
        let numbers = numbers.map(|value| short(value, Unit::Number).replace('\u{202f}', " "));
        assert_eq!(numbers, ["32.4 M", "1.00 M", "120 k", "7", "0.42", "0"]);
        let times = [37.0, 6_710.0, 31e6, 4.3e9].map(|ns| short(ns, Unit::Nanoseconds));
        assert_eq!(
            times.map(|time| time.replace('\u{202f}', " ")),
            ["37 ns", "6.71 µs", "31.0 ms", "4.30 s"]
        );
    }
}
