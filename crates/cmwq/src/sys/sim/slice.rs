//! Slices of virtual threads.
#![forbid(unsafe_code)]

use crate::sys::holds;
use cmwq_vm::{Tid, os};
use std::io;

const SHORT_NS: u64 = 100_000;

pub(crate) fn set(tid: i32, is_short: bool) -> io::Result<()> {
    holds::may_be_preempted();
    let thread = u32::try_from(tid).ok().and_then(Tid::from_number);
    let found = thread.is_some_and(|tid| os::set_slice(tid, is_short.then_some(SHORT_NS)));
    found
        .then_some(())
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Unit tests run outside a machine.
#[cfg(all(test, not(cmwq_loom)))]
pub(crate) fn of(_tid: i32) -> Option<u64> {
    None
}
