//! What was measured, as data: this is the JSON output, and text and page are made from it.

use serde::Serialize;

/// A figure over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Standard deviation of the sample; a single run has none.
    pub(super) stddev: Option<f64>,
}

impl Spread {
    /// `None` for no values.
    pub(super) fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = sorted.len();
        let mean = sorted.iter().sum::<f64>() / n as f64;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Spread {
            median: f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
            min,
            max,
            stddev: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
        })
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Run {
    pub(super) mib_per_s: f64,
    pub(super) iops: f64,
    /// Of all CPUs of the machine, by everything that ran.
    pub(super) cpu_percent: f64,
    /// CPU time of the server, by the bytes that fio moved.
    pub(super) server_cpu_s_per_gib: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// One server under one load.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) subject: String,
    pub(super) kind: &'static str,
    pub(super) runs: Vec<Run>,
}

impl Outcome {
    pub(super) fn spread(&self, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        let values: Vec<f64> = self.runs.iter().map(figure).collect();
        Spread::of(&values)
    }

    /// Bandwidth against another's in percent, run by run.
    pub(super) fn against(&self, other: &Outcome) -> Option<Spread> {
        let pairs = self.runs.iter().zip(&other.runs);
        let deltas: Vec<f64> = pairs
            .map(|(own, other)| (own.mib_per_s / other.mib_per_s - 1.0) * 100.0)
            .collect();
        Spread::of(&deltas)
    }
}

/// One load.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    pub(super) scenario: &'static str,
    pub(super) title: String,
    /// The first is what the others are compared with.
    pub(super) outcomes: Vec<Outcome>,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) tool: &'static str,
    pub(super) machine: String,
    pub(super) size: u64,
    pub(super) runtime_s: u64,
    pub(super) runs: usize,
    /// Scopes that cut this machine into the same pods: what their figures differ by is noise.
    pub(super) same_pods: Vec<Vec<String>>,
    /// What could not be measured, and why.
    pub(super) left_out: Vec<String>,
    pub(super) tables: Vec<Table>,
}

impl Report {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(mib_per_s: &[f64]) -> Outcome {
        let run = |&mib_per_s: &f64| Run {
            mib_per_s,
            iops: 0.0,
            cpu_percent: 0.0,
            server_cpu_s_per_gib: 0.0,
            p50_ms: 0.0,
            p99_ms: 0.0,
        };
        Outcome {
            subject: "s".to_owned(),
            kind: "k",
            runs: mib_per_s.iter().map(run).collect(),
        }
    }

    #[test]
    fn spreads() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[3.0]).unwrap();
        assert_eq!((one.median, one.stddev), (3.0, None));
        let four = Spread::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((four.median, four.min, four.max), (2.5, 1.0, 4.0));
        assert!((four.stddev.unwrap() - 1.290_994_4).abs() < 1e-6);
    }

    #[test]
    fn deltas_are_taken_run_by_run() {
        // The machine became twice as fast in between; the difference is the same.
        let delta = outcome(&[110.0, 220.0])
            .against(&outcome(&[100.0, 200.0]))
            .unwrap();
        assert!((delta.median - 10.0).abs() < 1e-9 && delta.stddev.unwrap() < 1e-9);
    }
}
