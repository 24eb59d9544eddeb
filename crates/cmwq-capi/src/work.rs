//! Items without a timer.

use crate::call::{Call, FULL, Failed, Wrong, abi, set_errno};
use crate::handle::{Wq, cpu_from_c};
use crate::queue::from_c;
use cmwq::raw::RawWork;
use cmwq::types::{FlushError, Queued};
use cmwq::{Error, Refused};
use std::ffi::{c_int, c_uint};
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::time::Duration;

// What cmwq.h says of its layout; an item in C is longer by the 8 bytes that are kept for later.
const _: () = assert!(size_of::<RawWork>() == 40 && align_of::<RawWork>() == 8);

const BUSY_PENDING: c_uint = 1;
const BUSY_RUNNING: c_uint = 2;

/// Why a pointer cannot be an item.
#[cold]
fn no_item<R: Failed>(call: &Call, item: *const RawWork) -> R {
    if item.is_null() {
        call.wrong(Wrong::NullItem, "the item is NULL")
    } else if !item.is_aligned() {
        call.wrong(
            Wrong::MisalignedItem,
            "the item is not aligned to 8: it is no work item",
        )
    } else {
        call.wrong(
            Wrong::NoFunction,
            "the item has no function: it was never initialised",
        )
    }
}

#[inline]
fn plausible(item: *mut RawWork) -> Option<NonNull<RawWork>> {
    NonNull::new(item).filter(|item| item.is_aligned())
}

/// An item that could be queued: it has a function.
///
/// # Safety
/// If not NULL and aligned, it is an item's memory.
#[inline]
pub(crate) unsafe fn with_function(item: *mut RawWork) -> Option<NonNull<RawWork>> {
    // SAFETY: by the caller's promise.
    plausible(item).filter(|item| unsafe { item.as_ref() }.has_function())
}

impl Call {
    /// Calls `f` with an item that need not have been initialised, zeros will do.
    ///
    /// # Safety
    /// If not NULL and aligned, it is an item's memory.
    pub(crate) unsafe fn with_item<R: Failed>(
        &self,
        item: *mut RawWork,
        f: impl FnOnce(&RawWork) -> R,
    ) -> R {
        match plausible(item) {
            // SAFETY: by the caller's promise.
            Some(item) => f(unsafe { item.as_ref() }),
            None => no_item(self, item),
        }
    }

    /// Calls `f` with an item that has a function.
    ///
    /// # Safety
    /// As for [`with_item`](Self::with_item).
    pub(crate) unsafe fn with_function<R: Failed>(
        &self,
        item: *mut RawWork,
        f: impl FnOnce(NonNull<RawWork>) -> R,
    ) -> R {
        // SAFETY: by the caller's promise.
        match unsafe { with_function(item) } {
            Some(item) => f(item),
            None => no_item(self, item),
        }
    }

    /// What C is told of an attempt to queue. A draining queue drops the item, has warned, and says "true".
    #[inline]
    pub(crate) fn queued(&self, queued: Queued) -> bool {
        match queued {
            Queued::Accepted => true,
            otherwise => self.not_accepted(otherwise),
        }
    }

    // By itself: what nearly every call comes to is two instructions in the caller.
    #[inline(never)]
    fn not_accepted(&self, queued: Queued) -> bool {
        match queued {
            Queued::Accepted | Queued::Refused(Refused::Draining) => true,
            Queued::AlreadyPending | Queued::Disabled => false,
            // No error of the caller's: it is told, and there is no warning.
            Queued::Refused(Refused::Full) => {
                set_errno(FULL);
                false
            }
            Queued::Refused(why @ Refused::Forked) => self.wrong(Wrong::Forked, &why.to_string()),
            Queued::Refused(why) => self.wrong(Wrong::NoThread, &why.to_string()),
        }
    }

    /// What C is told of a wait with a deadline: whether there was anything, or a negative error number.
    pub(crate) fn flushed(&self, result: Result<bool, FlushError>) -> c_int {
        match result {
            Ok(waited) => c_int::from(waited),
            Err(error) => self.waited(Err(error)),
        }
    }

    /// What C is told of a wait that has no error number: whether there was anything.
    pub(crate) fn flushed_for_ever(&self, result: Result<bool, FlushError>) -> bool {
        match result {
            Ok(waited) => waited,
            // The library has warned.
            Err(FlushError::OwnItem | FlushError::InWaker) => Failed::failed(Wrong::OwnItem),
            Err(_) => false,
        }
    }

    /// Says that an item is queued as if no CPU had been named.
    #[cold]
    pub(crate) fn no_cpu(&self, error: &Error) {
        self.warn(Wrong::NoCpu, || {
            format!("{error}; items are queued as if none had been named")
        });
    }

