//! Workqueues: made, waited for, limited, destroyed.

use crate::call::{Call, Failed, Wrong, abi};
use crate::flags;
use crate::system;
use cmwq::{FlushError, Workqueue, WorkqueueHandle};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::Arc;

/// What C has of a workqueue: a pointer that points nowhere and whose value is a [`WorkqueueHandle`].
#[repr(C)]
pub struct Wq {
    _nothing: [u8; 0],
}

pub(crate) fn to_c(handle: WorkqueueHandle) -> *mut Wq {
    std::ptr::without_provenance_mut(handle.to_bits() as usize)
}

#[inline]
pub(crate) fn from_c(wq: *mut Wq) -> Option<WorkqueueHandle> {
    WorkqueueHandle::from_bits(wq.addr() as u64)
}

/// "Any CPU" in C.
pub(crate) const CPU_ANY: c_int = 8192;

/// A CPU's number from C; `None`: any.
pub(crate) fn cpu_from_c(cpu: c_int) -> Option<usize> {
    // A negative one becomes a number that no machine has.
    (cpu != CPU_ANY).then_some(cpu as usize)
}

impl Call {
    /// Calls `f` with the workqueue.
    pub(crate) fn with<R: Failed>(&self, wq: *mut Wq, f: impl FnOnce(Arc<Workqueue>) -> R) -> R {
        match from_c(wq).map(WorkqueueHandle::get) {
            Some(Ok(queue)) => f(queue),
            _ => self.no_queue(wq),
        }
    }

    /// Says which of the two it was.
    #[cold]
    pub(crate) fn no_queue<R: Failed>(&self, wq: *mut Wq) -> R {
        if wq.is_null() {
            self.wrong(Wrong::NullQueue, "the workqueue is NULL")
        } else {
            self.wrong(
                Wrong::NoQueue,
                "there is no such workqueue: it was destroyed, or never was",
            )
        }
    }

    fn waited(&self, result: Result<(), FlushError>) -> c_int {
        match result {
            Ok(()) => 0,
            // The library has warned.
            Err(FlushError::OwnItem) => Failed::failed(Wrong::OwnItem),
            Err(FlushError::Forked) => self.wrong(Wrong::Forked, &FlushError::Forked.to_string()),
        }
    }

    fn changed(&self, result: Result<(), cmwq::Error>) -> c_int {
        match result {
            Ok(()) => 0,
            Err(error) => self.error(&error),
        }
    }
}

/// # Safety
/// `name` is NULL or a string that ends with 0.
unsafe fn name_of(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}

abi! {
    fn cmwq_alloc_workqueue(call, name: *const c_char, flags: c_uint, max_active: c_int) -> *mut Wq {
        // SAFETY: the header asks for a string.
        match unsafe { name_of(name) } {
            Some(name) => flags::make(call, &name, flags, max_active, flags::Order::Free),
            None => call.wrong(Wrong::NullArgument, "the name is NULL"),
        }
    }

    fn cmwq_alloc_ordered_workqueue(call, name: *const c_char, flags: c_uint) -> *mut Wq {
        // SAFETY: as above.
        match unsafe { name_of(name) } {
            Some(name) => flags::make(call, &name, flags, 1, flags::Order::Ordered),
            None => call.wrong(Wrong::NullArgument, "the name is NULL"),
        }
    }

    fn cmwq_destroy_workqueue(call, wq: *mut Wq) -> c_int {
        let Some(handle) = from_c(wq) else {
            return call.no_queue(wq);
        };
        if system::is_system(handle) {
            return call.wrong(Wrong::SystemQueue, "a system workqueue cannot be destroyed");
        }
        match handle.destroy() {
            Ok(()) => 0,
            Err(_) => call.no_queue(wq),
        }
    }

    fn cmwq_flush_workqueue(call, wq: *mut Wq) -> c_int {
        match from_c(wq).and_then(system::of_handle) {
            Some(system) => call.waited(system.flush()),
            None => call.with(wq, |queue| call.waited(queue.flush())),
        }
    }

    fn cmwq_drain_workqueue(call, wq: *mut Wq) -> c_int {
        call.with(wq, |queue| call.waited(queue.drain()))
    }

    fn cmwq_workqueue_set_max_active(call, wq: *mut Wq, max_active: c_int) -> c_int {
        call.with(wq, |queue| {
            let max_active = flags::clamp_max_active(call, queue.name(), max_active);
            call.changed(queue.set_max_active(max_active))
        })
    }

    fn cmwq_workqueue_set_min_active(call, wq: *mut Wq, min_active: c_int) -> c_int {
        call.with(wq, |queue| {
            call.changed(queue.set_min_active(usize::try_from(min_active).unwrap_or(0)))
        })
    }

    fn cmwq_workqueue_congested(call, cpu: c_int, wq: *mut Wq) -> bool {
        call.with(wq, |queue| {
            let cpu = cpu_from_c(cpu).unwrap_or_else(crate::process::real_cpu);
            match queue.is_congested(cpu) {
                Ok(congested) => congested,
                Err(error) => call.error(&error),
            }
        })
    }
}
