//! Machines read from fake sysfs trees: cut down, odd, and very large.
//!
//! Sabotage tried: dropping the fallback to the siblings' cache fails
//! `a_cpu_without_cache_data_follows_its_siblings`; cores in place of caches that the tree does not
//! tell, nodes before packages, or packages only, fail the two tests of `in_place_of_caches`;
//! ignoring `cpuN/online` fails `cpus_that_are_switched_off_one_by_one_are_not_online`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{FakeSysfs, L2, L3, lists};
use cmwq_topology::affinity::{AffinityScope, Pods};
use cmwq_topology::{Assumption, CpuSet, Substitute, Topology, TopologyError};

#[test]
fn a_cut_down_container_has_one_cache_on_one_node() {
    let m = FakeSysfs::online("0-3").topology();
    assert_eq!(lists(m.cores()), ["0", "1", "2", "3"]);
    assert_eq!(lists(m.llcs()), ["0-3"]);
    assert_eq!(m.nodes(), [(0, CpuSet::from_iter(0..4))]);
    assert_eq!(m.package_of(0), None);
    assert_eq!(m.possible(), m.online());
    assert_eq!(m.allowed(), m.online());
    assert!(m.is_injected());
    assert_eq!(
        m.assumed(),
        [
            Assumption::Cores,
            Assumption::Nodes,
            Assumption::Caches(Substitute::Node)
        ]
    );
    assert_eq!(FakeSysfs::online("7").topology().assumed(), []);
}

#[test]
fn in_place_of_caches_that_nobody_tells_of_are_packages() {
    // Two packages of two nodes each, the CPUs of a package on both sides.
    let tree = FakeSysfs::online("0-31");
    for cpu in 0..32 {
        let (core, package) = (cpu % 16, cpu % 16 / 8);
        tree.siblings(cpu, &format!("{core},{}", core + 16));
        tree.write(
            &format!("cpu/cpu{cpu}/topology/physical_package_id"),
            &package.to_string(),
        );
    }
    for node in 0..4 {
        let first = node * 4;
        tree.node(
            node,
            &format!("{first}-{},{}-{}", first + 3, first + 16, first + 19),
        );
    }
    let m = tree.topology();
    assert_eq!(
        lists(m.llcs()),
        ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]
    );
    assert_eq!(m.assumed(), [Assumption::Caches(Substitute::Package)]);
    assert_eq!(
        m.assumed()[0].to_string(),
        "no cache information: the CPUs of a package on one node are taken to share a last-level cache"
    );
    // Cut by size as any other cache, between cores.
    let shards = Pods::build(&m, AffinityScope::CacheShard, 2);
    let shards = shards.pods()[..4].iter().map(|pod| &pod.cpus);
    assert_eq!(
        lists(shards),
        ["0-1,16-17", "2-3,18-19", "4-5,20-21", "6-7,22-23"]
    );
    // The caches of some CPUs: the list names others, and the package is what the CPUs that are
    // left have in common.
    tree.cache(5, L3, "4-7,20-23");
    let m = tree.topology();
    assert_eq!(m.assumed(), [Assumption::SomeCaches(Substitute::Package)]);
    assert_eq!(
        m.assumed()[0].to_string(),
        "no cache information of some cores: those of a package on one node are taken to share a last-level cache"
    );
    assert_eq!(
        lists(m.llcs()),
        ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]
    );
    // Of one CPU of each core.
    (0..16).for_each(|cpu| tree.cache(cpu, L3, "0-31"));
    assert_eq!(tree.topology().assumed(), []);
}

#[test]
fn in_place_of_caches_are_nodes_where_no_package_is_known() {
    let tree = FakeSysfs::online("0-7");
    for cpu in 0..8 {
        tree.siblings(cpu, &cpu.to_string());
        let package = if cpu < 2 { "4" } else { "-1" };
        tree.write(
            &format!("cpu/cpu{cpu}/topology/physical_package_id"),
            package,
        );
    }
    tree.node(0, "0-3");
    tree.node(1, "4-5");
    let m = tree.topology();
    // No node has the last two.
    assert_eq!(lists(m.llcs()), ["0-1", "2-3", "4-5", "6", "7"]);
    assert_eq!(m.assumed(), [Assumption::Caches(Substitute::Package)]);
}

