//! Machines with several kinds of cores, and odd corners of `/sys`, from fake trees.
//!
//! Sabotages tried: kinds ignored when shards are cut; shards numbered from 0 for each kind;
//! capacities that differ by a little are kinds; a kind whose CPUs are all offline is kept; CPUs
//! that no list has come last in any case.

use crate::common::{FakeSysfs, L2, L3, lists};
use cmwq_topology::affinity::{AffinityScope, Pods};
use cmwq_topology::{Topology, TopologyError};

fn shards(topology: &Topology, size: usize) -> Vec<String> {
    let pods = Pods::build(topology, AffinityScope::CacheShard, size);
    lists(pods.pods().iter().map(|pod| &pod.cpus))
}

/// Eight fast cores of two threads, then sixteen slow ones, below one L3.
fn one_cache() -> FakeSysfs {
    let tree = FakeSysfs::online("0-31");
    for cpu in 0..32 {
        let siblings = match cpu {
            0..16 => format!("{}-{}", cpu & !1, cpu | 1),
            _ => cpu.to_string(),
        };
        tree.siblings(cpu, &siblings);
        tree.core_caches(cpu, &siblings);
        tree.cache(cpu, L3, "0-31");
    }
    tree.node(0, "0-31");
    tree
}

fn lists_of<const N: usize>(lists: [&str; N]) -> Vec<String> {
    lists.map(str::to_owned).into()
}

/// Beside `devices/system`.
fn kind(tree: &FakeSysfs, name: &str, list: &str) {
    tree.write(&format!("../{name}/cpus"), list);
}

#[test]
fn shards_of_a_hybrid_machine_hold_one_kind_of_core() {
    let tree = one_cache();
    // 24 cores: three shards. Without kinds in the tree the second one mixes them.
    let m = tree.topology();
    assert!(m.core_kinds().is_empty());
    assert_eq!(shards(&m, 8), ["0-15", "16-23", "24-31"]);
    assert_eq!(shards(&m, 6), ["0-11", "12-19", "20-25", "26-31"]);
    kind(&tree, "cpu_core", "0-15");
    kind(&tree, "cpu_atom", "16-31");
    let m = tree.topology();
    assert_eq!(lists(m.core_kinds()), ["0-15", "16-31"]);
    assert_eq!(shards(&m, 6), ["0-15", "16-21", "22-26", "27-31"]);
    assert_eq!(lists(m.llcs()), ["0-31"], "a cache is a cache");
    let cache = Pods::build(&m, AffinityScope::Cache, 6);
    assert_eq!(cache.pods().len(), 1);
    // As the kernel does it, when asked to.
    let mixing = m.clone().mixing_core_kinds();
    assert_eq!(shards(&mixing, 6), ["0-11", "12-19", "20-25", "26-31"]);
}

#[test]
fn capacities_tell_of_kinds_where_nothing_else_does() {
    let tree = FakeSysfs::online("0-7");
    let capacity = |cpu: usize, text: &str| tree.write(&format!("cpu/cpu{cpu}/cpu_capacity"), text);
    for cpu in 0..8 {
        tree.siblings(cpu, &cpu.to_string());
        tree.cache(cpu, L3, "0-7");
        capacity(
            cpu,
            ["446", "446", "446", "446", "871", "871", "871", "1024"][cpu],
        );
    }
    // The fastest first.
    let m = tree.topology();
    assert_eq!(lists(m.core_kinds()), ["7", "4-6", "0-3"]);
    assert_eq!(shards(&m, 8), ["0-3", "4-6", "7"]);
    // Lists that name kinds take precedence.
    kind(&tree, "cpu_atom", "0-3");
    assert_eq!(lists(tree.topology().core_kinds()), ["4-7", "0-3"]);
}

