//! Every published row beside ours.
//!
//! Which rows are used for calibration is fixed here: `cpu` and `cache` of the Grace run A and of
//! the 8321HC, one shard on the 9D64, `cpu` before for the deferred wake-ups. All others are
//! predictions.
#![forbid(unsafe_code)]

use crate::kernel::{EngineCosts, Measured, Rows, Settings, WakeOrder, fit, roundtrip};
use crate::pods::Scope;
use cmwq_vm::Stuck;
use cmwq_vm::machine::{Machine, preset};
use serde::Serialize;

/// What a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The model is fitted on it.
    Calibrate,
    /// It is a test of the model.
    Predict,
}

/// One published row and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The published table: its number in the collection of published figures.
    pub set: &'static str,
    /// The row in it.
    pub row: String,
    /// Items per second; for set 2, the patched rate divided by the baseline's.
    pub published: f64,
    /// The same, simulated.
    pub predicted: f64,
    /// Our ratio to the run's `cache` row over the published one, less 1; so 0 for `cache` itself.
    pub ratio_error: f64,
    /// See [`Role`].
    pub role: Role,
    /// The median of the enqueue latencies, where it is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_p50_published_ns: Option<u64>,
    /// The same, simulated.
    pub enqueue_p50_predicted_ns: u64,
    /// The fastest 95 %, where it is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_p95_published_ns: Option<u64>,
    /// The same, simulated.
    pub enqueue_p95_predicted_ns: u64,
    /// Workers at the end, of which no figure is published.
    pub workers: usize,
}

/// Two published runs of one configuration differ by so much in their medians of enqueueing.
pub const P50_FACTOR: f64 = 1.5;

impl Row {
    /// Whether our median of enqueueing is within [`P50_FACTOR`] of the published one, if there is one.
    #[must_use]
    pub fn is_p50_near(&self) -> Option<bool> {
        let published = self.enqueue_p50_published_ns? as f64;
        let ratio = self.enqueue_p50_predicted_ns as f64 / published;
        Some((1.0 / P50_FACTOR..=P50_FACTOR).contains(&ratio))
    }
}

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Items of each issuer in a row.
    pub items: usize,
    /// Items of each issuer in each step of a fit.
    pub fit_items: usize,
    /// The seed.
    pub seed: u64,
}