#[test]
fn without_the_online_file_what_is_left_tells() {
    let tree = FakeSysfs::new();
    fs::create_dir_all(tree.path("cpu/cpu3")).expect("directory");
    fs::create_dir_all(tree.path("cpu/cpu7")).expect("directory");
    fs::create_dir_all(tree.path("cpu/cpufreq")).expect("directory");
    assert_eq!(tree.topology().cpus().to_string(), "3,7");
    tree.write("cpu/possible", "0-15");
    assert_eq!(tree.topology().cpus().to_string(), "0-15");
    tree.write("cpu/present", "0-9");
    let m = tree.topology();
    assert_eq!(m.cpus().to_string(), "0-9");
    assert_eq!(m.possible().to_string(), "0-15");
}

#[test]
fn cpus_that_are_switched_off_one_by_one_are_not_online() {
    let tree = FakeSysfs::new();
    tree.write("cpu/present", "0-5");
    tree.write("cpu/possible", "0-7");
    // The first has no such file: it cannot be switched off.
    fs::create_dir_all(tree.path("cpu/cpu0")).expect("directory");
    for (cpu, online) in [(1, "1"), (2, "0"), (3, "1"), (4, "0"), (6, "0")] {
        tree.write(&format!("cpu/cpu{cpu}/online"), online);
    }
    let m = tree.topology();
    assert_eq!(m.online().to_string(), "0-1,3,5");
    assert_eq!(m.possible().to_string(), "0-7");
    assert_eq!(m.assumed()[0], Assumption::Online);
    // The list knows better.
    tree.write("cpu/online", "0-4");
    assert_eq!(tree.topology().online().to_string(), "0-4");
    assert!(!tree.topology().assumed().contains(&Assumption::Online));
}

#[test]
fn what_is_behind_a_value_is_no_part_of_it() {
    let tree = FakeSysfs::new();
    tree.write_bytes("cpu/online", b"0-3\0\n");
    tree.write_bytes("cpu/possible", b"0-7 \n\0\0");
    for cpu in 0..4 {
        let dir = format!("cpu/cpu{cpu}");
        tree.write_bytes(
            &format!("{dir}/topology/thread_siblings"),
            if cpu < 2 { b"3\0" } else { b"c " },
        );
        tree.write_bytes(&format!("{dir}/topology/physical_package_id"), b"3\0\n\0");
        tree.write_bytes(&format!("{dir}/cache/index3/level"), b"3 \n");
        tree.write_bytes(&format!("{dir}/cache/index3/type"), b"Unified\0");
        tree.write_bytes(&format!("{dir}/cache/index3/shared_cpu_list"), b"0-3\t\0");
    }
    tree.write_bytes("node/node2/cpulist", b"0-3\n\0");
    let m = tree.topology();
    assert_eq!(m.online().to_string(), "0-3");
    assert_eq!(m.possible().to_string(), "0-7");
    assert_eq!(lists(m.cores()), ["0-1", "2-3"]);
    assert_eq!(lists(m.llcs()), ["0-3"]);
    assert_eq!((m.package_of(3), m.node_of(3)), (Some(3), Some(2)));
    assert_eq!(m.assumed(), []);
}

#[test]
fn cpus_that_are_not_online_are_possible_and_in_no_pod() {
    let tree = FakeSysfs::online("0-1,4-5");
    tree.write("cpu/possible", "0-7");
    for cpu in [0, 1, 4, 5] {
        // The lists of old kernels may name CPUs that were switched off since.
        tree.siblings(cpu, if cpu < 4 { "0-1,2" } else { "4-5" });
        tree.cache(cpu, L3, "0-7");
    }
    tree.node(0, "0-3");
    tree.node(1, "4-7");
    tree.node(2, "");
    let m = tree.topology();
    assert_eq!(m.possible().to_string(), "0-7");
    assert_eq!(lists(m.cores()), ["0-1", "4-5"]);
    assert_eq!(lists(m.llcs()), ["0-1", "4-5"], "cut at the nodes");
    assert_eq!(m.nodes().len(), 2, "a node without CPUs is left out");
    assert_eq!(
        (m.core_of(2), m.llc_of(7), m.node_of(6)),
        (None, None, None)
    );
    for scope in AffinityScope::CONCRETE {
        assert_eq!(Pods::build(&m, scope, 8).pod_of(2), None, "{scope}");
    }
    assert_eq!(m.max_cpu(), 5);
}

