//! What is run, and what comes out.

use super::args::{DEFAULT_SIZE, Engines, Plan, Wanted};
use crate::Percentiles;
use cmwq_loads::Latency;
use cmwq_sim::apart;
use cmwq_sim::kernel::{EngineCosts, Latencies, Model, Rows, Settings, fit, roundtrip};
use cmwq_sim::pods::Scope;
use cmwq_sim::published::Role;
use cmwq_vm::{Outcome, os::Totals};
use serde::{Deserialize, Serialize};

/// The result.
#[derive(Serialize)]
pub(super) struct Table {
    pub(super) machine: String,
    /// What the machine's description left open and was assumed, one line each.
    pub(super) assumed: Vec<String>,
    pub(super) placement: &'static str,
    pub(super) engine: &'static str,
    /// When the kernel engine wakes, if that is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wake: Option<&'static str>,
    /// The first seed, and how many.
    pub(super) seed: u64,
    pub(super) seeds: u64,
    pub(super) load: String,
    pub(super) issuers: usize,
    pub(super) rows: Vec<Row>,
    /// Of a sweep: the largest shard that is within a twentieth of the best, for each engine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) best: Vec<Best>,
}

/// What a sweep advises.
#[derive(Serialize)]
pub(super) struct Best {
    pub(super) engine: &'static str,
    pub(super) shard_size: usize,
    pub(super) items_per_s: f64,
    /// Of a load that is compared by it: the median time to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) done_p50_ns: Option<u64>,
    /// All rows that were compared are steady.
    pub(super) is_steady: bool,
    /// Of cmwq: whether to keep the default, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<String>,
}

/// The means of all seeds.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) engine: &'static str,
    pub(super) scope: &'static str,
    pub(super) shard_size: usize,
    pub(super) pods: usize,
    pub(super) items_per_s: f64,
    /// Of the slowest and of the fastest seed.
    pub(super) items_per_s_min: f64,
    pub(super) items_per_s_max: f64,
    /// By what the load is compared, see [`Ran::merit`].
    #[serde(skip)]
    pub(super) merit: f64,
    /// In all seeds the last two time windows agree.
    pub(super) is_steady: bool,
    /// How long these windows are together, in virtual time.
    pub(super) measured_ns: u64,
    pub(super) enqueue_ns: Percentiles,
    /// From queueing an item to its start, and to the end that its issuer sees; for a burst or a
    /// join to the end of the last item. Of the first seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_ns: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) done_ns: Option<Times>,
    /// Where the time of an item goes.
    pub(super) item: Account,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<Role>,
    pub(super) operations: u64,
    /// Of all that happened with the first seed, in hexadecimal: the same seed gives the same.
    pub(super) log_hash: String,
    /// Enqueue latency at each percentile from 0 to 99, for the page.
    #[serde(skip)]
    pub(super) curve: Vec<u64>,
    #[serde(skip)]
    pub(super) cpus_per_pod: f64,
}

/// Percentiles of a load's times.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) p999: u64,
}

impl Times {
    fn of(latency: &Latency) -> Option<Times> {
        (latency.count > 0).then_some(Times {
            p50: latency.p50_ns,
            p99: latency.p99_ns,
            p999: latency.p999_ns,
        })
    }
}

/// What the process of one run says of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Ran {
    pub(super) pods: usize,
    pub(super) items_per_s: f64,
    pub(super) is_steady: bool,
    pub(super) measured_ns: u64,
    /// By what loads are compared, the more the better, where that is not the rate.
    pub(super) merit: f64,
    pub(super) enqueue_ns: Percentiles,
    pub(super) start_ns: Option<Times>,
    pub(super) done_ns: Option<Times>,
    pub(super) curve: Vec<u64>,
    pub(super) item: Account,
    pub(super) operations: u64,
    pub(super) log_hash: String,
}

