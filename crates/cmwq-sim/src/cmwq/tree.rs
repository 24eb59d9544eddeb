//! The machine as the library reads it.

use super::Failed;
use cmwq_simulated::topology::Topology;
use cmwq_vm::machine::{Machine, Place};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

/// The machine as the library reads it: from a tree like `/sys`, which takes a while to write.
///
/// # Errors
/// The tree cannot be written, or the library does not accept it.
pub fn topology(machine: &Machine) -> Result<Topology, Failed> {
    let root = tempfile::tempdir().map_err(Failed::Description)?;
    write_tree(machine, root.path()).map_err(Failed::Description)?;
    Topology::from_sysfs(root.path()).map_err(Failed::Topology)
}

fn write_tree(machine: &Machine, root: &Path) -> io::Result<()> {
    let cpu_dir = root.join("devices/system/cpu");
    let list = |same: &dyn Fn(&Place) -> bool| {
        let mut text = String::new();
        for (cpu, place) in machine.cpus.iter().enumerate() {
            if same(place) {
                let comma = if text.is_empty() { "" } else { "," };
                let _ = write!(text, "{comma}{cpu}");
            }
        }
        text + "\n"
    };
    fs::create_dir_all(&cpu_dir)?;
    for name in ["online", "possible"] {
        fs::write(cpu_dir.join(name), list(&|_| true))?;
    }
    for (cpu, place) in machine.cpus.iter().enumerate() {
        let dir = cpu_dir.join(format!("cpu{cpu}"));
        fs::create_dir_all(dir.join("topology"))?;
        fs::create_dir_all(dir.join("cache/index3"))?;
        let siblings = list(&|other| other.core == place.core);
        fs::write(dir.join("topology/thread_siblings_list"), siblings)?;
        fs::write(
            dir.join("topology/physical_package_id"),
            format!("{}\n", place.package),
        )?;
        fs::write(dir.join("cache/index3/level"), "3\n")?;
        fs::write(dir.join("cache/index3/type"), "Unified\n")?;
        let shared = list(&|other| other.llc == place.llc);
        fs::write(dir.join("cache/index3/shared_cpu_list"), shared)?;
        let node = root.join(format!("devices/system/node/node{}", place.node));
        fs::create_dir_all(&node)?;
        fs::write(
            node.join("cpulist"),
            list(&|other| other.node == place.node),
        )?;
    }
    Ok(())
}
