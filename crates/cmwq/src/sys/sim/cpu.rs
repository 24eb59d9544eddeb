//! The virtual machine's CPUs. Outside a machine there is one.
#![forbid(unsafe_code)]

use cmwq_vm::os;

#[inline]
pub(crate) fn current() -> Option<usize> {
    cmwq_vm::is_inside().then(os::current_cpu)
}

pub(crate) fn configured() -> usize {
    // The next machine may be another one: what is made once for each process is made for the largest.
    cmwq_vm::machine::most_cpus()
}
