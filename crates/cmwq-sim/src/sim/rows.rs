//! What is run, and what comes out.

use super::args::{Engines, Plan, Wanted};
use crate::{LoopName, Percentiles};
use cmwq_sim::apart;
use cmwq_sim::cmwq::Loop;
use cmwq_sim::kernel::{EngineCosts, Latencies, Model, Rows, Settings, fit, roundtrip};
use cmwq_sim::pods::Scope;
use cmwq_sim::published::Role;
use cmwq_vm::Outcome;
use serde::{Deserialize, Serialize};

/// The result.
#[derive(Serialize)]
pub(super) struct Table {
    pub(super) machine: String,
    pub(super) engine: &'static str,
    /// When the kernel engine wakes, if that is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wake: Option<&'static str>,
    pub(super) seed: u64,
    #[serde(rename = "loop")]
    pub(super) kind: &'static str,
    pub(super) issuers: usize,
    pub(super) rows: Vec<Row>,
    /// Of a sweep: the largest shard that is within a twentieth of the best rate, for each engine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) best: Vec<Best>,
}

/// What a sweep advises.
#[derive(Serialize)]
pub(super) struct Best {
    pub(super) engine: &'static str,
    pub(super) shard_size: usize,
    pub(super) items_per_s: f64,
}

#[derive(Serialize)]
pub(super) struct Row {
    pub(super) engine: &'static str,
    pub(super) scope: &'static str,
    pub(super) shard_size: usize,
    pub(super) pods: usize,
    pub(super) items_per_s: f64,
    pub(super) enqueue_ns: Percentiles,
    /// Where the time of an item goes.
    pub(super) item: Account,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<Role>,
    pub(super) operations: u64,
    /// Of all that happened, in hexadecimal: the same seed gives the same.
    pub(super) log_hash: String,
    /// Enqueue latency at each percentile from 0 to 99, for the page.
    #[serde(skip)]
    pub(super) curve: Vec<u64>,
    #[serde(skip)]
    pub(super) cpus_per_pod: f64,
}

/// What the process of a row says of it.
#[derive(Serialize, Deserialize)]
struct Ran {
    pods: usize,
    items_per_s: f64,
    enqueue_ns: Percentiles,
    curve: Vec<u64>,
    item: Account,
    operations: u64,
    log_hash: String,
}

/// Per item, all CPUs together.
#[derive(Serialize, Deserialize)]
pub(super) struct Account {
    /// CPU time that was not idle.
    pub(super) busy_ns: f64,
    /// Transfers of cache lines.
    pub(super) line_transfers: f64,
    /// What accesses waited for a line that others were using.
    pub(super) line_wait_ns: f64,
    /// What the kernel engine waited for locks of pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lock_wait_ns: Option<f64>,
    pub(super) wakeups: f64,
    pub(super) switches: f64,
    /// The places of the library's source that have waited for lines the longest.
    pub(super) waits: Vec<Wait>,
}

/// What an item waits for lines at one place of the source, transfers included.
#[derive(Serialize, Deserialize)]
pub(super) struct Wait {
    pub(super) at: String,
    pub(super) ns: f64,
    pub(super) times: f64,
}

/// As many places as are named.
const WAITS: usize = 12;

impl Account {
    fn new(outcome: &Outcome, lock_wait_ns: Option<u64>, items: usize) -> Account {
        let each = |total: u64| total as f64 / items.max(1) as f64;
        Account {
            busy_ns: each(outcome.busy_ns),
            line_transfers: each(outcome.transfers),
            line_wait_ns: each(outcome.waited_ns),
            lock_wait_ns: lock_wait_ns.map(each),
            wakeups: each(outcome.wakeups),
            switches: each(outcome.switches),
            waits: outcome
                .waits
                .iter()
                .take(WAITS)
                .map(|wait| Wait {
                    at: format!("{}:{}", wait.at.file(), wait.at.line()),
                    ns: each(wait.ns),
                    times: each(wait.count),
                })
                .collect(),
        }
    }
}

impl Table {
    pub(super) fn new(plan: &Plan) -> Table {
        Table {
            machine: plan.machine.name.clone(),
            engine: match plan.engines {
                Engines::Cmwq => "cmwq",
                Engines::Kernel => "kernel",
                Engines::Both => "both",
            },
            wake: (plan.engines != Engines::Cmwq).then(|| plan.wake.name()),
            seed: plan.seed,
            kind: match plan.kind {
                LoopName::Roundtrip => "roundtrip",
                LoopName::Flood => "flood",
                LoopName::Window => "window",
                LoopName::BlockLoad => "block-load",
            },
            issuers: plan.issuers,
            rows: Vec::new(),
            best: Vec::new(),
        }
    }

