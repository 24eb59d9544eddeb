//! The JSON form. It is a contract: keys may be added behind those that are there, and none may change.

use cmwq::affinity::{AffinityScope, Pods};
use cmwq::topology::{CpuQuota, CpuSet, Topology};
use serde::{Serialize, Serializer};

use cmwq_command::CliError;

use super::View;

#[derive(Serialize)]
struct Machine {
    cpus: Vec<Cpu>,
    default_scope: &'static str,
    /// In cores.
    cache_shard_size: usize,
    #[serde(serialize_with = "in_order")]
    scopes: Vec<(&'static str, Scope)>,
    /// CPUs that exist, those that are switched on, and those that this process may use.
    possible: Vec<usize>,
    online: Vec<usize>,
    allowed: Vec<usize>,
    /// Whether this is a described machine and not the one that the command ran on.
    injected: bool,
    /// What the description did not tell and was assumed, one line each.
    assumed: Vec<String>,
    /// Files that exist and were taken as missing, one line each.
    faults: Vec<String>,
    /// The CPU quota of this process; `null` if it has none, or the machine is a described one.
    cpu_quota: Option<Quota>,
}

#[derive(Serialize)]
struct Quota {
    /// As a number of CPUs.
    cpus: f64,
    quota_us: u64,
    period_us: u64,
    /// The folder of the group that has it.
    group: String,
    nr_periods: Option<u64>,
    nr_throttled: Option<u64>,
    weight: Option<u64>,
    idle: bool,
}

#[derive(Serialize)]
struct Cpu {
    cpu: usize,
    /// Ids from 0 in the order of their lowest CPUs.
    core: Option<usize>,
    llc: Option<usize>,
    /// The system's number.
    node: Option<u32>,
}

#[derive(Serialize)]
struct Scope {
    pods: Vec<Pod>,
}

#[derive(Serialize)]
struct Pod {
    cpus: Vec<usize>,
    node: Option<u32>,
}

/// An object, with its keys in this order.
fn in_order<S: Serializer>(scopes: &[(&'static str, Scope)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(scopes.iter().map(|(name, scope)| (name, scope)))
}

/// The whole view on one line, with a newline behind it.
pub(super) fn json(view: &View) -> Result<String, CliError> {
    let topology = &view.topology;
    let cpus = topology.cpus().iter().map(|cpu| Cpu {
        cpu,
        core: topology.core_of(cpu),
        llc: topology.llc_of(cpu),
        node: topology.node_of(cpu),
    });
    let machine = Machine {
        cpus: cpus.collect(),
        default_scope: view.default_scope.name(),
        cache_shard_size: view.shard_size,
        scopes: AffinityScope::CONCRETE
            .map(|scope| (scope.name(), self::scope(view.pods(scope))))
            .into(),
        possible: numbers(topology.possible()),
        online: numbers(topology.online()),
        allowed: numbers(topology.allowed()),
        injected: topology.is_injected(),
        assumed: assumed(topology),
        faults: topology.faults().to_vec(),
        cpu_quota: view.quota.as_ref().and_then(quota),
    };
    let mut text = serde_json::to_string(&machine)
        .map_err(|error| CliError::failed(format!("cannot write JSON: {error}")))?;
    text.push('\n');
    Ok(text)
}

fn scope(pods: &Pods) -> Scope {
    let pods = pods.pods().iter().map(|pod| Pod {
        cpus: numbers(&pod.cpus),
        node: pod.node,
    });
    Scope {
        pods: pods.collect(),
    }
}

fn quota(quota: &CpuQuota) -> Option<Quota> {
    let limit = quota.limit()?;
    let throttling = quota.throttling();
    Some(Quota {
        cpus: limit.cpus(),
        quota_us: limit.quota_us,
        period_us: limit.period_us,
        group: limit.group.display().to_string(),
        nr_periods: throttling.map(|told| told.nr_periods),
        nr_throttled: throttling.map(|told| told.nr_throttled),
        weight: quota.weight(),
        idle: quota.is_idle(),
    })
}

fn assumed(topology: &Topology) -> Vec<String> {
    let assumed = topology.assumed().iter();
    assumed.map(ToString::to_string).collect()
}

fn numbers(cpus: &CpuSet) -> Vec<usize> {
    cpus.iter().collect()
}
