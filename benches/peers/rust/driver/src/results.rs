//! What was measured: rows of peers, with medians and comparisons.

use crate::metrics::{Metric, full_name, metrics};
use crate::process::Figures;
use serde::{Deserialize, Serialize};

/// All of it; what `--format json` writes and `--from` reads.
#[derive(Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) tool: String,
    pub(crate) machine: String,
    pub(crate) date: String,
    pub(crate) cpus: usize,
    pub(crate) runs: u32,
    pub(crate) time_ms: u64,
    pub(crate) idle_ms: u64,
    /// How long an item of window and block computes.
    pub(crate) item_ns: f64,
    pub(crate) floor: Figures,
    pub(crate) missing: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Made from the rows; not read back.
    #[serde(default, skip_deserializing)]
    pub(crate) comparisons: Vec<Comparison>,
}

/// A run while others used more of a CPU than this is disturbed.
pub(crate) const DISTURBED_PERCENT: f64 = 15.0;

/// A loop with a number of issuers.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    #[serde(rename = "loop")]
    pub(crate) lap: String,
    pub(crate) issuers: usize,
    /// What an item computes, if it is not the load's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item_us: Option<f64>,
    pub(crate) entries: Vec<Entry>,
}

/// A peer in a row, with one way to wait.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) peer: String,
    pub(crate) version: String,
    pub(crate) mode: String,
    pub(crate) runs: Vec<Figures>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A figure over the runs.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The share of the best rate that makes a peer one of the fast ones.
const FAST: f64 = 0.9;

/// What a mode means, where its name does not say it.
pub(crate) fn is_other_shape(mode: &str) -> bool {
    mode == "unpinned" || mode == "compute"
}

/// Whether the waiting thread may run the item itself.
pub(crate) fn waiter_helps(mode: &str) -> bool {
    mode == "help"
}

/// cmwq against the best peer.
#[derive(Clone, Serialize)]
pub(crate) struct Comparison {
    #[serde(rename = "loop")]
    pub(crate) lap: String,
    pub(crate) issuers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) item_us: Option<f64>,
    pub(crate) mode: String,
    pub(crate) metric: String,
    pub(crate) key: &'static str,
    pub(crate) value: f64,
    /// Which peers it is compared with.
    pub(crate) against: &'static str,
    pub(crate) best_peer: String,
    pub(crate) best_value: f64,
    /// Above 1: cmwq is that many times better.
    pub(crate) ratio: f64,
}

impl Comparison {
    /// The loop, and its items where they are not its own.
    pub(crate) fn load(&self) -> String {
        match self.item_us {
            None => self.lap.clone(),
            Some(item_us) => format!("{}, {item_us} us", self.lap),
        }
    }
}

/// The peer that is no pool: threads that compute items and do nothing else.
pub(crate) const NO_POOL: &str = "no-pool";

/// Adds the figures that are computed from others.
pub(crate) fn derive(figures: &mut Figures) {
    let get = |key: &str| figures.get(key).copied();
    let mut derived = Vec::new();
    if let (Some(items), Some(seconds), Some(cpu_s)) = (get("items"), get("seconds"), get("cpu_s"))
        && items > 0.0
    {
        derived.push(("rate", items / seconds));
        derived.push(("cpu_us_per_item", cpu_s * 1e6 / items));
    }
    if let (Some(p50), Some(p99)) = (get("latency_p50_ns"), get("latency_p99_ns")) {
        derived.push(("latency_ratio", p99 / p50));
    }
    if let Some(kib) = get("peak_kib") {
        derived.push(("peak_mib", kib / 1024.0));
    }
    for (key, value) in derived {
        figures.insert(key.to_owned(), value);
    }
}

impl Entry {
    /// A figure over the runs, if every run has it.
    pub(crate) fn spread(&self, key: &str) -> Option<Spread> {
        let mut values: Vec<f64> = self
            .runs
            .iter()
            .map(|figures| figures.get(key).copied())
            .collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        // Of an even number: the mean of the middle two.
        let lower = *values.get(values.len().checked_sub(1)? / 2)?;
        let upper = *values.get(values.len() / 2)?;
        Some(Spread {
            median: f64::midpoint(lower, upper),
            min: *values.first()?,
            max: *values.last()?,
        })
    }

