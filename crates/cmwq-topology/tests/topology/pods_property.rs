//! Pods of random machines, and the shard table, against the rules written out the slow way: two
//! CPUs at a time, one core at a time.
//!
//! Sabotage tried: splitting SMT siblings, sharing shards across caches and rounding the shard count up fail
//! `random_machines_are_cut_by_the_rules`; a pod's node taken from its lowest CPU fails
//! `absurd_machines_are_still_cut_into_disjoint_pods`; rounding halves down fails the table.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{FakeSysfs, L2, L3};
use cmwq_topology::affinity::{AffinityScope, Pods, shard_layout};
use cmwq_topology::{CpuSet, Topology};
use proptest::prelude::*;

/// What is known of one CPU; the machine is a map of these.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    core: usize,
    llc: usize,
    node: u32,
}

impl Cpu {
    /// A cache that the system reports for several nodes is one cache for each of them.
    fn cache(&self) -> (usize, u32) {
        (self.llc, self.node)
    }
}

type Machine = BTreeMap<usize, Cpu>;

/// How thread numbers follow each other.
#[derive(Clone, Copy, Debug)]
enum Numbering {
    /// The threads of a core have neighbouring numbers.
    Adjacent,
    /// All first threads come before all second ones.
    Split,
    /// Anything goes: by this multiplier.
    Shuffled(usize),
}

/// One cache of a machine to be: its cores, the threads of each, and the nodes among which the
/// cores are divided.
#[derive(Clone, Debug)]
struct Cache {
    threads_of_cores: Vec<usize>,
    nodes: Vec<usize>,
}

fn caches() -> impl Strategy<Value = Vec<Cache>> {
    let cache = (
        prop_oneof![
            // Plain, as on servers; mixed, as on machines with two kinds of core.
            (1_usize..=24, 1_usize..=2).prop_map(|(cores, threads)| vec![threads; cores]),
            proptest::collection::vec(1_usize..=4, 1..=20),
        ],
        prop_oneof![
            3 => (0_usize..3).prop_map(|node| vec![node]),
            // Sub-NUMA clustering: the system reports one cache for several nodes.
            1 => Just(vec![0, 1]),
            1 => Just(vec![2, 0, 1]),
        ],
    )
        .prop_map(|(threads_of_cores, nodes)| Cache {
            threads_of_cores,
            nodes,
        });
    proptest::collection::vec(cache, 1..=5)
}

fn numbering() -> impl Strategy<Value = Numbering> {
    prop_oneof![
        Just(Numbering::Adjacent),
        Just(Numbering::Split),
        (1_usize..1000).prop_map(Numbering::Shuffled),
    ]
}

/// Gaps before CPU numbers: machines have holes.
fn gaps() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![0]), proptest::collection::vec(0_usize..4, 1..=7)]
}

fn machine(caches: &[Cache], numbering: Numbering, gaps: &[usize]) -> Machine {
    // Real node numbers need not start at 0 or be dense.
    const NODES: [u32; 3] = [0, 1, 8];
    // (order in which numbers are dealt, the CPU)
    let mut threads = Vec::new();
    let mut core = 0;
    for (llc, cache) in caches.iter().enumerate() {
        let cores = cache.threads_of_cores.len();
        for (position, &count) in cache.threads_of_cores.iter().enumerate() {
            let node = NODES[cache.nodes[position * cache.nodes.len() / cores]];
            for thread in 0..count {
                let at = threads.len();
                let order = match numbering {
                    Numbering::Adjacent => (0, at),
                    Numbering::Split => (thread, at),
                    Numbering::Shuffled(by) => ((at + 1) * by % 1009, at),
                };
                threads.push((order, Cpu { core, llc, node }));
            }
            core += 1;
        }
    }
    threads.sort_by_key(|(order, _)| *order);
    let mut number = 0;
    let mut machine = Machine::new();
    for (position, (_, cpu)) in threads.into_iter().enumerate() {
        number += gaps[position % gaps.len()];
        machine.insert(number, cpu);
        number += 1;
    }
    machine
}

fn list(machine: &Machine, is_in: impl Fn(&Cpu) -> bool) -> String {
    let cpus = machine
        .iter()
        .filter(|(_, cpu)| is_in(cpu))
        .map(|(number, _)| number.to_string());
    cpus.collect::<Vec<_>>().join(",")
}

/// The machine through a sysfs tree. Every third cache is an L2 and the others are L3s; offline
/// CPUs are added.
fn topology(machine: &Machine) -> Topology {
    let tree = FakeSysfs::online(&list(machine, |_| true));
    let last = machine.keys().last().expect("a CPU");
    tree.write("cpu/possible", &format!("0-{}", last + 3));
    let mut nodes = BTreeSet::new();
    for (number, cpu) in machine {
        tree.siblings(*number, &list(machine, |other| other.core == cpu.core));
        let shared = list(machine, |other| other.llc == cpu.llc);
        tree.cache(*number, (0, "1", "Data"), &number.to_string());
        tree.cache(*number, if cpu.llc % 3 == 2 { L2 } else { L3 }, &shared);
        nodes.insert(cpu.node);
    }
    for node in nodes {
        tree.node(node, &list(machine, |cpu| cpu.node == node));
    }
    tree.topology()
}

