//! What was measured, as data: this is the JSON output, and text and page are made from it.

use serde::Serialize;

use crate::bench::plan::{Rate, Subject};

/// A figure over the runs, as the published tables have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Mean {
    pub(super) mean: f64,
    /// Standard deviation of the sample; a single run has none.
    pub(super) stddev: Option<f64>,
}

impl Mean {
    /// `None` for no values.
    pub(super) fn of(values: &[f64]) -> Option<Mean> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (!values.is_empty()).then(|| Mean {
            mean,
            stddev: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
        })
    }
}

/// By how much a rate differs from that of the row that others are compared with, in percent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Delta {
    /// Run by run: the two of a pair were measured one soon after the other.
    pub(super) per_run: Vec<f64>,
    pub(super) mean: f64,
    pub(super) stddev: Option<f64>,
    /// The mean less and plus two standard deviations.
    pub(super) two_sigma: Option<[f64; 2]>,
    /// Whether that range is without 0. If not, or with a single run, the runs do not tell which of
    /// the two is faster.
    pub(super) tells: bool,
}

impl Delta {
    /// Of pairs (rate, the rate that it is compared with).
    pub(super) fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Delta> {
        let per_run: Vec<f64> = pairs
            .map(|(own, other)| (own / other - 1.0) * 100.0)
            .collect();
        let Mean { mean, stddev, .. } = Mean::of(&per_run)?;
        let two_sigma = stddev.map(|stddev| [mean - 2.0 * stddev, mean + 2.0 * stddev]);
        Some(Delta {
            per_run,
            mean,
            stddev,
            two_sigma,
            tells: two_sigma.is_some_and(|[low, high]| low > 0.0 || high < 0.0),
        })
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Run {
    pub(super) read_mib_per_s: f64,
    pub(super) write_mib_per_s: f64,
    pub(super) iops: f64,
    /// Of all CPUs of the machine, by everything that ran while fio's jobs did.
    pub(super) cpu_percent: f64,
    /// CPU time of the server, by the bytes that fio moved.
    pub(super) server_cpu_s_per_gib: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Requests that our server counted, and its work items for each of them. Others have neither.
    pub(super) requests: Option<u64>,
    pub(super) items_per_request: Option<f64>,
}

impl Run {
    pub(super) fn rate(&self, rate: Rate) -> f64 {
        match rate {
            Rate::Read => self.read_mib_per_s,
            Rate::Both => self.read_mib_per_s + self.write_mib_per_s,
        }
    }
}

/// One server under one load.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) subject: String,
    pub(super) kind: &'static str,
    /// Pods of its scope, if it is one of ours.
    pub(super) pods: Option<usize>,
    pub(super) runs: Vec<Run>,
    /// Against the first row of its table.
    pub(super) delta: Option<Delta>,
    /// One of the rows that the scenario compares: each of its requests is a work item of the queue
    /// whose scope it names.
    pub(super) is_compared: bool,
}

impl Outcome {
    pub(super) fn new(subject: Subject, pods: Option<usize>) -> Self {
        Outcome {
            subject: subject.label(),
            kind: subject.kind(),
            pods,
            runs: Vec::new(),
            delta: None,
            is_compared: matches!(subject, Subject::Ours { inline: false, .. }),
        }
    }

    pub(super) fn figure(&self, figure: impl Fn(&Run) -> f64) -> Option<Mean> {
        let values: Vec<f64> = self.runs.iter().map(figure).collect();
        Mean::of(&values)
    }
}

/// One load.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    pub(super) scenario: &'static str,
    pub(super) title: String,
    /// fio's `rw`.
    pub(super) pattern: &'static str,
    /// Which rate is compared.
    pub(super) rate: Rate,
    /// The first is what the others are compared with.
    pub(super) outcomes: Vec<Outcome>,
}

impl Table {
    /// Fills the deltas in.
    fn compare(&mut self) {
        let Some((first, others)) = self.outcomes.split_first_mut() else {
            return;
        };
        for other in others {
            let pairs = other.runs.iter().zip(&first.runs);
            let rates = pairs.map(|(own, first)| (own.rate(self.rate), first.rate(self.rate)));
            other.delta = Delta::of(rates);
        }
    }
}

/// The NFS-like loads of a block size, over all engines, as published: one row for each number of shards.
#[derive(Debug, Serialize)]
pub(super) struct OverEngines {
    pub(super) block: u64,
    pub(super) subject: String,
    pub(super) pods: Option<usize>,
    /// What it is compared with.
    pub(super) against: String,
    pub(super) write: Delta,
    pub(super) read: Delta,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) tool: &'static str,
    pub(super) machine: String,
    /// Where the disk is, and how long its key.
    pub(super) disk: String,
    pub(super) runtime_s: u64,
    pub(super) runs: usize,
    /// Scopes that cut this machine into the same pods: what their figures differ by is noise.
    pub(super) same_pods: Vec<Vec<String>>,
    /// What could not be measured, and why.
    pub(super) left_out: Vec<String>,
    pub(super) tables: Vec<Table>,
    pub(super) over_engines: Vec<OverEngines>,
}

impl Report {
    /// Works the comparisons out, once all runs are there. `blocks`: the block size of each table.
    pub(super) fn compare(&mut self, blocks: &[u64]) {
        self.tables.iter_mut().for_each(Table::compare);
        let mounted: Vec<(&Table, u64)> = self
            .tables
            .iter()
            .zip(blocks.iter().copied())
            .filter(|(table, _)| table.scenario == "nfs")
            .collect();
        let mut sizes: Vec<u64> = mounted.iter().map(|(_, block)| *block).collect();
        sizes.dedup();
        let of_size = |size: u64| {
            let of_it = mounted.iter().filter(move |(_, block)| *block == size);
            over_engines(size, &of_it.map(|(table, _)| *table).collect::<Vec<_>>())
        };
        self.over_engines = sizes.into_iter().flat_map(of_size).collect();
    }

