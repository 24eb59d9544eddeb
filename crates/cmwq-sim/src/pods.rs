//! How a machine is cut into pods: the current rule for shards, and those of the published experiments.
#![forbid(unsafe_code)]

use cmwq_vm::Cpus;
use cmwq_vm::machine::Machine;

/// An affinity scope, by a rule that some kernel had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each CPU.
    Cpu,
    /// Each core.
    Smt,
    /// About so many cores of a last-level cache: the current rule.
    CacheShard(usize),
    /// At most so many CPUs of a last-level cache, at CPU positions, so that siblings may be split:
    /// the first published version.
    CacheShardByCpu(usize),
    /// Each last-level cache in so many parts, at CPU positions.
    PartsByCpu(usize),
    /// Each last-level cache in so many parts, at cores.
    PartsByCore(usize),
    /// Each last-level cache.
    Cache,
    /// Each NUMA node.
    Numa,
    /// All CPUs.
    System,
}

/// The pods of a scope, each CPU in one.
#[derive(Clone, Debug)]
pub struct Pods {
    /// In the order of their first CPUs.
    pub pods: Vec<Cpus>,
    /// By CPU.
    pub of_cpu: Vec<usize>,
}

impl Scope {
    /// Its name in files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scope::Cpu => "cpu",
            Scope::Smt => "smt",
            Scope::CacheShard(_)
            | Scope::CacheShardByCpu(_)
            | Scope::PartsByCpu(_)
            | Scope::PartsByCore(_) => "cache_shard",
            Scope::Cache => "cache",
            Scope::Numa => "numa",
            Scope::System => "system",
        }
    }

    /// The scope of this name, with shards of about so many cores by the current rule.
    #[must_use]
    pub fn parse(name: &str, shard_size: usize) -> Option<Scope> {
        let shard = Scope::CacheShard(shard_size);
        let all = [
            Scope::Cpu,
            Scope::Smt,
            shard,
            Scope::Cache,
            Scope::Numa,
            Scope::System,
        ];
        all.into_iter().find(|scope| scope.name() == name)
    }

    /// Cuts the machine.
    #[must_use]
    pub fn pods(self, machine: &Machine) -> Pods {
        let shards = |scope: Scope| shard_of_each_cpu(machine, scope);
        let keys: Vec<(usize, usize)> = match self {
            Scope::Cpu => (0..machine.cpus.len()).map(|cpu| (cpu, 0)).collect(),
            Scope::Smt => by(machine, |place| place.core),
            Scope::Cache => by(machine, |place| place.llc),
            Scope::Numa => by(machine, |place| place.node),
            Scope::System => by(machine, |_| 0),
            scope => {
                let llcs = by(machine, |place| place.llc);
                let both = llcs.iter().zip(shards(scope));
                both.map(|(&(llc, _), shard)| (llc, shard)).collect()
            }
        };
        let mut seen: Vec<(usize, usize)> = Vec::new();
        let mut of_cpu = Vec::new();
        for key in keys {
            let pod = seen.iter().position(|&other| other == key);
            of_cpu.push(pod.unwrap_or_else(|| {
                seen.push(key);
                seen.len() - 1
            }));
        }
        let pods = (0..seen.len()).map(|pod| {
            let cpus = of_cpu.iter().enumerate();
            cpus.filter(|&(_, &of)| of == pod)
                .map(|(cpu, _)| cpu)
                .collect()
        });
        Pods {
            pods: pods.collect(),
            of_cpu,
        }
    }
}

fn by(machine: &Machine, key: impl Fn(&cmwq_vm::machine::Place) -> u16) -> Vec<(usize, usize)> {
    machine
        .cpus
        .iter()
        .map(|place| (usize::from(key(place)), 0))
        .collect()
}