#[test]
fn sparse_numbers_keep_their_numbers_and_get_dense_ids() {
    let tree = FakeSysfs::online("3,64,200-201,8191");
    tree.siblings(3, "3,8191");
    tree.siblings(8191, "3,8191");
    tree.node(4, "200-201");
    tree.node(250, "3,64,8191");
    let m = tree.topology();
    assert_eq!(lists(m.cores()), ["3,8191", "64", "200", "201"]);
    assert_eq!(m.core_of(8191), Some(0));
    assert_eq!(m.core_of(201), Some(3));
    assert_eq!(m.node_of(8191), Some(250));
    assert_eq!(m.node_of(200), Some(4));
    assert_eq!(m.max_cpu(), 8191);
}

#[test]
fn a_hybrid_machine_has_llcs_of_different_levels() {
    // Two cores of two threads under an L3; four single-threaded cores that have an L2 and nothing above.
    let tree = FakeSysfs::online("0-7");
    for cpu in 0..4 {
        let core = if cpu < 2 { "0-1" } else { "2-3" };
        tree.siblings(cpu, core);
        tree.core_caches(cpu, core);
        tree.cache(cpu, L3, "0-3");
    }
    for cpu in 4..8 {
        tree.siblings(cpu, &cpu.to_string());
        tree.cache(cpu, (0, "1", "Data"), &cpu.to_string());
        tree.cache(cpu, (1, "1", "Instruction"), &cpu.to_string());
        tree.cache(cpu, L2, "4-7");
    }
    let m = tree.topology();
    assert_eq!(lists(m.llcs()), ["0-3", "4-7"]);
    assert_eq!(lists(m.cores()), ["0-1", "2-3", "4", "5", "6", "7"]);
}

#[test]
fn instruction_caches_and_incomplete_ones_are_no_llc() {
    let tree = FakeSysfs::online("0-1");
    for cpu in 0..2 {
        tree.cache(cpu, L2, &cpu.to_string());
        tree.cache(cpu, (5, "4", "Instruction"), "0-1");
        tree.write(&format!("cpu/cpu{cpu}/cache/index6/level"), "5");
        tree.write(&format!("cpu/cpu{cpu}/cache/index6/shared_cpu_list"), "0-1");
    }
    assert_eq!(lists(tree.topology().llcs()), ["0", "1"]);
}

#[test]
fn a_cpu_without_cache_data_follows_its_siblings() {
    let tree = FakeSysfs::online("0-5");
    for (cpu, core) in [
        (0, "0,3"),
        (1, "1,4"),
        (2, "2,5"),
        (3, "0,3"),
        (4, "1,4"),
        (5, "2,5"),
    ] {
        tree.siblings(cpu, core);
    }
    tree.cache(0, L3, "0-1,3-4");
    tree.cache(1, L3, "0-1,3-4");
    tree.cache(3, L3, "0-1,3-4");
    assert_eq!(lists(tree.topology().llcs()), ["0-1,3-4", "2,5"]);
}

#[test]
fn the_other_names_and_the_masks_are_read_where_the_lists_are_missing() {
    let tree = FakeSysfs::online("0-3");
    for cpu in 0..4 {
        let mask = if cpu < 2 {
            "00000000,00000003"
        } else {
            "00000000,0000000c"
        };
        if cpu < 2 {
            tree.write(&format!("cpu/cpu{cpu}/topology/core_cpus_list"), "0-1");
        } else {
            tree.write(&format!("cpu/cpu{cpu}/topology/thread_siblings"), mask);
        }
        tree.write(
            &format!("cpu/cpu{cpu}/topology/physical_package_id"),
            if cpu < 2 { "7" } else { "-1" },
        );
        tree.write(&format!("cpu/cpu{cpu}/cache/index3/level"), "3");
        tree.write(&format!("cpu/cpu{cpu}/cache/index3/type"), "Unified");
        tree.write(&format!("cpu/cpu{cpu}/cache/index3/shared_cpu_map"), mask);
    }
    tree.write("node/node1/cpumap", "f");
    let m = tree.topology();
    assert_eq!(lists(m.cores()), ["0-1", "2-3"]);
    assert_eq!(lists(m.llcs()), ["0-1", "2-3"]);
    assert_eq!(m.node_of(3), Some(1));
    assert_eq!((m.package_of(1), m.package_of(2)), (Some(7), None));
}

