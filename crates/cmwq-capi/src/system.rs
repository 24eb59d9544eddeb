//! The process's own workqueues, and what is built on them.

use crate::call::{Call, Wrong, abi};
use crate::queue::{Wq, cpu_from_c, to_c};
use cmwq::{
    Engine, Error, RawWork, SystemQueue, SystemWorkqueue, WQ_MAX_ACTIVE, WorkFn, Workqueue,
    WorkqueueHandle,
};
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// In the order of `enum cmwq_system`.
#[derive(Clone, Copy)]
enum Which {
    Current(SystemWorkqueue),
    /// A queue of its own under another's name.
    Deprecated {
        name: &'static str,
        instead: &'static str,
        of: SystemWorkqueue,
    },
}

const ALL: [Which; 12] = [
    Which::Current(SystemWorkqueue::PerCpu),
    Which::Current(SystemWorkqueue::Highpri),
    Which::Current(SystemWorkqueue::Long),
    Which::Current(SystemWorkqueue::Dfl),
    Which::Current(SystemWorkqueue::DflLong),
    Which::Current(SystemWorkqueue::Freezable),
    Which::Current(SystemWorkqueue::PowerEfficient),
    Which::Current(SystemWorkqueue::FreezablePowerEfficient),
    Which::Current(SystemWorkqueue::Bh),
    Which::Current(SystemWorkqueue::BhHighpri),
    Which::Deprecated {
        name: "system_wq",
        instead: "system_percpu_wq",
        of: SystemWorkqueue::PerCpu,
    },
    Which::Deprecated {
        name: "system_unbound_wq",
        instead: "system_dfl_wq",
        of: SystemWorkqueue::Dfl,
    },
];
const PERCPU: usize = 0;

/// Their handles, 0 where there is none yet.
static HANDLES: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// A fork's child makes its own.
fn watch_forks() {
    extern "C" fn in_child() {
        for handle in &HANDLES {
            handle.store(0, Ordering::Relaxed);
        }
    }
    // No Once: were it torn by a fork, the child would wait for it.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler touches atomics only. If it cannot be registered, a child is refused its parent's queues.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    }
}

fn handle_of(which: usize) -> Result<WorkqueueHandle, Error> {
    let cached = &HANDLES[which];
    if let Some(handle) = WorkqueueHandle::from_bits(cached.load(Ordering::Acquire)) {
        return Ok(handle);
    }
    watch_forks();
    let handle = match ALL[which] {
        Which::Current(system) => WorkqueueHandle::new(system.get()?)?,
        Which::Deprecated { of, .. } => {
            let builder = Workqueue::builder(of.name());
            let builder = match of {
                SystemWorkqueue::PerCpu => builder.per_cpu(),
                _ => builder.max_active(WQ_MAX_ACTIVE),
            };
            WorkqueueHandle::new(builder.build()?)?
        }
    };
    match cached.compare_exchange(0, handle.to_bits(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(handle),
        // Another thread was first. A second handle of the same queue cannot be given back without ending the queue, and one
        // of a deprecated queue is not worth it.
        Err(first) => Ok(WorkqueueHandle::from_bits(first).unwrap_or(handle)),
    }
}

/// Whether it is one of these.
pub(crate) fn is_system(handle: WorkqueueHandle) -> bool {
    index_of(handle).is_some()
}

fn index_of(handle: WorkqueueHandle) -> Option<usize> {
    let bits = handle.to_bits();
    HANDLES
        .iter()
        .position(|known| known.load(Ordering::Relaxed) == bits)
}

/// The system queue that it is a handle of, unless deprecated: waiting for one of those is not warned of.
pub(crate) fn of_handle(handle: WorkqueueHandle) -> Option<SystemQueue> {
    match ALL[index_of(handle)?] {
        Which::Current(system) => system.get().ok(),
        Which::Deprecated { .. } => None,
    }
}

/// An argument of C's that another thread is to use: C has said that it may.
struct Argument(*mut c_void);

// SAFETY: the caller passes it in order to have it used there, and waits meanwhile.
unsafe impl Send for Argument {}

impl Argument {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Queues one item for each CPU that may be used, and waits for all.
fn on_each_cpu(call: &Call, func: WorkFn) -> c_int {
    let prepared =
        Engine::global().and_then(|engine| Ok((engine.usable_cpus(), handle_of(PERCPU)?)));
    let (cpus, handle) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return call.error(&error),
    };
    let mut items: Vec<RawWork> = Vec::new();
    if items.try_reserve_exact(cpus.len()).is_err() {
        return call.wrong(Wrong::NoMemory, "no memory for the items");
    }
    items.extend(cpus.iter().map(|_| RawWork::new(func)));
    let mut failed = None;
    for (cpu, item) in cpus.iter().zip(&items) {
        // SAFETY: every item is flushed below before it goes, and does not move: the vector is not touched meanwhile.
        if let Err(error) = unsafe { handle.queue_raw_on(cpu, NonNull::from(item)) } {
            failed = Some(error);
        }
    }
    for item in &items {
        item.flush_by_workers();
    }
    failed.map_or(0, |error| call.error(&error))
}

abi! {
    fn cmwq_system_workqueue(call, which: c_uint) -> *mut Wq {
        let Some(kind) = ALL.get(which as usize) else {
            return call.wrong(Wrong::NullArgument, "there is no such system workqueue");
        };
        if let Which::Deprecated { name, instead, .. } = kind {
            // One bit for each of the two.
            let bit = if *name == "system_wq" { Wrong::Deprecated } else { Wrong::SystemQueue };
            call.warn(bit, || format!("{name} is deprecated; use {instead}"));
        }
        match handle_of(which as usize) {
            Ok(handle) => to_c(handle),
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_work_on_cpu(call, cpu: c_int, func: Option<unsafe extern "C-unwind" fn(*mut c_void) -> c_long>, arg: *mut c_void) -> c_long {
        let Some(func) = func else {
            return call.wrong(Wrong::NullArgument, "the function is NULL");
        };
        let arg = Argument(arg);
        // SAFETY: the header asks for a function that may be called with the argument on another thread.
        let run = move || unsafe { func(arg.get()) };
        let Some(cpu) = cpu_from_c(cpu) else {
            return call.wrong(Wrong::NoCpu, "the CPU must be named");
        };
        match cmwq::run_on_cpu(cpu, run) {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => call.wrong(Wrong::Unsuitable, &error.to_string()),
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_schedule_on_each_cpu(call, func: Option<WorkFn>) -> c_int {
        match func {
            Some(func) => on_each_cpu(call, func),
            None => call.wrong(Wrong::NullArgument, "the function is NULL"),
        }
    }
}
