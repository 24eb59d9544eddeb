//! The virtual machine's CPUs. Outside a machine there is one.
#![forbid(unsafe_code)]

use cmwq_topology::{CpuQuota, CpuSet, GroupLimit, TopologyError};
use cmwq_vm::os;

#[inline]
pub(crate) fn current() -> Option<usize> {
    cmwq_vm::is_inside().then(os::current_cpu)
}

pub(crate) fn configured() -> usize {
    // The next machine of this process may be larger, so tables that are made once for a process
    // are made for the largest one.
    cmwq_vm::machine::most_cpus()
}

pub(crate) fn process_cpus() -> Result<CpuSet, TopologyError> {
    if cmwq_vm::is_inside() {
        return Ok((0..os::cpus()).collect());
    }
    cmwq_topology::process_cpus()
}

/// Whether the machine has these CPUs.
pub(crate) fn are_the_machine(cpus: &CpuSet) -> bool {
    cmwq_vm::is_inside() && cpus.iter().eq(0..os::cpus())
}

pub(crate) fn quota() -> CpuQuota {
    virtual_quota().unwrap_or_else(CpuQuota::detect)
}

/// `None`: the caller is not inside a machine.
fn virtual_quota() -> Option<CpuQuota> {
    cmwq_vm::is_inside().then(|| {
        let quota = cmwq_vm::quota().map(|quota| GroupLimit {
            group: "/".into(),
            quota_us: quota.quota_us,
            period_us: quota.period_us,
        });
        quota.map_or_else(CpuQuota::default, CpuQuota::from)
    })
}

#[derive(Default)]
pub(crate) struct FollowedQuota(cmwq_topology::FollowedQuota);

impl FollowedQuota {
    pub(crate) fn read(&mut self) -> CpuQuota {
        virtual_quota().unwrap_or_else(|| self.0.read())
    }
}