/// Cores in each shard: look for the number of shards that is nearest to `cores / size` (of two,
/// the larger), then deal the cores out one at a time.
fn shards_by_dealing(cores: usize, size: usize) -> Vec<usize> {
    let size = size.max(1);
    let off = |shards: usize| (cores).abs_diff(shards * size);
    let nearest = (0..=cores)
        .rev()
        .min_by_key(|&shards| off(shards))
        .expect("at least 0");
    let mut shards = vec![0; nearest.max(1)];
    for core in 0..cores {
        let turn = core % shards.len();
        shards[turn] += 1;
    }
    shards
}

/// The shard of every core.
fn shards_of_cores(machine: &Machine, size: usize) -> BTreeMap<usize, usize> {
    let mut shard_of = BTreeMap::new();
    let llcs: BTreeSet<_> = machine.values().map(Cpu::cache).collect();
    for llc in llcs {
        let mut in_order = Vec::new();
        for cpu in machine.values().filter(|cpu| cpu.cache() == llc) {
            if !in_order.contains(&cpu.core) {
                in_order.push(cpu.core);
            }
        }
        let mut cores = in_order.iter();
        for (shard, count) in shards_by_dealing(in_order.len(), size)
            .into_iter()
            .enumerate()
        {
            for core in cores.by_ref().take(count) {
                shard_of.insert(*core, shard);
            }
        }
    }
    shard_of
}

