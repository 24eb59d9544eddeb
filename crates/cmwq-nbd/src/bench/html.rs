//! The report as one page.

use std::fmt::Write;

use cmwq_command::figures::{Bar, Spread, bars, escape, html, page, section};

use crate::bench::report::{Outcome, Report, Table};
use crate::bench::text::{LEGEND, as_published, detailed};

/// The whole page.
pub(super) fn render(report: &Report) -> String {
    let mut body = format!(
        "<header>\n<p class=\"kicker\">cmwq-nbd bench</p>\n<h1>Block device over NBD, by affinity scope and beside other servers</h1>\n\
         <p class=\"machine\">{}</p>\n<p class=\"facts\"><span>{}</span><span>{} × {} s each, in turns</span></p>\n",
        escape(&report.machine),
        escape(&report.disk),
        report.runs,
        report.runtime_s
    );
    let left_out = report
        .left_out
        .iter()
        .map(|line| format!("left out: {line}"));
    for line in report.same_pods_lines().into_iter().chain(left_out) {
        let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&line));
    }
    let _ = writeln!(body, "<p class=\"note\">{}</p>\n</header>", escape(LEGEND));
    for table in as_published(report) {
        section(&mut body, &escape(&table.title), "", |page| {
            page.push_str(&html(&table.columns, &table.rows));
        });
    }
    for table in &report.tables {
        let shown = detailed(table);
        let note = "Bars: medians, with whiskers from the least to the greatest run.";
        section(&mut body, &escape(&shown.title), note, |page| {
            let _ = write!(page, "<div class=\"scroll\">{}</div>", chart(table));
            page.push_str(&html(&shown.columns, &shown.rows));
        });
    }
    page("cmwq-nbd bench", &body)
}

fn chart(table: &Table) -> String {
    let colour = |outcome: &Outcome| match (outcome.is_compared, outcome.pods) {
        (true, _) => "var(--s0)",
        (false, Some(_)) => "var(--s1)",
        (false, None) => "var(--s4)",
    };
    let bar = |outcome: &Outcome| Bar {
        label: outcome.subject.clone(),
        value: Spread::of(outcome.runs.iter().map(|run| run.rate(table.rate))),
        colour: colour(outcome).to_owned(),
    };
    let of_all: Vec<Bar> = table.outcomes.iter().map(bar).collect();
    bars("MiB per second of each server", "MiB/s", &of_all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;

    #[test]
    fn the_page_has_a_part_for_each_table_and_no_foreign_tags() {
        let page = render(&sample());
        assert_eq!(page.matches("<section>").count(), 5 + 2);
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(page.contains("scenario &lt;x&gt;: why"));
    }
}
