//! `--csv FILE`: a line for every figure of every peer.

use crate::metrics::metrics;
use crate::results::{Entry, Results, Row};
use std::fmt::Write;

/// What the columns are; `cmwq bench --loop --csv` has the same.
const HEAD: &str = "loop,issuers,item_us,peer,mode,version,runs,unsteady,figure,median,min,max\n";

/// All of it. Times are in the unit that the figure's name ends with.
pub(crate) fn render(results: &Results) -> String {
    let mut text = HEAD.to_owned();
    for row in &results.rows {
        for entry in &row.entries {
            lines(&mut text, row, entry);
        }
    }
    text
}

fn lines(text: &mut String, row: &Row, entry: &Entry) {
    let item_us = row.item_us.map(|us| us.to_string()).unwrap_or_default();
    for metric in metrics(&row.lap) {
        let Some(spread) = entry.spread(metric.key) else {
            continue;
        };
        let _ = writeln!(
            text,
            "{},{},{item_us},{},{},{},{},{},{},{},{},{}",
            row.lap,
            row.issuers,
            entry.peer,
            entry.mode,
            entry.version.replace([',', '\n'], " "),
            entry.runs.len(),
            entry.unsteady(),
            metric.key,
            spread.median,
            spread.min,
            spread.max
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Figures;

    #[test]
    fn every_figure_of_every_peer_is_a_line_of_as_many_cells_as_the_head() {
        let run =
            |rate: f64| Figures::from([("rate".to_owned(), rate), ("steady".to_owned(), 0.0)]);
        let entry = Entry {
            peer: "cmwq".to_owned(),
            version: "cmwq 1, or so".to_owned(),
            mode: "join".to_owned(),
            runs: vec![run(2.0), run(4.0)],
            error: None,
        };
        let row = Row {
            lap: "scatter-8".to_owned(),
            issuers: 1,
            item_us: Some(0.5),
            entries: vec![entry],
        };
        let mut text = String::new();
        lines(&mut text, &row, &row.entries[0]);
        assert_eq!(
            text,
            "scatter-8,1,0.5,cmwq,join,cmwq 1  or so,2,2,rate,3,2,4\n"
        );
        let cells = |line: &str| line.trim_end().split(',').count();
        assert_eq!(cells(&text), cells(HEAD));
    }
}