/// Pods by asking of each CPU which earlier one it shares with.
fn pods_by_pairs(
    machine: &Machine,
    scope: AffinityScope,
    size: usize,
) -> Vec<(Vec<usize>, Option<u32>)> {
    let shard_of = shards_of_cores(machine, size);
    let share = |a: &Cpu, b: &Cpu| match scope {
        AffinityScope::Cpu => false,
        AffinityScope::Smt => a.core == b.core,
        AffinityScope::Cache => a.cache() == b.cache(),
        AffinityScope::CacheShard => {
            a.cache() == b.cache() && shard_of[&a.core] == shard_of[&b.core]
        }
        AffinityScope::Numa => a.node == b.node,
        AffinityScope::System => true,
        other => panic!("no rule for {other:?}"),
    };
    let mut pods: Vec<Vec<usize>> = Vec::new();
    for (number, cpu) in machine {
        match pods.iter_mut().find(|pod| share(cpu, &machine[&pod[0]])) {
            Some(pod) => pod.push(*number),
            None => pods.push(vec![*number]),
        }
    }
    let node = |pod: &Vec<usize>| match scope {
        AffinityScope::System => None,
        _ => Some(machine[pod.iter().max().expect("not empty")].node),
    };
    pods.into_iter()
        .map(|pod| (pod.clone(), node(&pod)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_machines_are_cut_by_the_rules(
        caches in caches(),
        numbering in numbering(),
        gaps in gaps(),
        size in prop_oneof![6 => 0_usize..=9, 1 => Just(28), 1 => Just(usize::MAX)],
    ) {
        let machine = machine(&caches, numbering, &gaps);
        let topology = topology(&machine);
        for scope in AffinityScope::CONCRETE {
            let pods = Pods::build(&topology, scope, size);
            let ours: Vec<_> = pods.pods().iter().map(|pod| (pod.cpus.iter().collect::<Vec<_>>(), pod.node)).collect();
            // The dealer counts shard by shard: a huge size is any size above all cores.
            prop_assert_eq!(&ours, &pods_by_pairs(&machine, scope, size.min(10_000)), "{}", scope);
            for (index, pod) in pods.pods().iter().enumerate() {
                prop_assert!(pod.cpus.iter().all(|cpu| pods.pod_of(cpu) == Some(index)));
            }
            let all = pods.pods().iter().fold(CpuSet::new(), |all, pod| all.union(&pod.cpus));
            prop_assert_eq!(&all, topology.cpus());
        }
    }

    /// Siblings in different caches, nodes across caches: nothing real, but the cut must stay a
    /// partition, and shards must stay inside their cache.
    #[test]
    fn absurd_machines_are_still_cut_into_disjoint_pods(
        cpus in proptest::collection::vec((0_usize..6, 0_usize..4, 0_u32..3), 1..40),
        size in 0_usize..4,
    ) {
        let machine: Machine = cpus
            .into_iter()
            .map(|(core, llc, node)| Cpu { core, llc, node })
            .enumerate()
            .collect();
        let topology = topology(&machine);
        for scope in AffinityScope::CONCRETE {
            let pods = Pods::build(&topology, scope, size);
            let mut seen = CpuSet::new();
            for pod in pods.pods() {
                prop_assert!(!pod.cpus.is_empty());
                prop_assert!(!pod.cpus.intersects(&seen));
                seen = seen.union(&pod.cpus);
                let highest = pod.cpus.last().map(|cpu| machine[&cpu].node);
                let node = highest.filter(|_| scope != AffinityScope::System);
                prop_assert_eq!(pod.node, node, "{}", scope);
            }
            prop_assert_eq!(&seen, topology.cpus());
            prop_assert!(pods.pods().is_sorted_by_key(|pod| pod.cpus.first()));
            if scope == AffinityScope::CacheShard {
                for pod in pods.pods() {
                    let first = pod.cpus.first().expect("not empty");
                    prop_assert!(pod.cpus.is_subset(topology.llc_cpus(first)));
                    let node = topology.node_of(first);
                    prop_assert!(pod.cpus.iter().all(|cpu| topology.node_of(cpu) == node));
                }
            }
        }
    }
}

#[test]
fn shards_are_dealt_evenly_and_rounded_to_the_nearest_number() {
    for size in [0, 1, 3, 5, 8, 28] {
        for cores in 1..=128 {
            assert_eq!(
                shard_layout(cores, size),
                shards_by_dealing(cores, size),
                "{cores} cores, size {size}"
            );
        }
    }
}

#[test]
fn the_number_of_shards_is_that_of_the_published_table() {
    let table = [
        (1..=11, 1),
        (12..=19, 2),
        (20..=27, 3),
        (28..=35, 4),
        (36..=43, 5),
        (44..=51, 6),
        (52..=59, 7),
        (60..=67, 8),
        (68..=75, 9),
        (76..=83, 10),
        (84..=91, 11),
        (92..=99, 12),
        (100..=107, 13),
    ];
    for (cores, shards) in table {
        for cores in cores {
            assert_eq!(shard_layout(cores, 8).len(), shards, "{cores} cores");
        }
    }
    let layouts: [(usize, &[(usize, usize)]); 13] = [
        (12, &[(2, 6)]),
        (13, &[(1, 7), (1, 6)]),
        (16, &[(2, 8)]),
        (19, &[(1, 10), (1, 9)]),
        (20, &[(2, 7), (1, 6)]),
        (26, &[(2, 9), (1, 8)]),
        (36, &[(1, 8), (4, 7)]),
        (44, &[(2, 8), (4, 7)]),
        (60, &[(4, 8), (4, 7)]),
        (72, &[(9, 8)]),
        (88, &[(11, 8)]),
        (100, &[(9, 8), (4, 7)]),
        (128, &[(16, 8)]),
    ];
    for (cores, runs) in layouts {
        let printed: Vec<usize> = runs
            .iter()
            .flat_map(|&(shards, size)| vec![size; shards])
            .collect();
        assert_eq!(shard_layout(cores, 8), printed, "{cores} cores");
    }
}

#[test]
fn siblings_stay_together_however_they_are_numbered() {
    for cores in [1, 11, 12, 20, 51, 72, 128] {
        for size in [0, 1, 3, 5, 8, 28] {
            for numbering in [Numbering::Adjacent, Numbering::Split] {
                let cache = Cache {
                    threads_of_cores: vec![2; cores],
                    nodes: vec![0],
                };
                let machine = machine(&[cache], numbering, &[0]);
                let threads: String = match numbering {
                    Numbering::Split => {
                        format!("l3:1 core:{cores} pu:2(indexes=core)")
                    }
                    _ => format!("l3:1 core:{cores} pu:2"),
                };
                let topology = Topology::from_synthetic(&threads).expect("valid");
                let pods = Pods::build(&topology, AffinityScope::CacheShard, size);
                let ours: Vec<Vec<usize>> = pods
                    .pods()
                    .iter()
                    .map(|pod| pod.cpus.iter().collect())
                    .collect();
                let rule: Vec<Vec<usize>> =
                    pods_by_pairs(&machine, AffinityScope::CacheShard, size)
                        .into_iter()
                        .map(|(pod, _)| pod)
                        .collect();
                assert_eq!(ours, rule, "{cores} cores, size {size}, {numbering:?}");
                for core in topology.cores() {
                    assert!(
                        pods.pods().iter().any(|pod| core.is_subset(&pod.cpus)),
                        "{core} is split"
                    );
                }
            }
        }
    }
}

#[test]
fn a_cache_without_a_leader_follows_its_leaders_elsewhere() {
    // Cores 0,2 and 1,3; caches 0-1 and 2-3: the second cache has no core's first CPU.
    let cpu = |core, llc| Cpu { core, llc, node: 0 };
    let machine = Machine::from([
        (0, cpu(0, 0)),
        (1, cpu(1, 0)),
        (2, cpu(0, 1)),
        (3, cpu(1, 1)),
    ]);
    let topology = topology(&machine);
    let pods = |size| {
        let pods = Pods::build(&topology, AffinityScope::CacheShard, size);
        crate::common::lists(pods.pods().iter().map(|pod| &pod.cpus))
    };
    assert_eq!(pods(8), ["0-1", "2-3"]);
    assert_eq!(pods(1), ["0", "1", "2", "3"]);
}
