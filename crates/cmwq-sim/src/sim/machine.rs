//! Which machine: a preset, a file, a copy of a `/sys`, or a description.

use cmwq_simulated::topology::Topology;
use cmwq_vm::machine::{Costs, MAX_CPUS, Machine, PRESETS, Place, Placement, preset};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The greatest figure of a cost.
const MOST: u64 = 1_000_000_000;

/// A machine, and what its description left open.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) machine: Machine,
    /// A line for each thing that was assumed. Presets leave nothing open.
    pub(super) assumed: Vec<String>,
}

/// The machine of `--machine`.
pub(super) fn named(name: &str) -> Result<Described, String> {
    if let Some(preset) = preset(name) {
        return Ok(Described {
            machine: preset.machine(),
            assumed: Vec::new(),
        });
    }
    let path = Path::new(name);
    let refused = |error: &dyn std::fmt::Display| format!("--machine {name}: {error}");
    if path.is_dir() {
        let topology = Topology::from_sysfs(path).map_err(|error| refused(&error))?;
        return machine(name, &topology, Costs::default()).map_err(|error| refused(&error));
    }
    if !path.exists() {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let names = names.join(", ");
        return Err(format!(
            "--machine: no machine {name:?}: it must be one of {names}, a JSON file, or a copy of a machine's /sys"
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
    from_json(&text).map_err(|error| refused(&error))
}

/// The machine of `--synthetic`.
pub(super) fn synthetic(text: &str) -> Result<Described, String> {
    let topology =
        Topology::from_synthetic(text).map_err(|error| format!("--synthetic: {error}"))?;
    machine(text, &topology, Costs::default()).map_err(|error| format!("--synthetic: {error}"))
}

/// `{"name": …, "synthetic": "pack:1 l3:2 core:8 pu:2", "costs": {"wake_ns": 900, …}}`; costs that
/// are left out are the estimates that all presets share.
fn from_json(text: &str) -> Result<Described, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let fields = value
        .as_object()
        .ok_or("it must be an object with name, synthetic, costs")?;
    if let Some(other) = fields
        .keys()
        .find(|key| !matches!(key.as_str(), "name" | "synthetic" | "costs"))
    {
        return Err(format!(
            "{other:?} is unknown: allowed are name, synthetic, costs"
        ));
    }
    let shape = fields
        .get("synthetic")
        .and_then(Value::as_str)
        .ok_or("\"synthetic\" must be a description such as \"pack:1 l3:2 core:8 pu:2\"")?;
    let name = fields.get("name").and_then(Value::as_str).unwrap_or(shape);
    let mut costs = Costs::default();
    let given = fields.get("costs").map(|costs| {
        let object = costs.as_object();
        object.ok_or("\"costs\" must be an object of figures in ns")
    });
    for (key, value) in given.transpose()?.into_iter().flatten() {
        set_cost(&mut costs, key, value)?;
    }
    let topology = Topology::from_synthetic(shape).map_err(|error| error.to_string())?;
    machine(name, &topology, costs)
}

macro_rules! costs_by_name {
    ($costs:expr, $($name:ident)*) => {
        [$((stringify!($name), &mut $costs.$name)),*]
    };
}

fn set_cost(costs: &mut Costs, key: &str, value: &Value) -> Result<(), String> {
    if key == "transfer_ns" {
        let figure = |value: &Value| value.as_u64().filter(|&ns| ns <= MOST);
        let numbers: Option<Vec<u64>> = value
            .as_array()
            .and_then(|list| list.iter().map(figure).collect());
        costs.transfer_ns = numbers
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(|| format!(
                "transfer_ns: {value} must be five whole numbers up to {MOST}: from the last-level cache, SMT sibling, same cache, same socket, other socket"
            ))?;
        return Ok(());
    }
    let all = costs_by_name!(costs, kept_ppt strides_ahead private_lines update_ps between_ps window_ns read_overlap smt_slowdown_ppt jitter_ppt syscall_ns switch_ns yield_ns clock_ns wake_ns
        interrupt_send_ns interrupt_ns wake_awake_ns idle_poll_ns idle_exit_ns idle_exit_deep_ns idle_deep_after_ns clone_ns migration_ns hot_ns slice_ns tick_ns
        preempt_after_ns pause_ns);
    let names: Vec<&str> = all.iter().map(|cost| cost.0).collect();
    let names = names.join(", ");
    let Some((_, cost)) = all.into_iter().find(|cost| cost.0 == key) else {
        return Err(format!(
            "the cost {key:?} is unknown: there are transfer_ns, {names}"
        ));
    };
    let allowed = match key {
        // Parts of what is varied, or of all.
        "jitter_ppt" | "kept_ppt" => 0..=1000,
        // Without a slice no thread gets on.
        "slice_ns" => 1..=MOST,
        _ => 0..=MOST,
    };
    let refused = || {
        let (least, most) = (allowed.start(), allowed.end());
        format!("{key}: {value} must be a whole number from {least} to {most}")
    };
    *cost = value
        .as_u64()
        .filter(|number| allowed.contains(number))
        .ok_or_else(refused)?;
    Ok(())
}

/// CPUs, nodes and packages are numbered anew, in the same order without gaps: a system's own
/// numbers have more bits than a machine's.
fn machine(name: &str, topology: &Topology, costs: Costs) -> Result<Described, String> {
    let online: Vec<usize> = topology.online().iter().collect();
    if online.len() > MAX_CPUS {
        let count = online.len();
        return Err(format!(
            "{count} CPUs are too many: at most {MAX_CPUS} can be simulated"
        ));
    }
    // These have no gaps.
    let number = |of: Option<usize>| of.unwrap_or(0) as u16;
    let nodes = numbered_anew(&online, |cpu| topology.node_of(cpu));
    let packages = numbered_anew(&online, |cpu| topology.package_of(cpu));
    let cpus = online.iter().map(|&cpu| Place {
        core: number(topology.core_of(cpu)),
        llc: number(topology.llc_of(cpu)),
        node: nodes(cpu),
        package: packages(cpu),
    });
    let assumed = topology.assumed().iter().map(ToString::to_string);
    let faults = topology.faults().iter();
    let missing = faults.map(|fault| format!("taken as missing: {fault}"));
    Ok(Described {
        machine: Machine {
            name: name.to_owned(),
            cpus: cpus.collect(),
            costs,
            placement: Placement::default(),
        },
        assumed: assumed.chain(missing).collect(),
    })
}

/// A CPU of no group is in group 0.
fn numbered_anew(cpus: &[usize], group: impl Fn(usize) -> Option<u32>) -> impl Fn(usize) -> u16 {
    let number = move |cpu| group(cpu).unwrap_or(0);
    let all: BTreeSet<u32> = cpus.iter().map(|&cpu| number(cpu)).collect();
    move |cpu| all.range(..number(cpu)).count() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_packages_of_any_numbers_are_told_apart() {
        let tree = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            let file = tree.path().join("devices/system").join(file);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
            std::fs::write(file, text).expect("it is written");
        };
        write("cpu/online", "0-2,8000\n");
        for (cpu, package) in [(0, 1_u32), (1, 65_537), (2, 65_536), (8000, u32::MAX >> 1)] {
            let file = format!("cpu/cpu{cpu}/topology/physical_package_id");
            write(&file, &package.to_string());
        }
        for (node, cpus) in [(7, "0"), (65_543, "1-2"), (65_536 * 3 + 7, "8000")] {
            write(&format!("node/node{node}/cpulist"), cpus);
        }
        let described = named(tree.path().to_str().expect("text")).expect("a machine");
        let assumed = described.assumed.join("; ");
        assert!(assumed.contains("no SMT siblings"), "{assumed}");
        let machine = described.machine;
        let places = machine
            .cpus
            .iter()
            .map(|place| (place.core, place.node, place.package));
        let places: Vec<_> = places.collect();
        assert_eq!(places, [(0, 0, 0), (1, 1, 2), (2, 1, 1), (3, 2, 3)]);
    }

    #[test]
    fn a_file_gives_shape_and_costs() {
        let text = r#"{"synthetic": "pack:2 l3:2 core:3 pu:2", "costs": {"wake_ns": 7}}"#;
        let machine = from_json(text).expect("it is right").machine;
        assert_eq!((machine.cpus.len(), machine.costs.wake_ns), (24, 7));
        let last = machine.cpus[23];
        assert_eq!((last.core, last.llc, last.package), (11, 3, 1));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        for (text, named) in [
            ("[]", "object"),
            (r#"{"cpus": 4}"#, "\"cpus\""),
            (r#"{"costs": {}}"#, "synthetic"),
            (
                r#"{"synthetic": "core:2", "costs": {"wake": 1}}"#,
                "\"wake\"",
            ),
            (r#"{"synthetic": "core:2", "costs": {"wake_ns": -1}}"#, "-1"),
            (
                r#"{"synthetic": "core:2", "costs": {"transfer_ns": [1]}}"#,
                "five",
            ),
            (
                r#"{"synthetic": "core:2", "costs": {"transfer_ns": [1, 1, 1, 1, 1000000001]}}"#,
                "1000000000",
            ),
            (
                r#"{"synthetic": "core:2", "costs": {"jitter_ppt": 1001}}"#,
                "0 to 1000",
            ),
            (
                r#"{"synthetic": "core:2", "costs": {"slice_ns": 0}}"#,
                "from 1",
            ),
            (r#"{"synthetic": "core:300"}"#, "256"),
        ] {
            let error = from_json(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
