//! What the runs of one machine and load say together.

use super::super::rows::Ran;
use super::plan::{Key, Matrix, OfMatrix};
use super::results::Results;
use cmwq_loads::Load;
use serde::Serialize;
use std::collections::BTreeMap;

/// The means of all seeds of one setting.
#[derive(Clone, Serialize)]
pub(super) struct Means {
    pub(super) setting: String,
    pub(super) pods: usize,
    pub(super) merit: f64,
    pub(super) items_per_s: f64,
    /// The best seed's merit by the worst one's.
    pub(super) spread: f64,
    pub(super) is_steady: bool,
    pub(super) measured_ns: u64,
    /// 0: the load has no such times.
    pub(super) start_p50_ns: u64,
    pub(super) start_p99_ns: u64,
    pub(super) done_p50_ns: u64,
    pub(super) done_p99_ns: u64,
    pub(super) wakeups: f64,
    pub(super) switches: f64,
    pub(super) busy_ns: f64,
    pub(super) line_transfers: f64,
}

/// A cell of the heat maps.
#[derive(Serialize)]
pub(super) struct Judged {
    pub(super) machine: String,
    /// What the machine's description left open and was assumed, one line each.
    pub(super) assumed: Vec<String>,
    pub(super) load: String,
    pub(super) default: Means,
    /// The best setting; the default itself, if that is the best.
    pub(super) best: String,
    /// The default by the best.
    pub(super) to_best: Option<f64>,
    /// The default by what the CPUs bear.
    pub(super) to_bound: Option<f64>,
    /// The default by the same machine with half of its CPUs.
    pub(super) to_half: Option<f64>,
    /// All settings, the best first.
    pub(super) settings: Vec<Means>,
}

/// All machines and loads of which there is a default.
pub(super) fn all(matrix: &Matrix, results: &Results) -> Vec<Judged> {
    let mut judged = Vec::new();
    for machine in &matrix.machines {
        for (name, load) in &matrix.loads {
            judged.extend(one(matrix, results, machine, name, load));
        }
    }
    judged
}

fn one(
    matrix: &Matrix,
    results: &Results,
    machine: &OfMatrix,
    name: &str,
    load: &Load,
) -> Option<Judged> {
    let of = |half: bool| {
        let wanted = |key: &Key| {
            key.machine == machine.name && key.load == name && key.half == half && matrix.has(key)
        };
        let mut by_setting: BTreeMap<String, Vec<(&Key, &Ran)>> = BTreeMap::new();
        for (key, ran) in results.of(wanted) {
            by_setting
                .entry(key.setting())
                .or_default()
                .push((key, ran));
        }
        by_setting
    };
    let full = of(false);
    let is_default = |runs: &&Vec<(&Key, &Ran)>| runs.iter().any(|(key, _)| key.is_default());
    let default = Means::of(full.values().find(is_default)?);
    let mut settings: Vec<Means> = full.values().map(|runs| Means::of(runs)).collect();
    settings.sort_by(|one, other| other.merit.total_cmp(&one.merit));
    let half = of(true).values().next().map(|runs| Means::of(runs));
    let bound = cmwq_sim::cmwq::bound(load, &machine.machine);
    Some(Judged {
        machine: machine.name.clone(),
        assumed: machine.assumed.clone(),
        load: name.to_owned(),
        best: settings[0].setting.clone(),
        to_best: ratio(&default, settings[0].merit).filter(|_| settings.len() > 1),
        to_bound: bound.and_then(|bound| ratio(&default, bound)),
        to_half: half.and_then(|half| ratio(&default, half.merit)),
        default,
        settings,
    })
}

/// `None`: one of them has come to no item's end.
fn ratio(one: &Means, other: f64) -> Option<f64> {
    (one.merit > 0.0 && other > 0.0).then(|| one.merit / other)
}

impl Means {
    fn of(runs: &[(&Key, &Ran)]) -> Means {
        let mean = |of: &dyn Fn(&Ran) -> f64| {
            runs.iter().map(|(_, ran)| of(ran)).sum::<f64>() / runs.len() as f64
        };
        let merits = || runs.iter().map(|(_, ran)| ran.merit);
        let (key, first) = runs[0];
        let of_start = |of: fn(&super::super::rows::Times) -> u64| {
            mean(&|ran| ran.start_ns.as_ref().map_or(0, of) as f64) as u64
        };
        let of_done = |of: fn(&super::super::rows::Times) -> u64| {
            mean(&|ran| ran.done_ns.as_ref().map_or(0, of) as f64) as u64
        };
        Means {
            setting: key.setting(),
            pods: first.pods,
            merit: mean(&|ran| ran.merit),
            items_per_s: mean(&|ran| ran.items_per_s),
            spread: merits().fold(0.0, f64::max) / merits().fold(f64::INFINITY, f64::min),
            is_steady: runs.iter().all(|(_, ran)| ran.is_steady),
            measured_ns: first.measured_ns,
            start_p50_ns: of_start(|times| times.p50),
            start_p99_ns: of_start(|times| times.p99),
            done_p50_ns: of_done(|times| times.p50),
            done_p99_ns: of_done(|times| times.p99),
            wakeups: mean(&|ran| ran.item.wakeups),
            switches: mean(&|ran| ran.item.switches),
            busy_ns: mean(&|ran| ran.item.busy_ns),
            line_transfers: mean(&|ran| ran.item.line_transfers),
        }
    }
}