#[test]
fn lists_that_contradict_each_other_are_settled_the_same_way_every_time() {
    let tree = FakeSysfs::online("0-3");
    tree.siblings(0, "0-3");
    tree.siblings(1, "1");
    tree.siblings(2, "0");
    tree.siblings(3, "2-3");
    tree.node(1, "1-3");
    tree.node(0, "0-1");
    let m = tree.topology();
    assert_eq!(lists(m.cores()), ["0,2", "1", "3"]);
    assert_eq!(
        m.nodes(),
        [
            (0, CpuSet::from_iter([0, 1])),
            (1, CpuSet::from_iter([2, 3]))
        ]
    );
    assert_eq!(m, tree.topology());
    // All of a core's CPUs agree, not only each of them with the first one.
    tree.siblings(0, "0-2");
    tree.siblings(1, "0-1");
    tree.siblings(2, "0,2");
    assert_eq!(lists(tree.topology().cores()), ["0-1", "2", "3"]);
}

#[test]
fn a_cpu_of_no_node_has_none() {
    let tree = FakeSysfs::online("0-1");
    tree.node(3, "0");
    let m = tree.topology();
    assert_eq!((m.node_of(0), m.node_of(1)), (Some(3), None));
    let numa = Pods::build(&m, AffinityScope::Numa, 8);
    assert_eq!(
        numa.pods().iter().map(|pod| pod.node).collect::<Vec<_>>(),
        [Some(3), None]
    );
}

#[test]
fn a_thousand_cpus_are_read() {
    let tree = FakeSysfs::online("0-1023");
    for cpu in 0..1024 {
        let core = format!("{},{}", cpu % 512, cpu % 512 + 512);
        let llc = cpu % 512 / 64 * 64;
        let shared = format!("{llc}-{},{}-{}", llc + 63, llc + 512, llc + 575);
        tree.siblings(cpu, &core);
        tree.cache(cpu, L3, &shared);
    }
    let m = tree.topology();
    assert_eq!((m.cores().len(), m.llcs().len()), (512, 8));
    let pods = Pods::build(&m, AffinityScope::CacheShard, 8);
    assert_eq!(pods.pods().len(), 64);
    assert_eq!(pods.pods()[1].cpus.to_string(), "8-15,520-527");
    // The same machine, described in words.
    let words = Topology::from_synthetic("l3:8 core:64 pu:2(indexes=2*512:1*2)").expect("valid");
    assert_eq!(words.cores(), m.cores());
    assert_eq!(words.llcs(), m.llcs());
}

#[test]
fn one_cpu_is_a_machine() {
    for m in [
        FakeSysfs::online("0").topology(),
        Topology::from_synthetic("pu:1").expect("valid"),
    ] {
        for scope in AffinityScope::CONCRETE {
            assert_eq!(Pods::build(&m, scope, 8).pods().len(), 1, "{scope}");
        }
    }
}

#[test]
fn this_machine_is_read_and_allows_what_it_lets_us_use() {
    let m = Topology::from_sysfs(Path::new("/sys")).expect("this machine");
    assert!(!m.is_injected());
    assert!(!m.allowed().is_empty());
    assert!(m.allowed().is_subset(m.online()));
    assert!(m.online().is_subset(m.possible()));
}

/// The message of an error, with the tree's directory as ROOT.
fn message(tree: &FakeSysfs) -> String {
    let error = tree.read().expect_err("must be refused").to_string();
    error.replace(&tree.root().display().to_string(), "ROOT")
}

#[test]
fn a_tree_that_names_no_cpu_is_refused() {
    let expected = "no CPU is online according to \"ROOT/devices/system/cpu/online\"; a CPU list such as 0-3 is wanted there";
    assert_eq!(message(&FakeSysfs::new()), expected);
    assert_eq!(message(&FakeSysfs::online("")), expected);
}

#[test]
fn a_root_that_is_no_directory_is_refused() {
    let tree = FakeSysfs::new();
    tree.write("file", "");
    for root in [tree.path("nowhere"), tree.path("file"), "".into()] {
        let error = Topology::from_sysfs(&root).expect_err("no directory");
        assert!(
            matches!(&error, TopologyError::Root { path, .. } if *path == root),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("cannot read the sysfs root {root:?}: ")),
            "{error}"
        );
    }
}

#[test]
fn a_pipe_in_a_copy_of_a_tree_is_not_waited_for() {
    let tree = FakeSysfs::online("0-1");
    let pipe = tree.path("cpu/possible");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(tree.topology().online().to_string()));
    let online = told.recv_timeout(Duration::from_secs(60));
    assert_eq!(online.as_deref(), Ok("0-1"));
}
