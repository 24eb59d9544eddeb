//! The machine in words, for the head of a report. Never the host's name.

use cmwq::topology::Topology;
use cmwq_command::figures::{cpu_model, kernel};
use serde::Serialize;

use crate::machine::MachineArgs;

/// What a reader must know to judge the figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Machine {
    /// All of it in one line.
    pub(super) description: String,
    /// `this machine`, or what described another.
    pub(super) source: String,
    pub(super) cpu_model: String,
    pub(super) kernel: String,
    /// CPUs of the topology that issuers may queue from.
    pub(super) cpus: usize,
    /// Last-level caches of the topology.
    pub(super) llcs: usize,
    /// CPUs that the process really runs on.
    pub(super) real_cpus: usize,
}

impl Machine {
    /// Reads the machine and the topology in use.
    pub(super) fn describe(args: &MachineArgs, topology: &Topology, cpus: usize) -> Self {
        let own_cpus = own_cpus();
        let source = match (&args.sysfs_root, &args.synthetic) {
            (Some(dir), _) => format!("sysfs root {}", dir.display()),
            (None, Some(text)) => format!("synthetic '{text}'"),
            (None, None) if topology.is_injected() => "CMWQ_TOPOLOGY".to_owned(),
            (None, None) => "this machine".to_owned(),
        };
        let mut machine = Machine {
            description: String::new(),
            source,
            cpu_model: cpu_model(),
            kernel: kernel(),
            cpus,
            llcs: llcs(topology),
            real_cpus: own_cpus.min(cpus),
        };
        machine.description = machine.words(own_cpus);
        machine
    }

    fn words(&self, own_cpus: usize) -> String {
        let shape = format!("{}, {}", count(self.cpus, "CPU"), count(self.llcs, "LLC"));
        if self.source == "this machine" {
            format!("{}, {shape}, Linux {}", self.cpu_model, self.kernel)
        } else {
            format!(
                "{shape} ({}), played by {} of {}, Linux {}",
                self.source,
                count(own_cpus, "CPU"),
                self.cpu_model,
                self.kernel
            )
        }
    }
}

/// Number and noun.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// CPUs that this process may run on.
fn own_cpus() -> usize {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (set.count() as usize).max(1),
        // More CPUs than the fixed-size set holds.
        Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Last-level caches that have an allowed CPU.
fn llcs(topology: &Topology) -> usize {
    topology
        .llcs()
        .iter()
        .filter(|llc| llc.intersects(topology.allowed()))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_is_described_with_the_one_that_plays_it() {
        let mut machine = Machine {
            description: String::new(),
            source: "this machine".into(),
            cpu_model: "Some CPU".into(),
            kernel: "6.18.0".into(),
            cpus: 2,
            llcs: 1,
            real_cpus: 2,
        };
        assert_eq!(machine.words(2), "Some CPU, 2 CPUs, 1 LLC, Linux 6.18.0");
        machine.source = "synthetic 'l3:2 core:1 pu:1'".into();
        machine.llcs = 2;
        assert_eq!(
            machine.words(2),
            "2 CPUs, 2 LLCs (synthetic 'l3:2 core:1 pu:1'), played by 2 CPUs of Some CPU, Linux 6.18.0"
        );
    }
}
