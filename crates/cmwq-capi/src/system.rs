//! The process's own workqueues, and what is built on them.

use crate::call::{Call, Wrong, abi, beside};
use crate::handle::{FIRST_HANDLE, Wq, cpu_from_c};
use cmwq::raw::{NamedWork, RawWork, SystemQueue, SystemWorkqueue, WorkFn, WorkqueueHandle};
use cmwq::types::{FlushError, Queued};
use cmwq::{Engine, Error};
use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// In the order of `enum cmwq_system`.
const ALL: [SystemWorkqueue; 12] = [
    SystemWorkqueue::PerCpu,
    SystemWorkqueue::Highpri,
    SystemWorkqueue::Long,
    SystemWorkqueue::Dfl,
    SystemWorkqueue::DflLong,
    SystemWorkqueue::Freezable,
    SystemWorkqueue::PowerEfficient,
    SystemWorkqueue::FreezablePowerEfficient,
    SystemWorkqueue::Bh,
    SystemWorkqueue::BhHighpri,
    SystemWorkqueue::DeprecatedWq,
    SystemWorkqueue::DeprecatedUnboundWq,
];
pub(crate) const PERCPU: usize = 0;
pub(crate) const DFL: usize = 3;
pub(crate) const DFL_LONG: usize = 4;

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
    // Set only when it is true; registered twice, the handler does the same twice.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Acquire) {
        // SAFETY: the handler touches atomics only. If it cannot be registered, a child is refused
        // its parent's queues.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        WATCHED.store(true, Ordering::Release);
    }
}

pub(crate) fn handle_of(which: usize) -> Result<WorkqueueHandle, Error> {
    let known = WorkqueueHandle::from_bits(HANDLES[which].load(Ordering::Acquire));
    known.map_or_else(|| beside(|| make(which)), Ok)
}

