//! Trees with files that cannot be read or understood: the machine is read nevertheless.

use std::fs;

use crate::common::{FakeSysfs, L2, L3, lists};
use cmwq_topology::{Assumption, CpuSet, TopologyError};

/// The first file at fault of a tree that is read nevertheless, with the tree's directory as ROOT.
fn fault_of(tree: &FakeSysfs) -> String {
    let machine = tree.topology();
    assert!(!machine.cpus().is_empty());
    let fault = machine.faults().first().expect("a fault");
    assert!(!fault.contains('\n') && !fault.ends_with('.'), "{fault}");
    fault.replace(&tree.root().display().to_string(), "ROOT")
}

#[test]
fn a_file_that_cannot_be_read_or_understood_counts_as_missing() {
    let nul = "\"0\\01\" is not a CPU number or a range such as 0-3 or 0-15:2/4".to_string();
    let long = "9".repeat(70_000);
    let cases: [(&str, &[u8], &str); 13] = [
        (
            "cpu/online",
            b"banana\n",
            "\"banana\" is not a CPU number or a range such as 0-3 or 0-15:2/4",
        ),
        (
            "cpu/online",
            b"0-9999\n",
            "CPU 9999 is too large: CPU numbers run from 0 to 8191",
        ),
        ("cpu/online", b"0\x001", &nul),
        ("cpu/online", b"\xff\xfe0", "it is not text"),
        (
            "cpu/online",
            long.as_bytes(),
            "it is longer than 65536 bytes",
        ),
        (
            "cpu/possible",
            b"3-0\n",
            "\"3-0\" runs backwards: a range is written FIRST-LAST",
        ),
        (
            "cpu/cpu1/topology/thread_siblings_list",
            b"0-",
            "\"0-\" is not a CPU number or a range such as 0-3 or 0-15:2/4",
        ),
        (
            "cpu/cpu1/topology/thread_siblings",
            b"xyz\n",
            "\"xyz\" is not a mask group: a mask is groups of one to eight hexadecimal digits separated by commas",
        ),
        (
            "cpu/cpu0/topology/physical_package_id",
            b"left\n",
            "\"left\" is not a package number",
        ),
        (
            "cpu/cpu1/cache/index3/level",
            b"-1\n",
            "\"-1\" is not a cache level from 0 to 16",
        ),
        (
            "cpu/cpu1/cache/index3/type",
            b"Unfied\n",
            "\"Unfied\" is not Data, Instruction or Unified",
        ),
        (
            "cpu/cpu1/cache/index3/shared_cpu_list",
            b"0;1\n",
            "\"0;1\" is not a CPU number or a range such as 0-3 or 0-15:2/4",
        ),
        (
            "node/node0/cpulist",
            b"all\n",
            "\"all\" is not a CPU number or a range such as 0-3 or 0-15:2/4",
        ),
    ];
    for (name, bytes, reason) in cases {
        let tree = FakeSysfs::online("0-1");
        tree.cache(1, L3, "0-1");
        tree.write_bytes(name, bytes);
        let expected = format!("cannot make sense of \"ROOT/devices/system/{name}\": {reason}");
        assert_eq!(fault_of(&tree), expected);
    }
    // Whether a CPU is switched off is asked where there is no list.
    let tree = FakeSysfs::new();
    tree.write("cpu/present", "0-1");
    tree.write("cpu/cpu1/online", "yes");
    assert_eq!(
        fault_of(&tree),
        "cannot make sense of \"ROOT/devices/system/cpu/cpu1/online\": \"yes\" is not 0 or 1"
    );
    // A directory in place of a file is there, and cannot be read.
    for name in [
        "cpu/online",
        "cpu/cpu1/topology/core_cpus_list",
        "node/node0/cpulist",
    ] {
        let tree = FakeSysfs::new();
        tree.write("cpu/possible", "0-1");
        if name != "cpu/online" {
            tree.write("cpu/online", "0-1");
        }
        fs::create_dir_all(tree.path(name)).expect("directory");
        let fault = fault_of(&tree);
        assert!(
            fault.starts_with(&format!("cannot read \"ROOT/devices/system/{name}\": ")),
            "{fault}"
        );
    }
    // So is a link that leads nowhere but to itself.
    let tree = FakeSysfs::online("0-1");
    let link = tree.path("cpu/possible");
    std::os::unix::fs::symlink(&link, &link).expect("link");
    let fault = fault_of(&tree);
    assert!(
        fault.starts_with("cannot read \"ROOT/devices/system/cpu/possible\": "),
        "{fault}"
    );
    // And a file in place of a directory.
    let tree = FakeSysfs::online("0-1");
    tree.write("node", "");
    assert!(fault_of(&tree).starts_with("cannot read \"ROOT/devices/system/node\": "));
}

