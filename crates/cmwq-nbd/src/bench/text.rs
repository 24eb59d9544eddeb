//! The report as text, and the tables that text and page show: in the layout of the published ones.

use std::fmt::Write;

use cmwq_command::figures::{Column, Row, grouped, layout};

use crate::bench::plan::Rate;
use crate::bench::report::{Delta, Mean, Outcome, Report, Table};

/// One table as it is shown.
pub(super) struct Shown {
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// How to read the tables.
pub(super) const LEGEND: &str = "Means ± standard deviations over the runs. 2 sigma: the mean difference less and plus two \
standard deviations; ~: that range contains 0, or there is only one run, so the runs do not tell which is faster. items per request: \
work items that were started for each request that the server got; inline: readers of connections carry out short requests themselves.";

/// Everything.
pub(super) fn render(report: &Report) -> String {
    let mut text = head(report);
    for table in report
        .tables
        .iter()
        .map(detailed)
        .chain(as_published(report))
    {
        let _ = write!(
            text,
            "\n{}\n{}",
            table.title,
            layout(&table.columns, &table.rows)
        );
    }
    let _ = write!(text, "\n{LEGEND}\n");
    text
}

fn head(report: &Report) -> String {
    let runs = match report.runs {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let mut text = format!(
        "{}\n{}, {runs} of {} s each, in turns\n",
        report.machine, report.disk, report.runtime_s
    );
    for line in report.same_pods_lines() {
        let _ = writeln!(text, "{line}");
    }
    for line in &report.left_out {
        let _ = writeln!(text, "left out: {line}");
    }
    text
}

/// Every figure of one load.
pub(super) fn detailed(table: &Table) -> Shown {
    let rate = match table.rate {
        Rate::Read => "read MiB/s",
        Rate::Both => "MiB/s",
    };
    let against = format!("vs {}", table.outcomes[0].subject);
    let columns = vec![
        Column::words("server"),
        Column::words(""),
        Column::new("", rate),
        Column::new(&against, "difference"),
        Column::new(&against, "2 sigma"),
        Column::new("", "CPU used"),
        Column::new("items per", "request"),
        Column::new("", "IOPS"),
        Column::new("server", "s/GiB"),
        Column::new("latency, µs", "p50"),
        Column::new("latency, µs", "p99"),
    ];
    let row = |outcome: &Outcome| {
        let [difference, range] = difference(outcome.delta.as_ref());
        let items = |mean: Mean| match mean.mean.is_nan() {
            true => String::new(),
            false => format!("{:.2}", mean.mean),
        };
        let of = |figure: fn(&crate::bench::report::Run) -> f64| outcome.figure(figure);
        let mean = |mean: Option<Mean>| mean.map_or(f64::NAN, |mean| mean.mean);
        Row::Cells(vec![
            outcome.subject.clone(),
            outcome.kind.to_owned(),
            plus_minus(outcome.figure(|run| run.rate(table.rate)), "", 2),
            difference,
            range,
            plus_minus(of(|run| run.cpu_percent), "%", 2),
            of(|run| run.items_per_request.unwrap_or(f64::NAN)).map_or_else(String::new, items),
            grouped(mean(of(|run| run.iops))),
            format!("{:.2}", mean(of(|run| run.server_cpu_s_per_gib))),
            grouped(mean(of(|run| run.p50_us))),
            grouped(mean(of(|run| run.p99_us))),
        ])
    };
    Shown {
        title: format!("Scenario {}: {}", table.scenario, table.title),
        columns,
        rows: table.outcomes.iter().map(row).collect(),
    }
}

/// The summaries, each with the columns of its published table.
pub(super) fn as_published(report: &Report) -> Vec<Shown> {
    let mut shown: Vec<Shown> = by_scope(report).into_iter().collect();
    let workloads = ["4k", "buffered"].into_iter();
    shown.extend(workloads.filter_map(|scenario| by_workload(report, scenario)));
    shown.extend(by_shards(report));
    shown
}

/// Of the verified loads bandwidth and CPU use were published for each scope.
fn by_scope(report: &Report) -> Option<Shown> {
    let row = |table: &Table, outcome: &Outcome| {
        Row::Cells(vec![
            table.title.clone(),
            outcome.subject.clone(),
            plus_minus(outcome.figure(|run| run.rate(table.rate)), "", 2),
            plus_minus(outcome.figure(|run| run.cpu_percent), "%", 2),
        ])
    };
    let verified = report
        .tables
        .iter()
        .filter(|table| table.rate == Rate::Read);
    let rows: Vec<Row> = verified
        .flat_map(|table| {
            let compared = table.outcomes.iter().filter(|outcome| outcome.is_compared);
            compared.map(move |outcome| row(table, outcome))
        })
        .collect();
    (!rows.is_empty()).then(|| Shown {
        title: "Verified loads as published: read bandwidth and CPU use".to_owned(),
        columns: vec![
            Column::words("load"),
            Column::words("scope"),
            Column::new("", "read MiB/s"),
            Column::new("", "CPU used"),
        ],
        rows,
    })
}

fn by_workload(report: &Report, scenario: &str) -> Option<Shown> {
    let mut rows = Vec::new();
    let of_it = report
        .tables
        .iter()
        .filter(|table| table.scenario == scenario);
    for table in of_it {
        let (first, others) = table.outcomes.split_first()?;
        for other in others.iter().filter(|other| other.is_compared) {
            let average = |outcome: &Outcome| {
                let rate = outcome.figure(|run| run.rate(table.rate));
                let iops = outcome.figure(|run| run.iops);
                let mean = |mean: Option<Mean>| mean.map_or(f64::NAN, |mean| mean.mean);
                format!("{:.0} MiB/s, {:.1}k", mean(rate), mean(iops) / 1e3)
            };
            let mut row = vec![
                table.pattern.to_owned(),
                first.subject.clone(),
                average(first),
            ];
            row.extend([other.subject.clone(), average(other)]);
            row.extend(published(other.delta.as_ref()));
            rows.push(Row::Cells(row));
        }
    }
    let mut columns = vec![Column::words("workload")];
    for name in ["A", "B"] {
        columns.push(Column::words(name));
        columns.push(Column::new("", format!("average of {name}")));
    }
    columns.extend(["average delta", "stddev", "2-sigma range"].map(|name| Column::new("", name)));
    (!rows.is_empty()).then(|| Shown {
        title: format!("Scenario {scenario} as published: B against A"),
        columns,
        rows,
    })
}

fn by_shards(report: &Report) -> Option<Shown> {
    let first = report.over_engines.first()?;
    let mut columns = vec![
        Column::words("scope"),
        Column::new("", "block"),
        Column::new("", "shards"),
    ];
    for pattern in ["write", "read"] {
        columns.extend(["delta", "stddev", "2-sigma range"].map(|name| Column::new(pattern, name)));
    }
    let rows = report.over_engines.iter().map(|row| {
        let pods = row.pods.map_or_else(String::new, |pods| pods.to_string());
        let mut cells = vec![row.subject.clone(), row.block.to_string(), pods];
        cells.extend(published(Some(&row.write)));
        cells.extend(published(Some(&row.read)));
        Row::Cells(cells)
    });
    Some(Shown {
        title: format!(
            "Scenario nfs as published: bandwidth of all engines, against {}",
            first.against
        ),
        columns,
        rows: rows.collect(),
    })
}

/// Average delta, standard deviation, 2-sigma range.
fn published(delta: Option<&Delta>) -> [String; 3] {
    let Some(delta) = delta else {
        return Default::default();
    };
    let stddev = delta
        .stddev
        .map_or_else(String::new, |stddev| format!("{stddev:.1}%"));
    [signed(delta), stddev, range(delta)]
}

/// Against the first row, and the range.
fn difference(delta: Option<&Delta>) -> [String; 2] {
    let Some(delta) = delta else {
        return Default::default();
    };
    let stddev = delta
        .stddev
        .map_or_else(String::new, |stddev| format!(" ±{stddev:.1}"));
    [signed(delta) + &stddev, range(delta)]
}

fn signed(delta: &Delta) -> String {
    let mark = if delta.tells { "" } else { "~" };
    format!("{mark}{:+.1}%", delta.mean)
}

fn range(delta: &Delta) -> String {
    let words = |[low, high]: [f64; 2]| format!("{low:+.1} to {high:+.1}%");
    delta.two_sigma.map_or_else(String::new, words)
}

/// Mean and standard deviation; a single run has none.
fn plus_minus(mean: Option<Mean>, unit: &str, digits: usize) -> String {
    mean.map_or_else(String::new, |Mean { mean, stddev, .. }| {
        let stddev = stddev.map_or_else(String::new, |stddev| format!(" ±{stddev:.digits$}"));
        format!("{mean:.digits$}{unit}{stddev}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;

    #[test]
    fn the_published_tables_have_average_delta_deviation_and_range() {
        let text = render(&sample());
        let line = |begin: &str| {
            let line = text.lines().rev().find(|line| line.starts_with(begin));
            let words = line.expect(begin).split_whitespace();
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line("randread"),
            "randread cache 150 MiB/s, 0.0k cache_shard 166 MiB/s, 0.0k +10.5% 0.7% +9.1 to +11.9%"
        );
        let nfs = line("cache_shard  ");
        assert!(
            nfs.starts_with("cache_shard 512 2 +15.0% 7.1% +0.9 to"),
            "{nfs}"
        );
        assert!(nfs.contains("~+0.0%"), "{nfs}");
        assert!(text.contains("2-sigma range") && text.contains(LEGEND));
    }

    #[test]
    fn verified_loads_have_bandwidth_and_cpu_use_of_each_scope() {
        let mut report = sample();
        report.tables[0].rate = Rate::Read;
        for (run, used) in report.tables[0].outcomes[1]
            .runs
            .iter_mut()
            .zip([98.0, 99.0])
        {
            (run.read_mib_per_s, run.cpu_percent) = (used + 1000.0, used);
        }
        report.tables[0].outcomes[0].is_compared = false;
        let text = render(&report);
        let lines = text
            .lines()
            .skip_while(|line| !line.starts_with("Verified loads"));
        let line = lines.skip(1).find(|line| line.contains("randread"));
        let words: Vec<&str> = line.expect("a row").split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "randread, a load cache_shard 1098.50 ±0.71 98.50% ±0.71"
        );
        assert!(!render(&sample()).contains("Verified loads"));
    }

    #[test]
    fn a_single_run_has_no_deviation_and_tells_nothing() {
        assert_eq!(plus_minus(Mean::of(&[2.0]), "%", 1), "2.0%");
        assert_eq!(plus_minus(Mean::of(&[1.0, 3.0]), "", 1), "2.0 ±1.4");
        let one = Delta::of([(110.0, 100.0)].into_iter());
        assert_eq!(difference(one.as_ref()), ["~+10.0%", ""]);
        assert_eq!(difference(None), ["", ""]);
    }
}