    /// A line for each group of scopes with the same pods.
    pub(super) fn same_pods_lines(&self) -> Vec<String> {
        let line = |group: &Vec<String>| {
            format!(
                "the same pods on this machine, so differences are noise: {}",
                group.join(", ")
            )
        };
        self.same_pods.iter().map(line).collect()
    }
}

/// The bandwidths of all engines added up, run by run, and compared with those of the first row.
fn over_engines(block: u64, tables: &[&Table]) -> Vec<OverEngines> {
    let Some((first, others)) = tables
        .first()
        .and_then(|table| table.outcomes.split_first())
    else {
        return Vec::new();
    };
    let total = |pattern: &str, row: usize, run: usize| -> f64 {
        let of_it = tables.iter().filter(|table| table.pattern == pattern);
        of_it
            .filter_map(|table| Some(table.outcomes[row].runs.get(run)?.rate(table.rate)))
            .sum()
    };
    let rows = others.iter().zip(1..).filter(|(row, _)| row.is_compared);
    rows.filter_map(|(row, at)| {
        let delta = |pattern: &str| {
            Delta::of(
                (0..first.runs.len()).map(|run| (total(pattern, at, run), total(pattern, 0, run))),
            )
        };
        Some(OverEngines {
            block,
            subject: row.subject.clone(),
            pods: row.pods,
            against: first.subject.clone(),
            write: delta("write")?,
            read: delta("read")?,
        })
    })
    .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn outcome(subject: &str, mib_per_s: &[f64]) -> Outcome {
        let run = |&write_mib_per_s: &f64| Run {
            write_mib_per_s,
            ..Run::default()
        };
        Outcome {
            subject: subject.to_owned(),
            kind: "cmwq-nbd, encrypted",
            pods: Some(2),
            runs: mib_per_s.iter().map(run).collect(),
            delta: None,
            is_compared: true,
        }
    }

    fn table(scenario: &'static str, pattern: &'static str, rates: [&[f64]; 2]) -> Table {
        Table {
            scenario,
            title: format!("{pattern}, a load"),
            pattern,
            rate: Rate::Both,
            outcomes: vec![outcome("cache", rates[0]), outcome("cache_shard", rates[1])],
        }
    }

    /// Two scenarios in two runs.
    pub(in crate::bench) fn sample() -> Report {
        let mut report = Report {
            tool: "cmwq-nbd",
            machine: "a machine".to_owned(),
            disk: "512 MiB of memory".to_owned(),
            runtime_s: 1,
            runs: 2,
            same_pods: Vec::new(),
            left_out: vec!["scenario <x>: why".to_owned()],
            tables: vec![
                table("4k", "randread", [&[100.0, 200.0], &[110.0, 222.0]]),
                table("nfs", "write", [&[10.0, 10.0], &[12.0, 12.0]]),
                table("nfs", "read", [&[10.0, 10.0], &[9.0, 11.0]]),
                table("nfs", "write", [&[30.0, 30.0], &[32.0, 36.0]]),
                table("nfs", "read", [&[30.0, 30.0], &[31.0, 29.0]]),
            ],
            over_engines: Vec::new(),
        };
        report.compare(&[4096, 512, 512, 512, 512]);
        report
    }

    #[test]
    fn means_have_the_deviation_of_a_sample_and_a_single_run_has_none() {
        assert_eq!(Mean::of(&[]), None);
        assert_eq!(Mean::of(&[3.0]).map(|one| one.stddev), Some(None));
        let four = Mean::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(four.mean, 2.5);
        assert!((four.stddev.unwrap() - 1.290_994_4).abs() < 1e-6);
    }

    #[test]
    fn deltas_are_taken_run_by_run_and_told_by_two_deviations() {
        // The machine became twice as fast in between; the difference is nearly the same.
        let delta = sample().tables[0].outcomes[1].delta.clone().unwrap();
        assert!((delta.mean - 10.5).abs() < 1e-9, "{delta:?}");
        assert!((delta.per_run[1] - 11.0).abs() < 1e-9, "{delta:?}");
        let [low, high] = delta.two_sigma.unwrap();
        assert!((low - 9.086).abs() < 1e-3 && (high - 11.914).abs() < 1e-3);
        assert!(delta.tells);
        // All runs agree on the sign, and two deviations do not.
        let delta = Delta::of([(101.0, 100.0), (110.0, 100.0)].into_iter()).unwrap();
        assert!(!delta.tells, "{delta:?}");
        let one = Delta::of([(150.0, 100.0)].into_iter()).unwrap();
        assert!(!one.tells && one.two_sigma.is_none());
    }

    #[test]
    fn the_nfs_table_adds_the_engines_up_before_it_compares() {
        let report = sample();
        let [row] = &report.over_engines[..] else {
            panic!("{:?}", report.over_engines);
        };
        assert_eq!(
            (row.subject.as_str(), row.against.as_str()),
            ("cache_shard", "cache")
        );
        // 44 and 48 of 40; not the mean of 20 %, 6.7 % and 20 %, 20 %.
        assert_eq!(row.write.per_run.len(), 2);
        assert!((row.write.mean - 15.0).abs() < 1e-9, "{row:?}");
        assert!(row.read.mean.abs() < 1e-9 && !row.read.tells, "{row:?}");
    }
}