#[cold]
fn make(which: usize) -> Result<WorkqueueHandle, Error> {
    let cached = &HANDLES[which];
    watch_forks();
    let handle = WorkqueueHandle::new(ALL[which].get()?)?;
    match cached.compare_exchange(0, handle.to_bits(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(handle),
        // Another thread was first. A second handle of the same queue cannot be given back without
        // ending the queue.
        Err(first) => Ok(WorkqueueHandle::from_bits(first).unwrap_or(handle)),
    }
}

/// The distance of the constants: they look like pointers to something aligned.
const CONSTANT_STEP: u64 = 16;

/// What C has of a system workqueue: a number that is the same in every process, so that there can
/// be symbols of it.
const fn constant(which: usize) -> *mut Wq {
    std::ptr::without_provenance_mut((which + 1) * CONSTANT_STEP as usize)
}
const _: () = assert!((ALL.len() as u64 + 1) * CONSTANT_STEP < FIRST_HANDLE);

/// The workqueue that such a number stands for, made if there is none yet; an error: it cannot be made.
fn try_of_constant(bits: u64) -> Option<Result<WorkqueueHandle, Error>> {
    let which = (bits / CONSTANT_STEP).checked_sub(1)? as usize;
    let is_one = bits.is_multiple_of(CONSTANT_STEP) && which < ALL.len();
    is_one.then(|| handle_of(which))
}

#[cold]
pub(crate) fn of_constant(bits: u64) -> Option<WorkqueueHandle> {
    try_of_constant(bits)?.ok()
}

/// Why there is no workqueue though this number stands for one.
pub(crate) fn why_not(bits: u64) -> Option<Error> {
    try_of_constant(bits)?.err()
}

/// A symbol that C reads a system workqueue from.
#[repr(transparent)]
pub struct Constant(*mut Wq);

// SAFETY: a number that is never written.
unsafe impl Sync for Constant {}

macro_rules! constants {
    ($($name:ident = $which:literal;)*) => {$(
        #[doc = concat!("See `", stringify!($name), "` in cmwq.h.")]
        #[allow(non_upper_case_globals, reason = "a name of the ABI")]
        #[unsafe(no_mangle)]
        pub static $name: Constant = Constant(constant($which));
    )*};
}

// By their places in `enum cmwq_system`.
constants! {
    cmwq_system_percpu_wq = 0;
    cmwq_system_highpri_wq = 1;
    cmwq_system_long_wq = 2;
    cmwq_system_dfl_wq = 3;
    cmwq_system_dfl_long_wq = 4;
    cmwq_system_freezable_wq = 5;
    cmwq_system_power_efficient_wq = 6;
    cmwq_system_freezable_power_efficient_wq = 7;
    cmwq_system_bh_wq = 8;
    cmwq_system_bh_highpri_wq = 9;
    cmwq_system_deprecated_wq = 10;
    cmwq_system_deprecated_unbound_wq = 11;
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

/// The system queue that it is a handle of.
pub(crate) fn of_handle(handle: WorkqueueHandle) -> Option<SystemQueue> {
    ALL[index_of(handle)?].get().ok()
}

type OnCpuFn = unsafe extern "C-unwind" fn(*mut c_void) -> c_long;

/// A function that a worker of one CPU calls while the caller waits. Tools show the item as it.
#[repr(C)]
struct OnCpu {
    work: NamedWork,
    func: OnCpuFn,
    arg: *mut c_void,
    /// `None`: it has not returned.
    result: Cell<Option<c_long>>,
}

impl OnCpu {
    fn new(func: OnCpuFn, arg: *mut c_void) -> Box<OnCpu> {
        Box::new(OnCpu {
            work: NamedWork::new(Self::run, func as usize),
            func,
            arg,
            result: Cell::new(None),
        })
    }

    /// Its own item is not told from the calling one if they have one address and function: see
    /// [`new_items`].
    fn unlike_current(func: OnCpuFn, arg: *mut c_void) -> Box<OnCpu> {
        let first = OnCpu::new(func, arg);
        match cmwq::raw::current_work() {
            Some(own) if std::ptr::eq(own, first.work.raw()) => OnCpu::new(func, arg),
            _ => first,
        }
    }

    unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        // SAFETY: it was queued by the address of the whole, which lives until this has returned.
        let own = unsafe { item.cast::<OnCpu>().as_ref() };
        let (func, arg) = (own.func, own.arg);
        // SAFETY: the header asks for a function that may be called so on another thread.
        let result = cmwq::raw::call_item_code(|| unsafe { func(arg) });
        own.result.set(Some(result));
    }
}

/// Waits for an item that the caller has just queued. If the item needs the place of the caller, so
/// that the wait would never end, it is removed: [`FlushError::OwnItem`] means that its function
/// neither runs nor will run. Other errors leave it where it is.
fn wait_or_take_back(item: &RawWork) -> Result<bool, FlushError> {
    match item.flush_by_workers() {
        // If it cannot be removed, it has begun since: another thread has raised the limit.
        Err(FlushError::OwnItem) if !item.cancel() => item.flush_as_kernel(),
        otherwise => otherwise,
    }
}

/// Runs the function on the CPU, and waits.
fn on_cpu(call: &Call, cpu: usize, func: OnCpuFn, arg: *mut c_void) -> c_long {
    let item = NonNull::from(Box::leak(OnCpu::unlike_current(func, arg)));
    // SAFETY: it is freed below when it has ended, and nowhere else.
    let queued =
        handle_of(PERCPU).and_then(|handle| unsafe { handle.queue_raw_on(cpu, item.cast()) });
    // SAFETY: no thread but this one frees it.
    let work = unsafe { item.as_ref() }.work.raw();
    let waits = match queued {
        Ok(queued) => queued.is_accepted().then(|| wait_or_take_back(work)),
        Err(error) => {
            // SAFETY: it was not queued.
            drop(unsafe { Box::from_raw(item.as_ptr()) });
            return call.error(&error);
        }
    };
    if let Some(Err(error)) = waits
        && error != FlushError::OwnItem
    {
        // It may still run, so it stays.
        return call.wrong(Wrong::Unsuitable, &error.to_string());
    }
    // SAFETY: it has ended, was refused, or was taken back.
    let ended = unsafe { Box::from_raw(item.as_ptr()) };
    if let Some(Err(error)) = waits {
        return call.wrong(Wrong::OwnItem, &error.to_string());
    }
    match ended.result.get() {
        Some(result) => result,
        None => call.wrong(Wrong::Unsuitable, "the function has not returned"),
    }
}

/// So many new items; `None`: there is no memory.
///
/// None of them has the address of the item that the calling thread runs. That one may have been
/// freed by its function, and an item at its address with the same function would count as the
/// same: it could not be waited for here.
fn new_items(count: usize, func: WorkFn) -> Option<Vec<RawWork>> {
    let make = || {
        let mut items: Vec<RawWork> = Vec::new();
        items.try_reserve_exact(count).ok()?;
        items.extend((0..count).map(|_| RawWork::new(func)));
        Some(items)
    };
    let items = make()?;
    match cmwq::raw::current_work() {
        // While the first ones are there, others are elsewhere.
        Some(own) if items.as_ptr_range().contains(&own) => make(),
        _ => Some(items),
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
    let Some(items) = new_items(cpus.len(), func) else {
        return call.wrong(Wrong::NoMemory, "no memory for the items");
    };
    let (mut failed, mut refused) = (None, false);
    for (cpu, item) in cpus.iter().zip(&items) {
        // SAFETY: every item is flushed below before it goes, and does not move: the vector is not
        // touched meanwhile.
        match unsafe { handle.queue_raw_on(cpu, NonNull::from(item)) } {
            // System workqueues are never drained.
            Ok(Queued::Refused(_)) => failed = Some(Error::Forked),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
    }
    for item in &items {
        refused |= wait_or_take_back(item) == Err(FlushError::OwnItem);
    }
    if refused {
        let why = "an item of a CPU needs the place of the calling one, and was not run";
        return call.wrong(Wrong::OwnItem, why);
    }
    failed.map_or(0, |error| call.error(&error))
}

abi! {
    fn cmwq_system_workqueue(call, which: c_uint) -> *mut Wq {
        if which as usize >= ALL.len() {
            return call.wrong(Wrong::NullArgument, "there is no such system workqueue");
        }
        match handle_of(which as usize) {
            Ok(_) => constant(which as usize),
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_work_on_cpu(call, cpu: c_int, func: Option<unsafe extern "C-unwind" fn(*mut c_void) -> c_long>, arg: *mut c_void) -> c_long {
        let Some(func) = func else {
            return call.wrong(Wrong::NullArgument, "the function is NULL");
        };
        let Some(cpu) = cpu_from_c(cpu) else {
            return call.wrong(Wrong::NoCpu, "the CPU must be named");
        };
        on_cpu(call, cpu, func, arg)
    }

    fn cmwq_schedule_on_each_cpu(call, func: Option<WorkFn>) -> c_int {
        match func {
            Some(func) => on_each_cpu(call, func),
            None => call.wrong(Wrong::NullArgument, "the function is NULL"),
        }
    }
}
