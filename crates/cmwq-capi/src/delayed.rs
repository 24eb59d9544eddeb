//! Items with a timer.

use crate::call::{Call, Failed, Wrong, abi};
use crate::handle::{CPU_ANY, Wq, cpu_from_c};
use cmwq::raw::{MoveIf, RawDelayedWork, RawWork};
use cmwq::types::{Moved, Queued};
use cmwq::{Error, Workqueue};
use std::ffi::c_int;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

// What cmwq.h says of its layout.
const _: () = assert!(size_of::<RawDelayedWork>() == 80 && align_of::<RawDelayedWork>() == 8);

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
    unsafe fn delay<R: Failed>(
        &self,
        cpu: c_int,
        wq: *mut Wq,
        dwork: *mut RawDelayedWork,
        how: impl Fn(&Workqueue, Option<usize>, NonNull<RawDelayedWork>) -> Result<R, Error>,
    ) -> R {
        // SAFETY: by the caller's promise.
        unsafe {
            self.with_function(dwork.cast::<RawWork>(), |item| {
                self.with(wq, |queue| {
                    let mut done = how(&queue, cpu_from_c(cpu), item.cast());
                    // An error would be read as "pending already", and the item be lost.
                    if let Err(error @ Error::NoSuchCpu { .. }) = &done {
                        self.no_cpu(error);
                        done = how(&queue, None, item.cast());
                    }
                    done.unwrap_or_else(|error| self.error(&error))
                })
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
                let delay = Duration::from_nanos(delay_ns);
                let queued = queue.queue_delayed_raw(cpu, item, delay)?;
                Ok(self.queued(queued))
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
        let nothing = (std::ptr::null_mut(), 0);
        // SAFETY: by the caller's promise.
        unsafe { self.mod_delayed_if(MoveIf::Always, cpu, wq, dwork, delay_ns, nothing) }
    }

    /// `note`: what to store where, unless NULL, while the item is the caller's.
    unsafe fn mod_delayed_if(
        &self,
        which: MoveIf,
        cpu: c_int,
        wq: *mut Wq,
        dwork: *mut RawDelayedWork,
        delay_ns: u64,
        (noted, value): (*mut u64, u64),
    ) -> bool {
        // SAFETY: by the caller's promise, a place for it; C programs access it in the same manner.
        let noted = (!noted.is_null()).then(|| unsafe { AtomicU64::from_ptr(noted) });
        let note = noted.map(|place| (place, value));
        // SAFETY: by the caller's promise.
        unsafe {
            self.delay(cpu, wq, dwork, |queue, cpu, item| {
                let delay = Duration::from_nanos(delay_ns);
                let moved = queue.mod_delayed_raw_if(which, cpu, item, delay, note)?;
                if let Some(Moved::Refused { why, .. }) = moved {
                    // For its warning and errno.
                    self.queued(Queued::Refused(why));
                }
                // Only a pending item is kept.
                Ok(moved.map_or(which == MoveIf::Later, Moved::was_pending))
            })
        }
    }
}

abi! {
    fn cmwq_try_queue_delayed_work_ns(call, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> c_int {
        let delay = Duration::from_nanos(delay_ns);
        // SAFETY: the header asks for an item that stays until its function is called.
        unsafe {
            call.delay(CPU_ANY, wq, dwork, |queue, cpu, item| {
                Ok(call.fate(queue.queue_delayed_raw(cpu, item, delay)?))
            })
        }
    }

    fn cmwq_try_mod_delayed_work_ns(call, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> c_int {
        let delay = Duration::from_nanos(delay_ns);
        // SAFETY: as above.
        unsafe {
            call.delay(CPU_ANY, wq, dwork, |queue, cpu, item| {
                Ok(call.fate_of_moved(queue.mod_delayed_raw(cpu, item, delay)?))
            })
        }
    }

    fn cmwq_queue_delayed_work_ns(call, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: the header asks for an item that stays until its function is called.
        unsafe { call.queue_delayed(CPU_ANY, wq, dwork, delay_ns) }
    }

    fn cmwq_queue_delayed_work_on_ns(call, cpu: c_int, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe { call.queue_delayed(cpu, wq, dwork, delay_ns) }
    }

    fn cmwq_mod_delayed_work_ns(call, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe { call.mod_delayed(CPU_ANY, wq, dwork, delay_ns) }
    }

    fn cmwq_mod_delayed_work_on_ns(call, cpu: c_int, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe { call.mod_delayed(cpu, wq, dwork, delay_ns) }
    }

    fn cmwq_mod_delayed_work_if_ns(call, which: c_int, cpu: c_int, wq: *mut Wq, dwork: *mut RawDelayedWork, delay_ns: u64, noted: *mut u64, value: u64) -> bool {
        let which = match which {
            0 => MoveIf::Always,
            1 => MoveIf::Pending,
            2 => MoveIf::Later,
            _ => return call.wrong(Wrong::Unsuitable, "no enum cmwq_mod_if"),
        };
        // SAFETY: as above.
        unsafe { call.mod_delayed_if(which, cpu, wq, dwork, delay_ns, (noted, value)) }
    }

    fn cmwq_delayed_work_left_ns(call, dwork: *const RawDelayedWork) -> u64 {
        // SAFETY: the header asks for a delayed item.
        unsafe {
            call.with_item(dwork.cast::<RawWork>().cast_mut(), |_| {
                u64::try_from((*dwork).time_left().as_nanos()).unwrap_or(u64::MAX)
            })
        }
    }

    fn cmwq_flush_delayed_work(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: the header asks for a delayed item.
        unsafe { call.with_function(dwork.cast(), |item| call.flushed_for_ever(item.cast::<RawDelayedWork>().as_ref().flush_by_workers())) }
    }

    fn cmwq_flush_delayed_work_as_kernel(call, dwork: *mut RawDelayedWork) -> bool {
        // SAFETY: as above.
        unsafe { call.with_function(dwork.cast(), |item| call.flushed_for_ever(item.cast::<RawDelayedWork>().as_ref().flush_as_kernel())) }
    }

    fn cmwq_flush_delayed_work_timeout_ns(call, dwork: *mut RawDelayedWork, timeout_ns: u64) -> c_int {
        let timeout = Duration::from_nanos(timeout_ns);
        // SAFETY: as above.
        unsafe {
            call.with_function(dwork.cast(), |item| {
                call.flushed(item.cast::<RawDelayedWork>().as_ref().flush_timeout(timeout))
            })
        }
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