    /// How many of its runs others disturbed.
    pub(crate) fn disturbed(&self) -> usize {
        let others = |figures: &&Figures| figures.get("others_percent").copied().unwrap_or(0.0);
        self.runs
            .iter()
            .filter(|figures| others(figures) > DISTURBED_PERCENT)
            .count()
    }

    /// How many of its runs came to their end before two time windows agreed.
    pub(crate) fn unsteady(&self) -> usize {
        let is_unsteady = |figures: &&Figures| figures.get("steady") == Some(&0.0);
        self.runs.iter().filter(is_unsteady).count()
    }

    pub(crate) fn is_cmwq(&self) -> bool {
        self.peer == "cmwq"
    }

    /// Peer and mode.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.peer, self.mode)
    }
}

impl Row {
    /// Whether it is of the same loop, issuers and items.
    fn is_same(&self, other: &Row) -> bool {
        let key = |row: &Row| (row.lap.clone(), row.issuers, row.item_us.map(f64::to_bits));
        key(self) == key(other)
    }

    /// Says of each run how much it is of what CPUs make that only compute, if that was measured too.
    pub(crate) fn compare_with_ceiling(&mut self) {
        let no_pool = self.entries.iter().find(|entry| entry.peer == NO_POOL);
        let Some(ceiling) = no_pool.and_then(|entry| entry.spread("rate")) else {
            return;
        };
        for run in self.entries.iter_mut().flat_map(|entry| &mut entry.runs) {
            if let Some(rate) = run.get("rate") {
                let percent = rate / ceiling.median * 100.0;
                run.insert("ceiling_percent".to_owned(), percent);
            }
        }
    }

    /// Entries from the best to the worst; those that failed last.
    pub(crate) fn ranked(&self) -> Vec<&Entry> {
        let first = &metrics(&self.lap)[0];
        let rank = |entry: &Entry| match entry.spread(first.key) {
            None => f64::INFINITY,
            Some(spread) if first.more_is_better => -spread.median,
            Some(spread) => spread.median,
        };
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        entries
    }

    /// Every mode of cmwq against the best peer, by every judged figure.
    fn comparisons(&self) -> Vec<Comparison> {
        let mut found = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.is_cmwq()) {
            for metric in metrics(&self.lap).iter().filter(|metric| metric.judged) {
                // Items of a thread that helps itself are another discipline: only handles are compared with them.
                let classes: &[(&'static str, bool)] = match entry.mode.as_str() {
                    "join" => &[("waiters sleep", false), ("waiters help", true)],
                    _ => &[("waiters sleep", false)],
                };
                for &(against, helping) in classes {
                    found.extend(self.compare(entry, metric, against, helping));
                }
            }
        }
        found
    }

    fn compare(
        &self,
        entry: &Entry,
        metric: &Metric,
        against: &'static str,
        helping: bool,
    ) -> Option<Comparison> {
        let value = entry.spread(metric.key)?.median;
        let rate = |peer: &Entry| peer.spread("rate").map_or(0.0, |rate| rate.median);
        let peers = self.entries.iter().filter(|peer| {
            !peer.is_cmwq() && !is_other_shape(&peer.mode) && waiter_helps(&peer.mode) == helping
        });
        let best_rate = peers.clone().map(rate).fold(0.0, f64::max);
        let peers = peers.filter(|peer| !metric.among_fast || rate(peer) >= FAST * best_rate);
        let (best, best_value) = peers
            .filter_map(|peer| Some((peer, peer.spread(metric.key)?.median)))
            .min_by(|(_, a), (_, b)| match metric.more_is_better {
                true => b.total_cmp(a),
                false => a.total_cmp(b),
            })?;
        let [ours, theirs] = [value, best_value].map(|figure| figure.max(metric.unit.least()));
        let ratio = if metric.more_is_better {
            ours / theirs
        } else {
            theirs / ours
        };
        Some(Comparison {
            lap: self.lap.clone(),
            issuers: self.issuers,
            item_us: self.item_us,
            mode: entry.mode.clone(),
            metric: full_name(metric),
            key: metric.key,
            value,
            against,
            best_peer: best.label(),
            best_value,
            ratio,
        })
    }
}

