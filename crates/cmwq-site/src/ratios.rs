//! The ratios of cmwq to the best of its peers.

use crate::bars::escape;
use crate::tables::{Table, figure};
use std::fmt::Write;

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) lap: String,
    pub(crate) issuers: u32,
    pub(crate) mode: String,
    pub(crate) what: String,
    pub(crate) against: String,
    pub(crate) best: String,
    pub(crate) ratio: f64,
}

impl Ratio {
    fn is(&self, key: [&str; 4]) -> bool {
        [&self.lap, &self.mode, &self.what, &self.against] == key
    }
}

pub(crate) fn read(table: &Table) -> Result<Vec<Ratio>, String> {
    let names = [
        "loop",
        "issuers",
        "mode",
        "measure",
        "discipline",
        "best_peer",
        "ratio",
    ];
    let mut columns = Vec::new();
    for name in names {
        columns.push(table.column(name)?);
    }
    let rows = table.rows.iter().map(|row| {
        let cell = |number: usize| row[columns[number]].clone();
        let issuers = cell(1)
            .parse()
            .map_err(|_| format!("'{}' issuers", cell(1)))?;
        let ratio = figure(&cell(6))?.ok_or("no ratio")?.0;
        Ok(Ratio {
            lap: cell(0),
            issuers,
            mode: cell(2),
            what: cell(3),
            against: cell(4),
            best: cell(5),
            ratio,
        })
    });
    rows.collect()
}

/// A row of the overview: `loop, mode, figure, waiters: what it is called`.
fn wanted(line: &str) -> Result<([&str; 4], &str), String> {
    let wrong = || format!("'{line}' is not 'loop, mode, figure, waiters: name'");
    let (key, name) = line.split_once(": ").ok_or_else(wrong)?;
    let parts: Vec<&str> = key.split(", ").collect();
    Ok((parts.try_into().map_err(|_| wrong())?, name))
}

/// Whether any of the measurements compared what each line of `rows` names.
pub(crate) fn known(measurements: &[Vec<Ratio>], rows: &str) -> Result<(), String> {
    for line in lines(rows) {
        let (key, _) = wanted(line)?;
        if !measurements.iter().flatten().any(|ratio| ratio.is(key)) {
            return Err(format!("nothing was compared as '{line}'"));
        }
    }
    Ok(())
}

fn lines(rows: &str) -> impl Iterator<Item = &str> {
    rows.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The overview: a line for each of `rows`, a column for each number of issuers.
pub(crate) fn overview(ratios: &[Ratio], rows: &str) -> Result<String, String> {
    const ISSUERS: [u32; 4] = [1, 2, 4, 16];
    let mut html = "<table class=\"ratios\">\n<thead><tr><th scope=\"col\">issuers</th>".to_owned();
    for issuers in ISSUERS {
        let _ = write!(html, "<th scope=\"col\">{issuers}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for line in lines(rows) {
        let (key, name) = wanted(line)?;
        let found: Vec<&Ratio> = ratios.iter().filter(|ratio| ratio.is(key)).collect();
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(name));
        for issuers in ISSUERS {
            match found.iter().find(|ratio| ratio.issuers == issuers) {
                None => html.push_str("<td>–</td>"),
                Some(ratio) => {
                    let _ = write!(
                        html,
                        "<td class=\"{}\" title=\"the best: {}\">{}</td>",
                        class(ratio.ratio),
                        escape(&ratio.best),
                        times(ratio.ratio)
                    );
                }
            }
        }
        html.push_str("</tr>\n");
    }
    Ok(html + "</tbody>\n</table>\n")
}

/// All in which another is better, and how many were compared.
pub(crate) fn losses(ratios: &[Ratio]) -> String {
    let mut lost: Vec<&Ratio> = ratios.iter().filter(|ratio| ratio.ratio < 1.0).collect();
    lost.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let mut html = format!(
        "<details>\n<summary>Another is better in {} of {} comparisons</summary>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">loop</th><th scope=\"col\">issuers</th><th scope=\"col\">cmwq</th><th scope=\"col\">figure</th>\
         <th scope=\"col\">best peer</th><th scope=\"col\">ratio</th></tr></thead>\n<tbody>\n",
        lost.len(),
        ratios.len()
    );
    for ratio in lost {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"less\">{}</td></tr>",
            escape(&ratio.lap),
            ratio.issuers,
            escape(&ratio.mode),
            escape(&ratio.what),
            escape(&ratio.best),
            times(ratio.ratio)
        );
    }
    html + "</tbody>\n</table></div>\n</details>\n"
}

fn times(ratio: f64) -> String {
    let digits = if ratio < 9.995 { 2 } else { 1 };
    format!("{ratio:.digits$}")
}

fn class(ratio: f64) -> &'static str {
    if ratio >= 1.0 { "more" } else { "less" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |row: &str| row.split(',').map(str::to_owned).collect();
        let rows = [
            "flood,1,work,items/s,waiters sleep,crossbeam <m> park,1.17",
            "flood,2,work,items/s,waiters sleep,crossbeam park,0.98",
            "flood,2,work,enqueue p50,waiters sleep,crossbeam park,0.83",
        ];
        Table {
            columns: row("loop,issuers,mode,measure,discipline,best_peer,ratio"),
            rows: rows.map(row).to_vec(),
        }
    }

    #[test]
    fn the_overview_has_a_row_for_each_line_and_says_what_was_not_compared() {
        let ratios = read(&table()).unwrap();
        assert_eq!(ratios.len(), 3);
        let html = overview(
            &ratios,
            "\nflood, work, items/s, waiters sleep: Reusable items\n",
        )
        .unwrap();
        assert!(
            html.contains("<th scope=\"row\">Reusable items</th>"),
            "{html}"
        );
        assert!(
            html.contains(
                "<td class=\"more\" title=\"the best: crossbeam &lt;m&gt; park\">1.17</td>"
            ),
            "{html}"
        );
        assert!(html.contains("<td class=\"less\" title=\"the best: crossbeam park\">0.98</td><td>–</td><td>–</td>"), "{html}");
        let none = "flood, spawn, items/s, waiters sleep: no";
        assert!(
            overview(&ratios, none)
                .unwrap()
                .contains("no</th><td>–</td>")
        );
        assert!(
            known(
                &[Vec::new(), ratios.clone()],
                "flood, work, items/s, waiters sleep: a"
            )
            .is_ok()
        );
        assert!(known(std::slice::from_ref(&ratios), none).is_err());
        assert!(overview(&ratios, "flood: no").is_err());
    }

    #[test]
    fn losses_are_all_below_one_the_worst_first() {
        let html = losses(&read(&table()).unwrap());
        assert!(html.contains("in 2 of 3 comparisons"), "{html}");
        let [worst, next] = ["0.83", "0.98"].map(|ratio| html.find(ratio).expect("it is there"));
        assert!(worst < next && !html.contains("1.17"));
    }
}
