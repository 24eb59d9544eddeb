//! Which runs a matrix has.

use super::super::args::{Arguments, DEFAULT_SIZE, cores_of_a_cache, load, placement_name};
use super::super::machine;
use cmwq_loads::Load;
use cmwq_sim::cmwq::{Doing, Plan, topology};
use cmwq_simulated::topology::Topology;
use cmwq_vm::machine::{Machine, Placement};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// The machines, by name or description: the two that were measured, CPUs under one cache, several
/// caches, two sockets, and the published ones.
const MACHINES: [&str; 15] = [
    "two-vcpus",
    "16-vcpus",
    "l3:1 core:16",
    "l3:1 core:32",
    "l3:1 core:64",
    "grace",
    "l3:1 core:96",
    "l3:1 core:128",
    "l3:4 core:8",
    "l3:8 core:8",
    "l3:8 core:16",
    "pack:2 l3:4 core:14",
    "8321hc",
    "9d64",
    "3900x",
];

/// The everyday loads, also with other issuers and lengths than their own.
const LOADS: [&str; 27] = [
    "roundtrip@1",
    "roundtrip@4",
    "roundtrip",
    "flood@1",
    "flood@4",
    "flood",
    "window@1",
    "window@4",
    "window",
    "window/1",
    "scatter-8",
    "scatter-64",
    "scatter-64/0.5",
    "scatter-512/1",
    "burst-4",
    "burst-16",
    "burst-256",
    "busy-burst-16",
    "busy-burst-256",
    "open-60",
    "clients-4",
    "stages",
    "trickle-100us",
    "trickle-1ms",
    "mixed",
    "saturated",
    "blocking",
];

/// What is compared with the default: `cache_shard` with 8 cores.
const SIZES: [usize; 5] = [1, 2, 4, 16, 32];

/// A machine of the matrix.
pub(super) struct OfMatrix {
    pub(super) name: String,
    pub(super) machine: Machine,
    /// What its description left open.
    pub(super) assumed: Vec<String>,
    topology: OnceCell<Topology>,
    half: Machine,
    half_topology: OnceCell<Topology>,
}

/// All that is run.
pub(super) struct Matrix {
    pub(super) machines: Vec<OfMatrix>,
    /// As they were named.
    pub(super) loads: Vec<(String, Load)>,
    pub(super) seed: u64,
    pub(super) seeds: u64,
    pub(super) placement: Placement,
    strict: bool,
    window_ns: u64,
}

/// Which run it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) machine: String,
    /// With half of its cores.
    pub(super) half: bool,
    pub(super) placement: String,
    pub(super) load: String,
    pub(super) scope: String,
    pub(super) shard_size: usize,
    pub(super) strict: bool,
    pub(super) window_ns: u64,
    pub(super) seed: u64,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let half = if self.half { "half of " } else { "" };
        let (machine, load, seed) = (&self.machine, &self.load, self.seed);
        write!(
            f,
            "{half}{machine}, {load}, {}, seed {seed}",
            self.setting()
        )
    }
}

impl Key {
    /// The scope and, where it matters, the shard size.
    pub(super) fn setting(&self) -> String {
        match self.scope.as_str() {
            "cache_shard" => format!("cache_shard {}", self.shard_size),
            scope => scope.to_owned(),
        }
    }

    pub(super) fn is_default(&self) -> bool {
        self.scope == "cache_shard" && self.shard_size == DEFAULT_SIZE
    }
}

/// One run.
pub(super) struct Run {
    pub(super) key: Key,
    /// Of the matrix: its machine and load.
    machine: usize,
    load: usize,
}

impl Matrix {
    pub(super) fn new(arguments: &Arguments) -> Result<Matrix, String> {
        let default = || MACHINES.iter().map(|&name| name.to_owned()).collect();
        let names: Vec<String> = arguments.machines.clone().unwrap_or_else(default);
        let placement = arguments.placement.map(|name| name.placement());
        let placement = placement.unwrap_or_default();
        let machines = names.into_iter().map(|name| {
            let name = name.trim().to_owned();
            let found = match name.contains(':') {
                true => machine::synthetic(&name),
                false => machine::named(&name),
            };
            let found = found.map_err(|e| format!("--machines: {e}"))?;
            let machine = Machine {
                placement,
                ..found.machine
            };
            let half = half(&machine);
            Ok(OfMatrix {
                name,
                machine,
                assumed: found.assumed,
                topology: OnceCell::new(),
                half,
                half_topology: OnceCell::new(),
            })
        });
        let default = || LOADS.iter().map(|&name| name.to_owned()).collect();
        let names: Vec<String> = arguments.loads.clone().unwrap_or_else(default);
        let loads = names.into_iter().map(|name| {
            let load = load(&name).map_err(|error| format!("--loads: {error}"))?;
            Ok((name, load))
        });
        Ok(Matrix {
            machines: machines.collect::<Result<_, String>>()?,
            loads: loads.collect::<Result<_, String>>()?,
            seed: arguments.seed,
            seeds: arguments.seeds,
            placement,
            strict: arguments.strict,
            window_ns: arguments.window_us.unwrap_or(0) * 1000,
        })
    }