impl Results {
    /// Adds rows of another file: peers that a row does not have yet, and rows that are new.
    pub(crate) fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            let same = |known: &&mut Row| known.is_same(&row);
            match self.rows.iter_mut().find(same) {
                None => self.rows.push(row),
                Some(known) => {
                    for entry in row.entries {
                        if known
                            .entries
                            .iter()
                            .all(|other| other.label() != entry.label())
                        {
                            known.entries.push(entry);
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn compare(&mut self) {
        self.comparisons = self.rows.iter().flat_map(Row::comparisons).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry whose runs have these figures of a metric.
    fn entry(peer: &str, mode: &str, key: &str, values: &[f64]) -> Entry {
        Entry {
            peer: peer.to_owned(),
            version: "1".to_owned(),
            mode: mode.to_owned(),
            runs: values
                .iter()
                .map(|&value| Figures::from([(key.to_owned(), value)]))
                .collect(),
            error: None,
        }
    }

    fn row(entries: Vec<Entry>) -> Row {
        Row {
            lap: "roundtrip".to_owned(),
            issuers: 2,
            item_us: None,
            entries,
        }
    }

    #[test]
    fn a_spread_is_that_of_runs_that_all_have_the_figure() {
        let spread = entry("a", "park", "rate", &[3.0, 1.0, 2.0])
            .spread("rate")
            .unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        let median = |runs: &[f64]| Some(entry("a", "park", "rate", runs).spread("rate")?.median);
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!((median(&[7.0]), median(&[])), (Some(7.0), None));
        let mut some = entry("a", "park", "rate", &[1.0]);
        some.runs.push(Figures::new());
        assert!(some.spread("rate").is_none());
        assert!(entry("a", "park", "rate", &[]).spread("rate").is_none());
    }

    #[test]
    fn the_best_is_the_greatest_rate_and_the_least_latency_and_a_ratio_above_one_is_better() {
        let rates = row(vec![
            entry("cmwq", "completion", "rate", &[30.0]),
            entry("a", "park", "rate", &[10.0]),
            entry("b", "park", "rate", &[20.0]),
        ]);
        let found = rates.comparisons();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].best_peer.as_str(), found[0].ratio),
            ("b park", 1.5)
        );
        let times = row(vec![
            entry("cmwq", "completion", "enqueue_p50_ns", &[300.0]),
            entry("a", "park", "enqueue_p50_ns", &[100.0]),
            entry("b", "park", "enqueue_p50_ns", &[200.0]),
        ]);
        let found = times.comparisons();
        assert_eq!(found[0].best_peer, "a park");
        assert!((found[0].ratio - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn waiters_that_help_are_compared_with_handles_only_and_other_shapes_with_nothing() {
        let rates = row(vec![
            entry("cmwq", "completion", "rate", &[10.0]),
            entry("cmwq", "join", "rate", &[10.0]),
            entry("a", "help", "rate", &[20.0]),
            entry("a", "unpinned", "rate", &[40.0]),
            entry("a", "park", "rate", &[5.0]),
        ]);
        let found: Vec<_> = rates
            .comparisons()
            .into_iter()
            .map(|c| (c.mode, c.best_peer, c.ratio))
            .collect();
        let expected = [
            ("completion", "a park", 2.0),
            ("join", "a park", 2.0),
            ("join", "a help", 0.5),
        ];
        assert_eq!(
            found,
            expected.map(|(mode, peer, ratio)| (mode.to_owned(), peer.to_owned(), ratio))
        );
    }

    #[test]
    fn the_latency_of_a_busy_pool_is_compared_among_the_fast() {
        let busy = |peer: &str, rate: f64, p99: f64| {
            let mut entry = entry(peer, "count", "rate", &[rate]);
            entry.runs[0].insert("latency_p99_ns".to_owned(), p99);
            entry
        };
        let mut window = row(vec![
            busy("cmwq", 90.0, 400.0),
            busy("fastest", 100.0, 1_000.0),
            busy("fast", 91.0, 800.0),
            busy("slow", 50.0, 100.0),
        ]);
        window.lap = "window".to_owned();
        let found = window.comparisons();
        let p99 = found
            .iter()
            .find(|found| found.key == "latency_p99_ns")
            .unwrap();
        assert_eq!((p99.best_peer.as_str(), p99.ratio), ("fast count", 2.0));
    }

    #[test]
    fn nothing_used_twice_over_is_equal() {
        let mut idle = row(vec![
            entry("cmwq", "start", "idle_cpu_us", &[0.0]),
            entry("a", "start", "idle_cpu_us", &[0.0]),
        ]);
        idle.lap = "idle".to_owned();
        assert_eq!(idle.comparisons()[0].ratio, 1.0);
    }

    #[test]
    fn the_start_behind_hogs_is_compared_by_its_percentiles_and_the_least_ranks_first() {
        let hogged = |peer: &str, p99: f64| {
            let mut entry = entry(peer, "start", "latency_p99_ns", &[p99]);
            entry.runs[0].insert("latency_p50_ns".to_owned(), p99 / 2.0);
            entry.runs[0].insert("after_hogs".to_owned(), 100.0);
            entry
        };
        let mut row = row(vec![
            hogged("fixed", 4e9),
            hogged("cmwq", 40e6),
            hogged("threads", 20e6),
        ]);
        row.lap = "hogged".to_owned();
        let found: Vec<_> = row
            .comparisons()
            .into_iter()
            .map(|found| (found.key, found.best_peer, found.ratio))
            .collect();
        let expected =
            ["latency_p99_ns", "latency_p50_ns"].map(|key| (key, "threads start".to_owned(), 0.5));
        assert_eq!(found, expected);
        let ranks: Vec<&str> = row
            .ranked()
            .iter()
            .map(|entry| entry.peer.as_str())
            .collect();
        assert_eq!(ranks, ["threads", "cmwq", "fixed"]);
    }

    #[test]
    fn files_are_joined_row_by_row_and_peer_by_peer() {
        let mut all = Results {
            tool: String::new(),
            machine: String::new(),
            date: String::new(),
            cpus: 2,
            runs: 1,
            time_ms: 1,
            idle_ms: 1,
            item_ns: 1.0,
            floor: Figures::new(),
            missing: Vec::new(),
            rows: vec![row(vec![entry("cmwq", "join", "rate", &[1.0])])],
            comparisons: Vec::new(),
        };
        let mut other = row(vec![]);
        other.issuers = 4;
        let again = row(vec![
            entry("cmwq", "join", "rate", &[9.0]),
            entry("a", "park", "rate", &[2.0]),
        ]);
        all.add(vec![again, other]);
        assert_eq!(all.rows.len(), 2);
        assert_eq!(all.rows[0].entries.len(), 2);
        assert_eq!(all.rows[0].entries[0].runs[0]["rate"], 1.0);
    }

    #[test]
    fn the_ceiling_is_what_was_computed_without_a_pool_and_is_compared_with_nothing() {
        let mut window = row(vec![
            entry("cmwq", "count", "rate", &[80.0, 90.0]),
            entry("a", "count", "rate", &[60.0]),
        ]);
        window.lap = "window".to_owned();
        window.compare_with_ceiling();
        assert!(window.entries[0].spread("ceiling_percent").is_none());
        let bare = entry(NO_POOL, "compute", "rate", &[100.0, 110.0, 90.0]);
        window.entries.push(bare);
        window.compare_with_ceiling();
        let share = window.entries[0].spread("ceiling_percent").unwrap();
        assert_eq!((share.min, share.max), (80.0, 90.0));
        let best: Vec<_> = window
            .comparisons()
            .into_iter()
            .map(|found| found.best_peer)
            .collect();
        assert_eq!(best, ["a count"]);
    }

    #[test]
    fn figures_are_derived_from_items_and_time() {
        let mut figures = Figures::from(
            [
                ("items", 100.0),
                ("seconds", 0.5),
                ("cpu_s", 1.0),
                ("peak_kib", 2048.0),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        derive(&mut figures);
        assert_eq!(figures["rate"], 200.0);
        assert_eq!(figures["cpu_us_per_item"], 10_000.0);
        assert_eq!(figures["peak_mib"], 2.0);
    }
}
