//! A real kernel's pods, recorded on several machines, against ours; and what its files accepted.
//!
//! `data/kernel-pods.json` says how the recording was made. Each machine is written out as a sysfs
//! tree first, so that the reader is tested with it.
//!
//! Sabotage tried, each failing `every_recorded_machine_is_cut_as_the_kernel_cut_it`: rounding the
//! shard count up, and down; the larger shards last; counting CPUs instead of cores; taking the
//! lowest data cache for the LLC.

use std::collections::BTreeMap;

use crate::common::{FakeSysfs, L3};
use cmwq_topology::Topology;
use cmwq_topology::affinity::{AffinityScope, DEFAULT_SHARD_SIZE, Pods, effective_shard_size};
use serde_json::Value;

const RECORDED: &str = include_str!("../data/kernel-pods.json");

fn recorded() -> Value {
    serde_json::from_str(RECORDED).expect("the recording is JSON")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key]
        .as_array()
        .unwrap_or_else(|| panic!("no list {key}"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no text {key}"))
}

fn number(value: &Value, key: &str) -> usize {
    let number = value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {key}"));
    usize::try_from(number).expect("small")
}

/// Writes the recorded CPUs out as a sysfs tree and reads that.
fn topology(machine: &Value) -> Topology {
    let cpus: BTreeMap<usize, &Value> = machine["cpus"]
        .as_object()
        .expect("CPUs")
        .iter()
        .map(|(cpu, record)| (cpu.parse().expect("a CPU number"), record))
        .collect();
    let online = cpus
        .keys()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",");
    let tree = FakeSysfs::online(&online);
    if text(machine, "name") == "sixteen-possible-ten-online" {
        tree.write("cpu/possible", "0-15");
    }
    let mut nodes: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (cpu, record) in &cpus {
        let siblings = text(record, "thread_siblings_list");
        tree.siblings(*cpu, siblings);
        tree.core_caches(*cpu, siblings);
        tree.cache(*cpu, L3, text(record, "llc_shared_cpu_list"));
        nodes
            .entry(number(record, "node"))
            .or_default()
            .push(cpu.to_string());
    }
    for (node, cpus) in nodes {
        tree.node(u32::try_from(node).expect("small"), &cpus.join(","));
    }
    tree.topology()
}

#[test]
fn every_recorded_machine_is_cut_as_the_kernel_cut_it() {
    let recorded = recorded();
    let machines = list(&recorded, "machines");
    assert!(machines.len() >= 10, "the recording is complete");
    for machine in machines {
        let name = text(machine, "name");
        let topology = topology(machine);
        let shard_size = number(machine, "cache_shard_size");
        assert_eq!(
            effective_shard_size(number(machine, "cache_shard_size_arg")),
            shard_size,
            "{name}"
        );
        let recorded = machine["pods"].as_object().expect("pods");
        assert_eq!(recorded.len(), 6, "{name}: the kernel's scopes");
        // A scope that the kernel does not have has no record.
        for (scope, kernel) in recorded {
            let scope = scope.parse().expect("the kernel's scopes are ours");
            let kernel: Vec<Vec<usize>> =
                serde_json::from_value(kernel.clone()).expect("CPU numbers");
            let pods = Pods::build(&topology, scope, shard_size);
            let ours: Vec<Vec<usize>> = pods
                .pods()
                .iter()
                .map(|pod| pod.cpus.iter().collect())
                .collect();
            assert_eq!(ours, kernel, "{name}, {scope}");
        }
    }
}

#[test]
fn the_kernels_defaults_are_ours() {
    let recorded = recorded();
    for machine in list(&recorded, "machines") {
        assert_eq!(
            text(machine, "default_affinity_scope"),
            AffinityScope::INITIAL_DEFAULT.name()
        );
    }
    // The machines that were started without the parameter have the kernel's default.
    assert_eq!(
        number(&list(&recorded, "machines")[0], "cache_shard_size"),
        DEFAULT_SHARD_SIZE
    );
}

/// Plays recorded writes back: a name that our parser refuses leaves the earlier scope.
fn replay(
    start: AffinityScope,
    writes: &[Value],
    accepted: impl Fn(AffinityScope) -> bool,
    shown: impl Fn(AffinityScope) -> String,
) {
    let mut scope = start;
    for write in writes {
        let written = text(write, "written");
        if let Ok(named) = AffinityScope::parse_kernel(written)
            && accepted(named)
        {
            scope = named;
        }
        assert_eq!(
            shown(scope),
            text(write, "reads_back"),
            "after writing {written:?}"
        );
    }
}

#[test]
fn scope_names_are_accepted_as_the_kernels_files_accept_them() {
    let recorded = recorded();
    let writes = &recorded["writes"];
    replay(
        AffinityScope::System,
        list(writes, "affinity_scope (starting from system)"),
        |_| true,
        |scope| match scope {
            AffinityScope::Default => format!("default ({})", AffinityScope::INITIAL_DEFAULT),
            named => named.to_string(),
        },
    );
    replay(
        AffinityScope::INITIAL_DEFAULT,
        list(writes, "default_affinity_scope, with a queue on default"),
        |named| named != AffinityScope::Default,
        |scope| format!("{scope}; wq: default ({scope})"),
    );
}