impl Ran {
    /// What a matrix does not need.
    pub(super) fn forget_details(&mut self) {
        self.curve.clear();
        self.item.waits.clear();
    }
}

/// Per item, all CPUs together.
#[derive(Clone, Default, Serialize, Deserialize)]
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
    /// The places of the library's source that have waited for lines the longest, from the
    /// machine's start.
    pub(super) waits: Vec<Wait>,
}

/// What an item waits for lines at one place of the source, transfers included.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Wait {
    pub(super) at: String,
    pub(super) ns: f64,
    pub(super) times: f64,
}

/// As many places as are named.
const WAITS: usize = 12;

impl Account {
    /// Of `items`, for which the machine `did` this; `all` were waited for in the whole run.
    fn new(did: &Totals, items: u64, outcome: &Outcome, all: f64) -> Account {
        let each = |total: u64| total as f64 / items.max(1) as f64;
        let of_all = |total: u64| total as f64 / all.max(1.0);
        let named = outcome.waits.iter().take(WAITS).map(|wait| Wait {
            at: format!("{}:{}", wait.at.file(), wait.at.line()),
            ns: of_all(wait.ns),
            times: of_all(wait.count),
        });
        Account {
            busy_ns: each(did.busy_ns),
            line_transfers: each(did.transfers),
            line_wait_ns: each(did.waited_ns),
            lock_wait_ns: None,
            wakeups: each(did.wakeups),
            switches: each(did.switches),
            waits: named.collect(),
        }
    }
}

impl Table {
    pub(super) fn new(plan: &Plan) -> Table {
        Table {
            machine: plan.machine.name.clone(),
            assumed: plan.assumed.clone(),
            placement: super::args::placement_name(plan.machine.placement),
            engine: match plan.engines {
                Engines::Cmwq => "cmwq",
                Engines::Kernel => "kernel",
                Engines::Both => "both",
            },
            wake: (plan.engines != Engines::Cmwq).then(|| plan.wake.name()),
            seed: plan.seed,
            seeds: plan.seeds,
            load: plan.load_name(),
            issuers: plan.issuers(),
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
            let merits: Vec<_> = rows().map(|row| (row.shard_size, row.merit)).collect();
            let size = largest_that_is_near(&merits);
            let best = rows().find(|row| Some(row.shard_size) == size);
            let best = best.map(|row| Best {
                engine,
                shard_size: row.shard_size,
                items_per_s: row.items_per_s,
                done_p50_ns: row
                    .done_ns
                    .as_ref()
                    .map(|times| times.p50)
                    .filter(|_| row.merit != row.items_per_s),
                is_steady: rows().all(|row| row.is_steady),
                verdict: verdict(&merits).filter(|_| engine == "cmwq"),
            });
            self.best.extend(best);
        }
    }
}

/// The largest shard whose merit is within a twentieth of the best. The rate is no merit of a load
/// with pauses, or whose rate is given: that is the same with every shard.
fn largest_that_is_near(merits: &[(usize, f64)]) -> Option<usize> {
    let most = merits.iter().map(|&(_, merit)| merit).fold(0.0, f64::max);
    let near = merits.iter().filter(|&&(_, merit)| merit >= 0.95 * most);
    near.map(|&(size, _)| size).max()
}