    /// Says which rows of the kernel engine were fitted.
    pub(super) fn take_calibration(&mut self, plan: &Plan) {
        if plan.calibrate == Rows::default() {
            return;
        }
        for row in self.rows.iter_mut().filter(|row| row.engine == "kernel") {
            let measured = match row.scope {
                "cpu" => plan.calibrate.cpu,
                "cache" => plan.calibrate.cache,
                _ => None,
            };
            let fitted = measured.is_some();
            if let Some(rate) = measured.filter(|rate| (row.items_per_s / rate - 1.0).abs() > 0.15)
            {
                crate::warn(format!(
                    "--calibrate: the fit comes to {}={:.0}, measured was {rate:.0}: no costs of this model give that on this machine",
                    row.scope, row.items_per_s
                ));
            }
            row.role = Some(if fitted {
                Role::Calibrate
            } else {
                Role::Predict
            });
        }
    }

    pub(super) fn choose(&mut self) {
        for engine in ["cmwq", "kernel"] {
            let rows = || self.rows.iter().filter(|row| row.engine == engine);
            let most = rows().map(|row| row.items_per_s).fold(0.0, f64::max);
            let near = rows().filter(|row| row.items_per_s >= 0.95 * most);
            let best = near.max_by_key(|row| row.shard_size).map(|row| Best {
                engine,
                shard_size: row.shard_size,
                items_per_s: row.items_per_s,
            });
            self.best.extend(best);
        }
    }
}

/// The kernel engine's costs: fitted, or those that a machine has without a fit. `None`: it is not run.
pub(super) fn kernel_costs(plan: &Plan) -> Result<Option<EngineCosts>, String> {
    if plan.engines == Engines::Cmwq {
        return Ok(None);
    }
    if plan.calibrate == Rows::default() {
        return Ok(Some(Model::of(&plan.machine).default_costs()));
    }
    let order = plan.wake.order();
    let fitted = apart::run(|| {
        fit(&plan.machine, plan.calibrate, order, plan.items, plan.seed)
            .map_err(|stuck| format!("a simulated run has no end: {stuck}"))
    });
    fitted.map(Some)
}

/// Runs one row. It is the same alone and among others.
pub(super) fn run(plan: &Plan, row: &Wanted, costs: Option<&EngineCosts>) -> Result<Row, String> {
    let ran = apart::run(|| match costs {
        Some(costs) if row.is_kernel => of_kernel(plan, row, costs),
        _ => of_cmwq(plan, row),
    })?;
    Ok(Row {
        engine: if row.is_kernel { "kernel" } else { "cmwq" },
        scope: row.scope,
        shard_size: row.shard_size,
        pods: ran.pods,
        items_per_s: ran.items_per_s,
        enqueue_ns: ran.enqueue_ns,
        item: ran.item,
        role: None,
        operations: ran.operations,
        log_hash: ran.log_hash,
        curve: ran.curve,
        cpus_per_pod: plan.machine.cpus.len() as f64 / ran.pods.max(1) as f64,
    })
}

fn of_cmwq(plan: &Plan, row: &Wanted) -> Result<Ran, String> {
    let run = cmwq_sim::cmwq::Plan {
        machine: plan.machine.clone(),
        scope: row
            .scope
            .parse()
            .map_err(|_| format!("no scope {:?}", row.scope))?,
        shard_size: row.shard_size,
        strict: plan.strict,
        kind: match plan.kind {
            LoopName::Roundtrip => Loop::Roundtrip,
            LoopName::Flood => Loop::Flood,
            LoopName::Window => Loop::Window,
            LoopName::BlockLoad => Loop::BlockLoad,
        },
        issuers: plan.issuers,
        items: plan.items,
        seed: plan.seed,
    };
    let ran = cmwq_sim::cmwq::run(&run).map_err(|failed| failed.to_string())?;
    let account = Account::new(&ran.outcome, None, plan.issuers * plan.items);
    Ok(filled(
        ran.pods,
        ran.items_per_s,
        &ran.enqueue,
        account,
        &ran.outcome,
    ))
}

fn of_kernel(plan: &Plan, row: &Wanted, costs: &EngineCosts) -> Result<Ran, String> {
    let scope = Scope::parse(row.scope, row.shard_size)
        .ok_or_else(|| format!("no scope {:?}", row.scope))?;
    let settings = Settings {
        pods: scope.pods(&plan.machine),
        strict: false,
        wake: plan.wake.order(),
        costs: costs.clone(),
    };
    let ran = roundtrip(&plan.machine, settings, plan.items, plan.seed)
        .map_err(|stuck| format!("a simulated run has no end: {stuck}"))?;
    let items = plan.machine.cpus.len() * plan.items;
    let account = Account::new(&ran.outcome, Some(ran.locks.waited_ns), items);
    Ok(filled(
        ran.pods,
        ran.items_per_s,
        &ran.enqueue,
        account,
        &ran.outcome,
    ))
}

fn filled(
    pods: usize,
    items_per_s: f64,
    enqueue: &Latencies,
    item: Account,
    outcome: &Outcome,
) -> Ran {
    Ran {
        pods,
        items_per_s,
        enqueue_ns: Percentiles::of(enqueue),
        curve: (0..100).map(|p| enqueue.percentile(p)).collect(),
        item,
        operations: outcome.operations,
        log_hash: format!("{:016x}", outcome.log_hash),
    }
}