#[test]
fn cpus_that_no_list_has_are_a_kind_of_their_own() {
    let tree = FakeSysfs::online("0-7");
    for cpu in 0..8 {
        tree.cache(cpu, L3, "0-7");
    }
    let kinds = || {
        let m = tree.topology();
        (lists(m.core_kinds()), shards(&m, 8))
    };
    // The slow ones only: the others are the fast ones.
    kind(&tree, "cpu_atom", "0-3");
    assert_eq!(
        kinds(),
        (lists_of(["4-7", "0-3"]), lists_of(["0-3", "4-7"]))
    );
    kind(&tree, "cpu_lowpower", "2-3");
    kind(&tree, "cpu_atom", "0-1");
    assert_eq!(kinds().0, ["4-7", "0-1", "2-3"]);
    // All fast ones are named: the others are slower than what is named.
    kind(&tree, "cpu_core", "4-5");
    assert_eq!(kinds().0, ["4-5", "0-1", "2-3", "6-7"]);
    // None of them is online.
    kind(&tree, "cpu_core", "");
    assert_eq!(kinds().0, ["0-1", "2-3", "4-7"]);
    kind(&tree, "cpu_atom", "0-7");
    assert!(kinds().0.is_empty());
}

#[test]
fn cores_that_differ_by_a_little_or_do_not_tell_are_of_one_kind() {
    let tree = FakeSysfs::online("0-3");
    let capacity = |cpu: usize, text: &str| tree.write(&format!("cpu/cpu{cpu}/cpu_capacity"), text);
    for (cpu, text) in ["1024", "1000", "980", "950"].iter().enumerate() {
        capacity(cpu, text);
    }
    assert!(tree.topology().core_kinds().is_empty());
    capacity(3, "nonsense");
    assert!(tree.topology().core_kinds().is_empty());
    capacity(2, "500");
    assert_eq!(lists(tree.topology().core_kinds()), ["0-1,3", "2"]);
}

#[test]
fn kinds_of_which_no_core_is_online_are_none() {
    let tree = FakeSysfs::online("0-3");
    kind(&tree, "cpu_core", "0-3");
    kind(&tree, "cpu_atom", "8-11");
    assert!(tree.topology().core_kinds().is_empty());
    kind(&tree, "cpu_atom", "");
    assert!(tree.topology().core_kinds().is_empty());
    kind(&tree, "cpu_core", "no list");
    assert!(tree.topology().core_kinds().is_empty());
}

#[test]
fn dies_and_clusters_change_nothing_and_are_not_read() -> Result<(), TopologyError> {
    let tree = FakeSysfs::online("0-7");
    for cpu in 0..8 {
        tree.write(
            &format!("cpu/cpu{cpu}/topology/core_cpus_list"),
            &cpu.to_string(),
        );
        tree.cache(cpu, L2, if cpu < 4 { "0-3" } else { "4-7" });
    }
    let plain = tree.topology();
    for cpu in 0..8 {
        let dir = format!("cpu/cpu{cpu}/topology");
        tree.write(&format!("{dir}/die_cpus_list"), "0-7");
        tree.write(&format!("{dir}/die_id"), "-1");
        tree.write(&format!("{dir}/cluster_cpus_list"), "gibberish");
        tree.write(&format!("{dir}/cluster_id"), "65535");
    }
    assert_eq!(tree.read()?, plain);
    assert_eq!(lists(plain.llcs()), ["0-3", "4-7"]);
    assert_eq!(
        lists(plain.cores()),
        ["0", "1", "2", "3", "4", "5", "6", "7"]
    );
    Ok(())
}

#[test]
fn caches_of_some_cpus_only_leave_the_others_by_themselves() {
    let tree = FakeSysfs::online("0-5");
    for cpu in 0..6 {
        tree.siblings(cpu, &format!("{}-{}", cpu & !1, cpu | 1));
    }
    // The second CPU of a core gives the cache for both; the last core has none.
    tree.cache(1, L3, "0-3");
    tree.cache(2, L3, "0-3");
    let m = tree.topology();
    assert_eq!(lists(m.llcs()), ["0-3", "4-5"]);
    assert!(!m.assumed().is_empty() || m.nodes().len() == 1);
}
