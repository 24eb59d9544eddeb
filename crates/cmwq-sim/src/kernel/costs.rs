//! What the reference engine's own instructions take, and the two figures that are fitted on measured rows.
//!
//! The model has two unknowns for each machine. What is done under a pool's lock decides how many
//! items one pool bears, so it is fitted on the `cache` row. The other one is fitted on the `cpu`
//! row, where pools are no bottleneck. It is what limits that row. Where the node's counter of
//! active items can be the limit (compare-exchange loops of 72 CPUs without a common order, on
//! 64-bit Arm), that is how often a CPU keeps a line until a compare-exchange that failed is
//! repeated; elsewhere it is the length of the path.
#![forbid(unsafe_code)]

use super::{Settings, WakeOrder, roundtrip};
use crate::pods::Scope;
use cmwq_vm::Stuck;
use cmwq_vm::machine::Machine;
use serde::{Deserialize, Serialize};

/// Durations in ns, without the cache lines and the system's share of wake-ups, which the machine charges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineCosts {
    /// Before the lock, in each enqueue.
    pub queue_ns: u64,
    /// In each critical section: an enqueue, the start of an item, its end.
    pub locked_ns: u64,
    /// In the worker, outside the lock, for each item.
    pub run_ns: u64,
    /// In the issuer, between two items.
    pub issuer_ns: u64,
    /// Between the load of the node's counter and the compare-exchange that adds to it.
    pub retry_ns: u64,
    /// The machine's [`kept_ppt`](cmwq_vm::machine::Costs::kept_ppt), which is fitted.
    pub kept_ppt: u64,
}

/// What is fitted on the row of the scope `cpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitted {
    /// The path's length.
    Path,
    /// [`EngineCosts::kept_ppt`].
    Counter,
}

/// What a machine has instead of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// See [`Fitted`].
    pub fitted: Fitted,
    /// The path of one item outside the locks, where it is not fitted: an estimate.
    pub path_ns: u64,
    /// The queueing call's share of the path, in parts per thousand. Chosen with sight of the
    /// enqueue latencies of `cpu` rows; throughput hardly depends on it.
    pub queue_ppt: u64,
    /// See [`EngineCosts::kept_ppt`], where it is not fitted: an estimate.
    pub kept_ppt: u64,
}

/// x86-64.
const X86: Model = Model {
    fitted: Fitted::Path,
    path_ns: 6_500,
    queue_ppt: 167,
    kept_ppt: 400,
};
/// 64-bit Arm.
const ARM: Model = Model {
    fitted: Fitted::Counter,
    path_ns: 6_000,
    queue_ppt: 583,
    kept_ppt: 150,
};
/// Of critical sections, where it is not fitted: between what comes out for Grace and for the 8321HC.
const LOCKED_NS: u64 = 250;

impl Model {
    /// The one for a machine of this name; x86-64 for names that are no preset.
    #[must_use]
    pub fn of(machine: &Machine) -> Model {
        if machine.name == "grace" { ARM } else { X86 }
    }

    /// The costs with these two figures.
    #[must_use]
    pub fn costs(self, path_ns: u64, kept_ppt: u64, locked_ns: u64) -> EngineCosts {
        let queue_ns = path_ns * self.queue_ppt / 1000;
        let rest = path_ns - queue_ns;
        EngineCosts {
            queue_ns,
            locked_ns,
            run_ns: rest / 2,
            issuer_ns: rest - rest / 2,
            retry_ns: 5,
            kept_ppt,
        }
    }

    /// The costs before any fit.
    #[must_use]
    pub fn default_costs(self) -> EngineCosts {
        self.costs(self.path_ns, self.kept_ppt, LOCKED_NS)
    }
}

/// Rows that were measured on a machine, in items per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rows {
    /// Of the scope `cpu`.
    pub cpu: Option<f64>,
    /// Of the scope `cache`.
    pub cache: Option<f64>,
}

/// Rounds in which the two figures are fitted in turn, and bisections of one.
const ROUNDS: usize = 3;
const STEPS: usize = 9;

/// Costs with which the machine comes out at these rows.
///
/// # Errors
/// As for [`roundtrip`].
pub fn fit(
    machine: &Machine,
    rows: Rows,
    wake: WakeOrder,
    items: usize,
    seed: u64,
) -> Result<EngineCosts, Stuck> {
    let model = Model::of(machine);
    let (mut path, mut kept, mut locked) = (model.path_ns, model.kept_ppt, LOCKED_NS);
    let rate = |scope: Scope, costs: EngineCosts| {
        let settings = Settings {
            pods: scope.pods(machine),
            strict: false,
            wake,
            costs,
        };
        roundtrip(machine, settings, items, seed).map(|row| row.items_per_s)
    };
    let rounds = if rows.cpu.is_some() && rows.cache.is_some() {
        ROUNDS
    } else {
        1
    };
    for _ in 0..rounds {
        if let Some(target) = rows.cache {
            locked = bisect(0, 6_000, |locked| {
                Ok(rate(Scope::Cache, model.costs(path, kept, locked))? > target)
            })?;
        }
        match (rows.cpu, model.fitted) {
            (Some(target), Fitted::Path) => {
                path = bisect(0, 60_000, |path| {
                    Ok(rate(Scope::Cpu, model.costs(path, kept, locked))? > target)
                })?;
            }
            (Some(target), Fitted::Counter) => {
                // More failures, fewer items.
                let failing = bisect(0, 960, |failing| {
                    Ok(rate(Scope::Cpu, model.costs(path, 1000 - failing, locked))? > target)
                })?;
                kept = 1000 - failing;
            }
            (None, _) => {}
        }
    }
    Ok(model.costs(path, kept, locked))
}

/// The value from which on `is_below` is false.
fn bisect(
    mut low: u64,
    mut high: u64,
    mut is_below: impl FnMut(u64) -> Result<bool, Stuck>,
) -> Result<u64, Stuck> {
    for _ in 0..STEPS {
        let middle = low.midpoint(high);
        if is_below(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low.midpoint(high))
}