#[test]
fn what_is_at_fault_in_one_place_changes_nothing_elsewhere() {
    let tree = FakeSysfs::online("0-3");
    for cpu in 0..4 {
        let pair = ["0-1", "2-3"][cpu / 2];
        tree.siblings(cpu, pair);
        tree.cache(cpu, L2, pair);
        tree.cache(cpu, L3, "0-3");
    }
    let sound = tree.topology();
    assert!(sound.faults().is_empty());
    tree.write("cpu/possible", "?");
    tree.write("cpu/cpu2/topology/physical_package_id", "");
    tree.write("cpu/cpu9999999999999999999999/online", "1");
    tree.write("cpu/cpu3/cache/index9/level", "unknown");
    tree.write("cpu/cpu3/cache/index9/type", "Unified");
    tree.write("node/node5000000000/cpulist", "0-3");
    let machine = tree.topology();
    assert_eq!(machine.faults().len(), 5, "{:?}", machine.faults());
    assert_eq!(lists(machine.cores()), lists(sound.cores()));
    assert_eq!(lists(machine.llcs()), lists(sound.llcs()));
    assert_eq!(machine.nodes(), sound.nodes());
}

#[test]
fn the_first_few_faults_are_kept() {
    let tree = FakeSysfs::online("0-63");
    for cpu in 0..64 {
        tree.siblings(cpu, "none");
    }
    let machine = tree.topology();
    assert_eq!(machine.cores().len(), 64);
    assert_eq!(machine.faults().len(), 8);
}

#[test]
fn a_cache_that_its_own_cpu_does_not_share_is_none() {
    // Firmware of some machines describes a cache and leaves its set empty.
    let tree = FakeSysfs::online("0-3");
    for cpu in 0..4 {
        tree.cache(cpu, L2, ["0-1", "2-3"][cpu / 2]);
        tree.cache(cpu, L3, "");
    }
    let machine = tree.topology();
    assert_eq!(lists(machine.llcs()), ["0-1", "2-3"]);
    assert_eq!(machine.faults().len(), 4, "{:?}", machine.faults());
    assert!(machine.faults()[0].ends_with("/index3/shared_cpu_list\": CPU 0 is not in it"));
    // Or the list is of no use, but the mask is.
    for cpu in 0..4 {
        tree.write(&format!("cpu/cpu{cpu}/cache/index3/shared_cpu_map"), "f");
    }
    let machine = tree.topology();
    assert_eq!(lists(machine.llcs()), ["0-3"]);
    assert_eq!(machine.faults(), [""; 0]);
}

#[test]
fn what_lies_below_the_last_level_cache_is_not_read() {
    let tree = FakeSysfs::online("0-1");
    for cpu in 0..2 {
        tree.core_caches(cpu, "0-1");
        tree.cache(cpu, L3, "0-1");
        // Each file that is opened takes microseconds, and a machine may have hundreds of CPUs.
        for index in 0..3 {
            let dir = format!("cpu/cpu{cpu}/cache/index{index}");
            tree.write(&format!("{dir}/type"), "not read");
            tree.write(&format!("{dir}/shared_cpu_list"), "not read");
        }
    }
    let machine = tree.topology();
    assert_eq!(machine.faults(), [] as [String; 0]);
    assert_eq!(lists(machine.llcs()), ["0-1"]);
}

#[test]
fn a_cpu_is_on_unless_its_file_says_that_it_is_off() {
    let tree = FakeSysfs::new();
    tree.write("cpu/possible", "0-2");
    for (cpu, text) in ["", "0", "1"].iter().enumerate() {
        tree.write(&format!("cpu/cpu{cpu}/online"), text);
    }
    let machine = tree.topology();
    assert_eq!(machine.online().to_string(), "0,2");
    assert_eq!(machine.faults().len(), 1);
}

#[test]
fn an_empty_list_of_cpus_tells_nothing() {
    // A container's runtime hides a file below /dev/null.
    let tree = FakeSysfs::online("");
    tree.write("cpu/present", "");
    tree.write("cpu/possible", "0-3");
    assert_eq!(tree.topology().online().to_string(), "0-3");
    assert!(tree.topology().assumed().contains(&Assumption::Online));
}

#[test]
fn siblings_and_nodes_below_empty_files_are_assumed() {
    let tree = FakeSysfs::online("0-3");
    for cpu in 0..4 {
        tree.siblings(cpu, "");
        tree.cache(cpu, L3, "0-3");
    }
    tree.node(0, "");
    let machine = tree.topology();
    assert_eq!(lists(machine.cores()), ["0", "1", "2", "3"]);
    let all = (0, CpuSet::from_iter(0..4));
    assert_eq!(machine.nodes(), [all]);
    assert_eq!(machine.assumed(), [Assumption::Cores, Assumption::Nodes]);
    // Only the older of two names is hidden.
    for cpu in 0..4 {
        let list = ["0-1", "2-3"][cpu / 2];
        tree.write(&format!("cpu/cpu{cpu}/topology/core_cpus_list"), list);
    }
    let machine = tree.topology();
    assert_eq!(lists(machine.cores()), ["0-1", "2-3"]);
    assert_eq!(machine.assumed(), [Assumption::Nodes]);
}

#[test]
fn a_tree_that_tells_no_cpu_names_the_file_at_fault() {
    let tree = FakeSysfs::online("?");
    let error = tree.read().expect_err("no CPU");
    assert!(matches!(error, TopologyError::Parse { .. }), "{error}");
}
