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
                // Items of a thread that helps itself are another discipline: only handles are
                // compared with them.
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
mod tests;
