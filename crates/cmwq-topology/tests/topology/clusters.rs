//! Sub-NUMA clustering: the system reports one last-level cache for several nodes. As in the
//! kernel, whose scheduler does this, no cache and so no shard spans nodes.

use crate::common::{FakeSysfs, L3, lists};
use cmwq_topology::Topology;
use cmwq_topology::affinity::{AffinityScope, Pods};

fn described(text: &str) -> Topology {
    Topology::from_synthetic(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn pods(machine: &Topology, scope: AffinityScope) -> Vec<String> {
    let pods = Pods::build(machine, scope, 8);
    lists(pods.pods().iter().map(|pod| &pod.cpus))
}

/// What a real 7.3.4 kernel made of this machine.
fn assert_cut_as_the_kernel_cut_it(machine: &Topology) {
    assert_eq!(lists(machine.llcs()), ["0-11", "12-23"]);
    assert_eq!(pods(machine, AffinityScope::Cache), ["0-11", "12-23"]);
    assert_eq!(
        pods(machine, AffinityScope::CacheShard),
        ["0-5", "6-11", "12-17", "18-23"]
    );
    assert_eq!(machine.llc_of(11), Some(0));
    assert_eq!(machine.llc_of(12), Some(1));
}

#[test]
fn a_described_cache_is_cut_at_the_nodes_in_it() {
    let machine = described("pack:1 l3:1 numa:2 core:12 pu:1");
    assert_cut_as_the_kernel_cut_it(&machine);
    assert_eq!(machine.assumed(), []);
}

#[test]
fn two_packages_of_four_nodes_have_eight_caches_and_sixteen_shards() {
    let machine = described("pack:2 l3:1 numa:4 core:14 pu:1");
    let caches = Pods::build(&machine, AffinityScope::Cache, 8);
    let sizes = |pods: &Pods| {
        pods.pods()
            .iter()
            .map(|pod| pod.cpus.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(&caches), [14; 8]);
    let shards = Pods::build(&machine, AffinityScope::CacheShard, 8);
    assert_eq!(sizes(&shards), [7; 16]);
    let nodes: Vec<_> = shards.pods().iter().map(|pod| pod.node).collect();
    assert_eq!(
        nodes,
        (0..16).map(|shard| Some(shard / 2)).collect::<Vec<_>>()
    );
}

#[test]
fn a_cache_of_a_tree_is_cut_at_the_nodes_in_it() {
    let tree = FakeSysfs::online("0-23");
    for cpu in 0..24 {
        tree.siblings(cpu, &cpu.to_string());
        tree.cache(cpu, L3, "0-23");
    }
    tree.node(0, "0-11");
    tree.node(1, "12-23");
    assert_cut_as_the_kernel_cut_it(&tree.topology());
    // The numbers of the nodes do not matter, and neither do nodes that hold memory only.
    tree.node(0, "");
    tree.node(7, "0-11");
    assert_cut_as_the_kernel_cut_it(&tree.topology());
    // CPUs of no node share their part of the cache.
    tree.node(7, "");
    assert_cut_as_the_kernel_cut_it(&tree.topology());
}

#[test]
fn an_assumed_cache_is_cut_at_the_nodes_in_it() {
    let machine = described("pack:1 numa:2 core:12 pu:1");
    assert_cut_as_the_kernel_cut_it(&machine);
    let tree = FakeSysfs::online("0-23");
    for cpu in 0..24 {
        tree.siblings(cpu, &cpu.to_string());
        let package = format!("cpu/cpu{cpu}/topology/physical_package_id");
        tree.write(&package, "0");
    }
    tree.node(0, "0-11");
    tree.node(1, "12-23");
    assert_cut_as_the_kernel_cut_it(&tree.topology());
    assert_eq!(tree.topology().assumed(), machine.assumed());
}