    /// All runs: the default and half of the machine first, since they tell the most.
    pub(super) fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for others in [false, true] {
            for machine in 0..self.machines.len() {
                for load in 0..self.loads.len() {
                    for seed in self.seed..self.seed + self.seeds {
                        self.runs_of(machine, load, seed, others, &mut runs);
                    }
                }
            }
        }
        runs
    }

    fn runs_of(&self, machine: usize, load: usize, seed: u64, others: bool, runs: &mut Vec<Run>) {
        let mut add = |half, scope: &str, shard_size| {
            runs.push(Run {
                key: Key {
                    machine: self.machines[machine].name.clone(),
                    half,
                    placement: placement_name(self.placement).to_owned(),
                    load: self.loads[load].0.clone(),
                    scope: scope.to_owned(),
                    shard_size,
                    strict: self.strict,
                    window_ns: self.window_ns,
                    seed,
                },
                machine,
                load,
            });
        };
        if !others {
            add(false, "cache_shard", DEFAULT_SIZE);
            return add(true, "cache_shard", DEFAULT_SIZE);
        }
        let machine = &self.machines[machine].machine;
        scopes(machine)
            .into_iter()
            .for_each(|scope| add(false, scope, DEFAULT_SIZE));
        let cores = cores_of_a_cache(machine);
        let sizes = SIZES.into_iter().filter(|&size| size < cores);
        sizes.for_each(|size| add(false, "cache_shard", size));
    }

    /// Whether a run of a file of results is one of this matrix.
    pub(super) fn has(&self, key: &Key) -> bool {
        key.placement == placement_name(self.placement)
            && (key.strict, key.window_ns) == (self.strict, self.window_ns)
            && (self.seed..self.seed + self.seeds).contains(&key.seed)
    }

    /// A run of the library.
    pub(super) fn of_cmwq(&self, run: &Run) -> Result<Plan, String> {
        let of = &self.machines[run.machine];
        let (machine, known) = match run.key.half {
            true => (&of.half, &of.half_topology),
            false => (&of.machine, &of.topology),
        };
        if known.get().is_none() {
            let topology = topology(machine).map_err(|failed| failed.to_string())?;
            let _ = known.set(topology);
        }
        let topology = known.get().cloned();
        Ok(Plan {
            machine: machine.clone(),
            topology: topology.expect("it was set above"),
            scope: run.key.scope.parse().expect("it is one of those above"),
            shard_size: run.key.shard_size,
            strict: self.strict,
            doing: Doing::Load(self.loads[run.load].1.clone()),
            window_ns: self.window_ns,
            seed: run.key.seed,
            probe_ns: 0,
        })
    }
}

/// Scopes that make other pods than `cache_shard` does with some size, and than each other.
fn scopes(machine: &Machine) -> Vec<&'static str> {
    let count = |of: fn(&cmwq_vm::machine::Place) -> u16| {
        let all: BTreeSet<u16> = machine.cpus.iter().map(of).collect();
        all.len()
    };
    let (cores, llcs, nodes) = (count(|at| at.core), count(|at| at.llc), count(|at| at.node));
    let mut scopes = Vec::new();
    // Shards of one core are the cores: only siblings make pods of one CPU something else.
    if cores < machine.cpus.len() {
        scopes.push("cpu");
    }
    if llcs < cores {
        scopes.push("cache");
    }
    if 1 < nodes && nodes < llcs {
        scopes.push("numa");
    }
    if llcs > 1 {
        scopes.push("system");
    }
    scopes
}

/// The machine with the first half of its cores: with several caches or sockets, half of these.
fn half(machine: &Machine) -> Machine {
    let cores: BTreeSet<u16> = machine.cpus.iter().map(|place| place.core).collect();
    let kept: BTreeSet<u16> = cores
        .iter()
        .copied()
        .take(cores.len().div_ceil(2))
        .collect();
    let cpus = machine
        .cpus
        .iter()
        .filter(|place| kept.contains(&place.core));
    Machine {
        name: format!("half of {}", machine.name),
        cpus: cpus.copied().collect(),
        ..machine.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_machine_has_half_of_its_cores_and_whole_caches_if_it_has_several() {
        let of = |text: &str| half(&machine::synthetic(text).unwrap().machine);
        let caches = |machine: &Machine| -> BTreeSet<u16> {
            machine.cpus.iter().map(|place| place.llc).collect()
        };
        let one = of("l3:1 core:16 pu:2");
        assert_eq!((one.cpus.len(), caches(&one).len()), (16, 1));
        let many = of("l3:8 core:16");
        assert_eq!((many.cpus.len(), caches(&many).len()), (64, 4));
        assert_eq!(
            half(&machine::named("9d64").unwrap().machine).cpus.len(),
            88
        );
        assert_eq!(
            half(&machine::named("two-vcpus").unwrap().machine)
                .cpus
                .len(),
            1
        );
    }

    #[test]
    fn scopes_that_make_the_same_pods_are_run_once() {
        let of = |text: &str| scopes(&machine::synthetic(text).unwrap().machine);
        assert_eq!(of("l3:1 core:64"), ["cache"]);
        assert_eq!(of("l3:8 core:16 pu:2"), ["cpu", "cache", "system"]);
        assert_eq!(
            of("pack:2 numa:1 l3:4 core:14"),
            ["cache", "numa", "system"]
        );
    }
}