/// The index of each CPU's shard inside its last-level cache.
fn shard_of_each_cpu(machine: &Machine, scope: Scope) -> Vec<usize> {
    let mut shards = vec![0; machine.cpus.len()];
    let llcs = machine
        .cpus
        .iter()
        .map(|place| place.llc)
        .max()
        .map_or(0, |last| last + 1);
    for llc in 0..llcs {
        let cpus: Vec<usize> = (0..machine.cpus.len())
            .filter(|&cpu| machine.cpus[cpu].llc == llc)
            .collect();
        let mut cores: Vec<u16> = Vec::new();
        for &cpu in &cpus {
            if !cores.contains(&machine.cpus[cpu].core) {
                cores.push(machine.cpus[cpu].core);
            }
        }
        let core_of = |cpu: usize| {
            cores
                .iter()
                .position(|&core| core == machine.cpus[cpu].core)
        };
        let position = |cpu: usize| cpus.iter().position(|&other| other == cpu);
        for &cpu in &cpus {
            let shard = match scope {
                Scope::CacheShard(size) => {
                    let parts = ((cores.len() + size / 2) / size.max(1)).max(1);
                    core_of(cpu).map(|at| part(at, cores.len(), parts))
                }
                Scope::PartsByCore(parts) => core_of(cpu).map(|at| part(at, cores.len(), parts)),
                Scope::CacheShardByCpu(size) => {
                    let parts = cpus.len().div_ceil(size.max(1));
                    position(cpu).map(|at| part(at, cpus.len(), parts))
                }
                Scope::PartsByCpu(parts) => position(cpu).map(|at| part(at, cpus.len(), parts)),
                _ => None,
            };
            shards[cpu] = shard.unwrap_or(0);
        }
    }
    shards
}

/// The part of the `at`th of `of` things that are cut in `parts`, of which the first are larger by one.
fn part(at: usize, of: usize, parts: usize) -> usize {
    let parts = parts.clamp(1, of);
    let (base, large) = (of / parts, of % parts);
    let in_large = large * (base + 1);
    if at < in_large {
        at / (base + 1)
    } else {
        large + (at - in_large) / base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_vm::machine::preset;

    fn sizes(machine: &str, scope: Scope) -> Vec<usize> {
        let machine = preset(machine).unwrap().machine();
        scope.pods(&machine).pods.iter().map(Cpus::len).collect()
    }

    /// The published arithmetic.
    #[test]
    fn pods_are_as_published() {
        assert_eq!(sizes("grace", Scope::CacheShard(8)), [8; 9]);
        assert_eq!(sizes("grace", Scope::CacheShardByCpu(8)), [8; 9]);
        assert_eq!(sizes("grace", Scope::PartsByCore(4)), [18; 4]);
        assert_eq!(
            sizes("8321hc", Scope::CacheShardByCpu(8)),
            [8, 8, 7, 7, 7, 7, 7]
        );
        // 9, 9 and 8 cores, of which one has a single CPU.
        assert_eq!(sizes("8321hc", Scope::CacheShard(8)), [18, 18, 15]);
        assert_eq!(sizes("9d64", Scope::CacheShard(8)), [16; 11]);
        assert_eq!(sizes("9d64", Scope::CacheShardByCpu(8)), [8; 22]);
        assert_eq!(sizes("9d64", Scope::Numa), [176]);
        assert_eq!(sizes("d2191a", Scope::CacheShardByCpu(8)), [8; 4]);
        assert_eq!(sizes("d2191a", Scope::CacheShard(8)), [16; 2]);
        assert_eq!(sizes("3900x", Scope::CacheShard(8)), [6; 4]);
        // 9D64: siblings are n and n+88, so CPU positions split them.
        let machine = preset("9d64").unwrap().machine();
        let by_cpu = Scope::PartsByCpu(2).pods(&machine);
        assert_ne!(by_cpu.of_cpu[0], by_cpu.of_cpu[88]);
        let by_core = Scope::PartsByCore(2).pods(&machine);
        assert_eq!(by_core.of_cpu[0], by_core.of_cpu[88]);
    }
}
