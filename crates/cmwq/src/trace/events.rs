//! Events of the hot paths: each function checks one switch first, and the rest is out of line.
#![forbid(unsafe_code)]

use super::recorder;
use super::runs;
use crate::sys::names::shown;
use crate::sys::probe;
use cmwq_trace::TraceKind;
use std::ffi::CStr;

/// Reports that an item is about to be published on a pool of `cpu` (`None`: on the pool of a pod).
/// `requested` is the CPU that the issuer named.
#[cold]
#[inline(never)]
pub(crate) fn queued(
    item: usize,
    func: usize,
    queue: (usize, &str),
    requested: Option<usize>,
    cpu: Option<usize>,
) {
    let func = shown(func);
    let number = |cpu: Option<usize>| cpu.and_then(|cpu| i32::try_from(cpu).ok()).unwrap_or(-1);
    let (requested_cpu, cpu) = (number(requested), number(cpu));
    // The name of a queue has at most 31 bytes, so there is room for the NUL.
    let mut name = [0; 32];
    let kept = queue.1.len().min(name.len() - 1);
    name[..kept].copy_from_slice(&queue.1.as_bytes()[..kept]);
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    probe::workqueue_queue_work(item, func, name, requested_cpu, cpu);
    let mut event = recorder::event(TraceKind::QueueWork, item, func, queue.0);
    (event.requested_cpu, event.cpu) = (requested_cpu, cpu);
    recorder::record(event);
}

/// Reports that an instance of an item became active.
#[inline(always)]
pub(crate) fn activated(item: usize, func: impl FnOnce() -> usize) {
    #[cold]
    #[inline(never)]
    fn tell(item: usize, func: usize) {
        let func = shown(func);
        probe::workqueue_activate_work(item, func);
        recorder::record(recorder::event(TraceKind::ActivateWork, item, func, 0));
    }
    if probe::events_wanted() {
        tell(item, func());
    }
}

/// Reports that an item's function is about to be called.
#[inline(always)]
pub(crate) fn execute_start(item: usize, func: usize, queue: usize) {
    #[cold]
    #[inline(never)]
    fn tell(item: usize, func: usize, queue: usize) {
        let func = shown(func);
        probe::workqueue_execute_start(item, func);
        recorder::record(recorder::event(TraceKind::ExecuteStart, item, func, queue));
        runs::begin(item, func, queue);
    }
    if probe::events_wanted() {
        tell(item, func, queue);
    }
}

/// Reports that an item's function has returned. `what` is the item, its function and its queue.
#[inline(always)]
pub(crate) fn execute_end(what: impl FnOnce() -> (usize, usize, usize)) {
    #[cold]
    #[inline(never)]
    fn tell(item: usize, func: usize, queue: usize) {
        let func = shown(func);
        runs::end(item, func, queue);
        probe::workqueue_execute_end(item, func);
        recorder::record(recorder::event(TraceKind::ExecuteEnd, item, func, queue));
    }
    if probe::events_wanted() {
        let (item, func, queue) = what();
        tell(item, func, queue);
    }
}