/// What a program should do with the shard size that the library takes by itself: the largest of these
/// that is at most eight.
fn verdict(merits: &[(usize, f64)]) -> Option<String> {
    let sizes = merits.iter().filter(|&&(size, _)| size <= DEFAULT_SIZE);
    let &(default, of_default) = sizes.max_by_key(|&&(size, _)| size)?;
    let &(best, most) = merits
        .iter()
        .max_by(|one, other| one.1.total_cmp(&other.1))?;
    if of_default >= 0.95 * most {
        let than = "no other size is better by more than a twentieth";
        return Some(format!(
            "keep the default, shards of {default} cores: {than}"
        ));
    }
    let times = most / of_default;
    Some(format!(
        "shards of {best} cores (CMWQ_CACHE_SHARD_SIZE={best}) are {times:.1} times as fast as the default, shards of {default}"
    ))
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

/// Carries out all rows with all seeds. Each is the same alone and among others.
pub(super) fn run_all(
    plan: &Plan,
    wanted: &[Wanted],
    costs: Option<&EngineCosts>,
    mut done: impl FnMut(&str),
) -> Result<Vec<Row>, String> {
    let seeds = plan.seeds as usize;
    let works = (0..wanted.len() * seeds).map(|number| {
        let (row, seed) = (&wanted[number / seeds], plan.seed + (number % seeds) as u64);
        move || match costs {
            Some(costs) if row.is_kernel => of_kernel(plan, row, costs, seed),
            _ => of_cmwq(&plan.of_cmwq(row, seed)?),
        }
    });
    let mut ran: Vec<Option<Ran>> = (0..wanted.len() * seeds).map(|_| None).collect();
    apart::run_all(plan.jobs, works, |number, result| {
        ran[number] = Some(result?);
        done(&wanted[number / seeds].label());
        Ok(())
    })?;
    let ran: Vec<Ran> = ran.into_iter().flatten().collect();
    let rows = wanted.iter().zip(ran.chunks(seeds));
    Ok(rows.map(|(wanted, ran)| row(plan, wanted, ran)).collect())
}

/// What all seeds of a row come to.
fn row(plan: &Plan, wanted: &Wanted, ran: &[Ran]) -> Row {
    let mean = |of: &dyn Fn(&Ran) -> f64| ran.iter().map(of).sum::<f64>() / ran.len() as f64;
    let rates = || ran.iter().map(|ran| ran.items_per_s);
    let first = &ran[0];
    Row {
        engine: if wanted.is_kernel { "kernel" } else { "cmwq" },
        scope: wanted.scope,
        shard_size: wanted.shard_size,
        pods: first.pods,
        items_per_s: mean(&|ran| ran.items_per_s),
        items_per_s_min: rates().fold(f64::INFINITY, f64::min),
        items_per_s_max: rates().fold(0.0, f64::max),
        merit: mean(&|ran| ran.merit),
        is_steady: ran.iter().all(|ran| ran.is_steady),
        measured_ns: first.measured_ns,
        enqueue_ns: first.enqueue_ns.clone(),
        start_ns: first.start_ns.clone(),
        done_ns: first.done_ns.clone(),
        item: Account {
            busy_ns: mean(&|ran| ran.item.busy_ns),
            line_transfers: mean(&|ran| ran.item.line_transfers),
            line_wait_ns: mean(&|ran| ran.item.line_wait_ns),
            wakeups: mean(&|ran| ran.item.wakeups),
            switches: mean(&|ran| ran.item.switches),
            ..first.item.clone()
        },
        role: None,
        operations: first.operations,
        log_hash: first.log_hash.clone(),
        curve: first.curve.clone(),
        cpus_per_pod: plan.machine.cpus.len() as f64 / first.pods.max(1) as f64,
    }
}

/// One run of the library.
pub(super) fn of_cmwq(run: &cmwq_sim::cmwq::Plan) -> Result<Ran, String> {
    let ran = cmwq_sim::cmwq::run(run).map_err(|failed| failed.to_string())?;
    let found = &ran.found;
    let all = found.items_per_s * ran.outcome.end_ns as f64 / 1e9;
    let merit = match &run.doing {
        cmwq_sim::cmwq::Doing::Load(load) => cmwq_sim::cmwq::merit(load, found),
        cmwq_sim::cmwq::Doing::Blocks(_) => found.items_per_s,
    };
    Ok(Ran {
        pods: ran.pods,
        items_per_s: found.items_per_s,
        is_steady: found.is_steady,
        measured_ns: found.measured_ns,
        merit,
        enqueue_ns: Percentiles::of(&ran.enqueue),
        start_ns: Times::of(&found.start),
        done_ns: Times::of(&found.done),
        curve: curve(&ran.enqueue),
        item: Account {
            // Without the threads of the load that only compute.
            busy_ns: found.cpu_ns_per_item,
            ..Account::new(&ran.did, found.items, &ran.outcome, all)
        },
        operations: ran.outcome.operations,
        log_hash: format!("{:016x}", ran.outcome.log_hash),
    })
}

/// A run of the kernel engine is repeated with twice as many items until two agree, so often at most.
const DOUBLINGS: usize = 5;

fn of_kernel(plan: &Plan, row: &Wanted, costs: &EngineCosts, seed: u64) -> Result<Ran, String> {
    let scope = Scope::parse(row.scope, row.shard_size)
        .ok_or_else(|| format!("no scope {:?}", row.scope))?;
    let of_items = |items: usize| {
        let settings = Settings {
            pods: scope.pods(&plan.machine),
            strict: false,
            wake: plan.wake.order(),
            costs: costs.clone(),
        };
        roundtrip(&plan.machine, settings, items, seed)
            .map_err(|stuck| format!("a simulated run has no end: {stuck}"))
    };
    let mut items = plan.items;
    let mut ran = of_items(items)?;
    let mut is_steady = false;
    for _ in 0..DOUBLINGS {
        if is_steady {
            break;
        }
        items *= 2;
        let longer = of_items(items)?;
        is_steady = (longer.items_per_s / ran.items_per_s - 1.0).abs() <= 0.05;
        ran = longer;
    }
    let all = (plan.machine.cpus.len() * items) as u64;
    let outcome = &ran.outcome;
    let did = Totals {
        operations: outcome.operations,
        switches: outcome.switches,
        wakeups: outcome.wakeups,
        transfers: outcome.transfers,
        waited_ns: outcome.waited_ns,
        busy_ns: outcome.busy_ns,
        threads: outcome.threads,
        ..Totals::default()
    };
    Ok(Ran {
        pods: ran.pods,
        items_per_s: ran.items_per_s,
        is_steady,
        measured_ns: outcome.end_ns,
        merit: ran.items_per_s,
        enqueue_ns: Percentiles::of(&ran.enqueue),
        start_ns: None,
        done_ns: None,
        curve: curve(&ran.enqueue),
        item: Account {
            lock_wait_ns: Some(ran.locks.waited_ns as f64 / all as f64),
            ..Account::new(&did, all, outcome, all as f64)
        },
        operations: outcome.operations,
        log_hash: format!("{:016x}", outcome.log_hash),
    })
}

fn curve(enqueue: &Latencies) -> Vec<u64> {
    (0..100).map(|p| enqueue.percentile(p)).collect()
}

#[cfg(test)]
mod tests {
    use super::{largest_that_is_near, verdict};

    #[test]
    fn the_largest_shard_within_a_twentieth_is_advised() {
        assert_eq!(largest_that_is_near(&[]), None);
        let near = [(2, 90.0), (4, 100.0), (8, 96.0), (16, 94.0)];
        assert_eq!(largest_that_is_near(&near), Some(8));
    }

    #[test]
    fn the_default_is_kept_unless_another_shard_is_better_by_a_twentieth() {
        assert_eq!(verdict(&[]), None);
        let near = [(4, 99.0), (8, 96.0), (64, 100.0)];
        let kept =
            "keep the default, shards of 8 cores: no other size is better by more than a twentieth";
        assert_eq!(verdict(&near).as_deref(), Some(kept));
        let far = [(2, 150.0), (4, 60.0)];
        let other = "shards of 2 cores (CMWQ_CACHE_SHARD_SIZE=2) are 2.5 times as fast as the default, \
            shards of 4";
        assert_eq!(verdict(&far).as_deref(), Some(other));
    }
}
