//! Virtual threads.
#![forbid(unsafe_code)]

use crate::sys::holds;
use crate::topology::CpuSet;
use cmwq_vm::{Cpus, Tid, os};
use std::io;

pub(crate) fn spawn(name: &str, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    cmwq_vm::creation()?;
    os::spawn(name, None, main).map(drop)
}

/// Nothing on the virtual machine binds the threads of others, so the caller does not wait until
/// the thread has bound itself.
pub(crate) fn spawn_bound(
    name: &str,
    cpus: &CpuSet,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let cpus = cpus.clone();
    spawn(name, move || {
        let _ = bind_current(&cpus);
        main();
    })
}

/// Virtual threads have no stack size.
pub(crate) fn spawn_with_stack(
    name: &str,
    _stack_size: Option<usize>,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    spawn(name, main)
}

/// Virtual threads keep their names.
pub(crate) struct ThreadName;

impl ThreadName {
    pub(crate) fn new(_name: &str) -> Self {
        ThreadName
    }

    pub(crate) fn restore(&self) {}
}

/// 0 outside a machine.
#[inline]
pub(crate) fn current_tid() -> i32 {
    match cmwq_vm::is_inside() {
        true => os::current().number() as i32,
        false => 0,
    }
}

fn tid(number: i32) -> Option<Tid> {
    Tid::from_number(u32::try_from(number).ok()?)
}

fn bind(tid: Option<Tid>, cpus: &CpuSet) -> io::Result<()> {
    let tid = tid.ok_or(io::ErrorKind::NotFound)?;
    match os::set_affinity(tid, cpus.iter().collect()) {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

pub(crate) fn bind_current(cpus: &CpuSet) -> io::Result<()> {
    bind(Some(os::current()), cpus)
}

pub(crate) fn bind_other(number: i32, cpus: &CpuSet) -> io::Result<()> {
    bind(tid(number), cpus)
}

pub(crate) fn bind_other_to(number: i32, cpu: usize) -> io::Result<()> {
    bind(tid(number), &CpuSet::from_iter([cpu]))
}

pub(crate) fn rename_current(_name: &std::ffi::CStr) {}

pub(crate) fn nice_of_current() -> Option<i32> {
    Some(0)
}

/// Virtual threads have no nice levels yet.
pub(crate) fn set_nice_current(_nice: i32) -> io::Result<()> {
    Ok(())
}

fn usage() -> Option<os::Usage> {
    cmwq_vm::is_inside().then(os::current).and_then(os::usage)
}

#[cfg(any(test, debug_assertions))]
pub(crate) fn voluntary_switches() -> i64 {
    usage().map_or(0, |usage| usage.voluntary)
}

pub(crate) fn current_binding() -> io::Result<CpuSet> {
    binding(Some(os::current()))
}

pub(crate) fn binding_of(number: i32) -> io::Result<CpuSet> {
    binding(tid(number))
}

fn binding(tid: Option<Tid>) -> io::Result<CpuSet> {
    let cpus: Option<Cpus> = tid.and_then(os::affinity);
    Ok(cpus.ok_or(io::ErrorKind::NotFound)?.iter().collect())
}

pub(crate) fn cpu_time_ns(number: i32) -> Option<u64> {
    tid(number).and_then(os::usage).map(|usage| usage.ran_ns)
}

pub(crate) fn cpu_time_of_current_ns() -> u64 {
    holds::may_be_preempted();
    usage().map_or(0, |usage| usage.ran_ns)
}

/// What the machine knows of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    Awake,
    Asleep,
    /// The thread no longer exists.
    Unknown,
}

pub(crate) fn state_of(number: i32) -> ThreadState {
    match tid(number).and_then(os::usage) {
        None => ThreadState::Unknown,
        Some(usage) if usage.is_asleep => ThreadState::Asleep,
        Some(_) => ThreadState::Awake,
    }
}

pub(crate) fn voluntary_switches_of(number: i32) -> Option<u64> {
    tid(number)
        .and_then(os::usage)
        .map(|usage| usage.voluntary as u64)
}
