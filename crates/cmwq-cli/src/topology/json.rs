//! The JSON form. It is a contract: keys may be added behind those that are there, and none may change.

use cmwq::affinity::{AffinityScope, Pods};
use cmwq::topology::CpuSet;
use serde::Serialize;

use crate::cli_error::CliError;

use super::View;

#[derive(Serialize)]
struct Machine {
    cpus: Vec<Cpu>,
    default_scope: &'static str,
    /// In cores.
    cache_shard_size: usize,
    scopes: Scopes,
    /// CPUs that exist, those that are switched on, and those that this process may use.
    possible: Vec<usize>,
    online: Vec<usize>,
    allowed: Vec<usize>,
    /// Whether this is a described machine and not the one that the command ran on.
    injected: bool,
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
struct Scopes {
    cpu: Scope,
    smt: Scope,
    cache: Scope,
    cache_shard: Scope,
    numa: Scope,
    system: Scope,
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

/// The whole view on one line, with a newline behind it.
pub(super) fn json(view: &View) -> Result<String, CliError> {
    let topology = &view.topology;
    let cpus = topology.cpus().iter().map(|cpu| Cpu {
        cpu,
        core: topology.core_of(cpu),
        llc: topology.llc_of(cpu),
        node: topology.node_of(cpu),
    });
    let scope = |scope| self::scope(view.pods(scope));
    let machine = Machine {
        cpus: cpus.collect(),
        default_scope: view.default_scope.name(),
        cache_shard_size: view.shard_size,
        scopes: Scopes {
            cpu: scope(AffinityScope::Cpu),
            smt: scope(AffinityScope::Smt),
            cache: scope(AffinityScope::Cache),
            cache_shard: scope(AffinityScope::CacheShard),
            numa: scope(AffinityScope::Numa),
            system: scope(AffinityScope::System),
        },
        possible: numbers(topology.possible()),
        online: numbers(topology.online()),
        allowed: numbers(topology.allowed()),
        injected: topology.is_injected(),
    };
    let mut text = serde_json::to_string(&machine)
        .map_err(|error| CliError::new(format!("cannot write JSON: {error}")))?;
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

fn numbers(cpus: &CpuSet) -> Vec<usize> {
    cpus.iter().collect()
}
