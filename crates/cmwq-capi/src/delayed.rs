//! Items with a timer.

use crate::call::{Call, abi};
use crate::queue::{Wq, cpu_from_c};
use cmwq::{Queued, RawDelayedWork, RawWork, Workqueue};
use std::ffi::c_int;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

// What cmwq.h says of its layout.
const _: () = assert!(size_of::<RawDelayedWork>() == 48 && align_of::<RawDelayedWork>() == 8);

impl Call {
    /// Calls `f` with a delayed item, which begins with the item that it delays.
    ///
    /// # Safety
    /// If not NULL and aligned, it is a delayed item's memory.
    unsafe fn with_delayed(
        &self,
        dwork: *mut RawDelayedWork,
        f: impl FnOnce(&RawDelayedWork) -> bool,
    ) -> bool {
        // SAFETY: by the caller's promise.
        unsafe { self.with_item(dwork.cast(), |_| f(&*dwork)) }
    }

    /// Queues or moves one, when the arguments are what they should be.
    ///
    /// # Safety
    /// As for [`Workqueue::queue_delayed_raw`], if it is a delayed item.
    unsafe fn delay(
        &self,
        cpu: c_int,
        wq: *mut Wq,
        dwork: *mut RawDelayedWork,
        how: impl FnOnce(Arc<Workqueue>, Option<usize>, NonNull<RawDelayedWork>) -> bool,
    ) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            self.with_function(dwork.cast::<RawWork>(), |item| {
                self.with(wq, |queue| how(queue, cpu_from_c(cpu), item.cast()))
            })
        }
    }

    unsafe fn queue_delayed(
        &self,
        cpu: c_int,
        wq: *mut Wq,
        dwork: *mut RawDelayedWork,
        delay_ns: u64,
    ) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            self.delay(cpu, wq, dwork, |queue, cpu, item| {
                self.queued_on(queue.queue_delayed_raw(cpu, item, Duration::from_nanos(delay_ns)))
            })
        }
    }

    unsafe fn mod_delayed(
        &self,
        cpu: c_int,
        wq: *mut Wq,
        dwork: *mut RawDelayedWork,
        delay_ns: u64,
    ) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            self.delay(cpu, wq, dwork, |queue, cpu, item| {
                match queue.mod_delayed_raw(cpu, item, Duration::from_nanos(delay_ns)) {
                    Ok((was_pending, queued)) => {
                        if matches!(queued, Queued::Refused(_)) {
                            // For its warning and errno.
                            self.queued(queued);
                        }
                        was_pending
                    }
                    Err(error) => self.error(&error),
                }
            })
        }
    }
}

abi! {
    fn cmwq_queue_delayed_work_ns(call, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: the header asks for an item that stays until its function is called.
        unsafe { call.queue_delayed(crate::queue::CPU_ANY, wq, dwork, delay_ns) }
    }

    fn cmwq_queue_delayed_work_on_ns(call, cpu: c_int, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe { call.queue_delayed(cpu, wq, dwork, delay_ns) }
    }

    fn cmwq_mod_delayed_work_ns(call, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe { call.mod_delayed(crate::queue::CPU_ANY, wq, dwork, delay_ns) }
    }

    fn cmwq_mod_delayed_work_on_ns(call, cpu: c_int, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe { call.mod_delayed(cpu, wq, dwork, delay_ns) }
    }

    fn cmwq_flush_delayed_work(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: the header asks for a delayed item.
        unsafe { call.with_function(dwork.cast(), |item| item.cast::<RawDelayedWork>().as_ref().flush_by_workers()) }
    }

    fn cmwq_cancel_delayed_work(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_delayed(dwork, RawDelayedWork::cancel) }
    }

    fn cmwq_cancel_delayed_work_sync(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_delayed(dwork, RawDelayedWork::cancel_sync) }
    }

    fn cmwq_disable_delayed_work(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_delayed(dwork, RawDelayedWork::disable_work) }
    }

    fn cmwq_disable_delayed_work_sync(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_delayed(dwork, RawDelayedWork::disable_sync) }
    }

    fn cmwq_enable_delayed_work(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_delayed(dwork, RawDelayedWork::enable_work) }
    }
}