    #[inline]
    unsafe fn queue(&self, wq: *mut Wq, item: NonNull<RawWork>) -> bool {
        // SAFETY: the header asks for memory that stays until the function is called.
        match from_c(wq).map(|handle| unsafe { handle.queue_raw(item) }) {
            Some(Ok(queued)) => self.queued(queued),
            _ => self.no_queue(wq),
        }
    }
}

abi! {
    fn cmwq_queue_work(call, wq: *mut Wq, work: *mut RawWork) -> bool {
        // SAFETY: the header asks for an item that stays until its function is called.
        unsafe { call.with_function(work, |item| call.queue(wq, item)) }
    }

    fn cmwq_queue_work_wait_ns(call, wq: *mut Wq, work: *mut RawWork, timeout_ns: u64) -> c_int {
        // SAFETY: as above.
        unsafe {
            call.with_function(work, |item| {
                call.with(wq, |queue| {
                    let room = match timeout_ns {
                        u64::MAX => queue.room().wait(),
                        _ => queue.room().wait_timeout(Duration::from_nanos(timeout_ns)),
                    };
                    match room {
                        Ok(room) => call.fate(room.queue_raw(item)),
                        Err(Refused::Full) => -libc::ETIMEDOUT,
                        Err(why) => call.fate(Queued::Refused(why)),
                    }
                })
            })
        }
    }

    fn cmwq_queue_work_on(call, cpu: c_int, wq: *mut Wq, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe {
            call.with_function(work, |item| {
                let (Some(cpu), Some(handle)) = (cpu_from_c(cpu), from_c(wq)) else {
                    return call.queue(wq, item);
                };
                match handle.queue_raw_on(cpu, item) {
                    Ok(queued) => call.queued(queued),
                    Err(Error::NoSuchWorkqueue) => call.no_queue(wq),
                    // An error would be read as "pending already", and the item be lost.
                    Err(error @ Error::NoSuchCpu { .. }) => {
                        call.no_cpu(&error);
                        call.queue(wq, item)
                    }
                    Err(error) => call.error(&error),
                }
            })
        }
    }

    fn cmwq_queue_work_node(call, node: c_int, wq: *mut Wq, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe {
            call.with_function(work, |item| {
                call.with(wq, |queue| {
                    let Ok(node) = u32::try_from(node) else {
                        return call.queued(queue.queue_raw(item));
                    };
                    match queue.queue_raw_on_node(node, item) {
                        Ok(queued) => call.queued(queued),
                        // Best effort, as in the kernel: unconstrained.
                        Err(error) => {
                            call.warn(Wrong::NoNode, || error.to_string());
                            call.queued(queue.queue_raw(item))
                        }
                    }
                })
            })
        }
    }

    fn cmwq_flush_work(call, work: *mut RawWork) -> bool {
        // SAFETY: the header asks for an item.
        unsafe { call.with_function(work, |item| call.flushed_for_ever(item.as_ref().flush_by_workers())) }
    }

    fn cmwq_flush_work_as_kernel(call, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_function(work, |item| call.flushed_for_ever(item.as_ref().flush_as_kernel())) }
    }

    fn cmwq_flush_work_timeout_ns(call, work: *mut RawWork, timeout_ns: u64) -> c_int {
        let timeout = Duration::from_nanos(timeout_ns);
        // SAFETY: as above.
        unsafe { call.with_function(work, |item| call.flushed(item.as_ref().flush_timeout(timeout))) }
    }

    fn cmwq_cancel_work(call, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_item(work, RawWork::cancel) }
    }

    fn cmwq_cancel_work_sync(call, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_item(work, RawWork::cancel_sync) }
    }

    fn cmwq_disable_work(call, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_item(work, RawWork::disable_work) }
    }

    fn cmwq_disable_work_sync(call, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_item(work, RawWork::disable_sync) }
    }

    fn cmwq_enable_work(call, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_item(work, RawWork::enable_work) }
    }

    fn cmwq_enable_and_queue_work(call, wq: *mut Wq, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe {
            call.with_function(work, |item| {
                call.with(wq, |queue| call.queued(queue.enable_and_queue_raw(item)))
            })
        }
    }

    fn cmwq_work_pending(call, work: *mut RawWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_item(work, RawWork::is_pending) }
    }

    fn cmwq_work_busy(call, work: *mut RawWork) -> c_uint {
        // SAFETY: as above.
        unsafe {
            call.with_item(work, |item| {
                let busy = item.busy();
                c_uint::from(busy.pending) * BUSY_PENDING + c_uint::from(busy.running) * BUSY_RUNNING
            })
        }
    }

    fn cmwq_current_work(_call) -> *mut RawWork {
        cmwq::raw::current_work().map_or(std::ptr::null_mut(), <*const RawWork>::cast_mut)
    }
}