/// Items per second, p50 and p95 as published; 0: not published.
type Published = (&'static str, Scope, f64, u64, u64);

const GRACE_A: [Published; 6] = [
    ("cpu", Scope::Cpu, 3_248_519.0, 10_944, 11_648),
    ("smt", Scope::Smt, 3_362_119.0, 10_945, 11_712),
    (
        "cache_shard",
        Scope::CacheShardByCpu(8),
        3_629_098.0,
        6_080,
        9_728,
    ),
    ("cache", Scope::Cache, 708_168.0, 44_000, 47_904),
    ("numa", Scope::Numa, 710_559.0, 44_096, 48_064),
    ("system", Scope::System, 718_370.0, 43_104, 47_264),
];
const GRACE_B: [Published; 6] = [
    ("cpu", Scope::Cpu, 3_433_158.0, 16_416, 17_664),
    ("smt", Scope::Smt, 3_449_709.0, 16_576, 17_792),
    (
        "cache_shard",
        Scope::CacheShardByCpu(8),
        2_939_917.0,
        8_192,
        12_512,
    ),
    ("cache", Scope::Cache, 602_096.0, 53_056, 57_248),
    ("numa", Scope::Numa, 599_090.0, 53_152, 57_376),
    ("system", Scope::System, 598_865.0, 53_184, 57_408),
];
const X8321HC: [Published; 6] = [
    ("cpu", Scope::Cpu, 2_831_751.0, 3_909, 11_580),
    ("smt", Scope::Smt, 2_810_699.0, 2_229, 5_979),
    (
        "cache_shard",
        Scope::CacheShardByCpu(8),
        1_861_028.0,
        4_874,
        9_415,
    ),
    ("cache", Scope::Cache, 591_001.0, 24_901, 31_169),
    ("numa", Scope::Numa, 590_431.0, 24_901, 31_133),
    ("system", Scope::System, 591_912.0, 25_049, 31_219),
];
/// Shards of a last-level cache, items per second of `cache` and of the shards, p50 of both in ns.
type Shards = (usize, f64, f64, u64, u64);

const SHARDS_9D64: [Shards; 4] = [
    (1, 2_660_103.0, 2_667_740.0, 27_500, 27_500),
    (2, 2_619_884.0, 3_788_454.0, 28_000, 17_800),
    (4, 2_506_185.0, 3_891_064.0, 29_300, 16_500),
    (8, 2_628_321.0, 4_015_312.0, 27_900, 16_400),
];
const SHARDS_GRACE: [Shards; 3] = [
    (2, 725_999.0, 1_516_967.0, 43_800, 19_600),
    (4, 729_615.0, 2_347_335.0, 43_600, 11_000),
    (8, 731_517.0, 3_230_168.0, 43_500, 6_900),
];
/// Baseline and patched, items per second.
const DEFERRED: [(&str, Scope, f64, f64); 6] = [
    ("cpu", Scope::Cpu, 2_569_880.0, 3_029_740.0),
    ("smt", Scope::Smt, 2_586_485.0, 3_044_788.0),
    ("cache_shard", Scope::CacheShard(8), 572_055.0, 797_621.0),
    ("cache", Scope::Cache, 538_132.0, 724_997.0),
    ("numa", Scope::Numa, 528_673.0, 658_215.0),
    ("system", Scope::System, 524_287.0, 614_486.0),
];

/// A machine with its fitted costs.
struct Fit {
    machine: Machine,
    costs: EngineCosts,
    effort: Effort,
}

impl Fit {
    fn new(name: &str, rows: Rows, effort: Effort) -> Result<Fit, Stuck> {
        let machine = preset(name).expect("a preset").machine();
        let order = WakeOrder::UnderTheLock;
        let costs = fit(&machine, rows, order, effort.fit_items, effort.seed)?;
        Ok(Fit {
            machine,
            costs,
            effort,
        })
    }

    fn measure(&self, scope: Scope, wake: WakeOrder) -> Result<Measured, Stuck> {
        let settings = Settings {
            pods: scope.pods(&self.machine),
            strict: false,
            wake,
            costs: self.costs.clone(),
        };
        roundtrip(&self.machine, settings, self.effort.items, self.effort.seed)
    }

    /// Rows of one published run, which are compared by their ratio to its `cache`.
    fn run(
        &self,
        set: &'static str,
        table: &[Published],
        calibrated: bool,
    ) -> Result<Vec<Row>, Stuck> {
        let measured: Vec<Measured> = table
            .iter()
            .map(|row| self.measure(row.1, WakeOrder::UnderTheLock))
            .collect::<Result<_, _>>()?;
        let at = |name: &str| {
            table
                .iter()
                .position(|row| row.0 == name)
                .expect("it is in each")
        };
        let cache = at("cache");
        let rows = table.iter().zip(&measured).map(|(row, ours)| {
            let is_fitted = calibrated && matches!(row.0, "cpu" | "cache");
            let published = row.2 / table[cache].2;
            let predicted = ours.items_per_s / measured[cache].items_per_s;
            Row {
                published: row.2,
                ratio_error: predicted / published - 1.0,
                role: if is_fitted {
                    Role::Calibrate
                } else {
                    Role::Predict
                },
                enqueue_p50_published_ns: Some(row.3),
                enqueue_p95_published_ns: Some(row.4),
                ..Row::ours(set, row.0.to_owned(), ours)
            }
        });
        Ok(rows.collect())
    }

    /// Rows that are compared by their ratio to the `cache` row measured beside each. `cut`: the
    /// rule by which the caches are cut.
    fn shards(
        &self,
        set: &'static str,
        table: &[Shards],
        rule: &str,
        cut: fn(usize) -> Scope,
    ) -> Result<Vec<Row>, Stuck> {
        let cache = self.measure(Scope::Cache, WakeOrder::UnderTheLock)?;
        let mut rows = Vec::new();
        for &(shards, of_cache, of_shards, _, p50) in table {
            let ours = self.measure(cut(shards), WakeOrder::UnderTheLock)?;
            let predicted = ours.items_per_s / cache.items_per_s;
            let role = if shards == 1 {
                Role::Calibrate
            } else {
                Role::Predict
            };
            rows.push(Row {
                published: of_shards,
                ratio_error: predicted / (of_shards / of_cache) - 1.0,
                role,
                enqueue_p50_published_ns: Some(p50),
                ..Row::ours(set, format!("{shards} shards {rule}"), &ours)
            });
        }
        Ok(rows)
    }

    /// Rates after divided by rates before.
    fn deferred(&self) -> Result<Vec<Row>, Stuck> {
        let mut rows = Vec::new();
        for &(name, scope, before, after) in &DEFERRED {
            let early = self.measure(scope, WakeOrder::UnderTheLock)?;
            let late = self.measure(scope, WakeOrder::AfterTheLock)?;
            let (published, predicted) = (after / before, late.items_per_s / early.items_per_s);
            rows.push(Row {
                published,
                predicted,
                ratio_error: predicted / published - 1.0,
                ..Row::ours("2", format!("{name} after/before"), &late)
            });
        }
        Ok(rows)
    }
}

impl Row {
    fn ours(set: &'static str, row: String, ours: &Measured) -> Row {
        Row {
            set,
            row,
            published: 0.0,
            predicted: ours.items_per_s,
            ratio_error: 0.0,
            role: Role::Predict,
            enqueue_p50_published_ns: None,
            enqueue_p50_predicted_ns: ours.enqueue.percentile(50),
            enqueue_p95_published_ns: None,
            enqueue_p95_predicted_ns: ours.enqueue.percentile(95),
            workers: ours.workers,
        }
    }
}

/// How often [`all`] reports progress.
pub const STEPS: usize = 5;

/// All of them. `progress` gets what is being done.
///
/// # Errors
/// As for [`roundtrip`].
pub fn all(effort: Effort, mut progress: impl FnMut(&str)) -> Result<Vec<Row>, Stuck> {
    let mut rows = Vec::new();
    let both = |cpu, cache| Rows {
        cpu: Some(cpu),
        cache: Some(cache),
    };
    progress("Grace, 72 CPUs");
    let grace = Fit::new("grace", both(GRACE_A[0].2, GRACE_A[3].2), effort)?;
    rows.extend(grace.run("1a", &GRACE_A, true)?);
    rows.extend(grace.run("1b", &GRACE_B, false)?);
    progress("8321HC, 51 CPUs");
    let xeon = Fit::new("8321hc", both(X8321HC[0].2, X8321HC[3].2), effort)?;
    rows.extend(xeon.run("1c", &X8321HC, true)?);
    progress("9D64, 176 CPUs");
    let cache = Some(SHARDS_9D64[0].1);
    let epyc = Fit::new("9d64", Rows { cpu: None, cache }, effort)?;
    rows.extend(epyc.shards("1d", &SHARDS_9D64, "by core", Scope::PartsByCore)?);
    rows.extend(epyc.shards("1d", &SHARDS_9D64[1..], "by CPU", Scope::PartsByCpu)?);
    progress("Grace in parts");
    rows.extend(grace.shards("1e", &SHARDS_GRACE, "by core", Scope::PartsByCore)?);
    progress("deferred wake-ups");
    let mut deferred = Fit::new("grace", both(DEFERRED[0].2, GRACE_A[3].2), effort)?;
    // Only the `cpu` row before is used of that table.
    deferred.costs.locked_ns = grace.costs.locked_ns;
    rows.extend(deferred.deferred()?);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_near_within_the_factor_on_both_sides() {
        let near = |predicted, published| {
            let row = Row {
                set: "1a",
                row: "cache".to_owned(),
                published: 1.0,
                predicted: 1.0,
                ratio_error: 0.0,
                role: Role::Predict,
                enqueue_p50_published_ns: published,
                enqueue_p50_predicted_ns: predicted,
                enqueue_p95_published_ns: None,
                enqueue_p95_predicted_ns: 0,
                workers: 0,
            };
            row.is_p50_near()
        };
        assert_eq!(near(150, Some(100)), Some(true));
        assert_eq!(near(151, Some(100)), Some(false));
        assert_eq!(near(66, Some(100)), Some(false));
        assert_eq!(near(67, Some(100)), Some(true));
        assert_eq!(near(67, None), None);
    }
}
